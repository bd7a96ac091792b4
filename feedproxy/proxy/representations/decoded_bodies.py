"""Coded content decoded for clients that do not accept its coding, cached for a while.

Feeds are stored in all codings; this is for other content, which is stored as it came. Failures are cached too: a
decompression bomb costs its bound once, not once for each request.
"""

from feedproxy.errors import FeedproxyError
from feedproxy.http import content_coding
from feedproxy.lru import LRU
from feedproxy.settings import Settings


class DecodedBodies:
    """Decoded bodies by the very bytes object that they were made of, both counted in `bytes_max`."""

    def __init__(self, bytes_max: int) -> None:
        self._decoded: LRU[int, tuple[bytes, str, bytes | None]] = LRU(bytes_max)

    @property
    def size(self) -> int:
        """Return the bytes held."""
        return self._decoded.size

    def resize(self, bytes_max: int) -> None:
        """Set the limit of the cache in bytes."""
        self._decoded.resize(bytes_max)

    def get(self, body: bytes, label: str, *, limit: int) -> bytes | None:
        """Return the decoded content; None where it cannot be decoded within `limit` bytes."""
        key = id(body)  # unique while this object is referenced here
        known = self._decoded.get(key)
        if known is not None and known[0] is body and known[1] == label:
            return known[2]
        plain = decoded(body, label, limit=limit)
        self._decoded.put(key, (body, label, plain), len(body) + len(plain or b""))
        return plain


def decoded(body: bytes, label: str, *, limit: int) -> bytes | None:
    """Return the decoded content, without caching it; None if it cannot be decoded within `limit` bytes."""
    try:
        return content_coding.decode(body, label, limit=content_coding.reasonable(len(body), limit))
    except FeedproxyError:
        return None


DECODED_BODIES = DecodedBodies(Settings().memory.decoded)
"""Of this process: a pure function's memory, with nothing of any reader in it. The service sets its bound."""
