"""Checks of the response: status, kind of document, media type, charset, and content coding."""

from collections.abc import Iterator

from feedproxy.check.checked_document import CheckedDocument
from feedproxy.check.document_format import ill_formed
from feedproxy.check.observations import FeedObservations, ProbeExchange
from feedproxy.errors import TooLarge
from feedproxy.feed import xml_redirect
from feedproxy.feed.channel import Kind
from feedproxy.feed.document_syntax import DocumentSyntax
from feedproxy.feed.encoding_detection import declared_encoding, encoding_by_bytes
from feedproxy.feed.encoding_labels import codec_of
from feedproxy.http.coding import bounded_decompression
from feedproxy.http.field_values import parse_parameters
from feedproxy.notes import Category, Level, Note
from feedproxy.upstream.upstream_errors import MalformedResponse

SMALL_SIZE = 1400
"""Content of at most this many bytes fits into one packet, so its compression has no benefit."""

_GENERIC = ("application/xml", "text/xml")


def check(observations: FeedObservations, document: CheckedDocument | None, challenge: str | None) -> Iterator[Note]:
    """Yield the Notes on the response.

    `document` is None if the status is not 200 or the content cannot be decoded. `challenge` is the vendor of a
    challenge page received in place of the feed, or None.
    """
    last = observations.last
    if challenge:
        yield CHALLENGE_PAGE(vendor=challenge)
        return
    if observations.redirect_error:
        return  # the Notes on redirects cover this case
    if not last.status:
        yield _no_response(last)
        return
    if last.detail == TooLarge.detail:
        yield FEED_TOO_LARGE()
        return
    if last.status == 429:
        yield RATE_LIMITED(status=last.status)
    elif last.status == 410:
        yield GONE()
    elif last.status in (401, 403, 407, 451):
        yield REFUSED(status=last.status)
    elif last.status != 200:
        yield STATUS_NOT_200(status=last.status)
    elif last.content is None:
        unknown = bounded_decompression.unknown_codings(last.coding)
        yield CODING_UNKNOWN(coding=", ".join(unknown)) if unknown else CODING_INVALID(coding=last.coding)
    elif document is not None:
        yield from _check_content(observations, document)


def _no_response(last: ProbeExchange) -> Note:
    if last.detail == MalformedResponse.detail:
        return RESPONSE_INVALID(reason=last.error)
    return (TLS_FAILED if "certificate" in last.error else FETCH_FAILED)(reason=last.error)


class FETCH_FAILED(Note, level=Level.BAD, category=Category.CONNECTION):
    summary = "The feed cannot be fetched: %(reason)s."
    advice = "No reader gets the feed. Check the address, the server, and the proxies in front of it."
    reference = "RFC 9110, section 3.3; RFC 9112, section 8"


class RESPONSE_INVALID(Note, level=Level.BAD, category=Category.CONNECTION):
    summary = "The response is incomplete or invalid HTTP: %(reason)s."
    advice = """\
    Often Content-Length does not match the content, or the program that creates the feed ends while it sends the
    response. Check the log of that program."""
    reference = "RFC 9112, sections 6.3 and 8"


class TLS_FAILED(Note, level=Level.BAD, category=Category.SECURITY):
    summary = "The TLS connection failed: %(reason)s."
    advice = """\
    Check whether the certificate has expired, is for another name, or is sent without the intermediate certificates."""
    reference = "RFC 9110, section 4.3.4; RFC 5280, section 6"


class FEED_TOO_LARGE(Note, level=Level.BAD, category=Category.CONTENT):
    summary = "The feed is larger than feedproxy and many readers accept."
    advice = "Send only the newest entries. Older entries can be in archive documents that the feed links to."
    reference = "RFC 5005, section 4"


class STATUS_NOT_200(Note, level=Level.BAD, category=Category.FAILURES):
    summary = "The status is %(status)s instead of 200."
    advice = "Readers treat every status but 200 as a failure, and many of them then poll less and less often."
    reference = "RFC 9110, section 15"


class REFUSED(Note, level=Level.BAD, category=Category.FAILURES):
    summary = "The server refuses the feed to feed readers: %(status)s."
    advice = """\
    A rule against bots that admits only browsers also refuses the subscribers. Allow the feed's address
    for every User-Agent. If the feed is private, the status is right: check the feed from a permitted address."""
    reference = "RFC 9110, section 15.5.4"


class RATE_LIMITED(Note, level=Level.BAD, category=Category.FAILURES):
    summary = "The server refuses the first request because of a limit (%(status)s)."
    advice = """\
    A limit per network address first affects offices and feed services, which send one request for many people.
    Raise the limit, send `Retry-After`, and do not count requests with validators: a 304 costs little."""
    reference = "RFC 6585, section 4; RFC 9110, section 10.2.3"


class GONE(Note, level=Level.BAD, category=Category.MOVES):
    summary = "The feed is gone (410)."
    advice = """\
    If the feed has ended, the status is right, and good readers stop polling. If the feed has not ended, correct the
    status: otherwise readers lose a feed that still exists."""
    reference = "RFC 9110, section 15.5.11"


class CHALLENGE_PAGE(Note, level=Level.BAD, category=Category.FAILURES):
    summary = "%(vendor)s sends a page that tests for a browser instead of the feed."
    advice = "Feed readers cannot pass such a test. Exempt the address of the feed from the challenge."
    reference = "RFC 9110, section 10.1.5"


class CODING_UNKNOWN(Note, level=Level.BAD, category=Category.CODING):
    summary = "The Content-Encoding is %(coding)s, which many readers do not know."
    advice = """\
    Content-Encoding names only the compression: gzip, br, zstd or deflate. The character encoding belongs into
    Content-Type (`charset=utf-8`). Without compression, omit the field."""
    reference = "RFC 9110, section 8.4.1"


class CODING_INVALID(Note, level=Level.BAD, category=Category.CODING):
    summary = "The content is not valid %(coding)s, or is truncated."
    advice = """\
    Often the content is compressed twice, for example by a plugin and by the server, or Content-Encoding is sent
    without compression."""
    reference = "RFC 9110, section 8.4"


def _check_content(observations: FeedObservations, document: CheckedDocument) -> Iterator[Note]:
    if document.channel is None:
        yield from check_not_a_feed(document)
        return
    yield from _check_media_type(observations, document, document.channel.kind)
    yield from _check_coding(observations)


def check_not_a_feed(document: CheckedDocument) -> Iterator[Note]:
    """Yield the Note on a document that is not a feed, such as an XML redirect."""
    match document.redirect, document.syntax:
        case xml_redirect.Moved(location), _:
            yield XML_REDIRECT(location=location)
        case xml_redirect.Gone(), _:
            yield XML_GONE()
        case _, DocumentSyntax.EMPTY:
            yield DOCUMENT_EMPTY()
        case _, DocumentSyntax.HTML:
            yield HTML_INSTEAD_OF_FEED()
        case _:
            other = document.syntax is DocumentSyntax.OTHER
            yield NOT_A_FEED(kind="neither XML nor JSON" if other else document.syntax.upper())
            if document.syntax_error is not None:
                yield ill_formed(document.syntax_error)


class XML_REDIRECT(Note, level=Level.INFO, category=Category.MOVES):
    summary = "The feed announces in XML that it has moved to %(location)s."
    advice = "Few readers understand redirect documents. If you can set a status, answer 301 instead."
    reference = "RSS Feed State, XML redirect"


class XML_GONE(Note, level=Level.INFO, category=Category.MOVES):
    summary = "The feed announces in XML that it has ended."
    advice = "Few readers understand redirect documents. If you can set a status, answer 410 instead."
    reference = "RSS Feed State, XML redirect"


class DOCUMENT_EMPTY(Note, level=Level.BAD, category=Category.CONTENT):
    summary = "The document is empty, or white space only."
    advice = "A program that fails should answer 500, so that readers keep their copy and try again."
    reference = "RFC 9110, section 15.6"


class HTML_INSTEAD_OF_FEED(Note, level=Level.BAD, category=Category.FORMAT):
    summary = "The document is an HTML page, not a feed."
    advice = """\
    If the page is a page of the site, the command `discover` finds its feeds. The status of an error page should not
    be 200."""
    reference = "RFC 9110, section 15.3.1"


class NOT_A_FEED(Note, level=Level.BAD, category=Category.FORMAT):
    summary = "The document is not a feed: it is neither RSS, Atom, JSON Feed nor CDF (it looks like %(kind)s)."
    advice = """\
    An XML feed has the root element `rss`, `feed`, `rdf:RDF` or `CHANNEL`. A JSON Feed has the address of JSON Feed
    in `version`."""
    reference = "RSS 2.0; RFC 4287, section 4.1.1; JSON Feed 1.1"


def _check_media_type(observations: FeedObservations, document: CheckedDocument, kind: Kind) -> Iterator[Note]:
    value = observations.last.fields.get("content-type")
    if not value:
        yield MEDIA_TYPE_MISSING()
        return
    essence, parameters = parse_parameters(value)
    proper = kind.media_types
    if kind is Kind.CDF or essence in proper:
        yield MEDIA_TYPE_RIGHT(type=essence)
    elif essence in _GENERIC:
        yield MEDIA_TYPE_GENERIC(type=essence, proper=proper[0])
    elif essence in ("text/html", "application/xhtml+xml"):
        yield MEDIA_TYPE_HTML(type=essence, proper=proper[0])
    else:
        yield MEDIA_TYPE_WRONG(type=essence, proper=proper[0])
    charset = parameters.get("charset")
    if charset:
        yield from _check_charset(charset, document)


class MEDIA_TYPE_RIGHT(Note, level=Level.GOOD, category=Category.SUBSCRIBING):
    summary = "The media type is right for the format (%(type)s): a click on the feed's address can subscribe."
    reference = "Universal Subscription Mechanism, Content-Type"


class MEDIA_TYPE_MISSING(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The response has no Content-Type."
    advice = """\
    Readers and browsers have to guess the media type. Send the type of the format, such as `application/rss+xml`."""
    reference = "RFC 9110, section 8.3"


class MEDIA_TYPE_GENERIC(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The media type is %(type)s, which any kind of XML can have."
    advice = """\
    A click on the feed's address usually shows source text, because feed readers are not registered for `%(type)s`.
    Send `%(proper)s`, and a click can subscribe."""
    reference = "Universal Subscription Mechanism, Content-Type; RFC 7303, section 4"


class MEDIA_TYPE_HTML(Note, level=Level.BAD, category=Category.SUBSCRIBING):
    summary = "The feed is sent as %(type)s, the media type of pages."
    advice = "Browsers render it as a page and run its scripts, and careful readers reject it. Send `%(proper)s`."
    reference = "RFC 9110, section 8.3; Universal Subscription Mechanism, Content-Type"


class MEDIA_TYPE_WRONG(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The media type, %(type)s, does not match the format."
    advice = "Send `%(proper)s`: readers, browsers and caches depend on the media type."
    reference = "RFC 9110, section 8.3; Universal Subscription Mechanism, Content-Type"


def _check_charset(charset: str, document: CheckedDocument) -> Iterator[Note]:
    codec = codec_of(charset)
    if codec is None:
        yield CHARSET_UNKNOWN(charset=charset)
        return
    mark = encoding_by_bytes(document.body)
    document_codec = mark[0] if mark else codec_of(declared_encoding(document.body) or "")
    differs_in_byte_order = codec in ("utf_16", "utf_32") and (document_codec or "").startswith(codec)
    if (
        document_codec is not None
        and document_codec != codec
        and not differs_in_byte_order
        and not document.body.isascii()
    ):
        yield CHARSETS_DISAGREE(charset=charset, document_encoding=declared_encoding(document.body) or document_codec)


class CHARSET_UNKNOWN(Note, level=Level.WARN, category=Category.FORMAT):
    summary = "The charset in Content-Type, `%(charset)s`, is unknown."
    advice = "Omit the charset, because the document declares its encoding, or send `utf-8`."
    reference = "RFC 7303, section 3"


class CHARSETS_DISAGREE(Note, level=Level.WARN, category=Category.FORMAT):
    summary = "Content-Type names the encoding %(charset)s, but the document names %(document_encoding)s."
    advice = """\
    The standard gives priority to Content-Type, but many readers follow the document, so some show wrong characters.
    Servers often add a charset to every file. Omit the charset for feeds."""
    reference = "RFC 7303, sections 3 and 3.2"


def _check_coding(observations: FeedObservations) -> Iterator[Note]:
    last, plain = observations.last, observations.plain
    content = last.content or b""
    if unknown := bounded_decompression.unknown_codings(last.coding):
        yield CODING_UNKNOWN(coding=", ".join(unknown))
        return
    if last.coding and last.content == last.body:
        yield CODING_NOT_APPLIED(coding=last.coding)
    elif last.coding:
        yield COMPRESSED(coding=last.coding, share=round(100 * len(last.body) / max(1, len(content))))
    elif len(content) > SMALL_SIZE:
        yield NOT_COMPRESSED(size=len(content))
    if plain is not None and plain.status == 200 and plain.coding:
        yield CODING_NOT_ACCEPTED(coding=plain.coding)


class COMPRESSED(Note, level=Level.GOOD, category=Category.CODING):
    summary = "The feed is sent compressed (%(coding)s), with %(share)s %% of its uncompressed size."
    reference = "RFC 9110, section 8.4"


class CODING_NOT_APPLIED(Note, level=Level.BAD, category=Category.CODING):
    summary = "Content-Encoding is %(coding)s, but the feed is sent uncompressed."
    advice = """\
    Many readers fail at such a feed. Compress the feed, or omit Content-Encoding. Often a cache or a plugin
    decompresses the content and keeps the field."""
    reference = "RFC 9110, section 8.4"


class NOT_COMPRESSED(Note, level=Level.WARN, category=Category.CODING):
    summary = "The feed is sent uncompressed, %(size)s bytes, although the request accepted gzip, br and zstd."
    advice = """\
    Compression reduces feeds to a fifth of their size. Many servers compress only the media types of a list, and
    the list lacks the media types of feeds. Add `application/rss+xml` and `application/atom+xml` (nginx:
    `gzip_types`; Apache: `AddOutputFilterByType DEFLATE`)."""
    reference = "RFC 9110, section 12.5.3"


class CODING_NOT_ACCEPTED(Note, level=Level.BAD, category=Category.CODING):
    summary = "The feed is sent in %(coding)s, although the request accepted no content coding."
    advice = """\
    A reader that cannot decode this coding gets no feed. Choose the coding by `Accept-Encoding`, and list
    Accept-Encoding in `Vary`."""
    reference = "RFC 9110, section 12.5.3"
