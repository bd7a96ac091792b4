"""Checks of the document: syntax, encoding, format and version, required elements, and RDF."""

from collections.abc import Iterator

from feedproxy.check.document import Document
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.charset import declared_encoding
from feedproxy.feed.detect import find_document_start
from feedproxy.feed.parse.encoding_labels import codec_of
from feedproxy.findings import Category, Level, Note

_KNOWN = {
    Kind.RSS: ("0.91", "0.92", "0.93", "0.94", "2.0"),
    Kind.RDF: ("0.90", "0.9", "1.0"),
    Kind.ATOM: ("0.3", "1.0"),
    Kind.JSON: ("1", "1.0", "1.1"),
}
_NAMES = {Kind.RSS: "RSS", Kind.RDF: "RSS", Kind.ATOM: "Atom", Kind.JSON: "JSON Feed", Kind.CDF: "CDF"}
_REQUIRED = {
    Kind.RSS: ("title", "link", "description"),
    Kind.RDF: ("title", "link", "description"),
    Kind.ATOM: ("id", "title", "updated"),
    Kind.JSON: ("version", "title"),
}


def check(document: Document, channel: Channel, subject: str) -> Iterator[Note]:
    """Yield the Notes on the document's form, the gravest first."""
    yield from _check_syntax(document, channel, subject)
    yield from _check_encoding(document, channel, subject)
    yield from _check_version(channel, subject)
    is_atom_03 = channel.kind is Kind.ATOM and channel.version == "0.3"
    required = ("title", "modified") if is_atom_03 else _REQUIRED.get(channel.kind, ())
    if missing := [name for name in required if not any(text.strip() for text in document.texts.get(name, ()))]:
        yield CHANNEL_INCOMPLETE(subject, names=", ".join(missing), format=name_of(channel))
    if document.doctype:
        yield DOCUMENT_TYPE(subject)
    if channel.kind is Kind.RDF and channel.version == "1.0":
        yield from _check_rdf(document, subject)


def name_of(channel: Channel) -> str:
    """Return a feed's format and version: `RSS 2.0`."""
    return f"{_NAMES[channel.kind]} {channel.version}".rstrip()


def count_entries(entries: int) -> str:
    """Return a number of entries in words: `1 entry`."""
    return "1 entry" if entries == 1 else f"{entries} entries"


def _check_syntax(document: Document, channel: Channel, subject: str) -> Iterator[Note]:
    data = document.text.data
    start = 0 if channel.kind is Kind.JSON else (find_document_start(data) or 0)
    if start and (data.startswith(b"<?xml", start) or data[:start].strip()):
        yield BEGINS_LATE(subject, size=start, what="white space" if not data[:start].strip() else "something else")
    elif document.syntax_error is not None:
        error = document.syntax_error
        yield ILL_FORMED(subject, line=error.line, column=error.column, words=error.message)
    elif not channel.well_formed and document.text.sound:
        yield HARD_TO_READ(subject)
    elif channel.well_formed:
        yield WELL_FORMED(subject, format=name_of(channel), items=count_entries(channel.items))


class WELL_FORMED(Note):
    level = Level.GOOD
    category = Category.FORMAT
    summary = "It is well-formed: %(format)s, with %(items)s."
    advice = "Nothing is to be done."
    reference = "XML 1.0, section 2.1; RFC 8259"


class ILL_FORMED(Note):
    level = Level.BAD
    category = Category.FORMAT
    summary = "It is not well-formed, in line %(line)s, column %(column)s: %(words)s."
    advice = """\
Strict readers show nothing of it. Mostly an `&` is not written as `&amp;`, HTML stands in the feed without being
escaped, or a character that XML does not allow. Let a library write the feed, not a template for text."""
    reference = "XML 1.0, section 2.1; RFC 8259"


class BEGINS_LATE(Note):
    level = Level.BAD
    category = Category.FORMAT
    summary = "Before the feed stand %(size)s bytes that do not belong there: %(what)s."
    advice = """\
XML allows nothing before its declaration; strict readers show nothing. In PHP it is mostly an empty line before
`<?php` or behind `?>` in some file, or a warning that is printed: send those to a log."""
    reference = "XML 1.0, section 2.8"


class HARD_TO_READ(Note):
    level = Level.BAD
    category = Category.FORMAT
    summary = "Parsers do not agree on it: ours had to recover."
    advice = "Namespaces that are not declared, very deep nesting or very long texts are the usual reasons."
    reference = "Namespaces in XML 1.0, section 6; XML 1.0, section 2.1"


def _check_encoding(document: Document, channel: Channel, subject: str) -> Iterator[Note]:
    named = None if channel.kind is Kind.JSON else declared_encoding(document.body)
    if named is not None and codec_of(named) is None:
        yield ENCODING_UNKNOWN(subject, encoding=named)
    elif not document.text.sound:
        yield ENCODING_LIES(subject, encoding=named or "UTF-8")
    elif document.text.encoding not in ("utf_8", "ascii"):
        yield NOT_IN_UTF_8(subject, encoding=named or document.text.encoding.replace("_", "-"))


class ENCODING_LIES(Note):
    level = Level.BAD
    category = Category.FORMAT
    summary = "There are bytes in it that do not exist in the encoding it is in by its own word, %(encoding)s."
    advice = "Strict readers show nothing, others wrong letters. Texts of several sources were put together as bytes."
    reference = "XML 1.0, section 4.3.3"


class ENCODING_UNKNOWN(Note):
    level = Level.BAD
    category = Category.FORMAT
    summary = "The document names an unknown encoding, `%(encoding)s`."
    advice = "Write it in UTF-8, and say so."
    reference = "XML 1.0, section 4.3.3"


class NOT_IN_UTF_8(Note):
    level = Level.INFO
    category = Category.FORMAT
    summary = "It is in %(encoding)s, which not every reader has to know."
    advice = "UTF-8 is what all understand, and the only encoding of JSON Feed."
    reference = "XML 1.0, section 2.2; RFC 8259, section 8.1"


def _check_version(channel: Channel, subject: str) -> Iterator[Note]:
    known = _KNOWN.get(channel.kind)
    if known is not None and channel.version not in known:
        if channel.version:
            yield VERSION_UNKNOWN(subject, format=_NAMES[channel.kind], version=channel.version)
        else:
            yield VERSION_UNSAID(subject, format=_NAMES[channel.kind])
    elif channel.kind is Kind.CDF or channel.version not in ("2.0", "1.0", "1.1") or name_of(channel).endswith("d 1.0"):
        yield FORMAT_OLD(subject, format=name_of(channel))


class VERSION_UNKNOWN(Note):
    level = Level.WARN
    category = Category.FORMAT
    summary = "There is no such version of %(format)s: %(version)s."
    advice = 'Say `version="2.0"` in RSS, and in JSON Feed the address of its version 1.1, to the letter.'
    reference = "RSS 2.0; JSON Feed 1.1, version"


class VERSION_UNSAID(Note):
    level = Level.WARN
    category = Category.FORMAT
    summary = "The feed does not say of which version of %(format)s it is."
    advice = """\
Strict readers do not know it for a feed. RSS says `version="2.0"` in its root element, Atom
`xmlns="http://www.w3.org/2005/Atom"`, and JSON Feed the address of its version 1.1."""
    reference = "RSS 2.0; RFC 4287, section 1.2; JSON Feed 1.1, version"


class FORMAT_OLD(Note):
    level = Level.INFO
    category = Category.FORMAT
    summary = "The format, %(format)s, has a successor."
    advice = (
        "It can be read, but cannot say all: guids, dates, self links, enclosures. Take RSS 2.0, Atom or JSON Feed 1.1."
    )
    reference = "RSS 2.0; RFC 4287; JSON Feed 1.1"


class CHANNEL_INCOMPLETE(Note):
    level = Level.WARN
    category = Category.CONTENT
    summary = "The feed lacks what %(format)s requires of it: %(names)s."
    advice = "Readers show an address where a title should be, or refuse the feed."
    reference = "RSS 2.0, required channel elements; RFC 4287, section 4.1.1; Atom 0.3; JSON Feed 1.1, top-level"


class DOCUMENT_TYPE(Note):
    level = Level.INFO
    category = Category.FORMAT
    summary = "It has a document type (DOCTYPE)."
    advice = "Careful readers load none and expand no entities, so that `&nbsp;` and the like vanish. Write characters."
    reference = "XML 1.0, section 2.8; RSS 0.91"


def _check_rdf(document: Document, subject: str) -> Iterator[Note]:
    abouts = [entry.about for entry in document.entries]
    if not all(abouts):
        yield RDF_WITHOUT_ABOUT(subject, count=sum(not about for about in abouts))
    elif set(abouts) != set(document.rdf_items):
        yield RDF_LIST_DISAGREES(subject, count=len(set(abouts) ^ set(document.rdf_items)))


class RDF_WITHOUT_ABOUT(Note):
    level = Level.WARN
    category = Category.FORMAT
    summary = "Items have no rdf:about: %(count)s."
    advice = "In RSS 1.0 it is what an item is called by; readers take it for its guid."
    reference = "RSS 1.0, section 5.5"


class RDF_LIST_DISAGREES(Note):
    level = Level.WARN
    category = Category.FORMAT
    summary = "The channel's list of items and the items are not the same: %(count)s stand in one of them only."
    advice = "Readers that understand RDF show the list's items in the list's order. Write both from one source."
    reference = "RSS 1.0, section 5.3.5"
