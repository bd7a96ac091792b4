"""The demo: correct and reproducible figures, no files left behind, and a clean end."""

import asyncio
import contextlib
import json
import os
import pty
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from feedproxy import cli
from feedproxy.clock import ManualClock
from feedproxy.demo import publishers, simulated_readers, simulation
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.parse.channel_parser import read
from tests.live.forked import nurseries
from tests.live.product import COMMAND, Process
from tests.waiting import PATIENCE

SHORT = ("demo", "--days", "1", "--readers", "8")


@dataclass(frozen=True)
class Finished:
    """The result of a completed demo."""

    code: int
    stdout: str
    stderr: str
    home: Path


@pytest.fixture(scope="module")
def finished_demo(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Run one short demo as a user does, with its own home and temporary folder."""
    return demo(tmp_path_factory.mktemp("demo"), "--json")


def demo(folder: Path, *args: str) -> Finished:
    """Run a short demo in `folder`, with `folder / "home"` as its home and temporary folder."""
    process = Process([*COMMAND, *SHORT, *args], folder, environment(folder / "home"))
    stdout = process.rest()
    return Finished(process.wait(), stdout, process.said, folder / "home")


def environment(home: Path) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[1])
    home.mkdir()
    return {**os.environ, "PYTHONPATH": root, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def figures(finished_demo: Finished) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(finished_demo.stdout)
    return found


def test_demo_ends_without_errors(finished_demo: Finished) -> None:
    assert finished_demo.code == 0
    assert finished_demo.stderr == ""


def test_demo_answers_every_poll_in_both_runs(figures: dict[str, Any]) -> None:
    for performance in (figures["without"], figures["with"]):
        statuses = performance["readers"]["statuses"]
        assert sum(statuses.values()) == figures["polls"]
        assert set(statuses) <= {"200", "304"}
        assert performance["readers"]["failed"] == 0
    assert figures["without"]["origin"]["requests"] == figures["polls"]
    assert figures["errors"] == []


def test_demo_reduces_requests_and_bytes(figures: dict[str, Any]) -> None:
    without, through = figures["without"], figures["with"]
    assert through["origin"]["requests"] < without["origin"]["requests"] / 2
    assert through["origin"]["bytes"] < without["origin"]["bytes"] / 2
    assert through["readers"]["bytes"] < without["readers"]["bytes"]
    for name, feed in through["feeds"].items():
        assert feed["requests"] < without["feeds"][name]["requests"]


def test_demo_sends_no_request_in_skip_hours(figures: dict[str, Any]) -> None:
    assert figures["without"]["origin"]["in_skipped_hours"] > 0
    assert figures["with"]["origin"]["in_skipped_hours"] == 0


def test_demo_delays_are_mostly_due_to_hints(figures: dict[str, Any]) -> None:
    readers = figures["with"]["readers"]
    assert readers["missed_a_new_item"] / 2 < readers["missed_within_hints"] <= readers["missed_a_new_item"]
    assert figures["without"]["readers"]["missed_a_new_item"] == 0


def test_demo_user_agent_counts_all_subscribers(figures: dict[str, Any]) -> None:
    agents = [feed["last_user_agent"] for feed in figures["with"]["feeds"].values()]
    assert all(agent.startswith("feedproxy/") for agent in agents)
    assert any(" (123 subscribers; feed-id=" in agent for agent in agents), agents  # 120 claimed, 3 direct


def test_demo_with_same_seed_repeats_figures(figures: dict[str, Any], tmp_path: Path) -> None:
    again = json.loads(demo(tmp_path, "--json").stdout)
    assert counted(again) == counted(figures)


def test_demo_with_other_seed_changes_figures(figures: dict[str, Any], tmp_path: Path) -> None:
    other = json.loads(demo(tmp_path, "--json", "--seed", "2").stdout)
    assert counted(other) != counted(figures)


MEASURED = ("bytes", "usual", "slowest")


def counted(figures: dict[str, Any]) -> list[Any]:
    """Return the figures that do not depend on real time or on the order of concurrent polls."""
    return [
        [
            figures[name]["origin"],
            {key: value for key, value in figures[name]["readers"].items() if key not in MEASURED},
            {feed: its["requests"] for feed, its in figures[name]["feeds"].items()},
        ]
        for name in ("without", "with")
    ]


def test_demo_leaves_no_files(finished_demo: Finished) -> None:
    assert list(finished_demo.home.iterdir()) == []


@pytest.mark.parametrize("option", ["--readers", "--days"])
@pytest.mark.parametrize("value", ["0", "-1", "100000"])
def test_demo_option_out_of_range_is_rejected_in_one_line(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", option, value]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"feedproxy: {option} {value}: expected a number from 1 to ")
    assert said.count("\n") == 1


def test_demo_shows_progress_and_ends_on_interrupt(tmp_path: Path) -> None:
    terminal, child_terminal = pty.openpty()
    arguments = ["demo", "--days", "2", "--readers", "8"]
    with open(child_terminal, "wb") as stderr:
        process = nurseries["feedproxy"].start(arguments, environment(tmp_path / "home"), tmp_path, stderr)
    try:
        told = read_terminal(terminal)
        assert next(line for line in told if "through feedproxy: 1 %" in line)
        process.send_signal(signal.SIGINT)
        rest = "".join(told)
        assert process.wait(PATIENCE) == 130
        assert process.stdout.read() == ""
        assert rest.endswith("\r\x1b[Kfeedproxy: interrupted\r\n")
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(terminal)
        process.stdout.close()
    assert list((tmp_path / "home").iterdir()) == []


def read_terminal(terminal: int) -> Iterator[str]:
    """Yield output until the other end is closed."""
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 4096):
            yield data.decode()


# -- parts of the demo


async def test_demo_clock_waits_for_the_end_of_a_slow_refresh() -> None:
    """On a busy machine a refresh takes long. If the clock advanced meanwhile, the figures would be others."""
    clock = ManualClock(publishers.START)
    sleeper = asyncio.ensure_future(clock.sleep(10))
    await asyncio.sleep(0)
    in_progress = iter([True] * 1500)  # the clock is asked for about a second
    run = simulation._Run(clock, {}, {}, has_refreshes=lambda: next(in_progress, False))
    await run._advance(publishers.START + 20)
    assert next(in_progress, None) is None
    assert sleeper.done()


@pytest.mark.parametrize("number", range(4), ids=[profile.name for profile in publishers.PROFILES])
def test_publisher_feeds_are_parsed(number: int) -> None:
    feed = publishers.create_feeds(3, days=1)[number]
    version = feed.at(publishers.START)
    channel = read(version.body, FORMATS[feed.profile.format].media_type)
    assert channel is not None
    assert feed.find_version_number(version.body) == version.number
    assert version.since <= publishers.START


def test_publisher_feed_changes_only_with_new_item() -> None:
    for feed in publishers.create_feeds(3, days=2):
        latest = feed.items[-1]
        before, since = feed.at(latest.published - 1), feed.at(latest.published)
        assert since.number == before.number + 1
        assert since.body != before.body
        assert feed.at(latest.published + 3600) == since


def test_publishers_publish_nothing_at_night() -> None:
    hours = {int(item.published // 3600 % 24) for feed in publishers.create_feeds(3, days=7) for item in feed.items}
    assert not hours & publishers.NIGHT


def test_poll_plan_is_sorted_by_time_and_has_at_most_polls_max_polls() -> None:
    week = publishers.create_feeds(1, days=7)
    planned = simulated_readers.plan_polls(week, readers=200, seed=1, days=7)
    polls = simulation.thin_out(planned)
    assert len(polls) == simulation.POLLS_MAX < len(planned)
    assert [poll.at for poll in polls] == sorted(poll.at for poll in polls)
    assert polls[-1].at < publishers.START + 7 * 86_400


def test_poll_plan_of_short_demo_is_complete() -> None:
    polls = simulated_readers.plan_polls(publishers.create_feeds(1, days=1), readers=8, seed=1, days=1)
    assert simulation.thin_out(polls) == polls
    cron = [poll.at for poll in polls if poll.subscription.profile.on_the_hour]
    assert len(cron) == 2 * 24
    assert all(at % 3600 == 0 for at in cron)


def test_poll_plan_respects_office_hours() -> None:
    polls = simulated_readers.plan_polls(publishers.create_feeds(1, days=7), readers=8, seed=1, days=7)
    office = [poll.at for poll in polls if poll.subscription.profile.office_hours]
    assert office
    assert all(8 <= at // 3600 % 24 < 17 and (at // 86_400 + 3) % 7 < 5 for at in office)
