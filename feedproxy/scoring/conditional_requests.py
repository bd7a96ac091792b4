"""Rules on conditional requests and deltas.  RFC 9110, section 13.1; RFC 9111, section 4.3.1; RFC 3229.

Validators are opaque to clients and must be returned unchanged. Sent and issued validators are therefore compared as
text; the kind of a mismatch is determined afterwards.
"""

from feedproxy.clock import Seconds
from feedproxy.findings import Category, Level, Note
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import parse_tag, parse_tags, tag_base, weak_match
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rules import NO_VIOLATIONS, Observation, Verdict
from feedproxy.scoring.scored_request import Poll

UNCONDITIONAL_ALLOWED_AFTER: Seconds = 6.5 * 86_400
"""Seconds after which a reader may send an unconditional request, to recover from a stuck cache."""


def evaluate(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return violations in a request's conditions; None if there is nothing to compare them with."""
    if poll.status in (0, 504) or (poll.status >= 300 and poll.status != 304):
        return None
    if not state.stored and not state.issued:
        # Validators from before the recording are unknown.
        return _evaluate_unconditional(poll, state)
    if not poll.is_conditional:
        if not state.is_storable or poll.at - state.stored_at >= UNCONDITIONAL_ALLOWED_AFTER or not state.stored:
            return None
        if state.is_new_address(poll.target):
            return None  # validators belong to an address, and this one has not issued any
        return (
            Observation(
                UNCONDITIONAL_REPEAT, f"no condition, though {_issued_names(state)} was given: {poll.size} bytes came"
            ),
        )
    return (*_evaluate_tag(poll, state), *_evaluate_date(poll, state))


def evaluate_delta(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if the ETag of the last 226 is not sent; None if the rule does not apply."""
    if (
        not state.stored_is_delta
        or not state.stored.tag
        or poll.status not in (200, 226, 304)
        or not poll.is_conditional
    ):
        return None
    sent = _sent_tags(poll)
    if state.stored.tag in sent or (state.confirmed.tag and state.confirmed.tag in sent):
        return NO_VIOLATIONS
    if state.partial and not any(tag in state.issued.tags for tag in sent):
        return None  # another worker may have issued it since
    return (
        Observation(TAG_OF_226_UNUSED, f"If-None-Match {_condition_text(poll)}, and the 226 had {state.stored.tag}"),
    )


def _evaluate_unconditional(poll: Poll, state: ReaderState) -> Verdict | None:
    if state.last_success is None or not poll.is_conditional or state.partial:
        return None
    since = poll.fields.get("if-modified-since")
    if since is not None and since.strip() not in state.date_fields:
        return (Observation(INVENTED_DATE, f"If-Modified-Since: {since}, and no Last-Modified was ever given"),)
    return (
        (Observation(INVENTED_TAG, f"If-None-Match {_condition_text(poll)}, and no ETag was ever given"),)
        if _sent_tags(poll)
        else NO_VIOLATIONS
    )


def _evaluate_tag(poll: Poll, state: ReaderState) -> Verdict:
    sent = _sent_tags(poll)
    if not sent:
        if state.stored.tag:
            return (
                Observation(TAG_NOT_RETURNED, f"only If-Modified-Since, though ETag: {state.stored.tag} was given"),
            )
        return ()
    current = [tag for tag in (state.stored.tag, state.confirmed.tag) if tag]
    if any(tag in sent for tag in current):
        return ()
    if state.stored_is_delta:
        return ()  # that is told by its own name
    if any(tag in state.rejected.tags for tag in sent):
        return (
            Observation(
                TAG_OF_FAILURE, f"If-None-Match {_condition_text(poll)} is of an answer that was no whole feed"
            ),
        )
    if any(tag in state.issued.tags for tag in sent):
        reason = (
            f"If-None-Match {_condition_text(poll)} is of an older version; {state.stored.tag or 'none'} came since"
        )
        return (Observation(STEPPED_BACK if state.last_sent.tag in current and current else STALE_TAG, reason),)
    altered = next((tag for tag in current if _is_altered(sent, tag)), None)
    if altered is not None:
        return (Observation(ALTERED_TAG, f"If-None-Match {_condition_text(poll)} for {altered}"),)
    return (
        () if state.partial else (Observation(INVENTED_TAG, f"If-None-Match {_condition_text(poll)} was never given"),)
    )


def _evaluate_date(poll: Poll, state: ReaderState) -> Verdict:
    sent = (poll.fields.get("if-modified-since") or "").strip()
    if (
        not sent
        or sent in (state.stored.modified, state.confirmed.modified)
        or (state.stored_is_delta and not state.stored.modified)
    ):
        return ()
    if sent in state.rejected.dates:
        return (Observation(TAG_OF_FAILURE, f"If-Modified-Since: {sent} is of an answer that was no whole feed"),)
    if sent in state.issued.dates:
        if state.stored_is_delta:
            return ()
        reason = f"If-Modified-Since: {sent} is of an older version; {state.stored.modified or 'none'} came since"
        if {state.stored.tag, state.confirmed.tag} & {*_sent_tags(poll)}:
            return (
                Observation(MIXED_VALIDATORS, f"{reason}, and If-None-Match {_condition_text(poll)} is of the newest"),
            )
        back = state.last_sent.modified == state.stored.modified and state.stored.modified
        return (Observation(STEPPED_BACK if back else STALE_DATE, reason),)
    instant, held = parse_http_date(sent, poll.at), parse_http_date(state.stored.modified, poll.at)
    if held is not None and _parse_lenient_date(sent) == held:
        return (Observation(ALTERED_DATE, f"If-Modified-Since: {sent} for {state.stored.modified}"),)
    if state.partial or (not state.stored.modified and (sent in state.date_fields or instant is None)):
        return ()
    return (
        Observation(
            INVENTED_DATE, f"If-Modified-Since: {sent}, and Last-Modified was {state.stored.modified or 'absent'}"
        ),
    )


def _sent_tags(poll: Poll) -> tuple[str, ...]:
    """Return the tags of If-None-Match as text, and first the whole value, because servers issue invalid tags."""
    value = (poll.fields.combined("if-none-match") or "").strip()
    if not value:
        return ()
    tags = parse_tags(value)
    if tags == "*" or len(tags) < 2:
        return (value,)
    return (value, *(tag.text for tag in tags))


def _is_altered(sent: tuple[str, ...], given: str) -> bool:
    held = parse_tag(given)
    for value in sent:
        tag = parse_tag(value.replace('\\"', '"').replace("&quot;", '"'))
        if tag is None or held is None:
            continue
        if weak_match(tag, held) or tag_base(tag) == tag_base(held) or tag.opaque.strip('"') == held.opaque.strip('"'):
            return True
    return False


def _parse_lenient_date(text: str) -> float | None:
    """Return the time of a date in HTTP's form or in that of mail libraries; None if it is invalid."""
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


class UNCONDITIONAL_REPEAT(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "%(times)s fetched the whole feed again, changed or not."
    advice = """\
    The server gave ETag or Last-Modified, and they were not returned, so it could not answer `304 Not Modified`. Keep
    both with the feed, over restarts too, and send them as `If-None-Match` and `If-Modified-Since` each time."""
    reference = "RFC 9110, sections 13.1.2 and 13.1.3; RFC 9111, section 4.3.1"


class TAG_NOT_RETURNED(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "%(times)s had If-Modified-Since alone, where the server had given an ETag, too."
    advice = """\
    Dates count in seconds, and servers make mistakes with them; the tag is exact. Whoever asks with conditions must
    send the tag if there was one: `If-None-Match`, beside the date."""
    reference = "RFC 9111, section 4.3.1"


class ALTERED_TAG(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "%(times)s returned the ETag in another form than it came in."
    advice = """\
    Quotation marks, `W/` and suffixes such as `-gzip` are part of the tag. Keep the field's value as it came and
    send it back unread: a server that is strict does not know the tag in any other form, and sends everything."""
    reference = "RFC 9110, sections 8.8.3 and 13.1.2"


class ALTERED_DATE(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "%(times)s returned Last-Modified written in another form."
    advice = """\
    Many servers compare the text and not the time. Keep the field's value as it came and send it back unread."""
    reference = "RFC 9110, section 13.1.3"


class STALE_TAG(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "%(times)s had the ETag of an older version, though a newer one had been received."
    advice = """\
    Such a request is answered with the whole feed until the tag is replaced. Store the validators of every complete
    200, in one step with the content, not only those of the first."""
    reference = "RFC 9111, section 4.3.4"


class STALE_DATE(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "%(times)s had the Last-Modified of an older version, though a newer one had been received."
    advice = """\
    Such a request is answered with the whole feed until the date is replaced. Store the validators of every complete
    200, in one step with the content, not only those of the first."""
    reference = "RFC 9111, section 4.3.4"


class STEPPED_BACK(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "%(times)s went back to a validator that had been replaced, and used, before."
    advice = """\
    Several processes or machines seem to keep a copy each, and take turns. Let them share what they know of a feed,
    so that each version is fetched once."""
    reference = "RFC 9111, section 4.3.1"


class MIXED_VALIDATORS(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "%(times)s had the ETag of one answer and the Last-Modified of another."
    advice = """\
    Keep both together, as they came, and replace both at once; where an answer has only one of them, forget the
    other."""
    reference = "RFC 9110, section 13.2.2"


class INVENTED_TAG(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "%(times)s asked with an ETag that the server had never given."
    advice = """\
    A tag means nothing to anybody but the server that made it. One of the reader's own, such as a hash of the
    content, never matches, or worse: it matches something else, and news are missed."""
    reference = "RFC 9110, section 8.8.3"


class INVENTED_DATE(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "%(times)s asked with a date that the server had never given as Last-Modified."
    advice = """\
    The time of the last poll, by the reader's own clock, is no validator: what is published with an older date, or
    while the clocks differ, is never seen, and servers that compare the text send everything. Return Last-Modified
    as it came; without one, ask without."""
    reference = "RFC 9110, section 13.1.3"


class TAG_OF_FAILURE(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "%(times)s asked with the validator of an answer that was no whole feed."
    advice = """\
    The answer broke off, could not be unpacked, or was an error's. Who keeps its validator is told 304 from then on,
    and never sees what was missing. Keep validators only together with a feed that was read to its end."""
    reference = "RFC 9111, section 3.3"


class TAG_OF_226_UNUSED(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "%(times)s did not ask with the tag of the 226 that came before."
    advice = """\
    The ETag of a 226 names the whole feed as it is now, entries included that were not sent again. Ask with it next
    time; with the older tag the same entries come again and again."""
    reference = "RFC 3229, sections 10.4.1 and 5.2"


class ASKS_WELL(Note):
    level = Level.GOOD
    category = Category.CONDITIONS
    summary = "Every repeated request was conditional, with the validators exactly as they came."
    advice = "Nothing is sent twice: %(times)s could have been answered with 304 wherever nothing was new."
    reference = "RFC 9110, section 13.1"


class USES_DELTAS(Note):
    level = Level.GOOD
    category = Category.CONDITIONS
    summary = "The reader takes deltas (226), and asks with their tags."
    advice = "Only new entries travel. %(times)s showed it."
    reference = "RFC 3229; docs/explanation/deltas.md"
