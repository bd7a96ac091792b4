"""Notes: statements about a feed or a reader, each with a level, a summary, advice and a source.

Each Note is a class, defined below the code that yields the Note. The texts of the class have placeholders, which an
instance replaces by values. In reports, the Note below is named `no-validator`:

    class NO_VALIDATOR(Note, level=Level.WARN, category=Category.CONDITIONS):
        summary = "The feed has neither ETag nor Last-Modified."
        advice = "Every reader gets all %(size)s bytes again in each poll. …"
        reference = "RFC 9110, section 8.8"

    NO_VALIDATOR(subject="https://example.com/feed", size=40_000)
"""

import textwrap
from collections.abc import Iterable
from enum import StrEnum
from types import ModuleType
from typing import Any, ClassVar

ADVICE_WIDTH = 100
"""Maximum length of a line of advice in a report for a terminal, in characters."""


class Level(StrEnum):
    """Levels of Notes, from good to bad."""

    GOOD = "good"
    INFO = "info"
    """A fact without a fault."""
    WARN = "warn"
    """The subject causes unnecessary traffic or work for readers or the publisher."""
    BAD = "bad"
    """The subject violates a specification, or does harm."""

    @property
    def is_finding(self) -> bool:
        """Return True if the subject should be corrected."""
        return self in (Level.WARN, Level.BAD)

    @property
    def mark(self) -> str:
        return {Level.BAD: "✗", Level.WARN: "!", Level.INFO: "i", Level.GOOD: "✓"}[self]


class Category(StrEnum):
    """Subject area of a Note. It is the heading of the Note in reports."""

    CONDITIONS = "Conditional requests"
    SCHEDULE = "Schedule"
    CACHING = "Caching"
    FAILURES = "Failures and refusals"
    MOVES = "Moves and endings"
    CODING = "Content coding"
    CONNECTION = "Connections"
    IDENTITY = "Identity"
    PRIVACY = "Privacy"
    FORMAT = "Format"
    CONTENT = "Content"
    SUBSCRIBING = "Subscribing"
    NOTIFICATION = "Notification"
    SECURITY = "Security"


class Note:
    """A statement about a subject. The constructor raises KeyError if a value for the texts is missing."""

    level: ClassVar[Level]
    category: ClassVar[Category]
    summary: ClassVar[str]
    """Summary: one whole sentence on one line."""
    advice: ClassVar[str] = "No action is needed."
    """Advice with its reason. Empty lines separate paragraphs, and code is in backticks. Only praise keeps the
    default."""
    reference: ClassVar[str]
    """Source, such as an RFC with its section. Semicolons separate several sources."""

    def __init__(self, subject: str = "", **values: object) -> None:
        self.subject = subject
        """Subject: an address, a field, or a place in a document."""
        self.values = values
        self.message = self.summary % values
        """The summary with the values inserted."""
        self.advice_text = paragraphs(self.advice % values)
        """The advice with the values inserted, each paragraph on one line."""

    def __init_subclass__(cls, *, level: Level, category: Category) -> None:
        cls.level, cls.category = level, category
        texts = ("summary", "reference") if level is Level.GOOD else ("summary", "advice", "reference")
        if missing := [name for name in texts if name not in vars(cls)]:
            raise TypeError(f"{cls.__name__} has no {', '.join(missing)}")

    def __repr__(self) -> str:
        return f"<{self.id()}: {self.message}>"

    @classmethod
    def id(cls) -> str:
        """Return the name in reports, such as `no-validator`."""
        return cls.__name__.lower().replace("_", "-")

    def as_json(self) -> dict[str, Any]:
        """Return the Note as a JSON object."""
        return {
            "id": self.id(),
            "level": str(self.level),
            "category": str(self.category),
            "subject": self.subject,
            "summary": self.message,
            "advice": self.advice_text,
            "reference": self.reference,
        }


def sorted_by_level(notes: Iterable[Note]) -> list[Note]:
    """Return the notes, the worst level first. Notes of one level keep their order."""
    ranks = {level: rank for rank, level in enumerate(reversed(Level))}
    return sorted(notes, key=lambda note: ranks[note.level])


def notes_of(module: ModuleType) -> list[type[Note]]:
    """Return the Notes that a module defines, in their order."""
    return [
        member
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, Note) and member.__module__ == module.__name__
    ]


def paragraphs(text: str) -> str:
    """Return a text without its indentation, and with each paragraph on one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in textwrap.dedent(text).strip().split("\n\n"))


def advice_lines(text: str) -> list[str]:
    """Return the indented lines of advice in a report for a terminal."""
    return textwrap.wrap(text, ADVICE_WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
