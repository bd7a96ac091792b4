"""Endpoints that list recent changes of public feeds. Caches may store the lists."""

import hashlib
from functools import partial

from feedproxy.clock import Instant
from feedproxy.errors import BadTarget, NotFound
from feedproxy.http import generated_document, uri
from feedproxy.http.etag import EntityTag
from feedproxy.http.message import Response
from feedproxy.notify.changes import changes_xml
from feedproxy.notify.changes.change_log import RETENTION
from feedproxy.notify.changes.changes_xml import ENTRIES_MAX, HOUR, LONG_LIST, SHORT_LIST
from feedproxy.notify.notification_protocol import Change
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.topics import is_no_longer_public
from feedproxy.proxy.cors import with_cors_for_list
from feedproxy.request.endpoint_registry import Call
from feedproxy.request.upstream_and_public_urls import displayed_url


class ChangeLists:
    """Handlers of changes.xml (the last three hours), shortChanges.xml (five minutes), and the hourly archives."""

    def __init__(self, service: NotificationService) -> None:
        self._service = service

    async def long(self, call: Call) -> Response:
        return await self._recent(call, LONG_LIST)

    async def short(self, call: Call) -> Response:
        return await self._recent(call, SHORT_LIST)

    async def archive(self, call: Call) -> Response:
        """Return the list of one hour (UTC), for the path `changes/YYYY/MM/DD/HH.xml`.

        Raises NotFound for an invalid, future or expired hour.
        """
        begin, now = changes_xml.parse_archive_hour(call.path.removeprefix("changes/")), self._service.clock.now()
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
        updated = changes_xml.reference_time(now, changes)
        return await self._respond(call, changes, updated=updated, modified=min(updated, now), caching="no-cache")

    async def _changes(self, begin: Instant, end: Instant) -> list[Change]:
        """Return the changes from `begin` until `end` of feeds that are public now.

        A feed may have become private since its change.
        """
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
        body = changes_xml.write_document(changes, displayed=displayed, updated=updated, count=count, minutes=minutes)
        tag = EntityTag(hashlib.blake2b(body, digest_size=12).hexdigest())
        # Caches may store the list and must validate it before each use, so that a change is visible at once.
        response = generated_document.respond(
            call.request, body, "application/xml; charset=utf-8", tag=tag, modified=modified, cache_control=caching
        )
        return with_cors_for_list(response, settings)
