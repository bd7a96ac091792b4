"""Conversion between the model and plain data: dictionaries, lists, texts, numbers and booleans.

The keys are the names of the model's fields. Fields with default values are omitted. Instants are in Unix seconds.
"""

import dataclasses
import sys
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import Any

import msgspec

from feedproxy.feed.xml_well_formedness import valid_text

type Data = dict[str, "Data"] | list["Data"] | str | int | float | bool | None


def to_data(value: Any) -> Data:
    """Return a value of the model as plain data."""
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
    """Return, in the form of `to_data`, the fields of `value` in `names` that differ from their defaults."""
    defaults = _defaults(value.__class__)
    changed = (name for name in names if getattr(value, name) != defaults[name])
    return {name: to_data(getattr(value, name)) for name in changed}


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    if issubclass(kind, msgspec.Struct):
        return {field.name: field.default for field in msgspec.structs.fields(kind)}
    return {field.name: field.default for field in dataclasses.fields(kind)}


def from_data[T](kind: type[T], data: Any) -> T:
    """Return a value of type `kind` from `data`, the result of `to_data`. Raises ValueError for invalid data."""
    try:
        if not _is_writable(data):
            raise ValueError("it has characters or numbers that XML cannot contain")
        return msgspec.convert(data, kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"data is not of type {kind.__name__}: {error}") from error


def _is_writable(data: Any) -> bool:
    """Return True if XML can contain all texts and numbers in `data`."""
    match data:
        case str():
            return valid_text(data) == data
        case int() | float():
            return abs(data) <= sys.float_info.max
        case dict():
            return all(map(_is_writable, data.values()))
        case list() | tuple():
            return all(map(_is_writable, data))
    return True
