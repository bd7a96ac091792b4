"""Subscriber counts: the view, bounds under attack, sweeping, restarts."""

import asyncio
import random
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise

import pytest

from feedproxy.errors import StoreError
from feedproxy.proxy.scheduled_refreshes import FeedAudience
from feedproxy.subscribers import block_buffer, subscriber_counts
from feedproxy.subscribers.poll_rhythms import READERS_MAX
from feedproxy.subscribers.product_codes import NAMES_MAX
from feedproxy.subscribers.read_events import ReadRecord
from feedproxy.subscribers.reader_pseudonyms import Identifier, Pseudonym
from feedproxy.subscribers.subscriber_counts import EXPIRED_BATCH, SubscriberCounts
from tests.steps import steps
from tests.subscribers.dumps import dumped

FEED = "https://example.com/feed.xml"
NOW = 1_795_176_000.0
DAY = 86_400.0


def reader(number: int) -> Pseudonym:
    current = number * 0x9E3779B97F4A7C15 % 2**60
    return Pseudonym(current, current ^ 0x5DEECE66D1234567)


def traced(counts: SubscriberCounts, requests: Iterable[tuple[str, Pseudonym, str, float]]) -> int:
    """Return the bytes of memory that the counts use more after these requests."""
    tracemalloc.start()
    try:
        for target, pseudonym, user_agent, now in requests:
            counts.record_read(target, pseudonym, user_agent, now)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


# -- how it is shown


def test_view_lists_direct_readers_by_product_in_order_of_frequency() -> None:
    counts = SubscriberCounts()
    for number, agent in enumerate(["curl/8", "NetNewsWire (RSS Reader)", "curl/7", "Miniflux/2.2.0", "curl/8"]):
        counts.record_read(FEED, reader(number + 1), agent, NOW)

    assert counts.view(FEED, NOW).readers == (("curl", 3), ("Miniflux", 1), ("NetNewsWire", 1))


def test_view_sorts_claims_by_count() -> None:
    counts = SubscriberCounts()
    for agent in ["Feedbin feed-id:7 - 142 subscribers", "Feedly/1.0 (poller; 457 subscribers;)"]:
        counts.record_read(FEED, reader(1), agent, NOW)

    view = counts.view(FEED, NOW + 60)

    assert [(each.fetcher, each.feed_id, each.count, each.last) for each in view.claims] == [
        ("feedly", "", 457, NOW),
        ("feedbin", "7", 142, NOW),
    ]
    assert (view.total, view.direct) == (599, 0)


def test_view_of_unrequested_feed_is_empty() -> None:
    view = SubscriberCounts().view(FEED, NOW)

    assert (view.total, view.direct, view.claims, view.readers) == (0, 0, (), ())


# -- bounds


def test_reader_takes_less_than_200_bytes() -> None:
    held = traced(SubscriberCounts(), ((FEED, reader(n), "curl/8", NOW + n / 100) for n in range(1, 10_001)))

    assert held / 10_000 < 200


def test_readers_of_feed_are_bounded_and_latest_are_kept() -> None:
    counts = SubscriberCounts(readers_max=1000)
    for number in range(1, 20_001):
        counts.record_read(FEED, reader(number), "curl/8", NOW + number / 1000)

    total = counts.total(FEED, NOW + 20)
    assert 800 < total <= 1000
    counts.record_read(FEED, reader(20_000), "curl/8", NOW + 20)
    assert counts.total(FEED, NOW + 20) == total


def test_feeds_are_bounded_and_latest_are_kept() -> None:
    counts = SubscriberCounts(feeds_max=100)
    for number in range(5000):
        counts.record_read(f"https://example.com/{number}", reader(1), "curl/8", NOW)

    assert 90 < len(counts.targets()) <= 100
    assert counts.total("https://example.com/4999", NOW) == 1


def test_flood_on_one_feed_does_not_affect_others() -> None:
    counts = SubscriberCounts(entries_max=2_000)
    for number in range(200):
        counts.record_read(f"https://example.com/{number}", reader(1), "curl/8", NOW)
    for number in range(1, 10_000):
        counts.record_read("https://example.com/flooded", reader(number), f"bot{number}", NOW)

    assert all(counts.total(f"https://example.com/{number}", NOW) == 1 for number in range(200))


def test_flood_of_false_fetchers_keeps_known_fetchers() -> None:
    counts = SubscriberCounts()
    for minute in range(3):
        counts.record_read(FEED, reader(1), "Feedly/1.0 (poller; 457 subscribers;)", NOW + 60 * minute)
    for number in range(2_000):
        counts.record_read(FEED, reader(1), f"Bot{number}/1.0 (1 subscriber)", NOW + 300)

    view = counts.view(FEED, NOW + 300)
    assert view.claims[0].fetcher == "feedly"
    assert len(view.claims) <= 128


def test_claims_above_the_maximum_are_ignored_while_known_fetchers_are_current() -> None:
    counts = SubscriberCounts(claims_max=3)
    for number in (1, 2, 3, 1, 2, 3, 4):
        counts.record_read(FEED, reader(1), f"Fetcher{number}/1.0 (5 subscribers)", NOW)

    assert counts.total(FEED, NOW) == 15
    counts.record_read(FEED, reader(1), "Fetcher4/1.0 (6 subscribers)", NOW + DAY)
    assert counts.total(FEED, NOW + DAY) == 6


def test_new_fetcher_replaces_the_oldest_that_came_only_once() -> None:
    counts = SubscriberCounts(claims_max=3)
    for second, number in enumerate((1, 1, 2, 3, 4)):
        counts.record_read(FEED, reader(1), f"Fetcher{number}/1.0 (5 subscribers)", NOW + second)

    assert {claim.fetcher for claim in counts.view(FEED, NOW + 9).claims} == {"fetcher1", "fetcher3", "fetcher4"}


@pytest.mark.parametrize("agent", ["NetNewsWire/6", "Fetcher/1.0 (5 subscribers)"])
def test_reader_is_reported_to_other_processes_once_a_minute(agent: str) -> None:
    counts, events, minute = SubscriberCounts(), list[ReadRecord](), NOW // 60 * 60
    counts.reader_seen.subscribe(events.append)

    for second in (0, 1, 59, 60, 61):
        counts.record_read(FEED, reader(1), agent, minute + second)

    assert events == [(FEED, reader(1), agent, minute), (FEED, reader(1), agent, minute + 60)]


@pytest.mark.parametrize("agent", ["Bot{n}/1.0 ({n} subscribers)", "Bot feed-id:{n} - 9 readers"])
def test_flood_of_random_user_agents_and_feeds_takes_bounded_memory(agent: str) -> None:
    chance = random.Random(7)
    counts = SubscriberCounts(readers_max=1000, feeds_max=200, entries_max=2_000)
    requests = (
        (
            f"https://example.com/{chance.randrange(800)}/{'x' * chance.randrange(2000)}",
            reader(chance.randrange(10**9)),
            agent.format(n=chance.randrange(10**6)) + "y" * 300,
            NOW + number / 10,
        )
        for number in range(7_500)
    )

    assert traced(counts, requests) < 400 * 8_000 + 10_000_000  # the memo of User-Agents is bounded by itself


def test_product_names_are_bounded_and_reused() -> None:
    counts = SubscriberCounts()
    for number in range(400):
        counts.record_read(FEED, reader(number + 1), f"bot{number}/1.0", NOW)
    assert dict(counts.view(FEED, NOW).readers)["other"] == 400 - 255

    counts.prune(NOW + DAY)
    counts.record_read(FEED, reader(999), "NetNewsWire", NOW + DAY)
    counts.record_read(FEED, reader(1000), "Liferea/1.15", NOW + DAY + 1)

    assert counts.view(FEED, NOW + DAY + 1).readers == (("Liferea", 1), ("NetNewsWire", 1))


async def test_readers_outside_the_window_are_swept() -> None:
    counts = SubscriberCounts()
    for number in range(1000):
        counts.record_read(f"https://example.com/{number}", reader(number + 1), "curl/8", NOW)
        counts.record_read(f"https://example.com/{number}", reader(1), "Feedly/1.0 (5 subscribers)", NOW)

    counts.record_read(FEED, reader(1), "curl/8", NOW + DAY)
    await counts.sweep(NOW + DAY)

    assert counts.targets() == [FEED]


def test_sweep_removes_few_readers_between_two_pauses() -> None:
    counts = SubscriberCounts()
    for number in range(1000):
        counts.record_read(FEED, reader(number + 1), "curl/8", NOW)
    feed = counts._feeds[FEED]

    sizes = [feed.size for _ in counts._sweep(NOW + DAY)]

    assert all(0 <= before - after <= EXPIRED_BATCH for before, after in pairwise([1000, *sizes]))
    assert counts.targets() == []


def test_reader_returning_during_sweep_is_counted() -> None:
    counts = SubscriberCounts()
    for number in range(10):
        counts.record_read(f"https://example.com/{number}", reader(number + 1), "curl/8", NOW)

    for _ in counts._sweep(NOW + DAY):
        counts.record_read("https://example.com/9", reader(10), "curl/8", NOW + DAY)

    assert counts.targets() == ["https://example.com/9"]
    assert counts.total("https://example.com/9", NOW + DAY) == 1


def test_clock_set_back_keeps_readers() -> None:
    counts = SubscriberCounts()
    counts.record_read(FEED, reader(1), "curl/8", NOW + 30 * DAY)
    counts.record_read(FEED, reader(2), "Feedly/1.0 (5 subscribers)", NOW + 30 * DAY)
    counts.record_read(FEED, reader(3), "curl/8", NOW)
    counts.record_read(FEED, reader(2), "Feedly/1.0 (6 subscribers)", NOW)

    assert counts.total(FEED, NOW) >= 2


def test_record_of_a_known_reader_takes_few_steps_for_any_number_of_readers() -> None:
    counts, identifier = SubscriberCounts(), Identifier(b"sixteen bytes or more")
    agent = "NetNewsWire (RSS Reader; https://netnewswire.com/)"

    def record(number: int) -> None:
        counts.record_read(FEED, identifier.pseudonym(f"192.0.2.{number}", agent, "", NOW), agent, NOW)

    for number in range(10):
        record(number)
    among_ten = steps(lambda: record(0))
    for number in range(10, 2000):
        record(number)

    assert steps(lambda: record(0)) < 2 * among_ten < 200


# -- over a restart


def test_start_before_the_clock_is_set_keeps_readers() -> None:
    stored = SubscriberCounts()
    for number in range(3):
        stored.record_read(FEED, reader(number), "curl/8", NOW)
    stored.record_read(FEED, reader(3), "Feedly/1.0 (5 subscribers)", NOW)

    counts, boot = SubscriberCounts(), 60.0
    counts.load(dumped(stored), boot)
    counts.record_read(FEED, reader(1), "curl/8", boot + 60)
    counts.prune(boot + 120)
    counts.record_read(FEED, reader(2), "curl/8", NOW + 600)
    counts.prune(NOW + 600)

    assert counts.total(FEED, NOW + 600) == 8


def test_reads_that_peers_report_during_a_load_are_counted() -> None:
    counts, peer = SubscriberCounts(), SubscriberCounts()
    peer.record_read(FEED, reader(1), "curl/8", NOW)
    with counts.keep_peer_reads():
        counts.apply_peer_reads([(FEED, reader(2), "curl/8", NOW)])
        counts.load(dumped(peer), NOW)
    counts.apply_peer_reads([(FEED, reader(3), "curl/8", NOW)])

    assert counts.total(FEED, NOW) == 3


def a_busy_day() -> SubscriberCounts:
    counts, identifier = SubscriberCounts(), Identifier(b"sixteen bytes or more")
    for number in range(300):
        address, agent, now = f"198.51.100.{number % 250}", f"Reader{number % 40}/1.0", NOW + number
        target = f"https://example.com/{number % 7}"
        counts.record_read(target, identifier.pseudonym(address, agent, "ann" * (number % 3), now), agent, now)
        counts.record_read(
            target,
            identifier.pseudonym(address, agent, "", now),
            f"Feedbin feed-id:{number % 5} - 9 readers",
            now,
        )
    counts.record_read(target, reader(1), "Feedbin feed-id:1 - 99999 readers", NOW + 300)
    return counts


def test_counts_survive_a_restart() -> None:
    before, after = a_busy_day(), SubscriberCounts()

    after.load(dumped(before), NOW + 400)

    assert after.targets() == before.targets()
    for target in before.targets():
        assert after.view(target, NOW + 400) == before.view(target, NOW + 400)
    assert dumped(after) == dumped(before)


def test_counts_after_restart_count_each_reader_once() -> None:
    before, after = SubscriberCounts(), SubscriberCounts()
    before.record_read(FEED, Pseudonym(11, 1), "curl/8", NOW)
    before.record_read(FEED, Pseudonym(22, 2), "curl/8", NOW)

    after.load(dumped(before), NOW + 60)
    after.record_read(FEED, Pseudonym(11, 1), "curl/8", NOW + 60)
    after.record_read(FEED, Pseudonym(33, 22), "curl/8", NOW + 60)

    assert after.total(FEED, NOW + 60) == 2
    assert after.total(FEED, NOW + 60 + DAY) == 0


def test_load_removes_readers_outside_the_window() -> None:
    after = SubscriberCounts()

    after.load(dumped(a_busy_day()), NOW + 2 * DAY)

    assert after.targets() == []


def test_load_keeps_at_most_feeds_max_feeds() -> None:
    after = SubscriberCounts(feeds_max=3)

    after.load(dumped(a_busy_day()), NOW + 400)

    assert len(after.targets()) <= 3


def test_load_treats_readers_of_the_future_as_seen_now() -> None:
    before, after = SubscriberCounts(), SubscriberCounts()
    before.record_read(FEED, reader(1), "curl/8", NOW + 90 * DAY)

    after.load(dumped(before), NOW)

    assert after.total(FEED, NOW) == 1
    assert after.total(FEED, NOW + DAY) == 0


def test_stored_counts_contain_no_address() -> None:
    data = dumped(a_busy_day())

    assert b"198.51" not in data
    assert b"ann" not in data
    for number in range(250):
        assert bytes([198, 51, 100, number]) not in data


@pytest.mark.parametrize("keep", [0, 7, 8, 11, 20, -1])
def test_load_rejects_truncated_counts_without_change(keep: int) -> None:
    counts = a_busy_day()
    data = dumped(counts)

    with pytest.raises(StoreError):
        counts.load(data[:keep], NOW)

    assert dumped(counts) == data


def test_load_rejects_damaged_and_foreign_counts() -> None:
    data = bytearray(dumped(a_busy_day()))
    data[200] ^= 1

    for bad in (bytes(data), b"fpcount2" + bytes(20), b"\x80\x04K\x01.", b"fpcount1" + bytes(12)):
        with pytest.raises(StoreError):
            SubscriberCounts().load(bad, NOW)


# -- in slices


def step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other tasks run after every feed."""
    monkeypatch.setattr(subscriber_counts, "THROTTLED_BLOCKING_TIME", -1)


async def test_dump_yields_between_feeds(monkeypatch: pytest.MonkeyPatch) -> None:
    step_by_step(monkeypatch)
    counts = a_busy_day()
    feeds, turns = len(counts.targets()), 0

    writing = asyncio.ensure_future(counts.dump())
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > feeds
    assert await writing == await counts.dump()


async def test_dumps_are_joined_from_bytes_blocks_because_a_join_of_others_keeps_the_interpreter_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = a_busy_day()
    for number in range(9):
        counts.rhythms.record(f"https://example.com/{number}", reader(number), NOW)
    dumps = await counts.dump(), await counts.rhythms.dump()

    monkeypatch.setattr(block_buffer, "BLOCK_SIZE", 64)
    buffer = block_buffer.BlockBuffer()
    for part in (b"a" * 60, b"b" * 60, b"c"):
        buffer.append(part)

    assert buffer.blocks() == [b"a" * 60 + b"b" * 60, b"c"]
    assert {type(block) for block in buffer.blocks()} == {bytes}
    assert (await counts.dump(), await counts.rhythms.dump()) == dumps


async def test_dump_during_requests_neither_loses_nor_repeats_readers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step_by_step(monkeypatch)
    counts, feeds = SubscriberCounts(), [f"https://example.com/{number}" for number in range(10)]
    counts.record_read(feeds[4], reader(5), "first-4/1", NOW)
    for number, target in enumerate(feeds):
        if number != 4:
            counts.record_read(target, reader(number + 1), f"first-{number}/1", NOW + DAY)

    writing = asyncio.ensure_future(counts.dump())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not writing.done()
    counts.record_read(feeds[0], reader(100), "late/1", NOW + DAY)  # written already
    counts.record_read(feeds[9], reader(101), "late/1", NOW + DAY)  # not yet
    counts.record_read("https://example.com/new", reader(102), "late/1", NOW + DAY)
    counts.prune(NOW + DAY)  # feed 4 is gone
    counts.record_read(feeds[8], reader(9), "first-8/1", NOW + DAY)  # the same reader again
    again = SubscriberCounts()
    again.load(await writing, NOW + DAY)

    assert again.targets() == [*feeds[:4], *feeds[5:]]
    assert [again.total(target, NOW + DAY) for target in feeds] == [1, 1, 1, 1, 0, 1, 1, 1, 1, 2]
    assert again.view(feeds[9], NOW + DAY).readers == (("first-9", 1), ("late", 1))
    assert counts.total(feeds[0], NOW + DAY) == 2
    assert "https://example.com/new" in counts.targets()


async def test_dump_during_reuse_of_product_number_keeps_readers_with_their_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step_by_step(monkeypatch)
    counts = SubscriberCounts()
    counts.record_read("https://example.com/a", reader(1), "alpha/1", NOW)
    for number in range(NAMES_MAX):
        counts.record_read("https://example.com/b", reader(number + 2), f"name-{number}/1", NOW)

    writing = asyncio.ensure_future(counts.dump())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not writing.done()
    counts.record_read("https://example.com/a", reader(1), "name-0/1", NOW)  # no reader has alpha now
    counts.record_read("https://example.com/b", reader(3), "omega/1", NOW)  # which takes alpha's number
    again = SubscriberCounts()
    again.load(await writing, NOW)

    assert again.view("https://example.com/a", NOW).readers == (("alpha", 1),)
    assert again.total("https://example.com/b", NOW) == NAMES_MAX
    assert "alpha" not in dict(again.view("https://example.com/b", NOW).readers)
    assert "omega" in dict(counts.view("https://example.com/b", NOW).readers)


def test_unrequested_feed_stays_packed_and_is_dumped_unchanged() -> None:
    before, after = a_busy_day(), SubscriberCounts()
    after.load(dumped(before), NOW + 400)

    assert all(feed.packed for feed in after._feeds.values())
    assert dumped(after) == dumped(before)
    for target in before.targets():
        assert after.count_recent(target, NOW + 100) == before.count_recent(target, NOW + 100)
        assert after.last_read(target) == before.last_read(target)
    assert all(feed.packed for feed in after._feeds.values())

    for counts in (before, after):
        counts.record_read("https://example.com/3", reader(7), "curl/8", NOW + 401)
    assert not after._feeds["https://example.com/3"].packed
    assert dumped(after) == dumped(before)


async def test_readers_and_rhythms_are_forgotten_without_further_requests() -> None:
    counts = SubscriberCounts(window=DAY)
    for number in range(3 * EXPIRED_BATCH):
        counts.record_read(f"{FEED}?{number % 50}", reader(number), "Reader/1", NOW)
    await counts.sweep(NOW + DAY / 2)
    assert len(counts.targets()) == len(counts.rhythms) == 50

    await counts.sweep(NOW + 1.1 * DAY)

    assert counts.targets() == counts.rhythms.targets() == []


def test_full_sample_represents_the_readers_of_all_machines() -> None:
    def weight(counts: SubscriberCounts) -> float:
        for number in range(READERS_MAX):
            counts.rhythms.record(FEED, reader(number), NOW - 3600)
            counts.record_read(FEED, reader(number), "Reader/1", NOW)
        audience = FeedAudience(FEED, NOW, counts, lambda *_: 0)
        return sum(poll.weight for poll in audience.expected_polls(NOW + DAY))

    alone = weight(SubscriberCounts())

    assert weight(SubscriberCounts(sum_with_peers=lambda _: (READERS_MAX + 100, 0))) == pytest.approx(
        alone * (READERS_MAX + 100) / READERS_MAX
    )


def test_counts_of_a_feed_with_one_reader_take_at_most_700_bytes() -> None:
    counts, client = SubscriberCounts(), Pseudonym(2**59 + 1, 2**58 + 1, 2**57 + 1)
    feeds = [f"https://{number}.example/feed.xml" for number in range(2000)]

    taken = traced(counts, [(feed, client, "curl/8", NOW + later) for later in (0, 60) for feed in feeds])

    assert taken <= 700 * len(feeds)


def test_single_reader_is_counted_as_one_of_several_readers_is() -> None:
    counts, first, second = SubscriberCounts(), reader(1), reader(2)
    renewed = Pseudonym(reader(3).current, first.current)

    counts.record_read(FEED, first, "curl/8", NOW)
    counts.record_read(FEED, renewed, "Miniflux/2.2.0", NOW + 60)
    alone = counts.view(FEED, NOW + 60).readers
    counts.record_read(FEED, second, "curl/8", NOW + 120)
    counts.record_read(FEED, renewed, "Miniflux/2.2.0", NOW + 180)
    restarted = SubscriberCounts()
    restarted.load(dumped(counts), NOW + 180)

    assert alone == (("Miniflux", 1),)
    for found in (counts, restarted):
        assert found.view(FEED, NOW + 180).readers == (("Miniflux", 1), ("curl", 1))
        assert found.last_read(FEED) == NOW + 180
        found.prune(NOW + 120 + DAY)
        assert found.view(FEED, NOW + 120 + DAY).readers == (("Miniflux", 1),)


async def test_counts_are_swept_an_hour_after_a_restart() -> None:
    """`load` has checked all readers."""
    counts = SubscriberCounts(window=DAY)
    counts.record_read(FEED, reader(1), "Reader/1", NOW)
    loaded = SubscriberCounts(window=DAY)
    loaded.load(await counts.dump(), NOW)
    loaded.rhythms.load(await counts.rhythms.dump(), NOW)

    await loaded.sweep(NOW + 1)
    assert (loaded._pruned, loaded.rhythms._swept) == (NOW, NOW)

    await loaded.sweep(NOW + DAY / 24)
    assert (loaded._pruned, loaded.rhythms._swept) == (NOW + DAY / 24, NOW + DAY / 24)
