"""Several workers act as one proxy: a reader gets the same response from each."""

import os
import re
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from feedproxy import oom_score
from tests.live.origin import Authority, Gate, Origin, a_feed, until
from tests.live.product import COMMAND, Feedproxy, Process, product_environment, read_answer
from tests.live.worker_processes import ADMIN, TOLD_BY_PROC, admin, connections, open_files, workers
from tests.server.test_client_tls_connection import make_certificate
from tests.waiting import PATIENCE

type Start = Callable[..., Feedproxy]

pytestmark = pytest.mark.skipif(not TOLD_BY_PROC, reason="who serves a connection is told by /proc")


@pytest.fixture(scope="module")
def two(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feedproxy]:
    """Run two workers shared by tests with different paths."""
    made = Feedproxy(tmp_path_factory.mktemp("workers"), "--workers", "2", authority=authority.file)
    yield made
    assert made.terminate() == 0, made.said
    assert "Traceback" not in made.said, made.said


@pytest.fixture
def pair(start: Start) -> Feedproxy:
    """Run two workers for a test that kills them."""
    return start("--workers", "2")


# -- one copy


def test_replaced_copy_is_served_by_no_worker(two: Feedproxy, origin: Origin) -> None:
    path, target = "/replaced", origin.url("/replaced")
    with connections(two) as all_:
        for version in range(20):
            origin.publish(path, a_feed(f"v{version}"), Cache_Control="max-age=3600")
            asks = all_[version % len(all_)]
            assert f"v{version}".encode() in asks.get(target, Cache_Control="no-cache", Sec_Fetch_Mode="navigate").body
            for connection in all_:
                seen = connection.get(target)
                assert f"v{version}".encode() in seen.body
                assert "; hit" in seen.cache


def test_answered_refresh_is_complete_at_all_workers(two: Feedproxy, origin: Origin) -> None:
    path, target = "/refreshed", origin.url("/refreshed")
    with connections(two) as all_:
        for version in range(6):
            origin.publish(path, a_feed(f"v{version}"), Cache_Control="max-age=3600")
            if version:
                assert admin(two, "POST", f"/refresh?url={target}")["outcome"] == "updated"
            for connection in all_:
                assert f"v{version}".encode() in connection.get(target).body


@pytest.mark.parametrize("by", ["url", "pattern"])
def test_answered_purge_is_complete_at_all_workers(two: Feedproxy, origin: Origin, by: str) -> None:
    path = f"/purged-{by}"
    target = origin.url(path)
    origin.publish(path, a_feed("one"), Cache_Control="max-age=3600")
    with connections(two) as all_:
        for round_ in range(1, 8):
            statuses = [connection.get(target).cache for connection in (*all_[round_ % 2 :], *all_)]
            assert "fwd=uri-miss" in statuses[0]
            assert all("; hit" in each for each in statuses[1:]), statuses
            assert len(origin.asked(path)) == round_
            named = target if by == "url" else f"*{path}"
            assert admin(two, "POST", f"/purge?{by}={named}")["purged"] == 1


def test_invalidation_by_an_unsafe_request_holds_for_all_workers(two: Feedproxy, origin: Origin) -> None:
    path, target = "/posted", origin.url("/posted")
    origin.publish(path, a_feed("old"), Cache_Control="max-age=3600")
    with connections(two) as all_:
        for connection in all_:
            connection.get(target)
        origin.publish(path, a_feed("new"), Cache_Control="max-age=3600")
        one = all_[0]
        one.wire.sendall(f"POST /{target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert one.answer().status == 200

        for connection in reversed(all_):
            assert b"new" in connection.get(target).body


def test_group_invalidated_by_one_worker_is_invalid_for_all(start: Start, origin: Origin) -> None:
    proxy = start("--workers", "2", "--upstream", origin.url(""))
    for path in ("/a", "/b"):
        origin.publish(path, a_feed("old"), Cache_Control="max-age=3600", Cache_Groups='"news"')
    origin.publish("/form", b"done", Content_Type="text/plain", Cache_Group_Invalidation='"other", "news"')
    with connections(proxy) as all_:
        for connection in all_:
            for path in ("/a", "/b"):
                assert b"old" in connection.get(path[1:]).body
        for path in ("/a", "/b"):
            origin.publish(path, a_feed("fresh entry"), Cache_Control="max-age=3600", Cache_Groups='"news"')
        all_[0].wire.sendall(b"POST /form HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert all_[0].answer().status == 200

        for connection in reversed(all_):
            for path in ("/a", "/b"):
                assert b"fresh entry" in connection.get(path[1:]).body


# -- one fetch


def test_one_worker_fetches_for_the_readers_of_all(two: Feedproxy, origin: Origin) -> None:
    path, target = "/one-flight", origin.url("/one-flight")
    origin.stage(
        path, gate := Gate(lambda handler, _: handler.say(200, a_feed("x"), Content_Type="application/rss+xml"))
    )
    with connections(two) as all_:
        for connection in all_:
            connection.send(target)
        until(lambda: admin(two, "GET", "/api/status")["under_way"] == 2)
        gate.open()
        seen = [connection.answer() for connection in all_]

    assert {each.status for each in seen} == {200}
    assert len(origin.asked(path)) == 1
    assert sum("collapsed" not in each.cache for each in seen) == 1
    assert all("fwd=uri-miss" in each.cache for each in seen)


def test_failing_feed_is_fetched_once_and_all_workers_answer_with_the_stale_copy(
    two: Feedproxy, origin: Origin
) -> None:
    path, target = "/fails", origin.url("/fails")
    origin.publish(path, a_feed("good"), Cache_Control="max-age=3600")
    with connections(two) as all_:
        all_[0].get(target)
        origin.stage(path, gate := Gate(lambda handler, _: handler.say(500, b"sorry")))
        before = len(origin.asked(path))
        for connection in all_:
            connection.send(target, Cache_Control="no-cache", Sec_Fetch_Mode="navigate")
        until(lambda: admin(two, "GET", "/api/status")["under_way"] == 2)
        gate.open()
        seen = [connection.answer() for connection in all_]

    assert len(origin.asked(path)) == before + 1
    assert all(b"good" in each.body for each in seen), [each.cache for each in seen]


def test_unstorable_response_is_fetched_for_each_reader(two: Feedproxy, origin: Origin) -> None:
    path, target = "/personal", origin.url("/personal")
    origin.publish(path, a_feed("yours"), Cache_Control="no-store")
    with connections(two) as all_, ThreadPoolExecutor(len(all_)) as pool:
        seen = list(pool.map(lambda connection: connection.get(target), all_))

    assert all(b"yours" in each.body for each in seen)
    assert len(origin.asked(path)) == len(all_)


def test_killed_workers_fetch_is_repeated_by_another_and_the_worker_restarted(pair: Feedproxy, origin: Origin) -> None:
    path, target = "/killed", origin.url("/killed")
    origin.stage(
        path, gate := Gate(lambda handler, _: handler.say(200, a_feed("x"), Content_Type="application/rss+xml"))
    )
    with connections(pair, each=2) as all_:
        first = all_[0]
        first.send(target)
        origin.wait_for(path, 1)
        rest = [connection for connection in all_ if connection.pid != first.pid]
        for connection in rest:
            connection.send(target)
        until(lambda: admin(pair, "GET", "/api/status")["under_way"] == 2)

        os.kill(first.pid, signal.SIGKILL)
        origin.wait_for(path, 2)
        gate.open()

        assert all(b"<title>x" in connection.answer().body for connection in rest)
    assert len(origin.asked(path)) == 2
    assert until(lambda: first.pid not in workers(pair) and len(workers(pair)) == 2)
    assert "was killed (SIGKILL), restarting" in pair.said
    with connections(pair) as all_:
        assert all("; hit" in connection.get(target).cache for connection in all_)


# -- one count


def test_readers_and_requests_are_counted_once_at_any_worker(pair: Feedproxy, origin: Origin) -> None:
    path, target = "/counted", origin.url("/counted")
    origin.publish(path, a_feed("x"), Cache_Control="max-age=3600")
    for agent in ("reader/1", "reader/2", "reader/3"):
        with connections(pair, each=2, agent=agent) as all_:
            for connection in all_:
                connection.get(target)

    (feed,) = admin(pair, "GET", f"/api/feeds?q={path[1:]}")["feeds"]
    status = admin(pair, "GET", "/api/status")
    metrics = admin(pair, "GET", "/metrics")

    assert feed["subscribers"] == 3
    assert (status["requests"]["hits"], status["requests"]["forwarded"]) == (11, 1)
    assert status["requests"]["origin_requests"] == 1
    assert status["workers"] == 2
    assert 'outcome="hit",status="200"} 11.0' in metrics
    assert re.search(r"feedproxy_subscribers 3\.0", metrics)


def test_recent_requests_and_fetches_of_all_workers_are_shown(two: Feedproxy, origin: Origin) -> None:
    path, target = "/journal", origin.url("/journal")
    with connections(two) as all_:
        for version, asks in enumerate(all_):
            origin.publish(path, a_feed(f"v{version}"), Cache_Control="max-age=3600")
            asks.get(target, Cache_Control="no-cache", Sec_Fetch_Mode="navigate")
    status = admin(two, "GET", "/api/status")
    feed = next(each for each in admin(two, "GET", "/api/feeds?q=journal")["feeds"] if each["target"] == target)

    assert sum(each["target"] == target for each in status["recent_requests"]) == len(all_)
    assert len(admin(two, "GET", f"/api/feeds/{feed['id']}")["fetches"]) == len(all_)


def test_blocked_feed_is_refused_by_all_workers(two: Feedproxy, origin: Origin) -> None:
    target = origin.url("/blocked")
    origin.publish("/blocked", a_feed("x"), Cache_Control="max-age=3600")
    with connections(two) as all_:
        for connection in all_:
            connection.get(target)

        admin(two, "POST", f"/block?url={target}")

        assert until(lambda: all(connection.get(target).status == 403 for connection in all_))
        admin(two, "POST", f"/allow?url={target}")
        assert until(lambda: all(connection.get(target).status == 200 for connection in all_))


def test_readers_are_scored_by_their_requests_at_all_workers(pair: Feedproxy, origin: Origin) -> None:
    path, target = "/judged", origin.url("/judged")
    origin.publish(path, a_feed("x"), Cache_Control="max-age=3600")
    with connections(pair, each=1, agent="hasty/1") as all_:
        pids = {connection.pid for connection in all_}
        for connection in all_:
            for gzip in (
                "identity",
                "gzip",
            ):  # different responses: the fast path records one per second
                connection.get(target, Accept_Encoding=gzip)

    def judged() -> list[Any]:  # a worker that is too busy to answer is omitted that time
        return [each for each in admin(pair, "GET", "/api/readers")["readers"] if each["cost"]["requests"] == 4]

    (reader,) = until(judged)

    found = {each["id"]: each for each in reader["findings"]}
    assert len(pids) == 2
    assert reader["user_agent"] == "hasty/1"
    assert found["duplicate-request"]["count"] == 2, "one at each worker"
    assert len({each["number"] for each in found["duplicate-request"]["requests"]}) == 2


def test_counts_of_a_killed_worker_are_kept(pair: Feedproxy, origin: Origin) -> None:
    path, target = "/remembered", origin.url("/remembered")
    origin.publish(path, a_feed("x"), Cache_Control="max-age=3600")
    with connections(pair, each=2) as all_:
        for connection in all_:
            connection.get(target)
        speaker = admin_pid(pair)
        (other,) = {connection.pid for connection in all_} - {speaker}
        before = admin(pair, "GET", "/api/status")["requests"]["hits"]
        os.kill(other, signal.SIGKILL)
    until(lambda: other not in workers(pair) and len(workers(pair)) == 2)
    with connections(pair, each=1, agent="reader/2") as all_:
        for connection in all_:
            connection.get(target)

    until(lambda: admin(pair, "GET", "/api/status")["requests"]["hits"] == before + 2)
    until(lambda: admin(pair, "GET", f"/api/feeds?q={path[1:]}")["feeds"][0]["subscribers"] == 2)


def test_history_of_all_workers_continues_after_a_restart_with_fewer(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    path, target, store = "/history", origin.url("/history"), str(tmp_path / "store")
    origin.publish(path, a_feed("x"), Cache_Control="max-age=3600")

    def asked(proxy: Feedproxy) -> tuple[int, int]:
        days = admin(proxy, "GET", "/api/history")["days"]  # the test may run past midnight
        return sum(day["requests"] for day in days), sum(day["fetches"] for day in days)

    proxy = start("--workers", "3", store=store)
    with connections(proxy, each=2) as all_:
        for connection in all_:
            connection.get(target)
        requests = len(all_)
    until(lambda: asked(proxy) == (requests, 1))
    assert proxy.terminate() == 0

    proxy = start("--workers", "2", store=store)
    until(lambda: asked(proxy) == (requests, 1))
    proxy.get(target)
    until(lambda: asked(proxy) == (requests + 1, 1))


def admin_pid(proxy: Feedproxy) -> int:
    """Return the pid of the worker with the admin listener."""
    port = f"{int(ADMIN.findall(proxy.said)[-1].rpartition(':')[2]):04X}"
    for pid in workers(proxy):
        lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
        inodes = [each.split()[9] for each in lines if each.split()[1].endswith(port) and each.split()[3] == "0A"]
        if any(f"socket:[{inode}]" in open_files(pid) for inode in inodes):
            return pid
    raise AssertionError("nobody listens there")


def test_log_lines_of_all_workers_are_complete(two: Feedproxy, origin: Origin) -> None:
    path = "/line" + "/words" * 250
    origin.publish(path, a_feed("x"), Cache_Control="max-age=3600")
    with connections(two, each=3) as all_, ThreadPoolExecutor(len(all_)) as pool:
        list(pool.map(lambda connection: [connection.get(origin.url(path)) for _ in range(50)], all_))
        asked = 50 * len(all_)

    def told() -> list[str]:
        return [each for each in two.said.splitlines() if "/line/" in each]

    until(lambda: len(told()) >= asked)
    lines = told()
    assert len(lines) == asked
    assert all(re.fullmatch(r"\S+ [0-9a-f]{15} gateway GET \S+ 200 .*", each) for each in lines)


# -- shutdown and failed starts


def test_sigterm_lets_all_workers_finish_their_requests(pair: Feedproxy, origin: Origin) -> None:
    gates = []
    with connections(pair, each=1) as all_:
        for number, connection in enumerate(all_):
            path = f"/drained-{number}"
            gates.append(Gate(lambda handler, _: handler.say(200, b"at last", Content_Type="text/plain")))
            origin.stage(path, gates[-1])
            connection.send(origin.url(path))
            origin.wait_for(path)
        pair.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(pair.address))
        for gate in gates:
            gate.open()
        assert [connection.answer().body for connection in all_] == [b"at last"] * len(all_)
    assert pair.wait() == 0
    assert "Traceback" not in pair.said


def refuses(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=2).close()
    except ConnectionRefusedError:
        return True
    return False


def test_workers_end_and_remove_their_sockets_when_their_supervisor_is_killed(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / f"longer-than-a-path-of-a-socket-may-be-{'x' * 80}"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    pair = start("--workers", "2")
    orphans = workers(pair)
    assert len(list(temporary.glob("*/worker-*"))) == 2
    pair.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans))
    assert refuses(pair.address)
    assert not list(temporary.iterdir())
    assert pair.said.count("the supervisor has exited") == 2
    assert "[error]" not in pair.said


def test_folder_of_sockets_is_kept_until_the_last_worker_ends(
    start: Start, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    pair = start("--workers", "2", drain_timeout=60)
    feed = Gate(lambda handler, _: handler.say(200, a_feed("x"), Content_Type="application/rss+xml"))
    origin.stage("/drained", feed)
    with connections(pair, each=1) as all_:
        busy, idle = all_
        busy.send(origin.url("/drained"))
        origin.wait_for("/drained", 1)
        idle.close()

        pair.kill()
        until(lambda: not Path(f"/proc/{idle.pid}").exists())
        kept = list(temporary.iterdir())
        feed.open()
        answer = busy.answer()

    until(lambda: not Path(f"/proc/{busy.pid}").exists())
    assert answer.status == 200
    assert len(kept) == 1
    assert not list(temporary.iterdir())


def test_messages_about_the_start_are_logged_once(start: Start) -> None:
    pair = start("--workers", "2", "--set", "readers=bob")
    first = admin_pid(pair)
    os.kill(first, signal.SIGKILL)
    until(partial(_is_gone, pair, first))
    admin(pair, "GET", "/healthz")  # the first worker has started again

    assert pair.terminate() == 0
    assert pair.said.count("no client can sign in") == 1
    assert pair.said.count("public_url is not set") == 1


def test_supervisor_is_the_last_process_that_the_kernel_kills_if_memory_runs_out(two: Feedproxy) -> None:
    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    def children(pid: int) -> list[int]:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    templates = [child for pid in workers(two) for child in children(pid)]
    assert len(templates) == 2
    own = score(two.pid)

    assert {score(pid) for pid in workers(two)} == {own + oom_score.WORKER}
    assert until(lambda: {score(pid) for pid in templates} == {own + oom_score.WORKER + oom_score.HELPER})


def serve(folder: Path, *arguments: str) -> Process:
    options = ["--set", f"confdir={folder / 'conf'}", "--workers", "2"]
    return Process([*COMMAND, "serve", *options, *arguments], folder, product_environment(folder))


@pytest.mark.parametrize(
    ("arguments", "line", "code"),
    [
        (
            ["--listen", "127.0.0.1:{busy}", "--admin", "127.0.0.1:0"],
            "cannot listen on 127.0.0.1:{busy}: Address already",
            1,
        ),
        (
            ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:{busy}"],
            "admin: cannot listen on 127.0.0.1:{busy}: Address",
            1,
        ),
        (["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "/dev/null/x"], "store: /dev/null/x", 2),
        (["--listen", "127.0.0.1:0", "--store", "memory:"], "workers: 2 workers need a shared store", 2),
        (["--listen", "127.0.0.1:0", "--set", "workers=0"], "workers: 0: expected 1 or more", 2),
    ],
)
def test_failed_start_is_reported_once_in_one_line(tmp_path: Path, arguments: list[str], line: str, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = taken.getsockname()[1]
        store = [] if "--store" in arguments else ["--store", str(tmp_path / "store")]
        if "workers=0" in arguments:
            arguments = [*arguments, "--workers", "0"]
        process = serve(tmp_path, *(each.format(busy=busy) for each in arguments), *store)
        assert process.wait() == code
    said = [each for each in process.said.splitlines() if each.startswith("feedproxy: ")]
    assert len(said) == 1
    assert line.format(busy=busy) in said[0]
    assert "Traceback" not in process.said


def test_two_proxies_never_share_a_port(two: Feedproxy, tmp_path: Path) -> None:
    """SO_REUSEPORT would permit it, and readers would reach either of them."""
    second = serve(
        tmp_path / "second",
        "--listen",
        two.base.removeprefix("http://"),
        "--admin",
        "127.0.0.1:0",
        "--store",
        str(tmp_path / "s"),
    )
    assert second.wait() == 1
    assert "Address already in use" in second.said


def test_sighup_loads_a_renewed_certificate_in_all_workers(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    process = serve(
        tmp_path,
        *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", str(tmp_path / "store")),
        *("--set", f"tls_certificate={certificate}", "--set", f"tls_key={key}"),
    )
    try:
        port = int(process.line(re.compile(r"listens on https://127\.0\.0\.1:([0-9]+)"))[1])
        make_certificate(tmp_path)
        os.kill(process.pid, signal.SIGHUP)
        until(lambda: process.said.count(f"listener: certificate loaded: {certificate}") == 2)

        presented = {ssl.get_server_certificate(("127.0.0.1", port)) for _ in range(6)}
        assert presented == {Path(certificate).read_text()}

        Path(certificate).write_text("broken")
        os.kill(process.pid, signal.SIGHUP)
        until(lambda: process.said.count(f"keeping the previous one: tls_certificate: {certificate}: ") == 2)
        assert {ssl.get_server_certificate(("127.0.0.1", port)) for _ in range(6)} == presented
    finally:
        assert process.terminate() == 0


def _is_gone(proxy: Feedproxy, pid: int) -> bool:
    return pid not in workers(proxy)


def test_repeatedly_failing_worker_leaves_readers_to_the_others(pair: Feedproxy, origin: Origin) -> None:
    origin.publish("/crash", a_feed("x"), Cache_Control="max-age=3600")
    victim = admin_pid(pair)
    for _ in range(2):
        os.kill(victim, signal.SIGKILL)
        until(partial(_is_gone, pair, victim))
        until(lambda: len(workers(pair)) == 2)
        victim = max(workers(pair))
    until(lambda: "restarting in 0.5 s" in pair.said)
    for _ in range(20):
        connection = socket.create_connection(pair.address, timeout=PATIENCE)
        connection.sendall(f"GET /{origin.url('/crash')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert read_answer(connection).status == 200
        connection.close()
    until(lambda: len(workers(pair)) == 2)


REFUSED_BY_PARSER = "feeds:\n- match: nothing\n"
REFUSED_BY_WORKERS = "ping_sinks: [nonsense]\n"


@pytest.mark.parametrize("invalid", [REFUSED_BY_PARSER, REFUSED_BY_WORKERS])
@pytest.mark.parametrize("reloads", [False, True])
def test_worker_that_starts_again_has_the_options_of_the_others(
    start: Start, origin: Origin, tmp_path: Path, invalid: str, reloads: bool
) -> None:
    origin.publish("/kept", a_feed("x"), Cache_Control="max-age=3600")
    rule = "feeds:\n- match: '*/kept'\n  gone: true\n"
    (config := tmp_path / "feedproxy.yaml").write_text("log_level: info\n" if reloads else rule)
    proxy = start("--workers", "2", "--config", str(config))
    if reloads:
        config.write_text(rule)
        os.kill(proxy.pid, signal.SIGHUP)
        until(lambda: proxy.said.count("configuration loaded: 1 rules") == 2)
    config.write_text(invalid)
    if reloads:
        os.kill(proxy.pid, signal.SIGHUP)
        until(lambda: proxy.said.count("configuration not loaded") == 2)

    victim = max(workers(proxy))
    os.kill(victim, signal.SIGKILL)
    until(lambda: "was killed (SIGKILL), restarting" in proxy.said and victim not in workers(proxy))
    if reloads and invalid == REFUSED_BY_WORKERS:
        until(lambda: "exited with status 2, restarting at once" in proxy.said)

    def statuses() -> list[int]:
        with connections(proxy) as all_:
            return [connection.get(origin.url("/kept")).status for connection in all_]

    until(lambda: len(workers(proxy)) == 2)
    assert set(statuses()) == {410}
    assert proxy.terminate() == 0
