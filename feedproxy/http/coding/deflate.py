"""The implementation of deflate, gzip and CRC-32: zlib-ng if it is installed, else Python's zlib.

For a feed of 60 KB, zlib-ng takes 40 µs to decode gzip, and 0.70 ms to encode at level 6. zlib takes 56 µs and 1.01 ms.
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
