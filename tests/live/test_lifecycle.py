"""Start, hanging workers, restart and shutdown, as readers and the service manager observe them."""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feedproxy.settings import Settings
from tests.live.origin import Gate, Origin, a_feed, until
from tests.live.product import (
    COMMAND,
    LISTENS,
    Feedproxy,
    Process,
    copy_authority,
    product_environment,
    read_answer,
)
from tests.live.worker_processes import TOLD_BY_PROC, admin, connections, workers
from tests.waiting import PATIENCE

type Start = Callable[..., Feedproxy]

pytestmark = pytest.mark.skipif(not TOLD_BY_PROC, reason="these need Linux")


def answered(address: tuple[str, int], target: str) -> str:
    """Return the result of one request on its own connection."""
    try:
        with socket.create_connection(address, timeout=PATIENCE) as wire:
            wire.sendall(f"GET /{target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            return str(read_answer(wire).status)
    except ConnectionRefusedError:
        return "refused"
    except (OSError, AssertionError, ValueError) as error:
        return type(error).__name__


@contextlib.contextmanager
def flood(address: tuple[str, int], target: str, *, clients: int = 8) -> Iterator[Counter[str]]:
    """Send requests on new connections continually, until the end or a refusal."""
    seen: Counter[str] = Counter()
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            outcome = answered(address, target)
            seen[outcome] += 1
            if outcome == "refused":
                return

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for each in threads:
        each.start()
    try:
        yield seen
    finally:
        ended.set()
        for each in threads:
            each.join()


# -- a worker that hangs


@pytest.mark.parametrize("first", [True, False])
def test_hanging_worker_is_replaced_and_metrics_do_not_decrease(start: Start, origin: Origin, first: bool) -> None:
    path, target = f"/hang-{first}", origin.url(f"/hang-{first}")
    origin.publish(path, a_feed("x"), Cache_Control="max-age=3600")
    proxy = start("--workers", "2")
    with connections(proxy, each=2) as all_:
        for connection in all_:
            connection.get(target)

        def answered_before() -> int:
            return int(admin(proxy, "GET", "/api/status")["requests"]["answered"])

        before = answered_before()
        assert before >= len(all_)
        victim = workers(proxy)[0 if first else 1]
        os.kill(victim, signal.SIGSTOP)
        until(lambda: victim not in workers(proxy) and len(workers(proxy)) == 2)

    assert "hangs" in proxy.said
    assert {answered(proxy.address, target) for _ in range(10)} == {"200"}
    assert answered_before() >= before


# -- shutdown


@pytest.mark.parametrize("arguments", [(), ("--workers", "2"), ("--set", "fast_path=false")])
def test_request_on_a_connection_made_before_shutdown_is_answered(
    start: Start, origin: Origin, arguments: tuple[str, ...]
) -> None:
    path = "/flood-" + "-".join(arguments).replace("=", "-")
    origin.publish(path, a_feed("x"), Cache_Control="max-age=3600")
    proxy = start(*arguments)
    assert answered(proxy.address, origin.url(path)) == "200"
    with flood(proxy.address, origin.url(path)) as seen:
        until(lambda: seen["200"] > 50)
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.wait() == 0
    assert set(seen) <= {"200", "refused"}, seen


def test_drain_timeout_limits_all_requests_in_progress(start: Start, origin: Origin) -> None:
    gate = Gate(lambda handler, _: handler.say(200, b"late", Content_Type="text/plain"))
    origin.stage("/never", gate)
    proxy = start(drain_timeout=1)
    with socket.create_connection(proxy.address) as wire:
        wire.sendall(f"GET /{origin.url('/never')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        origin.wait_for("/never")
        began = time.monotonic()
        assert proxy.terminate() == 0
    gate.open()
    assert time.monotonic() - began < Settings().drain_timeout


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")])
def test_sighup_reloads_the_configuration_without_ending_connections(
    start: Start, origin: Origin, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    origin.publish("/hup", a_feed("x"), Cache_Control="max-age=3600")
    (config := tmp_path / "feedproxy.yaml").write_text("contact_url: https://a.example/\n")
    proxy = start("--config", str(config), *arguments)
    processes = 2 if arguments else 1

    config.write_text("contact_url: https://b.example/\nnonsense: 1\n")
    os.kill(proxy.pid, signal.SIGHUP)
    until(lambda: proxy.said.count("unknown option 'nonsense'") == processes)
    config.write_text("contact_url: https://b.example/\nstore_max: 1GiB\n")
    os.kill(proxy.pid, signal.SIGHUP)
    until(lambda: proxy.said.count("options changed: contact_url") == processes)
    until(lambda: proxy.said.count("after a restart: store_max") == processes)

    assert answered(proxy.address, origin.url("/hup")) == "200"
    assert "b.example" in (origin.asked("/hup")[0].fields.get("User-Agent") or "")
    assert proxy.terminate() == 0


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")])
def test_every_line_of_a_log_in_json_is_an_object(start: Start, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (config := tmp_path / "feedproxy.yaml").write_text("head_timeout: 15s\n")  # deprecated, which is logged at once
    proxy = start("--config", str(config), *arguments, log_format="json")
    if arguments:
        os.kill(max(workers(proxy)), signal.SIGKILL)
        until(lambda: "was killed (SIGKILL), restarting" in proxy.said and len(workers(proxy)) == 2)
    os.kill(proxy.pid, signal.SIGHUP)
    until(lambda: proxy.said.count("configuration loaded") == (2 if arguments else 1))
    assert proxy.terminate() == 0

    lines = [line for line in proxy.said.splitlines() if not LISTENS.search(line)]
    messages = [json.loads(line)["message"] for line in lines]
    assert "head_timeout is deprecated" in messages[0]
    assert any("shutting down" in message for message in messages)


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")])
def test_signals_that_reopen_the_logs_of_other_programs_are_ignored(
    start: Start, origin: Origin, arguments: tuple[str, ...]
) -> None:
    origin.publish("/usr", a_feed("x"), Cache_Control="max-age=3600")
    proxy = start(*arguments)
    before = workers(proxy)

    for process in (proxy.pid, *before):
        os.kill(process, signal.SIGUSR1)
        os.kill(process, signal.SIGUSR2)

    assert answered(proxy.address, origin.url("/usr")) == "200"
    assert workers(proxy) == before
    assert proxy.terminate() == 0


def test_worker_that_starts_again_keeps_the_options_that_need_a_restart(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    origin.publish("/fixed", a_feed("x"), Cache_Control="max-age=3600")
    (config := tmp_path / "feedproxy.yaml").write_text("")
    proxy = start("--config", str(config), "--workers", "2")
    assert answered(proxy.address, origin.url("/fixed")) == "200"
    config.write_text(f"upstream: {origin.url('/other')}\n")
    os.kill(proxy.pid, signal.SIGHUP)
    until(lambda: proxy.said.count("after a restart: upstream") == 2)

    for victim in workers(proxy):
        os.kill(victim, signal.SIGKILL)
        until(lambda: victim not in workers(proxy) and len(workers(proxy)) == 2)  # noqa: B023 (it is called at once)

    assert {answered(proxy.address, origin.url("/fixed")) for _ in range(10)} == {"200"}
    os.kill(proxy.pid, signal.SIGHUP)
    until(lambda: proxy.said.count("after a restart: upstream") == 4)
    assert proxy.terminate() == 0


# -- a restart without lost requests


class Activated:
    """Acts like systemd for a service with a socket: opens the socket, passes it on, and receives notifications."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.arguments = folder, arguments
        self.reader = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.admin = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.reader.getsockname()
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(str(folder / "notify"))
        self.told.settimeout(PATIENCE)

    def start(self) -> Process:
        environment = product_environment(self.folder)
        environment |= {"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "1000000"}
        environment |= {"LISTEN_FDNAMES": "reader:admin"}
        copy_authority(self.folder / "conf")
        options = ["--store", str(self.folder / "store"), "--set", f"confdir={self.folder / 'conf'}", "--allow-private"]
        passed = [self.reader.fileno(), self.admin.fileno()]
        return Process([*COMMAND, "serve", *options, *self.arguments], self.folder, environment, passed=passed)

    def wait_for(self, state: str) -> dict[str, str]:
        """Wait for a message with this state, and return all states of the message."""
        while state not in (states := self.told.recv(4096).decode().splitlines()):
            pass
        return dict(line.split("=", 1) for line in states)

    def close(self) -> None:
        for each in (self.reader, self.admin, self.told):
            each.close()


@pytest.mark.parametrize("arguments", [(), ("--workers", "2"), ("--set", "fast_path=false")])
def test_restart_with_a_systemd_socket_refuses_no_connection(
    tmp_path: Path, origin: Origin, arguments: tuple[str, ...]
) -> None:
    path = "/activated-" + "-".join(arguments).replace("=", "-")
    origin.publish(path, a_feed("x"), Cache_Control="max-age=3600")
    manager = Activated(tmp_path, *arguments)
    process = manager.start()
    try:
        manager.wait_for("READY=1")
        manager.wait_for("WATCHDOG=1")
        assert answered(manager.address, origin.url(path)) == "200"
        requested = time.monotonic_ns() // 1000
        process.process.send_signal(signal.SIGHUP)
        reloading = manager.wait_for("RELOADING=1")
        assert requested <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        manager.wait_for("READY=1")
        with flood(manager.address, origin.url(path)) as seen:
            until(lambda: seen["200"] > 20)
            process.process.send_signal(signal.SIGTERM)
            manager.wait_for("STOPPING=1")
            assert process.wait() == 0
            process = manager.start()
            manager.wait_for("READY=1")
            before = seen["200"]
            until(lambda: seen["200"] > before + 20)
        assert set(seen) == {"200"}, seen
    finally:
        process.terminate()
        manager.close()


def test_second_process_takes_over_the_port_if_both_permit_it(start: Start, origin: Origin, tmp_path: Path) -> None:
    origin.publish("/taken-over", a_feed("x"), Cache_Control="max-age=3600")
    target = origin.url("/taken-over")
    first = start(reuse_port="true", store=tmp_path / "store")
    assert answered(first.address, target) == "200"
    listen = f"127.0.0.1:{first.address[1]}"

    refused = start_beside(tmp_path, listen, "false")
    assert refused.wait() == 1
    assert "Address already in use" in refused.said

    with flood(first.address, target) as seen:
        until(lambda: seen["200"] > 20)
        second = start_beside(tmp_path, listen, "true")
        second.line(LISTENS)
        assert first.terminate() == 0
        before = seen["200"]
        until(lambda: seen["200"] > before + 20)
    assert set(seen) == {"200"}, seen
    assert second.terminate() == 0


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")])
def test_store_is_used_by_one_process_at_a_time(start: Start, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    first = start(*arguments, store=tmp_path / "store")

    refused = start_beside(tmp_path, "127.0.0.1:0", "false")
    assert refused.wait() == 1
    assert f"is in use by process {first.pid}" in refused.said

    first.kill()
    second = start_beside(tmp_path, "127.0.0.1:0", "false")
    second.line(LISTENS)
    assert second.terminate() == 0


def start_beside(folder: Path, listen: str, reuse: str) -> Process:
    options = ["--store", str(folder / "store"), "--set", f"confdir={folder / 'conf'}", "--allow-private"]
    command = [*COMMAND, "serve", "--listen", listen, "--admin", "127.0.0.1:0", *options]
    return Process([*command, "--set", f"reuse_port={reuse}"], folder, product_environment(folder))
