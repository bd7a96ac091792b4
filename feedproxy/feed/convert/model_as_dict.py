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
    return nonempty_fields(value, [field.name for field in dataclasses.fields(value)])


def nonempty_fields(value: Any, names: Iterable[str]) -> dict[str, Data]:
    """Return those of the fields `names` that differ from their defaults, in the form of `to_data`."""
    fields = {field.name: field for field in dataclasses.fields(value)}
    changed = (name for name in names if getattr(value, name) != _default(fields[name]))
    return {name: to_data(getattr(value, name)) for name in changed}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def from_data[T](kind: type[T], data: Any) -> T:
    """Return a value of type `kind` from the result of `to_data`. Raises ValueError for invalid data."""
    try:
        return _build(kind, data)  # type: ignore[no-any-return] # `_build` returns a `kind`
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"data is not of type {kind.__name__}") from error


def _build(kind: Any, data: Any) -> Any:
    kind = getattr(kind, "__value__", kind)  # for a type alias
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
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
            is_match = isinstance(data, dict) == dataclasses.is_dataclass(option)
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
