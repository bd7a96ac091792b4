"""Editing of a document in its own encoding. Bytes outside the edited places stay unchanged.

Offsets in the UTF-8 form are mapped to the document's encoding. The edited document is decoded and compared with the
expected text. If they differ, as in stateful encodings (ISO-2022-JP), the document is not changed.

If Content-Type and the XML declaration name different encodings, only ASCII is written. Feed readers can use either.
"""

import codecs
from collections.abc import Mapping, Sequence

from msgspec import Struct

from feedproxy.feed.encoding_detection import declared_encoding, encoding_by_bytes, to_utf8
from feedproxy.feed.encoding_labels import codec_of, is_ascii_compatible, is_wide
from feedproxy.feed.xml_well_formedness import valid_text


class EncodedDocument(Struct, frozen=True):
    """A document: its byte order mark, the bytes after it, their codec, and the same text in UTF-8."""

    mark: bytes
    body: bytes
    codec: str
    utf8: bytes
    is_certain: bool = True
    """True if the first bytes show the encoding, or if Content-Type and the document agree."""

    @property
    def is_utf8(self) -> bool:
        return self.body is self.utf8 or self.codec == "utf_8"

    def character_data(self, text: str) -> str:
        r"""Return text escaped for content and attribute values.

        Characters that the encoding lacks become references. If the encoding is not certain, all characters beyond
        ASCII do. In both an uncertain encoding and one that is not ASCII-compatible, `\` and `~` become references.
        """
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        text = text.replace('"', "&quot;").replace("'", "&#39;")
        if not is_ascii_compatible(self.codec) or not self.is_certain:
            text = text.replace("\\", "&#92;").replace("~", "&#126;")
        if text.isascii():
            return text
        return "".join(char if char.isascii() or self._can_encode(char) else f"&#{ord(char)};" for char in text)

    def element(
        self, prefix: str, local: str, attributes: Mapping[str, str], declaration: str = "", text: str = ""
    ) -> str:
        """Return an element with these attributes, a namespace declaration, and text."""
        name = f"{prefix}:{local}" if prefix else local
        values = "".join(f' {key}="{self.character_data(valid_text(value))}"' for key, value in attributes.items())
        end = f">{self.character_data(text)}</{name}>" if text else "/>"
        return f"<{name}{values}{declaration}{end}"

    def _can_encode(self, char: str) -> bool:
        # A codec may replace a character with a similar one (a yen sign with a backslash), so the round trip is
        # compared.
        return self.is_certain and char.encode(self.codec, "ignore").decode(self.codec) == char


def open_document(body: bytes, charset: str | None) -> EncodedDocument | None:
    """Return the document with its encoding, or None if the encoding is unknown or the document has bytes that are
    invalid in it. `charset` is the parameter of Content-Type."""
    text = to_utf8(body, charset)
    if not text.sound:
        return None
    detected = encoding_by_bytes(body)
    length = detected[1] if detected else 0
    return EncodedDocument(
        body[:length], body[length:], text.encoding, text.data, detected is not None or _encodings_agree(body, charset)
    )


def _encodings_agree(body: bytes, charset: str | None) -> bool:
    # Without a declaration, programs that ignore Content-Type read UTF-8 (XML 1.0, section 4.3.3).
    header, own = codec_of(charset or ""), codec_of(declared_encoding(body) or "utf-8")
    return header is None or header == own or is_wide(header)


class Edit(Struct, frozen=True):
    """The replacement of the bytes from `start` to before `end` by `text`, in the UTF-8 form of a document."""

    start: int
    end: int
    text: str


def splice(document: EncodedDocument, edits: Sequence[Edit]) -> bytes | None:
    """Return the document with these edits, which must not overlap, or None if its encoding permits no exact result."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    try:
        expected = _replace_ranges(document.utf8, [(edit.start, edit.end, edit.text.encode()) for edit in ordered])
        if document.is_utf8:
            return document.mark + expected
        offsets = iter(_to_body_offsets(document, [offset for edit in ordered for offset in (edit.start, edit.end)]))
        own_edits = [(next(offsets), next(offsets), edit.text.encode(document.codec)) for edit in ordered]
        result = _replace_ranges(document.body, own_edits)
        return document.mark + result if result.decode(document.codec) == expected.decode() else None
    except UnicodeError:
        return None


def _to_body_offsets(document: EncodedDocument, offsets: Sequence[int]) -> list[int]:
    own_offsets, position, previous = [], 0, 0
    encoder = codecs.getincrementalencoder(document.codec)()
    for offset in offsets:
        position += len(encoder.encode(document.utf8[previous:offset].decode()))
        previous = offset
        own_offsets.append(position)
    return own_offsets


def _replace_ranges(body: bytes, edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for start, end, text in edits:
        parts += (body[position:start], text)
        position = end
    return b"".join((*parts, body[position:]))
