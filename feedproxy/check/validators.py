"""Checks of validators: presence, stability, and 304 responses to conditional requests."""

from collections.abc import Iterator

from feedproxy.check.observations import Exchange, FeedObservations
from feedproxy.clock import Instant
from feedproxy.feed.parse.parser import read
from feedproxy.findings import Category, Level, Note
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tag, strong_match

_CODING_MARKS = ("-gzip", ";gzip", "--gzip", "-br", ";br", "-zstd", "-deflate", "-df", ".gzip", "+gzip", "-gz")
_CLOCK_TOLERANCE = 300.0
"""Seconds by which clocks may differ."""


def check(observations: FeedObservations, now: Instant) -> Iterator[Note]:
    """Yield the Notes on validators. `now` is the time of the first answer."""
    fields = observations.last.fields
    etag, modified = fields.get("etag"), fields.get("last-modified")
    tag = parse_tag(etag) if etag else None
    if not etag and not modified:
        yield NO_VALIDATOR(observations.target, size=len(observations.last.body))
    if etag and (tag is None or not etag.strip().startswith(('"', 'W/"'))):
        yield TAG_ILL_FORMED(observations.target, tag=etag[:80])
    if modified:
        yield from _check_date(observations.target, modified, now)
    if tag is not None and observations.by_tag is not None:
        yield from _check_tag(observations, tag, observations.by_tag)
    if modified and parse_http_date(modified, now) is not None and observations.by_date is not None:
        yield from _check_last_modified(observations, observations.by_date)
    if observations.repeat is not None and observations.repeat.status == 200:
        yield from _check_repeat(observations, observations.repeat)
    if tag is not None and observations.plain is not None and observations.plain.status == 200:
        yield from _check_codings(observations, tag, observations.plain)


class NO_VALIDATOR(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The feed has neither ETag nor Last-Modified."
    advice = (
        "Every reader gets all of its %(size)s bytes anew at every poll. Let the server send one of them, best both."
    )
    reference = "RFC 9110, section 8.8"


class TAG_ILL_FORMED(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The ETag is not written as one: `%(tag)s`."
    advice = (
        'It stands between quotation marks: `"abc"`, or `W/"abc"` for a weak one. Many programs send no other back.'
    )
    reference = "RFC 9110, section 8.8.3"


def _check_date(subject: str, modified: str, now: Instant) -> Iterator[Note]:
    instant = parse_http_date(modified, now)
    if instant is None:
        yield LAST_MODIFIED_UNREADABLE(subject, value=modified[:80])
    elif instant > now + _CLOCK_TOLERANCE:
        yield LAST_MODIFIED_IN_FUTURE(subject, value=modified)


class LAST_MODIFIED_UNREADABLE(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "Last-Modified is no date of HTTP: `%(value)s`."
    advice = "Write it like `Sat, 21 Nov 2026 08:00:00 GMT`: always in GMT, in English, with two digits for the day."
    reference = "RFC 9110, sections 8.8.2 and 5.6.7"


class LAST_MODIFIED_IN_FUTURE(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "Last-Modified lies in the future: %(value)s."
    advice = "Until then readers learn of no change by it. Is a time zone mistaken for GMT, or an entry dated ahead?"
    reference = "RFC 9110, section 8.8.2.1"


def _check_tag(observations: FeedObservations, tag: EntityTag, answer: Exchange) -> Iterator[Note]:
    if answer.status == 304:
        yield TAG_WORKS(observations.target)
        yield from _check_not_modified(observations, answer)
    elif answer.status == 200 and _has_same_content(observations.last, answer):
        if any(tag.opaque.endswith(mark) for mark in _CODING_MARKS):
            yield TAG_WITH_CODING_IGNORED(observations.target, tag=tag.text)
        elif answer.fields.get("etag") == observations.last.fields.get("etag"):
            yield TAG_IGNORED(observations.target, tag=tag.text)
    elif answer.status != 200:
        yield CONDITION_BREAKS(observations.target, field="If-None-Match", status=answer.status or answer.error)


class TAG_WORKS(Note):
    level = Level.GOOD
    category = Category.CONDITIONS
    summary = "Conditional requests by ETag work (304)."
    advice = "Nothing is to be done."
    reference = "RFC 9110, section 13.1.2"


class TAG_IGNORED(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The ETag is ignored in If-None-Match: clients that return it get the whole feed, not 304."
    advice = """\
The question was `If-None-Match: %(tag)s`, the answer 200 with the same tag. A program that makes the feed has to
compare them itself; a CDN or a proxy may take the field away on its way in."""
    reference = "RFC 9110, section 13.1.2"


class TAG_WITH_CODING_IGNORED(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The ETag of the compressed feed is not recognised when it comes back (`%(tag)s`)."
    advice = """\
Whatever compresses has marked the tag with the coding, and does not take the mark off again: every reader that takes
gzip gets everything each time. For Apache: `DeflateAlterETag NoChange`, or, in 2.4 below 2.4.58,
`RequestHeader edit "If-None-Match" '^"((.*)-gzip)"$' '"$1", "$2"'`."""
    reference = "RFC 9110, section 8.8.3.3; Apache, mod_deflate, DeflateAlterETag"


class CONDITION_BREAKS(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "A request with %(field)s fails: %(status)s."
    advice = "Nearly every reader sends it, and gets an error in place of the feed. The answer is 304, or 200."
    reference = "RFC 9110, section 13.2.2"


def _check_not_modified(observations: FeedObservations, answer: Exchange) -> Iterator[Note]:
    # "The server generating a 304 response MUST generate any of the following header fields that would have been sent
    # in a 200 (OK) response to the same request" -- RFC 9110, section 15.4.5
    named = ("cache-control", "content-location", "etag", "expires", "vary")
    lost = [name for name in named if name in observations.last.fields and name not in answer.fields]
    if lost:
        yield NOT_MODIFIED_LOSES_FIELDS(observations.target, names=", ".join(lost))


class NOT_MODIFIED_LOSES_FIELDS(Note):
    level = Level.INFO
    category = Category.CONDITIONS
    summary = "The 304 leaves out what the 200 says: %(names)s."
    advice = "A cache freshens its copy by what the 304 says. Let both say the same."
    reference = "RFC 9110, section 15.4.5"


def _check_last_modified(observations: FeedObservations, answer: Exchange) -> Iterator[Note]:
    if answer.status == 304:
        yield LAST_MODIFIED_WORKS(observations.target)
    elif answer.status == 200 and _has_same_content(observations.last, answer):
        if answer.fields.get("last-modified") == observations.last.fields.get("last-modified"):
            yield LAST_MODIFIED_IGNORED(observations.target)
    elif answer.status != 200:
        yield CONDITION_BREAKS(observations.target, field="If-Modified-Since", status=answer.status or answer.error)


class LAST_MODIFIED_WORKS(Note):
    level = Level.GOOD
    category = Category.CONDITIONS
    summary = "Conditional requests by Last-Modified work (304)."
    advice = "Nothing is to be done."
    reference = "RFC 9110, section 13.1.3"


class LAST_MODIFIED_IGNORED(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "Last-Modified is ignored in If-Modified-Since: clients that return it get the whole feed, not 304."
    advice = "Compare it with `If-Modified-Since`, and answer 304. Simple readers know no other condition."
    reference = "RFC 9110, section 13.1.3"


def _check_repeat(observations: FeedObservations, repeat: Exchange) -> Iterator[Note]:
    first = observations.last
    tags = [parse_tag(exchange.fields.get("etag") or "") for exchange in (first, repeat)]
    dates = [exchange.fields.get("last-modified") for exchange in (first, repeat)]
    if _has_same_content(first, repeat):
        if tags[0] and tags[1] and tags[0].opaque != tags[1].opaque:
            yield TAG_ALWAYS_NEW(observations.target, one=tags[0].text, other=tags[1].text)
        if dates[0] and dates[1] and dates[0] != dates[1]:
            yield LAST_MODIFIED_ALWAYS_NEW(observations.target, one=dates[0], other=dates[1])
        return
    if _content_digest(first) and _content_digest(first) == _content_digest(repeat):
        yield CONTENT_STAMPED(observations.target)
        return
    if tags[0] and tags[0] == tags[1]:
        yield TAG_FROZEN(observations.target, tag=tags[0].text)


class TAG_ALWAYS_NEW(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The same bytes come with another ETag each time."
    advice = """\
First it was `%(one)s`, then `%(other)s`, so that no request is ever answered with 304. Tags are made of the content,
not of the time, the process, or one of several servers (Apache: `FileETag MTime Size`)."""
    reference = "RFC 9110, section 8.8.1"


class LAST_MODIFIED_ALWAYS_NEW(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The same bytes come with another Last-Modified each time."
    advice = "First it was %(one)s, then %(other)s. Send the date of the newest entry, not that of the request."
    reference = "RFC 9110, section 8.8.2.1"


class CONTENT_STAMPED(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The bytes differ each time, and say the same."
    advice = """\
A date of the request, a comment with a time, or an order that changes makes a new version of each answer, and ends
every 304. Let `lastBuildDate` and `updated` be when an entry changed last."""
    reference = "RSS 2.0, lastBuildDate; RFC 4287, section 4.2.15"


class TAG_FROZEN(Note):
    level = Level.BAD
    category = Category.CONDITIONS
    summary = "Different content came with the same ETag, `%(tag)s`."
    advice = "Clients with the old content get 304 and miss the new entries. The tag must change with the content."
    reference = "RFC 9110, section 8.8.1"


def _check_codings(observations: FeedObservations, tag: EntityTag, plain: Exchange) -> Iterator[Note]:
    other = parse_tag(plain.fields.get("etag") or "")
    if other is not None and strong_match(tag, other) and observations.last.coding != plain.coding:
        yield ONE_TAG_FOR_ALL_CODINGS(observations.target, tag=tag.text, coding=observations.last.coding)


class ONE_TAG_FOR_ALL_CODINGS(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The plain and the compressed feed have the same strong ETag, `%(tag)s`."
    advice = """\
A strong tag promises the same bytes, and %(coding)s makes others: a range or a repair may then mix them. Let what
compresses make the tag weak (`W/`), as nginx does, or mark it with the coding and recognise it again."""
    reference = "RFC 9110, section 8.8.3.3"


def _has_same_content(one: Exchange, other: Exchange) -> bool:
    return one.content is not None and one.content == other.content


def _content_digest(exchange: Exchange) -> str:
    channel = read(exchange.content or b"", exchange.fields.get("content-type"))
    return channel.content_digest if channel is not None else ""
