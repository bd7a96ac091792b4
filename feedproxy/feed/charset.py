"""Which encoding a document is in, and the same document in UTF-8.

XML 1.0, appendix F: a byte order mark decides, then the pattern of zero bytes, then the declaration. The
`charset` of Content-Type counts only where the document itself says nothing: servers attach one to every
file they send, feeds seldom lie about themselves, and what is read here (numbers, English day names,
addresses) is ASCII in either. Decoding is done by Python's codecs, because libxml2 lacks some of the
encodings feeds are written in, and what it makes of a wrong declaration differs between its versions.
"""

import codecs
import re
from dataclasses import dataclass

from feedproxy.feed.labels import codec_of

_MARKS = (
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_PATTERNS = (
    # "<" or "{" or white space, each with its zero bytes.
    (re.compile(rb"\0\0\0[<{[\s]"), "utf-32-be"),
    (re.compile(rb"[<{[\s]\0\0\0"), "utf-32-le"),
    (re.compile(rb"\0[<{[\s]\0[^\0]"), "utf-16-be"),
    (re.compile(rb"[<{[\s]\0[^\0]\0"), "utf-16-le"),
)

_DECLARATION = re.compile(rb"""<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:\-]{1,40})["']""")

_DECLARED_WITHIN = 1024
"""Bytes in which a declaration is looked for: warnings of PHP may stand before it."""

_WIDER = {
    # What publishers mean by these names is mostly the larger set (WHATWG Encoding Standard, section 4.2).
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A document in UTF-8."""

    data: bytes
    """UTF-8 without a byte order mark."""
    encoding: str
    """The codec by which the body was read, in Python's name for it."""
    sound: bool
    """Every byte was right for the encoding that the document names."""


def marked(body: bytes) -> tuple[str, int] | None:
    """The encoding that mark or zero bytes show, and the length of the mark; None where they show none."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return name, len(mark)
    for pattern, name in _PATTERNS:
        if pattern.match(body):
            return name, 0
    return None


def declared(body: bytes) -> str | None:
    """The encoding that the XML declaration names, as it is written; None where it names none."""
    found = _DECLARATION.search(body, 0, _DECLARED_WITHIN)
    return found[1].decode("ascii") if found else None


def to_utf8(body: bytes, charset: str | None = None) -> Text:
    """`body` in UTF-8. Never fails: what cannot be read is replaced, and `sound` says so.

    `charset` is Content-Type's parameter.
    """
    shown = marked(body)
    if shown:
        name, mark = shown
        return _read(body[mark:], name)
    label = declared(body) or charset or "utf-8"
    codec = _codec(label)
    if codec is None or codec.startswith(("utf-16", "utf-32")):
        # Unknown, or impossible: a declaration that could be read byte by byte is in no wide encoding.
        text = _read(body, "utf-8")
        return Text(text.data, text.encoding, sound=codec is not None and text.sound)
    return _read(body, codec)


def _codec(label: str) -> str | None:
    """The codec of a label from the closed list; UTF-7 is left out, which hides markup from whoever looks."""
    known = codec_of(label)
    return None if known in (None, "utf_7") else codecs.lookup(str(known)).name


def _read(body: bytes, codec: str) -> Text:
    if codec == "utf-8" or (codec == "ascii" and body.isascii()):
        # The common case costs no copy; libxml2 itself finds and reports wrong bytes.
        if _is_utf8(body):
            return Text(body, codec, sound=True)
        return Text(body.decode("cp1252", "replace").encode(), "cp1252", sound=False)
    try:
        return Text(_encoded(body.decode(codec)), codec, sound=True)
    except UnicodeError:
        wider = "utf-8" if codec == "ascii" and _is_utf8(body) else _WIDER.get(codec, codec)
        return Text(_encoded(body.decode(wider, "replace")), wider, sound=False)


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeError:
        return False
    return True


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
