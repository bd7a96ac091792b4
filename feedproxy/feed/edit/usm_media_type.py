"""The media type of a feed's responses, with which a click in a browser subscribes to the feed (USM).

A browser chooses a feed reader by the media type, and passes only a temporary file to the reader. The feed must
therefore also contain its own address (self_link.py).
"""

import re
from functools import lru_cache

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.encoding_detection import encoding_by_bytes
from feedproxy.feed.encoding_labels import codec_of
from feedproxy.http.field_values import is_token, parse_parameters, quote

_TYPES = {
    # "you must change the Content-Type header to return the application/rss+xml media type" (Content-Type)
    Kind.RSS: "application/rss+xml",
    Kind.ATOM: "application/atom+xml",
    Kind.JSON: "application/feed+json",
}
_CDF = "application/x-cdf"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CACHED_TYPE_MAX = 256
"""Maximum length of a declared Content-Type with a cached result, in characters."""


def media_type_of(
    channel: Channel, declared: str | None, body: bytes = b"", *, rdf_media_type: str = "application/rss+xml"
) -> str:
    """Return the Content-Type with which to serve a feed.

    `declared` is the origin's Content-Type, and `body` the document or its beginning. The origin's charset is kept,
    unless it is unknown (`utf-9`) or contradicts the byte order mark. No charset is added, so that the document's
    declaration counts (RFC 7303, section 3). Other parameters are kept with an unchanged type. A CDF channel keeps its
    declared type.
    """
    if channel.kind is Kind.CDF:
        return declared or _CDF
    proper = rdf_media_type if channel.kind is Kind.RDF else _TYPES[channel.kind]
    detected = encoding_by_bytes(body)
    mark = detected[0] if detected is not None else ""
    declared = declared or ""
    return (_build_media_type if len(declared) < _CACHED_TYPE_MAX else _build_media_type.__wrapped__)(
        proper, declared, mark
    )


@lru_cache(maxsize=1024)
def _build_media_type(proper: str, declared: str, mark: str) -> str:
    """Return the `proper` media type with those declared parameters that may remain.

    `mark` is the codec that the document's first bytes indicate, or "".
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

    `mark` is the codec that the document's first bytes indicate, or "".
    """
    codec = codec_of(label)
    if codec is None or not mark:
        return codec is not None
    return codec == mark or (codec in ("utf_16", "utf_32") and mark.startswith(codec))
