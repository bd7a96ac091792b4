"""The model as plain data, and back: dictionaries, lists, texts and whole numbers, which every language has.

Names are those of the model's fields. What is empty is left out; instants stay seconds since 1970.
"""

import dataclasses
import types
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from feedproxy.feed.convert import model

type Data = dict[str, "Data"] | list["Data"] | str | int | float | bool | None


def to_data(value: Any) -> Data:
    """Return the value as plain data."""
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
            return [to_data(each) for each in value]
    return nonempty_fields(value, [each.name for each in dataclasses.fields(value)])


def nonempty_fields(value: Any, names: Iterable[str]) -> dict[str, Data]:
    """Return these fields of a value as plain data, as far as they say something."""
    fields = {each.name: each for each in dataclasses.fields(value)}
    wanted = (name for name in names if getattr(value, name) != _default(fields[name]))
    return {name: to_data(getattr(value, name)) for name in wanted}


def _default(field: dataclasses.Field[Any]) -> Any:
    """Return what the field says where nothing is said; for a field that must be said, what no value is."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def from_data[T](kind: type[T], data: Any) -> T:
    """Return the value that this data was made of. Raises ValueError where it was made of something else."""
    try:
        return _build(kind, data)  # type: ignore[no-any-return] # `_made` makes what it is asked for
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"no {kind.__name__}") from error


def _build(kind: Any, data: Any) -> Any:
    kind = getattr(kind, "__value__", kind)  # of a type alias
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(**{key: _build(hints[key], value) for key, value in dict(data).items()})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return tuple(_build(arguments[0], each) for each in data)
        return tuple(_build(each, value) for each, value in zip(arguments, data, strict=True))
    if origin is frozenset:
        return frozenset(_build(arguments[0], each) for each in data)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        for each in arguments:
            fits = isinstance(data, dict) == dataclasses.is_dataclass(each)
            if each is not type(None) and fits:
                return _build(each, data)
        raise TypeError("none of what it may be")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if kind is float and isinstance(data, int):
        return data
    if not isinstance(data, kind) or isinstance(data, bool) is not (kind is bool):
        raise TypeError("something else")
    return data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, vars(model))
