"""Does the reader ask only for what has changed?  RFC 9110, section 13.1; RFC 9111, section 4.3.1; RFC 3229.

A validator is a word of the server's, to be given back as it came: nobody but the server knows what it means. So what
was sent is compared as text with what was given, and only where that fails it is found out what became of it.
"""

from feedproxy.clock import Seconds
from feedproxy.findings import Category, Level, Note
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import parse_tag, parse_tags, stem_of, weak_match
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rules import KEPT, Observation, Verdict
from feedproxy.scoring.scored_request import Poll

UNCONDITIONAL_ALLOWED_AFTER: Seconds = 6.5 * 86_400
"""After that long a reader may ask without conditions, to get out of a cache that is stuck."""


def evaluate(poll: Poll, known: ReaderState) -> Verdict | None:
    """None where the reader has nothing to ask with, or the answer says nothing of its conditions."""
    if poll.status in (0, 504) or (poll.status >= 300 and poll.status != 304):
        return None
    if not known.held and not known.given:
        # What it had before the recording began is not known, so nothing can be held against it.
        return _evaluate_unconditional(poll, known)
    if not poll.is_conditional:
        if not known.stores or poll.at - known.held_at >= UNCONDITIONAL_ALLOWED_AFTER or not known.held:
            return None
        if known.is_new_address(poll.target):
            return None  # validators are those of an address: this one has given none yet
        return (
            Observation(
                UNCONDITIONAL_REPEAT, f"no condition, though {_issued_names(known)} was given: {poll.size} bytes came"
            ),
        )
    return (*_evaluate_tag(poll, known), *_evaluate_date(poll, known))


def delta(poll: Poll, known: ReaderState) -> Verdict | None:
    """After a 226 its tag is the one to ask with."""
    if not known.held_delta or not known.held.tag or poll.status not in (200, 226, 304) or not poll.is_conditional:
        return None
    sent = _sent_tags(poll)
    if known.held.tag in sent or (known.other.tag and known.other.tag in sent):
        return KEPT
    if known.partial and not any(tag in known.given.tags for tag in sent):
        return None  # it may be of a newer answer, by another
    return (Observation(TAG_OF_226_UNUSED, f"If-None-Match {_condition_text(poll)}, and the 226 had {known.held.tag}"),)


def _evaluate_unconditional(poll: Poll, known: ReaderState) -> Verdict | None:
    if known.success is None or not poll.is_conditional or known.partial:
        return None
    since = poll.fields.get("if-modified-since")
    if since is not None and since.strip() not in known.dates:
        return (Observation(INVENTED_DATE, f"If-Modified-Since: {since}, and no Last-Modified was ever given"),)
    return (
        (Observation(INVENTED_TAG, f"If-None-Match {_condition_text(poll)}, and no ETag was ever given"),)
        if _sent_tags(poll)
        else KEPT
    )


def _evaluate_tag(poll: Poll, known: ReaderState) -> Verdict:
    sent = _sent_tags(poll)
    if not sent:
        if known.held.tag:
            return (Observation(TAG_NOT_RETURNED, f"only If-Modified-Since, though ETag: {known.held.tag} was given"),)
        return ()
    current = [tag for tag in (known.held.tag, known.other.tag) if tag]
    if any(tag in sent for tag in current):
        return ()
    if known.held_delta:
        return ()  # that is told by its own name
    if any(tag in known.broken.tags for tag in sent):
        return (
            Observation(
                TAG_OF_FAILURE, f"If-None-Match {_condition_text(poll)} is of an answer that was no whole feed"
            ),
        )
    if any(tag in known.given.tags for tag in sent):
        words = f"If-None-Match {_condition_text(poll)} is of an older version; {known.held.tag or 'none'} came since"
        return (Observation(STEPPED_BACK if known.returned.tag in current and current else STALE_TAG, words),)
    altered = next((tag for tag in current if _is_altered(sent, tag)), None)
    if altered is not None:
        return (Observation(ALTERED_TAG, f"If-None-Match {_condition_text(poll)} for {altered}"),)
    return (
        () if known.partial else (Observation(INVENTED_TAG, f"If-None-Match {_condition_text(poll)} was never given"),)
    )


def _evaluate_date(poll: Poll, known: ReaderState) -> Verdict:
    sent = (poll.fields.get("if-modified-since") or "").strip()
    if (
        not sent
        or sent in (known.held.modified, known.other.modified)
        or (known.held_delta and not known.held.modified)
    ):
        return ()
    if sent in known.broken.dates:
        return (Observation(TAG_OF_FAILURE, f"If-Modified-Since: {sent} is of an answer that was no whole feed"),)
    if sent in known.given.dates:
        if known.held_delta:
            return ()
        words = f"If-Modified-Since: {sent} is of an older version; {known.held.modified or 'none'} came since"
        if {known.held.tag, known.other.tag} & {*_sent_tags(poll)}:
            return (
                Observation(MIXED_VALIDATORS, f"{words}, and If-None-Match {_condition_text(poll)} is of the newest"),
            )
        back = known.returned.modified == known.held.modified and known.held.modified
        return (Observation(STEPPED_BACK if back else STALE_DATE, words),)
    instant, held = parse_http_date(sent, poll.at), parse_http_date(known.held.modified, poll.at)
    if held is not None and _parse_lenient_date(sent) == held:
        return (Observation(ALTERED_DATE, f"If-Modified-Since: {sent} for {known.held.modified}"),)
    if known.partial or (not known.held.modified and (sent in known.dates or instant is None)):
        return ()
    return (
        Observation(
            INVENTED_DATE, f"If-Modified-Since: {sent}, and Last-Modified was {known.held.modified or 'absent'}"
        ),
    )


def _sent_tags(poll: Poll) -> tuple[str, ...]:
    """The tags of If-None-Match as text; the whole value is one, too, since there are tags that are none."""
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
        if weak_match(tag, held) or stem_of(tag) == stem_of(held) or tag.opaque.strip('"') == held.opaque.strip('"'):
            return True
    return False


def _parse_lenient_date(text: str) -> float | None:
    """A date in a form that is not HTTP's, as libraries write it."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 -- for what is wrong only

    exact = parse_http_date(text)
    if exact is not None:
        return exact
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _condition_text(poll: Poll) -> str:
    return (poll.fields.combined("if-none-match") or "").strip()[:120]


def _issued_names(known: ReaderState) -> str:
    return f"ETag: {known.held.tag}" if known.held.tag else f"Last-Modified: {known.held.modified}"


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
