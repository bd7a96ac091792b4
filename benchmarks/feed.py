"""The feeds that the benchmarks request: any number of different feeds of 60 KB each (12 KB with gzip), or small feeds.

Each feed has its own title and self link. The entries are the same in all feeds, and are compressed only once. To make
this possible, the compressor is flushed completely (Z_FULL_FLUSH) after the feed's own part.
"""

import random
import struct
import zlib
from functools import cache

HOST = "feeds.example"
ITEMS = 56
VOCABULARY = 330
GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"


def path(name: str) -> str:
    """Return the path of the feed at the origin and at each cache."""
    return f"/feed/{name}.rss"


def feed(name: str) -> bytes:
    """Return an RSS feed with a correct self link, so that feedproxy does not change the feed."""
    return _own(name) + _entries(_items(name))


def zipped(name: str) -> bytes:
    """Return the feed compressed with gzip, as an origin would store it in a file."""
    own, entries = _own(name), _entries(_items(name))
    packer = zlib.compressobj(6, wbits=-15)
    packed = packer.compress(own) + packer.flush(zlib.Z_FULL_FLUSH)
    length = (len(own) + len(entries)) & 0xFFFFFFFF
    checksum = zlib.crc32(entries, zlib.crc32(own))
    return GZIP_HEAD + packed + _packed_entries(_items(name)) + struct.pack("<II", checksum, length)


def tag(name: str) -> str:
    """Return the origin's ETag. It is the same for both codings, as with many servers."""
    return f'"{zlib.crc32(name.encode()):08x}-f022"'


def _own(name: str) -> bytes:
    return f"""<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom">
<channel>
<title>Notes of {name}</title>
<link>http://{HOST}/{name}/</link>
<description>What happened at {name}</description>
<atom:link rel="self" type="application/rss+xml" href="http://{HOST}{path(name)}"/>
""".encode()


def _items(name: str) -> int:
    return 1 if name.startswith("small-") else ITEMS


@cache
def _entries(items: int) -> bytes:
    """Return entries with words in a Zipf distribution, so that they compress like natural language."""
    chance = random.Random(12_308)
    letters = "etaoinshrdlcumwfgypbvk"
    words = ["".join(chance.choices(letters, range(22, 0, -1), k=chance.randint(2, 10))) for _ in range(VOCABULARY)]
    weights = [1 / rank for rank in range(1, VOCABULARY + 1)]
    parts = []
    for number in range(items, 0, -1):
        title, text = (" ".join(chance.choices(words, weights, k=k)) for k in (6, 98))
        parts.append(f"""<item>
<title>{title}</title>
<link>http://{HOST}/entries/{number}.html</link>
<guid isPermaLink="true">http://{HOST}/entries/{number}.html</guid>
<pubDate>{number % 28 + 1:02} Jun 2024 {number % 24:02}:30:00 GMT</pubDate>
<description>&lt;p&gt;{text}&lt;/p&gt;</description>
</item>
""")
    return "".join([*parts, "</channel>\n</rss>\n"]).encode()


@cache
def _packed_entries(items: int) -> bytes:
    packer = zlib.compressobj(6, wbits=-15)
    return packer.compress(_entries(items)) + packer.flush()
