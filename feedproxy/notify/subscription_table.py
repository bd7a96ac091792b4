"""Subscriptions to feeds: of subscribers at feedproxy, and of feedproxy at other servers."""

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from feedproxy.client_network import client_network
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.http.uri import normalise, split_host_port
from feedproxy.notify.notification_database import NotificationDatabase

RENEWALS_MAX = 100
"""At most this many subscriptions are renewed at a time."""

CLOCK_TOLERANCE: Seconds = 60
"""A recorded instant may lie at most this many seconds in the future. A later instant was recorded with a wrong clock,
and does not count."""

RENEWAL_RETRY_DELAY: Seconds = 900
"""A failed renewal of a subscription is repeated after this many seconds, unless its protocol has set another
instant."""


class Role(StrEnum):
    """The role of the other party: a subscriber at feedproxy, or a publisher at which feedproxy subscribes."""

    SUBSCRIBER = "tell"  # has subscribed here and is notified
    PUBLISHER = "hear"  # this proxy has subscribed there, and receives notifications


class State(StrEnum):
    """The state of a subscription. Only active subscriptions are notified."""

    PENDING = "pending"  # not verified yet
    ACTIVE = "active"
    PAUSED = "paused"  # set by the operator


class SubscriptionsFull(FeedproxyError, status=503, detail="full"):
    """Error for a subscription above the maximum number."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription to the feed with the target URI `topic`. `callback` is the URL of the other party.

    `renew_at` is the instant at which feedproxy renews its own subscription. `data` contains further values of the
    protocol. The repr omits `secret`.
    """

    role: Role
    protocol: str
    topic: str
    callback: str
    expires: Instant
    state: State = State.PENDING
    since: Instant = 0.0
    renew_at: Instant | None = None
    secret: str = field(default="", repr=False)
    data: Mapping[str, str] = field(default_factory=dict)
    id: int = 0
    last_try: Instant | None = None
    last_success: Instant | None = None
    failures: int = 0
    """Number of consecutive failed deliveries."""
    note: str = ""
    """Reason of the last delivery's or push's outcome, for the operator."""
    moved_from: str = ""
    """The original topic of a feed that has moved to `topic`, or "" if the feed has not moved."""


class Subscriptions:
    """The subscriptions in the database. Every method can raise StoreError."""

    def __init__(self, database: NotificationDatabase, max_count: int) -> None:
        self._database = database
        self.max_count = max_count
        """Maximum number of clients' subscriptions of all protocols together. feedproxy's own subscriptions have the
        same maximum."""

    async def put(self, new: Subscription) -> Subscription:
        """Insert a subscription, or replace the subscription with the same role, protocol, topic and callback. Return
        the stored subscription.

        The new subscription keeps the id, the record of deliveries and any pause of the replaced subscription. Raises
        SubscriptionsFull if the table has no room for a further subscription.
        """
        return (await self.put_all([new]))[0]

    async def put_all(self, new: Sequence[Subscription], per_site: int = 0) -> list[Subscription]:
        """Insert or replace subscriptions of one callback, all or none, as `put` does. Return the stored subscriptions.

        `per_site` limits the subscriptions of one registrable domain; 0 means no limit. Raises SubscriptionsFull if the
        table or this limit has no room.
        """

        def work(db: sqlite3.Connection) -> list[Subscription]:
            keys = {
                (subscription.role, subscription.protocol, subscription.topic, subscription.callback)
                for subscription in new
            }
            added = sum(_find(db, *key) is None for key in keys)
            site, of_role = callback_site(new[0].callback), f"subscriptions WHERE role = '{new[0].role}'"
            if added and (
                _count(db, of_role) + added > self.max_count
                or (per_site and _count(db, of_role, site) + added > per_site)
            ):
                raise SubscriptionsFull("no more subscriptions are accepted at present")
            return [_put(db, subscription) for subscription in new]

        return await self._database.run(work)

    async def add_data(self, number: int, **data: str) -> None:
        """Add members to the `data` of the subscription with this id, if it exists."""

        def work(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT data FROM subscriptions WHERE id = ?", (number,)).fetchone()
            if row is not None:
                merged = json.dumps({**json.loads(row["data"]), **data})
                db.execute("UPDATE subscriptions SET data = ? WHERE id = ?", (merged, number))

        await self._database.run(work)

    async def check_capacity(self, protocol: str, topics: Iterable[str], callback: str, per_site: int) -> int:
        """Return the number of topics to which this callback has no subscription yet. Raises SubscriptionsFull if the
        table has no room for that many subscriptions. Pending verifications count as subscriptions.

        `per_site` limits the subscriptions of one registrable domain; 0 means no limit.
        """
        site = callback_site(callback)

        def work(db: sqlite3.Connection) -> int:
            added = sum(_find(db, Role.SUBSCRIBER, protocol, topic, callback) is None for topic in set(topics))
            tables = (_SUBSCRIBERS, "deliveries WHERE what = 'verify'")
            total, of_site = sum(_count(db, rows) for rows in tables), sum(_count(db, rows, site) for rows in tables)
            if added and (total + added > self.max_count or (per_site and of_site + added > per_site)):
                raise SubscriptionsFull("no more subscriptions are accepted at present")
            return added

        return await self._database.run(work)

    async def record_notification(self, number: int, now: Instant, reason: str, *, success: bool) -> None:
        """Record a push that feedproxy received for its own subscription with this number. `success` is false if the
        push was refused, for example for a wrong signature. `reason` says why."""
        await self._database.run(lambda db: record_attempt(db, number, now, reason[:300], success=success))

    async def get(self, number: int) -> Subscription | None:
        rows = await self._database.fetch("SELECT * FROM subscriptions WHERE id = ?", number)
        return _read(rows[0]) if rows else None

    async def find_current_or_moved(self, protocol: str, target: str, callback: str) -> Subscription | None:
        """Return the subscription of a client's `callback` to `target`. If there is none, but the feed has moved from
        `target`, return the callback's subscription to the moved feed. Otherwise return None."""
        query = (
            "SELECT * FROM subscriptions WHERE role = 'tell' AND protocol = ? AND moved_from = ? AND moved_from <> ''"
            " AND callback = ?"
        )

        def work(db: sqlite3.Connection) -> Subscription | None:
            if (current := _find(db, Role.SUBSCRIBER, protocol, target, callback)) is not None:
                return current
            row = db.execute(query, (protocol, target, callback)).fetchone()
            return _read(row) if row is not None else None

        return await self._database.run(work)

    async def all(
        self, *, role: Role | None = None, protocol: str = "", topic: str = "", after: int = 0, limit: int = 1000
    ) -> list[Subscription]:
        """Return at most `limit` matching subscriptions with ids above `after`, in order of id. Empty arguments match
        all."""
        query: dict[str, Any] = {"role": role, "protocol": protocol, "topic": topic}
        conditions = {name: value for name, value in query.items() if value}
        condition = " AND ".join(["id > ?", *(f"{name} = ?" for name in conditions)])
        statement = f"SELECT * FROM subscriptions WHERE {condition} ORDER BY id LIMIT ?"  # noqa: S608 -- fixed names
        rows = await self._database.fetch(statement, after, *conditions.values(), limit)
        return [_read(row) for row in rows]

    async def topics(self, role: Role, protocol: str) -> list[str]:
        query = "SELECT DISTINCT topic FROM subscriptions WHERE role = ? AND protocol = ?"
        rows = await self._database.fetch(query, role, protocol)
        return [row["topic"] for row in rows]

    async def moved_topics(self, protocol: str) -> list[str]:
        """Return the former topics of moved feeds, each once."""
        query = "SELECT DISTINCT moved_from FROM subscriptions WHERE moved_from <> '' AND protocol = ?"
        rows = await self._database.fetch(query, protocol)
        return [row["moved_from"] for row in rows]

    async def subscribed_topics(self, *, role: Role, protocol: str, among: Sequence[str]) -> set[str]:
        """Return the topics in `among` that have a subscription of this role and protocol."""
        query = "SELECT 1 FROM subscriptions WHERE topic = ? AND role = ? AND protocol = ?"

        def work(db: sqlite3.Connection) -> set[str]:
            return {topic for topic in among if db.execute(query, (topic, role, protocol)).fetchone() is not None}

        return await self._database.run(work) if among else set()

    async def move(self, protocol: str, topic: str, new_topic: str) -> None:
        """Move subscriptions from `topic` to `new_topic`, because the feed has moved.

        A moved subscription gets the notifications of both topics, and the table records its original topic. If a
        callback has subscriptions to both topics, the subscription to `topic` is removed. If `new_topic` equals
        `topic`, the feed is at this address again, and the subscriptions that were moved away return to it.
        """

        def work(db: sqlite3.Connection) -> None:
            key = (protocol, new_topic, topic)
            affected = "role = 'tell' AND protocol = ?1 AND topic <> ?2 AND (topic = ?3 OR moved_from = ?3)"
            previous = "CASE moved_from WHEN '' THEN topic WHEN ?2 THEN '' ELSE moved_from END"
            update = f"UPDATE OR IGNORE subscriptions SET topic = ?2, moved_from = {previous} WHERE {affected}"  # noqa: S608
            db.execute(update, key)
            for row in db.execute(f"SELECT id FROM subscriptions WHERE {affected}", key).fetchall():  # noqa: S608
                remove_in(db, row["id"])

        await self._database.run(work)

    async def count(self) -> dict[tuple[str, str, str], int]:
        query = "SELECT role, protocol, state, count(*) FROM subscriptions GROUP BY role, protocol, state"
        rows = await self._database.fetch(query)
        return {(row[0], row[1], row[2]): row[3] for row in rows}

    async def pause(self, number: int) -> bool:
        """Pause a subscription. Return False if there is no active subscription with this id."""
        return await self._change_state(number, State.ACTIVE, State.PAUSED)

    async def resume(self, number: int) -> bool:
        """Resume a subscription. Return False if there is no paused subscription with this id. A pending subscription
        cannot be resumed, because it must not become active before it is verified."""
        return await self._change_state(number, State.PAUSED, State.ACTIVE)

    async def _change_state(self, number: int, before: State, after: State) -> bool:
        statement = "UPDATE subscriptions SET state = ? WHERE id = ? AND state = ?"
        return await self._database.execute(statement, after, number, before) > 0

    async def remove(self, *numbers: int) -> bool:
        return await self._database.run(lambda db: sum(remove_in(db, number) for number in numbers) > 0)

    def next_due(self, db: sqlite3.Connection) -> Instant | None:
        """Return the earliest instant at which a subscription expires or is due for renewal, or None if there is none.
        Paused subscriptions expire, but are not renewed."""
        row = db.execute(
            "SELECT (SELECT min(expires) FROM subscriptions), (SELECT renew_at FROM subscriptions"
            " WHERE renew_at IS NOT NULL AND state <> 'paused' ORDER BY renew_at LIMIT 1)"
        ).fetchone()
        return min((instant for instant in row if instant is not None), default=None)

    async def expire(self, now: Instant) -> list[Subscription]:
        """Remove expired subscriptions and their deliveries, and return the subscriptions."""

        def work(db: sqlite3.Connection) -> list[Subscription]:
            expired = "SELECT id FROM subscriptions WHERE expires <= ?"
            db.execute(f"DELETE FROM deliveries WHERE subscription IN ({expired})", (now,))  # noqa: S608
            rows = db.execute("DELETE FROM subscriptions WHERE expires <= ? RETURNING *", (now,)).fetchall()
            return [_read(row) for row in rows]

        return await self._database.run(work)

    async def due_for_renewal(self, now: Instant) -> list[Subscription]:
        """Return subscriptions that are due for renewal and not paused, at most RENEWALS_MAX, the longest due first."""
        query = "SELECT * FROM subscriptions WHERE renew_at <= ? AND state <> 'paused' ORDER BY renew_at LIMIT ?"
        rows = await self._database.fetch(query, now, RENEWALS_MAX)
        return [_read(row) for row in rows]

    async def extend(
        self, number: int, *, expires: Instant, renew_at: Instant | None = None, state: State | None = None
    ) -> None:
        """Set expiry, renewal and state of the subscription with this id. A paused subscription keeps its state, and so
        does any subscription if `state` is None."""
        statement = (
            "UPDATE subscriptions SET expires = ?, renew_at = ?,"
            " state = CASE WHEN state = 'paused' THEN state ELSE coalesce(?, state) END WHERE id = ?"
        )
        await self._database.execute(statement, expires, renew_at, state, number)

    async def postpone_renewal(self, number: int, now: Instant) -> None:
        """Schedule another attempt after RENEWAL_RETRY_DELAY seconds, in case the renewal at `now` fails."""
        renew_at = now + RENEWAL_RETRY_DELAY
        await self._database.execute("UPDATE subscriptions SET renew_at = ? WHERE id = ?", renew_at, number)


def callback_site(url: str) -> str:
    """Return the site of a callback, for limits, or the URL itself if it is invalid.

    Unlike in `site_of`, all addresses of an IPv6 /64 with the same port are one site, because one client can have them
    all. An IPv4-mapped address counts as its IPv4 address.
    """
    try:
        target = normalise(url)
    except FeedproxyError:
        return url
    host, port = split_host_port(target)
    if ":" not in host:
        return site_of(target)
    network = client_network(host)
    return f"[{network}]:{port}" if ":" in network else f"{network}:{port}"


def record_attempt(
    db: sqlite3.Connection, number: int, at: Instant, reason: str, *, success: bool, started: Instant = math.inf
) -> None:
    """Record the outcome of a delivery or push for the subscription with this id, within a transaction. If another
    outcome was recorded since the instant `started`, the reason of that outcome is kept."""
    db.execute(
        "UPDATE subscriptions SET last_try = ?1,"
        " note = CASE WHEN last_try > ?2 AND last_try < ?3 THEN note ELSE ?4 END,"
        " failures = CASE WHEN ?5 THEN 0 ELSE failures + 1 END,"
        " last_success = CASE WHEN ?5 THEN ?1 ELSE last_success END WHERE id = ?6",
        (at, started, at + CLOCK_TOLERANCE, reason, success, number),
    )


def remove_in(db: sqlite3.Connection, number: int) -> bool:
    db.execute("DELETE FROM deliveries WHERE subscription = ?", (number,))
    return db.execute("DELETE FROM subscriptions WHERE id = ?", (number,)).rowcount > 0


_SUBSCRIBERS = "subscriptions WHERE role = 'tell'"


def _count(db: sqlite3.Connection, rows: str, site: str = "") -> int:
    counted = "sum(host = ?)" if site else "count(*)"
    query = f"SELECT coalesce({counted}, 0) FROM {rows}"  # noqa: S608
    return int(db.execute(query, (site,) if site else ()).fetchone()[0])


def _put(db: sqlite3.Connection, new: Subscription) -> Subscription:
    row = db.execute(
        "INSERT INTO subscriptions (role, protocol, topic, callback, host, state, since, expires, renew_at,"
        " secret, data, failures, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')"
        " ON CONFLICT (role, protocol, topic, callback) DO UPDATE SET expires = excluded.expires,"
        " state = CASE WHEN state = 'paused' THEN state ELSE excluded.state END,"
        " renew_at = excluded.renew_at, secret = excluded.secret, data = excluded.data RETURNING *",
        (
            *(new.role, new.protocol, new.topic, new.callback, callback_site(new.callback), new.state),
            *(new.since, new.expires, new.renew_at, new.secret, json.dumps(dict(new.data))),
        ),
    ).fetchone()
    return _read(row)


def _find(db: sqlite3.Connection, *key: str) -> Subscription | None:
    row = db.execute(
        "SELECT * FROM subscriptions WHERE role = ? AND protocol = ? AND topic = ? AND callback = ?", key
    ).fetchone()
    return _read(row) if row is not None else None


def _read(row: sqlite3.Row) -> Subscription:
    values = {name: row[name] for name in row.keys() if name != "host"}  # noqa: SIM118 -- a Row's iterator gives values
    values |= {"role": Role(row["role"]), "state": State(row["state"]), "data": json.loads(row["data"])}
    return Subscription(**values)
