"""The media type with which a feed is served, such as application/rss+xml.

With this type, a click on the feed in a browser opens a feed reader (USM, Universal Subscription Mechanism). The
browser passes only a temporary file to the feed reader, so the feed must also contain its own address (self_link.py).
"""

import codecs
import re
from functools import lru_cache

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.encoding_detection import declared_encoding, encoding_by_bytes
from feedproxy.feed.encoding_labels import codec_of, superset_of
from feedproxy.http.field_values import charset_of, is_token, parse_parameters, quote

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CACHED_TYPE_MAX = 256
"""The result of `media_type_of` is cached if the declared Content-Type has fewer than this many characters."""
_CHECKED_MAX = 256 * 1024
"""Number of bytes at the beginning of a document that are compared with the charset in Content-Type."""


def media_type_of(
    channel: Channel, declared: str | None, body: bytes = b"", *, rdf_media_type: str = "application/rss+xml"
) -> str:
    """Return the Content-Type with which to serve a feed. `declared` is the origin's Content-Type.

    The origin's charset is kept, unless it is unknown (`utf-9`) or contradicts the document. No charset is added, so
    that the document's declaration counts (RFC 7303, section 3). Other parameters are kept if the type stays the same.
    A CDF channel keeps its declared type. RSS 0.90, 1.0 and 1.1 get `rdf_media_type`.
    """
    if channel.kind is Kind.CDF:
        return declared or channel.kind.media_types[0]
    proper = rdf_media_type if channel.kind is Kind.RDF else channel.kind.media_types[0]
    detected = encoding_by_bytes(body)
    mark = detected[0] if detected is not None else ""
    declared = declared or ""
    if not mark and "charset" in declared.lower() and _declares_another(body, charset_of(declared)):
        mark = codec_of(declared_encoding(body) or "") or ""
    return (_build_media_type if len(declared) < _CACHED_TYPE_MAX else _build_media_type.__wrapped__)(
        proper, declared, mark
    )


def _declares_another(body: bytes, charset: str | None) -> bool:
    """Return True if the document declares another encoding than `charset`, and its declaration is right.

    A declaration is right if the bytes are valid in the declared encoding, and invalid in `charset`. For UTF-8, the
    first condition suffices: text in another encoding is hardly ever valid UTF-8. With the wrong charset, clients would
    read wrong characters: "The charset parameter is considered authoritative" (RFC 7303, section 3.2).
    """
    codec, own, body = codec_of(charset or ""), codec_of(declared_encoding(body) or ""), body[:_CHECKED_MAX]
    if codec is None or own is None or superset_of(codec) == superset_of(own) or body.isascii():
        return False
    return _is_valid(body, own) and (own == "utf_8" or not _is_valid(body, codec))


def _is_valid(body: bytes, codec: str) -> bool:
    """Return True if the beginning of a document is valid in an encoding. Its last character can be incomplete."""
    try:
        codecs.getincrementaldecoder(codec)().decode(body)
    except UnicodeError:
        return False
    return True


@lru_cache(maxsize=1024)
def _build_media_type(proper: str, declared: str, mark: str) -> str:
    """Return the media type `proper` with the parameters of `declared`, a Content-Type.

    The charset is kept if `_is_plausible`. Other parameters are kept if `declared` has the same media type.
    """
    essence, parameters = parse_parameters(_CONTROL.sub(" ", declared))
    parts = [proper]
    for name, value in parameters.items():
        # `q` belongs to Accept; some servers copy it from there.
        remains = _is_plausible(value, mark) if name == "charset" else essence == proper and name != "q"
        if remains and value and is_token(name):
            parts.append(f"{name}={value if is_token(value) else quote(value)}")
    return "; ".join(parts)


def _is_plausible(label: str, mark: str) -> bool:
    """Return True if a document can be in the encoding `label`.

    `mark` is the codec that the document itself shows by a byte order mark or a declaration. If `mark` is "", every
    known label is plausible.
    """
    codec = codec_of(label)
    if codec is None or not mark:
        return codec is not None
    return codec == mark or (codec in ("utf_16", "utf_32") and mark.startswith(codec))
