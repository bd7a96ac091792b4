"""Checks of the response: feed or not, media type, charset and content coding."""

from collections.abc import Iterator

from feedproxy.check.document import Document
from feedproxy.check.observations import Exchange, FeedObservations
from feedproxy.errors import MalformedResponse, TooLarge
from feedproxy.feed import xml_redirect
from feedproxy.feed.channel import Kind
from feedproxy.feed.charset import declared_encoding, encoding_by_bytes
from feedproxy.feed.detect import DocumentKind
from feedproxy.feed.parse.encoding_labels import codec_of
from feedproxy.findings import Category, Level, Note
from feedproxy.http.field_values import parse_parameters

SMALL_SIZE = 1400
"""Bytes of content that fit into one packet without a coding."""

_MEDIA_TYPES = {
    Kind.RSS: ("application/rss+xml",),
    Kind.RDF: ("application/rss+xml", "application/rdf+xml"),
    Kind.ATOM: ("application/atom+xml",),
    Kind.JSON: ("application/feed+json", "application/json"),
}
_GENERIC = ("application/xml", "text/xml")


def check(observations: FeedObservations, document: Document | None, challenge: str | None) -> Iterator[Note]:
    """Yield the Notes on the response. `challenge` is the vendor of a challenge page in place of the feed."""
    last = observations.last
    if challenge:
        yield CHALLENGE_PAGE(observations.target, whose=challenge)
        return
    if observations.redirect_error:
        return  # the redirects have a Note of their own
    if not last.status:
        yield _no_response(last)
        return
    if last.detail == TooLarge.detail:
        yield ABOVE_THE_CAP(observations.target)
        return
    if last.status == 429:
        yield TURNED_AWAY(observations.target, status=last.status)
    elif last.status == 410:
        yield ENDED(observations.target)
    elif last.status in (401, 403, 407, 451):
        yield REFUSED(observations.target, status=last.status)
    elif last.status != 200:
        yield STATUS_OF_NO_FEED(observations.target, status=last.status)
    elif last.content is None:
        yield UNDECODABLE(observations.target, coding=last.coding)
    elif document is not None:
        yield from _check_content(observations, document)


def _no_response(last: Exchange) -> Note:
    if last.detail == MalformedResponse.detail:
        return ANSWER_BREAKS_OFF(last.target, why=last.error)
    return (CERTIFICATE_REFUSED if "certificate" in last.error else NO_ANSWER)(last.target, why=last.error)


class NO_ANSWER(Note):
    level = Level.BAD
    category = Category.CONNECTION
    summary = "The feed cannot be fetched: %(why)s."
    advice = "No reader gets further than this. Look at the address, the server, and what stands in front of it."
    reference = "RFC 9110, section 3.3; RFC 9112, section 8"


class ANSWER_BREAKS_OFF(Note):
    level = Level.BAD
    category = Category.CONNECTION
    summary = "What comes is no whole answer of HTTP: %(why)s."
    advice = "Often Content-Length counts other bytes than are sent, or a program dies while it writes. See its log."
    reference = "RFC 9112, sections 6.3 and 8"


class CERTIFICATE_REFUSED(Note):
    level = Level.BAD
    category = Category.SECURITY
    summary = "There is no safe connection: %(why)s."
    advice = "Has it expired, is it for another name, or are the certificates between it and its authority not sent?"
    reference = "RFC 9110, section 4.3.4; RFC 5280, section 6"


class ABOVE_THE_CAP(Note):
    level = Level.BAD
    category = Category.CONTENT
    summary = "The feed is larger than what feedproxy, and many readers, take."
    advice = "Send the newest entries only; older ones can stand in archive documents that the feed links to."
    reference = "RFC 5005, section 4"


class STATUS_OF_NO_FEED(Note):
    level = Level.BAD
    category = Category.FAILURES
    summary = "The answer is %(status)s instead of 200."
    advice = "Readers count this as a failure, and many come back less and less often."
    reference = "RFC 9110, section 15"


class REFUSED(Note):
    level = Level.BAD
    category = Category.FAILURES
    summary = "The feed is refused to a reader that asks for it politely: %(status)s."
    advice = """\
A feed is there for programs. Rules against bots that turn away whoever is no browser turn away the subscribers. Let
the feed's address pass, whatever the User-Agent. If it is private on purpose, all is well: check it with an address
that may read it."""
    reference = "RFC 9110, section 15.5.4"


class TURNED_AWAY(Note):
    level = Level.BAD
    category = Category.FAILURES
    summary = "The feed is refused for too many requests (%(status)s), at the first of them."
    advice = """\
A limit by address hits offices and feed services first, which ask once for many people. Limit by what is really too
much, say when to come back (`Retry-After`), and let requests with validators pass: a 304 costs nearly nothing."""
    reference = "RFC 6585, section 4; RFC 9110, section 10.2.3"


class ENDED(Note):
    level = Level.BAD
    category = Category.MOVES
    summary = "The feed has ended: 410."
    advice = "If that is meant, it is said in the right way: good readers stop asking. If not, it loses them all."
    reference = "RFC 9110, section 15.5.11"


class CHALLENGE_PAGE(Note):
    level = Level.BAD
    category = Category.FAILURES
    summary = "%(whose)s asks whether we are a browser, instead of sending the feed."
    advice = "No feed reader can answer that. Exempt the address of the feed from the challenge."
    reference = "RFC 9110, section 10.1.5"


class UNDECODABLE(Note):
    level = Level.BAD
    category = Category.CODING
    summary = "The content is not in the coding that it names (`%(coding)s`), or breaks off."
    advice = "Something compresses twice, or says so without doing it: a plugin and the server, often."
    reference = "RFC 9110, section 8.4"


def _check_content(observations: FeedObservations, document: Document) -> Iterator[Note]:
    if document.redirect is not None:
        yield from check_redirect_document(document, observations.target)
        return
    channel = document.channel
    if channel is None:
        yield from check_not_a_feed(document, observations.target)
        return
    yield from _check_media_type(observations, document, channel.kind)
    yield from _check_coding(observations)


def check_redirect_document(document: Document, subject: str) -> Iterator[Note]:
    """Yield the Notes on a redirect document."""
    match document.redirect:
        case xml_redirect.Moved(location):
            yield MOVED_BY_DOCUMENT(subject, location=location)
        case xml_redirect.Gone():
            yield ENDED_BY_DOCUMENT(subject)


def check_not_a_feed(document: Document, subject: str) -> Iterator[Note]:
    """Yield the Note on a document that is not a feed."""
    match document.kind:
        case DocumentKind.EMPTY:
            yield NOTHING_AT_ALL(subject)
        case DocumentKind.HTML:
            yield PAGE_INSTEAD_OF_FEED(subject)
        case _:
            yield NO_FEED(subject, nature=document.kind)


class MOVED_BY_DOCUMENT(Note):
    level = Level.INFO
    category = Category.MOVES
    summary = "The feed says in XML that it has moved to %(location)s."
    advice = "Few readers know this form. Where you can set a status, let it be 301, too."
    reference = "RSS Feed State, XML redirect"


class ENDED_BY_DOCUMENT(Note):
    level = Level.INFO
    category = Category.MOVES
    summary = "The feed says in XML that it has ended."
    advice = "Few readers know this form. Where you can set a status, let it be 410, too."
    reference = "RSS Feed State, XML redirect"


class NOTHING_AT_ALL(Note):
    level = Level.BAD
    category = Category.CONTENT
    summary = "There is nothing in it: no byte, or white space only."
    advice = "A program that fails half-way should answer 500, so that readers keep what they have and come back."
    reference = "RFC 9110, section 15.6"


class PAGE_INSTEAD_OF_FEED(Note):
    level = Level.BAD
    category = Category.FORMAT
    summary = "This is a page of HTML, and no feed."
    advice = (
        "If it is the site's page, the command discover finds its feeds. If an error page, it should not come as 200."
    )
    reference = "RFC 9110, section 15.3.1"


class NO_FEED(Note):
    level = Level.BAD
    category = Category.FORMAT
    summary = "This is no feed: neither RSS, Atom, JSON Feed nor CDF (it looks like %(nature)s)."
    advice = "The root element has to be `rss`, `feed`, `rdf:RDF` or `CHANNEL`, or the version one of JSON Feed."
    reference = "RSS 2.0; RFC 4287, section 4.1.1; JSON Feed 1.1"


def _check_media_type(observations: FeedObservations, document: Document, kind: Kind) -> Iterator[Note]:
    value = observations.last.fields.get("content-type")
    if not value:
        yield MEDIA_TYPE_MISSING(observations.target)
        return
    essence, parameters = parse_parameters(value)
    proper = _MEDIA_TYPES.get(kind)
    if proper is None or essence in proper:
        yield MEDIA_TYPE_RIGHT(observations.target, type=essence)
    elif essence in _GENERIC:
        yield MEDIA_TYPE_GENERIC(observations.target, type=essence, proper=proper[0])
    elif essence in ("text/html", "application/xhtml+xml"):
        yield MEDIA_TYPE_OF_PAGES(observations.target, type=essence, proper=proper[0])
    else:
        yield MEDIA_TYPE_WRONG(observations.target, type=essence, proper=proper[0])
    charset = parameters.get("charset")
    if charset:
        yield from _check_charset(observations.target, charset, document)


class MEDIA_TYPE_RIGHT(Note):
    level = Level.GOOD
    category = Category.SUBSCRIBING
    summary = "The media type is the feed's own (%(type)s): a click can subscribe."
    advice = "Nothing is to be done."
    reference = "Universal Subscription Mechanism, Content-Type"


class MEDIA_TYPE_MISSING(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "There is no Content-Type."
    advice = "Readers and browsers have to guess. Name the type of the format, such as `application/rss+xml`."
    reference = "RFC 9110, section 8.3"


class MEDIA_TYPE_GENERIC(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The media type is %(type)s, which could be any XML."
    advice = """\
A click on it shows source text, since no feed reader is registered for `%(type)s`. Say `%(proper)s`, and the click
subscribes."""
    reference = "Universal Subscription Mechanism, Content-Type; RFC 7303, section 4"


class MEDIA_TYPE_OF_PAGES(Note):
    level = Level.BAD
    category = Category.SUBSCRIBING
    summary = "The feed is sent as %(type)s, the type of pages."
    advice = "Browsers render it as a page, scripts included, and careful readers refuse it. Say `%(proper)s`."
    reference = "RFC 9110, section 8.3; Universal Subscription Mechanism, Content-Type"


class MEDIA_TYPE_WRONG(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The media type, %(type)s, is not that of this format."
    advice = "Say `%(proper)s`: readers, browsers and caches go by it."
    reference = "RFC 9110, section 8.3; Universal Subscription Mechanism, Content-Type"


def _check_charset(subject: str, charset: str, document: Document) -> Iterator[Note]:
    codec = codec_of(charset)
    if codec is None:
        yield CHARSET_UNKNOWN(subject, charset=charset)
        return
    mark = encoding_by_bytes(document.body)
    shown = mark[0] if mark else codec_of(declared_encoding(document.body) or "")
    wide = codec in ("utf_16", "utf_32") and (shown or "").startswith(codec)
    if shown is not None and shown != codec and not wide and not document.body.isascii():
        yield CHARSETS_DISAGREE(subject, charset=charset, shown=declared_encoding(document.body) or shown)


class CHARSET_UNKNOWN(Note):
    level = Level.WARN
    category = Category.FORMAT
    summary = "The charset of Content-Type, `%(charset)s`, names no encoding."
    advice = "Leave it out, since the document says it itself, or say `utf-8`."
    reference = "RFC 7303, section 3"


class CHARSETS_DISAGREE(Note):
    level = Level.WARN
    category = Category.FORMAT
    summary = "Content-Type names the encoding %(charset)s, but the document names %(shown)s."
    advice = """\
By the standard the field counts, and in practice the document: readers differ, and some show wrong letters. Servers
often attach a charset to every file; leave it out for feeds."""
    reference = "RFC 7303, sections 3 and 3.2"


def _check_coding(observations: FeedObservations) -> Iterator[Note]:
    last, plain = observations.last, observations.plain
    content = last.content or b""
    if last.coding:
        yield COMPRESSED(
            observations.target, coding=last.coding, share=round(100 * len(last.body) / max(1, len(content)))
        )
    elif len(content) > SMALL_SIZE:
        yield NOT_COMPRESSED(observations.target, size=len(content))
    if plain is not None and plain.status == 200 and plain.coding:
        yield CODING_UNASKED(observations.target, coding=plain.coding)


class COMPRESSED(Note):
    level = Level.GOOD
    category = Category.CODING
    summary = "It comes compressed (%(coding)s): %(share)s %% of its size."
    advice = "Nothing is to be done."
    reference = "RFC 9110, section 8.4"


class NOT_COMPRESSED(Note):
    level = Level.WARN
    category = Category.CODING
    summary = "It comes as it is, %(size)s bytes, although gzip, br and zstd were welcome."
    advice = """\
Feeds shrink to a fifth. Servers often compress a list of media types only, in which those of feeds are missing: add
`application/rss+xml` and `application/atom+xml` (nginx: `gzip_types`; Apache: `AddOutputFilterByType DEFLATE`)."""
    reference = "RFC 9110, section 12.5.3"


class CODING_UNASKED(Note):
    level = Level.BAD
    category = Category.CODING
    summary = "It comes in %(coding)s, although the request took nothing but plain content."
    advice = "A reader that cannot decode it sees garbage. Look at `Accept-Encoding`, and say so in `Vary`."
    reference = "RFC 9110, section 12.5.3"
