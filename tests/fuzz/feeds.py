"""Mutated feeds in all operations on feeds: `python -m tests.fuzz.feeds --seed N --seconds S`.

Feeds come from the tests, and from ../shared/corpus if it exists. Each is mutated at random: pieces are cut, repeated
or swapped with those of other feeds, bytes are changed, and constructs that once took long are inserted. No operation
may raise an error or take longer than the size of the document allows. These properties must hold for every document:

- The same bytes have the same content digest and entries each time.
- A delta from nothing is the document, and a delta from the document has no entry.
- A rendering is a feed.
- A self link that was added is found.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.read import from_document as convert
from feedproxy.feed.delta.delta_document import make_delta
from feedproxy.feed.delta.entry_identities import find_entries
from feedproxy.feed.edit.self_link import apply_self_link
from feedproxy.feed.parse import channel_parser as read
from tests.security.junk import DOCUMENTS, PIECES
from tests.security.readings import HREF, READINGS

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests" / "golden", ROOT / "tests", ROOT.parent / "shared" / "corpus")
ENDINGS = (".xml", ".rss", ".atom", ".rdf", ".json", ".cdf", ".opml")
SEEDS_MAX = 400
SIZE_MAX = 20_000
AGAIN = ("rss", "rdf", "atom", "json")
"""Formats that are read back."""

PER_BYTE = 20e-6
BASE = 1.0
"""Seconds of processor time that an operation may take in addition to the time per byte."""


class Failure(AssertionError):
    """A property that does not hold for a document."""


def seeds() -> list[bytes]:
    """Return the documents to begin with."""
    found = [make(20) for make in DOCUMENTS.values()]
    for folder in FOLDERS:
        files = sorted(each for each in folder.rglob("*") if each.suffix in ENDINGS) if folder.is_dir() else []
        found += [each.read_bytes() for each in files[:SEEDS_MAX] if each.stat().st_size <= SIZE_MAX]
    return found


def mutated(document: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Return the document with one to eight changes."""
    for _ in range(chance.randint(1, 8)):
        start = chance.randrange(len(document) + 1)
        end = min(len(document), start + int(chance.expovariate(1 / 40)))
        piece = document[start:end]
        match chance.randrange(7):
            case 0:
                piece = b""
            case 1:
                piece *= chance.choice((2, 3, 100))
            case 2:
                piece = bytes(chance.randrange(256) for _ in range(min(len(piece), 8)))
            case 3:
                piece += chance.choice(PIECES).encode() * chance.choice((1, 2, 500))
            case 4:
                other = chance.choice(others)
                at = chance.randrange(len(other) + 1)
                piece = other[at : at + 400]
            case 5:
                piece = piece[::-1]
            case _:
                document, start = document[:end] + document[start:], end
                piece = b""
        document = document[:start] + piece + document[end:]
    return document[:SIZE_MAX]


def tried(document: bytes) -> None:
    """Apply every operation to a document. Raises Failure, and every error that the operations may not raise."""
    for name, reading in READINGS.items():
        began = time.process_time()
        reading(document)
        if (took := time.process_time() - began) > BASE + PER_BYTE * len(document):
            raise Failure(f"{name} took {took:.2f} s for {len(document)} bytes")
    channel = read.read(document, None)
    if channel is None:
        return
    if channel != read.read(document, None):
        raise Failure("it says something else when it is read again")
    _delta_holds(document)
    edited = apply_self_link(document, channel, href=HREF, mode="correct")
    if edited is not document:
        again = read.read(edited, None)
        if again is None or not again.well_formed or HREF not in {each.href for each in again.self_links}:
            raise Failure("the self link that was written is not found")
    feed = convert.read(document, None, address=HREF)
    for name in AGAIN if feed is not None else ():
        assert feed is not None
        back = convert.read(FORMATS[name].render(feed), None, address=HREF)
        if back is None:  # there may be more items: an RSS extension may have the name of Atom's items
            raise Failure(f"{name} cannot be read back")


def _delta_holds(document: bytes) -> None:
    channel = read.read(document, None)
    found = find_entries(document, channel) if channel is not None else None
    if channel is None or not found:
        return
    if len({each.identity for each in found}) != len(found):
        raise Failure("two entries have one identity")
    whole = make_delta(document, channel, [])
    if whole is not None and whole.body != document:
        raise Failure("the delta from nothing is not the document")
    nothing = make_delta(document, channel, [(each.identity, each.digest) for each in found])
    if nothing is not None and nothing.entries:
        raise Failure("the delta from the document itself has entries")


def documents(seed: int) -> Iterator[bytes]:
    """Yield an endless sequence of documents that depends on the seed only."""
    chance = random.Random(seed)
    begin = seeds()
    while True:
        yield mutated(chance.choice(begin), begin, chance)


def run(seed: int, seconds: float) -> int:
    """Test documents for a number of seconds and return their number. Raises Failure, and writes the document to a
    file."""
    until = time.monotonic() + seconds
    for number, document in enumerate(documents(seed)):
        if time.monotonic() >= until:
            return number
        try:
            tried(document)
        except Exception as error:
            error.add_note(f"seed {seed}, document {number}: {document[:300]!r}")
            raise
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args(arguments)
    print(f"{run(given.seed, given.seconds)} documents were tried, seed {given.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
