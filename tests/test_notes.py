"""Findings: texts filled in with values."""

import runpy
import sys
from pathlib import Path

import pytest

from feedproxy.notes import Category, Level, Note, notes_of, sorted_by_level

as_markdown = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "reference.py"))["as_markdown"]


class NO_VALIDATOR(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "The feed has neither ETag nor Last-Modified."
    advice = """\
    Every reader gets all of its %(size)s
    anew each time.

    Let the server send one of them: 100 %% of readers gain."""
    reference = "RFC 9110, section 8.8"


class HAS_GZIP(Note, level=Level.GOOD, category=Category.CODING):
    summary = "It comes compressed."
    advice = "Nothing to do."
    reference = "RFC 9110, section 8.4"


def test_note_contains_the_values_that_it_was_given() -> None:
    note = NO_VALIDATOR(subject="https://example.com/feed", size="40 KB")

    assert note.as_json() == {
        "id": "no-validator",
        "level": "warn",
        "category": "Conditional requests",
        "subject": "https://example.com/feed",
        "summary": "The feed has neither ETag nor Last-Modified.",
        "advice": "Every reader gets all of its 40 KB anew each time.\n\n"
        "Let the server send one of them: 100 % of readers gain.",
        "reference": "RFC 9110, section 8.8",
    }


def test_finding_without_a_named_value_is_refused() -> None:
    with pytest.raises(KeyError):
        NO_VALIDATOR()


def test_kind_of_finding_without_text_is_refused() -> None:
    with pytest.raises(TypeError, match="advice, reference"):

        class HALF(Note, level=Level.INFO, category=Category.CONTENT):
            summary = "Half."


def test_notes_are_sorted_from_worst_to_best() -> None:
    notes = [HAS_GZIP(), NO_VALIDATOR(size="1 B")]

    assert [each.id() for each in sorted_by_level(notes)] == ["no-validator", "has-gzip"]


def test_module_lists_its_findings_in_order_and_can_be_a_chapter() -> None:
    assert notes_of(sys.modules[__name__])[:2] == [NO_VALIDATOR, HAS_GZIP]
    page = as_markdown(NO_VALIDATOR)
    assert page.startswith("### no-validator\n\n*warn*: The feed has neither")
    assert "⟨size⟩" in page
    assert "100 %" in page


class NAMES_A_FIELD(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "A field is missing."
    advice = "Send the field. " * 6 + "Then name it: `If-Modified-Since`."
    reference = "RFC 9110, section 13.1.3"


def test_reference_page_keeps_a_hyphenated_name_on_one_line() -> None:
    lines = as_markdown(NAMES_A_FIELD).splitlines()

    assert len([line for line in lines if "`If-Modified-Since`" in line]) == 1
    assert not any(line.endswith("-") for line in lines)
