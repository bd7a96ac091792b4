"""Endpoints that list recent changes of public feeds, in the format of weblogs.com, version 2 (RSS Feed State).

Caches may store the lists. Times are relative to the beginning of the current minute, or to the latest change if that
is later. The bytes of a list therefore stay equal for up to a minute, so that conditional requests get a 304.
"""

import calendar
import hashlib
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from xml.sax.saxutils import quoteattr

from feedproxy.clock import HOUR, Instant, Seconds
from feedproxy.errors import BadTarget, NotFound
from feedproxy.feed.xml_well_formedness import valid_text
from feedproxy.http import generated_document, uri
from feedproxy.http.date import format_http_date
from feedproxy.http.etag import EntityTag
from feedproxy.http.message import Response
from feedproxy.notify.changes.change_log import RETENTION
from feedproxy.notify.notification_protocol import Change
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.topics import is_no_longer_public
from feedproxy.proxy.cors import with_cors_for_list
from feedproxy.request.endpoint_registry import Call
from feedproxy.request.upstream_and_public_urls import displayed_url

LONG_LIST: Seconds = 3 * 3600
"""Seconds that changes.xml covers: three hours."""
SHORT_LIST: Seconds = 300
"""Seconds that shortChanges.xml covers: five minutes."""
ENTRIES_MAX = 5_000
"""One document contains at most this many entries, the newest first. 5,000 entries take about 800 KB."""

_ARCHIVE = re.compile(r"(\d{4})/(\d{2})/(\d{2})/(\d{2})\.xml", re.ASCII)


class ChangeLists:
    """Handlers of changes.xml (the last three hours), shortChanges.xml (five minutes), and the hourly archives."""

    def __init__(self, service: NotificationService) -> None:
        self._service = service

    async def long(self, call: Call) -> Response:
        return await self._recent(call, LONG_LIST)

    async def short(self, call: Call) -> Response:
        return await self._recent(call, SHORT_LIST)

    async def archive(self, call: Call) -> Response:
        """Return the list of one hour (UTC), for the path `changes/YYYY/MM/DD/HH.xml`. Raises NotFound for an invalid,
        future or expired hour."""
        begin, now = parse_archive_hour(call.path.removeprefix("changes/")), self._service.clock.now()
        if begin is None or begin > now or begin + HOUR <= now - RETENTION:
            raise NotFound("no archive of that hour")
        changes = await self._changes(begin, begin + HOUR)
        modified = max((change.at for change in changes), default=begin)
        is_complete = begin + HOUR <= now
        return await self._respond(
            call,
            changes,
            updated=begin + HOUR,
            modified=modified,
            caching="max-age=3600" if is_complete else "no-cache",
        )

    async def _recent(self, call: Call, length: float) -> Response:
        now = self._service.clock.now()
        changes = await self._changes(now - length, now + 1)
        updated = reference_time(now, changes)
        return await self._respond(call, changes, updated=updated, modified=min(updated, now), caching="no-cache")

    async def _changes(self, begin: Instant, end: Instant) -> list[Change]:
        """Return at most ENTRIES_MAX changes from `begin` until before `end`, of feeds that public lists may name now.
        A feed can have become private since its change."""
        changes = await self._service.changes.between(begin, end, ENTRIES_MAX)
        public = [change for change in changes if not is_no_longer_public(self._service, change.target)]
        return [change for change in public if await self._service.is_listed(change.target)]

    async def _respond(
        self, call: Call, changes: list[Change], *, updated: Instant, modified: Instant, caching: str
    ) -> Response:
        settings = self._service.settings()
        displayed = partial(displayed_url, settings=settings, base=call.client.base)
        count = await self._service.changes.last_number()
        unit = uri.query_value(call.query, "when")
        if unit not in ("", "minutes", "seconds"):
            raise BadTarget(f"when={unit[:40]}: expected minutes or seconds")
        minutes = (unit or settings.changes_when) == "minutes"
        body = write_document(changes, displayed=displayed, updated=updated, count=count, minutes=minutes)
        tag = EntityTag(hashlib.blake2b(body, digest_size=12).hexdigest())
        # Caches may store the list and must validate it before each use, so that a change is visible at once.
        response = generated_document.respond(
            call.request, body, "application/xml; charset=utf-8", tag=tag, modified=modified, cache_control=caching
        )
        return with_cors_for_list(response, settings)


def reference_time(now: Instant, changes: Iterable[Change]) -> Instant:
    """Return the value of a list's attribute `updated`, in whole seconds: the beginning of the current minute. If one
    of the `changes` is later, return the instant of the latest change."""
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
    """Return the XML document with these changes. `displayed` returns the public address of a URL. `count` is the
    serial number of the last change, the value of the document's attribute `count`.

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
