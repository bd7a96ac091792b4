"""The pages that are followed step by step are true: their commands run, and print what the page shows."""

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
def test_page_does_and_prints_what_it_says(path: Path, tmp_path: Path) -> None:
    with pages.opened(path, tmp_path / "here") as page:
        if missing := page.missing():
            pytest.skip(f"not installed: {', '.join(sorted(missing))}")
        page.play()
    if page.untrue:
        pytest.fail("\n\n".join(page.untrue), pytrace=False)
    assert page.checked or "\n    " not in path.read_text(encoding="utf-8")


def _told(text: str, folder: Path) -> list[str]:
    """What is untrue of a page with this text."""
    written = folder / "page.md"
    written.write_text(text, encoding="utf-8")
    with pages.opened(written, Path(tempfile.mkdtemp(dir=folder)) / "here") as page:
        page.play()
    return page.untrue


def test_page_whose_output_is_another_is_untrue(tmp_path: Path) -> None:
    [told] = _told("Say it:\n\n    echo one\n\n    two\n", tmp_path)
    assert "page.md:3: the output is another" in told
    assert "-two\n+one" in told


def test_page_whose_command_fails_is_untrue(tmp_path: Path) -> None:
    [told] = _told("Copy it:\n\n    cp nothing there\n", tmp_path)
    assert "`cp nothing there` ends with 1, not 0" in told


def test_block_that_is_neither_command_nor_output_nor_skipped_is_untrue(tmp_path: Path) -> None:
    assert _told("An unknown one:\n\n    some-program --option\n", tmp_path)
    assert not _told("<!-- run: skip an example -->\n\n    some-program --option\n", tmp_path)


def test_reason_for_a_skip_is_one_of_the_list(tmp_path: Path) -> None:
    told = _told("<!-- run: skip it is slow -->\n\n    echo one\n", tmp_path)
    assert "'it is slow' is not among the reasons" in told[0]


def test_what_differs_from_run_to_run_is_masked(tmp_path: Path) -> None:
    told = _told("    echo at 2026-11-21T06:03:39Z, 5 s ago\n\n    at 2020-01-01T00:00:00Z, 9 s ago\n", tmp_path)
    assert not told


def test_an_ellipsis_stands_for_anything(tmp_path: Path) -> None:
    assert not _told("    echo one and two; echo three; echo four\n\n    one … two\n    …\n    four\n", tmp_path)
