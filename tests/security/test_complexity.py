"""The time for a document from an unknown publisher grows with its size, in every parser and renderer."""

import functools
import gc
from collections.abc import Callable

import pytest

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.markup import resolve
from feedproxy.feed.convert.model import Feed
from tests.growth import grows_no_faster
from tests.security.junk import DOCUMENTS
from tests.security.readings import READINGS, to_model
from tests.steps import steps

SIZE = 600
FEW = 150
"""Number of pieces in documents of items, which are expensive each."""

SEVERAL = 3000
"""Of documents that are processed in the event loop."""

STEPS_MAX = 10_000
"""Lines of Python, which take about a millisecond."""

QUICKLY_READ = ("prepare", "delta", "discovery", "opml")
WRITTEN = ("rdf", "html", "json", "csv")
"""Formats whose renderers are measured alone, without the reading of the document."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_time_for_a_document_grows_no_faster_than_its_size(name: str) -> None:
    make = functools.cache(DOCUMENTS[name])
    models: dict[int, Feed | None] = {}

    def read_model(size: int) -> Callable[[], object]:
        document = make(size)
        return lambda: models.update({size: to_model(document)})

    def model(size: int) -> Feed | None:
        if size not in models:
            read_model(size)()
        return models[size]

    size = FEW if name.startswith(("items", "json items", "entries")) and "within" not in name else SIZE
    gc.collect()
    works: dict[str, Callable[[int], Callable[[], object]]] = {
        **{each: functools.partial(_reading_of, each, make) for each in QUICKLY_READ},
        "model": read_model,
        **{f"as {each}": functools.partial(_rendering_of, each, model) for each in WRITTEN},
    }
    slow = {each: told for each, work in works.items() if (told := grows_no_faster(work, size))}
    assert not slow


def _reading_of(name: str, make: Callable[[int], bytes], size: int) -> Callable[[], object]:
    return _reading(name, make(size))


def _rendering_of(name: str, model: Callable[[int], Feed | None], size: int) -> Callable[[], object]:
    return _rendering(name, model(size))


def _reading(name: str, document: bytes) -> Callable[[], object]:
    return lambda: READINGS[name](document)


def _rendering(name: str, feed: Feed | None) -> Callable[[], object]:
    return lambda: FORMATS[name].render(feed) if feed is not None else None


@pytest.mark.parametrize("name", ["at first sight", "scan_channel"])
def test_document_processed_in_the_event_loop_takes_few_steps(name: str) -> None:
    slow: dict[str, str | int] = {}
    for each, make in DOCUMENTS.items():
        if (count := steps(_reading(name, make(SEVERAL)))) > STEPS_MAX:
            slow[each] = count
        elif told := grows_no_faster(functools.partial(_reading_of, name, make), SEVERAL):
            slow[each] = told
    assert not slow


def test_character_of_an_address_is_percent_encoded_in_few_steps() -> None:
    assert steps(lambda: resolve("", "https://a.example/" + 1_000 * " <")) < 3 * 2_000


def test_parser_of_a_whole_document_takes_more_steps_than_the_event_loop_permits() -> None:
    """Show that the bound of the test above distinguishes a scan from a parser that reads every item."""
    assert steps(_reading("model", DOCUMENTS["items of no name"](SEVERAL))) > STEPS_MAX
