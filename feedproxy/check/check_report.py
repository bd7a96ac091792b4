"""Reports of a check: text for a terminal, JSON, and a self-contained HTML page.

Secrets in addresses are removed from all reports.
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.http.target_uri.url_redaction import text_without_secrets
from feedproxy.notes import Category, Level, Note, advice_lines, sorted_by_level
from feedproxy.web import templates
from feedproxy.web.display_formats import iso, plain_text

_COLOURS = {Level.BAD: "31", Level.WARN: "33", Level.INFO: "34", Level.GOOD: "32"}
_LEVEL_NAMES = {
    Level.BAD: ("fault", "faults"),
    Level.WARN: ("warning", "warnings"),
    Level.INFO: ("note", "notes"),
    Level.GOOD: ("thing done well", "things done well"),
}


class CheckReport(Struct, frozen=True):
    """The Notes of a finished check."""

    source: str
    """The address of the feed, or the name of the file."""
    at: Instant
    notes: tuple[Note, ...]
    requests: int = 0
    """Number of requests that the check sent, or 0 for a file."""

    @property
    def has_findings(self) -> bool:
        """Return True if at least one Note asks for a correction."""
        return any(note.level.is_finding for note in self.notes)

    @property
    def verdict(self) -> Level:
        """Return the worst level of the Notes, or GOOD if there are none."""
        ordered = sorted_by_level(self.notes)
        return ordered[0].level if ordered else Level.GOOD

    def count(self, level: Level) -> int:
        """Return the number of Notes with this level."""
        return sum(note.level is level for note in self.notes)


def as_json(report: CheckReport) -> str:
    """Return the report as JSON. The Notes are sorted, the worst first.

    The keys are `source`, `checked_at`, `requests`, `verdict`, `counts` and `notes`.
    """
    values = {
        "source": text_without_secrets(report.source),
        "checked_at": iso(report.at),
        "requests": report.requests,
        "verdict": str(report.verdict),
        "counts": {str(level): report.count(level) for level in Level},
        "notes": [
            {name: text_without_secrets(value) for name, value in note.as_json().items()}
            for note in sorted_by_level(report.notes)
        ],
    }
    return json.dumps(values, ensure_ascii=False, indent=1)


def as_text(report: CheckReport, *, coloured: bool = False) -> str:
    """Return the report as text for a terminal, the worst Notes first. The GOOD Notes come last, without advice."""

    def paint(text: str, level: Level, *, bold: bool = False) -> str:
        return f"\033[{'1;' if bold else ''}{_COLOURS[level]}m{text}\033[0m" if coloured else text

    lines, praise = [_shown(report.source), f"  {summary(report)}"], list[str]()
    for note in sorted_by_level(report.notes):
        mark = paint(note.level.mark, note.level, bold=True)
        message = _shown(note.message, 600)
        if note.level is Level.GOOD:
            praise.append(f"  {mark} {message}")
            continue
        lines += ["", f"  {mark} {paint(message, note.level, bold=note.level.is_finding)}"]
        if note.subject and text_without_secrets(note.subject) != text_without_secrets(report.source):
            lines.append(f"    {_shown(note.subject)}")
        lines += [*advice_lines(_shown(note.advice_text, 2000)), f"    {note.id()}. See {note.reference}."]
    return "\n".join([*lines, *([""] if praise else []), *praise])


def _shown(text: str, longest: int = 300) -> str:
    """Return a text in one line, without secrets, and cut to `longest` characters."""
    return plain_text(text_without_secrets(text), longest)


def summary(report: CheckReport) -> str:
    """Return a summary such as `2 warnings, 1 note; 12 requests were made.`"""
    counts = [(report.count(level), _LEVEL_NAMES[level]) for level in reversed(Level)]
    parts = [f"{count} {names[count != 1]}" for count, names in counts if count]
    requests = f"; {report.requests} requests were made" if report.requests > 1 else ""
    return f"{', '.join(parts) or 'No notes'}{requests}."


def as_html(report: CheckReport) -> str:
    """Return the report as a self-contained HTML page."""
    ordered = sorted_by_level(report.notes)
    groups: list[tuple[Category, Sequence[Note]]] = [
        (category, notes)
        for category in dict.fromkeys(note.category for note in ordered)
        if (notes := [note for note in ordered if note.category is category and note.level is not Level.GOOD])
    ]
    return templates.page(
        "check.html",
        source=_shown(report.source),
        verdict=str(report.verdict),
        summary=summary(report),
        groups=groups,
        praise=[note for note in ordered if note.level is Level.GOOD],
        at=report.at,
        is_page=bool(report.requests),
        redact=_shown,
    ).decode()
