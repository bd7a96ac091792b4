"""Equivalents of functions of mitmproxy that tests call a thousand times, with the same results at a lower cost."""

import dataclasses
import functools
import textwrap
from types import SimpleNamespace
from typing import Any, get_args

from mitmproxy import certs, command, hooks, http, optmanager
from mitmproxy.utils import typecheck


def cheapen_options_and_keys() -> None:
    """Check the CA's key once (30 ms), sign its list of revoked certificates once (1 ms), make and copy options
    without checking and formatting them again, and check messages and read events faster (a twentieth of the time of
    a request)."""
    certs.load_pem_private_key = functools.cache(certs.load_pem_private_key)
    certs.dummy_crl = functools.cache(certs.dummy_crl)
    setattr(optmanager, "textwrap", SimpleNamespace(dedent=functools.cache(textwrap.dedent)))  # noqa: B010
    for module in (http, optmanager):
        setattr(module, "typecheck", SimpleNamespace(check_option_type=_check_option_type))  # noqa: B010
    for module in (hooks, http):
        setattr(module, "fields", lambda value: _fields_of(value.__class__))  # noqa: B010
    # mitmproxy copies all 137 options before each change of an option, and a value at each use.
    setattr(optmanager, "copy", SimpleNamespace(deepcopy=_copy))  # noqa: B010 -- mypy knows only the module


def ignore_commands() -> None:
    """Do not look for commands in addons, which takes an eighth of the time of opening a proxy. No test uses them."""
    setattr(command.CommandManager, "collect_commands", lambda *_: None)  # noqa: B010 -- mypy permits no assignment


def _check_option_type(name: str, value: Any, typespec: Any) -> None:
    if type(value) is not typespec and not (value is None and _permits_none(typespec)):
        typecheck.check_option_type(name, value, typespec)


@functools.cache
def _permits_none(typespec: Any) -> bool:
    return type(None) in get_args(typespec)


@functools.cache
def _fields_of(kind: type[Any]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


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
