"""The simulated polling week behind the figures in benchmarks/README.md."""

import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.week import frontier, table
from benchmarks.week.__main__ import START, Week
from benchmarks.week.history import History
from benchmarks.week.model import DAY, HOUR, MANNERS, PROFILES, Poll, make_feeds, make_readers, polls_of
from benchmarks.week.origin import LIMIT, Origin, is_skipped
from benchmarks.week.page import Page
from benchmarks.week.play import rows
from benchmarks.week.systems import clock_of
from feedproxy.feed import publication_history
from feedproxy.feed.parse import channel_parser
from feedproxy.feed.schedule_hints import is_skipped as skipped_by_the_product
from tests.waiting import PATIENCE


@pytest.mark.parametrize("name", PROFILES)
def test_same_seed_gives_the_same_week(name: str) -> None:
    assert make_feeds(name, 20, 7, 2) == make_feeds(name, 20, 7, 2)
    assert make_feeds(name, 20, 7, 2) != make_feeds(name, 20, 8, 2)
    assert make_readers(name, 10, 20, 7) == make_readers(name, 10, 20, 7)


@pytest.mark.parametrize("name", PROFILES)
def test_shares_of_feeds_with_hints_in_a_week_are_those_of_the_profile(name: str) -> None:
    profile, feeds = PROFILES[name], make_feeds(name, 2000, 1, 1)

    def share(count: int) -> float:
        return count / len(feeds)

    quiet = profile.gaps[-1][0]
    assert share(sum(not any(u.kind != "churn" for u in feed.updates) for feed in feeds)) >= quiet - 0.05
    assert share(sum(feed.ttl is not None for feed in feeds)) == pytest.approx(profile.ttl, abs=0.03)
    assert share(sum(bool(feed.syndication) for feed in feeds)) == pytest.approx(profile.syndication, abs=0.04)
    assert share(sum(bool(feed.cache_control) for feed in feeds)) == pytest.approx(profile.cache_control, abs=0.04)
    sizes = sorted(feed.size for feed in feeds)
    assert sizes[len(sizes) // 2] == pytest.approx(profile.median_size, rel=0.15)


def test_readers_have_the_surveyed_behaviour_and_number_of_feeds() -> None:
    readers = make_readers("modern", 500, 200, 1)
    subscribers = [sum(feed in reader.feeds for reader in readers) for feed in range(200)]

    for manner in MANNERS:
        assert sum(reader.manner is manner for reader in readers) / 500 == pytest.approx(manner.share, abs=0.01)
    aggregators = sum(reader.manner.name == "aggregator" for reader in readers)
    assert subscribers[9] - aggregators > 4 * (subscribers[99] - aggregators)  # ten times, by Zipf's law
    assert 0.05 < sum(reader.wants_deltas for reader in readers) / 500 < 0.15
    hourly = next(reader for reader in readers if reader.manner.name == "hourly")
    assert len(list(polls_of(hourly, 1, 1.0))) == pytest.approx(24 * len(hourly.feeds), rel=0.1)


def test_origin_publishes_feeds_whose_content_changes_with_each_revision() -> None:
    feeds = make_feeds("imc2005", 400, 3, 1)
    feed = next(each for each in feeds if {"edit", "item", "churn"} <= {update.kind for update in each.updates})
    played = History(feed, 3, START)
    digests: dict[int, set[str]] = {}

    for index in range(min(len(played.moments), 40)):
        channel = channel_parser.read(played.body(index, zipped=False), None)
        assert channel is not None
        assert channel.well_formed
        digests.setdefault(played.revisions[index], set()).add(channel.content_digest)

    assert len(digests) > 2
    assert all(len(each) == 1 for each in digests.values())
    assert len(set.union(*digests.values())) == len(digests)
    if feed.dated:
        assert len(publication_history.find_publications(played.body(0, zipped=False), START + DAY)) > 1


def test_simulation_and_product_have_the_same_skipped_hours() -> None:
    feeds = make_feeds("modern", 3000, 1, 1)
    feed = next(each for each in feeds if each.skip_hours and each.skip_days and not each.atom)
    channel = channel_parser.read(History(feed, 1, START).body(0, zipped=False), None)

    assert channel is not None
    for hour in range(7 * 24):
        at = hour * HOUR + 1
        assert is_skipped(feed, at) == skipped_by_the_product(channel.schedule, START + at)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_peers_use_the_clock_of_the_simulation(tmp_path: Path) -> None:
    page = Page(tmp_path / "page")
    clock = clock_of(page, tmp_path)
    page.now = START + 3600
    assert clock is not None

    told = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time(), time.gmtime().tm_hour)"],
        env=clock,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )

    assert [float(each) for each in told.stdout.split()] == [START + 3600, 1]


def test_polls_within_a_step_of_the_benchmark_are_sent_at_its_end_in_order() -> None:
    polls = [Poll(at, number, 0, True) for number, at in enumerate((1.0, 14.9, 15.0, 44.0))]

    assert list(rows(polls, 10)) == [(15.0, polls[:2]), (30.0, polls[2:3]), (45.0, polls[3:])]
    assert list(rows(polls, 1)) == [(15.0, polls[:1]), (15.0, polls[1:2]), (30.0, polls[2:3]), (45.0, polls[3:])]


def test_site_limit_counts_all_its_feeds_together(tmp_path: Path) -> None:
    feeds = [replace(each, fate="stays") for each in make_feeds("modern", 44, 1, 1)]
    limited = [each for each in feeds if each.is_limited]
    page = Page(tmp_path / "page")
    page.now = START
    origin = Origin(feeds, 1, START, page)

    for number in range(LIMIT):
        assert origin.answer(limited[number % 2].path, {})[0].startswith(b"HTTP/1.1 200")

    head, _ = origin.answer(limited[0].path, {})
    assert head.startswith(b"HTTP/1.1 429")
    assert b"Retry-After: 3601" in head
    assert origin.answer(limited[0].path, {"x-direct-from": "198.18.0.1"})[0].startswith(b"HTTP/1.1 200")
    assert origin.answer(feeds[0].path, {})[0].startswith(b"HTTP/1.1 200")
    page.now = START + HOUR
    assert origin.answer(limited[0].path, {})[0].startswith(b"HTTP/1.1 200")


def test_one_hour_is_simulated_and_reported(tmp_path: Path) -> None:
    with closing(Week("imc2005", 6, 1, 1 / 24, tmp_path)) as week:
        systems = [week.perform("nothing"), week.perform("feedproxy")]

    nothing, ours = systems
    assert nothing["polls"] == ours["polls"] == len(week.polls) > 0
    assert nothing["origin_requests"] == nothing["polls"]
    assert ours["origin_requests"] < nothing["origin_requests"]
    assert ours["reader_bytes"] < nothing["reader_bytes"]
    assert ours["scheduled_in_skipped_hours"] == 0
    told = table.page({"days": 1 / 24, "seed": 1, "profiles": {"imc2005": {**_shown(week), "systems": systems}}})
    assert "requests to the origin" in told


def test_staleness_at_equal_requests_is_interpolated_between_settings() -> None:
    points = [(1000, 300.0), (3000, 100.0), (5000, 0.0)]

    assert frontier.staleness_at(points, 2000) == 200.0
    assert frontier.staleness_at(points, 3000) == 100.0
    assert frontier.staleness_at(points, 9000) == 0.0
    assert frontier.staleness_at(points, 999) is None


def _shown(week: Week) -> dict[str, object]:
    return {"polls": len(week.polls), "readers": 6, "frontier": [], "oracle": 0, "oracle_kept": 0}


def test_results_with_the_same_seed_in_several_files_are_shown_in_one_table() -> None:
    def results(seed: int, *systems: str) -> dict[str, object]:
        shown = {"polls": 10, "systems": [{"system": name} for name in systems], "frontier": []}
        return {"seed": seed, "days": 1.0, "profiles": {"modern": shown}}

    first, other = table.merged([results(1, "nginx", "feedproxy"), results(1, "Squid"), results(2, "Squid")])

    assert [each["system"] for each in first["profiles"]["modern"]["systems"]] == ["nginx", "Squid", "feedproxy"]
    assert other["seed"] == 2
