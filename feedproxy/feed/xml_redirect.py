"""XML redirect documents, by which a feed moves or ends (RSS Feed State; docs/explanation/moves-and-endings.md).

    <redirect><newLocation>https://new.example/feed</newLocation></redirect>

An empty newLocation means 410. Moves and ends take effect at once, so parsing is strict. The specification's own sample
is ill-formed, and is therefore ignored.
"""

import re

from lxml import etree
from msgspec import Struct

from feedproxy.feed.encoding_detection import to_utf8
from feedproxy.feed.xml_parser import PARSER_OPTIONS
from feedproxy.feed.xml_well_formedness import valid_text

# RFC 9110, section 4.1, recommends supporting URIs of 8000 octets; the limit is twice that in UTF-16, with tags.
_DOCUMENT_MAX = 20 * 1024
_SEARCH_MAX = 1024

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_INVALID_IN_ADDRESS = re.compile(r"[\x00-\x20\x7f-\x9f\s<>\"]")


class Moved(Struct, frozen=True):
    """The statement that the feed has moved to `location`, which can be relative to the old address."""

    location: str


class Gone(Struct, frozen=True):
    """The statement that the feed has ended."""


def read(body: bytes) -> Moved | Gone | None:
    """Return what a redirect document states, or None for any other document. Raises no exception."""
    if len(body) > _DOCUMENT_MAX or b"redirect" not in body[:_SEARCH_MAX].replace(b"\0", b""):
        return None
    text = to_utf8(body)
    if not text.sound or b"<!DOCTYPE" in text.data:
        return None
    parser = etree.XMLParser(**PARSER_OPTIONS | {"recover": False, "remove_comments": False})
    try:
        root = etree.fromstring(text.data, parser)
    except (etree.LxmlError, ValueError):
        return None
    # In another namespace, the same names may mean anything.
    has_namespace = any(element.tag.startswith("{") for element in root.iter("*"))
    locations = root.findall("newLocation")
    if root.tag != "redirect" or has_namespace or len(locations) != 1 or len(locations[0]):
        return None
    location = (locations[0].text or "").strip(" \t\r\n")
    if not location:
        return Gone()
    scheme = _SCHEME.match(location)
    if _INVALID_IN_ADDRESS.search(location) or (scheme and scheme[1].lower() not in ("http", "https")):
        return None
    return Moved(location)


def make_document(location: str | None) -> bytes:
    """Return the redirect document for a move to `location`, or for the end of the feed if `location` is None. Raises
    ValueError if XML cannot contain the address."""
    if location is not None and (not location or valid_text(location) != location):
        raise ValueError(f"invalid location {location!r}: expected characters that are allowed in XML")
    if location is None:
        element = "<newLocation/>"
    else:
        escaped = location.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        element = f"<newLocation>{escaped}</newLocation>"
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<redirect>\n   {element}\n</redirect>\n'
    return text.encode("ascii", "xmlcharrefreplace")
