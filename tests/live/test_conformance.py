"""The public tests for HTTP caches: none that passed before is lost, and the page tells all."""

import subprocess
import sys
from pathlib import Path

import pytest

from conformance import page, passed
from conformance.__main__ import RESULTS, SKIPPED
from tests.live.conftest import needs

ROOT = Path(__file__).resolve().parents[2]


@needs("node", "npm")
def test_no_test_of_the_public_suite_is_lost_that_passed_before() -> None:
    command = [sys.executable, "-m", "conformance", "check"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=330, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the suite took more than 330 s here")
    if done.returncode == SKIPPED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_test_not_passed_has_its_reason_and_every_check_its_decision() -> None:
    assert page.unexplained(page.load(RESULTS), page.notes()) == set()


def test_the_page_of_results_is_what_the_results_make_of_it() -> None:
    made = page.page(page.load(RESULTS), page.notes())
    assert page.PAGE.read_text(encoding="utf-8") == made, "out of date: python -m conformance page"


def test_the_names_of_passed_tests_are_read_as_they_were_written() -> None:
    names = {"npm-1 reverse": frozenset({"a", "stale-s-maxage=2"}), "npm-1 proxy": frozenset({"b"})}
    assert passed.load(passed.dump(names)) == names
