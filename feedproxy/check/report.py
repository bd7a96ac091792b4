"""Reports of a check: text for a terminal, JSON, and a self-contained HTML page.

Addresses may be secrets: a token in one is left out, wherever it is shown.
"""

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from feedproxy import __version__
from feedproxy.clock import Instant
from feedproxy.findings import Category, Level, Note, sorted_by_level
from feedproxy.http.redaction import without_secrets
from feedproxy.lab.score_page import with_code
from feedproxy.web import templates
from feedproxy.web.templates import plain_text

WIDTH = 100

_MARKS = {Level.BAD: "✗", Level.WARN: "!", Level.INFO: "i", Level.GOOD: "✓"}
_COLOURS = {Level.BAD: "31", Level.WARN: "33", Level.INFO: "34", Level.GOOD: "32"}
_ADDRESS = re.compile(r"https?://[^\s\"'<>`,;)]+")
_WORDS = {
    Level.BAD: ("fault", "faults"),
    Level.WARN: ("warning", "warnings"),
    Level.INFO: ("note", "notes"),
    Level.GOOD: ("thing done well", "things done well"),
}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A check that is done."""

    source: str
    """The address, or the name of the file."""
    at: Instant
    notes: tuple[Note, ...]
    requests: int = 0
    """Number of requests of the check; 0 for a file."""

    @property
    def has_findings(self) -> bool:
        """True if a Note is a finding."""
        return any(note.level.is_finding for note in self.notes)

    @property
    def verdict(self) -> Level:
        """The worst level; good where nothing was said."""
        ordered = sorted_by_level(self.notes)
        return ordered[0].level if ordered else Level.GOOD

    def count(self, level: Level) -> int:
        """Notes of a level."""
        return sum(each.level is level for each in self.notes)


def as_json(checked: CheckReport) -> str:
    """`{"source", "checked_at", "requests", "verdict", "counts", "notes": […]}`, the worst note first."""
    told = {
        "source": redact_text(checked.source),
        "checked_at": templates.iso(checked.at),
        "requests": checked.requests,
        "verdict": str(checked.verdict),
        "counts": {str(level): checked.count(level) for level in Level},
        "notes": [_in_json(each) for each in sorted_by_level(checked.notes)],
    }
    return json.dumps(told, ensure_ascii=False, indent=1)


def _in_json(note: Note) -> dict[str, Any]:
    return {name: redact_text(value) for name, value in note.as_json().items()}


def as_text(checked: CheckReport, *, coloured: bool = False) -> str:
    """For a terminal: what is to be mended with advice, the worst first; then what is done well, a line each."""

    def paint(text: str, level: Level, *, bold: bool = False) -> str:
        return f"\033[{'1;' if bold else ''}{_COLOURS[level]}m{text}\033[0m" if coloured else text

    lines = [f"{plain_text(redact_text(checked.source))}", f"  {summary(checked)}"]
    for note in sorted_by_level(checked.notes):
        mark = paint(_MARKS[note.level], note.level, bold=True)
        words = plain_text(redact_text(note.message), 600)
        if note.level is Level.GOOD:
            lines.append(f"  {mark} {words}")
            continue
        lines += ["", f"  {mark} {paint(words, note.level, bold=note.level.is_finding)}"]
        if note.subject and redact_text(note.subject) != redact_text(checked.source):
            lines.append(f"    {plain_text(redact_text(note.subject))}")
        advised = plain_text(redact_text(note.advice_text), 2000)
        lines += textwrap.wrap(advised, WIDTH, initial_indent="    ", subsequent_indent="    ")
        lines.append(f"    {note.id()}. See {note.reference}.")
    praise = next(
        (at for at, line in enumerate(lines) if line.lstrip().startswith(paint("✓", Level.GOOD, bold=True))), 0
    )
    if praise:
        lines.insert(praise, "")
    return "\n".join(lines)


def summary(checked: CheckReport) -> str:
    """`2 warnings, 1 note; 12 requests were made.`"""
    counted = [(checked.count(level), _WORDS[level]) for level in reversed(Level)]
    parts = [f"{count} {words[count != 1]}" for count, words in counted if count]
    asked = f"; {checked.requests} requests were made" if checked.requests > 1 else ""
    return f"{', '.join(parts) or 'Nothing to say'}{asked}."


def as_html(checked: CheckReport) -> str:
    """The page."""
    ordered = sorted_by_level(checked.notes)
    groups: list[tuple[Category, Sequence[Note]]] = [
        (category, found)
        for category in dict.fromkeys(each.category for each in ordered)
        if (found := [each for each in ordered if each.category is category and each.level is not Level.GOOD])
    ]
    return templates.page(
        "check.html",
        source=plain_text(redact_text(checked.source)),
        verdict=str(checked.verdict),
        summary=summary(checked),
        groups=groups,
        praise=[each for each in ordered if each.level is Level.GOOD],
        at=checked.at,
        is_page=bool(checked.requests),
        version=__version__,
        told=lambda text: with_code(plain_text(redact_text(text), 4000)),
        discreet=lambda text: plain_text(redact_text(text)),
    ).decode()


def redact_text(text: str) -> str:
    """A text with what is secret in its addresses left out."""

    def masked(found: re.Match[str]) -> str:
        try:
            return without_secrets(found[0])
        except ValueError:
            return "…"

    return _ADDRESS.sub(masked, text)
