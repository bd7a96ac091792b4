"""Repairs of frequent syntax errors in XML, after which libxml2 would lose or merge items: bare `&` and `<`, unclosed
`<br>`, references to surrogates, missing end tags, and deep nesting.

A well-formed document remains unchanged, except for elements that are nested too deeply.
"""

import io
import re
from collections import Counter

from feedproxy.feed.entity_references import NAME, NOT_CONTENT
from feedproxy.feed.xml_well_formedness import IsWellFormed, is_well_formed

_NO_REFERENCE = rb"(?!(?:" + NAME + rb"|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)"
_NO_MARKUP = rb"(?=[^A-Za-z_:/!?\x80-\xff])"
_BARE_AMPERSAND = re.compile(b"&" + _NO_REFERENCE)
_BARE_LESS = re.compile(b"<" + _NO_MARKUP)
"""Pattern of a `<` that begins no markup. Separate searches for `&` and `<` are three times as fast as one for both."""
_BARE_IN_CONTENT = re.compile(
    rb"[<&](?:(?<=&)()" + _NO_REFERENCE + rb"|(?<=<)()" + _NO_MARKUP + rb"|" + NOT_CONTENT + rb")"
)
"""Pattern of an ampersand that begins no reference, and of a `<` that begins no markup.

For such an ampersand, the first group is empty. For such a `<`, the second group is empty. The pattern also matches
CDATA sections, comments and instructions, which can contain both. Both groups are then None.
"""

_VOID = rb"<(?:br|hr|img)(?:\s[^<>]*+)?(?<!/)>(?!</)"
"""Pattern of an unclosed start tag of `br`, `hr` or `img`: it neither ends in `/>` nor is followed by an end tag."""
_FIRST_VOID = re.compile(_VOID, re.IGNORECASE)
_VOID_IN_CONTENT = re.compile(rb"(" + _VOID + rb")|<" + NOT_CONTENT, re.IGNORECASE)
"""Pattern of an unclosed start tag of `br`, `hr` or `img` (_VOID). The pattern also matches CDATA sections, comments
and instructions, which contain no tags. The first group is then None."""

_VOID_MAX = 10_000
"""Maximum number of matches of _VOID_IN_CONTENT in one document that are examined."""

_SURROGATE = (
    rb"&#(?:x0*+[dD][89A-Fa-f][0-9A-Fa-f]{2}"
    rb"|0*+(?:55(?:29[6-9]|[3-9][0-9]{2})|56[0-9]{3}|57(?:[0-2][0-9]{2}|3[0-3][0-9]|34[0-3])));"
)
"""Pattern of a reference to a surrogate (U+D800 to U+DFFF)."""
_FIRST_SURROGATE = re.compile(_SURROGATE)
"""Pattern of a reference to a surrogate. Two fixed bytes at the beginning make it 25 times as fast as _SURROGATES."""
_SURROGATES = re.compile(rb"(?:" + _SURROGATE + rb")+")

_BARE_MAX = 10_000
"""Maximum number of bare `&` and `<` in one document that are read as text."""

_DEPTH_MAX = 250
"""Elements nested more deeply lose their tags if libxml2 refuses a document, or if items seem to be nested."""

_REPAIRED_MAX = 4 * 1024 * 1024
"""Maximum size, in bytes, of a document that is searched for missing end tags and elements deeper than _DEPTH_MAX."""

_TAG = re.compile(
    rb"""<(?:/()[^<>]*+>|(?=[A-Za-z_:\x80-\xff])(?:[^"'<>]++|"[^"<]*+"|'[^'<]*+')*+()>|"""
    + NOT_CONTENT.replace(b"(?<=<)", b"", 1)
    + rb")"
)
"""Pattern of an end tag (the first group is not None) or a start tag (the second group is not None).

The pattern also matches CDATA sections, comments and instructions, which contain no tags. It does not match a tag with
a `<` in a value: XML forbids it, and each search for the end of such a tag might read the rest of the document.
"""

_ITEM_NAMES = frozenset({b"item", b"entry"})
_CONTAINER_NAMES = _ITEM_NAMES | {b"channel", b"feed", b"rss", b"rdf:rdf"}
"""Names, in lower case, of elements that end only at an end tag with their own name."""

_TAG_NAME = re.compile(rb"</?([^\s/>]*+)")


def escape_bare(data: bytes) -> bytes:
    """Return a document in UTF-8 with references in place of bare `&` and `<`, at most _BARE_MAX.

    An ampersand that begins no reference, and a `<` that begins no markup, are ill-formed (XML 1.0, section 2.4), but
    common in addresses and in texts like `3 < 4`. libxml2 would read `?a=1&b=2` as `?a=1=2`, and would drop items after
    `<4`. A well-formed document is returned unchanged.
    """
    pieces, done = list[bytes](), 0
    has_bare = _BARE_AMPERSAND.search(data) or _BARE_LESS.search(data)
    matches = _BARE_IN_CONTENT.finditer(data) if has_bare else ()
    for match in matches:
        if match[1] is not None or match[2] is not None:
            pieces += (data[done : match.start()], b"&lt;" if match[1] is None else b"&amp;")
            done = match.end()
            if len(pieces) == 2 * _BARE_MAX:
                break
    return b"".join((*pieces, data[done:])) if pieces else data


def close_void_elements(data: bytes, check: IsWellFormed = is_well_formed) -> bytes:
    """Return a document in UTF-8 with `<br/>` in place of `<br>`, and likewise for `hr` and `img`.

    A description with unescaped HTML is ill-formed if it has such tags. libxml2 would read all further items as content
    of the unclosed element. If `check` finds a document well-formed, it is returned unchanged, as the same object.
    """
    if _FIRST_VOID.search(data) is None or check(data):
        return data
    return _VOID_IN_CONTENT.sub(
        lambda match: match[0] if match[1] is None else match[1][:-1] + b"/>", data, count=_VOID_MAX
    )


def replace_surrogates(data: bytes) -> bytes:
    """Return a document in UTF-8 with valid references in place of references to surrogates.

    References to surrogates are ill-formed (XML 1.0, section 4.1), but some programs write two of them for a character
    beyond U+FFFF, such as an emoji. From these, libxml2 makes bytes that are not UTF-8, and lxml then raises an
    exception. A well-formed document is returned unchanged, as the same object. In an ill-formed document, references
    in CDATA sections are replaced as well, because a syntax error can hide where a section begins.
    """
    if _FIRST_SURROGATE.search(data) is None or is_well_formed(data):
        return data
    return _SURROGATES.sub(lambda match: _join_surrogates(match[0]), data)


def _join_surrogates(references: bytes) -> bytes:
    numbers = references.decode()[2:-1].split(";&#")
    units = "".join(chr(int(number[1:], 16) if number.startswith("x") else int(number)) for number in numbers)
    text = units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.encode("ascii", "xmlcharrefreplace")


def repair_nesting(data: bytes, check: IsWellFormed) -> bytes:
    """Return the document with the end tags that are missing before the next item, and without the tags of elements
    nested too deeply. A document without either fault is returned as the same object.

    At each end tag, libxml2 ends the innermost open element, whatever the tag's name is. After a missing end tag, it
    therefore takes all further items for the content of one item. Two rules prevent this: An end tag ends the element
    of its name with all elements in it. An item begins after the end of the item before it. A well-formed document,
    for which `check` returns True, may contain an item within another.

    The content of elements nested too deeply remains, as a part of the innermost element that is not.
    """
    if len(data) > _REPAIRED_MAX:
        return data
    may_nest_items = check(data)
    result, done = io.BytesIO(), 0
    names, counts = list[bytes](), Counter[bytes]()  # of the open elements

    def end_innermost() -> bytes:
        """End the innermost open element. Return its end tag, or nothing if the element is nested too deeply."""
        name = names.pop()
        counts[name] -= 1
        return b"</%b>" % name if len(names) < _DEPTH_MAX else b""

    for match in _TAG.finditer(data):
        is_end, is_start = match[1] is not None, match[2] is not None
        found = _TAG_NAME.match(data, match.start()) if is_end or is_start else None
        if found is None:
            continue  # a comment, an instruction, or a CDATA section
        name, missing, is_kept = found[1], list[bytes](), True
        if counts[name] and (is_end or (not may_nest_items and name.lower() in _ITEM_NAMES)):
            while names[-1] != name:
                missing.append(end_innermost())
            end_tag = end_innermost()
            is_kept = bool(end_tag)
            if is_start:
                missing.append(end_tag)
        elif is_end and names and names[-1].lower() not in _CONTAINER_NAMES:
            is_kept = bool(end_innermost())  # as libxml2 does, because the name may be misspelt
        elif is_end:
            is_kept = False
        if is_start:
            is_kept = len(names) < _DEPTH_MAX
            if not data.endswith(b"/>", match.start(), match.end()):
                names.append(name)
                counts[name] += 1
        if missing or not is_kept:
            result.write(data[done : match.start()])
            result.writelines(missing)
            done = match.start() if is_kept else match.end()
    result.write(data[done:])
    return result.getvalue() if done else data
