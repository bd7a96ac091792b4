"""The pages made from the code say what the code says."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference.py"))


EXAMPLES = runpy.run_path(str(ROOT / "scripts" / "examples.py"))


@pytest.mark.parametrize("name", sorted(EXAMPLES["pages"]()))
def test_example_configuration_is_what_the_settings_make_of_it(name: str) -> None:
    text = (ROOT / "conf" / name).read_text(encoding="utf-8")
    assert text == EXAMPLES["pages"]()[name], f"conf/{name} is out of date: make docs"


@pytest.mark.parametrize("name", sorted(REFERENCE["PAGES"]))
def test_a_reference_page_is_what_the_code_makes_of_it(name: str) -> None:
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert page == REFERENCE["PAGES"][name](), f"docs/reference/{name} is out of date: make docs"
