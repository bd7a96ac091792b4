"""The log of the changes of feeds, which contains each change once. The lists of changes are made from the log.

The table `known` contains the digest of each feed's content at its last recorded change. Content with another digest is
a change. A feed that the store evicted and fetched again is therefore not reported twice. A change right before a crash
is found at the next start.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.content_digest import pending_hash
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.notify.delivery.delivery_queue import enqueue_for_subscribers, enqueue_in
from feedproxy.notify.notification_database import NotificationDatabase
from feedproxy.notify.notification_protocol import Change, DeliveryRequest
from feedproxy.store.resource import Resource

CHANNEL_NAME_MAX = 300
"""Maximum number of characters that are stored of a channel's title."""
RETENTION: Seconds = 31 * 86_400
"""Seconds for which changes are stored: the archives reach back 31 days."""
CHANGES_MAX = 200_000
"""Maximum number of stored changes. The oldest changes are deleted first."""
SITE_FEEDS_MAX = 50
"""Maximum number of feeds that one ping of a site refreshes."""


@dataclass(frozen=True, slots=True)
class FeedSnapshot:
    """The state of a feed at one instant, as the log records it: the digest of its content, its name and its site."""

    target: str
    digest: str
    at: Instant
    name: str
    link: str
    is_new: bool
    """True if the feed was unknown before, so that its first content is no change."""
    listed: bool


type ComputeDigest = Callable[[FeedSnapshot], Awaitable[FeedSnapshot | None]]
"""Function that returns a copy of its argument with a digest of the parsed feed, or None if the feed is no longer
stored."""

type ExtraDeliveries = Callable[[Change], Iterable[DeliveryRequest]]
"""Function that returns the deliveries for a change that go to other receivers than subscribers, such as ping sinks."""


def snapshot_of(resource: Resource, *, is_new: bool, listed: bool) -> FeedSnapshot | None:
    """Return the snapshot of a resource, or None if the resource is not a feed.

    The snapshot has the instant of the last observed change. No change of a new feed was observed: the instants in its
    resource are dates of its entries. The snapshot of a new feed therefore has the instant of the first fetch.
    """
    channel = resource.channel
    if channel is None or not channel.content_digest:
        return None
    at = resource.changes[-1] if resource.changes and not is_new else resource.fetched
    name = " ".join(channel.title.split())[:CHANNEL_NAME_MAX] or urlsplit(resource.target).netloc
    link = channel.link if channel.link.startswith(("http://", "https://")) and not has_secret(channel.link) else ""
    return FeedSnapshot(resource.target, channel.content_digest, at, name, link, is_new, listed)


class ChangeLog:
    """The changes and known feeds in the database. Every method raises StoreError."""

    def __init__(self, database: NotificationDatabase, compute_digest: ComputeDigest) -> None:
        self._database = database
        self._compute_digest = compute_digest

    async def record(
        self, snapshots: Sequence[FeedSnapshot], now: Instant, extra_deliveries: ExtraDeliveries
    ) -> list[Change]:
        """Record the snapshots that are changes, and enqueue their deliveries, in one transaction. Return the changes.

        A feed that was evicted and fetched again has a digest of its bytes. If the database contains a digest of its
        parsed content, the two digests cannot be compared. The snapshot then gets a digest of the parsed content, and
        is recorded in a second transaction.
        """

        def work(db: sqlite3.Connection) -> tuple[list[Change], list[FeedSnapshot]]:
            incomparable = [snapshot for snapshot in snapshots if _is_incomparable(db, snapshot)]
            comparable = (
                [snapshot for snapshot in snapshots if snapshot not in incomparable] if incomparable else snapshots
            )
            changes = [change for snapshot in comparable if (change := _insert_change(db, snapshot)) is not None]
            for change in changes:
                if change.listed:
                    enqueue_for_subscribers(db, change, now)
                enqueue_in(db, extra_deliveries(change), now)
            return changes, incomparable

        changes, incomparable = await self._database.run(work)
        completed = [
            parsed for snapshot in incomparable if (parsed := await self._compute_digest(snapshot)) is not None
        ]
        return changes + await self.record(completed, now, extra_deliveries) if completed else changes

    async def reconcile(
        self, snapshots: Sequence[FeedSnapshot], now: Instant, extra_deliveries: ExtraDeliveries
    ) -> list[Change]:
        """Record at the start the changes that the previous process had not recorded. Return the changes.

        A stored copy that is older than the recorded change is no change: the previous process ended before the store
        had written the newer copy.
        """

        def work(db: sqlite3.Connection) -> list[FeedSnapshot]:
            recorded = {}
            for snapshot in snapshots:
                row = db.execute("SELECT digest, at FROM known WHERE target = ?", (snapshot.target,)).fetchone()
                recorded[snapshot.target] = row
            return [
                snapshot
                for snapshot in snapshots
                if (row := recorded[snapshot.target]) is None or row["at"] < snapshot.at
            ]

        unrecorded = await self._database.run(work)
        # A feed without a row has no subscribers.
        as_new = [replace(snapshot, is_new=True) for snapshot in unrecorded]
        return await self.record(as_new, now, extra_deliveries)

    async def between(self, begin: Instant, end: Instant, limit: int) -> list[Change]:
        """Return at most `limit` changes of listed feeds in [begin, end), newest first."""
        rows = await self._database.run(
            lambda db: db.execute(
                "SELECT * FROM changes WHERE at >= ? AND at < ? AND listed ORDER BY at DESC, id DESC LIMIT ?",
                (begin, end, limit),
            ).fetchall()
        )
        return [_read(row) for row in rows]

    async def last_number(self) -> int:
        """Return the number of the last change of a listed feed, or 0 without one. All changes are numbered from 1
        on."""
        query = "SELECT id FROM changes WHERE listed ORDER BY id DESC LIMIT 1"
        row = await self._database.run(lambda db: db.execute(query).fetchone())
        return row[0] if row is not None else 0

    async def feeds_of_site(self, url: str) -> list[str]:
        """Return at most SITE_FEEDS_MAX known feeds of a site, the last changed first.

        `url` is the site's normalised URL. A feed belongs to the site if its channel links to this URL, or if the
        address of the feed is below this URL.
        """
        site = host_and_path(url)
        folder = site if site.endswith("/") else site + "/"
        folder_end = folder[:-1] + "0"  # the first text that sorts after all paths below the folder: "0" follows "/"

        def work(db: sqlite3.Connection) -> list[str]:
            rows = db.execute(
                "SELECT target FROM known WHERE link = ? OR (place >= ? AND place < ?) ORDER BY at DESC LIMIT ?",
                (site.rstrip("/"), folder, folder_end, SITE_FEEDS_MAX),
            ).fetchall()
            return [row["target"] for row in rows]

        return await self._database.run(work)

    async def forget(self, targets: Iterable[str]) -> None:
        """Delete these targets from the table `known`, because the store no longer has them."""
        await self._database.run(
            lambda db: db.executemany("DELETE FROM known WHERE target = ?", [(target,) for target in targets])
        )

    async def known_targets(self, after: str, limit: int) -> list[str]:
        """Return the known targets that sort after the target `after`, in order, at most `limit`."""
        rows = await self._database.run(
            lambda db: db.execute(
                "SELECT target FROM known WHERE target > ? ORDER BY target LIMIT ?", (after, limit)
            ).fetchall()
        )
        return [row["target"] for row in rows]

    async def trim(self, now: Instant) -> None:
        """Delete the changes that are older than RETENTION, and the oldest changes if there are more than
        CHANGES_MAX."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM changes WHERE at < ?", (now - RETENTION,))
            db.execute("DELETE FROM changes WHERE id <= (SELECT max(id) FROM changes) - ?", (CHANGES_MAX,))

        await self._database.run(work)


def host_and_path(url: str) -> str:
    """Return host and path of a normalised URL. The scheme is ignored, because a ping may name http for a feed with
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


def site_url(target: str) -> str:
    """Return the URL of the home page of a target's host."""
    split = urlsplit(target)
    return f"{split.scheme}://{split.netloc}/"


def _read(row: sqlite3.Row) -> Change:
    return Change(row["id"], row["target"], row["name"], row["url"], row["at"], bool(row["listed"]))
