"""The process: start, failed start, shutdown, and the state after a restart."""

import contextlib
import re
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import h2.events
import pytest

from tests.live.origin import Asked, Authority, Gate, Handler, Origin, a_feed, opened, until
from tests.live.product import (
    COMMAND,
    LISTENS,
    Feedproxy,
    Process,
    Seen,
    ask,
    copy_authority,
    product_environment,
    raw,
)
from tests.security.test_http2_floods import Tunnel
from tests.waiting import NEVER, PATIENCE

type Start = Callable[..., Feedproxy]


class Asking(threading.Thread):
    """A request in progress in its own thread."""

    def __init__(self, what: Callable[[], Seen]) -> None:
        super().__init__(daemon=True)
        self._what = what
        self.seen: Seen | None = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.seen = self._what()
        except Exception as error:
            self.error = error

    def answer(self) -> Seen:
        self.join(PATIENCE)
        assert self.error is None, self.error
        assert self.seen is not None, "no answer in time"
        return self.seen


def a_page(text: bytes = b"at last") -> Callable[[Handler, Asked], None]:
    return lambda handler, _: handler.say(200, text, Content_Type="text/plain")


def refuses(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=2).close()
    except ConnectionRefusedError:
        return True
    return False


# -- shutdown


def test_executed_processes_print_nothing_when_python_frees_their_modules(origin: Origin, tmp_path: Path) -> None:
    """The tests' forked processes do not free them (`forked.py`)."""
    origin.publish("/freed.rss", a_feed("one"))
    arguments = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--allow-private"]
    environment = {**product_environment(tmp_path), "LD_PRELOAD": ""}  # with this variable, it is not forked
    copy_authority(tmp_path / "conf")
    options = [f"--set=confdir={tmp_path / 'conf'}", f"--set=store={tmp_path / 'store'}", "--set=workers=2"]
    proxy = Process([*COMMAND, *arguments, *options], tmp_path / "here", environment)
    base = proxy.line(LISTENS)[1]

    assert ask(f"{base}/{origin.url('/freed.rss')}").status == 200
    assert proxy.terminate() == 0

    assert not re.search("Traceback|ignored|destroyed|never|Warning|Fatal", proxy.said), proxy.said


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_sigterm_lets_running_requests_finish_and_refuses_new_ones(start: Start, origin: Origin, method: str) -> None:
    proxy, path = start(), f"/slow-{method}"
    origin.stage(path, gate := Gate(a_page()))
    slow = Asking(lambda: ask(proxy.gateway(origin.url(path)), method, body=b"x" if method == "POST" else None))
    origin.wait_for(path)

    proxy.process.terminate()
    until(lambda: refuses(proxy.address))
    assert proxy.process.poll() is None
    gate.open()

    assert (slow.answer().status, slow.answer().body) == (200, b"at last")
    assert proxy.wait() == 0
    assert "Traceback" not in proxy.said


def test_sigterm_lets_a_streamed_response_finish(start: Start, origin: Origin) -> None:
    proxy, halted = start(buffer_max=1_024), threading.Event()

    def large(handler: Handler, _: Asked) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "4000")
        handler.end_headers()
        handler.wfile.write(b"a" * 2_000)
        halted.wait(PATIENCE)
        handler.wfile.write(b"b" * 2_000)

    origin.stage("/large", large)
    with socket.create_connection(proxy.address, timeout=PATIENCE) as wire:
        wire.sendall(f"GET /{origin.url('/large')} HTTP/1.1\r\nHost: us\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while b"a" * 2_000 not in received:
            received += wire.recv(65_536)
        proxy.process.terminate()
        until(lambda: refuses(proxy.address))
        halted.set()
        while piece := wire.recv(65_536):
            received += piece

    assert received.endswith(b"a" * 2_000 + b"b" * 2_000)
    assert proxy.wait() == 0


@pytest.mark.parametrize("record", ["", "traffic.har"], ids=["fast path", "recording"])
def test_sigterm_closes_http2_connections_with_goaway_after_their_last_response(tmp_path: Path, record: str) -> None:
    with opened(tmp_path) as (origin, authority):
        proxy = Feedproxy(tmp_path, authority=authority.file, intercept="localhost", record=record)
        origin.stage("/slow", gate := Gate(a_page()))
        with contextlib.closing(Tunnel(proxy, origin)) as idle, contextlib.closing(Tunnel(proxy, origin)) as busy:
            for tunnel in (idle, busy):
                tunnel.send()
                tunnel.hear(h2.events.SettingsAcknowledged)
            busy.h2.send_headers(1, busy.head("/slow"), end_stream=True)
            busy.send()
            origin.wait_for("/slow")

            proxy.process.terminate()
            until(lambda: refuses(proxy.address))
            assert idle.goaway() == 0
            gate.open()

            assert any(
                isinstance(event, h2.events.DataReceived) and event.data == b"at last"
                for event in busy.hear(h2.events.ConnectionTerminated)
            )
            assert busy.ended == 0
            assert proxy.wait() == 0
        assert "Traceback" not in proxy.said


def test_request_longer_than_the_drain_is_aborted(start: Start, origin: Origin) -> None:
    proxy = start(drain_timeout=1)
    origin.stage("/endless", gate := Gate(a_page()))
    Asking(lambda: proxy.get(origin.url("/endless")))
    origin.wait_for("/endless")

    assert proxy.terminate() == 0

    gate.open()
    assert "Traceback" not in proxy.said


def test_idle_connection_and_open_tunnel_do_not_delay_shutdown(start: Start, origin: Origin) -> None:
    proxy = start(drain_timeout=NEVER)
    port = origin.https.server_port
    with socket.create_connection(proxy.address) as idle, socket.create_connection(proxy.address) as tunnel:
        tunnel.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert tunnel.recv(1_000).startswith(b"HTTP/1.1 200")
        idle.sendall(b"GET / HT")

        assert proxy.terminate() == 0


def test_second_sigterm_changes_nothing(start: Start, origin: Origin) -> None:
    proxy = start()
    origin.stage("/slow-twice", gate := Gate(a_page()))
    slow = Asking(lambda: proxy.get(origin.url("/slow-twice")))
    origin.wait_for("/slow-twice")

    proxy.process.terminate()
    until(lambda: refuses(proxy.address))
    proxy.process.terminate()
    gate.open()

    assert slow.answer().status == 200
    assert proxy.wait() == 0


# -- state after a restart


def test_copies_counts_and_the_name_in_via_survive_a_restart(start: Start, origin: Origin, tmp_path: Path) -> None:
    store = tmp_path / "store"
    origin.publish("/kept.rss", a_feed("kept"), Cache_Control="no-cache")
    first = start(store=store)
    before = first.get(origin.url("/kept.rss"), user_agent="Reader/1 (41 subscribers)")
    assert first.terminate() == 0

    second = start(store=store)
    after = second.get(origin.url("/kept.rss"), user_agent="Another/1")

    assert after.body == before.body
    assert after.fields["Via"] == before.fields["Via"]  # the same installation
    assert "fwd-status=304" in after.cache
    assert "42 subscribers" in origin.asked("/kept.rss")[-1].agent


def test_kill_during_fetches_loses_no_stored_feed(start: Start, made: tuple[Origin, Authority], tmp_path: Path) -> None:
    origin, _ = made
    store = tmp_path / "store"
    proxy = start(store=store)
    held = [f"/held/{number}.rss" for number in range(12)]
    for path in held:
        origin.publish(path, a_feed(path))
        assert proxy.get(origin.url(path)).status == 200
    until(lambda: _stored(store) >= len(held))
    gate = Gate(a_page(a_feed("late")))
    for path in [f"/late/{number}" for number in range(4)]:
        origin.stage(path, gate)
        Asking(partial(proxy.get, origin.url(path)))
        origin.wait_for(path)

    proxy.kill()
    gate.open()
    again = start(store=store)

    for path in held:
        origin.stage(path, lambda handler, _: handler.connection.close())
        seen = again.get(origin.url(path))
        assert seen.status == 200, (path, seen.cache, again.said)
        assert "hit" in seen.cache
        assert path.encode() in seen.body
    assert all(len(origin.asked(path)) == 1 for path in held)


def _stored(store: Path) -> int:
    """Return the number of feeds on disk, without those being written."""
    found = 0
    for file in store.rglob("cache.db"):
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as shard:
            found += shard.execute("SELECT count(*) FROM Cache WHERE key LIKE 'http%'").fetchone()[0]
    return found


def test_damaged_store_causes_no_error_for_readers(start: Start, origin: Origin, tmp_path: Path) -> None:
    store = tmp_path / "store"
    origin.publish("/damaged.rss", a_feed("well"))
    first = start(store=store)
    first.get(origin.url("/damaged.rss"))
    assert first.terminate() == 0
    for file in store.rglob("*"):
        if file.is_file():
            file.write_bytes(b"\0garbage" * 500)

    second = start(store=store)

    assert second.get(origin.url("/damaged.rss")).status == 200
    assert second.terminate() == 0


# -- failed starts


type Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path) -> Iterator[Refused]:
    """Return the message with which `feedproxy serve` exits with 2, or with another code."""
    started: list[Process] = []

    def begin(*arguments: str, store: str = "memory:", admin: str = "127.0.0.1:0", code: int = 2) -> str:
        own = ("--listen", "127.0.0.1:0", "--admin", admin, "--store", store, "--set", f"confdir={tmp_path}/conf")
        started.append(process := Process([*COMMAND, "serve", *own, *arguments], tmp_path / "refused"))
        assert process.ended_before(LISTENS) == code, process.said
        assert "Traceback" not in process.said
        complaints = [line for line in process.said.splitlines() if "the admin listener is at" not in line]
        assert len(complaints) == 1, complaints
        assert complaints[0].startswith("feedproxy: ")
        return complaints[0]

    yield begin
    for each in started:
        each.kill()


def test_port_in_use_is_reported_in_one_line(refused: Refused) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        said = refused("--listen", address, code=1)

    assert said.startswith(f"feedproxy: cannot listen on {address}: Address already in use (--listen ")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ipv6_port_in_use_is_reported_with_brackets(refused: Refused, workers: str, tmp_path: Path) -> None:
    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"no IPv6: {error}")
    with taken:
        address = f"[::1]:{taken.getsockname()[1]}"

        said = refused("--listen", address, "--workers", workers, store=str(tmp_path / "store"), code=1)

    assert said.startswith(f"feedproxy: cannot listen on {address}: Address already in use (--listen ")


def test_admin_port_in_use_is_reported_in_one_line(refused: Refused) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused(admin=f"127.0.0.1:{taken.getsockname()[1]}", code=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "feed_hint=off"), "did you mean 'feed_hints'?"),
        (("--set", "allow_ports=x"), "invalid port 'x'"),
        (("--set", "trusted_proxies=balancer"), "'balancer': expected an address"),
        (("--set", "ssl_verify_upstream_trusted_ca=/nowhere.pem"), "/nowhere.pem: No such file"),
        (("--listen", "somewhere"), "expected HOST:PORT"),
        (("--upstream", "ftp://origin.example"), "upstream: ftp://origin.example"),
    ],
)
def test_unknown_option_is_reported_in_one_line_with_a_suggestion(
    refused: Refused, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(*arguments)


@pytest.mark.parametrize(
    "setting",
    [
        "codings=lzma",
        "public_url=feeds.example",
        "public_url=https://feeds.example:99999/",
        "public_url=https://feeds.example/?a",
        "endpoint_prefix=own",
    ],
)
def test_unusable_value_is_reported_at_start(refused: Refused, setting: str) -> None:
    assert setting.partition("=")[0] in refused("--set", setting)


def test_mistyped_flag_is_reported_in_one_line_with_a_suggestion(refused: Refused) -> None:
    assert "--listen" in refused("--lisen", "127.0.0.1:0").partition("--lisen")[2]


def test_unwritable_store_is_reported_in_one_line(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    assert f"{tmp_path}/file/below cannot be used" in refused(store=f"{tmp_path}/file/below")
    assert "/proc/feedproxy cannot be used" in refused(store="/proc/feedproxy")  # not writable even for root


# -- configuration and logs


def test_configured_rule_is_applied(start: Start, origin: Origin, tmp_path: Path) -> None:
    config = tmp_path / "feedproxy.yaml"
    config.write_text(
        "self_link: 'off'\nfeeds:\n"
        f"  - match: {origin.url('/ruled/*')}\n    moved_to: https://new.example/feed\n"
        f"  - match: {origin.url('/gone/*')}\n    gone: true\n"
    )
    origin.publish("/free.rss", a_feed("free"))
    proxy = start("--config", str(config))

    moved, gone, free = (proxy.get(origin.url(path)) for path in ("/ruled/a.rss", "/gone/a.rss", "/free.rss"))

    assert (moved.status, moved.fields["Location"]) == (301, proxy.gateway("https://new.example/feed"))
    assert gone.status == 410
    assert free.status == 200
    assert b"self" not in free.body
    assert len(origin.asked("/free.rss")) == 1


def test_configuration_error_is_reported_with_its_line(refused: Refused, tmp_path: Path) -> None:
    config = tmp_path / "feedproxy.yaml"
    config.write_text("site_interval: 3\nfeeds:\n  - match: '*.example.org'\n    feed_min_intervall: 60\n")

    assert f"{config}:4: " in (said := refused("--config", str(config)))
    assert "did you mean 'feed_min_interval'?" in said


def test_command_line_option_overrides_the_file(start: Start, origin: Origin, tmp_path: Path) -> None:
    config = tmp_path / "feedproxy.yaml"
    config.write_text("log_format: 'off'\ncodings: []\n")
    origin.publish("/coded.rss", a_feed(*map(str, range(50))))
    proxy = start("--config", str(config), log_format="json")

    seen = proxy.get(origin.url("/coded.rss"), accept_encoding="gzip")

    assert "Content-Encoding" not in seen.fields
    until(lambda: '"gateway"' in proxy.said)


def test_every_request_is_logged_without_the_readers_address_or_secrets(start: Start, origin: Origin) -> None:
    origin.publish("/told.rss?token=abc123&page=2", a_feed("told"))
    proxy = start()

    proxy.get(origin.url("/told.rss?token=abc123&page=2"), user_agent="Teller/1")
    line = until(lambda: next((each for each in proxy.said.splitlines() if "Teller/1" in each), ""))

    told = r"gateway GET \S+/told\.rss\?token=…&page=2 200 \d+ [\d.]+ms \[feedproxy; fwd=uri-miss; "
    assert re.search(told, line), line
    assert "abc123" not in proxy.said


# -- HTTP/1.0 and hostile heads


def test_http_1_0_client_without_host_is_served_at_the_gateway(proxy: Feedproxy, origin: Origin) -> None:
    origin.publish("/old.rss", a_feed("old"))

    seen = raw(proxy.address, f"GET /{origin.url('/old.rss')} HTTP/1.0\r\n\r\n".encode())

    assert seen.status == 200
    assert b"<title>old</title>" in seen.body
    assert "Transfer-Encoding" not in seen.fields


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /http://a b/ HTTP/1.1\r\nHost: us\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: us\r\n\r\n",
        b"GET /http://127.0.0.1:99999/ HTTP/1.1\r\nHost: us\r\n\r\n",
        b"GET /ftp://127.0.0.1/ HTTP/1.1\r\nHost: us\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: us\r\n\r\n",
        b"POST /http://x.invalid/ HTTP/1.1\r\nHost: us\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n",
    ],
)
def test_malformed_request_gets_an_error_and_the_proxy_continues(proxy: Feedproxy, head: bytes) -> None:
    seen = raw(proxy.address, head)

    assert 400 <= seen.status < 500, (seen.status, seen.body)
    assert b"Traceback" not in seen.body
    assert ask(proxy.base + "/").status == 200
