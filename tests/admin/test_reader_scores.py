"""The page of readers: who polls how, judged while they read."""

import dataclasses
import functools
import gc
import tracemalloc
from collections.abc import Sequence

from feedproxy.admin.reader_scores import poll_of
from feedproxy.feed.channel import Channel, Kind, Schedule
from feedproxy.http.message import Fields
from feedproxy.scoring import serialization
from feedproxy.scoring.aggregate import ReaderAccount
from feedproxy.scoring.live_scores import FEED_BYTES, LiveScores
from feedproxy.scoring.scored_request import Poll
from feedproxy.telemetry.aggregation import NoPeers
from tests.stages.admin import NOW, TARGET, Proxy

CHANNEL = Channel(Kind.RSS, "2.0", well_formed=True, schedule=Schedule(ttl=60))


def _poll(number: int, at: float, agent: str, *lines: tuple[str, str], status: int = 200, target: str = TARGET) -> Poll:
    asked = Fields([("User-Agent", agent), *lines])
    answer = Fields([("ETag", '"1"')])
    return poll_of(number, at, target, asked, status, answer, CHANNEL.schedule, 0 if status == 304 else 5000)


def _answered(at: float, target: str, asked: Fields, answer: Fields, number: int) -> Poll:
    return poll_of(number, at, target, asked, 200, answer, CHANNEL.schedule, 5000)


def _seen(panel: LiveScores, address: str, agent: str, at: float, *lines: tuple[str, str], status: int = 200) -> None:
    panel.record(address, agent, TARGET, at, lambda number: _poll(number, at, agent, *lines, status=status))


async def test_readers_page_lists_lowest_grade_first_with_cost(proxy: Proxy) -> None:
    panel = proxy.runtime.live_scores
    good, gzip = "Good/1 (+https://example.com/good)", ("Accept-Encoding", "gzip")
    for hour in range(4):
        tag = [("If-None-Match", '"1"')] if hour else []
        _seen(panel, "192.0.2.1", good, NOW + 4000 * hour, gzip, *tag, status=304 if hour else 200)
        _seen(panel, "192.0.2.2", "curl/8.0", NOW + 600 * hour)

    view = await proxy.json("/readers")
    status, page = await proxy.get("/readers")

    assert [each["user_agent"] for each in view["readers"]] == ["curl/8.0", good]
    assert view["readers"][1]["grade"] == 100
    assert view["readers"][0]["cost"]["bytes_in_vain"] == 15_000
    assert view["total"] == {"requests": 8, "bytes": 25_000, "bytes_in_vain": 15_000, "not_modified": 3}
    assert {"unconditional-repeat", "polled-within-ttl"} <= {each["id"] for each in view["readers"][0]["findings"]}
    assert status == 200
    assert "unconditional-repeat" in page
    assert "192.0.2" not in page + str(view), "addresses are hashed"


async def test_readers_page_without_readers_says_so(proxy: Proxy) -> None:
    _, page = await proxy.get("/readers")

    assert "No feed has been requested yet" in page


async def test_readers_page_escapes_user_agent(proxy: Proxy) -> None:
    _seen(proxy.runtime.live_scores, "192.0.2.1", "<script>alert(1)</script>", NOW)

    _, page = await proxy.get("/readers")

    assert "<script>" not in page
    assert "&lt;script" in page


def test_live_scores_keep_readers_until_silent_for_two_days() -> None:
    panel = LiveScores(2)
    for number in range(5):
        _seen(panel, f"192.0.2.{number}", "A/1", NOW)
    assert len(panel) == 2

    _seen(panel, "192.0.2.9", "A/1", NOW + 3 * 86_400)
    assert len(panel) == 1


def test_live_scores_of_size_zero_score_no_reader() -> None:
    panel = LiveScores()

    def never(number: int) -> Poll:
        raise AssertionError

    panel.record("192.0.2.1", "A/1", TARGET, NOW, never)
    assert panel.scores(NOW) == []


def test_live_scores_of_busy_reader_are_bounded() -> None:
    panel = LiveScores(1)
    for number in range(3000):
        at, target = NOW + 60 * number, f"https://example.com/{number % 100}"
        panel.record("192.0.2.1", "A/1", target, at, lambda n, at=at, t=target: _poll(n, at, "A/1", target=t))  # type: ignore[misc]

    (score,) = panel.scores(NOW + 1e6)
    assert len(score.feeds) <= 50
    assert all(len(found.requests) <= 3 * 50 for found in score.findings)
    assert dataclasses.asdict(score.cost)["requests"] <= 3000


def test_live_scores_of_changing_feed_stay_within_feed_bytes() -> None:
    feeds = 50

    def ask(panel: LiveScores, version: int) -> None:
        at, asked = NOW + 600 * version, Fields([("User-Agent", "A/1")])
        for number in range(feeds):
            target = f"https://example.com/{number}"
            answer = Fields([("ETag", f'"{number}-{version}-{"x" * 600}"'), ("Last-Modified", f"{number}, {version}")])
            poll = functools.partial(_answered, at, target, asked, answer)
            panel.record("192.0.2.1", "A/1", target, at, poll)

    ask(LiveScores(1), 0)  # what is made once for all panels
    panel = LiveScores(1)
    tracemalloc.start()
    try:
        for version in range(100):
            ask(panel, version)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held / feeds < FEED_BYTES


def test_live_scores_of_many_readers_stay_within_bytes_max() -> None:
    panel = LiveScores(20, bytes_max=200 * FEED_BYTES)
    for reader in range(40):
        for number in range(60):
            target, address = f"https://example.com/{number}", f"192.0.{reader}.1"
            panel.record(address, "A/1", target, NOW, lambda n, t=target: _poll(n, NOW, "A/1", target=t))  # type: ignore[misc]

    accounts = list(panel.accounts())
    counts = [len(each.feeds) for each in accounts]
    assert counts == [50, 50, *[5] * 18]
    assert sum(counts) == panel.feeds <= 200


def test_live_scores_with_little_memory_keep_fewer_readers() -> None:
    panel = LiveScores(200, bytes_max=10 * FEED_BYTES)
    for reader in range(40):
        panel.record(f"192.0.{reader}.1", "A/1", TARGET, NOW, lambda n: _poll(n, NOW, "A/1"))

    assert len(panel) == panel.feeds == 5


def test_live_scores_drop_silent_readers_for_others() -> None:
    panel = LiveScores(2, bytes_max=8 * FEED_BYTES)
    for at in (NOW, NOW + 3 * 86_400, NOW + 3 * 86_400 + 60):
        for number in range(10):
            target, address = f"https://example.com/{number}", f"192.0.2.{at % 7}"
            panel.record(address, "A/1", target, at, lambda n, a=at, t=target: _poll(n, a, "A/1", target=t))  # type: ignore[misc]

    assert panel.feeds == sum(len(each.feeds) for each in panel.accounts()) <= 8


def test_live_scores_keep_first_fifty_feeds_until_silent() -> None:
    panel = LiveScores(1)
    judged: list[str] = []

    def ask(number: int, at: float) -> None:
        target = f"https://example.com/{number}"

        def poll(count: int) -> Poll:
            judged.append(target)
            return _poll(count, at, "A/1", target=target)

        panel.record("192.0.2.1", "A/1", target, at, poll)

    for number in range(60):
        ask(number, NOW + number)
    assert judged == [f"https://example.com/{number}" for number in range(50)]

    ask(0, NOW + 60)
    assert judged[-1] == "https://example.com/0"
    silent_at = NOW + 1 + 2 * 86_400
    ask(55, silent_at - 5)
    assert judged[-1] == "https://example.com/0", "there is no room for it yet"
    ask(55, silent_at + 60)
    assert judged[-1] == "https://example.com/55", "who has been silent for two days makes way, a minute later at most"


def test_live_scores_reconsider_unscored_reader_after_a_minute() -> None:
    panel = LiveScores(1)
    _seen(panel, "192.0.2.1", "A/1", NOW)
    _seen(panel, "192.0.2.2", "B/1", NOW + 2 * 86_400 - 5)
    assert [each.user_agent for each in panel.scores(NOW)] == ["A/1"]

    _seen(panel, "192.0.2.2", "B/1", NOW + 2 * 86_400 + 60)
    assert [each.user_agent for each in panel.scores(NOW)] == ["B/1"], "the first has been silent for two days"


def test_live_scores_of_partial_worker_accept_unknown_tags() -> None:
    found = []
    for partial in (False, True):
        panel = LiveScores(1, partial=partial)
        agent = "Good/1 (+https://example.com/good)"
        _seen(panel, "192.0.2.1", agent, NOW)
        _seen(panel, "192.0.2.1", agent, NOW + 4000, ("If-None-Match", '"of another worker"'))
        (score,) = panel.scores(NOW + 4000)
        found.append("invented-tag" in {each.note.id() for each in score.findings})

    assert found == [True, False]


# -- several workers

GOOD = "Good/1 (+https://example.com/good)"
GZIP = ("Accept-Encoding", "gzip")
SAME = ("If-None-Match", '"1"')
KEY = b"k" * 32


class Other(NoPeers):
    """Another worker, which tells by wire what it knows of readers."""

    def __init__(self, panel: LiveScores) -> None:
        self._panel = panel

    async def readers(self) -> Sequence[ReaderAccount]:
        return [serialization.load_account(serialization.dump_account(each)) for each in self._panel.accounts()]


def _of_two(proxy: Proxy) -> tuple[LiveScores, LiveScores]:
    own, peer = proxy.runtime.live_scores, LiveScores(proxy.runtime.live_scores.size)
    own.join_workers(0, 2, KEY)
    peer.join_workers(1, 2, KEY)
    proxy.runtime.peer_metrics = Other(peer)
    return own, peer


async def test_workers_accounts_of_reader_are_added_up(proxy: Proxy) -> None:
    own, peer = _of_two(proxy)
    for number in range(6):
        _seen((own, peer)[number % 2], "192.0.2.1", "curl/8.0", NOW + 600 * number)
    _seen(peer, "192.0.2.2", GOOD, NOW, GZIP)

    view = await proxy.json("/readers")
    _, page = await proxy.get("/readers")

    curl, good = view["readers"]
    assert (curl["user_agent"], good["user_agent"], view["followed"]) == ("curl/8.0", GOOD, 2)
    assert curl["cost"] == {"requests": 6, "bytes": 30_000, "not_modified": 0, "bytes_in_vain": 20_000}
    assert curl["feeds"][0]["interval"] == 600
    rules = {each["rule"]: (each["chances"], each["broken"]) for each in curl["rules"]}
    assert rules["conditions"] == (4, 4), "the first at each worker is held against nobody"
    assert rules["coding"] == (6, 6)
    counts = {each["id"]: each["count"] for each in curl["findings"]}
    assert counts["unconditional-repeat"] == 4
    weights = {each["rule"]: each["weight"] for each in curl["rules"]}
    kept = sum(weight * (1 - rules[rule][1] / rules[rule][0]) for rule, weight in weights.items())
    assert curl["grade"] == int(100 * kept / sum(weights.values()) + 1e-9), "by the formula in the docs"
    assert "curl/8.0" in page
    assert view["total"]["requests"] == 7


async def test_workers_evidence_is_merged_with_unique_numbers(proxy: Proxy) -> None:
    own, peer = _of_two(proxy)
    for number in range(8):
        _seen((own, peer)[number % 2], "192.0.2.1", "curl/8.0", NOW + 600 * number)

    (reader,) = (await proxy.json("/readers"))["readers"]

    (found,) = [each for each in reader["findings"] if each["id"] == "no-compression"]
    numbers = [each["number"] for each in found["requests"]]
    assert found["count"] == 8
    assert len(numbers) == len(set(numbers)) == 3
    assert {number % 2 for number in numbers} == {0, 1}
    assert [each["at"] for each in found["requests"]] == sorted(each["at"] for each in found["requests"])


async def test_workers_worst_reader_is_on_first_page(proxy: Proxy) -> None:
    _, peer = _of_two(proxy)
    for number in range(4):
        _seen(peer, "192.0.2.1", "Elsewhere/1", NOW + 60 * number)

    _, page = await proxy.get("/")

    assert "Elsewhere/1" in page


async def test_workers_praise_is_limited_to_single_request_rules(proxy: Proxy) -> None:
    """Every half hour, and each worker sees every other poll: to each the hour of the ttl was kept."""
    own, peer = _of_two(proxy)
    for number in range(8):
        panel = (own, peer)[number % 2]
        _seen(panel, "192.0.2.1", GOOD, NOW + 100 + 1800 * number, GZIP, *[SAME] * (number > 0), status=304)
    alone = {note.note.id() for score in own.scores(NOW) for note in score.findings}

    (reader,) = (await proxy.json("/readers"))["readers"]

    found = {each["id"] for each in reader["findings"]}
    assert "keeps-pace" in alone
    assert "keeps-pace" not in found
    assert "asks-well" not in found
    assert {"takes-compression", "names-itself"} <= found


async def test_workers_polls_on_the_hour_are_counted_together(proxy: Proxy) -> None:
    own, peer = _of_two(proxy)
    hour = NOW - NOW % 3600
    for number in range(6):
        panel = (own, peer)[number % 2]
        _seen(panel, "192.0.2.1", GOOD, hour + 7200 * number, GZIP, *[SAME] * (number > 0), status=304)
    assert "on-the-hour" not in {note.note.id() for score in own.scores(NOW) for note in score.findings}

    (reader,) = (await proxy.json("/readers"))["readers"]

    (found,) = [each for each in reader["findings"] if each["id"] == "on-the-hour"]
    assert found["count"] == 6


def test_account_round_trip_preserves_values() -> None:
    panel = LiveScores(1)
    for number in range(8):
        _seen(
            panel, "192.0.2.1", "curl/8.0 \udcff", NOW - NOW % 3600 + 3600 * number, status=410 if number > 3 else 200
        )
    (account,) = panel.accounts()

    again = serialization.load_account(serialization.dump_account(account))

    assert again.identity == account.identity
    assert serialization.dump_account(again) == serialization.dump_account(account)
    assert again.feeds[0].tallies == account.feeds[0].tallies
    assert again.feeds[0].ended == NOW - NOW % 3600 + 7 * 3600


def _found_by_part_and_whole(*polls: Poll) -> list[set[str]]:
    found = []
    for partial in (True, False):
        panel = LiveScores(1, partial=partial)
        for each in polls:
            panel.record("192.0.2.1", GOOD, each.target, each.at, lambda _, each=each: each)  # type: ignore[misc]
        (score,) = panel.scores(polls[-1].at)
        found.append({each.note.id() for each in score.findings})
    return found


def test_partial_worker_ignores_adoption_of_temporary_redirect() -> None:
    elsewhere = "https://example.com/elsewhere"
    led = [_redirect(number, NOW + 4000 * number, elsewhere) for number in (1, 3)]
    polls = (
        led[0],
        _poll(2, NOW + 4001, GOOD, target=elsewhere),
        led[1],
        _poll(4, NOW + 12_001, GOOD, target=elsewhere),
        _poll(5, NOW + 20_000, GOOD, target=elsewhere),
    )

    part, whole = _found_by_part_and_whole(*polls)

    assert "temporary-move-adopted" in whole
    assert "temporary-move-adopted" not in part


def _redirect(number: int, at: float, location: str) -> Poll:
    asked = Fields([("User-Agent", GOOD)])
    return poll_of(number, at, TARGET, asked, 302, Fields([("Location", location)]), CHANNEL.schedule, 0)


def test_partial_worker_accepts_return_of_gone_feed() -> None:
    ends = [_poll(number, NOW + 4000 * number, GOOD, status=410) for number in range(1, 5)]

    part, whole = _found_by_part_and_whole(
        _poll(0, NOW, GOOD), *ends[:3], _poll(5, NOW + 90_000, GOOD, SAME, status=304)
    )
    ignored, _ = _found_by_part_and_whole(_poll(0, NOW, GOOD), *ends)

    assert "gone-ignored" in whole
    assert "gone-ignored" not in part
    assert "gone-ignored" in ignored, "who asks on and is told so on is not let off"


def test_partial_worker_accepts_tag_newer_than_226() -> None:
    delta = _poll(1, NOW, GOOD, status=226)

    part, whole = _found_by_part_and_whole(delta, _poll(2, NOW + 4000, GOOD, ("If-None-Match", '"2"')))

    assert "tag-of-226-unused" in whole
    assert "tag-of-226-unused" not in part
