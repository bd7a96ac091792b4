"""Bytes of feed updates between two feedproxies, with and without dictionaries.

    python -m benchmarks.two_proxies --histories DIR

One feedproxy runs in front of the publisher and one in an office, each in its own process. A relay between them counts
the transferred bytes, fields included. The first versions of each history (see benchmarks.deltas) are published one
after another, and each is requested from the office's feedproxy. The first transfer of a feed is always complete, and
is not counted.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.deltas import histories
from tests.live.line import Line
from tests.live.origin import opened
from tests.live.product import Feedproxy, ask


def measure(folder: Path, versions: Sequence[Sequence[bytes]], dictionaries: str) -> list[tuple[int, int]]:
    """Return the number of updates of each history, and the bytes that were transferred for them.

    `dictionaries` is the value of the option `compression_dictionaries`.
    """
    rows: list[tuple[int, int]] = []
    with opened(folder / "origin") as (origin, authority), Line() as line:
        publisher = Feedproxy(
            folder / "publisher", "--upstream", origin.url(""), public_url=line.base, reload_interval=0, polling="off"
        )
        line.destination = publisher.base
        office = Feedproxy(
            folder / "office",
            authority=authority.file,
            compression_dictionaries=dictionaries,
            reload_interval=0,
            polling="off",
        )
        try:
            for number, history in enumerate(versions):
                count = before = 0
                for index, body in enumerate(history):
                    path = f"/{number}.xml"
                    origin.publish(path, body, Content_Type="application/xml", Cache_Control="max-age=600")
                    ask(f"{publisher.base}{path}", fields={"Cache_Control": "no-cache"})
                    if index == 1:
                        before = line.received
                    if office.get(f"{line.base}{path}", Cache_Control="no-cache").status != 200:
                        raise RuntimeError(f"version {index} of history {number} was not served")
                    count = index
                rows.append((count, line.received - before if count else 0))
        finally:
            office.terminate()
            publisher.terminate()
    return rows


def main() -> int:
    """Measure, and print a table."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.two_proxies")
    arguments.add_argument("--histories", type=Path, required=True, metavar="DIR")
    arguments.add_argument("--versions", type=int, default=10, metavar="N", help="of each history (10)")
    parsed = arguments.parse_args()
    found = [(name, list(islice(versions, parsed.versions))) for name, versions in histories(parsed.histories)]
    rows: dict[str, list[tuple[int, int]]] = {}
    for dictionaries in ("off", "secure"):
        with tempfile.TemporaryDirectory() as folder:
            rows[dictionaries] = measure(Path(folder), [versions for _, versions in found], dictionaries)
    print(f"{'':48} {'updates':>7} {'without':>10} {'with':>10} {'ratio':>7}")
    total = [0, 0, 0]
    for (name, _), (count, whole), (_, shortened) in zip(found, rows["off"], rows["secure"], strict=True):
        print(f"{name:48.48} {count:7} {whole:10} {shortened:10} {whole / max(shortened, 1):7.1f}")
        total = [sum(pair) for pair in zip(total, (count, whole, shortened), strict=True)]
    print(f"{'all':48} {total[0]:7} {total[1]:10} {total[2]:10} {total[1] / max(total[2], 1):7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
