"""Entity tags of origins and of this proxy.  RFC 9110, section 8.8.3

A tag of this proxy has a base, which identifies the content: `"base"`. For coded content, a checksum of the coded bytes
and the coding follow: `"base~5a3c90fe-gzip"`.

Other software changes tags: Apache's mod_deflate appends `-gzip`, nginx makes the tag weak, and some clients drop the
quotation marks. The base remains recognisable.
"""

import re
from typing import Literal

from msgspec import Struct

from feedproxy.http.coding.deflate import zlib
from feedproxy.http.field_values import field_parser

_TAG = re.compile(r"""(?P<weak>[Ww]/)?(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')""")
_MEMBER = re.compile(r"""[ \t]*(?:(?P<quoted>(?:[Ww]/)?"[^"]*")|(?P<other>[^,]+))""")
_CODINGS = ("gzip", "br", "zstd", "dcz", "deflate")
_MARK = re.compile(r"~[0-9a-f]{8}\Z")
_SUFFIXES = tuple(mark + coding for coding in _CODINGS for mark in ("--", "-", ";"))


class EntityTag(Struct, frozen=True):
    """An entity tag. `opaque` is the text within the quotation marks. `weak` is True if `W/` precedes them."""

    opaque: str
    weak: bool = False

    @property
    def text(self) -> str:
        """Return the tag as written in a field."""
        return f'W/"{self.opaque}"' if self.weak else f'"{self.opaque}"'


@field_parser(too_long=None)
def parse_tag(value: str) -> EntityTag | None:
    """Return an entity tag, or None if the value is empty, has several tags, or is longer than PARSED_MAX.

    All forms in use are accepted: `"x"`, `W/"x"`, `w/"x"`, `'x'`, `W/x`, `x`.
    """
    value = value.strip(" \t")
    if match := _TAG.fullmatch(value):
        opaque = match["double"] if match["double"] is not None else match["single"]
        return EntityTag(opaque, weak=match["weak"] is not None)
    weak = value[:2] in ("W/", "w/")
    opaque = value[2:] if weak else value
    opaque = opaque.removeprefix('"').removesuffix('"')
    return EntityTag(opaque, weak) if opaque and '"' not in opaque else None


@field_parser(too_long=())
def parse_tags(value: str) -> tuple[EntityTag, ...] | Literal["*"]:
    """Return the tags in If-Match or If-None-Match, or "*" (RFC 9110, sections 13.1.1 and 13.1.2).

    A tag may contain commas. A backslash in it is an ordinary character. A value longer than PARSED_MAX has no tags.
    """
    if value.strip(" \t") == "*":
        return "*"
    tags = []
    for match in _MEMBER.finditer(value):
        text = match["quoted"] or match["other"]
        # A `*` among tags is invalid and is dropped: the list must not match every representation.
        if text.strip(" \t") != "*" and (tag := parse_tag(text)):
            tags.append(tag)
    return tuple(tags)


def strong_match(one: EntityTag, other: EntityTag) -> bool:
    """Return True if two tags are strong and equal (strong comparison, RFC 9110, section 8.8.3.2)."""
    return not one.weak and not other.weak and one.opaque == other.opaque


def weak_match(one: EntityTag, other: EntityTag) -> bool:
    """Return True if the texts of two tags are equal (weak comparison, RFC 9110, section 8.8.3.2)."""
    return one.opaque == other.opaque


def own_tag(base: str, coding: str, coded: bytes = b"") -> EntityTag:
    """Return this proxy's tag for a content coding. Each coding needs its own strong tag (RFC 9110, section 8.8.3.3).

    If `coded`, the coded bytes, is not empty, the tag has its checksum: different encoders or levels make different
    bytes of the same content.
    """
    if coding == "identity":
        return EntityTag(base)
    mark = f"~{zlib.crc32(coded):08x}" if coded else ""
    return EntityTag(f"{base}{mark}-{coding}")


def tag_base(tag: EntityTag) -> str:
    """Return the base of a tag: its text without appended codings and without this proxy's checksum."""
    opaque, end = tag.opaque, len(tag.opaque)
    while opaque.endswith(_SUFFIXES, 0, end):
        end -= next(len(suffix) for suffix in _SUFFIXES if opaque.endswith(suffix, 0, end))
    if end < len(opaque) and (mark := _MARK.search(opaque, 0, end)) and mark.start():
        end = mark.start()
    return opaque[:end] or opaque
