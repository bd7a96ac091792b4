"""The tests that passed before, by suite and entrance: passed.txt, with one name per line.

`make conformance CONFORMANCE_ARGS=--record` records the tests that pass now. A test that no longer passes is reported.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).with_name("passed.txt")
HEAD = """\
# Required and optimal tests that feedproxy passes, by suite and entrance. None may get lost: make conformance-check.
# Written by: make conformance CONFORMANCE_ARGS=--record
"""


def heading(suite: str, entrance: str) -> str:
    return f"{suite} {entrance}"


def load(text: str) -> dict[str, frozenset[str]]:
    """Return the names of tests in passed.txt, keyed by the heading above them."""
    made: dict[str, set[str]] = {}
    names: set[str] = set()
    for line in text.splitlines():
        if line.startswith("["):
            names = made.setdefault(line.strip("[]"), set())
        elif line and not line.startswith("#"):
            names.add(line)
    return {each: frozenset(found) for each, found in made.items()}


def dump(passed: Mapping[str, Iterable[str]]) -> str:
    """Return the text that `load` reads."""
    sections = ("\n".join((f"[{each}]", *sorted(passed[each]))) for each in sorted(passed))
    return HEAD + "".join(f"\n{section}\n" for section in sections)


def read() -> dict[str, frozenset[str]]:
    return load(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}


def record(suite: str, entrance: str, names: Iterable[str]) -> None:
    FILE.write_text(dump({**read(), heading(suite, entrance): names}), encoding="utf-8")
