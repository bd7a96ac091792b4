"""The queue of refresh requests from pings and pushes.

Pings are not authenticated, so they must cause no more requests to an origin than a feed reader does. A feed is fetched
once, as soon as its minimum interval allows, for any number of pings. Accepted requests are durable.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence

from msgspec import Struct

from feedproxy.background_work import cancel
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.lru_map import LRU
from feedproxy.notify.client_rate_limit import RateLimiter
from feedproxy.notify.notification_database import NotificationDatabase
from feedproxy.proxy.cache_admin import CacheAdmin
from feedproxy.settings import Settings

logger = logging.getLogger(__name__)

UNKNOWN_SITES_MAX = 1_000
"""Maximum number of recorded unknown sites. The site with the oldest last ping is removed first."""
ALL_CLIENTS = ""
"""Key under which the rate limiter counts the fetches for all clients together (UNKNOWN_FETCHES_PER_MINUTE)."""
UNKNOWN_FETCHES_PER_MINUTE = 30
"""Unknown URLs that clients name are fetched at most this many times per minute, for all clients together."""
MAX_CONCURRENT = 8
"""Maximum number of concurrent refreshes of this queue."""
TRIES_MAX = 5
"""While the origin fails, a request for a refresh is dropped after this many attempts."""


POSTPONE_MAX: Seconds = 3600
"""A deferred refresh is considered again after at most this many seconds. The reason for the deferral, such as a pause
by the operator, can have ended."""


class UnknownSite(Struct, frozen=True):
    """A site that pings have named, and of which no feed is stored."""

    url: str
    name: str
    first: Instant
    last: Instant
    count: int


class RefreshRequests:
    """The queue of refreshes that pings and pushes request."""

    def __init__(
        self,
        database: NotificationDatabase,
        clock: Clock,
        cache_admin: CacheAdmin,
        settings: Callable[[], Settings],
        *,
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._cache_admin = cache_admin
        self._settings = settings
        self._wake = wake
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tests: set[str] = set()
        self._autodiscovered: LRU[str, bool] = LRU(entries_max=UNKNOWN_SITES_MAX)
        self.rate_limiter = RateLimiter()

    async def accept_ping(self, targets: Sequence[str], source: str) -> None:
        """Enqueue refreshes of feeds that the client at the address `source` reports as changed.

        The requests are durable when the call returns. Raises TooManyRequests above `source_limit`, and StoreError if
        the database fails.
        """
        self.rate_limiter.check(source, self._clock.now(), self._settings().source_limit, "pings")
        if targets:
            await self.enqueue(targets)

    async def enqueue(self, targets: Sequence[str], *, is_test: bool = False) -> None:
        """Enqueue one refresh of each target. The requests are durable when the call returns. Raises StoreError if the
        database fails.

        `is_test` is True for the test notification by which a cloud verifies a callback. After such a refresh, the next
        request need not wait for `ping_interval`.
        """
        if is_test:
            self._tests.update(targets)
        else:
            self._tests.difference_update(targets)
        now, interval = self._clock.now(), self._settings().ping_interval

        def work(db: sqlite3.Connection) -> None:
            for target in targets:
                row = db.execute("SELECT at FROM rung WHERE target = ?", (target,)).fetchone()
                # An instant in the future was recorded before the clock was set back.
                last = min(row["at"], now) if row is not None else 0.0
                due = max(now, last + interval)
                db.execute(
                    "INSERT INTO errands (target, due, tries, pings) VALUES (?, ?, 0, 1)"
                    " ON CONFLICT (target) DO UPDATE SET pings = pings + 1, due = min(due, excluded.due)",
                    (target, due),
                )

        await self._database.run(work)
        self._wake()

    async def enqueue_unknown(self, address: str) -> None:
        """Enqueue the fetch of the unknown URL `address`. Above the limit UNKNOWN_FETCHES_PER_MINUTE, do nothing."""
        if self.rate_limiter.allow(ALL_CLIENTS, self._clock.now(), UNKNOWN_FETCHES_PER_MINUTE):
            await self.enqueue([address])

    async def record_unknown_site(self, url: str, name: str) -> None:
        """Record a ping of an unknown site."""
        now = self._clock.now()

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO strangers (url, name, first, last, count) VALUES (?, ?, ?, ?, 1) ON CONFLICT (url)"
                " DO UPDATE SET name = excluded.name, last = excluded.last, count = count + 1",
                (url, name, now, now),
            )
            db.execute(
                "DELETE FROM strangers WHERE url IN (SELECT url FROM strangers ORDER BY last DESC LIMIT -1 OFFSET ?)",
                (UNKNOWN_SITES_MAX,),
            )

        await self._database.run(work)

    async def unknown_sites(self, limit: int = 100) -> list[UnknownSite]:
        """Return at most `limit` unknown sites, the last pinged first."""
        rows = await self._database.fetch("SELECT * FROM strangers ORDER BY last DESC LIMIT ?", limit)
        return [UnknownSite(**{name: row[name] for name in row.keys()}) for row in rows]  # noqa: SIM118

    @property
    def running_count(self) -> int:
        return len(self._running)

    async def start_due(self) -> None:
        """Start the refreshes that are due. Raises StoreError if the database fails."""
        now = self._clock.now()
        capacity = MAX_CONCURRENT - len(self._running)
        if capacity <= 0:
            return
        marks = ",".join("?" * len(self._running))
        query = f"SELECT * FROM errands WHERE due <= ? AND target NOT IN ({marks}) ORDER BY due LIMIT ?"  # noqa: S608
        rows = await self._database.fetch(query, now, *self._running, capacity)
        for row in rows:
            target = row["target"]
            if (deferred := self._cache_admin.deferral(target)) is not None:
                await self._postpone(target, min(deferred.until, now + POSTPONE_MAX), row["tries"])
            else:
                refresh = self._run(target, row["tries"], row["pings"])
                self._running[target] = asyncio.ensure_future(refresh)

    async def trim(self, now: Instant) -> None:
        """Delete the recorded instants of refreshes that no longer delay a request."""
        before = now - max(86_400, self._settings().ping_interval)
        await self._database.execute("DELETE FROM rung WHERE at < ?", before)

    def next_due(self, db: sqlite3.Connection) -> Instant | None:
        """Return the earliest due time of the waiting requests, or None if no request waits."""
        running = tuple(self._running)  # the event loop may change the running refreshes at any time
        query = f"SELECT min(due) FROM errands WHERE target NOT IN ({','.join('?' * len(running))})"  # noqa: S608
        due: Instant | None = db.execute(query, running).fetchone()[0]
        return due

    async def close(self) -> None:
        await cancel(*self._running.values())

    async def _run(self, target: str, tries: int, pings: int) -> None:
        try:
            started, is_test = self._clock.now(), target in self._tests
            self._tests.discard(target)
            report = await self._cache_admin.refresh(target)
            if report.outcome == "failed" and tries + 1 < TRIES_MAX:
                await self._postpone(target, self._clock.now() + 60 * 2.0**tries, tries + 1)
            else:
                await self._cache_admin.flush(target)
                interval = 0 if is_test else self._settings().ping_interval
                await self._database.run(lambda db: _finish(db, target, pings, started, interval, is_test=is_test))
                await self._follow_autodiscovery(target)
        except FeedproxyError as error:
            logger.warning("notify: refresh of %s for a ping failed, trying again: %s", redact_target(target), error)
            await self._clock.sleep(1)
        finally:
            self._running.pop(target, None)
            self._wake()

    async def _follow_autodiscovery(self, target: str) -> None:
        """Enqueue the first feed that a page names, if `ping_unknown` permits to fetch unknown sites. The address of
        this feed is not searched in turn, so that pages that link to each other form no loop."""
        if (
            self._settings().ping_unknown != "fetch"
            or self._cache_admin.is_feed(target)
            or target in self._autodiscovered
        ):
            return
        for feed in (await self._cache_admin.feeds_named_by(target))[:1]:
            self._autodiscovered.put(feed, True)
            if not self._cache_admin.is_feed(feed):
                await self.enqueue_unknown(feed)

    async def _postpone(self, target: str, until: Instant, tries: int) -> None:
        await self._database.execute("UPDATE errands SET due = ?, tries = ? WHERE target = ?", until, tries, target)


def _finish(
    db: sqlite3.Connection, target: str, pings: int, started: Instant, interval: Seconds, *, is_test: bool
) -> None:
    """Delete the request for a refresh that began at `started`. If pings have arrived since then, postpone it instead.

    `pings` is the number of pings before the refresh. The postponed request is due `interval` seconds after `started`.
    After a test (`is_test`), the next request need not wait for this interval.
    """
    db.execute("DELETE FROM errands WHERE target = ? AND pings = ?", (target, pings))
    db.execute(
        "UPDATE errands SET due = ?, tries = 0, pings = pings - ? WHERE target = ?", (started + interval, pings, target)
    )
    if not is_test:
        db.execute("INSERT OR REPLACE INTO rung (target, at) VALUES (?, ?)", (target, started))
