"""The log of changes: what changed when, kept for the lists, and once only.

`known` has the digest of the content that was last told of each feed. A change is what differs from it, so nothing
is told twice when a store has forgotten a feed, and what changed right before a crash is found at the next start.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.content_digest import pending_hash
from feedproxy.http.redaction import has_secret
from feedproxy.notify.database import NotificationDatabase
from feedproxy.notify.delivery_queue import enqueue_for_subscribers, enqueue_in
from feedproxy.notify.protocol import Change, DeliveryRequest
from feedproxy.store.resource import Resource

CHANNEL_NAME_MAX = 300
RETENTION: Seconds = 31 * 86_400
"""The archives reach back a month."""
CHANGES_MAX = 200_000
SITE_FEEDS_MAX = 50
"""Feeds that one ping of a site refreshes."""


@dataclass(frozen=True, slots=True)
class FeedSnapshot:
    """A feed as it was seen when its content was read."""

    target: str
    digest: str
    at: Instant
    name: str
    link: str
    is_new: bool
    """It was not known before: that it is there is no change."""
    listed: bool


type ComputeDigest = Callable[[FeedSnapshot], Awaitable[FeedSnapshot | None]]
"""The same sight, going by what the feed says; None where its copy is gone, and nothing can be told any more."""

type ExtraDeliveries = Callable[[Change], Iterable[DeliveryRequest]]
"""What is to be sent for a change beside what subscriptions ask for."""


def snapshot_of(resource: Resource, *, is_new: bool, listed: bool) -> FeedSnapshot | None:
    """What the log needs to know of a resource; None for what is no feed.

    The changes of a feed that was just met are those it tells of itself: when it was met counts.
    """
    channel = resource.channel
    if channel is None or not channel.content_digest:
        return None
    at = resource.changes[-1] if resource.changes and not is_new else resource.fetched
    name = " ".join(channel.title.split())[:CHANNEL_NAME_MAX] or urlsplit(resource.target).netloc
    link = channel.link if channel.link.startswith(("http://", "https://")) and not has_secret(channel.link) else ""
    return FeedSnapshot(resource.target, channel.content_digest, at, name, link, is_new, listed)


class ChangeLog:
    """Changes and known feeds, in the ledger. Everything here raises StoreError."""

    def __init__(self, database: NotificationDatabase, compute_digest: ComputeDigest) -> None:
        self._database = database
        self._compute_digest = compute_digest

    async def record(
        self, snapshots: Sequence[FeedSnapshot], now: Instant, extra_deliveries: ExtraDeliveries
    ) -> list[Change]:
        """Log what has changed, and queue what is to be sent for it, in one transaction.

        In another one follows what cannot be told yet: a feed that the store has forgotten and met anew goes by its
        bytes, and the ledger by what these said.
        """

        def work(db: sqlite3.Connection) -> tuple[list[Change], list[FeedSnapshot]]:
            unclear = [each for each in snapshots if _is_incomparable(db, each)]
            clear = [each for each in snapshots if each not in unclear] if unclear else snapshots
            changes = [change for each in clear if (change := _insert_change(db, each)) is not None]
            for change in changes:
                if change.listed:
                    enqueue_for_subscribers(db, change, now)
                enqueue_in(db, extra_deliveries(change), now)
            return changes, unclear

        changes, unclear = await self._database.run(work)
        reckoned = [found for each in unclear if (found := await self._compute_digest(each)) is not None]
        return changes + await self.record(reckoned, now, extra_deliveries) if reckoned else changes

    async def reconcile(
        self, snapshots: Sequence[FeedSnapshot], now: Instant, extra_deliveries: ExtraDeliveries
    ) -> list[Change]:
        """At the start: what is held is known, and what changed and was not told is told now.

        A copy that is older than what was told (the store had not written the newer one yet) is no change.
        """

        def work(db: sqlite3.Connection) -> list[FeedSnapshot]:
            told = {}
            for each in snapshots:
                row = db.execute("SELECT digest, at FROM known WHERE target = ?", (each.target,)).fetchone()
                told[each.target] = row
            return [each for each in snapshots if (row := told[each.target]) is None or row["at"] < each.at]

        fresh = await self._database.run(work)
        known = [replace(each, is_new=True) for each in fresh]  # of what is in no row, nothing was promised
        return await self.record(known, now, extra_deliveries)

    async def between(self, begin: Instant, end: Instant, limit: int) -> list[Change]:
        """The listed changes in [begin, end), newest first, each feed as often as it changed."""
        rows = await self._database.run(
            lambda db: db.execute(
                "SELECT * FROM changes WHERE at >= ? AND at < ? AND listed ORDER BY at DESC, id DESC LIMIT ?",
                (begin, end, limit),
            ).fetchall()
        )
        return [_read(row) for row in rows]

    async def last_number(self) -> int:
        """The number of the last listed change; they are counted from the ledger's beginning."""
        asked = "SELECT id FROM changes WHERE listed ORDER BY id DESC LIMIT 1"
        row = await self._database.run(lambda db: db.execute(asked).fetchone())
        return row[0] if row is not None else 0

    async def feeds_of_site(self, url: str) -> list[str]:
        """The known feeds of a site, by its normalised address: those that link to it, and those that lie below it.

        SITE_MAX at most, those that changed last.
        """
        place = host_and_path(url)
        folder = place if place.endswith("/") else place + "/"
        behind = folder[:-1] + "0"  # what sorts right behind all that begins with the folder: "0" follows "/"

        def work(db: sqlite3.Connection) -> list[str]:
            rows = db.execute(
                "SELECT target FROM known WHERE link = ? OR (place >= ? AND place < ?) ORDER BY at DESC LIMIT ?",
                (place.rstrip("/"), folder, behind, SITE_FEEDS_MAX),
            ).fetchall()
            return [row["target"] for row in rows]

        return await self._database.run(work)

    async def forget(self, targets: Iterable[str]) -> None:
        """These are not held any more."""
        await self._database.run(
            lambda db: db.executemany("DELETE FROM known WHERE target = ?", [(each,) for each in targets])
        )

    async def known_targets(self, after: str, limit: int) -> list[str]:
        """The known targets behind this one, in order."""
        rows = await self._database.run(
            lambda db: db.execute(
                "SELECT target FROM known WHERE target > ? ORDER BY target LIMIT ?", (after, limit)
            ).fetchall()
        )
        return [row["target"] for row in rows]

    async def trim(self, now: Instant) -> None:
        """Drop what is too old, and what is too much."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM changes WHERE at < ?", (now - RETENTION,))
            db.execute("DELETE FROM changes WHERE id <= (SELECT max(id) FROM changes) - ?", (CHANGES_MAX,))

        await self._database.run(work)


def host_and_path(url: str) -> str:
    """Host and path of a normalised address: a site's ping may say http where the feed says https."""
    split = urlsplit(url)
    return f"{split.netloc}{split.path or '/'}"


def _is_incomparable(db: sqlite3.Connection, seen: FeedSnapshot) -> bool:
    if pending_hash(seen.digest) is None:
        return False
    row = db.execute("SELECT digest FROM known WHERE target = ?", (seen.target,)).fetchone()
    return row is not None and pending_hash(row["digest"]) is None


def _insert_change(db: sqlite3.Connection, seen: FeedSnapshot) -> Change | None:
    row = db.execute("SELECT digest FROM known WHERE target = ?", (seen.target,)).fetchone()
    if row is not None and row["digest"] == seen.digest:
        return None
    url = seen.link or site_url(seen.target)
    db.execute(
        "INSERT INTO known (target, digest, at, place, link, name) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (target)"
        " DO UPDATE SET digest = excluded.digest, at = excluded.at, link = excluded.link, name = excluded.name",
        (
            seen.target,
            seen.digest,
            seen.at,
            host_and_path(seen.target),
            host_and_path(seen.link).rstrip("/"),
            seen.name,
        ),
    )
    if row is None and seen.is_new:
        return None
    cursor = db.execute(
        "INSERT INTO changes (at, target, name, url, listed) VALUES (?, ?, ?, ?, ?)",
        (seen.at, seen.target, seen.name, url, seen.listed),
    )
    return Change(cursor.lastrowid or 0, seen.target, seen.name, url, seen.at, seen.listed)


def site_url(target: str) -> str:
    """The front page of a target's host."""
    split = urlsplit(target)
    return f"{split.scheme}://{split.netloc}/"


def _read(row: sqlite3.Row) -> Change:
    return Change(row["id"], row["target"], row["name"], row["url"], row["at"], bool(row["listed"]))
