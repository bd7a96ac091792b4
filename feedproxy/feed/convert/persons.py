"""Persons: their form in RSS, and merging of duplicates."""

import re
from collections.abc import Iterable
from dataclasses import replace

from feedproxy.feed.convert.model import Person

_EMAIL = r"[^\s()<>,;:\"@]+@[^\s()<>,;:\"@]+"
_WITH_NAME = re.compile(rf"(?:mailto:)?({_EMAIL})\s*\((.*)\)", re.DOTALL)
_IN_BRACKETS = re.compile(rf"\"?(.*?)\"? ?[<(](?:mailto:)?({_EMAIL})[>)]", re.DOTALL)
_ALONE = re.compile(rf"(?:mailto:)?({_EMAIL})")


_NAMESAKES_MAX = 8
"""A person is compared with at most this many persons of the same name, and with at most this many of the same email
address. This limits the time of merging."""


def parse(text: str) -> Person | None:
    """Return the person that a text names, or None for an empty text.

    The text has the form `email (name)` (RSS 2.0), `name <email>`, `email` or `name`.
    """
    text = " ".join(text.split())
    if match := _WITH_NAME.fullmatch(text):
        return Person(match[2].strip(), match[1])
    if match := _IN_BRACKETS.fullmatch(text):
        return Person(match[1].strip(), match[2])
    if match := _ALONE.fullmatch(text):
        return Person(email=match[1])
    return Person(text) if text else None


def to_rss_text(person: Person) -> str:
    """Return the form of a person in RSS 2.0: `email (name)`.

    If the email address or the name is missing, return the other one. If both are missing, return the URI.
    """
    if person.email and person.name:
        return f"{person.email} ({person.name})"
    return person.email or person.name or person.uri


def is_email(text: str) -> bool:
    """Return True if the text is an email address."""
    return bool(_ALONE.fullmatch(text))


def without_repeated_name(person: Person) -> Person:
    """Return the person without a name that repeats the email address, the URI or the picture's address.

    If the person has no email address, a name in the form of an email address becomes the email address.
    """
    if person.name and person.name in (person.email, person.uri, person.avatar):
        return replace(person, name="")
    if is_email(person.name) and not person.email:
        return replace(person, name="", email=person.name.removeprefix("mailto:"))
    return person


def merge(persons: Iterable[Person | None]) -> tuple[Person, ...]:
    """Return the persons without duplicates.

    Two persons are duplicates if they have the same name or email address, and agree in every value that both have.
    """
    merged: list[Person] = []
    positions: dict[tuple[str, str], list[int]] = {}
    for person in persons:
        if person is None:
            continue
        person = without_repeated_name(person)  # noqa: PLW2901
        if person == Person():
            continue
        keys = [(field, value) for field in ("name", "email") if (value := getattr(person, field))]
        for at in sorted({at for key in keys for at in positions.get(key, ())[:_NAMESAKES_MAX]}):
            if (one := _merge_pair(merged[at], person)) is not None:
                merged[at] = person = one  # noqa: PLW2901
                break
        else:
            at = len(merged)
            merged.append(person)
        for field in ("name", "email"):
            if (value := getattr(person, field)) and at not in (same := positions.setdefault((field, value), []))[-1:]:
                same.append(at)
    return tuple(merged)


def _merge_pair(one: Person, other: Person) -> Person | None:
    if not ((one.name and one.name == other.name) or (one.email and one.email == other.email)):
        return None
    values = {}
    for field in ("name", "email", "uri", "avatar", "extensions"):
        value, other_value = getattr(one, field), getattr(other, field)
        if value and other_value and value != other_value:
            return None
        values[field] = value or other_value
    return replace(one, **values)
