"""Put text into a document, and leave every other byte as it is.

Places are found in the document's UTF-8 form, since that is what the standard library's parser counts in.
Each is carried over to the document's own encoding, where only the new text is encoded. Whether that went
well is not argued but tried: the result, decoded, must be the text that was meant, or the document stays as
it was. That settles encodings with states (ISO-2022-JP), with several codes for one character, and all
others.

Where Content-Type and the XML declaration name different encodings, readers differ in whom they believe. Then
only ASCII is written, with references for everything else: it is the same bytes either way.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from feedproxy.feed.charset import declared_encoding, encoding_by_bytes, to_utf8
from feedproxy.feed.parse.encoding_labels import codec_of, is_ascii_compatible, is_wide


@dataclass(frozen=True, slots=True)
class Document:
    """A document's bytes behind the byte order mark, the codec they are read by, and the same in UTF-8."""

    mark: bytes
    body: bytes
    codec: str
    utf8: bytes
    is_certain: bool = True
    """No other encoding was named for it."""

    @property
    def is_utf8(self) -> bool:
        """Whether the body is its own UTF-8 form."""
        return self.body is self.utf8 or self.codec == "utf_8"

    def character_data(self, text: str) -> str:
        """Text escaped for content and attribute values, what the encoding cannot hold as references."""
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        text = text.replace('"', "&quot;").replace("'", "&#39;")
        if not is_ascii_compatible(self.codec) or not self.is_certain:
            text = text.replace("\\", "&#92;").replace("~", "&#126;")
        if text.isascii():
            return text
        return "".join(char if char.isascii() or self._can_encode(char) else f"&#{ord(char)};" for char in text)

    def _can_encode(self, char: str) -> bool:
        # A codec may write a likeness, such as a backslash for a yen sign: what comes back must be the same.
        return self.is_certain and char.encode(self.codec, "ignore").decode(self.codec) == char


def open_document(body: bytes, charset: str | None) -> Document | None:
    """The document with its encoding; None where it cannot be read exactly. `charset` is Content-Type's."""
    text = to_utf8(body, charset)
    if not text.sound:
        return None
    detected = encoding_by_bytes(body)
    length = detected[1] if detected else 0
    return Document(
        body[:length], body[length:], text.encoding, text.data, detected is not None or _encodings_agree(body, charset)
    )


def _encodings_agree(body: bytes, charset: str | None) -> bool:
    # A document that says nothing is in UTF-8 to those who pass over Content-Type (XML 1.0, section 4.3.3).
    header, own = codec_of(charset or ""), codec_of(declared_encoding(body) or "utf-8")
    return header is None or header == own or is_wide(header)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes from `start` up to `end` of the UTF-8 form by `text`."""

    start: int
    end: int
    text: str


def splice(document: Document, edits: Sequence[Edit]) -> bytes | None:
    """The document with these edits, which must not overlap; None where that cannot be done exactly."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    try:
        expected = _replace_ranges(document.utf8, [(edit.start, edit.end, edit.text.encode()) for edit in ordered])
        if document.is_utf8:
            return document.mark + expected
        places = iter(_to_body_offsets(document, [place for edit in ordered for place in (edit.start, edit.end)]))
        own = [(next(places), next(places), edit.text.encode(document.codec)) for edit in ordered]
        result = _replace_ranges(document.body, own)
        return document.mark + result if result.decode(document.codec) == expected.decode() else None
    except UnicodeError:
        return None


def to_body_ranges(document: Document, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Ranges of the UTF-8 form as ranges of the document's bytes, its mark counted.

    They must be in order, and not overlap. None where a range does not hold the same text in both.
    """
    mark = len(document.mark)
    if document.is_utf8:
        return [(start + mark, end + mark) for start, end in ranges]
    try:
        places = iter(_to_body_offsets(document, [place for each in ranges for place in each]))
        own = [(next(places), next(places)) for _ in ranges]
        for (start, end), (own_start, own_end) in zip(ranges, own, strict=True):
            if document.body[own_start:own_end].decode(document.codec) != document.utf8[start:end].decode():
                return None
    except UnicodeError:
        return None
    return [(start + mark, end + mark) for start, end in own]


def _to_body_offsets(document: Document, places: Sequence[int]) -> list[int]:
    """The offsets in the body that belong to ascending ones in the UTF-8 form. Raises UnicodeError."""
    own, position, previous = [], 0, 0
    encoder = codecs.getincrementalencoder(document.codec)()
    for place in places:
        position += len(encoder.encode(document.utf8[previous:place].decode()))
        previous = place
        own.append(position)
    return own


def _replace_ranges(body: bytes, edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for start, end, text in edits:
        parts += (body[position:start], text)
        position = end
    return b"".join((*parts, body[position:]))
