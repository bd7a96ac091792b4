"""changes.xml and the other lists of changes, in the format of weblogs.com, version 2 (RSS Feed State).

Times are relative to the beginning of the current minute, or to the latest change if that is later. The bytes of a list
therefore stay equal for up to a minute, so that conditional requests get a 304.
"""

import calendar
import math
import re
from collections.abc import Callable, Iterable
from xml.sax.saxutils import quoteattr

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.xml_characters import valid_text
from feedproxy.http.date import format_http_date
from feedproxy.notify.notification_protocol import Change

LONG_LIST: Seconds = 3 * 3600
"""Seconds that changes.xml covers: three hours."""
SHORT_LIST: Seconds = 300
"""Seconds that shortChanges.xml covers: five minutes."""
HOUR: Seconds = 3600
ENTRIES_MAX = 5_000
"""One document contains at most this many entries, the newest first. 5,000 entries take about 800 KB."""

_ARCHIVE = re.compile(r"(\d{4})/(\d{2})/(\d{2})/(\d{2})\.xml", re.ASCII)


def reference_time(now: Instant, changes: Iterable[Change]) -> Instant:
    """Return the instant of a list's attribute `updated`, in whole seconds."""
    newest = max((math.ceil(change.at) for change in changes), default=0)
    return float(max(now // 60 * 60, min(newest, math.ceil(now))))


def parse_archive_hour(path: str) -> Instant | None:
    """Return the instant at which an archive's hour begins, or None if the path is invalid.

    `2007/01/01/01.xml` is the first hour of the day, and `24.xml` the last: "All pings received in the first hour of
    January 1st 2007 would be archived in the file …/2007/01/01/01.xml" (RSS Feed State).
    """
    match = _ARCHIVE.fullmatch(path)
    if match is None:
        return None
    year, month, day, hour = map(int, match.groups())
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1] and 1 <= hour <= 24):
        return None
    return float(calendar.timegm((year, month, day, hour - 1, 0, 0)))


def write_document(
    changes: Iterable[Change], *, displayed: Callable[[str], str], updated: Instant, count: int, minutes: bool
) -> bytes:
    """Return the document. `displayed` returns the public address of a URL. `count` is the value of the
    document's attribute of this name: the serial number of the last change.

    An entry's attribute `when` is its age at `updated`, in minutes, or in seconds if `minutes` is False.
    """
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<weblogUpdates version="2" updated="{format_http_date(updated)}" count="{count}">',
    ]
    for change in changes:
        seconds_ago = max(0, math.floor(updated - change.at))
        when = seconds_ago // 60 if minutes else seconds_ago
        values = (("name", change.name), ("url", displayed(change.url)), ("rssUrl", displayed(change.target)))
        attributes = " ".join(f"{name}={quoteattr(valid_text(value))}" for name, value in values)
        lines.append(f' <weblog {attributes} when="{when}"/>')
    return "\n".join([*lines, "</weblogUpdates>", ""]).encode()
