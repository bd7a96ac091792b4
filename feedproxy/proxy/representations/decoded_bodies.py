"""Coded content decoded for readers that do not know the coding: done once, and remembered for a while.

What readers get of a feed is ready-made; this is for what is no feed, which is kept as it came. Failures are
remembered as well: a bomb costs its bound once, not once for every reader who asks.
"""

from collections import OrderedDict

from feedproxy.errors import FeedproxyError
from feedproxy.http import content_coding

ENTRIES_MAX = 32
BYTES_MAX = 33_554_432


class DecodedBodies:
    """Decoded bodies by the very bytes object they were made of, bounded by count and bytes."""

    def __init__(self) -> None:
        self._decoded: OrderedDict[int, tuple[bytes, str, bytes | None]] = OrderedDict()
        self._bytes = 0

    def get(self, body: bytes, label: str, *, limit: int) -> bytes | None:
        """The content behind this coding; None where it cannot be decoded within the limit (bytes)."""
        key = id(body)  # no other object has it while this one is held here
        known = self._decoded.get(key)
        if known is not None and known[0] is body and known[1] == label:
            self._decoded.move_to_end(key)
            return known[2]
        try:
            plain: bytes | None = content_coding.decode(body, label, limit=content_coding.reasonable(len(body), limit))
        except FeedproxyError:
            plain = None
        self._decoded[key] = (body, label, plain)
        self._bytes += len(plain or b"")
        while self._decoded and (len(self._decoded) > ENTRIES_MAX or self._bytes > BYTES_MAX):
            _, (_, _, oldest) = self._decoded.popitem(last=False)
            self._bytes -= len(oldest or b"")
        return plain


DECODED_BODIES = DecodedBodies()
"""Of this process: a pure function's memory, with nothing of any reader in it."""
