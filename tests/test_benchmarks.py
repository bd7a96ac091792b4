"""The benchmarks: computations from measured values, and the configurations of all servers."""

import asyncio
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks import deltas, feed, footprint, latency, lateness, load, million_world, polling, soak, table
from benchmarks.hits import chosen, fault
from benchmarks.load import Counted, Run
from benchmarks.origin import answer
from benchmarks.peers import PEERS, Peer, Place, feedproxy_command, make_certificate
from benchmarks.rows import ROWS
from benchmarks.store import a_feed
from conformance.process import free_port
from feedproxy.clock import SystemClock
from feedproxy.refresh.policy.refresh_ahead import Later, Plan, Refresh
from feedproxy.refresh.refresh_scheduler import RefreshScheduler
from feedproxy.settings import option_names
from feedproxy.store.store_location import open_store
from tests.refresh.schedules import a_scheduler
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[1]


def a_run(row: str, server: str, us: float, fault: str = "") -> dict[str, object]:
    return {"row": row, "server": server, "us": us, "rate": 1e6 / us, "p99_ms": 0.1, "fault": fault}


# -- the feed and its origin


def test_gzip_body_decodes_to_the_identity_body() -> None:
    assert gzip.decompress(feed.zipped("17")) == feed.feed("17") != feed.feed("18")


def test_feed_of_the_benchmark_has_the_sizes_of_the_table() -> None:
    assert 60_000 < len(feed.feed("1")) < 64_000
    assert 12_000 < len(feed.zipped("1")) < 12_700
    assert len(feed.feed("small-1")) < 2_000


def test_origin_sends_the_requested_coding() -> None:
    packed = answer(b"GET /feed/3.rss HTTP/1.1\r\nHost: feeds.example\r\nAccept-Encoding: gzip")
    plain = answer(b"GET /feed/3.rss HTTP/1.1\r\nHost: feeds.example\r\nAccept-Encoding: identity")
    assert gzip.decompress(packed.partition(b"\r\n\r\n")[2]) == plain.partition(b"\r\n\r\n")[2] == feed.feed("3")


# -- output of the system and of wrk


def test_cpu_times_are_parsed_for_process_names_with_brackets_and_spaces() -> None:
    stat = "42 (a (b) c) S 7 42 42 0 -1 4194304 1 0 0 0 250 150 9 9 20 0 5 0"
    assert load.ticks(stat) == 400
    assert load.parents({42: stat}) == {42: 7}


def test_server_is_its_first_process_and_all_descendants() -> None:
    assert load.family(10, {10: 1, 11: 10, 12: 11, 20: 1, 21: 20}) == {10, 11, 12}


def test_result_line_of_wrk_is_parsed() -> None:
    figures = "requests=9 microseconds=2000000 bytes=99 p99=7 connect=0 read=2 write=0 status=0 timeout=1"
    counted = load.parse(f"Running 2s test\nbench {figures}\n")
    assert (counted.requests, counted.microseconds, counted.bytes, counted.p99) == (9, 2_000_000, 99, 7)
    assert counted.errors == {"read": 2, "timeout": 1}


def test_missing_result_line_of_wrk_is_an_error() -> None:
    with pytest.raises(ValueError, match="unable to connect"):
        load.parse("unable to connect to 127.0.0.1:1 Connection refused")


# -- which runs count

ROW = ROWS[0]
MISS = next(row for row in ROWS if row.miss)


def test_benchmark_run_with_correct_responses_counts() -> None:
    assert not fault(ROW, Run(6.0, 1e5, Counted(100_000, 1_000_000, 30_000_000, 1)), 300, 0)


@pytest.mark.parametrize(
    ("counted", "asked", "why"),
    [
        (Counted(1000, 1, 300_000, 1, read=5), 0, "errors in 1000 requests: 5 read"),
        (Counted(1000, 1, 12_000_000, 1), 0, "12000 bytes an answer, not 300"),
        (Counted(1000, 1, 300_000, 1), 1, "1 hits were none"),
    ],
)
def test_benchmark_run_with_wrong_responses_does_not_count(counted: Counted, asked: int, why: str) -> None:
    assert why in fault(ROW, Run(6.0, 1.0, counted), 300, asked)


def test_miss_without_a_request_to_the_origin_does_not_count() -> None:
    counted = Counted(1000, 1, 300_000, 1)
    assert not fault(MISS, Run(6.0, 1.0, counted), 300, 1000)
    assert "only 500 of 1000" in fault(MISS, Run(6.0, 1.0, counted), 300, 500)


# -- the tables


def test_median_is_computed_from_runs_without_errors() -> None:
    runs = [a_run("r", "s", us) for us in (5.0, 9.0, 6.0)] + [a_run("r", "s", 1.0, "errors")]
    assert table.medians(runs) == {("r", "s"): 6.0}


def test_ratio_to_a_server_uses_its_faster_configuration() -> None:
    us = {("r", "feedproxy"): 6.0, ("r", "nginx"): 12.0, ("r", "nginx tuned"): 9.0}
    assert table.ratio(us, "r", "nginx") == 1.5


def test_missing_server_has_no_ratio() -> None:
    assert table.ratio({("r", "feedproxy"): 6.0}, "r", "Squid") is None
    assert table.ratio({("r", "Squid"): 6.0}, "r", "Squid") is None


@pytest.mark.parametrize(
    ("measured", "target", "said"),
    [
        (1.5, 1.3, "1.50 (≥ 1.3)"),
        (1.2, 1.3, "**1.20** (≥ 1.3)"),
        (None, 1.3, "– (≥ 1.3)"),
        (None, None, "–"),
        (2.0, None, "2.00"),
    ],
)
def test_table_cell_of_a_benchmark_shows_the_measured_value_and_the_target(
    measured: float | None, target: float | None, said: str
) -> None:
    assert table.cell(measured, target) == said


def test_value_below_its_target_is_bold() -> None:
    late = {"what": "p99", "value": 3.0, "unit": "ms", "sense": "≤", "target": 2}
    few = {"what": "answered", "value": 1500.0, "unit": "misses/s", "sense": "≥", "target": 1400}
    absent = {"what": "workers", "value": None, "unit": "", "sense": "≤", "target": 1.15}
    assert table.aims([late, few, absent]).splitlines()[2:] == [
        "| p99 | **3 ms** | ≤ 2 ms |",
        "| answered | 1,500 misses/s | ≥ 1,400 misses/s |",
        "| workers | – | ≤ 1.15 |",
    ]


def test_results_are_inserted_between_the_marks_of_the_page_only() -> None:
    page = f"before\n{table.BEGIN}\nold \\1\n{table.END}\nafter"
    made = table.into(page, r"new \2")
    assert made == f"before\n{table.BEGIN}\n\nnew \\2\n\n{table.END}\nafter"
    assert table.into(made, r"new \2") == made
    with pytest.raises(ValueError, match="results: begin"):
        table.into("no marks", "new")


def test_results_page_has_every_row_with_date_and_machine() -> None:
    machine = {"cpu": "A CPU", "cpus": 2, "memory_gib": 24, "kernel": "6.1", "system": "Debian 13", "python": "3.12.1"}
    results = {
        **{"date": "2024-06-01", "machine": machine, "versions": {"nginx": "1.22"}, "how": {"rounds": 3, "seconds": 2}},
        **{"runs": [a_run(ROW.key, "feedproxy", 6.0), a_run(MISS.key, "Squid", 9.0, "errors")], "aims": []},
    }
    page = table.page(json.loads(json.dumps(results)))
    assert "2024-06-01, A CPU, 2 CPUs" in page
    assert all(row.title in page for row in ROWS)
    assert "miss, Squid: errors" in page


def test_readme_has_the_marks_for_results() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert readme.count(table.BEGIN) == readme.count(table.END) == 1


def test_rows_are_selected_by_keys_and_have_fewer_feeds_in_quick_mode() -> None:
    assert [(row.title, row.count) for row in chosen(["many"], quick=True)] == [("1,000 feeds, 12 KB keep-alive", 1000)]
    assert chosen([], quick=False) == list(ROWS)
    with pytest.raises(ValueError, match="no such row: 304-kept"):
        chosen(["304-kept"], quick=False)


# -- latency and memory


def test_delayed_hit_counts_for_the_requests_not_sent_meanwhile() -> None:
    assert latency.corrected([0.001, 0.0045], 0.001) == pytest.approx([0.0005, 0.001, 0.0015, 0.0025, 0.0035, 0.0045])


def test_percentile_is_a_measured_value() -> None:
    assert latency.percentile(list(range(100)), 0.99) == 99
    assert latency.percentile([7.0], 0.5) == 7.0


def test_store_is_filled_with_copies_of_one_feed(tmp_path: Path) -> None:
    async def put(target: str) -> None:
        store = open_store(str(tmp_path), memory_max=1, disk_max=2**30)
        await store.put(replace(a_feed(1, 0.01), target=target))
        await store.close()

    asyncio.run(put("http://127.0.0.1:1/feed/small-0.rss"))

    many, bodies = footprint.fill(tmp_path, "http://127.0.0.1:1/feed/small-0.rss", 3)

    store = open_store(str(tmp_path), memory_max=1, disk_max=2**30)
    copy = store.get("http://127.0.0.1:1/feed/small-3.rss")
    asyncio.run(store.close())
    assert copy is not None
    assert many == 3
    assert copy.variants[0].target == "http://127.0.0.1:1/feed/small-3.rss"
    assert bodies == sum(map(len, copy.variants[0].content.bodies.values()))


# -- the servers


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    # Not below pytest's own folder: Varnish reads its configuration as a user without access to it.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            certificate, key = make_certificate(folder)
        except FileNotFoundError:
            pytest.skip("no openssl")
        yield Place(folder / "at", free_port(), free_port(), free_port(), certificate, key)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_server_accepts_its_configuration(peer: Peer, place: Place) -> None:
    if not peer.path:
        pytest.skip(f"{peer.program} is not installed")
    command = peer.check(peer.command(peer.path, place))
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "WARNING" not in said, said


def test_feedproxy_is_started_with_valid_options(place: Place) -> None:
    words = feedproxy_command(place)
    given = [words[at + 1].partition("=")[0] for at, word in enumerate(words) if word == "--set"]
    assert set(given) - {"confdir"} <= set(option_names())


# -- the soak


def samples(*memories: float, descriptors: int = 60, threads: int = 8) -> list[soak.Sample]:
    last = len(memories) - 1
    return [
        soak.Sample(
            30.0 * each, memory, memory / 2, 10.0, descriptors if each == last else 60, threads if each == last else 8
        )
        for each, memory in enumerate(memories)
    ]


def test_soak_without_growth_is_flat_in_spite_of_noise() -> None:
    assert soak.verdict(samples(200.0, 203.0, 199.0, 201.0, 202.0, 200.5)) == []


def test_replaced_helper_process_does_not_affect_the_growth_of_the_soak() -> None:
    assert soak.verdict(samples(200.0, 201.0, 200.5, 150.0, 200.8, 201.0, 200.2, 200.9, 200.6)) == []


@pytest.mark.parametrize(
    ("seen", "grows"),
    [
        (samples(200.0, 200.4, 200.8, 201.2), "memory"),
        (samples(200.0, 200.0, descriptors=90), "descriptors"),
        (samples(200.0, 200.0, threads=30), "threads"),
    ],
)
def test_soak_reports_growth(seen: list[soak.Sample], grows: str) -> None:
    (told,) = soak.verdict(seen)

    assert told.startswith(grows)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
def test_short_soak_answers_every_kind_of_request_without_a_traceback() -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "0.08", "--rate", "60", "--feeds", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE * 2, check=False)

    assert "MB a minute" in done.stdout, done.stdout + done.stderr
    assert "tracebacks" not in done.stdout


# -- the polling policy alone


def test_polling_policy_is_fresher_than_a_fixed_lifetime_with_fewer_requests() -> None:
    worlds = polling.world("modern", 7, 12, days=2)
    policy, cache = polling.play(worlds, 1800), polling.fixed(worlds, 10_800)
    assert policy.polls == cache.polls
    assert policy.requests < cache.requests
    assert policy.stale < 0.45 * cache.stale


def test_polling_policy_at_a_low_price_sends_more_requests_than_the_oracle() -> None:
    worlds = polling.world("modern", 7, 12, days=2)
    assert polling.play(worlds, 300).requests > polling.oracle(worlds).requests


# -- a million feeds


def test_feeds_of_the_million_are_updated_at_the_surveyed_rates() -> None:
    gaps = [million_world.gap_of(number) for number in range(20_000)]
    days = (0.5, 1, 7, 30, 91, 365)
    shares = [sum(gap <= day * million_world.DAY for gap in gaps) / len(gaps) for day in days]

    assert shares == pytest.approx([0.185, 0.231, 0.382, 0.586, 0.735, 0.91], abs=0.01)


def test_feed_of_the_million_has_another_tag_after_its_update() -> None:
    now = 1_795_176_000.0
    for number in range(50):
        at = million_world.changed(number, 0, now)
        gap = million_world.gap_of(number)
        assert at <= now < at + gap
        assert million_world.tag(number, at + 0.01 * gap) == million_world.tag(number, now)
        assert million_world.tag(number, at - 0.01 * gap) != million_world.tag(number, now)


def test_readers_of_the_million_poll_each_feed_once_in_an_interval() -> None:
    world = million_world.World(250, 80)
    for reader in range(world.readers):
        begin, interval = 1_795_176_000.0, million_world.interval_of(reader)
        polls = [feed for _, feed, client in world.polls(begin, begin + interval) if client == reader]
        assert sorted(polls) == list(world.feeds_of(reader))


async def test_lateness_of_each_scheduled_refresh_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    # watch() replaces these. monkeypatch puts them back.
    monkeypatch.setattr(SystemClock, "now", SystemClock.now)
    monkeypatch.setattr(RefreshScheduler, "_start_refresh", RefreshScheduler._start_refresh)
    monkeypatch.setattr(RefreshScheduler, "_run_refresh", RefreshScheduler._run_refresh)
    begun, refreshed = io.StringIO(), asyncio.Event()
    lateness.watch(3600, begun)
    clock = SystemClock()
    due = clock.now() - 30

    def plan_for(_: str) -> Plan:
        return Refresh("due") if planned else Later(due, "later")

    async def refresh(_: str) -> None:
        refreshed.set()

    planned: list[str] = []
    scheduler = a_scheduler(clock, plan_for, refresh)
    scheduler.reschedule("feed")
    planned.append("feed")
    async with asyncio.timeout(PATIENCE):
        await refreshed.wait()
    await scheduler.close()

    instant, delay, target = begun.getvalue().split()
    assert target == "feed"
    assert 3500 < float(instant) - time.time() < 3700
    assert 29 < float(delay) < 30 + PATIENCE


# -- deltas


def a_history(folder: Path, name: str, *versions: bytes) -> None:
    (folder / name).mkdir()
    for number, body in enumerate(versions):
        (folder / name / f"{number:04}.xml").write_bytes(body)


def test_update_is_smaller_as_226_than_as_gzip_and_smallest_as_dcz(tmp_path: Path) -> None:
    items = [b"<item><guid>%d</guid><title>%s</title></item>" % (n, os.urandom(60).hex().encode()) for n in range(30)]
    versions = [b"<rss version='2.0'><channel>" + b"".join(items[n : 20 + n]) + b"</channel></rss>" for n in range(3)]
    a_history(tmp_path, "one", versions[0], versions[0], *versions[1:])

    ((name, found),) = deltas.histories(tmp_path)
    measured = list(deltas.updates(found))

    assert name == "one"
    assert len(measured) == 2  # equal bytes are no update
    assert all(each.is_new and each.gzip > 5 * each.im > 5 * each.dcz > 0 for each in measured)
    assert "2 " in deltas.line("one", measured)
