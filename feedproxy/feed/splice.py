"""Put text into a document, and leave every other byte as it is.

Places are found in the document's UTF-8 form, since that is what the standard library's parser counts in.
Each is carried over to the document's own encoding, where only the new text is encoded. Whether that went
well is not argued but tried: the result, decoded, must be the text that was meant, or the document stays as
it was. That settles encodings with states (ISO-2022-JP), with several codes for one character, and all
others.

Where Content-Type and the XML declaration name different encodings, readers differ in whom they believe. Then
only ASCII is written, with references for everything else: it is the same bytes either way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from feedproxy.feed.charset import declared, marked, to_utf8
from feedproxy.feed.labels import codec_of, is_wide

# Here 0x5C and 0x7E are a backslash and a tilde to some decoders, a currency sign and an overline to others.
_UNSURE_ASCII = frozenset({"shift_jis", "cp932", "iso2022_jp", "euc_kr", "cp949", "johab"})


@dataclass(frozen=True, slots=True)
class Document:
    """A document's bytes behind the byte order mark, the codec they are read by, and the same in UTF-8."""

    mark: bytes
    body: bytes
    codec: str
    utf8: bytes
    certain: bool = True
    """No other encoding was named for it."""

    def character_data(self, text: str) -> str:
        """Text escaped for content and attribute values, what the encoding cannot hold as references."""
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        text = text.replace('"', "&quot;").replace("'", "&#39;")
        if self.codec in _UNSURE_ASCII or not self.certain:
            text = text.replace("\\", "&#92;").replace("~", "&#126;")
        if text.isascii():
            return text
        return "".join(char if char.isascii() or self._holds(char) else f"&#{ord(char)};" for char in text)

    def _holds(self, char: str) -> bool:
        # A codec may write a likeness, such as a backslash for a yen sign: what comes back must be the same.
        return self.certain and char.encode(self.codec, "ignore").decode(self.codec) == char


def open_document(body: bytes, charset: str | None) -> Document | None:
    """The document with its encoding; None where it cannot be read exactly. `charset` is Content-Type's."""
    text = to_utf8(body, charset)
    if not text.sound:
        return None
    shown = marked(body)
    length = shown[1] if shown else 0
    return Document(
        body[:length], body[length:], text.encoding, text.data, shown is not None or _agree(body, charset)
    )


def _agree(body: bytes, charset: str | None) -> bool:
    # A document that says nothing is in UTF-8 to those who pass over Content-Type (XML 1.0, section 4.3.3).
    header, own = codec_of(charset or ""), codec_of(declared(body) or "utf-8")
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
        meant = _join(document.utf8, [(edit.start, edit.end, edit.text.encode()) for edit in ordered])
        if document.body is document.utf8 or document.codec == "utf-8":
            return document.mark + meant
        own = [
            (_place(document, e.start), _place(document, e.end), e.text.encode(document.codec))
            for e in ordered
        ]
        result = _join(document.body, own)
        return document.mark + result if result.decode(document.codec) == meant.decode() else None
    except UnicodeError:
        return None


def _place(document: Document, offset: int) -> int:
    """The offset in the body that belongs to one in the UTF-8 form."""
    return len(document.utf8[:offset].decode().encode(document.codec))


def _join(body: bytes, edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for start, end, text in edits:
        parts += (body[position:start], text)
        position = end
    return b"".join((*parts, body[position:]))
