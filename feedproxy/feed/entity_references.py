"""Replacement of entity references (XML 1.0, section 4.4).

The total length of the texts is limited. External entities and parameter entities are never read. A reference to an
undeclared entity of HTML is a syntax error. After a syntax error, libxml2 leaves out all references by name, so
references by number replace them.
"""

import re
from collections.abc import Mapping
from html.entities import html5

from feedproxy.feed.xml_well_formedness import IsWellFormed

_ENTITY_MAX = 8 * 1024
"""Entities of more than this many bytes are not expanded. Known entities are letters, names and addresses."""

_GROWTH_MAX = 256 * 1024
"""The entities of one document may add at most this many bytes. Further references become text."""

_ENTITIES_MAX = 1_000
"""Maximum number of entities that one document may declare. Further declarations are ignored. HTML 4 defines 252."""

_DEPTH_MAX = 8
"""Maximum number of levels of references within entities."""

_PIECES_MAX = 10_000
"""The text is held in pieces, which are joined when there are this many. Each piece takes 50 bytes besides its text."""

NAME = rb"[A-Za-z_:\x80-\xff][\w.:\-\x80-\xff]{0,63}"
"""Pattern of the name of an entity."""

_DOCUMENT_TYPE = re.compile(rb"<!DOCTYPE[^\[>]*\[(.*?)\]\s*>", re.DOTALL)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_DECLARATION = re.compile(
    rb"""<!ENTITY\s+(?P<name>""" + NAME + rb""")\s+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)')\s*>"""
)
_ESCAPED_REFERENCE = re.compile(b"&#(?:38|x26);#")
"""Pattern of an escaped ampersand in a declaration. `&#38;#60;` declares the text `&#60;`, a reference to `<`."""

_REFERENCE = re.compile(b"&(" + NAME + b");")
NOT_CONTENT = rb"(?<=<)(?:!\[CDATA\[(?:[^\]]++|\](?!\]>))*+|!--(?:[^-]++|-(?!->))*+|\?[^>]*+)"
"""Pattern of CDATA sections, comments and instructions after their `<`. They contain no references."""

_REFERENCE_IN_CONTENT = re.compile(rb"[<&](?:(?<=&)(" + NAME + rb");|" + NOT_CONTENT + rb")")
"""Pattern of a reference to an entity. The first group is the name of the entity.

The pattern also matches CDATA sections, comments and instructions. The first group is then None.
"""

_PREDEFINED = {b"amp": b"&#38;", b"lt": b"&#60;", b"gt": b"&#62;", b"quot": b"&#34;", b"apos": b"&#39;"}


def resolve_references(data: bytes, root: int, check: IsWellFormed) -> tuple[bytes, bool]:
    """Return a document in UTF-8 with texts in place of entity references, and True if a reference is an error.

    `root` is the offset of the root element. References to unknown entities remain. Two kinds of references are errors:

    * A reference to an entity of HTML in a document without a document type. It is replaced like a valid one.
    * A reference to a declared entity that exceeds a limit or refers to itself. It becomes the text `&name;`.

    A document without a document type that `check` finds well-formed is returned unchanged.
    """
    if _REFERENCE.search(data, root) is None:
        return data, False
    at = data.find(b"<!DOCTYPE", 0, root)
    subset = _DOCUMENT_TYPE.match(data, at, root) if at >= 0 else None
    declared = _declarations(subset[1]) if subset is not None else {}
    is_faulty = at < 0 and not check(data)
    if at < 0 and not is_faulty:
        return data, False
    texts: dict[bytes, bytes | None] = {}
    blocks, pieces, done, growth, has_fault = list[bytes](), list[bytes](), 0, 0, False
    for match in _REFERENCE_IN_CONTENT.finditer(data, root):
        name = match[1]
        if name is None:
            continue
        if name in declared:
            text = _text(name, declared, texts)
            growth += max(0, len(text or b"") - len(match[0]))
            if text is None or growth > _GROWTH_MAX:
                text, has_fault = b"&#38;%b;" % name, True
        elif name in _PREDEFINED:
            text = _PREDEFINED[name]
        else:
            text = _html_character(name)
            has_fault = has_fault or (at < 0 and text is not None)
        if text is not None:
            pieces += (data[done : match.start()], text)
            done = match.end()
            if len(pieces) >= _PIECES_MAX:
                blocks.append(b"".join(pieces))
                pieces.clear()
    return (b"".join((*blocks, *pieces, data[done:])) if done else data), has_fault


def _html_character(name: bytes) -> bytes | None:
    """Return the characters of an HTML entity (beyond ASCII: references by number), or None if it is unknown."""
    characters = html5.get(f"{name.decode('utf-8', 'replace')};")
    return characters.encode("ascii", "xmlcharrefreplace") if characters is not None else None


def _declarations(subset: bytes) -> dict[bytes, bytes]:
    """Return the texts of entities by name. `subset` is the part of the document type that declares them.

    The first declaration of an entity counts (XML 1.0, section 4.2).
    """
    declared: dict[bytes, bytes] = {}
    for match in _DECLARATION.finditer(_COMMENT.sub(b"", subset)):
        if match["name"] not in _PREDEFINED:
            declared.setdefault(match["name"], match["single"] if match["double"] is None else match["double"])
        if len(declared) == _ENTITIES_MAX:
            break
    return declared


def _text(
    name: bytes, declared: Mapping[bytes, bytes], texts: dict[bytes, bytes | None], depth: int = 0
) -> bytes | None:
    """Return the text of the entity `name`, or None if the text exceeds a limit or the entity refers to itself.

    `declared` are the declared texts, `texts` the results of earlier calls. `depth` entities surround this one.
    """
    if name in texts:
        return texts[name]
    texts[name] = None  # an entity that contains itself has no text
    written = _ESCAPED_REFERENCE.sub(b"&#", declared[name])
    if b"<" not in written:
        # In an attribute, a quotation mark of an entity does not end the value (section 4.4.5).
        written = written.replace(b'"', b"&#34;").replace(b"'", b"&#39;")
    pieces, done, size = list[bytes](), 0, len(written)
    for match in _REFERENCE.finditer(written):
        if match[1] in declared:
            inner = _text(match[1], declared, texts, depth + 1) if depth < _DEPTH_MAX else None
        else:
            inner = _PREDEFINED.get(match[1]) or _html_character(match[1]) or match[0]
        size += 0 if inner is None else len(inner) - len(match[0])
        if inner is None or size > _ENTITY_MAX:
            return None
        pieces += (written[done : match.start()], inner)
        done = match.end()
    if size <= _ENTITY_MAX:
        texts[name] = b"".join((*pieces, written[done:]))
    return texts[name]
