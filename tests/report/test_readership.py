"""The page of readers: who polls how, judged while they read."""

import dataclasses

from feedproxy.feed.channel import Channel, Kind, Schedule
from feedproxy.http.message import Fields
from feedproxy.readers.score.panel import Panel
from feedproxy.readers.score.poll import Poll
from feedproxy.report.readership import poll_of
from tests.stages.admin import NOW, TARGET, Proxy

CHANNEL = Channel(Kind.RSS, "2.0", well_formed=True, schedule=Schedule(ttl=60))


def _poll(number: int, at: float, agent: str, *lines: tuple[str, str], status: int = 200, target: str = TARGET) -> Poll:
    asked = Fields([("User-Agent", agent), *lines])
    answer = Fields([("ETag", '"1"')])
    return poll_of(number, at, target, asked, status, answer, CHANNEL, 0 if status == 304 else 5000)


def _seen(panel: Panel, address: str, agent: str, at: float, *lines: tuple[str, str], status: int = 200) -> None:
    panel.see(address, agent, TARGET, at, lambda number: _poll(number, at, agent, *lines, status=status))


async def test_the_worst_reader_comes_first_with_what_it_costs(proxy: Proxy) -> None:
    panel = proxy.runtime.panel
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


async def test_before_anybody_reads_the_page_says_so(proxy: Proxy) -> None:
    _, page = await proxy.get("/readers")

    assert "Nobody has asked for a feed yet" in page


async def test_what_a_reader_calls_itself_is_escaped(proxy: Proxy) -> None:
    _seen(proxy.runtime.panel, "192.0.2.1", "<script>alert(1)</script>", NOW)

    _, page = await proxy.get("/readers")

    assert "<script>" not in page
    assert "&lt;script" in page


def test_a_full_panel_follows_whom_it_has_until_they_are_silent_for_two_days() -> None:
    panel = Panel(2)
    for number in range(5):
        _seen(panel, f"192.0.2.{number}", "A/1", NOW)
    assert len(panel) == 2

    _seen(panel, "192.0.2.9", "A/1", NOW + 3 * 86_400)
    assert len(panel) == 1


def test_a_panel_of_size_nothing_makes_nothing_of_anybody() -> None:
    panel = Panel()

    def never(number: int) -> Poll:
        raise AssertionError

    panel.see("192.0.2.1", "A/1", TARGET, NOW, never)
    assert panel.scores(NOW) == []


def test_a_reader_that_asks_for_years_takes_no_more_memory() -> None:
    panel = Panel(1)
    for number in range(3000):
        at, target = NOW + 60 * number, f"https://example.com/{number % 100}"
        panel.see("192.0.2.1", "A/1", target, at, lambda n, at=at, t=target: _poll(n, at, "A/1", target=t))  # type: ignore[misc]

    (score,) = panel.scores(NOW + 1e6)
    assert len(score.feeds) <= 50
    assert all(len(found.requests) <= 3 * 50 for found in score.findings)
    assert dataclasses.asdict(score.cost)["requests"] <= 3000


def test_of_a_reader_of_many_feeds_the_first_fifty_are_followed_until_they_are_silent() -> None:
    panel = Panel(1)
    judged: list[str] = []

    def ask(number: int, at: float) -> None:
        target = f"https://example.com/{number}"

        def poll(count: int) -> Poll:
            judged.append(target)
            return _poll(count, at, "A/1", target=target)

        panel.see("192.0.2.1", "A/1", target, at, poll)

    for number in range(60):
        ask(number, NOW + number)
    assert judged == [f"https://example.com/{number}" for number in range(50)]

    ask(0, NOW + 60)
    assert judged[-1] == "https://example.com/0"
    ask(55, NOW + 3 * 86_400)
    assert judged[-1] == "https://example.com/55", "who has been silent for two days makes way"


def test_for_whom_there_was_no_room_is_looked_at_again_in_a_minute() -> None:
    panel = Panel(1)
    _seen(panel, "192.0.2.1", "A/1", NOW)
    _seen(panel, "192.0.2.2", "B/1", NOW + 2 * 86_400 - 5)
    assert [each.user_agent for each in panel.scores(NOW)] == ["A/1"]

    _seen(panel, "192.0.2.2", "B/1", NOW + 2 * 86_400 + 60)
    assert [each.user_agent for each in panel.scores(NOW)] == ["B/1"], "the first has been silent for two days"


def test_what_a_reader_may_have_from_another_worker_is_not_held_against_it() -> None:
    found = []
    for partial in (False, True):
        panel = Panel(1, partial=partial)
        agent = "Good/1 (+https://example.com/good)"
        _seen(panel, "192.0.2.1", agent, NOW)
        _seen(panel, "192.0.2.1", agent, NOW + 4000, ("If-None-Match", '"of another worker"'))
        (score,) = panel.scores(NOW + 4000)
        found.append("invented-tag" in {each.note.id() for each in score.findings})

    assert found == [True, False]
