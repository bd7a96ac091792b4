"""Types and limits of options, and checks of values. option_texts.py checks values that are texts."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, get_args, get_origin

from msgspec import Struct

from feedproxy.config.option_suggestions import suggest
from feedproxy.config.option_texts import check_text
from feedproxy.durations_and_sizes import EXAMPLES, Unit, format_quantity, parse
from feedproxy.errors import UsageError
from feedproxy.settings import PRICES, Settings, price_of

_NOUNS = {bool: "true or false", int: "a whole number", str: "text", list: "a list of texts, such as [a, b]"}

_PRICE = f"{', '.join(PRICES)}, or a duration such as 45m"


class OptionSpec(Struct, frozen=True):
    """Type and limits of an option. `kind` is bool, int, str, or list (of str)."""

    kind: type
    choices: tuple[str, ...] = ()
    optional: bool = False
    minimum: int | None = None
    maximum: int | None = None
    unit: Unit = ""
    own: bool = False
    """True for an option of feedproxy, and False for an option of mitmproxy. option_texts.py checks only the former."""


def option_specs() -> dict[str, OptionSpec]:
    """Return the specifications of feedproxy's options."""
    return {
        option.name: OptionSpec(
            list if isinstance(option.default, tuple) else type(option.default),
            tuple(option.metadata["choices"]),
            minimum=option.metadata["minimum"],
            maximum=option.metadata["maximum"],
            unit=option.metadata["unit"],
            own=True,
        )
        for option in fields(Settings)
        if option.default is not MISSING
    }


def spec_of(typespec: Any, choices: Sequence[str] | None = None) -> OptionSpec:
    """Return the specification of an option of mitmproxy. `typespec` is bool, int, str, an Optional of these, or
    Sequence[str]."""
    parts = get_args(typespec)
    if type(None) in parts:
        kind = next(part for part in parts if part is not type(None))
        return OptionSpec(kind, tuple(choices or ()), optional=True)
    if get_origin(typespec) is not None:
        return OptionSpec(list, tuple(choices or ()))
    return OptionSpec(typespec, tuple(choices or ()))


def check_value(name: str, value: Any, spec: OptionSpec, location: str) -> Any:
    """Return the value of an option as a bool, int, str, list or None. Raises UsageError if the value is invalid. The
    error's message begins with `location`."""
    try:
        return _plain_value(name, value, spec)
    except UsageError as error:
        raise UsageError(f"{location}: {error}" if location else str(error)) from error


def _plain_value(name: str, value: Any, spec: OptionSpec) -> Any:
    if value is None and spec.optional:
        return None
    is_boolean = isinstance(value, bool)  # which Python also counts as int
    if spec.kind is bool and is_boolean:
        return value
    if spec.kind is int and not is_boolean:
        number = parse(value, spec.unit) if isinstance(value, str) else value
        if isinstance(number, int):
            return _check_number(name, int(number), spec)
    if spec.kind is str and isinstance(value, str):
        return _plain_text(name, value, spec)
    # Operators write ports as numbers, and mitmproxy expects texts.
    if spec.kind is list and isinstance(value, list | tuple) and all(map(_is_text_or_number, value)):
        items = [str(item) for item in value]
        for item in items if spec.own else ():
            check_text(name, item, is_item=True)
        return items
    raise _wrong_type(name, value, spec)


def _is_text_or_number(item: Any) -> bool:
    return isinstance(item, str | int) and not isinstance(item, bool)


def _plain_text(name: str, text: str, spec: OptionSpec) -> str:
    if spec.choices and text not in spec.choices:
        choices = ", ".join(choice or "(empty)" for choice in spec.choices)
        raise UsageError(f"{name} cannot be {str(text)!r}: expected {choices}{suggest(text, spec.choices)}")
    if name == "polling" and price_of(text) is None:
        raise UsageError(f"polling cannot be {str(text)!r}: expected {_PRICE}")
    if spec.own:
        check_text(name, text)
    return str(text)


def _wrong_type(name: str, value: Any, spec: OptionSpec) -> UsageError:
    is_price = name == "polling"
    hint = " (in quotes, if need be)" if spec.kind is str and value is not None and not is_price else ""
    expected = _PRICE if is_price else EXAMPLES.get(spec.unit) or _NOUNS.get(spec.kind, spec.kind.__name__)
    # A number or a switch is no secret, a text may be one.
    is_open = bool(spec.unit) or spec.kind in (bool, int, float)
    found = repr(value) if is_open and isinstance(value, str) else describe_type(value)
    return UsageError(f"{name}: expected {expected}, not {found}{hint}")


def _check_number(name: str, number: int, spec: OptionSpec) -> int:
    if spec.minimum is not None and number < spec.minimum:
        raise UsageError(f"{name}: {number}: expected {format_quantity(spec.minimum, spec.unit)} or more")
    if spec.maximum is not None and number > spec.maximum:
        raise UsageError(f"{name}: {number}: expected {format_quantity(spec.maximum, spec.unit)} or less")
    return number


def describe_type(value: Any) -> str:
    """Return the type of a value in words, for messages that must not contain the value."""
    for kind, noun in {
        **_NOUNS,
        float: "a number with a fraction",
        list: "a list",
        dict: "a mapping",
    }.items():
        if isinstance(value, kind):
            return noun
    return "nothing" if value is None else f"a {type(value).__name__}"
