"""Checks of the document: syntax, encoding, format and version, required elements, and RDF."""

from collections.abc import Iterator

from feedproxy.check.checked_document import CheckedDocument, XmlError
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.document_syntax import find_document_start
from feedproxy.feed.encoding_detection import declared_encoding
from feedproxy.feed.encoding_labels import codec_of
from feedproxy.notes import Category, Level, Note

_KNOWN = {
    Kind.RSS: ("0.91", "0.92", "0.93", "0.94", "2.0"),
    Kind.RDF: ("0.90", "0.9", "1.0", "1.1"),
    Kind.ATOM: ("0.3", "1.0"),
    Kind.JSON: ("1", "1.0", "1.1"),
}
_REQUIRED = {
    Kind.RSS: ("title", "link", "description"),
    Kind.RDF: ("title", "link", "description"),
    Kind.ATOM: ("id", "title", "updated"),
    Kind.JSON: ("version", "title"),
}


def check(document: CheckedDocument, channel: Channel) -> Iterator[Note]:
    yield from _check_syntax(document, channel)
    yield from _check_encoding(document, channel)
    yield from _check_version(channel)
    is_atom_03 = channel.kind is Kind.ATOM and channel.version == "0.3"
    required = ("title", "modified") if is_atom_03 else _REQUIRED.get(channel.kind, ())
    if missing := [name for name in required if not any(text.strip() for text in document.texts.get(name, ()))]:
        yield CHANNEL_INCOMPLETE(names=", ".join(missing), format=name_of(channel))
    if document.doctype:
        yield DOCUMENT_TYPE()
    if channel.kind is Kind.RDF and channel.version == "1.0":
        yield from _check_rdf(document)


def name_of(channel: Channel) -> str:
    """Return the name and version of a feed's format: `RSS 2.0`."""
    return f"{channel.kind.format_name} {channel.version}".rstrip()


def count_entries(entries: int) -> str:
    """Return the number with its noun: `1 entry`, `12 entries`."""
    return "1 entry" if entries == 1 else f"{entries} entries"


def _check_syntax(document: CheckedDocument, channel: Channel) -> Iterator[Note]:
    data = document.text.data
    start = 0 if channel.kind is Kind.JSON else (find_document_start(data) or 0)
    if start and (data.startswith(b"<?xml", start) or data[:start].strip()):
        yield CONTENT_BEFORE_FEED(size=start, detail="white space" if not data[:start].strip() else "something else")
    elif document.syntax_error is not None:
        yield ill_formed(document.syntax_error)
    elif not channel.well_formed and document.text.sound:
        yield RECOVERABLE_ERRORS()
    elif channel.well_formed:
        yield WELL_FORMED(format=name_of(channel), items=count_entries(channel.items))


def ill_formed(error: XmlError) -> Note:
    """Return the Note on the first syntax error of a document."""
    return ILL_FORMED(line=error.line, column=error.column, message=error.message)


class WELL_FORMED(Note, level=Level.GOOD, category=Category.FORMAT):
    summary = "The document is well-formed: %(format)s, with %(items)s."
    reference = "XML 1.0, section 2.1; RFC 8259"


class ILL_FORMED(Note, level=Level.BAD, category=Category.FORMAT):
    summary = "The document is ill-formed at line %(line)s, column %(column)s: %(message)s."
    advice = """\
    Strict readers reject the feed. The usual causes are an `&` that is not written as `&amp;`, HTML that is not
    escaped, and a character that XML does not allow. Write the feed with an XML library."""
    reference = "XML 1.0, section 2.1; RFC 8259"


class CONTENT_BEFORE_FEED(Note, level=Level.BAD, category=Category.FORMAT):
    summary = "%(size)s bytes precede the feed: %(detail)s."
    advice = """\
    XML allows nothing before its declaration, and strict readers reject the feed. In PHP the usual cause is an empty
    line before `<?php` or after `?>` in some file, or a printed warning: write warnings to a log."""
    reference = "XML 1.0, section 2.8"


class RECOVERABLE_ERRORS(Note, level=Level.BAD, category=Category.FORMAT):
    summary = "The document has errors, from which the parser of this check could recover."
    advice = """\
    Other parsers can reject the document, or read it differently. The usual causes are undeclared namespaces, very deep
    nesting and very long texts."""
    reference = "Namespaces in XML 1.0, section 6; XML 1.0, section 2.1"


def _check_encoding(document: CheckedDocument, channel: Channel) -> Iterator[Note]:
    encoding_name = None if channel.kind is Kind.JSON else declared_encoding(document.body)
    if encoding_name is not None and codec_of(encoding_name) is None:
        yield ENCODING_UNKNOWN(encoding=encoding_name)
    elif not document.text.sound:
        yield ENCODING_MISMATCH(encoding=encoding_name or "UTF-8")
    elif document.text.encoding not in ("utf_8", "ascii"):
        yield NOT_IN_UTF_8(encoding=encoding_name or document.text.encoding.replace("_", "-"))


class ENCODING_MISMATCH(Note, level=Level.BAD, category=Category.FORMAT):
    summary = "The document contains bytes that its encoding, %(encoding)s, does not allow."
    advice = """\
    Strict readers reject the feed, and others show wrong characters. Often texts from several sources were joined as
    bytes without conversion."""
    reference = "XML 1.0, section 4.3.3"


class ENCODING_UNKNOWN(Note, level=Level.BAD, category=Category.FORMAT):
    summary = "The document names an unknown encoding, `%(encoding)s`."
    advice = "Write the document in UTF-8 and declare UTF-8."
    reference = "XML 1.0, section 4.3.3"


class NOT_IN_UTF_8(Note, level=Level.INFO, category=Category.FORMAT):
    summary = "The encoding is %(encoding)s, which readers need not support."
    advice = "Use UTF-8: every reader supports it, and JSON Feed allows no other encoding."
    reference = "XML 1.0, section 2.2; RFC 8259, section 8.1"


def _check_version(channel: Channel) -> Iterator[Note]:
    versions = _KNOWN.get(channel.kind)
    if versions is not None and channel.version not in versions:
        if channel.version:
            yield VERSION_UNKNOWN(format=channel.kind.format_name, version=channel.version)
        else:
            yield VERSION_MISSING(format=channel.kind.format_name)
    elif channel.kind is Kind.CDF or channel.version not in ("2.0", "1.0", "1.1") or name_of(channel).endswith("d 1.0"):
        yield FORMAT_SUPERSEDED(format=name_of(channel))


class VERSION_UNKNOWN(Note, level=Level.WARN, category=Category.FORMAT):
    summary = "%(format)s has no version %(version)s."
    advice = 'In RSS write `version="2.0"`. In JSON Feed write exactly the address of version 1.1.'
    reference = "RSS 2.0; JSON Feed 1.1, version"


class VERSION_MISSING(Note, level=Level.WARN, category=Category.FORMAT):
    summary = "The feed does not state its version of %(format)s."
    advice = """\
    Strict readers do not recognise a feed without a version. RSS has `version="2.0"` in the root element, Atom
    `xmlns="http://www.w3.org/2005/Atom"`, and JSON Feed the member `version` with the address of version 1.1."""
    reference = "RSS 2.0; RFC 4287, section 1.2; JSON Feed 1.1, version"


class FORMAT_SUPERSEDED(Note, level=Level.INFO, category=Category.FORMAT):
    summary = "The format, %(format)s, has a successor."
    advice = """\
    Readers support this format, but it lacks elements for guids, dates, self links or enclosures. Use RSS 2.0, Atom
    or JSON Feed 1.1."""
    reference = "RSS 2.0; RFC 4287; JSON Feed 1.1"


class CHANNEL_INCOMPLETE(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "The feed lacks elements that %(format)s requires: %(names)s."
    advice = "Readers show an address instead of a title, or reject the feed."
    reference = "RSS 2.0, required channel elements; RFC 4287, section 4.1.1; Atom 0.3; JSON Feed 1.1, top-level"


class DOCUMENT_TYPE(Note, level=Level.INFO, category=Category.FORMAT):
    summary = "The document has a document type declaration (DOCTYPE)."
    advice = """\
    Careful readers neither load the declaration nor expand entities, so `&nbsp;` and similar entities disappear.
    Write the characters themselves."""
    reference = "XML 1.0, section 2.8; RSS 0.91"


def _check_rdf(document: CheckedDocument) -> Iterator[Note]:
    abouts = [entry.about for entry in document.entries]
    if not all(abouts):
        yield RDF_WITHOUT_ABOUT(count=sum(not about for about in abouts))
    elif set(abouts) != set(document.rdf_items):
        yield RDF_ITEM_LIST_MISMATCH(count=len(set(abouts) ^ set(document.rdf_items)))


class RDF_WITHOUT_ABOUT(Note, level=Level.WARN, category=Category.FORMAT):
    summary = "Items without rdf:about: %(count)s."
    advice = "In RSS 1.0, rdf:about identifies an item. Readers use it as the guid."
    reference = "RSS 1.0, section 5.5"


class RDF_ITEM_LIST_MISMATCH(Note, level=Level.WARN, category=Category.FORMAT):
    summary = "The channel's list of items is wrong. Items only in the list or only in the document: %(count)s."
    advice = """\
    Readers that understand RDF show the listed items in the order of the list. Generate list and
    items from one source."""
    reference = "RSS 1.0, section 5.3.5"
