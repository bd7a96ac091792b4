"""Options of earlier releases: what replaces them, and a warning."""

import logging
from collections.abc import Mapping
from typing import Any

from feedproxy.config.option_types import describe_type
from feedproxy.errors import UsageError
from feedproxy.settings import DERIVED, INSTEAD, RENAMED, Settings, deprecated_names, format_value

logger = logging.getLogger(__name__)


def is_replaced(name: str) -> bool:
    """Return True if the option has no effect of its own: another option replaces it (RENAMED), or its value follows
    from other options (DERIVED)."""
    return name in RENAMED or name in DERIVED


def is_former(name: str) -> bool:
    """Return True if the next release will lack this option."""
    return is_replaced(name) or name in deprecated_names()


def warn_of_former(name: str, location: str) -> None:
    """Log that the next release will lack an option, and what replaces it."""
    if name in DERIVED:
        advice = f"it is now {DERIVED[name]}"
    elif name in RENAMED:
        new, item = RENAMED[name]
        advice = f"use {new}: [{item}]" if item in ("hub", "cloud") else f"use {new}"
        advice += f": {item} in place of false" if new == "polling" else ""
    elif name in INSTEAD:
        advice = INSTEAD[name]
    else:
        advice = f"from the next release on it is {format_value(name, getattr(Settings(), name))!r} always"
    logger.warning("config: %s: %s is deprecated: %s", location, name, advice)


def parse_scalar(text: str) -> Any:
    """Return the text as a boolean or a whole number if it is one, or unchanged."""
    word = text.strip().lower()
    return {"true": True, "false": False}.get(word, int(word) if word.isdecimal() else text)


def translate_former(name: str, value: Any, location: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name and value of the option that replaces a former option, or {} if nothing replaces it.

    Raises UsageError unless the value is a number or a boolean.
    """
    if name in DERIVED:
        return {}
    if not isinstance(value, int):
        raise UsageError(f"{location}: {name}: expected a number, or true or false, not {describe_type(value)}")
    new, item = RENAMED[name]
    if new == "polling":
        return {} if value else {new: item}
    if not item:
        return {new: value}
    items = [*options.get(new, getattr(Settings(), new))]
    return {new: [*(present for present in items if present != item), *([item] if value else [])]}
