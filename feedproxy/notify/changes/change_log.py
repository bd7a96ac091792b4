"""The log of feed changes. It contains each change once.

The table `known` has the digest of each feed's content at its last recorded change. A feed that is evicted from the
store and fetched again with equal content is therefore not reported again. A change right before a crash is found at
the next start.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.content_digest import pending_hash
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.notify.delivery.delivery_queue import enqueue_for_subscribers, enqueue_in
from feedproxy.notify.notification_database import NotificationDatabase
from feedproxy.notify.notification_protocol import Change, DeliveryRequest
from feedproxy.store.resource import Resource

CHANNEL_NAME_MAX = 300
"""At most this many characters of a channel's title are stored."""
RETENTION: Seconds = 31 * 86_400
"""Seconds for which changes are stored: the archives reach back 31 days."""
CHANGES_MAX = 200_000
"""Maximum number of stored changes. The oldest changes are deleted first."""


class FeedSnapshot(Struct, frozen=True):
    """The state of a feed at one instant: the digest of its content, its name and its site."""

    target: str
    digest: str
    at: Instant
    name: str
    link: str
    is_new: bool
    """True for the first content of a feed. The first content is no change."""
    listed: bool


type ComputeDigest = Callable[[FeedSnapshot], Awaitable[FeedSnapshot | None]]
"""Function that returns the snapshot with a digest of the parsed feed, or None if the feed is no longer stored."""

type ExtraDeliveries = Callable[[Change], Iterable[DeliveryRequest]]
"""Function that returns the deliveries for a change to receivers without a subscription, such as ping sinks."""


def snapshot_of(resource: Resource, *, is_new: bool, listed: bool) -> FeedSnapshot | None:
    """Return the snapshot of a resource, or None if the resource is not a feed.

    The snapshot's instant `at` is that of the last observed change, or of the last fetch if there is none or if
    `is_new`. `listed` is true if the public lists of changes may name the feed.
    """
    channel = resource.channel
    if channel is None or not channel.content_digest:
        return None
    at = resource.changes[-1] if resource.changes and not is_new else resource.fetched
    name = " ".join(channel.title.split())[:CHANNEL_NAME_MAX] or urlsplit(resource.target).netloc
    link = channel.link if channel.link.startswith(("http://", "https://")) and not has_secret(channel.link) else ""
    return FeedSnapshot(resource.target, channel.content_digest, at, name, link, is_new, listed)


class ChangeLog:
    """The changes and known feeds in the database. Every method can raise StoreError."""

    def __init__(self, database: NotificationDatabase, compute_digest: ComputeDigest) -> None:
        self._database = database
        self._compute_digest = compute_digest

    async def record(
        self, snapshots: Sequence[FeedSnapshot], now: Instant, extra_deliveries: ExtraDeliveries
    ) -> list[Change]:
        """Record the snapshots that are changes, and enqueue their deliveries. Return the changes.

        The snapshot of a feed that was evicted from the store and fetched again has only a digest of the feed's bytes.
        If the database has a digest of the parsed content, the feed is parsed for comparison. If the feed has changed,
        the change is recorded in a second transaction.
        """

        def work(db: sqlite3.Connection) -> tuple[list[Change], list[FeedSnapshot]]:
            incomparable = [snapshot for snapshot in snapshots if _is_incomparable(db, snapshot)]
            comparable = (
                [snapshot for snapshot in snapshots if snapshot not in incomparable] if incomparable else snapshots
            )
            changes = list[Change]()
            for snapshot in comparable:
                change = _insert_change(db, snapshot)
                if change is not None:
                    changes.append(change)
                    if change.listed:
                        enqueue_for_subscribers(db, change, now)
                elif (change := _recorded_change(db, snapshot)) is None:
                    continue
                # Another process of this machine, which does not make these deliveries, may have recorded the change.
                enqueue_in(db, extra_deliveries(change), now)
            return changes, incomparable

        if not snapshots:
            return []
        changes, incomparable = await self._database.run(work)
        completed = [
            parsed for snapshot in incomparable if (parsed := await self._compute_digest(snapshot)) is not None
        ]
        return changes + await self.record(completed, now, extra_deliveries) if completed else changes

    async def unrecorded(self, snapshots: Sequence[FeedSnapshot]) -> list[FeedSnapshot]:
        """Return the snapshots with changes that the previous process has left unrecorded.

        A snapshot that is older than the recorded change is ignored: the previous process exited before the store had
        written the newer copy. A feed without a row in the table `known` has no subscribers: its snapshot is returned
        with `is_new` set.
        """

        def work(db: sqlite3.Connection) -> list[FeedSnapshot]:
            query = "SELECT at FROM known WHERE target = ?"
            rows = [(snapshot, db.execute(query, (snapshot.target,)).fetchone()) for snapshot in snapshots]
            return [
                replace(snapshot, is_new=row is None)
                for snapshot, row in rows
                if row is None or row["at"] < snapshot.at
            ]

        return await self._database.run(work) if snapshots else []

    async def between(self, begin: Instant, end: Instant, limit: int) -> list[Change]:
        """Return the changes of feeds that public lists may name, from `begin` until before `end`: at most `limit`,
        newest first."""
        query = "SELECT * FROM changes WHERE at >= ? AND at < ? AND listed ORDER BY at DESC, id DESC LIMIT ?"
        rows = await self._database.fetch(query, begin, end, limit)
        return [_read(row) for row in rows]

    async def last_number(self) -> int:
        """Return the serial number of the last change of a feed that public lists may name, or 0 if no such change is
        stored."""
        rows = await self._database.fetch("SELECT id FROM changes WHERE listed ORDER BY id DESC LIMIT 1")
        return rows[0]["id"] if rows else 0

    async def forget(self, targets: Iterable[str]) -> None:
        """Delete these targets from the table `known`, because the store no longer has them."""
        await self._database.run(
            lambda db: db.executemany("DELETE FROM known WHERE target = ?", [(target,) for target in targets])
        )

    async def known_targets(self, after: str, limit: int) -> list[str]:
        """Return at most `limit` targets of the table `known` that sort after `after`, in ascending order."""
        query = "SELECT target FROM known WHERE target > ? ORDER BY target LIMIT ?"
        rows = await self._database.fetch(query, after, limit)
        return [row["target"] for row in rows]

    async def trim(self, now: Instant) -> None:
        """Delete the changes that are older than RETENTION. If more than CHANGES_MAX remain, delete the oldest of them,
        too."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM changes WHERE at < ?", (now - RETENTION,))
            db.execute("DELETE FROM changes WHERE id <= (SELECT max(id) FROM changes) - ?", (CHANGES_MAX,))

        await self._database.run(work)


def host_and_path(url: str) -> str:
    """Return host and path of a normalised URL. The scheme is left out, because a ping can name http for a feed with
    https."""
    split = urlsplit(url)
    return f"{split.netloc}{split.path or '/'}"


def _is_incomparable(db: sqlite3.Connection, snapshot: FeedSnapshot) -> bool:
    if pending_hash(snapshot.digest) is None:
        return False
    row = db.execute("SELECT digest FROM known WHERE target = ?", (snapshot.target,)).fetchone()
    return row is not None and pending_hash(row["digest"]) is None


def _insert_change(db: sqlite3.Connection, snapshot: FeedSnapshot) -> Change | None:
    row = db.execute("SELECT digest FROM known WHERE target = ?", (snapshot.target,)).fetchone()
    if row is not None and row["digest"] == snapshot.digest:
        return None
    url = snapshot.link or site_url(snapshot.target)
    db.execute(
        "INSERT INTO known (target, digest, at, place, link, name) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (target)"
        " DO UPDATE SET digest = excluded.digest, at = excluded.at, link = excluded.link, name = excluded.name",
        (
            snapshot.target,
            snapshot.digest,
            snapshot.at,
            host_and_path(snapshot.target),
            host_and_path(snapshot.link).rstrip("/"),
            snapshot.name,
        ),
    )
    if row is None and snapshot.is_new:
        return None
    cursor = db.execute(
        "INSERT INTO changes (at, target, name, url, listed) VALUES (?, ?, ?, ?, ?)",
        (snapshot.at, snapshot.target, snapshot.name, url, snapshot.listed),
    )
    return Change(cursor.lastrowid or 0, snapshot.target, snapshot.name, url, snapshot.at, snapshot.listed)


def _recorded_change(db: sqlite3.Connection, snapshot: FeedSnapshot) -> Change | None:
    """Return the change that another process has recorded from an equal snapshot, or None if there is none."""
    query = "SELECT * FROM changes WHERE at = ? AND target = ?"
    row = db.execute(query, (snapshot.at, snapshot.target)).fetchone() if not snapshot.is_new else None
    return _read(row) if row is not None else None


def site_url(target: str) -> str:
    """Return the URL of the home page of a target's host."""
    split = urlsplit(target)
    return f"{split.scheme}://{split.netloc}/"


def _read(row: sqlite3.Row) -> Change:
    return Change(row["id"], row["target"], row["name"], row["url"], row["at"], bool(row["listed"]))
