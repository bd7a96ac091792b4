"""The time for a document from an unknown publisher grows with its size, in every parser and renderer."""

import functools
import gc
import time
from collections.abc import Callable

import pytest

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Feed
from tests.security.junk import DOCUMENTS
from tests.security.readings import READINGS, to_model

SIZE = 600
FEW = 150
"""Of documents whose every piece is an item, for which much is done."""

TIMES = 6
"""How much larger the second document is: what is quadratic takes 36 times as long."""

WORST = 3 * TIMES
MOMENT = 0.05
"""Seconds below which a cost is noise."""

QUICKLY_READ = ("prepare", "delta", "discovery", "opml", "model")
WRITTEN = ("rdf", "html", "json", "csv")
"""Formats whose renderers are measured alone, without the reading of the document."""


def cost(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def grows_no_faster(work: Callable[[int], Callable[[], object]], size: int) -> str:
    """Return an empty text if the time of `work` grows with the size, else the times.

    A failed measurement is repeated.
    """
    told = ""
    for _ in range(3):
        large = cost(work(TIMES * size))
        if large < MOMENT:
            return ""
        small = cost(work(size))
        if large <= WORST * small:
            return ""
        told = f"{small:.4f} s, and {large:.4f} s for {TIMES} times as much"
    return told


@pytest.mark.parametrize("name", DOCUMENTS)
def test_time_for_a_document_grows_with_its_size(name: str) -> None:
    make = DOCUMENTS[name]
    size = FEW if name.startswith(("items", "json items", "entries")) and "within" not in name else SIZE
    gc.collect()
    model = functools.cache(lambda size: to_model(make(size)))
    works: dict[str, Callable[[int], Callable[[], object]]] = {
        **{each: lambda size, each=each: _reading(each, make(size)) for each in QUICKLY_READ},
        **{f"as {each}": lambda size, each=each: _rendering(each, model(size)) for each in WRITTEN},
    }
    slow = {each: told for each, work in works.items() if (told := grows_no_faster(work, size))}
    assert not slow


def _reading(name: str, document: bytes) -> Callable[[], object]:
    return lambda: READINGS[name](document)


def _rendering(name: str, feed: Feed | None) -> Callable[[], object]:
    return lambda: FORMATS[name].render(feed) if feed is not None else None


@pytest.mark.parametrize("name", ["at first sight", "scan_channel"])
def test_document_processed_in_the_event_loop_takes_a_moment(name: str) -> None:
    slow = {
        each: took
        for each, make in DOCUMENTS.items()
        if (took := min(cost(_reading(name, make(3000))) for _ in range(2))) > MOMENT
    }
    assert not slow
