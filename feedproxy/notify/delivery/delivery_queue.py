"""The queue of deliveries: durable, and fair to sites.

A delivery stays in the queue until its outcome is recorded, and is sent again after a crash. Only the process that
holds the database's lock sends deliveries.
"""

import sqlite3
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.notify.notification_database import NotificationDatabase
from feedproxy.notify.notification_protocol import (
    Change,
    Delivered,
    Delivery,
    DeliveryRequest,
    Refused,
    Verdict,
)
from feedproxy.notify.subscription_table import callback_site, record_attempt, remove_in


class DeliveryOutcome(Struct, frozen=True):
    """The outcome of one attempt at a delivery."""

    delivery: Delivery
    verdict: Verdict
    """Verdict on the attempt. It is also `Refused` if the last attempt of a delivery has failed."""
    started: Instant
    """Instant at which the attempt began. If a push has set the `note` of the subscription since then, the note of the
    push is kept."""
    at: Instant
    next_try: Instant | None
    """Instant of the next attempt, or None if the delivery has ended."""


class DeliveryQueue:
    """The unfinished deliveries in the database. Every method can raise StoreError."""

    def __init__(self, database: NotificationDatabase) -> None:
        self._database = database

    async def add(self, *requests: DeliveryRequest, now: Instant) -> None:
        """Enqueue deliveries. They are durable when the call returns."""
        await self._database.run(lambda db: enqueue_in(db, requests, now))

    async def due(
        self,
        now: Instant,
        *,
        limit: int,
        exclude_ids: Collection[int] = (),
        exclude_hosts: Collection[str] = (),
        exclude_what: Collection[str] = (),
    ) -> list[Delivery]:
        """Return at most `limit` due deliveries, the longest due first. Omit deliveries with an excluded id, host or
        kind."""
        ids, hosts, kinds = (",".join("?" * len(values)) for values in (exclude_ids, exclude_hosts, exclude_what))
        excluded = f"id NOT IN ({ids}) AND host NOT IN ({hosts}) AND what NOT IN ({kinds})"
        query = f"SELECT * FROM deliveries WHERE due <= ? AND {excluded} ORDER BY due, id LIMIT ?"  # noqa: S608
        rows = await self._database.fetch(query, now, *exclude_ids, *exclude_hosts, *exclude_what, limit)
        return [_read(row) for row in rows]

    async def record_outcomes(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Record these outcomes in one transaction."""

        def work(db: sqlite3.Connection) -> None:
            for outcome in outcomes:
                _record_outcome(db, outcome)

        await self._database.run(work)

    def next_due(self, db: sqlite3.Connection) -> Instant | None:
        """Return the instant at which the next delivery is due, or None if the queue is empty."""
        due: Instant | None = db.execute("SELECT min(due) FROM deliveries").fetchone()[0]
        return due

    async def count_waiting(self) -> dict[str, int]:
        """Return the number of waiting deliveries by protocol."""
        rows = await self._database.fetch("SELECT protocol, count(*) FROM deliveries GROUP BY protocol")
        return {row[0]: row[1] for row in rows}

    async def failing_deliveries(self, limit: int = 50) -> list[tuple[Delivery, Instant, str]]:
        """Return at most `limit` deliveries with failed attempts, most attempts first. Each delivery is followed by the
        instant of its next attempt, and the reason of its last failure."""
        query = "SELECT * FROM deliveries WHERE tries > 0 ORDER BY tries DESC, id LIMIT ?"
        rows = await self._database.fetch(query, limit)
        return [(_read(row), row["due"], row["note"]) for row in rows]

    async def drop(self, number: int) -> bool:
        """Delete the delivery with the id `number`. Return False if no delivery has this id."""
        return await self._database.execute("DELETE FROM deliveries WHERE id = ?", number) > 0


_INSERT = (
    "INSERT INTO deliveries"
    " (protocol, what, topic, callback, host, subscription, change, data, due, tries, since, note)"
)
_FROM_SUBSCRIPTIONS = (
    "SELECT protocol, 'notify', ?, callback, host, id, ?, '', ?, 0, ?, '' FROM subscriptions"
    " WHERE (topic = ? OR moved_from = ?) AND role = 'tell' AND state = 'active' AND expires > ?"
)
_ON_CONFLICT = (
    # A newer change replaces one that is still queued. The retries of the older one and their deadline continue.
    " ON CONFLICT (protocol, what, topic, callback) DO UPDATE SET change = excluded.change, data = excluded.data,"
    " subscription = excluded.subscription"
)


def enqueue_in(db: sqlite3.Connection, requests: Iterable[DeliveryRequest], now: Instant) -> None:
    """Enqueue deliveries within a transaction."""
    db.executemany(
        f"{_INSERT} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ''){_ON_CONFLICT}",
        [
            (
                *(
                    request.protocol,
                    request.what,
                    request.topic,
                    request.callback,
                    callback_site(request.callback),
                ),
                *(request.subscription, request.change, request.data, now, now),
            )
            for request in requests
        ],
    )


def enqueue_for_subscribers(db: sqlite3.Connection, change: Change, now: Instant) -> None:
    """Enqueue a delivery for each active subscription to the changed feed, including subscriptions to its former
    URL."""
    values = (change.target, change.number, now, now, change.target, change.target, now)
    db.execute(f"{_INSERT} {_FROM_SUBSCRIPTIONS}{_ON_CONFLICT}", values)


def _record_outcome(db: sqlite3.Connection, outcome: DeliveryOutcome) -> None:
    delivery, request = outcome.delivery, outcome.delivery.request
    reason = outcome.verdict.reason[:300]
    if request.subscription is not None:
        success = isinstance(outcome.verdict, Delivered)
        record_attempt(db, request.subscription, outcome.at, reason, success=success, started=outcome.started)
    if outcome.next_try is not None:
        db.execute(
            "UPDATE deliveries SET due = ?, tries = tries + 1, note = ? WHERE id = ?",
            (outcome.next_try, reason, delivery.id),
        )
        return
    # A request that replaced this one during the attempt has not been sent: it stays, and its retries begin anew.
    db.execute(
        "UPDATE deliveries SET due = ?, since = ?, tries = 0, note = '' WHERE id = ? AND (change <> ? OR data <> ?)",
        (outcome.at, outcome.at, delivery.id, request.change, request.data),
    )
    db.execute(
        "DELETE FROM deliveries WHERE id = ? AND change = ? AND data = ?",
        (delivery.id, request.change, request.data),
    )
    if isinstance(outcome.verdict, Refused) and outcome.verdict.remove and request.subscription is not None:
        remove_in(db, request.subscription)


def _read(row: sqlite3.Row) -> Delivery:
    request = DeliveryRequest(
        *(row["protocol"], row["what"], row["topic"], row["callback"], row["subscription"]), row["change"], row["data"]
    )
    return Delivery(row["id"], request, row["host"], row["tries"], row["since"])
