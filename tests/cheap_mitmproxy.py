"""Equivalents of functions of mitmproxy that tests call a thousand times, with the same results at a lower cost."""

import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, get_args

from mitmproxy import addonmanager, certs, command, exceptions, hooks, http, optmanager
from mitmproxy.utils import signals, typecheck


def cheapen_options_and_keys() -> None:
    """Make one CA for all new folders (60 ms), check its key once (30 ms), sign its list of revoked certificates once
    (1 ms), make, read and change options without checking, formatting and copying them again (a third of the time of
    making a proxy), and check messages and read events faster (a twentieth of the time of a request)."""
    create = certs.create_ca
    create_once = functools.cache(lambda _validity, **names: create(**names))
    # CAs with different periods of validity differ.
    setattr(  # noqa: B010 -- mypy knows a function with three parameters
        certs, "create_ca", lambda **names: create_once((certs.CA_EXPIRY, certs.CERT_VALIDITY_OFFSET), **names)
    )
    certs.load_pem_private_key = functools.cache(certs.load_pem_private_key)
    certs.dummy_crl = functools.cache(certs.dummy_crl)
    setattr(optmanager, "textwrap", SimpleNamespace(dedent=functools.cache(textwrap.dedent)))  # noqa: B010
    for module in (http, optmanager):
        setattr(module, "typecheck", SimpleNamespace(check_option_type=_check_option_type))  # noqa: B010
    for module in (hooks, http):
        setattr(module, "fields", lambda value: _fields_of(value.__class__))  # noqa: B010
    # mitmproxy copies all 137 options before each change of an option, and a value twice at each use.
    setattr(optmanager, "copy", SimpleNamespace(deepcopy=_copy))  # noqa: B010 -- mypy knows only the module
    setattr(optmanager.OptManager, "add_option", _add_option)  # noqa: B010
    setattr(optmanager.OptManager, "rollback", contextmanager(_rollback))  # noqa: B010
    setattr(optmanager._Option, "current", _current)  # noqa: B010
    setattr(signals._SyncSignal, "send", _send)  # noqa: B010
    # mitmproxy asks it before each call of an addon.
    cheap = SimpleNamespace(iscoroutinefunction=_is_coroutine_function, isawaitable=inspect.isawaitable)
    setattr(addonmanager, "inspect", cheap)  # noqa: B010


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


_declared: dict[str, tuple[Any, Any]] = {}
"""Arguments of the last declaration of each option, and the option."""


def _add_option(self: Any, name: str, typespec: Any, default: Any, help: str, choices: Any = None) -> None:
    """Add an option, which is a copy of the option of the last equal declaration."""
    arguments = typespec, default, help, choices
    if (declared := _declared.get(name)) is None or declared[0] != arguments:
        _declared[name] = declared = arguments, optmanager._Option(name, *arguments)
    self._options[name] = _copy_of_option(declared[1])
    if self._subscriptions or len(self.changed.receivers) > 1:  # one receiver only passes it on to subscriptions
        self.changed.send(updated={name})


def _rollback(self: Any, updated: set[str], reraise: bool = False) -> Iterator[None]:
    """Restore the values, and the set of options, if the block raises an OptionsError."""
    kept = {name: (option, option.value) for name, option in self._options.items()}
    try:
        yield
    except exceptions.OptionsError as error:
        self.errored.send(exc=error)
        for option, value in kept.values():
            option.value = value
        self.__dict__["_options"] = {name: option for name, (option, _) in kept.items()}
        self.changed.send(updated=updated)
        if reraise:
            raise


def _current(self: Any) -> Any:
    value = self._default if self.value is optmanager.unset else self.value
    return value.copy() if isinstance(value, list) else value


def _send(self: Any, *values: Any, **arguments: Any) -> None:
    """Call all receivers. None is a coroutine function, because `connect` permits no such receivers."""
    has_dead = False
    for reference in self.receivers:
        if (receiver := reference()) is not None:
            receiver(*values, **arguments)
        else:
            has_dead = True
    if has_dead:
        self.receivers = [reference for reference in self.receivers if reference() is not None]


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    return _is_coroutine_function_itself(getattr(function, "__func__", function))


_is_coroutine_function_itself = functools.lru_cache(1000)(inspect.iscoroutinefunction)
