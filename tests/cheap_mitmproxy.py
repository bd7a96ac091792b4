"""Equivalents of functions of mitmproxy that tests call a thousand times, with the same results at a lower cost."""

import functools
from types import SimpleNamespace
from typing import Any

from mitmproxy import certs, command, optmanager


def cheapen_options_and_keys() -> None:
    """Check the CA's key once, which takes 30 ms, and copy options without checking and formatting them again."""
    certs.load_pem_private_key = functools.cache(certs.load_pem_private_key)
    # mitmproxy copies all 137 options before each change of an option, and a value at each use.
    setattr(optmanager, "copy", SimpleNamespace(deepcopy=_copy))  # noqa: B010 -- mypy knows only the module


def ignore_commands() -> None:
    """Do not look for commands in addons, which takes an eighth of the time of opening a proxy. No test uses them."""
    setattr(command.CommandManager, "collect_commands", lambda *_: None)  # noqa: B010 -- mypy permits no assignment


def _copy(value: Any, _: object = None) -> Any:
    """Return a copy of a value of an option, which is a list of texts or immutable, or of all options by name."""
    match value:
        case list():
            return value.copy()
        case dict():
            return {name: _copy_of_option(option) for name, option in value.items()}
        case _:
            return value


def _copy_of_option(option: Any) -> Any:
    made = object.__new__(type(option))
    made.name, made.typespec, made.choices, made.help = option.name, option.typespec, option.choices, option.help
    made._default, made.value = option._default, _copy(option.value)  # a default is copied at each use
    return made
