"""Changes, subscriptions and deliveries: sent once, stored durably, limited in number, and ended."""

import asyncio
import contextlib
import dataclasses
import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from feedproxy.clock import DAY, ManualClock
from feedproxy.errors import StoreError
from feedproxy.http.message import Fields, Response
from feedproxy.notify import notification_service
from feedproxy.notify.changes import pending_changes
from feedproxy.notify.changes.change_log import ChangeLog, FeedSnapshot
from feedproxy.notify.delivery.delivery_retries import RETRY_DELAY_MIN, next_try
from feedproxy.notify.delivery.delivery_worker import MAX_CONCURRENT, MAX_PER_HOST
from feedproxy.notify.notification_database import JOURNAL_SUFFIXES, NotificationDatabase
from feedproxy.notify.notification_protocol import Change, DeliveryRequest
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.refresh_requests import POSTPONE_MAX
from feedproxy.notify.subscription_table import (
    Role,
    State,
    Subscription,
    Subscriptions,
    SubscriptionsFull,
    callback_site,
)
from feedproxy.refresh.policy.paused_and_blocked import FeedDecision
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.notify import NOON, TARGET, Stand
from tests.stages.origin import Origin, a_feed

ME = "http://me.example/callback"


async def test_subscriber_is_notified_of_change_not_of_first_fetch(stand: Stand) -> None:
    await stand.subscribe(ME)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    assert stand.others.calls == []

    stand.origin.publish("/feed.xml", a_feed("two", "one"))
    await stand.read()

    assert stand.others.calls == [("GET", ME, b"")]


async def test_change_during_recording_is_left_to_the_next_recording(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A steady flow of new feeds must not be recorded one feed at a time."""
    notifications, recorded = stand.notifications, list[int]()
    record = notifications.changes.record
    new = FeedSnapshot(TARGET, "digest", NOON, "A feed", "", is_new=True, listed=True)

    async def recording(snapshots: Sequence[FeedSnapshot], *others: Any) -> list[Change]:
        recorded.append(len(snapshots))
        notifications.pending_changes.add(replace(new, target=f"{TARGET}?{len(recorded)}"))
        return await record(snapshots, *others)

    monkeypatch.setattr(notifications.changes, "record", recording)
    for number in range(150):
        notifications.pending_changes.add(replace(new, target=f"{TARGET}?new-{number}"))

    await notifications.pending_changes.write()

    assert recorded == [100, 50]
    assert len(notifications.pending_changes._snapshots) == 2


async def test_change_of_a_peer_above_the_limit_takes_no_memory(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_changes, "PENDING_MAX", 1)
    pending = stand.notifications.pending_changes
    new = FeedSnapshot(TARGET, "digest", NOON, "A feed", "", is_new=True, listed=True)
    for number in range(10):
        pending.add(replace(new, target=f"{TARGET}?{number}"), is_of_peer=True)

    await pending.write()

    assert (pending._snapshots, pending._of_peers) == ([], set())


async def test_change_recorded_by_another_process_is_delivered_by_the_process_that_claimed_it(stand: Stand) -> None:
    changes, delivered = stand.notifications.changes, list[Change]()

    def extra_deliveries(change: Change) -> list[DeliveryRequest]:
        delivered.append(change)
        return []

    new = FeedSnapshot(TARGET, "digest", NOON, "A feed", "", is_new=True, listed=True)
    changed = replace(new, digest="another", at=NOON + 60, is_new=False)
    await changes.record([new], NOON, extra_deliveries)
    (recorded,) = await changes.record([changed], NOON + 60, lambda _: ())

    assert await changes.record([changed], NOON + 60, extra_deliveries) == []

    assert delivered == [recorded]


async def test_subscription_add_data_keeps_concurrent_put(stand: Stand) -> None:
    held = stand.notifications.subscriptions
    known = await held.put(dataclasses.replace(await stand.subscribe(ME), state=State.PENDING, data={"key": ""}))

    await asyncio.gather(
        held.add_data(known.id, over="http"),
        held.put(dataclasses.replace(known, state=State.ACTIVE, data={"key": "proved"})),
        held.add_data(known.id, over="https"),
        held.add_data(known.id + 1, over="nothing"),
    )

    (now,) = await held.all()
    assert (now.state, now.data) == (State.ACTIVE, {"key": "proved", "over": "https"})


async def test_unchanged_content_is_not_notified(stand: Stand) -> None:
    await stand.subscribe(ME)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    stand.origin.publish("/feed.xml", a_feed("one", extra="<lastBuildDate>today</lastBuildDate>"))

    await stand.read()

    assert stand.others.calls == []


async def test_purged_feed_refetched_unchanged_is_not_notified(stand: Stand) -> None:
    await changed_once(stand)
    before = len(stand.others.calls)

    await stand.app.service.admin.purge(TARGET)
    await stand.read()

    assert len(stand.others.calls) == before


async def test_private_feed_is_not_notified(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(private=True)

    await changed_once(stand)

    assert stand.others.calls == []
    assert await stand.notifications.changes.between(0, NOON + 1, 10) == []


async def test_inactive_subscription_is_not_notified(stand: Stand) -> None:
    pending = await stand.subscribe("http://a.example/")
    paused = await stand.subscribe("http://b.example/")
    await stand.subscribe("http://c.example/", lasts=60)
    await stand.notifications.subscriptions.put(dataclasses.replace(pending, state=State.PENDING))
    await stand.notifications.subscriptions.pause(paused.id)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    await stand.pass_time(61)

    stand.origin.publish("/feed.xml", a_feed("two"))
    await stand.read()

    assert stand.others.calls == []


async def test_subscription_expired_is_removed(stand: Stand) -> None:
    await stand.subscribe(ME, lasts=DAY)

    await stand.pass_time(DAY)

    assert await stand.notifications.subscriptions.all() == []


async def test_delivery_is_retried_until_delivered(stand: Stand) -> None:
    await stand.subscribe(ME)
    stand.others.answer = lambda _: Unreachable("down")
    await changed_once(stand, subscribe=False)
    stand.others.answer = lambda _: Response(204)

    await stand.pass_time(RETRY_DELAY_MIN)

    assert len(stand.others.calls) == 2
    assert await stand.notifications.queue.count_waiting() == {}
    (known,) = await stand.notifications.subscriptions.all()
    assert (known.failures, known.last_success) == (0, NOON + RETRY_DELAY_MIN)


@pytest.mark.parametrize("status", [429, 503])
async def test_delivery_is_retried_when_the_callback_permits_it(stand: Stand, status: int) -> None:
    await stand.subscribe(ME)
    stand.others.answer = lambda _: Response(status, Fields([("Retry-After", "3600")]))
    await changed_once(stand, subscribe=False)

    for _ in range(59):
        await stand.pass_time(60)
    early = len(stand.others.calls)
    await stand.pass_time(60)

    assert (early, len(stand.others.calls)) == (1, 2)


async def test_delivery_to_unreachable_host_ends_after_a_day(
    stand: Stand,
) -> None:
    await stand.subscribe(ME)
    stand.others.answer = lambda _: Unreachable("down")
    await changed_once(stand, subscribe=False)
    times = [NOON]
    while await stand.notifications.queue.count_waiting():
        count = len(stand.others.calls)
        await stand.pass_time(60)
        if len(stand.others.calls) > count:
            times.append(stand.clock.now())

    assert times[-1] == pytest.approx(NOON + DAY, abs=60)
    assert len(times) > 10
    assert await stand.notifications.subscriptions.all() == []


async def test_subscriber_answering_410_is_removed(stand: Stand) -> None:
    await stand.subscribe(ME)
    stand.others.answer = lambda _: Response(410)

    await changed_once(stand, subscribe=False)

    assert await stand.notifications.subscriptions.all() == []


async def test_delivery_waiting_is_replaced_by_second_change(stand: Stand) -> None:
    await stand.subscribe(ME)
    stand.others.answer = lambda _: Response(503)
    await changed_once(stand, subscribe=False)
    stand.origin.publish("/feed.xml", a_feed("three"))
    await stand.read()

    assert await stand.notifications.queue.count_waiting() == {"plain": 1}


async def test_delivery_under_way_is_followed_by_second_change(stand: Stand) -> None:
    await stand.subscribe(ME)
    stand.others.gate = asyncio.Event()
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    for title in ("two", "three"):
        stand.origin.publish("/feed.xml", a_feed(title))
        await stand.app.service._coordinator.refresh(TARGET)
        while stand.notifications.pending_changes._snapshots or not stand.others.calls:  # noqa: ASYNC110 (no event to wait for)
            await asyncio.sleep(0.001)

    stand.others.gate.set()
    await stand.settled()

    assert len(stand.others.calls) == 2


async def test_delivery_concurrency_is_limited_in_all_and_per_host(stand: Stand) -> None:
    for number in range(100):
        await stand.subscribe(f"http://192.0.2.{number}/")
        await stand.subscribe(f"http://one.example/{number}")
    most_of_one = 0
    plain = stand.others.call

    async def watched(method: str, url: str, *rest: Any, **named: Any) -> Response:
        nonlocal most_of_one
        busy = [each for each, _ in stand.notifications.delivery_worker._running.values() if each.host == "one.example"]
        most_of_one = max(most_of_one, len(busy))
        return await plain(method, url, *rest, **named)

    stand.others.call = watched  # type: ignore[method-assign]
    await changed_once(stand, subscribe=False)

    assert sorted(set(stand.others.calls)) == sorted(stand.others.calls)
    assert len(stand.others.calls) == 200
    assert stand.others.most_at_once <= MAX_CONCURRENT
    assert most_of_one <= MAX_PER_HOST


async def test_delivery_survives_crash(stand_at: Callable[..., Any]) -> None:
    """The first process ends before it receives any response."""
    clock, origin = ManualClock(NOON), Origin(ManualClock(NOON))
    first = await stand_at(folder="store", origin=origin, clock=clock)
    for number in range(50):
        await first.subscribe(f"http://192.0.2.{number}/")
    first.others.gate = asyncio.Event()
    origin.publish("/feed.xml", a_feed("one"))
    await first.read()
    origin.publish("/feed.xml", a_feed("two"))
    await first.app.service._coordinator.refresh(TARGET)
    while len(first.others.calls) < MAX_CONCURRENT:  # noqa: ASYNC110 (no event to wait for)
        await asyncio.sleep(0.001)
    await first.app.service.store.flush()
    await vanish(first)

    second = await stand_at(folder="store", origin=origin, clock=clock)
    await second.settled()

    assert {url for _, url, _ in second.others.calls} == {f"http://192.0.2.{number}/" for number in range(50)}


async def test_change_during_reconciliation_is_notified_once(
    stand_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, origin, held = ManualClock(NOON), Origin(ManualClock(NOON)), list[NotificationService]()
    first = await stand_at(folder="store", origin=origin, clock=clock)
    origin.publish("/feed.xml", a_feed("one"))
    await first.read()
    await first.subscribe(ME)
    await first.app.close()
    clock.advance(60)

    async def with_a_change(targets: Iterable[str], _idle_factor: float = 0) -> AsyncIterator[str]:
        for each in targets:
            yield each  # unchanged so far
            origin.publish("/feed.xml", a_feed("two", "one"))
            await held[0].proxy._coordinator.refresh(each)

    monkeypatch.setattr(notification_service, "iterate_in_background", with_a_change)
    second = await stand_at(folder="store", origin=origin, clock=clock, join=held.append)
    await second.pass_time(60)

    assert second.others.calls == [("GET", ME, b"")]


@pytest.mark.parametrize(("is_owner", "calls"), [(True, [("GET", ME, b"")]), (False, [])])
async def test_change_stored_but_not_recorded_is_notified_after_restart_by_the_worker_that_owns_the_feed(
    stand_at: Callable[..., Any], is_owner: bool, calls: list[tuple[str, str, bytes]]
) -> None:
    def set_owner(service: NotificationService) -> None:
        service.proxy.schedule.owns = lambda _: is_owner

    clock, origin = ManualClock(NOON), Origin(ManualClock(NOON))
    first = await stand_at(folder="store", origin=origin, clock=clock)
    await first.subscribe(ME)
    origin.publish("/feed.xml", a_feed("one"))
    await first.read()
    first.app.service.events.feed_changed.unsubscribe(first.app.notifications.on_feed_changed)
    clock.advance(60)
    origin.publish("/feed.xml", a_feed("two"))
    await first.read()
    await first.app.service.store.flush()
    await vanish(first)

    second = await stand_at(folder="store", origin=origin, clock=clock, join=set_owner)
    await second.settled()

    assert second.others.calls == calls


async def test_stored_copy_older_than_recorded_change_is_not_notified(
    stand_at: Callable[..., Any],
) -> None:
    clock, origin = ManualClock(NOON), Origin(ManualClock(NOON))
    first = await stand_at(folder="store", origin=origin, clock=clock)
    origin.publish("/feed.xml", a_feed("one"))
    await first.read()
    old = first.app.service.store.get(TARGET)
    await first.subscribe(ME)
    clock.advance(60)
    origin.publish("/feed.xml", a_feed("two"))
    await first.read()
    assert len(first.others.calls) == 1
    await first.app.service.store.put(old)
    await first.app.close()

    second = await stand_at(folder="store", origin=origin, clock=clock)
    await second.settled()
    await second.read()

    assert second.others.calls == []


async def test_delivery_lock_is_held_by_one_process(stand_at: Callable[..., Any]) -> None:
    first = await stand_at(folder="store")
    second = await stand_at(folder="store")

    assert first.notifications.database.acquire_delivery_lock()
    assert not second.notifications.database.acquire_delivery_lock()
    await first.app.close()
    assert second.notifications.database.acquire_delivery_lock()


async def test_subscriptions_are_limited_by_option(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(subscriptions_max=2)
    await stand.subscribe("http://a.example/")
    await stand.subscribe("http://b.example/")
    await stand.subscribe("http://b.example/")

    with pytest.raises(SubscriptionsFull):
        await stand.subscribe("http://c.example/")


async def test_own_subscriptions_are_limited_separately_by_option(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(subscriptions_max=1)
    own = Subscription(Role.PUBLISHER, "plain", TARGET, "http://hub.example/", NOON + DAY, State.ACTIVE, since=NOON)
    await stand.subscribe("http://a.example/")

    await stand.notifications.subscriptions.put(own)

    with pytest.raises(SubscriptionsFull):
        await stand.notifications.subscriptions.put(dataclasses.replace(own, callback="http://other.example/"))


@pytest.mark.parametrize(
    ("callback", "site"),
    [
        ("https://news.me.example/callback", "me.example"),
        ("http://192.0.2.1/", "192.0.2.1:80"),
        ("http://[::ffff:192.0.2.1]/", "192.0.2.1:80"),
        ("http://[2001:db8::1]/", "[2001:db8::/64]:80"),
        ("http://[2001:db8::ffff:2]/", "[2001:db8::/64]:80"),
        ("http://[2001:db8:0:1::1]:8080/", "[2001:db8:0:1::/64]:8080"),
        ("no URL", "no URL"),
    ],
)
def test_site_of_callback_is_its_registrable_domain_or_network(callback: str, site: str) -> None:
    assert callback_site(callback) == site


async def test_own_subscriptions_take_no_place_of_clients_subscriptions(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(subscriptions_max=1)
    await stand.notifications.subscriptions.put(
        Subscription(Role.PUBLISHER, "plain", TARGET, "http://hub.example/", NOON + DAY, State.ACTIVE, since=NOON)
    )

    await stand.subscribe("http://a.example/")

    with pytest.raises(SubscriptionsFull):
        await stand.subscribe("http://b.example/")


async def test_subscription_renewed_keeps_its_record(stand: Stand) -> None:
    first = await stand.subscribe(ME, lasts=DAY)
    await stand.notifications.subscriptions.pause(first.id)

    again = await stand.subscribe(ME, lasts=2 * DAY)

    assert again == dataclasses.replace(first, state=State.PAUSED, expires=NOON + 2 * DAY)


async def test_own_subscription_is_renewed_when_due(stand: Stand) -> None:
    new = Subscription(Role.PUBLISHER, "plain", TARGET, "http://hub.example/", NOON + DAY, renew_at=NOON + 3600)
    await stand.notifications.subscriptions.put(new)

    await stand.pass_time(3600)
    await stand.pass_time(60)

    assert stand.plain.renewed == ["http://hub.example/"]


async def test_subscription_repr_omits_secret(stand: Stand) -> None:
    assert "hush" not in repr(Subscription(Role.SUBSCRIBER, "plain", TARGET, ME, 0, secret="hush"))


async def test_delivery_without_subscription_is_sent(stand: Stand) -> None:
    await stand.notifications.enqueue(DeliveryRequest("plain", "verify", TARGET, ME))
    await stand.settled()

    assert stand.others.calls == [("GET", ME, b"")]


async def test_database_damaged_is_set_aside(stand_at: Callable[..., Any], tmp_path: Any) -> None:
    file = tmp_path / "store" / "notify" / "ledger.sqlite3"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"this is no database, is it? " * 100)

    stand = await stand_at(folder="store")
    await stand.subscribe(ME)

    assert file.with_name("ledger.sqlite3.corrupt").exists()
    assert len(await stand.notifications.subscriptions.all()) == 1


def test_retry_pauses_grow_with_jitter_to_a_last_try() -> None:
    now, pauses = NOON, []
    for tries in range(1, 100):
        at = next_try(tries, NOON, now, jitter=0.5)
        if at is None:
            break
        pauses.append(at - now)
        now = at

    assert pauses[:3] == [7.5, 15, 30]
    assert now == NOON + DAY
    assert next_try(1, NOON, NOON, jitter=0) == NOON + RETRY_DELAY_MIN / 2


@pytest.mark.parametrize(
    ("not_before", "expected"),
    [(NOON + 600, NOON + 600), (NOON + 1, NOON + RETRY_DELAY_MIN / 2), (NOON + 2 * DAY, NOON + DAY)],
    ids=["later", "earlier", "after-the-last-try"],
)
def test_next_try_obeys_the_receiver_until_the_last_try(not_before: float, expected: float) -> None:
    assert next_try(1, NOON, NOON, jitter=0, not_before=not_before) == expected


async def changed_once(stand: Stand, *, subscribe: bool = True) -> None:
    """Fetch a feed and change it once."""
    if subscribe:
        await stand.subscribe(ME)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    stand.origin.publish("/feed.xml", a_feed("two"))
    await stand.read()


async def vanish(stand: Stand) -> None:
    """End like after SIGKILL: nothing more is written, and the system releases the lock."""
    notifications = stand.notifications
    for task in notifications._tasks:
        task.cancel()
    for _, task in notifications.delivery_worker._running.values():
        task.cancel()
    notifications.delivery_worker._running.clear()
    await notifications.database.close()


async def test_change_right_after_first_fetch_is_notified(stand: Stand) -> None:
    """The disk is slow, so the second version arrives before the first is recorded."""
    await stand.subscribe(ME)
    for title in ("one", "two"):
        stand.origin.publish("/feed.xml", a_feed(title))
        await stand.app.service._coordinator.refresh(TARGET)
    await stand.settled()

    assert len(stand.others.calls) == 1


async def test_refetch_of_an_evicted_feed_is_notified_only_if_the_feed_changed() -> None:
    said = {"bytes:a1": "d1", "bytes:a2": "d2"}

    async def reckon(seen: FeedSnapshot) -> FeedSnapshot | None:
        return replace(seen, digest=said[seen.digest]) if seen.digest in said else None

    def sight(digest: str, *, first: bool) -> FeedSnapshot:
        return FeedSnapshot("https://example.com/feed", digest, 1.0, "name", "", first, True)

    ledger = NotificationDatabase(None, never)
    log = ChangeLog(ledger, reckon)
    told = []
    for seen in (
        sight("bytes:a0", first=True),  # first version
        sight("d1", first=False),  # changed
        sight("bytes:a1", first=True),  # forgotten, then found unchanged
        sight("bytes:a2", first=True),  # forgotten, then found changed
        sight("bytes:gone", first=True),  # the stored copy is gone before it is compared
    ):
        told.append(len(await log.record([seen], 2.0, lambda _: ())))
    await ledger.close()

    assert told == [0, 1, 0, 1, 0]


def never(error: Exception) -> None:
    raise AssertionError(error)


async def test_database_of_a_later_version_is_kept_and_each_failure_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")
    failures: list[Exception] = []
    ledger = NotificationDatabase(file, failures.append)

    for _ in range(2):
        with pytest.raises(StoreError, match="later version of feedproxy"):
            await ledger.run(lambda db: None)

    assert len(failures) == 2
    assert not (tmp_path / "ledger.sqlite3.corrupt").exists()
    await ledger.close()


@pytest.mark.parametrize("restored", [False, True])
async def test_database_that_is_removed_or_restored_in_operation_is_opened_again(
    tmp_path: Path, restored: bool
) -> None:
    file, backup = tmp_path / "ledger.sqlite3", tmp_path / "backup"
    ledger = NotificationDatabase(file, never)
    await ledger.run(lambda db: db.execute("INSERT INTO rung VALUES ('https://1.example/', 1.0)"))
    with contextlib.closing(sqlite3.connect(file)) as source, contextlib.closing(sqlite3.connect(backup)) as copy:
        source.backup(copy)
    await ledger.run(lambda db: db.execute("INSERT INTO rung VALUES ('https://2.example/', 1.0)"))
    for suffix in ("", *JOURNAL_SUFFIXES):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{file}{suffix}")
    if restored:
        os.rename(backup, file)

    await ledger.run(lambda db: db.execute("INSERT INTO rung VALUES ('https://3.example/', 1.0)"))

    await ledger.close()
    with contextlib.closing(sqlite3.connect(file)) as db:
        targets = [target for (target,) in db.execute("SELECT target FROM rung ORDER BY target")]
    assert targets == [*(["https://1.example/"] if restored else []), "https://3.example/"]


async def test_database_that_cannot_be_set_aside_fails_as_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []
    ledger = NotificationDatabase(tmp_path / "ledger.sqlite3", failures.append)

    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(ledger, "_set_aside", read_only)
    with pytest.raises(StoreError, match="no such table"):
        await ledger.run(lambda db: db.execute("SELECT * FROM missing"))

    assert len(failures) == 1
    await ledger.close()


async def test_database_of_version_1_keeps_subscriptions(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3"
    with contextlib.closing(sqlite3.connect(file)) as db:
        for statement in SCHEMA_1.split(";\n"):
            db.execute(statement)
        db.execute(
            "INSERT INTO subscriptions (role, protocol, topic, callback, host, state, since, expires, secret, data,"
            " failures, note) VALUES ('tell', 'websub', 'http://a/', 'http://b/', 'b', 'active', 1, 2, '', '{}', 0, '')"
        )
        db.execute("PRAGMA user_version = 1")
        db.commit()
    ledger = NotificationDatabase(file, never)

    held = await Subscriptions(ledger, 10).all()

    assert [(each.topic, each.moved_from) for each in held] == [("http://a/", "")]
    await ledger.close()


SCHEMA_1 = """
CREATE TABLE subscriptions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, role TEXT NOT NULL, protocol TEXT NOT NULL, topic TEXT NOT NULL,
    callback TEXT NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL, since REAL NOT NULL, expires REAL NOT NULL,
    renew_at REAL, secret TEXT NOT NULL, data TEXT NOT NULL, last_try REAL, last_success REAL,
    failures INTEGER NOT NULL, note TEXT NOT NULL, UNIQUE (role, protocol, topic, callback));
"""


# -- pings and pauses


async def test_ping_during_a_pause_refreshes_the_feed_after_the_pause(stand: Stand) -> None:
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    pings, decisions = stand.notifications.refresh_requests, stand.app.parts.decisions
    await decisions.decide(TARGET, FeedDecision.PAUSED)
    asked = stand.origin.requests

    await stand.pass_time(120)
    await pings.accept_ping([TARGET], "192.0.2.1")
    await stand.settled()
    assert stand.origin.requests == asked
    await decisions.decide(TARGET, None)
    await stand.pass_time(POSTPONE_MAX)
    assert stand.origin.requests == asked + 1


async def test_ping_after_a_pause_refreshes_the_feed_at_once(stand: Stand) -> None:
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    pings, decisions = stand.notifications.refresh_requests, stand.app.parts.decisions
    await decisions.decide(TARGET, FeedDecision.PAUSED)
    await stand.pass_time(120)
    await pings.accept_ping([TARGET], "192.0.2.1")
    await stand.settled()
    asked = stand.origin.requests

    await decisions.decide(TARGET, None)
    await pings.accept_ping([TARGET], "192.0.2.1")
    await stand.settled()

    assert stand.origin.requests == asked + 1


async def test_iteration_without_due_work_is_one_transaction(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    await stand.subscribe("http://one.example/")
    await stand.settled()
    database, transactions = stand.notifications.database, list[object]()
    run = database.run

    async def counted(work: Any) -> Any:
        transactions.append(work)
        return await run(work)

    monkeypatch.setattr(database, "run", counted)
    stand.notifications.wake()
    await stand.settled()

    assert len(transactions) == 1
