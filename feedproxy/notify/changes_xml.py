"""changes.xml and its relatives: the log of changes as weblogs.com's format has it, version 2 (RSS Feed State).

A list is as of a minute: that in which it is asked for, or the newest change's moment where that is later. So it
stays the same for up to a minute, byte for byte, has validators that work, and shows a change at once.
"""

import calendar
import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import format_http_date
from feedproxy.notify.protocol import Change

LONG_LIST: Seconds = 3 * 3600
SHORT_LIST: Seconds = 300
HOUR: Seconds = 3600
ENTRIES_MAX = 5_000
"""Entries of one document, the newest: some 800 KB."""

_ARCHIVE = re.compile(r"(\d{4})/(\d{2})/(\d{2})/(\d{2})\.xml", re.ASCII)
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class WeblogEntry:
    """A `weblog` element; addresses as readers know them."""

    name: str
    url: str
    rss_url: str
    at: Instant


def reference_time(now: Instant, changes: Iterable[Change]) -> Instant:
    """What a list's `updated` and `when` are counted from: whole seconds."""
    newest = max((math.ceil(each.at) for each in changes), default=0)
    return float(max(now // 60 * 60, min(newest, math.ceil(now))))


def parse_archive_hour(path: str) -> Instant | None:
    """When the hour of an archive begins (`2007/01/01/01.xml` is the first of that day, `24` the last); None for none.

    "All pings received in the first hour of January 1st 2007 would be archived in the file …/2007/01/01/01.xml."
    """
    match = _ARCHIVE.fullmatch(path)
    if match is None:
        return None
    year, month, day, hour = map(int, match.groups())
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1] and 1 <= hour <= 24):
        return None
    return float(calendar.timegm((year, month, day, hour - 1, 0, 0)))


def write_document(entries: Iterable[WeblogEntry], *, updated: Instant, count: int, minutes: bool) -> bytes:
    """The document. `when` is counted back from `updated`, in minutes or in seconds, and never below 0."""
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<weblogUpdates version="2" updated="{format_http_date(updated)}" count="{count}">',
    ]
    for each in entries:
        ago = max(0, math.floor(updated - each.at))
        when = ago // 60 if minutes else ago
        named = (("name", each.name), ("url", each.url), ("rssUrl", each.rss_url))
        attributes = " ".join(f"{name}={quoteattr(_UNWRITABLE.sub('', value))}" for name, value in named)
        lines.append(f' <weblog {attributes} when="{when}"/>')
    return "\n".join([*lines, "</weblogUpdates>", ""]).encode()


def entity_tag(body: bytes) -> str:
    """A strong validator for these very bytes."""
    return f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
