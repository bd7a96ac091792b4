"""Conversion of the model to plain data and back: dictionaries, lists, texts, numbers and booleans.

The keys are the names of the model's fields. Fields with their default values are omitted, and instants
are in Unix seconds.
"""

import dataclasses
import sys
import types
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from feedproxy.feed.convert import model
from feedproxy.feed.xml_characters import valid_text

type Data = dict[str, "Data"] | list["Data"] | str | int | float | bool | None


def to_data(value: Any) -> Data:
    """Return a value of the model as dictionaries, lists, texts, numbers, booleans and None."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return str(value.value)
        case str():
            return value
        case frozenset():
            return sorted(value)
        case tuple() | list():
            return [to_data(element) for element in value]
    return nonempty_fields(value, _defaults(value.__class__))


def nonempty_fields(value: Any, names: Iterable[str]) -> dict[str, Data]:
    """Return those of the fields `names` that differ from their defaults, in the form of `to_data`."""
    defaults = _defaults(value.__class__)
    changed = (name for name in names if getattr(value, name) != defaults[name])
    return {name: to_data(getattr(value, name)) for name in changed}


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """Return the fields of a class of the model, with their defaults."""
    if issubclass(kind, msgspec.Struct):
        return {field.name: field.default for field in msgspec.structs.fields(kind)}
    return {field.name: field.default for field in dataclasses.fields(kind)}


def _is_model_class(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct))


def from_data[T](kind: type[T], data: Any) -> T:
    """Return a value of type `kind` from the result of `to_data`. Raises ValueError for invalid data."""
    try:
        return _build(kind, data)  # type: ignore[no-any-return] # `_build` returns a `kind`
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"data is not of type {kind.__name__}") from error


def _build(kind: Any, data: Any) -> Any:
    kind = getattr(kind, "__value__", kind)  # for a type alias
    if _is_model_class(kind):
        hints = _hints(kind)
        return kind(**{key: _build(hints[key], value) for key, value in dict(data).items()})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return tuple(_build(arguments[0], element) for element in data)
        return tuple(_build(hint, value) for hint, value in zip(arguments, data, strict=True))
    if origin is frozenset:
        return frozenset(_build(arguments[0], element) for element in data)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        for option in arguments:
            is_match = isinstance(data, dict) == _is_model_class(option)
            if option is not type(None) and is_match:
                return _build(option, data)
        raise TypeError("the data fits none of the types")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if isinstance(data, int) and abs(data) > sys.float_info.max:
        raise TypeError("the number is too large for a float")
    if kind is float and isinstance(data, int):
        return data
    if not isinstance(data, kind) or isinstance(data, bool) is not (kind is bool):
        raise TypeError(f"expected {kind}, not {type(data)}")
    if kind is str and valid_text(data) != data:
        raise TypeError("the text contains characters that XML does not allow")
    return data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, vars(model))
