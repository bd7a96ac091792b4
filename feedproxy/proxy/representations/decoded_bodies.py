"""Coded content decoded for readers that do not know the coding: done once, and remembered for a while.

What readers get of a feed is ready-made; this is for what is no feed, which is kept as it came. Failures are
remembered as well: a bomb costs its bound once, not once for every reader who asks.
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
        """Bytes held."""
        return self._decoded.size

    def resize(self, bytes_max: int) -> None:
        """Hold at most so many bytes from now on."""
        self._decoded.resize(bytes_max)

    def get(self, body: bytes, label: str, *, limit: int) -> bytes | None:
        """The content behind this coding; None where it cannot be decoded within the limit (bytes)."""
        key = id(body)  # no other object has it while this one is held here
        known = self._decoded.get(key)
        if known is not None and known[0] is body and known[1] == label:
            return known[2]
        plain = decoded(body, label, limit=limit)
        self._decoded.put(key, (body, label, plain), len(body) + len(plain or b""))
        return plain


def decoded(body: bytes, label: str, *, limit: int) -> bytes | None:
    """The content behind this coding, remembered nowhere; None where it cannot be decoded within the limit (bytes)."""
    try:
        return content_coding.decode(body, label, limit=content_coding.reasonable(len(body), limit))
    except FeedproxyError:
        return None


DECODED_BODIES = DecodedBodies(Settings().memory.decoded)
"""Of this process: a pure function's memory, with nothing of any reader in it. The service sets its bound."""
