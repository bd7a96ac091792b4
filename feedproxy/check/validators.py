"""Checks of validators: presence, stability, and 304 responses to conditional requests."""

from collections.abc import Iterator

from feedproxy.check.observations import FeedObservations, ProbeExchange
from feedproxy.clock import Instant
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tag, strong_match
from feedproxy.notes import Category, Level, Note

_CODING_MARKS = ("-gzip", ";gzip", "--gzip", "-br", ";br", "-zstd", "-deflate", "-df", ".gzip", "+gzip", "-gz")
_CLOCK_TOLERANCE = 300.0
"""Maximum time, in seconds, by which Last-Modified may be later than the first response."""


def check(observations: FeedObservations) -> Iterator[Note]:
    fields, now = observations.last.fields, observations.last.at
    etag, modified = fields.get("etag"), fields.get("last-modified")
    tag = parse_tag(etag) if etag else None
    if not etag and not modified:
        yield NO_VALIDATOR(size=len(observations.last.body))
    if etag and (tag is None or not etag.strip().startswith(('"', 'W/"'))):
        yield ETAG_INVALID(tag=etag[:80])
    if modified:
        yield from _check_date(modified, now)
    if tag is not None and observations.by_tag is not None:
        yield from _check_tag(observations, tag, observations.by_tag)
    if modified and parse_http_date(modified, now) is not None and observations.by_date is not None:
        yield from _check_last_modified(observations, observations.by_date)
    if observations.repeat is not None and observations.repeat.status == 200:
        yield from _check_repeat(observations, observations.repeat)
    if tag is not None and observations.plain is not None and observations.plain.status == 200:
        yield from _check_codings(observations, tag, observations.plain)


class NO_VALIDATOR(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The feed has neither ETag nor Last-Modified."
    advice = "Every reader gets all %(size)s bytes again in each poll. Send an ETag or Last-Modified, or better both."
    reference = "RFC 9110, section 8.8"


class ETAG_INVALID(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The ETag is invalid: `%(tag)s`."
    advice = """\
    The value must be in quotation marks: `"abc"`, or `W/"abc"` if it is weak. Many clients do not return an invalid
    tag."""
    reference = "RFC 9110, section 8.8.3"


def _check_date(modified: str, now: Instant) -> Iterator[Note]:
    instant = parse_http_date(modified, now)
    if instant is None:
        yield LAST_MODIFIED_INVALID(value=modified[:80])
    elif instant > now + _CLOCK_TOLERANCE:
        yield LAST_MODIFIED_IN_FUTURE(value=modified)


class LAST_MODIFIED_INVALID(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "Last-Modified is not a valid HTTP-date: `%(value)s`."
    advice = "Write Last-Modified as `Sat, 21 Nov 2026 08:00:00 GMT`: in GMT, in English, with two digits for the day."
    reference = "RFC 9110, sections 8.8.2 and 5.6.7"


class LAST_MODIFIED_IN_FUTURE(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "Last-Modified is in the future: %(value)s."
    advice = """\
    Readers return this date, and a server that compares dates answers 304 until that time, even if the feed has
    changed. Check whether a local time is sent as GMT, or an entry is dated ahead."""
    reference = "RFC 9110, section 8.8.2.1"


def _check_tag(observations: FeedObservations, tag: EntityTag, answer: ProbeExchange) -> Iterator[Note]:
    if answer.status == 304:
        yield ETAG_WORKS()
        yield from _check_not_modified(observations, answer)
    elif answer.status == 200 and _has_same_content(observations.last, answer):
        if any(tag.opaque.endswith(mark) for mark in _CODING_MARKS):
            yield ETAG_OF_CODING_IGNORED(tag=tag.text)
        elif answer.fields.get("etag") == observations.last.fields.get("etag"):
            yield ETAG_IGNORED(tag=tag.text)
    elif answer.status != 200:
        yield CONDITIONAL_REQUEST_FAILS(field="If-None-Match", status=answer.status or answer.error)


class ETAG_WORKS(Note, level=Level.GOOD, category=Category.CONDITIONS):
    summary = "Conditional requests by ETag work (304)."
    reference = "RFC 9110, section 13.1.2"


class ETAG_IGNORED(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The ETag is ignored in If-None-Match: clients that return it get the whole feed, not 304."
    advice = """\
    The response to `If-None-Match: %(tag)s` was 200 with the same tag. A program that creates the feed must compare
    the tags itself. A CDN or proxy in front of the program can also remove If-None-Match from requests."""
    reference = "RFC 9110, section 13.1.2"


class ETAG_OF_CODING_IGNORED(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The ETag of the compressed feed is not recognised in If-None-Match (`%(tag)s`)."
    advice = """\
    The module that compresses the feed adds the coding to the tag, but does not remove it in requests. Readers that
    accept gzip get the whole feed in each poll. For Apache: `DeflateAlterETag NoChange`, or, in versions 2.4.0 to
    2.4.57, `RequestHeader edit "If-None-Match" '^"((.*)-gzip)"$' '"$1", "$2"'`."""
    reference = "RFC 9110, section 8.8.3.3; Apache, mod_deflate, DeflateAlterETag"


class CONDITIONAL_REQUEST_FAILS(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "A request with %(field)s fails: %(status)s."
    advice = "Nearly every reader sends conditional requests and gets an error instead of the feed. Answer 304 or 200."
    reference = "RFC 9110, section 13.2.2"


def _check_not_modified(observations: FeedObservations, answer: ProbeExchange) -> Iterator[Note]:
    # "The server generating a 304 response MUST generate any of the following header fields that would have been sent
    # in a 200 (OK) response to the same request" -- RFC 9110, section 15.4.5
    field_names = ("cache-control", "content-location", "etag", "expires", "vary")
    missing_names = [name for name in field_names if name in observations.last.fields and name not in answer.fields]
    if missing_names:
        yield NOT_MODIFIED_LACKS_FIELDS(names=", ".join(missing_names))


class NOT_MODIFIED_LACKS_FIELDS(Note, level=Level.INFO, category=Category.CONDITIONS):
    summary = "The 304 lacks fields that the 200 has: %(names)s."
    advice = "A cache updates its copy with the fields of the 304. Send the same fields with 200 and 304."
    reference = "RFC 9110, section 15.4.5"


def _check_last_modified(observations: FeedObservations, answer: ProbeExchange) -> Iterator[Note]:
    if answer.status == 304:
        yield LAST_MODIFIED_WORKS()
    elif answer.status == 200 and _has_same_content(observations.last, answer):
        if answer.fields.get("last-modified") == observations.last.fields.get("last-modified"):
            yield LAST_MODIFIED_IGNORED()
    elif answer.status != 200:
        yield CONDITIONAL_REQUEST_FAILS(field="If-Modified-Since", status=answer.status or answer.error)


class LAST_MODIFIED_WORKS(Note, level=Level.GOOD, category=Category.CONDITIONS):
    summary = "Conditional requests by Last-Modified work (304)."
    reference = "RFC 9110, section 13.1.3"


class LAST_MODIFIED_IGNORED(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "Last-Modified is ignored in If-Modified-Since: clients that return it get the whole feed, not 304."
    advice = "Compare Last-Modified with `If-Modified-Since`, and answer 304. Simple readers send no other condition."
    reference = "RFC 9110, section 13.1.3"


def _check_repeat(observations: FeedObservations, repeat: ProbeExchange) -> Iterator[Note]:
    first = observations.last
    tags = [parse_tag(exchange.fields.get("etag") or "") for exchange in (first, repeat)]
    dates = [exchange.fields.get("last-modified") for exchange in (first, repeat)]
    if _has_same_content(first, repeat):
        if tags[0] and tags[1] and tags[0].opaque != tags[1].opaque:
            yield ETAG_CHANGES_EACH_TIME(first=tags[0].text, second=tags[1].text)
        if dates[0] and dates[1] and dates[0] != dates[1]:
            yield LAST_MODIFIED_CHANGES_EACH_TIME(first=dates[0], second=dates[1])
        return
    if _content_digest(first) and _content_digest(first) == _content_digest(repeat):
        yield CONTENT_CHANGES_EACH_TIME()
        return
    if tags[0] and tags[0] == tags[1]:
        yield ETAG_REUSED(tag=tags[0].text)


class ETAG_CHANGES_EACH_TIME(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The same content has a different ETag in each response."
    advice = """\
    The ETag was `%(first)s` first and `%(second)s` later, so no request is ever answered with 304. Compute the tag
    from the content, not from the time, the process, or the server. In Apache, set `FileETag MTime Size`."""
    reference = "RFC 9110, section 8.8.1"


class LAST_MODIFIED_CHANGES_EACH_TIME(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The same content has a different Last-Modified in each response."
    advice = """\
    The date was %(first)s first and %(second)s later. Send the date of the newest entry instead of the time of the
    request."""
    reference = "RFC 9110, section 8.8.2.1"


class CONTENT_CHANGES_EACH_TIME(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The content differs in each response, although the entries are the same."
    advice = """\
    The time of the request, a comment with a time, or a changing order makes each response a new version, so that
    no request is answered with 304. Let `lastBuildDate` and `updated` be the time when an entry last changed."""
    reference = "RSS 2.0, lastBuildDate; RFC 4287, section 4.2.15"


class ETAG_REUSED(Note, level=Level.BAD, category=Category.CONDITIONS):
    summary = "Different content has the same ETag, `%(tag)s`."
    advice = "Clients with the old content get 304 and miss the new entries. The tag must change with the content."
    reference = "RFC 9110, section 8.8.1"


def _check_codings(observations: FeedObservations, tag: EntityTag, plain: ProbeExchange) -> Iterator[Note]:
    other = parse_tag(plain.fields.get("etag") or "")
    if other is not None and strong_match(tag, other) and observations.last.coding != plain.coding:
        yield ETAG_SHARED_BY_CODINGS(tag=tag.text, coding=observations.last.coding)


class ETAG_SHARED_BY_CODINGS(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The plain and the compressed feed have the same strong ETag, `%(tag)s`."
    advice = """\
    A strong tag promises identical bytes, but the plain feed and the feed in %(coding)s differ and have the same
    tag. A client that sends range requests can therefore join parts of the two. Let the module that compresses make
    the tag weak (`W/`), as nginx does, or let it add the coding to the tag and recognise the longer tag in requests."""
    reference = "RFC 9110, section 8.8.3.3"


def _has_same_content(one: ProbeExchange, other: ProbeExchange) -> bool:
    return one.content is not None and one.content == other.content


def _content_digest(exchange: ProbeExchange) -> str:
    channel = read(exchange.content or b"", exchange.fields.get("content-type"))
    return channel.content_digest if channel is not None else ""
