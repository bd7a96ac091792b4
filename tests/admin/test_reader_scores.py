"""The readers page, and live scores of one worker and of several."""

import dataclasses
import functools
import gc
import tracemalloc
from collections.abc import Sequence

from feedproxy.feed.channel import Channel, Kind, Schedule
from feedproxy.http.message import Fields
from feedproxy.scoring import account_serialization
from feedproxy.scoring.live_scores import FEED_BYTES, LiveScores
from feedproxy.scoring.reader_accounts import ReaderAccount
from feedproxy.scoring.scored_request import Poll, cached_content
from feedproxy.telemetry.metrics_aggregation import PeerReports
from feedproxy.workers.worker_messages import WorkerPeers
from tests.stages.admin import NOW, TARGET, Proxy
from tests.stages.scores import scores_of

CHANNEL = Channel(Kind.RSS, "2.0", well_formed=True, schedule=Schedule(ttl=60))


def _poll(number: int, at: float, agent: str, *lines: tuple[str, str], status: int = 200, target: str = TARGET) -> Poll:
    request_fields = Fields([("User-Agent", agent), *lines])
    answer = Fields([("ETag", '"1"')])
    content = cached_content(CHANNEL.schedule, status)
    return Poll(number, at, target, request_fields, status, answer, content, size=0 if status == 304 else 5000)


def _answered(at: float, target: str, request_fields: Fields, answer: Fields, number: int) -> Poll:
    content = cached_content(CHANNEL.schedule, 200)
    return Poll(number, at, target, request_fields, 200, answer, content, size=5000)


def _record_poll(
    live_scores: LiveScores, address: str, agent: str, at: float, *lines: tuple[str, str], status: int = 200
) -> None:
    live_scores.record(address, agent, TARGET, at, lambda number: _poll(number, at, agent, *lines, status=status))


async def test_readers_page_lists_lowest_grade_first_with_cost(proxy: Proxy) -> None:
    live_scores = proxy.app.live_scores
    good, gzip = "Good/1 (+https://example.com/good)", ("Accept-Encoding", "gzip")
    for hour in range(4):
        tag = [("If-None-Match", '"1"')] if hour else []
        _record_poll(live_scores, "192.0.2.1", good, NOW + 4000 * hour, gzip, *tag, status=304 if hour else 200)
        _record_poll(live_scores, "192.0.2.2", "curl/8.0", NOW + 600 * hour)

    view = await proxy.json("/readers")
    status, page = await proxy.get("/readers")

    assert [reader["user_agent"] for reader in view["readers"]] == ["curl/8.0", good]
    assert view["readers"][1]["grade"] == 100
    assert view["readers"][0]["cost"]["bytes_in_vain"] == 15_000
    assert view["total"] == {"requests": 8, "bytes": 25_000, "bytes_in_vain": 15_000, "not_modified": 3}
    assert {"unconditional-repeat", "polled-within-ttl"} <= {
        finding["id"] for finding in view["readers"][0]["findings"]
    }
    assert status == 200
    assert "unconditional-repeat" in page
    assert "192.0.2" not in page + str(view), "addresses are hashed"


async def test_readers_page_without_readers_says_so(proxy: Proxy) -> None:
    _, page = await proxy.get("/readers")

    assert "No feed has been requested yet" in page


async def test_readers_page_escapes_user_agent(proxy: Proxy) -> None:
    _record_poll(proxy.app.live_scores, "192.0.2.1", "<script>alert(1)</script>", NOW)

    _, page = await proxy.get("/readers")

    assert "<script>" not in page
    assert "&lt;script" in page


def test_live_scores_keep_readers_until_two_days_without_requests() -> None:
    live_scores = LiveScores(2)
    for number in range(5):
        _record_poll(live_scores, f"192.0.2.{number}", "A/1", NOW)
    assert len(live_scores) == 2

    _record_poll(live_scores, "192.0.2.9", "A/1", NOW + 3 * 86_400)
    assert len(live_scores) == 1


def test_live_scores_of_size_zero_score_no_reader() -> None:
    live_scores = LiveScores()

    def never(number: int) -> Poll:
        raise AssertionError

    live_scores.record("192.0.2.1", "A/1", TARGET, NOW, never)
    assert scores_of(live_scores, NOW) == []


def test_live_scores_of_busy_reader_are_bounded() -> None:
    live_scores = LiveScores(1)
    for number in range(3000):
        at, target = NOW + 60 * number, f"https://example.com/{number % 100}"
        live_scores.record("192.0.2.1", "A/1", target, at, lambda n, at=at, t=target: _poll(n, at, "A/1", target=t))  # type: ignore[misc]

    (score,) = scores_of(live_scores, NOW + 1e6)
    assert len(score.feeds) <= 50
    assert all(len(found.requests) <= 3 * 50 for found in score.findings)
    assert dataclasses.asdict(score.cost)["requests"] <= 3000


def test_live_scores_of_changing_feed_stay_within_feed_bytes() -> None:
    feeds = 50

    def ask(live_scores: LiveScores, version: int) -> None:
        at, request_fields = NOW + 600 * version, Fields([("User-Agent", "A/1")])
        for number in range(feeds):
            target = f"https://example.com/{number}"
            answer = Fields([("ETag", f'"{number}-{version}-{"x" * 600}"'), ("Last-Modified", f"{number}, {version}")])
            poll = functools.partial(_answered, at, target, request_fields, answer)
            live_scores.record("192.0.2.1", "A/1", target, at, poll)

    ask(LiveScores(1), 0)  # creates what all readers share
    live_scores = LiveScores(1)
    tracemalloc.start()
    try:
        for version in range(100):
            ask(live_scores, version)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held / feeds < FEED_BYTES


def test_live_scores_of_many_readers_stay_within_bytes_max() -> None:
    live_scores = LiveScores(20, bytes_max=200 * FEED_BYTES)
    for reader in range(40):
        for number in range(60):
            target, address = f"https://example.com/{number}", f"192.0.{reader}.1"
            live_scores.record(address, "A/1", target, NOW, lambda n, t=target: _poll(n, NOW, "A/1", target=t))  # type: ignore[misc]

    accounts = list(live_scores.accounts())
    counts = [len(account.feeds) for account in accounts]
    assert counts == [50, 50, *[5] * 18]
    assert sum(counts) == live_scores.feeds <= 200


def test_live_scores_with_little_memory_keep_fewer_readers() -> None:
    live_scores = LiveScores(200, bytes_max=10 * FEED_BYTES)
    for reader in range(40):
        live_scores.record(f"192.0.{reader}.1", "A/1", TARGET, NOW, lambda n: _poll(n, NOW, "A/1"))

    assert len(live_scores) == live_scores.feeds == 5


def test_live_scores_with_replaced_readers_stay_within_bytes_max() -> None:
    live_scores = LiveScores(2, bytes_max=8 * FEED_BYTES)
    for at in (NOW, NOW + 3 * 86_400, NOW + 3 * 86_400 + 60):
        for number in range(10):
            target, address = f"https://example.com/{number}", f"192.0.2.{at % 7}"
            live_scores.record(address, "A/1", target, at, lambda n, a=at, t=target: _poll(n, a, "A/1", target=t))  # type: ignore[misc]

    assert live_scores.feeds == sum(len(account.feeds) for account in live_scores.accounts()) <= 8


def test_live_scores_of_a_reader_keep_first_fifty_feeds_until_they_get_no_requests() -> None:
    live_scores = LiveScores(1)
    scored: list[str] = []

    def ask(number: int, at: float) -> None:
        target = f"https://example.com/{number}"

        def poll(count: int) -> Poll:
            scored.append(target)
            return _poll(count, at, "A/1", target=target)

        live_scores.record("192.0.2.1", "A/1", target, at, poll)

    for number in range(60):
        ask(number, NOW + number)
    assert scored == [f"https://example.com/{number}" for number in range(50)]

    ask(0, NOW + 60)
    assert scored[-1] == "https://example.com/0"
    silent_at = NOW + 1 + 2 * 86_400
    ask(55, silent_at - 5)
    assert scored[-1] == "https://example.com/0", "there is no room for it yet"
    ask(55, silent_at + 60)
    assert scored[-1] == "https://example.com/55", "who has been silent for two days makes way, a minute later at most"


def test_live_scores_reconsider_unscored_reader_after_a_minute() -> None:
    live_scores = LiveScores(1)
    _record_poll(live_scores, "192.0.2.1", "A/1", NOW)
    _record_poll(live_scores, "192.0.2.2", "B/1", NOW + 2 * 86_400 - 5)
    assert [score.user_agent for score in scores_of(live_scores, NOW)] == ["A/1"]

    _record_poll(live_scores, "192.0.2.2", "B/1", NOW + 2 * 86_400 + 60)
    assert [score.user_agent for score in scores_of(live_scores, NOW)] == ["B/1"], (
        "the first has been silent for two days"
    )


def test_live_scores_of_partial_worker_accept_unknown_tags() -> None:
    found = []
    for partial in (False, True):
        live_scores = LiveScores(1, partial=partial)
        agent = "Good/1 (+https://example.com/good)"
        _record_poll(live_scores, "192.0.2.1", agent, NOW)
        _record_poll(live_scores, "192.0.2.1", agent, NOW + 4000, ("If-None-Match", '"of another worker"'))
        (score,) = scores_of(live_scores, NOW + 4000)
        found.append("unknown-etag" in {finding.note.id() for finding in score.findings})

    assert found == [True, False]


# -- several workers

GOOD = "Good/1 (+https://example.com/good)"
GZIP = ("Accept-Encoding", "gzip")
SAME = ("If-None-Match", '"1"')
KEY = b"k" * 32


class OtherWorker(WorkerPeers):
    """Another worker, with its accounts serialized and parsed."""

    def __init__(self, live_scores: LiveScores) -> None:
        self._accounts = live_scores.accounts

    async def reports(self) -> PeerReports:
        return PeerReports()

    async def send_reads(self) -> None: ...

    async def close(self) -> None: ...

    async def readers(self) -> Sequence[ReaderAccount]:
        return [
            account_serialization.load_account(account_serialization.dump_account(account))
            for account in self._accounts()
        ]


def _of_two(proxy: Proxy) -> tuple[LiveScores, LiveScores]:
    own, peer = proxy.app.live_scores, LiveScores(proxy.app.live_scores.size)
    own.join_workers(0, 2, KEY)
    peer.join_workers(1, 2, KEY)
    proxy.app.parts.worker_peers = OtherWorker(peer)
    return own, peer


async def test_accounts_of_a_reader_at_several_workers_are_added_up(proxy: Proxy) -> None:
    own, peer = _of_two(proxy)
    for number in range(6):
        _record_poll((own, peer)[number % 2], "192.0.2.1", "curl/8.0", NOW + 600 * number)
    _record_poll(peer, "192.0.2.2", GOOD, NOW, GZIP)

    view = await proxy.json("/readers")
    _, page = await proxy.get("/readers")

    curl, good = view["readers"]
    assert (curl["user_agent"], good["user_agent"], view["followed"]) == ("curl/8.0", GOOD, 2)
    assert curl["cost"] == {"requests": 6, "bytes": 30_000, "not_modified": 0, "bytes_in_vain": 20_000}
    assert curl["feeds"][0]["interval"] == 600
    rules = {rule["rule"]: (rule["chances"], rule["broken"]) for rule in curl["rules"]}
    assert rules["conditions"] == (4, 4), "the first at each worker is held against nobody"
    assert rules["coding"] == (6, 6)
    counts = {finding["id"]: finding["count"] for finding in curl["findings"]}
    assert counts["unconditional-repeat"] == 4
    weights = {rule["rule"]: rule["weight"] for rule in curl["rules"]}
    kept = sum(weight * (1 - rules[rule][1] / rules[rule][0]) for rule, weight in weights.items())
    assert curl["grade"] == int(100 * kept / sum(weights.values()) + 1e-9), "by the formula in the docs"
    assert "curl/8.0" in page
    assert view["total"]["requests"] == 7


async def test_evidence_of_several_workers_is_merged_with_unique_numbers(proxy: Proxy) -> None:
    own, peer = _of_two(proxy)
    for number in range(8):
        _record_poll((own, peer)[number % 2], "192.0.2.1", "curl/8.0", NOW + 600 * number)

    (reader,) = (await proxy.json("/readers"))["readers"]

    (found,) = [finding for finding in reader["findings"] if finding["id"] == "compression-not-accepted"]
    numbers = [request["number"] for request in found["requests"]]
    assert found["count"] == 8
    assert len(numbers) == len(set(numbers)) == 3
    assert {number % 2 for number in numbers} == {0, 1}
    assert [request["at"] for request in found["requests"]] == sorted(request["at"] for request in found["requests"])


async def test_worst_reader_of_all_workers_is_on_first_page(proxy: Proxy) -> None:
    _, peer = _of_two(proxy)
    for number in range(4):
        _record_poll(peer, "192.0.2.1", "Elsewhere/1", NOW + 60 * number)

    _, page = await proxy.get("/")

    assert "Elsewhere/1" in page


async def test_positive_findings_of_workers_are_limited_to_single_request_rules(proxy: Proxy) -> None:
    """Each worker receives every second half-hourly poll. Alone, no poll violates the ttl of an hour."""
    own, peer = _of_two(proxy)
    for number in range(8):
        live_scores = (own, peer)[number % 2]
        _record_poll(
            live_scores, "192.0.2.1", GOOD, NOW + 100 + 1800 * number, GZIP, *[SAME] * (number > 0), status=304
        )
    alone = {note.note.id() for score in scores_of(own, NOW) for note in score.findings}

    (reader,) = (await proxy.json("/readers"))["readers"]

    found = {finding["id"] for finding in reader["findings"]}
    assert "polled-when-due" in alone
    assert "polled-when-due" not in found
    assert "validators-returned" not in found
    assert {"compression-accepted", "user-agent-names-reader"} <= found


async def test_polls_on_the_hour_at_several_workers_are_added_up(proxy: Proxy) -> None:
    own, peer = _of_two(proxy)
    hour = NOW - NOW % 3600
    for number in range(6):
        live_scores = (own, peer)[number % 2]
        _record_poll(live_scores, "192.0.2.1", GOOD, hour + 7200 * number, GZIP, *[SAME] * (number > 0), status=304)
    assert "polled-on-the-hour" not in {note.note.id() for score in scores_of(own, NOW) for note in score.findings}

    (reader,) = (await proxy.json("/readers"))["readers"]

    (found,) = [finding for finding in reader["findings"] if finding["id"] == "polled-on-the-hour"]
    assert found["count"] == 6


def test_account_round_trip_preserves_values() -> None:
    live_scores = LiveScores(1)
    for number in range(8):
        _record_poll(
            live_scores,
            "192.0.2.1",
            "curl/8.0 \udcff",
            NOW - NOW % 3600 + 3600 * number,
            status=410 if number > 3 else 200,
        )
    (account,) = live_scores.accounts()

    again = account_serialization.load_account(account_serialization.dump_account(account))

    assert again.identity == account.identity
    assert account_serialization.dump_account(again) == account_serialization.dump_account(account)
    assert again.feeds[0].tallies == account.feeds[0].tallies
    assert again.feeds[0].ended == NOW - NOW % 3600 + 7 * 3600


def _find_partial_and_whole(*polls: Poll) -> list[set[str]]:
    found = []
    for partial in (True, False):
        live_scores = LiveScores(1, partial=partial)
        for poll in polls:
            live_scores.record("192.0.2.1", GOOD, poll.target, poll.at, lambda _, poll=poll: poll)  # type: ignore[misc]
        (score,) = scores_of(live_scores, polls[-1].at)
        found.append({finding.note.id() for finding in score.findings})
    return found


def test_partial_worker_ignores_adoption_of_temporary_redirect() -> None:
    other_target = "https://example.com/elsewhere"
    redirects = [_redirect(number, NOW + 4000 * number, other_target) for number in (1, 3)]
    polls = (
        redirects[0],
        _poll(2, NOW + 4001, GOOD, target=other_target),
        redirects[1],
        _poll(4, NOW + 12_001, GOOD, target=other_target),
        _poll(5, NOW + 20_000, GOOD, target=other_target),
    )

    partial_findings, all_findings = _find_partial_and_whole(*polls)

    assert "temporary-move-adopted" in all_findings
    assert "temporary-move-adopted" not in partial_findings


def _redirect(number: int, at: float, location: str) -> Poll:
    request_fields = Fields([("User-Agent", GOOD)])
    return Poll(number, at, TARGET, request_fields, 302, Fields([("Location", location)]))


def test_partial_worker_accepts_return_of_gone_feed() -> None:
    ends = [_poll(number, NOW + 4000 * number, GOOD, status=410) for number in range(1, 5)]

    partial_findings, all_findings = _find_partial_and_whole(
        _poll(0, NOW, GOOD), *ends[:3], _poll(5, NOW + 90_000, GOOD, SAME, status=304)
    )
    ignored, _ = _find_partial_and_whole(_poll(0, NOW, GOOD), *ends)

    assert "gone-ignored" in all_findings
    assert "gone-ignored" not in partial_findings
    assert "gone-ignored" in ignored, "who asks on and is told so on is not let off"


def test_partial_worker_accepts_tag_newer_than_226() -> None:
    delta = _poll(1, NOW, GOOD, status=226)

    partial_findings, all_findings = _find_partial_and_whole(
        delta, _poll(2, NOW + 4000, GOOD, ("If-None-Match", '"2"'))
    )

    assert "etag-of-226-not-returned" in all_findings
    assert "etag-of-226-not-returned" not in partial_findings
