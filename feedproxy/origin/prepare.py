"""From what the origin sent to what readers get: decode, read, repair, compress. Once, at store time.

A pure function over bytes; the service runs it off the event loop. What is no feed, and what asks not to be
transformed, comes out as it came in.
"""

import hashlib
from dataclasses import dataclass

from feedproxy.cache.stored import Content
from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError, TooLarge, Undecodable
from feedproxy.feed import read, relocation, usm
from feedproxy.feed.channel import Channel
from feedproxy.feed.entries import entries, pack
from feedproxy.feed.relocation import Gone, Moved
from feedproxy.http import coding
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import parse_http_date
from feedproxy.http.field import parse_parameters
from feedproxy.http.message import Response
from feedproxy.settings import Settings

STEM_BYTES = 10
"""80 bits of BLAKE2b name a content: no two versions of one feed will ever meet in it."""

PAGE_BYTES = 8192

CLOCK_SLACK = 300
"""A Last-Modified up to five minutes ahead of us is a clock that is a little fast, not a date in the future."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A response as it will be stored and served, and what was found on the way.

    `error` says why the content could not be looked into; it is then kept as it came.
    """

    content: Content
    channel: Channel | None = None
    relocation: Moved | Gone | None = None
    changes: tuple[str, ...] = ()
    error: FeedproxyError | None = None
    empty: bool = False
    html: bool = False
    page: bytes = b""
    """The first bytes of what is no feed, decoded: challenges are recognised by them."""
    entries: bytes | None = None
    """Of a feed: its entries, packed; None where there is nothing to reckon deltas from."""


def prepare(
    response: Response,
    settings: Settings,
    *,
    self_href: str,
    now: Instant,
    held: Content | None = None,
    known: Channel | None = None,
) -> Prepared:
    """Look into a complete response, and make its content ready.

    `self_href` is the subscription address that a self link should name. `held` is the content that this one would
    replace, and `known` what the feed said of itself: where both say the same, the content stays the one held.
    Never raises: what cannot be read is kept as it came, with the reason in `error`.
    """
    label = response.fields.combined("content-encoding")
    raw = Content({_label(label): response.body})
    limit = coding.reasonable(len(response.body), settings.decoded_max)
    try:
        identity = coding.decode(response.body, label, limit=limit)
        if (hidden := coding.sniff(identity)) and _reads_as_xml_or_json(response):
            # A body that is compressed, though nobody says so: readers would see gibberish.
            identity = coding.decode(identity, hidden, limit=limit)
    except (Undecodable, TooLarge) as error:
        return Prepared(raw, error=error, empty=not response.body)
    if identity is response.body and label:
        raw = Content({"identity": identity})  # the label lied: the bytes are not coded at all
    declared = response.fields.get("content-type")
    channel = read.read(identity, declared)
    if channel is None:
        return Prepared(
            raw,
            relocation=relocation.read(identity),
            empty=not identity.strip(),
            html=_looks_like_html(identity, declared),
            page=identity[:PAGE_BYTES],
        )
    last_modified = _sensible(response.fields.get("last-modified"), now)
    if CacheControl.from_fields(response.fields).no_transform:
        # RFC 9111, 5.2.2.6. Our own tag names the untouched bytes where the origin gives none.
        tag = None if "etag" in response.fields else _stem(response.body)
        return Prepared(Content(raw.bodies, tag=tag, last_modified=last_modified, feed=True), channel)
    media_type = declared
    if settings.feed_usm:
        media_type = usm.media_type(channel, declared, identity[:64], rdf_media_type=settings.rdf_media_type)
    edited = usm.self_link(
        identity,
        channel,
        href=self_href,
        mode=_self_link_mode(settings),
        link_text=settings.self_link_text,
        charset=_charset(declared),
    )
    maybe_same = known is not None and known.content_digest == channel.content_digest
    if settings.keep_unchanged and maybe_same and held and _says(held, edited.body, media_type):
        return Prepared(held, channel)
    changes = edited.changes
    if media_type != declared:
        changes = (f"media type {declared or '(none)'} → {media_type}", *changes)
    content = Content(
        codings_of(edited.body, settings),
        tag=_stem(edited.body),
        media_type=media_type,
        last_modified=last_modified,
        feed=True,
    )
    found = entries(edited.body, channel, charset=_charset(declared)) if settings.deltas else None
    return Prepared(content, channel, changes=changes, entries=None if found is None else pack(found))


def codings_of(identity: bytes, settings: Settings) -> dict[str, bytes]:
    """The content in every coding that is switched on and makes it smaller."""
    bodies = {"identity": identity}
    for name, level in (
        ("gzip", settings.gzip_level),
        ("br", settings.brotli_level),
        ("zstd", settings.zstd_level),
    ):
        if level:
            coded = coding.encode(identity, name, level)
            if len(coded) < len(identity):
                bodies[name] = coded
    return bodies


def _says(held: Content, body: bytes, media_type: str | None) -> bool:
    """Whether the content held says what `body` says, hints and links included (feed/identity.py).

    Both are read, as readers would get them: the self link and the options may have changed, and where there are
    several variants, what the feed last said of itself was perhaps said in another. Of the ill-formed nobody can know.
    """
    before = held.bodies.get("identity")
    if before is None or held.tag is None or held.media_type != media_type:
        return False
    if before == body:
        return True
    channel = read.read(body, media_type)
    return channel is not None and channel.well_formed and channel == read.read(before, media_type)


def _self_link_mode(settings: Settings) -> str:
    return settings.self_link or ("correct" if settings.upstream else "add")


def _label(content_encoding: str | None) -> str:
    return content_encoding.strip() if content_encoding and content_encoding.strip() else "identity"


def _stem(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=STEM_BYTES).hexdigest()


def _charset(declared: str | None) -> str | None:
    return parse_parameters(declared)[1].get("charset") if declared else None


def _sensible(value: str | None, now: Instant) -> Instant | None:
    """A Last-Modified that can be true (RFC 9110, 8.8.2.1: never later than the message's origination)."""
    instant = parse_http_date(value) if value else None
    return instant if instant is not None and 0 < instant <= now + CLOCK_SLACK else None


def _reads_as_xml_or_json(response: Response) -> bool:
    """Archives offered for download stay archives; what is declared as text of some kind is looked into."""
    declared = (response.fields.get("content-type") or "").lower()
    return not declared or any(word in declared for word in ("xml", "json", "text"))


def _looks_like_html(body: bytes, declared: str | None) -> bool:
    if declared and "html" in declared.lower():
        return True
    start = body[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))
