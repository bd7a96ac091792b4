"""Imported feeds: the stored imports, and the fetches of their feeds.

Imported feeds are fetched in the background, one at a time for each site. The refresh schedule counts an import as one
request by a reader (proxy/scheduled_refreshes.py).
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.feed.opml import Subscription
from feedproxy.feed_rules import BLOCKED
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.proxy.service import Service
from feedproxy.request.upstream_and_public_urls import is_upstream_target
from feedproxy.settings import Settings
from feedproxy.store.interface import Store

logger = logging.getLogger(__name__)

IMPORTED = "office-list"
"""Name under which the store has the imports."""

STATE_CHECK_INTERVAL: Seconds = 1.0
"""Seconds between two reads of the stored lists of imported feeds, which another process might have changed."""

CONCURRENT_SITES_MAX = 4
"""Imported feeds are fetched from at most this many sites concurrently."""


class Imported(Struct, frozen=True):
    """All imports as they are stored: a title, the feeds, the instant of each import, and the hosts with decrypted
    TLS."""

    title: str = ""
    feeds: tuple[Subscription, ...] = ()
    since: Mapping[str, Instant] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()


class ImportedFeeds:
    """The imports of all processes that share a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.stored_form: bytes | None = None
        """The stored form of the imports, or None if there are no imports."""
        self._imported = Imported()
        self._checked_at = -math.inf
        self._reloading: asyncio.Task[None] | None = None

    @property
    def current(self) -> Imported:
        """Return the imports as they were last read. The first call reads them. If the last read is at least
        STATE_CHECK_INTERVAL seconds old, start another read in the background."""
        if self._checked_at == -math.inf:
            self.reload()
        elif time.monotonic() - self._checked_at >= STATE_CHECK_INTERVAL:
            self._checked_at = time.monotonic()
            self._reloading = asyncio.ensure_future(self.reload_in_background())
        return self._imported

    def count_since(self, target: str, since: Instant) -> int:
        """Return 1 if the feed was imported at the instant `since` or later, otherwise 0."""
        imported = self.current.since.get(target)
        return int(imported is not None and imported >= since)

    def reload(self) -> Imported:
        """Read the imports from the store and return them."""
        return self._use(self._store.get_state(IMPORTED))

    async def reload_in_background(self) -> None:
        """Read the imports from the store without waiting for the disk in the event loop."""
        self._use(await self._store.read_state(IMPORTED))

    def _use(self, raw: bytes | None) -> Imported:
        self._checked_at = time.monotonic()
        if raw != self.stored_form:
            self.stored_form, self._imported = raw, _decode_imported(raw)
        return self._imported

    async def save(self, imported: Imported) -> None:
        """Write the imports to the store. Raises StoreError if the store fails."""
        raw = _encode_imported(imported)
        await self._store.put_state(IMPORTED, raw)
        self.stored_form, self._imported = raw, imported


async def fetch_missing(
    imports: ImportedFeeds, service: Service, clock: Clock, settings_for: Callable[[str], Settings]
) -> None:
    """Fetch the imported feeds that are not stored, one at a time for each site."""
    sites: dict[str, list[str]] = {}
    async for feed in iterate_cooperatively(imports.current.feeds):
        if service.store.peek(feed.address) is None and _is_reachable(feed.address, settings_for(feed.address)):
            sites.setdefault(site_of(feed.address), []).append(feed.address)
    gate = asyncio.Semaphore(CONCURRENT_SITES_MAX)

    async def one(targets: Iterable[str]) -> None:
        async with gate:
            for target in targets:
                await _fetch(target, service, clock)

    await asyncio.gather(*(one(targets) for targets in sites.values()))


async def _fetch(target: str, service: Service, clock: Clock) -> None:
    try:
        while service.store.peek(target) is None:
            deferred = service.admin.deferral(target)
            if deferred is None:
                await service.admin.refresh(target)
                return
            await clock.sleep(max(0.01, deferred.until - clock.now()))
    except Exception:
        logger.exception(
            "feed list: fetch of the imported feed %s failed by a defect of feedproxy; the feed is fetched when a"
            " reader requests it; please report the traceback",
            redact_target(target),
        )


def _is_reachable(target: str, settings: Settings) -> bool:
    """Return True if a target may be fetched: it is not blocked and, in reverse mode, is at the origin of
    `upstream`."""
    return settings.readers != BLOCKED and (not settings.upstream or is_upstream_target(target, settings))


def _encode_imported(imported: Imported) -> bytes:
    feeds = [
        [feed.address, feed.title, feed.page, list(feed.folder), imported.since[feed.address]]
        for feed in imported.feeds
    ]
    state = {"version": 1, "title": imported.title, "feeds": feeds, "hosts": sorted(imported.hosts)}
    return json.dumps(state).encode()


def _decode_imported(raw: bytes | None) -> Imported:
    """Return the imports from their stored form, or no imports if the form is invalid."""
    try:
        state: Any = json.loads(raw) if raw else {}
        feeds = [
            (Subscription(str(address), str(title), str(page), tuple(map(str, folder))), float(since))
            for address, title, page, folder, since in state.get("feeds", ())
        ]
        since = {feed.address: at for feed, at in feeds}
        hosts = frozenset(map(str, state.get("hosts", ())))
        return Imported(str(state.get("title", "")), tuple(feed for feed, _ in feeds), since, hosts)
    except (ValueError, TypeError, AttributeError) as error:
        logger.warning("feed list: stored list %r is unreadable, so no feed counts as imported: %s", IMPORTED, error)
        return Imported()
