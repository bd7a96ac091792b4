"""Checks of entries: identifiers, dates, texts, links, enclosures, and size."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from feedproxy.check.checked_document import CheckedDocument, CheckedEntry
from feedproxy.clock import Instant
from feedproxy.feed import feed_dates
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.feed_scheme import resolve_address
from feedproxy.http.date import WEEKDAYS
from feedproxy.notes import Category, Level, Note

LARGE_SIZE = 250_000
"""A feed of more than this many bytes, after decoding, counts as large. Nine of ten known feeds are smaller."""
MONTH = 30 * 86_400.0
"""An item is new until this many seconds after its publication."""
_CLOCK_TOLERANCE = 600.0
"""Maximum time, in seconds, by which the date of an item may be ahead of this machine's clock."""
_EXAMPLE_LENGTH_MAX = 120
"""Maximum number of characters of a text that a Note quotes."""

_HOUR_AND_MINUTE = r"(?:[01]\d|2[0-3]):\d\d"  # 24:00 is a form of ISO 8601 alone
_RFC_822 = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?:\d{4}|\d\d) "
    rf"{_HOUR_AND_MINUTE}(?::\d\d)? (?:[+-]\d{{4}}|GMT|UT|UTC|Z|[ECMP][SD]T)"
)
_RFC_3339 = re.compile(rf"\d{{4}}-\d\d-\d\d[Tt]{_HOUR_AND_MINUTE}:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")
_ATOM = re.compile(rf"\d{{4}}-\d\d-\d\dT{_HOUR_AND_MINUTE}:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
"""Pattern of a date in Atom. RFC 4287, section 3.3, requires a capital T, and a capital Z or an offset."""
_W3C = re.compile(rf"\d{{4}}(?:-\d\d(?:-\d\d(?:T{_HOUR_AND_MINUTE}(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?)?)?")
_RSS_DATES = frozenset({"pubDate", "lastBuildDate"})
_TAGS = re.compile(r"<(?:/?(?:b|i|em|strong|a|p|br|span|div|font|img|h[1-6]|code)\b|xhtml)", re.IGNORECASE)
_SCRIPT = re.compile(r"<script\b|<[^<>]*\son[a-z]+\s*=|javascript:", re.IGNORECASE)


def check(document: CheckedDocument, channel: Channel, now: Instant) -> Iterator[Note]:
    if channel.kind is Kind.CDF:
        return  # the items of this format have little more than an address
    entries = document.entries
    if entries:
        yield from _check_guids(entries, channel)
    else:
        yield NO_ENTRIES()
    yield from _check_dates(document, channel, now)
    yield from _check_texts(entries, channel.kind)
    yield from _check_links(entries, channel)
    if incomplete := [entry for entry in entries if entry.missing_attributes]:
        names = ", ".join(dict.fromkeys(name for entry in incomplete for name in entry.missing_attributes))
        yield ENCLOSURES_INCOMPLETE(count=len(incomplete), names=names)
    yield from _check_size(document, now)


class NO_ENTRIES(Note, level=Level.INFO, category=Category.CONTENT):
    summary = "The feed has no entries."
    advice = "A new feed may be empty. Otherwise, check whether the query that selects the entries still finds any."
    reference = "RSS 2.0, item"


def _has_guids(channel: Channel) -> bool:
    """Return True if the format has ids of items: RSS from version 0.94, and all other formats except RDF.

    RDF is left out, because other Notes cover rdf:about.
    """
    if channel.kind is Kind.RSS:
        return channel.version.startswith(("0.94", "2"))
    return channel.kind is not Kind.RDF


def _has_dates(channel: Channel) -> bool:
    """Return True if the format has dates of items: RSS from 0.93, RDF from 1.0, and all other formats."""
    if channel.kind in (Kind.RSS, Kind.RDF):
        return not channel.version.startswith(("0.90", "0.91", "0.92")) and channel.version != "0.9"
    return True


def _check_guids(entries: tuple[CheckedEntry, ...], channel: Channel) -> Iterator[Note]:
    missing = sum(not entry.id for entry in entries)
    duplicates = [guid for guid, count in Counter(entry.id for entry in entries if entry.id).items() if count > 1]
    if missing and _has_guids(channel):
        yield GUIDS_MISSING(count=missing, total=len(entries))
    if duplicates:
        yield GUIDS_DUPLICATE(count=len(duplicates), example=duplicates[0][:_EXAMPLE_LENGTH_MAX])
    invalid = [entry.id for entry in entries if entry.is_permalink and entry.id and not resolve_address("", entry.id)]
    if invalid:
        yield GUID_NOT_A_URL(count=len(invalid), example=invalid[0][:_EXAMPLE_LENGTH_MAX])
    if not missing and not duplicates:
        yield GUIDS_UNIQUE()


class GUIDS_UNIQUE(Note, level=Level.GOOD, category=Category.IDENTITY):
    summary = "Each entry has a unique guid."
    reference = "RSS 2.0, guid; RFC 4287, section 4.2.6"


class GUIDS_MISSING(Note, level=Level.WARN, category=Category.IDENTITY):
    summary = "Entries without guid (Atom: id): %(count)s of %(total)s."
    advice = "Readers identify such entries by link or title and show an entry as new when these change."
    reference = "RSS 2.0, guid; RFC 4287, section 4.1.2; JSON Feed 1.1, id"


class GUIDS_DUPLICATE(Note, level=Level.WARN, category=Category.IDENTITY):
    summary = "Guids that several entries have in common: %(count)s, such as `%(example)s`."
    advice = "Many readers show only one of these entries. A guid must belong to one entry permanently."
    reference = "RSS 2.0, guid; RFC 4287, section 4.1.2"


class GUID_NOT_A_URL(Note, level=Level.WARN, category=Category.IDENTITY):
    summary = "Guids that the feed declares as addresses, but that are not addresses: %(count)s, such as `%(example)s`."
    advice = 'Without `isPermaLink="false"`, readers can open the guid in a browser.'
    reference = "RSS 2.0, guid"


def check_stable_ids(first: CheckedDocument, second: CheckedDocument) -> Iterator[Note]:
    """Yield a Note if items with the same content have different ids in the documents of two responses."""
    ids = {_content_key(entry): entry.id for entry in first.entries if entry.id}
    changed = [
        (ids[_content_key(entry)], entry.id)
        for entry in second.entries
        if entry.id and ids.get(_content_key(entry), entry.id) != entry.id
    ]
    are_distinct = len({_content_key(entry) for entry in first.entries}) == len(first.entries)
    if changed and are_distinct:
        yield GUIDS_UNSTABLE(
            count=len(changed),
            first=changed[0][0][:_EXAMPLE_LENGTH_MAX],
            second=changed[0][1][:_EXAMPLE_LENGTH_MAX],
        )


def _content_key(entry: CheckedEntry) -> tuple[str, str, int | None]:
    return entry.title, entry.content[:200], entry.published


class GUIDS_UNSTABLE(Note, level=Level.BAD, category=Category.IDENTITY):
    summary = "Entries with a guid that changes with each request: %(count)s."
    advice = """\
    The guid was `%(first)s` in the first response and `%(second)s` in the second. Readers show all such entries as
    new in every poll. Create a guid once with the entry and store it with the entry."""
    reference = "RSS 2.0, guid; RFC 4287, section 4.2.6"


def _check_dates(document: CheckedDocument, channel: Channel, now: Instant) -> Iterator[Note]:
    entries = document.entries
    if not _has_dates(channel) and not any(entry.dates for entry in entries):
        return
    all_dates = [*document.dates, *(date for entry in entries for date in entry.dates)]
    undated = sum(not entry.dates for entry in entries)
    if undated:
        yield DATES_MISSING(count=undated, total=len(entries))
    unreadable = [date for date in all_dates if date.instant is None]
    if unreadable:
        yield DATE_INVALID(name=unreadable[0].name, text=unreadable[0].text, count=len(unreadable))
    malformed = [
        date
        for date in all_dates
        if date.instant is not None and not _is_well_formed_date(date.name, date.text, channel)
    ]
    if malformed:
        yield DATE_FORMAT_WRONG(name=malformed[0].name, text=malformed[0].text, count=len(malformed))
    wrong_days = [date for date in all_dates if date.name in _RSS_DATES and _has_wrong_weekday(date.text)]
    if wrong_days:
        yield DATE_WEEKDAY_WRONG(name=wrong_days[0].name, text=wrong_days[0].text, count=len(wrong_days))
    future = [date for date in all_dates if date.instant is not None and date.instant > now + _CLOCK_TOLERANCE]
    if future:
        yield DATE_IN_FUTURE(name=future[0].name, text=future[0].text, count=len(future))
    if entries and not undated and not unreadable and not future:
        yield DATES_COMPLETE()


def _is_well_formed_date(name: str, text: str, channel: Channel) -> bool:
    if name in _RSS_DATES:
        return _RFC_822.fullmatch(text) is not None
    # Atom 0.3 has the date forms of W3C's note. A day without an hour is one of these forms.
    if channel.kind in (Kind.ATOM, Kind.JSON) and channel.version != "0.3" and name != "date":
        return (_ATOM if channel.kind is Kind.ATOM else _RFC_3339).fullmatch(text) is not None
    return _W3C.fullmatch(text) is not None


def _has_wrong_weekday(text: str) -> bool:
    """Return True for a well-formed RSS date with a wrong day of the week."""
    if not _RFC_822.fullmatch(text) or "," not in text:
        return False
    weekday, _, day_and_time = text.partition(", ")
    # The day of the week is that of the date as written, whatever its zone is.
    instant = feed_dates.parse(" ".join(day_and_time.split(" ")[:3]))
    return instant is not None and not WEEKDAYS[datetime.fromtimestamp(instant, UTC).weekday()].startswith(weekday)


class DATES_COMPLETE(Note, level=Level.GOOD, category=Category.CONTENT):
    summary = "Each entry has a date."
    reference = "RSS 2.0, pubDate; RFC 4287, section 4.2.15"


class DATES_MISSING(Note, level=Level.INFO, category=Category.CONTENT):
    summary = "Entries without date: %(count)s of %(total)s."
    advice = """\
    Readers sort such entries by the time of the poll that found them, and cannot compute how often the feed changes."""
    reference = "RSS 2.0, pubDate; RFC 4287, section 4.1.2"


class DATE_INVALID(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "Invalid dates: %(count)s, such as `%(text)s` in %(name)s."
    advice = "In RSS write `Sat, 21 Nov 2026 08:00:00 GMT`, in Atom and JSON Feed `2026-11-21T08:00:00Z`."
    reference = "RSS 2.0, pubDate; RFC 822, section 5; RFC 3339, section 5.6"


class DATE_FORMAT_WRONG(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "Dates in another form than the format requires: %(count)s, such as `%(text)s` in %(name)s."
    advice = """\
    Lenient readers understand such a date. Other readers treat the entry as undated. In RSS write `Sat, 21 Nov 2026
    08:00:00 GMT`, in Atom and JSON Feed `2026-11-21T08:00:00Z`. Names of days and months are English in every
    language."""
    reference = "RSS 2.0, pubDate; RFC 822, section 5; RFC 4287, section 3.3"


class DATE_WEEKDAY_WRONG(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "Dates with a wrong day of the week: %(count)s, such as `%(text)s` in %(name)s."
    advice = """\
    Some parsers reject such a date, and the reader then treats the entry as undated. Let a library format the date, or
    omit the day of the week."""
    reference = "RSS 2.0, pubDate; RFC 5322, section 3.3"


class DATE_IN_FUTURE(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "Dates in the future: %(count)s, such as `%(text)s` in %(name)s."
    advice = """\
    Until that time, readers sort the entry above all others or hide it. Check whether the time zone is missing."""
    reference = "RSS 2.0, pubDate"


class ENCLOSURES_INCOMPLETE(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "Entries with incomplete enclosures: %(count)s. Missing attributes that RSS requires: %(names)s."
    advice = """\
    Readers need `url` to download the file, `type` to choose a player, and `length` to show the size. If the length
    is unknown, write `length="0"`."""
    reference = "RSS 2.0, enclosure"


def _check_texts(entries: tuple[CheckedEntry, ...], kind: Kind) -> Iterator[Note]:
    empty = sum(not entry.title and not entry.content.strip() for entry in entries)
    untitled = sum(not entry.title for entry in entries)
    if empty:
        yield ENTRIES_EMPTY(count=empty)
    elif untitled and kind is not Kind.JSON:
        yield TITLES_MISSING(count=untitled, total=len(entries))
    titles_with_markup = [entry.title for entry in entries if kind is Kind.RSS and _TAGS.search(entry.title)]
    if titles_with_markup:
        yield TITLE_WITH_MARKUP(count=len(titles_with_markup), example=titles_with_markup[0][:_EXAMPLE_LENGTH_MAX])
    with_scripts = sum(bool(_SCRIPT.search(entry.content)) for entry in entries)
    if with_scripts:
        yield SCRIPTS(count=with_scripts)


class ENTRIES_EMPTY(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "Entries with neither a title nor a text: %(count)s."
    advice = """\
    RSS requires a title or a description in each item. An entry with neither of them gives readers nothing to show."""
    reference = "RSS 2.0, item"


class TITLES_MISSING(Note, level=Level.INFO, category=Category.CONTENT):
    summary = "Entries without title: %(count)s of %(total)s."
    advice = "RSS allows such entries, and many readers show `(untitled)`. Atom requires a title in each entry."
    reference = "RSS 2.0, item; RFC 4287, section 4.1.2"


class TITLE_WITH_MARKUP(Note, level=Level.INFO, category=Category.CONTENT):
    summary = "Titles that contain HTML: %(count)s, such as `%(example)s`."
    advice = "RSS does not define whether titles are HTML, so some readers show the tags. Write plain text."
    reference = "RSS 2.0, title"


class SCRIPTS(Note, level=Level.WARN, category=Category.SECURITY):
    summary = "Entries with scripts in their texts: %(count)s."
    advice = """\
    Careful readers remove scripts, and some reject the entry. Use scripts only in the page of the entry."""
    reference = "RFC 4287, section 8.1"


def _check_links(entries: tuple[CheckedEntry, ...], channel: Channel) -> Iterator[Note]:
    relative = [link for link in (channel.link, *(entry.link for entry in entries)) if link and not _has_scheme(link)]
    if relative and channel.kind is not Kind.ATOM:  # in Atom, relative links are resolved (xml:base)
        yield LINKS_RELATIVE(count=len(relative), example=relative[0][:_EXAMPLE_LENGTH_MAX])
    missing = sum(not entry.link and not entry.is_permalink for entry in entries)
    if missing and channel.kind is not Kind.ATOM:  # an Atom entry that contains its content needs no alternate link
        yield LINKS_MISSING(count=missing, total=len(entries))


class LINKS_RELATIVE(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "Relative links: %(count)s, such as `%(example)s`."
    advice = """\
    RSS does not define the base of relative links, so readers resolve them differently. Write absolute addresses."""
    reference = "RSS 2.0, elements that are URLs"


class LINKS_MISSING(Note, level=Level.INFO, category=Category.CONTENT):
    summary = "Entries without link: %(count)s of %(total)s."
    advice = "People cannot open, bookmark or share an entry without an address."
    reference = "RSS 2.0, item"


def _check_size(document: CheckedDocument, now: Instant) -> Iterator[Note]:
    size, count = len(document.body), len(document.entries)
    if size <= LARGE_SIZE or not count:
        return
    published = [entry.published for entry in document.entries if entry.published is not None]
    new = sum(instant > now - MONTH for instant in published)
    if len(published) == count and 10 * new < count:
        yield MOSTLY_OLD_ENTRIES(size=f"{size // 1000} kB", new=new, total=count)
    else:
        yield FEED_LARGE(size=f"{size // 1000} kB", total=count)


class MOSTLY_OLD_ENTRIES(Note, level=Level.WARN, category=Category.CONTENT):
    summary = "Most of the %(size)s is old: only %(new)s of %(total)s entries are from the last month."
    advice = """\
    When an entry is added, every reader gets all other entries again. Send only the newest entries, link to archive
    documents for the rest, and answer `A-IM: feed` with the new entries only."""
    reference = "RFC 5005, section 4; RFC 3229, section 5.2"


class FEED_LARGE(Note, level=Level.INFO, category=Category.CONTENT):
    summary = "The feed is large: %(size)s, %(total)s entries."
    advice = """\
    When an entry is added, every reader gets the whole feed again. Send fewer entries, or answer `A-IM: feed` with
    the new entries only."""
    reference = "RFC 5005, section 4; RFC 3229, section 5.2"


def _has_scheme(text: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", text) is not None
