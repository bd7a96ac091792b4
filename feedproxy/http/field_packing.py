"""Compact storage of field lines, for a hundred thousand messages in memory.

Beside the bodies, most of a feed's memory are field lines: as a pair of strings a line takes 160 bytes, of which 110
are Python's overhead. Packed, all lines of a message are one bytes object. Frequent lines and names are stored as
numbers of a table of limited size; once it is full, new lines are written out.

Each line begins with a byte: 0 number of a line; 1 number of a name, and a value; 2 a name and a value, both written
out. Numbers and lengths are two bytes. A message that does not fit (a value outside ISO-8859-1) is not packed.
"""

import struct
from functools import lru_cache

type Line = tuple[str, str]
type Lines = tuple[Line, ...]

TABLE_MAX = 4096
"""Lines, and names, in the table: about a megabyte, and more than the usual servers need."""
COMMON_MAX = 128
"""Characters of a line in the table, at most: longer values (policies, reports) are rarely repeated."""
UNPACKED = 512
"""Messages with cached lines: one is usually read several times in a row."""

_NUMBER = struct.Struct("<BH")
_VALUE = struct.Struct("<BHH")
_WRITTEN = struct.Struct("<BHH")

_lines: dict[Line, int] = {}
_all_lines: list[Line] = []
_names: dict[str, int] = {}
_all_names: list[str] = []
_once: set[int] = set()
"""Hashes of lines that occurred once: a line enters the table at its second occurrence."""


def pack(lines: Lines) -> Lines | bytes:
    """Return these lines in packed form; unchanged if they cannot be packed."""
    parts = []
    try:
        for line in lines:
            name, value = line
            number = _number_of(line)
            if number is not None:
                parts.append(_NUMBER.pack(0, number))
                continue
            data = value.encode("latin-1")
            known = _name_of(name)
            if known is not None:
                parts += (_VALUE.pack(1, known, len(data)), data)
            else:
                encoded = name.encode("latin-1")
                parts += (_WRITTEN.pack(2, len(encoded), len(data)), encoded, data)
    except (UnicodeEncodeError, struct.error):
        return lines
    return b"".join(parts)


@lru_cache(maxsize=UNPACKED)
def unpack(packed: bytes) -> Lines:
    """Return the lines that were packed."""
    lines: list[Line] = []
    at, end = 0, len(packed)
    while at < end:
        kind = packed[at]
        if kind == 0:
            lines.append(_all_lines[_NUMBER.unpack_from(packed, at)[1]])
            at += _NUMBER.size
            continue
        _, first, length = _VALUE.unpack_from(packed, at)
        at += _VALUE.size
        if kind == 1:
            name = _all_names[first]
        else:
            name = packed[at : at + first].decode("latin-1")
            at += first
        lines.append((name, packed[at : at + length].decode("latin-1")))
        at += length
    return tuple(lines)


def size(held: Lines | bytes) -> int:
    """Return an upper estimate of the bytes that these lines occupy."""
    if isinstance(held, bytes):
        return 40 + len(held)
    return 64 + sum(170 + len(name) + len(value) for name, value in held)


def _number_of(line: Line) -> int | None:
    number = _lines.get(line)
    if number is not None or len(_all_lines) >= TABLE_MAX or len(line[1]) > COMMON_MAX:
        return number
    seen = hash(line)
    if seen not in _once:
        if len(_once) >= TABLE_MAX:
            _once.clear()
        _once.add(seen)
        return None
    _once.discard(seen)
    number = _lines[line] = len(_all_lines)
    _all_lines.append(line)
    return number


def _name_of(name: str) -> int | None:
    number = _names.get(name)
    if number is None and len(_all_names) < TABLE_MAX and len(name) <= COMMON_MAX:
        number = _names[name] = len(_all_names)
        _all_names.append(name)
    return number
