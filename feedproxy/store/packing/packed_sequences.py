"""Sequences stored as one bytes object each.

A bytes object takes less memory than dozens of objects, and the garbage collector skips it.
"""

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from feedproxy.clock import Instant


class PackedSequence[Value](Sequence[Value]):
    """A sequence of values in packed form, unpacked on each access. Sequences with equal values are equal."""

    __slots__ = ("_data",)

    _data: bytes

    @property
    def size(self) -> int:
        """Return the size of the packed form, in bytes."""
        return len(self._data)

    @abstractmethod
    def _values(self) -> tuple[Value, ...]: ...

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __bool__(self) -> bool:
        return bool(self._data)  # without this method, Python would call __len__, which unpacks the values

    @overload
    def __getitem__(self, index: int) -> Value: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._values()[index]

    def __eq__(self, other: object) -> bool:
        # Compare the type, because isinstance() takes a microsecond for a subclass of an abstract class.
        if type(other) is type(self):
            return self._data == other._data
        if other == ():
            return not self._data
        return isinstance(other, Sequence) and self._values() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return repr(self._values())


class PackedInstants(PackedSequence[Instant]):
    __slots__ = ()

    def __init__(self, instants: Iterable[Instant]) -> None:
        self._data = array("d", instants).tobytes()

    def _values(self) -> tuple[Instant, ...]:
        return tuple(array("d", self._data))
