"""Options of earlier releases: the options that replace them, and warnings about them."""

import logging
from collections.abc import Mapping
from typing import Any

from feedproxy.config.option_types import describe_type
from feedproxy.errors import UsageError
from feedproxy.settings import Settings, deprecated_names, format_value

logger = logging.getLogger(__name__)

RENAMED: Mapping[str, tuple[str, str]] = {
    "announce_cloud": ("announce", "cloud"),
    "announce_hub": ("announce", "hub"),
    "brotli_level": ("codings", "br"),
    "gzip_level": ("codings", "gzip"),
    "ping_source_limit": ("source_limit", ""),
    "refresh_ahead": ("polling", "off"),
    "rsscloud_register": ("push_subscribe", ""),
    "subscription_source_limit": ("source_limit", ""),
    "websub_subscribe": ("push_subscribe", ""),
    "zstd_level": ("codings", "zstd"),
}
"""For each former option, the option that replaces it (the new option) and an item.

* If the item is "", the new option gets the value of the former option.
* Otherwise, the new option is a list. If the former option is true or not zero, the item is added to the list. If it is
  false or zero, the item is removed.
* The new option `polling` is no list. If the former option is false, `polling` gets the item as its value.
"""

DERIVED: Mapping[str, str] = {
    "decoded_max": "five times buffer_max",
    "first_byte_timeout": "half of fetch_timeout",
    "learned_lifetime": "what the price in polling gives",
    "learned_patience": "what the price in polling gives",
    "memo_max": "half of memory_max",
    "refresh_idle_after": "what the price in polling gives",
    "refresh_per_poll": "what the price in polling gives",
    "stale_max_refused": "stale_max, and a day at most",
    "subscriptions_per_site": "a fiftieth of subscriptions_max",
}
"""Former options with values that now follow from other options. Setting a former option has no effect."""

INSTEAD: Mapping[str, str] = {
    "changes_when": "ask for changes.xml?when=seconds",
}
"""Advice for deprecated options that no other option replaces."""


def replace_former(name: str, value: Any, location: str, options: dict[str, Any]) -> bool:
    """Return True if `name` is a former option, else False. If an option replaces it, set that option in `options`.

    If the result is False, the caller sets the option `name`. `options` contains the options that were read before. A
    warning is logged for a former option, and for an option that the next release will lack. `location` is the place of
    the option for messages. Raises UsageError unless the value of a renamed option is a number or a boolean.
    """
    if name in DERIVED:
        _warn(name, location, f"it is now {DERIVED[name]}")
        return True
    if name in RENAMED:
        new, item = RENAMED[name]
        _warn(name, location, _advice(new, item))
        if not isinstance(value, int):
            raise UsageError(f"{location}: {name}: expected a number, or true or false, not {describe_type(value)}")
        if new == "polling":
            if not value:
                options[new] = item
        elif not item:
            options[new] = value
        else:
            others = [present for present in options.get(new, getattr(Settings(), new)) if present != item]
            options[new] = [*others, item] if value else others
        return True
    if name in deprecated_names():
        fixed = f"from the next release on it is {format_value(name, getattr(Settings(), name))!r} always"
        _warn(name, location, INSTEAD.get(name, fixed))
    return False


def _warn(name: str, location: str, advice: str) -> None:
    logger.warning("config: %s: %s is deprecated: %s", location, name, advice)


def _advice(new: str, item: str) -> str:
    if new == "polling":
        return f"use {new}: {item} in place of false"
    return f"use {new}: [{item}]" if item in ("hub", "cloud") else f"use {new}"


DIGITS_MAX = 18
"""A text of more than this many digits is not parsed as a number, because Python refuses to parse thousands of
digits."""


def parse_scalar(text: str) -> Any:
    """Return the boolean or the whole number that the text states. Return any other text unchanged."""
    word = text.strip().lower()
    return {"true": True, "false": False}.get(word, int(word) if word.isdecimal() and len(word) <= DIGITS_MAX else text)
