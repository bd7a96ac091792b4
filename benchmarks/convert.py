"""The cost of a conversion: milliseconds and memory, for a feed of 60 KB and a feed of 5 MB.

    python benchmarks/convert.py [--seconds N]

Method: an artificial RSS 2.0 feed with HTML, persons, categories, enclosures and Media RSS is parsed and written in
each format. The least of several times is reported, because other programs can only lengthen it. `of a read` is the
time of writing divided by the time of parsing. feedproxy parses a feed once, and writes each format separately. Memory
is the peak of Python's own allocator minus its initial value (tracemalloc, in a separate run); lxml's trees are not
included. No test checks these figures.
"""

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.read.from_document import read

_HEAD = (
    '<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:media="http://search.yahoo.com/mrss/"><channel>'
    "<title>A feed</title><link>https://example.com/</link><description>Made up</description>"
)


def a_feed(size: int) -> bytes:
    """Return a feed of about `size` bytes."""
    pieces, length, number = [_HEAD], len(_HEAD), 0
    while length < size:
        number += 1
        words = f"<p>Item {number} says <a href='/{number}'>something</a> &amp; more.</p>" * 12
        piece = (
            f"<item><title>Item {number} &amp; what it says</title><link>https://example.com/{number}</link>"
            f"<guid>https://example.com/{number}</guid><pubDate>Wed, 15 Nov 2023 12:00:00 GMT</pubDate>"
            f"<dc:creator>Ann Example</dc:creator><category>news</category><category>{number}</category>"
            f'<enclosure url="https://example.com/{number}.mp3" length="1000" type="audio/mpeg"/>'
            f'<media:content url="https://example.com/{number}.jpg" medium="image">'
            "<media:title>x</media:title></media:content>"
            f"<description>Short</description><content:encoded>{escape(words)}</content:encoded></item>"
        )
        pieces.append(piece)
        length += len(piece)
    return "".join([*pieces, "</channel></rss>"]).encode()


def least(work: Callable[[], object], seconds: float) -> float:
    """Return the least time of one run in milliseconds, of at least three runs within `seconds`."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < until:
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times) * 1000


def peak(work: Callable[[], object]) -> float:
    """Return the peak memory of one run in megabytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    seconds: float = parser.parse_args().seconds
    for size in (60_000, 5_000_000):
        body = a_feed(size)
        feed = read(body)
        assert feed is not None
        reading = least(lambda body=body: read(body), seconds)  # type: ignore[misc]
        print(f"{len(body):,} bytes, {len(feed.items)} items")
        print(f"  {'read':<8}{reading:9.1f} ms {'':>16}{peak(lambda body=body: read(body)):8.1f} MB")  # type: ignore[misc]
        for each in FORMATS.values():
            took = least(lambda feed=feed, each=each: each.render(feed), seconds)  # type: ignore[misc]
            used = peak(lambda feed=feed, each=each: each.render(feed))  # type: ignore[misc]
            print(f"  {each.name:<8}{took:9.1f} ms {took / reading:6.2f} of a read{used:8.1f} MB")


if __name__ == "__main__":
    main()
