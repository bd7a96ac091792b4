"""Rules on conditional requests and deltas.  RFC 9110, section 13.1; RFC 9111, section 4.3.1; RFC 3229.

Validators are opaque to clients and must be returned unchanged. Sent and issued validators are therefore compared as
text. The kind of a mismatch is determined afterwards.

An empty verdict means that the request keeps the rule. None means that the rule does not apply to the request.
"""

from feedproxy.clock import Seconds
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import parse_tag, parse_tags, tag_base, weak_match
from feedproxy.notes import Category, Level, Note
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rule_weights import NO_VIOLATIONS, Verdict, violation
from feedproxy.scoring.scored_request import Poll

UNCONDITIONAL_ALLOWED_AFTER: Seconds = 6.5 * 86_400
"""Age of the stored validators, in seconds, from which a reader may send an unconditional request. Such a request lets
a reader recover from a cache that answers 304 by mistake."""


def evaluate(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return the violations of a request with wrong validators or without validators. Return None if the request cannot
    show such a violation."""
    if not _is_informed(poll, state):
        return None
    if not state.stored and not state.issued:
        # Validators that the server issued before the recording began are unknown.
        return _evaluate_unconditional(poll, state)
    if not poll.is_conditional:
        if poll.method == "HEAD" or (poll.status == 206 and state.belongs_to_previous(poll)):
            return None  # no content is sent again
        if not state.is_storable or poll.at - state.stored_at >= UNCONDITIONAL_ALLOWED_AFTER or not state.stored:
            return None
        if state.is_new_address(poll.target):
            return None  # validators belong to an address, and this address has issued no validators
        return violation(
            UNCONDITIONAL_REPEAT,
            f"no condition, although the server had sent {_issued_names(state)}: {poll.size} bytes were sent again",
        )
    return (*_evaluate_tag(poll, state), *_evaluate_date(poll, state))


def evaluate_tag_use(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if a conditional request has no If-None-Match, although the server had sent an ETag.

    Return None if the server had sent no ETag, if the request is unconditional, or if the answer shows nothing about
    validators (`_is_informed`). This rule is separate, because If-Modified-Since alone usually saves the content, too.
    """
    if not state.stored.tag or not poll.is_conditional or not _is_informed(poll, state):
        return None
    if "if-none-match" in poll.fields:
        return NO_VIOLATIONS
    return violation(
        ETAG_NOT_RETURNED, f"only If-Modified-Since, although the server had sent ETag: {state.stored.tag}"
    )


def evaluate_delta(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if the request after a 226 does not send the ETag of the 226.

    Return None if the request cannot show this violation: for example, if it is unconditional, or if the last answer
    that arrived completely was not a 226.
    """
    if (
        not state.stored_is_delta
        or not state.stored.tag
        or poll.status not in (200, 226, 304)
        or not poll.is_conditional
    ):
        return None
    sent = _sent_tags(poll)
    if any(tag in sent for tag in _current_tags(poll, state)):
        return NO_VIOLATIONS
    if state.partial and not any(tag in state.issued.tags for tag in sent):
        return None  # another worker may have issued the tag after the 226
    return violation(
        ETAG_OF_226_NOT_RETURNED, f"If-None-Match {_condition_text(poll)}, but the 226 had {state.stored.tag}"
    )


def is_sent_in_vain(poll: Poll, state: ReaderState) -> bool:
    """Return True for a 200 with the ETag and Last-Modified of the copy that the reader already had."""
    stored = state.stored
    issued = (poll.answer.get("etag"), poll.answer.get("last-modified"))
    is_unchanged = bool(stored) and issued == (stored.tag or None, stored.modified or None)
    return poll.status == 200 and poll.is_success and is_unchanged


def _is_informed(poll: Poll, state: ReaderState) -> bool:
    """Return True if the answer depends on the validators (2xx or 304), and the reader has had time to read the
    previous answer."""
    return (poll.status < 300 or poll.status == 304) and poll.status != 0 and not state.is_duplicate(poll)


def _evaluate_unconditional(poll: Poll, state: ReaderState) -> Verdict | None:
    if state.last_success is None or not poll.is_conditional or state.partial:
        return None
    since = poll.fields.get("if-modified-since")
    if since is not None and since.strip() not in state.date_fields:
        return violation(
            UNKNOWN_LAST_MODIFIED, f"If-Modified-Since: {since}, but the server has never sent Last-Modified"
        )
    return (
        violation(UNKNOWN_ETAG, f"If-None-Match {_condition_text(poll)}, but the server has never sent an ETag")
        if _sent_tags(poll)
        else NO_VIOLATIONS
    )


def _evaluate_tag(poll: Poll, state: ReaderState) -> Verdict:
    sent = _sent_tags(poll)
    if not sent:
        return ()
    current = _current_tags(poll, state)
    if any(tag in sent for tag in current):
        return ()
    if state.stored_is_delta:
        return ()  # evaluate_delta reports this violation
    if any(tag in state.rejected.tags for tag in sent):
        return violation(
            VALIDATOR_OF_FAILURE,
            f"If-None-Match {_condition_text(poll)} was sent with an answer that was not a complete feed",
        )
    if any(tag in state.issued.tags for tag in sent):
        reason = (
            f"If-None-Match {_condition_text(poll)} is of an older version; "
            f"the current ETag is {state.stored.tag or 'absent'}"
        )
        return violation(VALIDATOR_REVERTED if state.last_sent.tag in current and current else OLD_ETAG, reason)
    altered = next((tag for tag in current if _is_altered(sent, tag)), None)
    if altered is not None:
        return violation(ETAG_ALTERED, f"If-None-Match {_condition_text(poll)} instead of {altered}")
    return (
        ()
        if state.partial
        else violation(
            UNKNOWN_ETAG, f"If-None-Match {_condition_text(poll)} was never sent by the server for this feed"
        )
    )


def _evaluate_date(poll: Poll, state: ReaderState) -> Verdict:
    sent = (poll.fields.get("if-modified-since") or "").strip()
    if (
        not sent
        or any(sent == validators.modified for validators in state.current_validators(poll.target))
        or (state.stored_is_delta and not state.stored.modified)
    ):
        return ()
    if sent in state.rejected.dates:
        return violation(
            VALIDATOR_OF_FAILURE, f"If-Modified-Since: {sent} was sent with an answer that was not a complete feed"
        )
    if sent in state.issued.dates:
        if state.stored_is_delta:
            return ()
        reason = (
            f"If-Modified-Since: {sent} is of an older version; "
            f"Last-Modified is now {state.stored.modified or 'absent'}"
        )
        if {*_current_tags(poll, state)} & {*_sent_tags(poll)}:
            return violation(MIXED_VALIDATORS, f"{reason}; If-None-Match {_condition_text(poll)} is current")
        back = state.last_sent.modified == state.stored.modified and state.stored.modified
        return violation(VALIDATOR_REVERTED if back else OLD_LAST_MODIFIED, reason)
    instant, modified = parse_http_date(sent, poll.at), parse_http_date(state.stored.modified, poll.at)
    if modified is not None and _parse_lenient_date(sent) == modified:
        return violation(LAST_MODIFIED_ALTERED, f"If-Modified-Since: {sent} instead of {state.stored.modified}")
    if state.partial or (not state.stored.modified and (sent in state.date_fields or instant is None)):
        return ()
    return violation(
        UNKNOWN_LAST_MODIFIED, f"If-Modified-Since: {sent}, but Last-Modified was {state.stored.modified or 'absent'}"
    )


def _sent_tags(poll: Poll) -> tuple[str, ...]:
    """Return the whole value of If-None-Match, followed by its tags as text. Servers also issue tags that cannot be
    parsed, and readers must return them unchanged."""
    value = (poll.fields.combined("if-none-match") or "").strip()
    if not value:
        return ()
    tags = parse_tags(value)
    if tags == "*" or len(tags) < 2:
        return (value,)
    return (value, *(tag.text for tag in tags))


def _current_tags(poll: Poll, state: ReaderState) -> list[str]:
    return [validators.tag for validators in state.current_validators(poll.target) if validators.tag]


def _is_altered(sent: tuple[str, ...], issued: str) -> bool:
    original = parse_tag(issued)
    for value in sent:
        tag = parse_tag(value.replace('\\"', '"').replace("&quot;", '"'))
        if tag is None or original is None:
            continue
        if (
            weak_match(tag, original)
            or tag_base(tag) == tag_base(original)
            or tag.opaque.strip('"') == original.opaque.strip('"')
        ):
            return True
    return False


def _parse_lenient_date(text: str) -> float | None:
    """Return the Unix time of an HTTP-date or of a date in mail format, or None if the date is invalid."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 -- for invalid dates only

    exact = parse_http_date(text)
    if exact is not None:
        return exact
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _condition_text(poll: Poll) -> str:
    return (poll.fields.combined("if-none-match") or "").strip()[:120]


def _issued_names(state: ReaderState) -> str:
    return f"ETag: {state.stored.tag}" if state.stored.tag else f"Last-Modified: {state.stored.modified}"


class UNCONDITIONAL_REPEAT(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "%(times)s had no conditions and fetched the whole feed again."
    advice = """\
    The server had sent ETag or Last-Modified, but the reader did not return them, so the server could not answer
    `304 Not Modified`. Store ETag and Last-Modified with the feed, also across restarts, and send them as
    `If-None-Match` and `If-Modified-Since` in every poll."""
    reference = "RFC 9110, sections 13.1.2 and 13.1.3; RFC 9111, section 4.3.1"


class ETAG_NOT_RETURNED(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "%(times)s had If-Modified-Since alone, although the server had sent an ETag, too."
    advice = """\
    Last-Modified counts in seconds and is often wrong. The ETag is exact. A conditional request must send
    `If-None-Match` if the server has provided an ETag. If-Modified-Since may stand beside it."""
    reference = "RFC 9111, section 4.3.1"


class ETAG_ALTERED(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "%(times)s returned the ETag in an altered form."
    advice = """\
    Quotation marks, `W/` and suffixes such as `-gzip` are part of the tag. Store the field's value unparsed and
    return it unchanged. A strict server does not recognise an altered tag and sends the whole feed."""
    reference = "RFC 9110, sections 8.8.3 and 13.1.2"


class LAST_MODIFIED_ALTERED(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "%(times)s returned the date of Last-Modified in an altered form."
    advice = "Many servers compare the text of the date. Store the field's value unparsed and return it unchanged."
    reference = "RFC 9110, section 13.1.3"


class OLD_ETAG(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "%(times)s had the ETag of an older version, although the reader had received a newer version."
    advice = """\
    The server answers such a request with the whole feed until the reader replaces the tag. Store the validators of
    every complete 200 together with its content, and not only the validators of the first 200."""
    reference = "RFC 9111, section 4.3.4"


class OLD_LAST_MODIFIED(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "%(times)s had the Last-Modified of an older version, although the reader had received a newer version."
    advice = """\
    The server answers such a request with the whole feed until the reader replaces the date. Store the validators of
    every complete 200 together with its content, and not only the validators of the first 200."""
    reference = "RFC 9111, section 4.3.4"


class VALIDATOR_REVERTED(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "%(times)s had an older validator, although an earlier request had already used a newer validator."
    advice = """\
    Several processes or machines of the reader seem to store separate copies and to take turns. Let them share the
    stored feed and its validators, so that each version is fetched once."""
    reference = "RFC 9111, section 4.3.1"


class MIXED_VALIDATORS(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "%(times)s had the ETag of one answer and the Last-Modified of another."
    advice = """\
    Store ETag and Last-Modified together, and replace both with each answer. If an answer lacks one of the two
    fields, delete the stored value of that field."""
    reference = "RFC 9110, section 13.2.2"


class UNKNOWN_ETAG(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "%(times)s had an ETag that the server had never sent for this feed."
    advice = """\
    Only the server knows what its tags mean. A tag of another feed, or a tag that the reader makes, such as a hash of
    the content, never matches. If it matches another version by chance, the reader misses entries. Store each tag
    with its feed, and return it unchanged."""
    reference = "RFC 9110, section 8.8.3"


class UNKNOWN_LAST_MODIFIED(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "%(times)s had an If-Modified-Since that the server had never sent as Last-Modified."
    advice = """\
    The time of the last poll by the reader's clock is not a validator. The reader misses entries that are published
    with an older date or while the clocks differ, and servers that compare the text send the whole feed. Return
    Last-Modified unchanged. If the answer
    had no Last-Modified, send no If-Modified-Since."""
    reference = "RFC 9110, section 13.1.3"


class VALIDATOR_OF_FAILURE(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "%(times)s had a validator of an answer that was not a complete feed."
    advice = """\
    The answer was truncated, could not be decoded, or was an error. A reader that stores the validators of such an
    answer gets 304 from then on, and never gets the missing entries. Store validators only with a feed that was
    received completely."""
    reference = "RFC 9111, section 3.3"


class ETAG_OF_226_NOT_RETURNED(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "%(times)s did not send the ETag of the previous 226."
    advice = """\
    The ETag of a 226 stands for the whole current feed, including the entries that the 226 left out. Send it in the
    next request. With an older tag, the server sends the same entries again."""
    reference = "RFC 3229, sections 10.4.1 and 5.2"


class VALIDATORS_RETURNED(Note, level=Level.GOOD, category=Category.CONDITIONS):
    summary = "Every repeated request was conditional and returned the validators unchanged."
    advice = "%(times)s could be answered with 304 whenever the feed had not changed."
    reference = "RFC 9110, section 13.1"


class DELTAS_ACCEPTED(Note, level=Level.GOOD, category=Category.CONDITIONS):
    summary = "The reader accepts deltas (226) and returns their ETags."
    advice = "The server sent only the new entries, and %(times)s returned the ETag of a 226."
    reference = "RFC 3229; docs/explanation/deltas.md"
