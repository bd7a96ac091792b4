"""Conversion between XML elements and the nodes of the model."""

import re
from collections.abc import Iterable
from functools import lru_cache
from html import unescape
from itertools import groupby

from lxml import etree

from feedproxy.feed.convert.model import Node
from feedproxy.feed.convert.namespaces import ALIASES, PREFIXES, RSS1, RSS2, RSS11, XML
from feedproxy.feed.xml_parser import Element, attributes, qualified_name
from feedproxy.feed.xml_well_formedness import valid_text

_NAME = re.compile(r"[^\W\d][\w.\-]*")
_SILENT = (etree._Comment, etree._ProcessingInstruction)
_DEPTH_MAX = 64
"""Elements inside more than this many elements are left out. Known modules have five levels."""


def canonical_namespace(namespace: str) -> str:
    """Return the usual name of a namespace that has older or misspelt names (ALIASES). Return other names unchanged."""
    return ALIASES.get(namespace, namespace)


def without_rss_namespace(namespace: str) -> str:
    """Return the namespace, or "" for a namespace of RSS 1.0, 1.1 or 2.0."""
    return "" if namespace in (RSS1, RSS2, RSS11) else namespace


def make_node(element: Element, depth: int = 0) -> Node | None:
    """Return the node of an element, or None if the element is nested too deeply, or its name is invalid in XML.
    `depth` is the number of elements around the element."""
    namespace, local = qualified_name(element)
    namespace = without_rss_namespace(canonical_namespace(namespace))
    if depth > _DEPTH_MAX or not is_writable_name(namespace, local):
        return None
    pairs = sorted((_key(key), valid_text(value)) for key, value in attributes(element))
    content: list[str | Node] = [element.text or ""]
    for child in element:
        if isinstance(child, etree._Entity):
            content.append(unescape(child.text or ""))
        elif not isinstance(child, _SILENT) and (inner := make_node(child, depth + 1)) is not None:
            content.append(inner)
        content.append(child.tail or "")
    return Node(
        namespace,
        local,
        tuple(part for part in pairs if _may_be_attribute(part[0])),
        normalise_content(content),
    )


def normalise_content(content: Iterable[str | Node]) -> tuple[str | Node, ...]:
    """Return the content of a node with adjacent texts joined, and without white space between elements."""
    joined: list[str | Node] = []
    for is_text, run in groupby(content, key=lambda part: isinstance(part, str)):
        pieces = list(run)
        joined += [valid_text("".join(map(str, pieces)))] if is_text else pieces
    if not any(isinstance(part, Node) for part in joined):
        joined = [str(text).strip() for text in joined]
    return tuple(part for part in joined if isinstance(part, Node) or part.strip())


def _may_be_attribute(key: str) -> bool:
    namespace, _, local = key.rpartition("}")
    return ":" not in local and (not namespace or _is_namespace(namespace[1:]))


def is_writable_name(namespace: str, local: str) -> bool:
    """Return True if XML permits an element with this name: `local` is valid, and `namespace` is valid or empty."""
    if namespace.endswith(":") and namespace[:-1].isidentifier():
        return False  # an undeclared prefix without a customary meaning
    return bool(_NAME.fullmatch(local)) and (not namespace or _is_namespace(namespace))


def is_writable(node: Node) -> bool:
    """Return True if XML permits a node with all its attributes and descendants."""
    return (
        is_writable_name(node.namespace, node.name)
        and all(map(_is_attribute_name, (key for key, _ in node.attributes)))
        and all(map(is_writable, node.children))
    )


def _is_attribute_name(key: str) -> bool:
    try:
        etree.Element("x").set(key, "")
    except ValueError:
        return False
    return _may_be_attribute(key)


@lru_cache(maxsize=1024)
def _is_namespace(name: str) -> bool:
    try:
        etree.Element("x", nsmap={"n": name})
    except ValueError:
        return False
    return True


def _key(key: str) -> str:
    if key.startswith("{"):
        namespace, _, local = key[1:].partition("}")
        return f"{{{canonical_namespace(namespace)}}}{local}"
    prefix, colon, local = key.partition(":")
    if colon and f"{prefix}:" in ALIASES:
        return f"{{{ALIASES[prefix + ':']}}}{local}"
    return f"{{{XML}}}{local}" if prefix == "xml" and colon else key


def add(parent: Element, node: Node, bare: str = "") -> None:
    """Write a node into a document. An element without a namespace gets the namespace `bare`."""
    element = etree.SubElement(parent, clark_name(node.namespace or bare, node.name))
    for key, value in node.attributes:
        element.set(key, value)
    last: Element | None = None
    for part in node.content:
        if isinstance(part, Node):
            add(element, part, bare)
            last = element[-1]
        elif last is None:
            element.text = part
        else:
            last.tail = part


NAMESPACES_MAX = 64
"""Maximum number of namespaces of a feed, besides those with a customary prefix (PREFIXES). Known feeds have five."""


def limit_namespaces(nodes: tuple[Node, ...], namespaces: set[str]) -> tuple[Node, ...]:
    """Return the nodes without those that would raise the number of namespaces above NAMESPACES_MAX.

    This limits the time of writing. `namespaces` are those of earlier nodes. Those of the returned nodes are added.
    """
    parts = []
    for node in nodes:
        used: dict[str, str] = {}
        _collect((node,), used)
        more = used.keys() - namespaces - PREFIXES.keys()
        if len(namespaces) + len(more) <= NAMESPACES_MAX:
            namespaces |= more
            parts.append(node)
    return nodes if len(parts) == len(nodes) else tuple(parts)


def clark_name(namespace: str, local: str) -> str:
    """Return a name in Clark's notation (`{namespace}local`), the form of all names in lxml."""
    return f"{{{namespace}}}{local}" if namespace else local


def assign_prefixes(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the namespaces of the nodes by prefix: the customary prefix (PREFIXES), or else a generated one."""
    prefixes: dict[str, str] = {}
    _collect(nodes, prefixes)
    return {prefix: namespace for namespace, prefix in prefixes.items()}


def _collect(nodes: Iterable[Node], prefixes: dict[str, str]) -> None:
    for node in nodes:
        keys = [key[1:].partition("}")[0] for key, _ in node.attributes if key.startswith("{")]
        for namespace in (node.namespace, *keys):
            if namespace and namespace != XML and namespace not in prefixes:
                prefixes[namespace] = PREFIXES.get(namespace) or f"x{len(prefixes)}"
        _collect(node.children, prefixes)
