"""Every hostile answer of the corpus, through the whole running product, has the outcome that its case expects.

The corpus's own origin serves the raw bytes; the proxy is the product's master, with a reader on one side and real
sockets on both. What the cases say must not happen to the machine is in test_hostile_bounds.py.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from tests.conftest import CORPUS
from tests.live.hostile import NOON, Play, read_index
from tests.live.outcomes import OUTCOMES, outcome_of
from tests.live.servers import whole_proxy

DEVIATIONS = {
    "ttl-vs-max-age": (
        "kept no longer than 60 s",
        "DESIGN, 6.2: `feed_hints = enforce` is the default, and lets ttl hold a copy that is stale by HTTP; "
        "RFC 9111, 4.2.4 permits that, and readers are told (Age, negative ttl, detail). With `heuristic` the case's "
        "own words hold, see test_by_option_ttl_never_outlasts_http.",
    ),
}
"""Where the outcome is another than the case's sentence: what the sentence says, and the argument."""


CASES = read_index(CORPUS) if (CORPUS / "hostile.json").is_file() else []
ABSENT = pytest.param("", marks=pytest.mark.skip("no corpus: ../shared/corpus is not there"))


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest, hostile_origin: tuple[ModuleType, int], corpus: Path
) -> AsyncIterator[Any]:
    """A case, on a proxy of its own at noon, before an origin that remembers nothing."""
    module, port = hostile_origin
    cases = dict(module.CASES)
    module.STATE.clear()
    module.LOG.clear()
    name, settings = request.param
    # The spacing between two feeds of a site would wait on a clock that stands still.
    async with whole_proxy(ManualClock(NOON), port, site_interval=0, **settings) as whole:
        yield Play(module.CASES[name], module, whole, corpus)
    module.CASES.update(cases)


def on_stage(name: str, **settings: Any) -> Any:
    """A case, with these options."""
    if not CASES:
        return ABSENT
    return pytest.param((name, settings), id=name)


@pytest.mark.parametrize("stage", [on_stage(str(case["id"])) for case in CASES] or [ABSENT], indirect=True)
async def test_what_the_case_expects_is_what_the_reader_gets(stage: Play) -> None:
    outcome = outcome_of(stage.id)

    assert outcome is not None, "a case without an outcome is a case that nobody has looked at"
    await outcome(stage)


def test_every_case_has_an_outcome_and_every_outcome_a_case(corpus: Path) -> None:
    names = [case["id"] for case in read_index(corpus)]

    assert [name for name in names if outcome_of(name) is None] == []
    assert [pattern for pattern, _ in OUTCOMES if not any(re.fullmatch(pattern, name) for name in names)] == []
    assert [name for name in DEVIATIONS if name not in names] == []


@pytest.mark.parametrize("stage", [on_stage("ttl-vs-max-age", feed_hints="heuristic")], indirect=True)
async def test_by_option_ttl_never_outlasts_http(stage: Play) -> None:
    await stage.get()
    stage.clock.advance(61)

    _, asked = await stage.get_again()

    assert asked
