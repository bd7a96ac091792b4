"""The bell: somebody says that a feed or a site changed, and what we hold of it is fetched, once.

Whoever rings may lie, and nobody can tell. So ringing makes us do no more than a reader could: known feeds are asked
for as soon as their floor allows, once however often the bell rings, and strangers are written down, not fetched
(unless the operator wants that). Who rings too often is told so. What was accepted is an errand in the ledger.
"""

import asyncio
import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol as Shape

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.notify.change_log import ChangeLog
from feedproxy.notify.database import NotificationDatabase
from feedproxy.proxy.cache_admin import RefreshReport
from feedproxy.settings import Settings
from feedproxy.upstream.special_networks import client_network

logger = logging.getLogger(__name__)

CLIENTS_MAX = 10_000
"""Addresses that are counted: a flood from more of them forgets the ones that rang longest ago."""
UNKNOWN_SITES_MAX = 1_000
"""Unknown sites that are written down; the one that rang longest ago goes first."""
ALL_CLIENTS = ""
UNKNOWN_FETCHES_PER_MINUTE = 30
"""Unknown addresses fetched because somebody said so, of all sources together."""
MAX_CONCURRENT = 8
TRIES_MAX = 5
"""Of an errand whose origin fails; after that the next reader asks."""


class TooManyRequests(FeedproxyError):
    """Somebody rings more often than he may."""

    status_hint = 429
    detail = "too-often"


@dataclass(frozen=True, slots=True)
class UnknownSite:
    """A site that rang and is not known here."""

    url: str
    name: str
    first: Instant
    last: Instant
    count: int


class FeedRefresher(Shape):
    """What the bell asks of the service."""

    def next_allowed_fetch(self, target: str) -> Instant | None: ...

    async def refresh(self, target: str) -> RefreshReport: ...

    async def flush(self, target: str) -> None: ...

    def to_upstream_url(self, address: str) -> str: ...

    def is_feed(self, target: str) -> bool: ...

    async def feeds_named_by(self, target: str) -> list[str]: ...


class RateLimiter:
    """How often each address rings: so many times a minute, with as many at one go. (A bucket that fills steadily.)"""

    def __init__(self, capacity: int = CLIENTS_MAX) -> None:
        self._capacity = capacity
        self._tokens: OrderedDict[str, tuple[float, Instant]] = OrderedDict()

    def allow(self, address: str, now: Instant, per_minute: int) -> bool:
        """Whether this address may ring once more; 0 per minute is any number."""
        if per_minute <= 0:
            return True
        source = client_network(address)
        left, since = self._tokens.pop(source, (float(per_minute), now))
        left = min(float(per_minute), left + abs(now - since) * per_minute / 60)
        allowed = left >= 1
        self._tokens[source] = (left - 1 if allowed else left, now)
        if len(self._tokens) > self._capacity:
            self._tokens.popitem(last=False)
        return allowed


class RefreshRequests:
    """Hears pings and pushes, and runs the errands that come of them."""

    def __init__(
        self,
        database: NotificationDatabase,
        changes: ChangeLog,
        clock: Clock,
        service: FeedRefresher,
        settings: Callable[[], Settings],
        *,
        write_pending_changes: Callable[[], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._changes = changes
        self._clock = clock
        self._service = service
        self._settings = settings
        self._write_pending_changes = write_pending_changes
        self._wake = wake
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tests: set[str] = set()
        self._autodiscovered: OrderedDict[str, None] = OrderedDict()
        self.rate_limiter = RateLimiter()

    async def find_feeds(self, *addresses: str) -> list[str]:
        """The known feeds that these normalised addresses mean: feeds themselves, else all of their sites.

        Raises StoreError.
        """
        for address in addresses:
            if self._service.is_feed(target := self._service.to_upstream_url(address)):
                return [target]
        await self._write_pending_changes()  # a feed that was met a moment ago is known, too
        found: dict[str, None] = {}
        for address in addresses:
            for form in dict.fromkeys((address, self._service.to_upstream_url(address))):
                found.update(dict.fromkeys(await self._changes.feeds_of_site(form)))
        return [each for each in found if self._service.is_feed(each)]

    async def accept_ping(self, targets: Sequence[str], source: str) -> None:
        """These feeds have changed, says `source` (an address): they are fetched, and that is kept when it returns.

        Raises TooOften where the source rings more often than `source_limit` allows, StoreError.
        """
        if not self.rate_limiter.allow(source, self._clock.now(), self._settings().source_limit):
            raise TooManyRequests("too many pings come from your address; please try again in a minute")
        if targets:
            await self.enqueue(targets)

    async def enqueue(self, targets: Sequence[str], *, is_test: bool = False) -> None:
        """These are fetched as soon as may be, once; kept when it returns. Raises StoreError.

        A test call, which a cloud makes before it tells of changes, lets the next call wait for no `ping_interval`.
        """
        if is_test:
            self._tests.update(targets)
        else:
            self._tests.difference_update(targets)
        now, interval = self._clock.now(), self._settings().ping_interval

        def work(db: sqlite3.Connection) -> None:
            for target in targets:
                row = db.execute("SELECT at FROM rung WHERE target = ?", (target,)).fetchone()
                # A clock put back must not silence a feed.
                last = min(row["at"], now) if row is not None else 0.0
                due = max(now, last + interval)
                db.execute(
                    "INSERT INTO errands (target, due, tries, pings) VALUES (?, ?, 0, 1)"
                    " ON CONFLICT (target) DO UPDATE SET pings = pings + 1",
                    (target, due),
                )

        await self._database.run(work)
        self._wake()

    async def enqueue_unknown(self, address: str) -> None:
        """Fetch what is not known here, for the operator wants that: so many a minute, whoever rings."""
        if self.rate_limiter.allow(ALL_CLIENTS, self._clock.now(), UNKNOWN_FETCHES_PER_MINUTE):
            await self.enqueue([address])

    async def record_unknown_site(self, url: str, name: str) -> None:
        """A site rang that is not known here: it is written down."""
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
        """The unknown sites that rang last."""
        rows = await self._database.run(
            lambda db: db.execute("SELECT * FROM strangers ORDER BY last DESC LIMIT ?", (limit,)).fetchall()
        )
        return [UnknownSite(**{name: row[name] for name in row.keys()}) for row in rows]  # noqa: SIM118

    @property
    def running_count(self) -> int:
        """Errands being run now."""
        return len(self._running)

    async def start_due(self) -> None:
        """Begin the errands that are due. Raises StoreError."""
        now = self._clock.now()
        room = MAX_CONCURRENT - len(self._running)
        if room <= 0:
            return
        marks = ",".join("?" * len(self._running))
        rows = await self._database.run(
            lambda db: db.execute(
                f"SELECT * FROM errands WHERE due <= ? AND target NOT IN ({marks}) ORDER BY due LIMIT ?",  # noqa: S608
                (now, *self._running, room),
            ).fetchall()
        )
        for row in rows:
            target = row["target"]
            if (turn := self._service.next_allowed_fetch(target)) is not None:
                await self._postpone(target, turn, row["tries"])
            else:
                errand = self._run(target, row["tries"], row["pings"])
                self._running[target] = asyncio.ensure_future(errand)

    async def trim(self, now: Instant) -> None:
        """Forget when feeds were rung for that nobody has rung for lately."""
        before = now - max(86_400, self._settings().ping_interval)
        await self._database.run(lambda db: db.execute("DELETE FROM rung WHERE at < ?", (before,)))

    async def next_due(self) -> Instant | None:
        """When the next errand is due that is not under way."""
        marks = ",".join("?" * len(self._running))
        found: Instant | None = await self._database.run(
            lambda db: db.execute(
                f"SELECT min(due) FROM errands WHERE target NOT IN ({marks})",  # noqa: S608
                (*self._running,),
            ).fetchone()[0]
        )
        return found

    async def close(self) -> None:
        """Leave what is under way; it is run again at the next start."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, target: str, tries: int, pings: int) -> None:
        try:
            began, is_test = self._clock.now(), target in self._tests
            self._tests.discard(target)
            done = await self._service.refresh(target)
            if done.outcome == "failed" and tries + 1 < TRIES_MAX:
                await self._postpone(target, self._clock.now() + 60 * 2.0**tries, tries + 1)
            else:
                await self._service.flush(target)
                interval = 0 if is_test else self._settings().ping_interval
                await self._database.run(lambda db: _finish(db, target, pings, began, interval, is_test=is_test))
                await self._follow_autodiscovery(target)
        except FeedproxyError as error:
            logger.warning("a ping's refresh failed: %s", error)
            await self._clock.sleep(1)
        finally:
            self._running.pop(target, None)
            self._wake()

    async def _follow_autodiscovery(self, target: str) -> None:
        """Where a page was fetched since its feed is looked for: the first that it names is fetched.

        What a page has named is a feed or nothing: pages that name one another lead nowhere.
        """
        if self._settings().ping_unknown != "fetch" or self._service.is_feed(target) or target in self._autodiscovered:
            return
        for feed in (await self._service.feeds_named_by(target))[:1]:
            self._autodiscovered[feed] = None
            if len(self._autodiscovered) > UNKNOWN_SITES_MAX:
                self._autodiscovered.popitem(last=False)
            if not self._service.is_feed(feed):
                await self.enqueue_unknown(feed)

    async def _postpone(self, target: str, until: Instant, tries: int) -> None:
        await self._database.run(
            lambda db: db.execute("UPDATE errands SET due = ?, tries = ? WHERE target = ?", (until, tries, target))
        )


def _finish(
    db: sqlite3.Connection, target: str, pings: int, began: Instant, interval: Seconds, *, is_test: bool
) -> None:
    """The errand is done, but for who rang while it was under way: perhaps it came too early for his change."""
    db.execute("DELETE FROM errands WHERE target = ? AND pings = ?", (target, pings))
    db.execute(
        "UPDATE errands SET due = ?, tries = 0, pings = pings - ? WHERE target = ?", (began + interval, pings, target)
    )
    if not is_test:
        db.execute("INSERT OR REPLACE INTO rung (target, at) VALUES (?, ?)", (target, began))
