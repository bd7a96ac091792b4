"""Checks of validators: presence, stability, and 304 responses to conditional requests."""

from collections.abc import Iterator

from feedproxy.check.observations import Exchange, FeedObservations
from feedproxy.clock import Instant
from feedproxy.feed.parse.parser import read
from feedproxy.findings import Category, Level, Note
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tag, strong_match

_CODING_MARKS = ("-gzip", ";gzip", "--gzip", "-br", ";br", "-zstd", "-deflate", "-df", ".gzip", "+gzip", "-gz")
_SLACK = 300.0
"""Seconds that clocks may be apart."""


def check(seen: FeedObservations, now: Instant) -> Iterator[Note]:
    """`now` is when the first answer came."""
    fields = seen.last.fields
    written, modified = fields.get("etag"), fields.get("last-modified")
    tag = parse_tag(written) if written else None
    if not written and not modified:
        yield NO_VALIDATOR(seen.at, size=len(seen.last.body))
    if written and (tag is None or not written.strip().startswith(('"', 'W/"'))):
        yield TAG_ILL_FORMED(seen.at, tag=written[:80])
    if modified:
        yield from _date(seen.at, modified, now)
    if tag is not None and seen.by_tag is not None:
        yield from _by_tag(seen, tag, seen.by_tag)
    if modified and parse_http_date(modified, now) is not None and seen.by_date is not None:
        yield from _by_date(seen, seen.by_date)
    if seen.again is not None and seen.again.status == 200:
        yield from _again(seen, seen.again)
    if tag is not None and seen.plain is not None and seen.plain.status == 200:
        yield from _codings(seen, tag, seen.plain)


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


def _date(subject: str, modified: str, now: Instant) -> Iterator[Note]:
    instant = parse_http_date(modified, now)
    if instant is None:
        yield LAST_MODIFIED_UNREADABLE(subject, value=modified[:80])
    elif instant > now + _SLACK:
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
    advice = "Until then nobody learns of changes by it. Is a time zone mistaken for GMT, or an entry dated ahead?"
    reference = "RFC 9110, section 8.8.2.1"


def _by_tag(seen: FeedObservations, tag: EntityTag, answer: Exchange) -> Iterator[Note]:
    if answer.status == 304:
        yield TAG_WORKS(seen.at)
        yield from _not_modified(seen, answer)
    elif answer.status == 200 and _same(seen.last, answer):
        if any(tag.opaque.endswith(mark) for mark in _CODING_MARKS):
            yield TAG_WITH_CODING_IGNORED(seen.at, tag=tag.text)
        elif answer.fields.get("etag") == seen.last.fields.get("etag"):
            yield TAG_IGNORED(seen.at, tag=tag.text)
    elif answer.status != 200:
        yield CONDITION_BREAKS(seen.at, field="If-None-Match", status=answer.status or answer.error)


class TAG_WORKS(Note):
    level = Level.GOOD
    category = Category.CONDITIONS
    summary = "Conditional requests by ETag work (304)."
    advice = "Nothing is to be done."
    reference = "RFC 9110, section 13.1.2"


class TAG_IGNORED(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The ETag is sent and not listened to: who sends it back gets everything again."
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


def _not_modified(seen: FeedObservations, answer: Exchange) -> Iterator[Note]:
    # "The server generating a 304 response MUST generate any of the following header fields that would have been sent
    # in a 200 (OK) response to the same request" -- RFC 9110, section 15.4.5
    named = ("cache-control", "content-location", "etag", "expires", "vary")
    lost = [name for name in named if name in seen.last.fields and name not in answer.fields]
    if lost:
        yield NOT_MODIFIED_LOSES_FIELDS(seen.at, names=", ".join(lost))


class NOT_MODIFIED_LOSES_FIELDS(Note):
    level = Level.INFO
    category = Category.CONDITIONS
    summary = "The 304 leaves out what the 200 says: %(names)s."
    advice = "A cache freshens its copy by what the 304 says. Let both say the same."
    reference = "RFC 9110, section 15.4.5"


def _by_date(seen: FeedObservations, answer: Exchange) -> Iterator[Note]:
    if answer.status == 304:
        yield LAST_MODIFIED_WORKS(seen.at)
    elif answer.status == 200 and _same(seen.last, answer):
        if answer.fields.get("last-modified") == seen.last.fields.get("last-modified"):
            yield LAST_MODIFIED_IGNORED(seen.at)
    elif answer.status != 200:
        yield CONDITION_BREAKS(seen.at, field="If-Modified-Since", status=answer.status or answer.error)


class LAST_MODIFIED_WORKS(Note):
    level = Level.GOOD
    category = Category.CONDITIONS
    summary = "Conditional requests by Last-Modified work (304)."
    advice = "Nothing is to be done."
    reference = "RFC 9110, section 13.1.3"


class LAST_MODIFIED_IGNORED(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "Last-Modified is sent and not listened to: who sends it back gets everything again."
    advice = "Compare it with `If-Modified-Since`, and answer 304. Simple readers know no other condition."
    reference = "RFC 9110, section 13.1.3"


def _again(seen: FeedObservations, again: Exchange) -> Iterator[Note]:
    first = seen.last
    tags = [parse_tag(each.fields.get("etag") or "") for each in (first, again)]
    dates = [each.fields.get("last-modified") for each in (first, again)]
    if _same(first, again):
        if tags[0] and tags[1] and tags[0].opaque != tags[1].opaque:
            yield TAG_ALWAYS_NEW(seen.at, one=tags[0].text, other=tags[1].text)
        if dates[0] and dates[1] and dates[0] != dates[1]:
            yield LAST_MODIFIED_ALWAYS_NEW(seen.at, one=dates[0], other=dates[1])
        return
    if _digest(first) and _digest(first) == _digest(again):
        yield CONTENT_STAMPED(seen.at)
        return
    if tags[0] and tags[0] == tags[1]:
        yield TAG_FROZEN(seen.at, tag=tags[0].text)


class TAG_ALWAYS_NEW(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The same bytes come with another ETag each time."
    advice = """\
First it was `%(one)s`, then `%(other)s`, so that nobody can ever be answered with 304. Tags are made of the content,
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
    advice = (
        "Who has the old content is told that nothing is new, and misses the news. The tag has to follow the content."
    )
    reference = "RFC 9110, section 8.8.1"


def _codings(seen: FeedObservations, tag: EntityTag, plain: Exchange) -> Iterator[Note]:
    other = parse_tag(plain.fields.get("etag") or "")
    if other is not None and strong_match(tag, other) and seen.last.coding != plain.coding:
        yield ONE_TAG_FOR_ALL_CODINGS(seen.at, tag=tag.text, coding=seen.last.coding)


class ONE_TAG_FOR_ALL_CODINGS(Note):
    level = Level.WARN
    category = Category.CONDITIONS
    summary = "The plain and the compressed feed have the same strong ETag, `%(tag)s`."
    advice = """\
A strong tag promises the same bytes, and %(coding)s makes others: a range or a repair may then mix them. Let what
compresses make the tag weak (`W/`), as nginx does, or mark it with the coding and recognise it again."""
    reference = "RFC 9110, section 8.8.3.3"


def _same(one: Exchange, other: Exchange) -> bool:
    return one.content is not None and one.content == other.content


def _digest(exchange: Exchange) -> str:
    channel = read(exchange.content or b"", exchange.fields.get("content-type"))
    return channel.content_digest if channel is not None else ""
