"""Every hostile response of the corpus, through the whole running product, has the outcome that its case expects.

The corpus's own origin serves the raw bytes. The proxy is the product's master, with real sockets on both sides.
test_hostile_bounds.py checks the limits on the machine's resources.
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
        "The default `feed_hints = enforce` serves a copy that is stale by HTTP until its ttl ends. RFC 9111, "
        "section 4.2.4, permits that, and readers see it (Age, negative ttl, detail). With `heuristic` the case's "
        "expectation holds; see test_ttl_never_exceeds_http_by_option.",
    ),
}
"""Cases whose outcome differs from the case's sentence: the sentence and the reason."""


CASES = read_index(CORPUS) if (CORPUS / "hostile.json").is_file() else []
ABSENT = pytest.param("", marks=pytest.mark.skip("no corpus: ../shared/corpus is not there"))


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest, hostile_origin: tuple[ModuleType, int], corpus: Path
) -> AsyncIterator[Any]:
    """Open a case with its own proxy at noon, before an origin without state."""
    module, port = hostile_origin
    cases = dict(module.CASES)
    module.STATE.clear()
    module.LOG.clear()
    name, settings = request.param
    # The spacing between two feeds of a site would wait for a clock that does not advance.
    async with whole_proxy(ManualClock(NOON), port, site_interval=0, **settings) as whole:
        yield Play(module.CASES[name], module, whole, corpus)
    module.CASES.update(cases)


def on_stage(name: str, **settings: Any) -> Any:
    """Open a case with these options."""
    if not CASES:
        return ABSENT
    return pytest.param((name, settings), id=name)


@pytest.mark.parametrize("stage", [on_stage(str(case["id"])) for case in CASES] or [ABSENT], indirect=True)
async def test_hostile_case_has_its_expected_outcome(stage: Play) -> None:
    outcome = outcome_of(stage.id)

    assert outcome is not None, "a case without an outcome is a case that nobody has looked at"
    await outcome(stage)


def test_hostile_cases_and_outcomes_correspond(corpus: Path) -> None:
    names = [case["id"] for case in read_index(corpus)]

    assert [name for name in names if outcome_of(name) is None] == []
    assert [pattern for pattern, _ in OUTCOMES if not any(re.fullmatch(pattern, name) for name in names)] == []
    assert [name for name in DEVIATIONS if name not in names] == []


@pytest.mark.parametrize("stage", [on_stage("ttl-vs-max-age", feed_hints="heuristic")], indirect=True)
async def test_ttl_never_exceeds_http_by_option(stage: Play) -> None:
    await stage.get()
    stage.clock.advance(61)

    _, asked = await stage.get_again()

    assert asked
