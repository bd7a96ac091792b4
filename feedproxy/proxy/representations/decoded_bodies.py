"""Cache of decoded content other than feeds, for clients that do not accept the stored content coding. Failures to
decode are cached, too."""

from feedproxy.errors import FeedproxyError
from feedproxy.http.coding import bounded_decompression
from feedproxy.lru_map import LRU
from feedproxy.settings import Settings

SYNC_DECODE_MAX = 4 * 1024 * 1024
"""The event loop decodes content up to this many decoded bytes. Larger content is sent in its stored coding."""


class DecodedBodies:
    """Cache of decoded bodies, keyed by the coded bytes and their Content-Encoding. `bytes_max` limits the memory of
    coded and decoded bytes together."""

    def __init__(self, bytes_max: int) -> None:
        self._decoded: LRU[tuple[bytes, str], bytes | None] = LRU(bytes_max)

    def resize(self, bytes_max: int) -> None:
        """Set the limit of the cache in bytes."""
        self._decoded.resize(bytes_max)

    def get(self, body: bytes, label: str, *, limit: int) -> bytes | None:
        """Return the decoded content, or None if it is invalid or exceeds `limit` or SYNC_DECODE_MAX bytes. `label` is
        the Content-Encoding of `body`."""
        key = body, label
        if key in self._decoded:
            return self._decoded.get(key)
        plain = decode_or_none(body, label, limit=min(limit, SYNC_DECODE_MAX))
        self._decoded.put(key, plain, len(body) + len(plain or b""))
        return plain


def decode_or_none(body: bytes, label: str, *, limit: int) -> bytes | None:
    """Return the decoded content without caching, or None if it is invalid or exceeds `limit` bytes. `label` is the
    Content-Encoding of `body`."""
    try:
        return bounded_decompression.decode(body, label, limit=bounded_decompression.decoding_limit(len(body), limit))
    except FeedproxyError:
        return None


DECODED_BODIES = DecodedBodies(Settings().memory.decoded)
"""The cache of decoded bodies of this process. `Service` sets its limit."""
