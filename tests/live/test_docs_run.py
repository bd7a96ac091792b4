"""The step-by-step pages are correct: their commands run and have the shown output."""

import tempfile
from pathlib import Path

import pytest

from tests.live import pages
from tests.live.product import ROOT

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs/tutorial").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page_commands_have_the_shown_output(path: Path, tmp_path: Path) -> None:
    with pages.opened(path, tmp_path / "here") as page:
        if missing := page.missing():
            pytest.skip(f"not installed: {', '.join(sorted(missing))}")
        page.play()
    if page.untrue:
        pytest.fail("\n\n".join(page.untrue), pytrace=False)
    assert page.checked or "\n    " not in path.read_text(encoding="utf-8")


def _told(text: str, folder: Path) -> list[str]:
    """Return the error of a page with this text."""
    written = folder / "page.md"
    written.write_text(text, encoding="utf-8")
    with pages.opened(written, Path(tempfile.mkdtemp(dir=folder)) / "here") as page:
        page.play()
    return page.untrue


def test_page_test_reports_wrong_output(tmp_path: Path) -> None:
    [told] = _told("Say it:\n\n    echo one\n\n    two\n", tmp_path)
    assert "page.md:3: the output is another" in told
    assert "-two\n+one" in told


def test_page_test_reports_a_failing_command(tmp_path: Path) -> None:
    [told] = _told("Copy it:\n\n    cp nothing there\n", tmp_path)
    assert "`cp nothing there` ends with 1, not 0" in told


def test_page_test_reports_a_block_of_unknown_kind(tmp_path: Path) -> None:
    assert _told("An unknown one:\n\n    some-program --option\n", tmp_path)
    assert not _told("<!-- run: skip an example -->\n\n    some-program --option\n", tmp_path)


def test_skip_must_have_a_listed_reason(tmp_path: Path) -> None:
    told = _told("<!-- run: skip it is slow -->\n\n    echo one\n", tmp_path)
    assert "'it is slow' is not among the reasons" in told[0]


def test_page_test_masks_values_that_differ_between_runs(tmp_path: Path) -> None:
    told = _told("    echo at 2026-11-21T06:03:39Z, 5 s ago\n\n    at 2020-01-01T00:00:00Z, 9 s ago\n", tmp_path)
    assert not told


def test_ellipsis_matches_any_text(tmp_path: Path) -> None:
    assert not _told("    echo one and two; echo three; echo four\n\n    one … two\n    …\n    four\n", tmp_path)
