"""Bytes of feed updates as gzip, as 226 and as dcz: `python -m benchmarks.deltas --histories DIR`.

DIR contains the histories of feeds. Each is an archive (`*.tar.xz`) or a folder of versions in the order of their
names. An update is a version that differs from the previous version. The first 60 versions of each history count
(`--versions`), so that no feed outweighs the others.

For each update, the reader has the previous version. It gets the new version in one of three forms:

* complete, in gzip
* as a 226 in gzip with only the new entries, or complete in gzip if that is smaller
* as dcz with the old version as the dictionary, or complete in gzip if that is smaller

The last row leaves out updates in which only a date or a generator differs: feedproxy does not store them as new
versions, and answers a reader with 304.
"""

import argparse
import statistics
import sys
import tarfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

from feedproxy.feed.channel import Channel
from feedproxy.feed.delta.delta_document import make_delta
from feedproxy.feed.delta.entry_identities import find_entries, pack, unpack
from feedproxy.feed.parse import channel_parser
from feedproxy.http.coding import compression_dictionary, content_coding

LEVEL = 6
"""Compression level of gzip, which is feedproxy's."""

TO_REACH = (7.0, 2.2)
"""Targets for the ratios gzip ÷ dcz and 226 ÷ dcz."""


@dataclass(frozen=True, slots=True)
class Update:
    """One update: its bytes in each form, the seconds to make each, and whether its content is new."""

    gzip: int
    im: int
    dcz: int
    gzip_seconds: float
    im_seconds: float
    dcz_seconds: float
    is_new: bool


def histories(folder: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the name of each history in the folder, and its versions."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield path.name, _in_folder(path)
        elif ".tar" in path.suffixes or path.suffix in (".tgz", ".txz"):
            yield path.name.partition(".tar")[0], _in_archive(path)


def _in_folder(path: Path) -> Iterator[bytes]:
    return (each.read_bytes() for each in sorted(path.iterdir()) if each.is_file())


def _in_archive(path: Path) -> Iterator[bytes]:
    with tarfile.open(path) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                yield file.read()


def updates(versions: Iterable[bytes]) -> Iterator[Update]:
    """Yield the measurement of each update in a history."""
    for old, new in pairwise(versions):
        if old != new:
            yield _measured(old, new)


def _measured(old: bytes, new: bytes) -> Update:
    known, channel = channel_parser.read(old, None), channel_parser.read(new, None)
    gzip, gzip_seconds = _timed(lambda: content_coding.encode(new, "gzip", LEVEL))
    found = (
        find_entries(old, known) if known is not None else None
    )  # feedproxy computes it when it stores the old version
    since = unpack(pack(found)) if found is not None else None
    im, im_seconds = _timed(lambda: _as_im(new, channel, since))
    dcz, dcz_seconds = _timed(lambda: compression_dictionary.encode(new, old))
    if compression_dictionary.decode(dcz, old, limit=len(new)) != new:
        raise ValueError("dcz decodes to other bytes")
    smaller = min(len(im), len(gzip)) if im else len(gzip)
    return Update(
        len(gzip),
        smaller,
        min(len(dcz), len(gzip)),
        gzip_seconds,
        im_seconds,
        dcz_seconds,
        known is None or channel is None or channel.content_digest != known.content_digest,
    )


def _as_im(new: bytes, channel: Channel | None, since: Collection[tuple[str, str]] | None) -> bytes:
    made = make_delta(new, channel, since) if channel is not None and since is not None else None
    return b"" if made is None or made.body is new else content_coding.encode(made.body, "gzip", LEVEL)


def _timed(work: Callable[[], bytes]) -> tuple[bytes, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def line(name: str, measured: Sequence[Update]) -> str:
    """Return a row of the table."""
    gzip, im, dcz = (sum(getattr(each, form) for each in measured) for form in ("gzip", "im", "dcz"))
    median = statistics.median(each.gzip / each.dcz for each in measured)
    ms = 1e3 * statistics.median(each.dcz_seconds for each in measured)
    ratio = f"{gzip / dcz:.1f} : {im / dcz:.1f} : 1"
    return f"{name:48.48} {len(measured):7} {gzip:10} {im:10} {dcz:10} {ratio:>16} {median:8.1f} {ms:8.2f}"


def main() -> int:
    """Measure, and print the table. Return 1 if a ratio is below its target."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.deltas", description=__doc__)
    arguments.add_argument("--histories", type=Path, required=True, metavar="DIR")
    arguments.add_argument("--versions", type=int, default=60, metavar="N", help="of each history; 0: all (60)")
    parsed = arguments.parse_args()
    folder, most = parsed.histories, parsed.versions or None
    print(
        f"{'':48} {'updates':>7} {'gzip':>10} {'226':>10} {'dcz':>10} {'gzip : 226 : dcz':>16} {'median':>8} {'ms':>8}"
    )
    total: list[Update] = []
    for name, versions in histories(folder):
        if measured := list(updates(islice(versions, most))):
            print(line(name, measured), flush=True)
            total += measured
    if not total:
        print(f"no history with updates in {folder}", file=sys.stderr)
        return 1
    print(line("all", total))
    if new := [each for each in total if each.is_new]:
        print(line("with new content", new))
    gzip, im, dcz = (sum(getattr(each, form) for each in total) for form in ("gzip", "im", "dcz"))
    for form, seconds in (("gzip", "gzip_seconds"), ("226", "im_seconds"), ("dcz", "dcz_seconds")):
        times = [1e3 * getattr(each, seconds) for each in total]
        print(f"{form}: {statistics.median(times):.2f} ms an update (median), {statistics.mean(times):.2f} (mean)")
    print(
        f"to reach: {TO_REACH[0]} : {TO_REACH[1]} : 1; median: how many times smaller dcz is than gzip, half the time"
    )
    return 0 if gzip / dcz >= TO_REACH[0] and im / dcz >= TO_REACH[1] else 1


if __name__ == "__main__":
    sys.exit(main())
