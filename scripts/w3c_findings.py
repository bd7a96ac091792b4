"""Findings of the W3C's feed validator about feeds and their conversions: `python scripts/w3c_findings.py SRC FEEDS`.

SRC is the folder `src` of a checkout of https://github.com/w3c/feedvalidator, which requires lxml and html5lib and is
not part of this project. FEEDS is a folder of feeds. For each format, the script prints the number of findings of level
AA, which the validator's site shows, before and after conversion. It also prints each feed with more findings than
before.
"""

import argparse
import codecs
import collections
import contextlib
import io
import re
import sys
from pathlib import Path

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.read.from_document import read, with_source_address

_SOME_DAY = 1_700_000_000
"""Modification time of a feed, as a server would state it."""

_FAILED = "the validator failed"

_JUDGED = ("rss", "rdf", "atom")

_DECLARATION = re.compile(rb"\A\s*(?:<\?xml\s[^>]*\?>)?\s*")


def main() -> int:
    """Compare the findings. Return 1 if a document has more findings than its original."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("src", type=Path)
    parser.add_argument("feeds", type=Path)
    parser.add_argument("--new", action="store_true", help="show the sorts of findings that are new, and how often")
    args = parser.parse_args()
    sys.path.insert(0, str(args.src))
    before, after = collections.Counter[str](), collections.Counter[str]()
    worse: dict[str, list[str]] = collections.defaultdict(list)
    sorts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    feeds = unjudged = 0
    for path in sorted(args.feeds.iterdir()):
        body = path.read_bytes()
        address = f"https://feeds.example/{path.name}"
        feed = read(body, address=address)
        if feed is None or feed.kind in ("json", "cdf"):  # which that validator does not support
            continue
        feed = with_source_address(feed, feed.address or address, modified=_SOME_DAY)
        feeds += 1
        known = findings(body, feed.address)
        for name in _JUDGED:
            ours = findings(FORMATS[name].render(feed), feed.address)
            if _FAILED in ours or _FAILED in known:
                unjudged += 1
                continue
            before[name] += known.total()
            after[name] += ours.total()
            if ours.total() > known.total():
                worse[name].append(f"{path.name}: {known.total()} → {ours.total()} {dict(ours - known)}")
                sorts[name].update(ours - known)
    print(f"{feeds} feeds; {unjudged} documents on which the validator itself fails are left out")
    for name in _JUDGED:
        print(f"{name}: {before[name]} findings before, {after[name]} after; {len(worse[name])} feeds have more")
        if args.new:
            for sort, count in sorts[name].most_common():
                print(f"  {count} {sort}")
        else:
            print("".join(f"  {each}\n" for each in worse[name]), end="")
    return 1 if any(worse.values()) else 0


def findings(document: bytes, address: str) -> collections.Counter[str]:
    """Return the number of findings by kind. Each kind counts once for each place in the document."""
    import feedvalidator  # noqa: PLC0415 -- it is where the caller says
    from feedvalidator import compatibility  # noqa: PLC0415

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            events = feedvalidator.validateString(document, firstOccurrenceOnly=1, base=address)["loggedEvents"]
            if any(isinstance(each, feedvalidator.logging.MissingEncoding) for each in events):
                declared = _with_encoding(document)
                events = feedvalidator.validateString(declared, firstOccurrenceOnly=1, base=address)["loggedEvents"]
        except feedvalidator.logging.ValidationFailure as failure:
            events = [failure.event]
        except (AttributeError, TypeError, ValueError, KeyError, IndexError):
            return collections.Counter([_FAILED])
    shown = compatibility.AA(events)
    said = (f"{type(each).__name__}({each.params.get('element', '')})" for each in shown)
    return collections.Counter(said)


def _with_encoding(document: bytes) -> bytes:
    """Return the document with its default encoding stated, because the validator stops at documents without one."""
    return b'<?xml version="1.0" encoding="UTF-8"?>' + _DECLARATION.sub(b"", document.removeprefix(codecs.BOM_UTF8))


if __name__ == "__main__":
    sys.exit(main())
