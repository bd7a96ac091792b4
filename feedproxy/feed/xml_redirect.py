"""XML redirect documents, by which a feed moves or ends. Publishers that cannot set a status code use such documents
(RSS Feed State).

    <redirect><newLocation>https://new.example/feed</newLocation></redirect>

RSS Feed State wants the document "treated the same as HTTP 301". An empty newLocation means 410. Move and end take
effect at once, so parsing is strict: one well-formed newLocation, without namespace and document type, and nothing
else. The specification's own sample is ill-formed, and therefore ignored.
"""

import re
from dataclasses import dataclass
from xml.parsers.expat import ExpatError, ParserCreate

from feedproxy.feed.encoding_detection import to_utf8

# RFC 9110, section 4.1, recommends supporting URIs of 8000 octets; the limit is twice that in UTF-16, with tags.
_DOCUMENT_MAX = 20 * 1024
_SEARCH_MAX = 1024

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_INVALID_IN_ADDRESS = re.compile(r"[\x00-\x20\x7f-\x9f\s<>\"]")
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Moved:
    """The statement that the feed has moved to `location`, an http or https URI or a relative reference.

    A relative reference is resolved against the old address.
    """

    location: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The statement that the feed has ended."""


def read(body: bytes) -> Moved | Gone | None:
    """Return what a redirect document states, or None for any other document. Raises no exception."""
    if len(body) > _DOCUMENT_MAX or b"redirect" not in body[:_SEARCH_MAX].replace(b"\0", b""):
        return None
    text = to_utf8(body)
    if not text.sound:
        return None
    reader = _RedirectReader()
    parser = ParserCreate("utf-8")
    parser.buffer_text = True  # otherwise the handler is called for each line
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.document_type
    try:
        parser.Parse(text.data, True)
    except (_NotRedirect, ExpatError):
        return None
    if len(reader.locations) != 1:
        return None
    location = reader.locations[0].strip(" \t\r\n")
    if not location:
        return Gone()
    scheme = _SCHEME.match(location)
    if _INVALID_IN_ADDRESS.search(location) or (scheme and scheme[1].lower() not in ("http", "https")):
        return None
    return Moved(location)


class _NotRedirect(Exception):
    """Exception for a document that is not a redirect document."""


class _RedirectReader:
    """Handlers for expat's events that collect the text of each newLocation."""

    def __init__(self) -> None:
        self.locations: list[str] = []
        self._path: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        # In another namespace, the same names may mean anything.
        if attributes.get("xmlns") or (not self._path and name != "redirect"):
            raise _NotRedirect
        if self._path == ["redirect", "newLocation"]:
            raise _NotRedirect
        self._path.append(name)
        if self._path == ["redirect", "newLocation"]:
            self.locations.append("")

    def end(self, _: str) -> None:
        self._path.pop()

    def characters(self, data: str) -> None:
        if self._path == ["redirect", "newLocation"]:
            self.locations[-1] += data

    def document_type(self, *_: object) -> None:
        raise _NotRedirect


def make_document(location: str | None) -> bytes:
    """Return the redirect document for a feed that has moved to `location`, or has ended if `location` is None.

    Raises ValueError if the address cannot be written in XML.
    """
    if location is not None and (not location or _ILLEGAL.search(location)):
        raise ValueError(f"invalid location {location!r}: expected characters that are allowed in XML")
    if location is None:
        element = "<newLocation/>"
    else:
        escaped = location.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        element = f"<newLocation>{escaped}</newLocation>"
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<redirect>\n   {element}\n</redirect>\n'
    return text.encode("ascii", "xmlcharrefreplace")
