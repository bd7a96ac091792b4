"""The registry: who is told of a feed's changes, and where we asked to be told. Every entry ends by itself."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError
from feedproxy.http import uri
from feedproxy.notify.database import NotificationDatabase


class Role(StrEnum):
    """Which way the news goes."""

    SUBSCRIBER = "tell"  # they subscribed here: we tell them
    PUBLISHER = "hear"  # we subscribed there: they tell us


class State(StrEnum):
    """Whether deliveries are made."""

    PENDING = "pending"  # not verified yet
    ACTIVE = "active"
    PAUSED = "paused"  # by the operator


class SubscriptionsFull(FeedproxyError):
    """No more subscriptions are taken."""

    status_hint = 503
    detail = "full"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One registration. `topic` is the target URI of the feed, `callback` the other side's address.

    `expires` always stands: what is not renewed ends. `renew_at` is when we have to renew what we hear. `secret` is
    left out of every repr; `data` is the protocol's own, texts by name.
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
    """In a row."""
    note: str = ""
    """What the last try came to, in words."""
    moved_from: str = ""
    """The target that was subscribed to, where that feed has moved to `topic` since."""


class Subscriptions:
    """All of them, in the ledger. Everything here raises StoreError."""

    def __init__(self, database: NotificationDatabase, max_count: int) -> None:
        self._database = database
        self.max_count = max_count
        """Subscriptions taken, all protocols together."""

    async def put(self, new: Subscription) -> Subscription:
        """Keep it, in place of the one with the same role, protocol, topic and callback; with its id.

        What is known of earlier tries stays; a subscription that the operator has paused stays paused. Raises Full.
        """

        def work(db: sqlite3.Connection) -> Subscription:
            found = _find(db, new.role, new.protocol, new.topic, new.callback)
            if found is None and db.execute("SELECT count(*) FROM subscriptions").fetchone()[0] >= self.max_count:
                raise SubscriptionsFull("no more subscriptions are taken for now")
            row = db.execute(
                "INSERT INTO subscriptions (role, protocol, topic, callback, host, state, since, expires, renew_at,"
                " secret, data, failures, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')"
                " ON CONFLICT (role, protocol, topic, callback) DO UPDATE SET expires = excluded.expires,"
                " state = CASE WHEN state = 'paused' THEN state ELSE excluded.state END,"
                " renew_at = excluded.renew_at, secret = excluded.secret, data = excluded.data RETURNING *",
                (
                    *(new.role, new.protocol, new.topic, new.callback, registrable_domain(new.callback), new.state),
                    *(new.since, new.expires, new.renew_at, new.secret, json.dumps(dict(new.data))),
                ),
            ).fetchone()
            return _read(row)

        return await self._database.run(work)

    async def add_data(self, number: int, **data: str) -> None:
        """Add these members to the data of the one with this id, as it is by then; nothing if there is none."""

        def work(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT data FROM subscriptions WHERE id = ?", (number,)).fetchone()
            if row is not None:
                merged = json.dumps({**json.loads(row["data"]), **data})
                db.execute("UPDATE subscriptions SET data = ? WHERE id = ?", (merged, number))

        await self._database.run(work)

    async def check_capacity(self, callback: str, per_site: int) -> None:
        """Whether one more may be taken with this callback; what waits for its proof counts. Raises Full.

        `per_site` bounds those of one registrable domain; 0 is any number.
        """
        site = registrable_domain(callback)

        def work(db: sqlite3.Connection) -> tuple[int, int]:
            counted = [
                db.execute(f"SELECT count(*), coalesce(sum(host = ?), 0) FROM {rows}", (site,)).fetchone()  # noqa: S608
                for rows in ("subscriptions WHERE role = 'tell'", "deliveries WHERE what = 'verify'")
            ]
            return sum(each[0] for each in counted), sum(each[1] for each in counted)

        held, of_site = await self._database.run(work)
        if held >= self.max_count or (per_site and of_site >= per_site):
            raise SubscriptionsFull("no more subscriptions are taken for now")

    async def record_notification(self, number: int, now: Instant, reason: str, *, success: bool) -> None:
        """Somebody has told us something by this subscription: note it."""
        await self._database.run(
            lambda db: db.execute(
                "UPDATE subscriptions SET last_try = ?, note = ?, failures = CASE WHEN ? THEN 0 ELSE failures + 1 END,"
                " last_success = CASE WHEN ? THEN ? ELSE last_success END WHERE id = ?",
                (now, reason[:300], success, success, now, number),
            )
        )

    async def get(self, number: int) -> Subscription | None:
        """The one with this id."""
        row = await self._database.run(
            lambda db: db.execute("SELECT * FROM subscriptions WHERE id = ?", (number,)).fetchone()
        )
        return _read(row) if row is not None else None

    async def find(self, role: Role, protocol: str, topic: str, callback: str) -> Subscription | None:
        """The one that is there already."""
        return await self._database.run(lambda db: _find(db, role, protocol, topic, callback))

    async def find_current_or_moved(self, role: Role, protocol: str, target: str, callback: str) -> Subscription | None:
        """The one that has this target as its topic, or had it before the feed moved."""

        def work(db: sqlite3.Connection) -> Subscription | None:
            if (found := _find(db, role, protocol, target, callback)) is not None:
                return found
            row = db.execute(
                "SELECT * FROM subscriptions WHERE role = ? AND protocol = ? AND moved_from = ? AND callback = ?",
                (role, protocol, target, callback),
            ).fetchone()
            return _read(row) if row is not None else None

        return await self._database.run(work)

    async def all(
        self, *, role: Role | None = None, protocol: str = "", topic: str = "", after: int = 0, limit: int = 1000
    ) -> list[Subscription]:
        """Those that match, by id; what is left open matches all. `after` is the last id seen, to go on from."""
        asked: dict[str, Any] = {"role": role, "protocol": protocol, "topic": topic}
        given = {name: value for name, value in asked.items() if value}
        where = " AND ".join(["id > ?", *(f"{name} = ?" for name in given)])
        rows = await self._database.run(
            lambda db: db.execute(
                f"SELECT * FROM subscriptions WHERE {where} ORDER BY id LIMIT ?",  # noqa: S608 -- our own names
                (after, *given.values(), limit),
            ).fetchall()
        )
        return [_read(row) for row in rows]

    async def topics(self, role: Role, protocol: str) -> list[str]:
        """What these are about, each once."""
        asked = "SELECT DISTINCT topic FROM subscriptions WHERE role = ? AND protocol = ?"
        rows = await self._database.run(lambda db: db.execute(asked, (role, protocol)).fetchall())
        return [row["topic"] for row in rows]

    async def moved_topics(self, protocol: str) -> list[str]:
        """The targets that were subscribed to and have moved since, each once."""
        asked = "SELECT DISTINCT moved_from FROM subscriptions WHERE moved_from <> '' AND protocol = ?"
        rows = await self._database.run(lambda db: db.execute(asked, (protocol,)).fetchall())
        return [row["moved_from"] for row in rows]

    async def subscribed_topics(self, *, role: Role, protocol: str, among: Sequence[str]) -> set[str]:
        """Those of these topics that somebody is subscribed to."""
        asked = "SELECT 1 FROM subscriptions WHERE topic = ? AND role = ? AND protocol = ?"

        def work(db: sqlite3.Connection) -> set[str]:
            return {each for each in among if db.execute(asked, (each, role, protocol)).fetchone() is not None}

        return await self._database.run(work) if among else set()

    async def move(self, protocol: str, topic: str, new_topic: str) -> None:
        """The feed that was subscribed to as `topic` is at `there` now: its subscribers hear of both.

        Who has subscribed to `there` as well keeps the one. With `there` as `topic`, the feed is back.
        """

        def work(db: sqlite3.Connection) -> None:
            key = (protocol, new_topic, topic)
            ours = "role = 'tell' AND protocol = ?1 AND topic <> ?2 AND (topic = ?3 OR moved_from = ?3)"
            came = "CASE moved_from WHEN '' THEN topic WHEN ?2 THEN '' ELSE moved_from END"
            moved = f"UPDATE OR IGNORE subscriptions SET topic = ?2, moved_from = {came} WHERE {ours}"  # noqa: S608
            db.execute(moved, key)
            for row in db.execute(f"SELECT id FROM subscriptions WHERE {ours}", key).fetchall():  # noqa: S608
                remove_in(db, row["id"])

        await self._database.run(work)

    async def count(self) -> dict[tuple[str, str, str], int]:
        """How many, by role, protocol and state."""
        rows = await self._database.run(
            lambda db: db.execute(
                "SELECT role, protocol, state, count(*) FROM subscriptions GROUP BY role, protocol, state"
            ).fetchall()
        )
        return {(row[0], row[1], row[2]): row[3] for row in rows}

    async def set_state(self, number: int, state: State) -> bool:
        """Pause, resume, or count as verified; whether it was there."""
        return await self._database.run(
            lambda db: db.execute("UPDATE subscriptions SET state = ? WHERE id = ?", (state, number)).rowcount > 0
        )

    async def remove(self, *numbers: int) -> bool:
        """Forget these, and what is queued for them, in one transaction; whether any was there."""
        return await self._database.run(lambda db: sum(remove_in(db, each) for each in numbers) > 0)

    async def expire(self, now: Instant) -> int:
        """Remove those whose time is over; how many."""

        def work(db: sqlite3.Connection) -> int:
            over = "SELECT id FROM subscriptions WHERE expires <= ?"
            db.execute(f"DELETE FROM deliveries WHERE subscription IN ({over})", (now,))  # noqa: S608
            return db.execute("DELETE FROM subscriptions WHERE expires <= ?", (now,)).rowcount

        return await self._database.run(work)

    async def due_for_renewal(self, now: Instant, limit: int = 100) -> list[Subscription]:
        """Those that we have to renew by now, the most urgent first. Paused ones are left to expire."""
        rows = await self._database.run(
            lambda db: db.execute(
                "SELECT * FROM subscriptions WHERE renew_at <= ? AND state <> 'paused' ORDER BY renew_at LIMIT ?",
                (now, limit),
            ).fetchall()
        )
        return [_read(row) for row in rows]

    async def extend(
        self, number: int, *, expires: Instant, renew_at: Instant | None = None, state: State | None = None
    ) -> None:
        """It ends then, and is renewed then; its state is this, unless the operator has paused it."""
        await self._database.run(
            lambda db: db.execute(
                "UPDATE subscriptions SET expires = ?, renew_at = ?,"
                " state = CASE WHEN state = 'paused' THEN state ELSE coalesce(?, state) END WHERE id = ?",
                (expires, renew_at, state, number),
            )
        )

    async def set_renewal(self, number: int, until: Instant | None) -> None:
        """Renew it then, or never."""
        await self._database.run(
            lambda db: db.execute("UPDATE subscriptions SET renew_at = ? WHERE id = ?", (until, number))
        )


def registrable_domain(callback: str) -> str:
    """Whose server it is: the registrable domain; what cannot be read stands for itself."""
    try:
        return uri.site_of(uri.normalise(callback))
    except FeedproxyError:
        return callback


def remove_in(db: sqlite3.Connection, number: int) -> bool:
    """Remove a subscription within a transaction."""
    db.execute("DELETE FROM deliveries WHERE subscription = ?", (number,))
    return db.execute("DELETE FROM subscriptions WHERE id = ?", (number,)).rowcount > 0


def _find(db: sqlite3.Connection, *key: str) -> Subscription | None:
    row = db.execute(
        "SELECT * FROM subscriptions WHERE role = ? AND protocol = ? AND topic = ? AND callback = ?", key
    ).fetchone()
    return _read(row) if row is not None else None


def _read(row: sqlite3.Row) -> Subscription:
    values = {name: row[name] for name in row.keys() if name != "host"}  # noqa: SIM118 -- a Row's iterator gives values
    values |= {"role": Role(row["role"]), "state": State(row["state"]), "data": json.loads(row["data"])}
    return Subscription(**values)
