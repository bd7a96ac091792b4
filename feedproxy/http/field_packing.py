"""Compact storage of field lines, for a hundred thousand messages in memory.

Apart from bodies, most of the memory of a feed is field lines. As a pair of strings, a line takes 160 bytes, of which
110 are Python's overhead. Packed, all lines of a message are one bytes object. Frequent lines and names are stored as
numbers of a table. When the table is full, new lines are stored as text.

Each line begins with a byte: 0 for the number of a line; 1 for the number of a name, followed by a value; 2 for a name
and a value as text. Numbers and lengths take two bytes. A message is not packed if it has a value outside ISO-8859-1.
"""

import struct
from functools import lru_cache

type Line = tuple[str, str]
type Lines = tuple[Line, ...]

TABLE_MAX = 4096
"""Maximum number of lines in the table, and of names. The table takes about a megabyte and has room for all lines
that servers usually send."""
COMMON_MAX = 128
"""Maximum length of a line in the table, in characters. Longer values, such as policies and reports, are rarely
repeated."""
UNPACKED = 512
"""Number of messages with cached unpacked lines. A message is usually read several times in a row."""

_NUMBER = struct.Struct("<BH")
_VALUE = struct.Struct("<BHH")
_WRITTEN = struct.Struct("<BHH")

_lines: dict[Line, int] = {}
_all_lines: list[Line] = []
_names: dict[str, int] = {}
_all_names: list[str] = []
_seen_once: set[int] = set()
"""Hashes of lines that occurred once. A line enters the table at its second occurrence."""


def pack(lines: Lines) -> Lines | bytes:
    """Return the lines in packed form. Return them unchanged if they cannot be packed."""
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
    """Unpack lines that `pack` has packed."""
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


def size(lines: Lines | bytes) -> int:
    """Return an upper estimate of the memory that the lines occupy, in bytes."""
    if isinstance(lines, bytes):
        return 40 + len(lines)
    return 64 + sum(170 + len(name) + len(value) for name, value in lines)


def _number_of(line: Line) -> int | None:
    number = _lines.get(line)
    if number is not None or len(_all_lines) >= TABLE_MAX or len(line[1]) > COMMON_MAX:
        return number
    seen = hash(line)
    if seen not in _seen_once:
        if len(_seen_once) >= TABLE_MAX:
            _seen_once.clear()
        _seen_once.add(seen)
        return None
    _seen_once.discard(seen)
    number = _lines[line] = len(_all_lines)
    _all_lines.append(line)
    return number


def _name_of(name: str) -> int | None:
    number = _names.get(name)
    if number is None and len(_all_names) < TABLE_MAX and len(name) <= COMMON_MAX:
        number = _names[name] = len(_all_names)
        _all_names.append(name)
    return number
