"""Limits of one connection, in the fast path and in mitmproxy."""

import asyncio
import errno
import logging
import socket

import pytest

from feedproxy.server.fastpath import mitmproxy_compatibility, sockets
from feedproxy.server.fastpath.template_cache import ENTRY_OVERHEAD, SWEEP_BATCH, AdmissionFilter, FastPathCache
from feedproxy.settings import Settings
from tests.server.conftest import Front, Opened, until
from tests.stages.origin import a_feed


async def test_slow_head_gets_408(front: Opened) -> None:
    proxy = await front(head_timeout=15)
    line = await proxy.warm()
    await line.say(proxy.get()[:-10])
    await until(lambda: bool(proxy.listener._deadlines))
    now = asyncio.get_running_loop().time()

    proxy.listener.tick(now + 14)
    assert proxy.listener._connections
    proxy.listener.tick(now + 16)

    answer = await line.hear()
    assert answer.status == 408
    assert await line.ended()
    assert unreadable_count(proxy, 408) == (1, len(answer.body))


@pytest.mark.parametrize("fast_path", [True, False])
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/9.1\r\nHost: a\r\n\r\n", 505),
        (b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % (b"a" * 70_000), 431),
    ],
)
async def test_unreadable_head_is_logged_and_counted(
    front: Opened, caplog: pytest.LogCaptureFixture, head: bytes, status: int, fast_path: bool
) -> None:
    caplog.set_level(logging.INFO, "feedproxy")
    proxy = await front(fast_path=fast_path)

    answer = await (await proxy.line()).ask(head)

    assert answer.status == status
    assert unreadable_count(proxy, status) == (1, len(answer.body))
    assert len([message for message in caplog.messages if f"answered {status}: " in message]) == 1


def unreadable_count(proxy: Front, status: int) -> tuple[float | None, float | None]:
    """Return the number of unreadable requests with this status, and the bytes of feedproxy's own pages."""
    value = proxy.stage.app.metrics.registry.get_sample_value
    labels = {"entrance": "gateway", "outcome": "own", "detail": "bad-request", "status": str(status)}
    return (
        value("feedproxy_requests_total", labels),
        value("feedproxy_response_bytes_total", {"entrance": "gateway", "source": "own"}),
    )


async def test_head_completed_in_time_cancels_its_timeout(front: Opened) -> None:
    proxy = await front(head_timeout=15)
    line = await proxy.warm()
    await line.say(proxy.get()[:-10])
    await until(lambda: bool(proxy.listener._deadlines))
    await line.ask(proxy.get()[-10:])

    proxy.listener.tick(asyncio.get_running_loop().time() + 16)

    assert (await line.ask(proxy.get())).status == 200


async def test_slow_head_after_a_miss_gets_408(front: Opened) -> None:
    proxy = await front(head_timeout=15)
    line = await proxy.line()
    await line.say(proxy.get() + proxy.get()[:-10])
    assert (await line.hear()).status == 200
    await until(lambda: bool(proxy.listener._deadlines))

    proxy.listener.tick(asyncio.get_running_loop().time() + 16)

    assert (await line.hear()).status == 408
    assert await line.ended()


async def test_idle_connection_is_closed(front: Opened) -> None:
    proxy = await front(tcp_timeout=60)
    line = await proxy.warm()

    proxy.listener.tick(asyncio.get_running_loop().time() + 61)

    assert await line.ended()
    assert not proxy.stage.app.connections


async def test_endless_head_is_refused(front: Opened) -> None:
    proxy = await front(header_max=4000)
    line = await proxy.warm()

    await line.say(proxy.get()[:-2] + b"X-A: " + b"a" * 5000)

    assert (await line.hear()).status == 431
    assert await line.ended()


@pytest.mark.parametrize("fast_path", [True, False])
async def test_long_target_is_refused(front: Opened, fast_path: bool) -> None:
    """A target of 60,000 percent signs took more than half a second of the event loop."""
    proxy = await front(fast_path=fast_path)

    for sign in "%", "a", "\xe9":
        longest, longer = (f"/feed.rss?{sign * (size - len(proxy.origin.base) - 11)}" for size in (8192, 8193))
        assert (await (await proxy.line()).ask(proxy.get(longer))).status == 414
        assert (await (await proxy.line()).ask(proxy.get(longest))).status in (404, 400), "too long in normal form"


@pytest.mark.parametrize("fast_path", [True, False])
async def test_head_with_too_many_lines_is_refused(front: Opened, fast_path: bool) -> None:
    """Thousands of short lines took a tenth of a second of the event loop."""
    proxy = await front(fast_path=fast_path)
    most = [f"X-{number}: a" for number in range(500 - 3)]

    assert (await (await proxy.line()).ask(proxy.get("/feed.rss", *most))).status == 200
    assert (await (await proxy.line()).ask(proxy.get("/feed.rss", *most, "X-More: a"))).status == 431


async def test_connections_above_the_limit_are_refused_while_no_other_is_idle(front: Opened) -> None:
    proxy = await front(max_connections=3)
    proxy.origin.publish("/slow.rss", a_feed("one", ttl=60))
    proxy.origin.gate = asyncio.Event()
    held = [await proxy.line() for _ in range(3)]
    for each in held:
        await each.say(proxy.get("/slow.rss"))
    await until(lambda: proxy.stage.app.connections == 3)

    line = await proxy.line()
    await line.say(proxy.get())

    assert await line.ended()
    proxy.origin.gate.set()
    assert [(await each.hear()).status for each in held] == [200] * 3


async def test_connection_above_the_limit_replaces_the_one_that_was_idle_for_longest(front: Opened) -> None:
    proxy = await front(max_connections=3)
    idle = []
    for seconds in (1, 2, 3):
        proxy.listener.tick(proxy.listener._now + seconds)
        idle.append(await proxy.warm())

    assert (await (await proxy.line()).ask(proxy.get())).status == 200

    assert await idle[0].ended()
    assert [(await each.ask(proxy.get())).status for each in idle[1:]] == [200, 200]
    assert proxy.stage.app.connections == 3


async def test_listener_without_file_descriptors_closes_an_idle_connection(front: Opened) -> None:
    proxy = await front()
    idle = await proxy.warm()

    class Short:
        def _accept(self) -> None:
            if proxy.listener._connections:
                raise OSError(24, "Too many open files")
            raise BlockingIOError

    proxy.listener._accept(Short(), 2)  # type: ignore[arg-type]

    assert await idle.ended()
    assert proxy.listener._listen_sockets, "it goes on accepting"


async def test_connections_above_the_limit_per_address_are_refused(front: Opened) -> None:
    proxy = await front(max_connections_per_address=2)
    lines = [await proxy.warm() for _ in range(2)]
    line = await proxy.line()
    await line.say(proxy.get())
    assert await line.ended()

    lines[0].writer.close()
    await until(lambda: proxy.stage.app.connections == 1)

    assert (await (await proxy.line()).ask(proxy.get())).status == 200


async def test_client_that_does_not_read_makes_the_proxy_keep_one_response(front: Opened) -> None:
    proxy = await front()
    proxy.origin.publish(
        "/large.rss", b"<rss version='2.0'><channel><title>" + b"x" * 2_000_000, cache_control="max-age=60"
    )
    request = proxy.get("/large.rss").replace(b"gzip", b"identity")
    line = await proxy.warm(request)
    line.reader._limit = 1000  # type: ignore[attr-defined]
    line.writer.transport.pause_reading()  # type: ignore[attr-defined]

    for _ in range(50):
        line.writer.write(request)
    (reader,) = proxy.listener._connections.values()
    await until(lambda: bool(reader.unsent))
    held = sum(len(each) for each in reader.unsent)

    assert held <= 2_100_000
    proxy.listener.tick(asyncio.get_running_loop().time() + 46)
    assert not proxy.listener._connections, "who takes nothing for answer_timeout is let go"


async def test_drain_answers_waiting_clients_and_closes_idle_connections(front: Opened) -> None:
    proxy = await front()
    idle = await proxy.warm()
    proxy.origin.publish("/slow.rss", b"<rss/>")
    proxy.origin.gate = asyncio.Event()
    waiting = await proxy.line()
    await waiting.say(proxy.get("/slow.rss"))
    await proxy.origin.asked(2)

    proxy.stage.app.draining = True
    proxy.stage._master.options.update(server=False)
    assert await idle.ended()
    assert proxy.stage.app.fastpath_requests == 1
    proxy.origin.gate.set()

    answer = await waiting.hear()
    assert (answer.status, answer.fields["connection"]) == (200, "close")
    assert await waiting.ended()
    assert proxy.stage.app.fastpath_requests == 0


async def test_listener_without_file_descriptors_stops_accepting_for_a_moment(
    front: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await front()

    class Short:
        def _accept(self) -> None:
            raise OSError(24, "Too many open files")

    proxy.listener._accept(Short(), 1)  # type: ignore[arg-type]
    assert proxy.listener._listen_sockets == {}

    line = await proxy.line()
    assert (await line.ask(proxy.get())).status == 200


async def test_idle_connections_leave_descriptors_for_requests_to_origins(front: Opened) -> None:
    proxy = await front()
    idle = await proxy.warm()
    proxy.listener._reserved_from = 0

    assert (await (await proxy.line()).ask(proxy.get())).status == 200

    assert await idle.ended()


async def test_connection_stays_with_mitmproxy_if_no_file_descriptor_is_left(
    front: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await front()
    line = await proxy.warm()
    await line.ask(proxy.get("/-/nothing"))

    def short(_: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("feedproxy.server.fastpath.handoff.os.dup", short)

    assert (await line.ask(proxy.get())).status == 200
    assert not proxy.listener._connections
    monkeypatch.undo()
    assert (await line.ask(proxy.get())).status == 200
    assert len(proxy.listener._connections) == 1


def test_all_listen_addresses_share_one_port_and_include_ipv6() -> None:
    made = sockets.open_listen_sockets("", 0, reuse_port=False)
    try:
        assert len({each.getsockname()[1] for each in made}) == 1
        if socket.has_ipv6:
            assert {each.family for each in made} >= {socket.AF_INET}
    finally:
        for each in made:
            each.close()


@pytest.mark.parametrize(
    ("host", "number"),
    [
        ("localhost", errno.EAFNOSUPPORT),
        ("localhost", errno.EADDRNOTAVAIL),  # disable_ipv6
        ("", errno.EAFNOSUPPORT),
        ("", errno.EADDRNOTAVAIL),
    ],
)
def test_listen_address_of_unsupported_ipv6_is_left_out(
    monkeypatch: pytest.MonkeyPatch, host: str, number: int
) -> None:
    bind = sockets.bind_socket

    def bind_ipv4(family: int, address: tuple[str | int, ...], *, reuse_port: bool) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, "no IPv6")
        return bind(family, address, reuse_port=reuse_port)

    found = [(socket.AF_INET6, ("::1", 0, 0, 0)), (socket.AF_INET, ("127.0.0.1", 0))]
    infos = [(family, socket.SOCK_STREAM, 0, "", address) for family, address in found]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: infos)
    monkeypatch.setattr(sockets, "bind_socket", bind_ipv4)

    (made,) = sockets.bind_sockets(host, 0, reuse_port=False)

    assert made.family == socket.AF_INET
    made.close()


@pytest.mark.parametrize(
    "found",
    [
        [(socket.AF_INET6, "::1")],
        [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "192.0.2.1")],
        [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "2001:db8::1")],
    ],
)
def test_listen_address_that_the_machine_lacks_is_an_error(
    monkeypatch: pytest.MonkeyPatch, found: list[tuple[int, str]]
) -> None:
    bind = sockets.bind_socket

    def bind_loopback(family: int, address: tuple[str | int, ...], *, reuse_port: bool) -> socket.socket:
        if address[0] != "127.0.0.1":
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return bind(family, address, reuse_port=reuse_port)

    infos = [(family, socket.SOCK_STREAM, 0, "", (address, 0)) for family, address in found]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: infos)
    monkeypatch.setattr(sockets, "bind_socket", bind_loopback)

    with pytest.raises(OSError, match="Cannot assign requested address"):
        sockets.bind_sockets("feeds.test", 0, reuse_port=False)


def test_fast_path_cache_keeps_its_size_limit() -> None:
    class Fake:
        def size(self) -> int:
            return 1000

    table = FastPathCache(50_000)
    for number in range(1000):
        table.put(b"GET %d" % number, Fake())  # type: ignore[arg-type]
        assert table.size <= 50_000

    assert 0 < len(table.templates) < 50
    for key in list(table.templates):
        table.remove(key)
    assert table.size == 0


def test_remembered_field_sections_are_bounded_and_return_after_a_flood() -> None:
    table, known = FastPathCache(16 * 50_000), b"\r\nHost: feeds.example\r\n\r\n"
    table.put_section(known, (b"0" * 16, b""))
    for number in range(1000):
        section = b"\r\nAccept: %04d\r\n\r\n" % number
        table.put_section(section, (b"%016d" % number, b""))
        bytes_each = ENTRY_OVERHEAD + len(section) + 16
        assert (len(table.sections) + len(table._older_sections)) * bytes_each <= 2 * 50_000

    assert known not in table.sections
    assert [table.should_admit_section(known) for _ in range(2)] == [False, True]
    assert all(map(table.should_admit_section, table._older_sections)), "a section in use returns at once"


def test_field_section_stored_again_takes_no_further_room() -> None:
    table, known = FastPathCache(16 * 50_000), b"\r\nHost: feeds.example\r\n\r\n"
    for _ in range(1000):
        table.put_section(known, (b"0" * 16, b""))

    assert known in table.sections
    assert known not in table._older_sections


def test_stale_template_is_evicted_among_current_ones() -> None:
    class Fake:
        def size(self) -> int:
            return 1000

    table = FastPathCache(100_000_000)
    keys = [b"GET %d" % number for number in range(3 * SWEEP_BATCH)]
    for key in keys:
        table.put(key, Fake())  # type: ignore[arg-type]
    stale = table.templates[keys[SWEEP_BATCH]]

    for _ in range(3):
        table.evict_stale(lambda template: template is not stale)
        table.put(b"HEAD", Fake())  # type: ignore[arg-type]
        table.remove(b"HEAD")

    assert set(keys) - set(table.templates) == {keys[SWEEP_BATCH]}


def test_two_caches_of_a_listener_share_their_limit() -> None:
    class Fake:
        def size(self) -> int:
            return 1800

    first = FastPathCache(50_000)
    second = FastPathCache(50_000, first)
    for table in (first, second):
        for number in range(100):
            table.put(b"GET %d" % number, Fake())  # type: ignore[arg-type]
            assert first.size + second.size <= 50_000

    assert min(first.size, second.size) > 15_000


def test_unusable_entries_are_evicted_within_a_minute() -> None:
    class Fake:
        def size(self) -> int:
            return 1800  # with a head of 400 bytes

    table, number = FastPathCache(Settings().memory.hits), 0
    while table.size < Settings().memory.hits * 3 // 4 - 100_000:
        number += 1
        table.put(b"GET %d" % number, Fake())  # type: ignore[arg-type]

    for _ in range(60):
        table.evict_stale(lambda _: False)

    assert (len(table.templates), table.size) == (0, 0)


def test_admission_filter_is_bounded_and_recognizes_repeated_requests() -> None:
    once = AdmissionFilter(sampled=True)
    assert not once.is_seen_before(b"a")
    assert once.is_seen_before(b"a")
    for number in range(400_000):
        once.is_seen_before(b"%d" % number)
    assert len(once._young) + len(once._old) <= 2 * 16_384
    assert any(once.is_seen_before(b"b") for _ in range(20)), "who comes again is found out among strangers, too"


def test_fast_path_is_off_with_an_incompatible_mitmproxy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert mitmproxy_compatibility.find_missing() == []
    assert mitmproxy_compatibility.select_modes(["regular@127.0.0.1:0"]) == ["front@127.0.0.1:0"]
    monkeypatch.delattr("mitmproxy.proxy.layers.http.HttpLayer.make_stream")

    assert mitmproxy_compatibility.select_modes(["regular"]) == ["regular"]

    assert "fast path: off" in caplog.text


async def test_last_log_lines_are_written_at_shutdown(front: Opened, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "feedproxy.access")
    proxy = await front(log_format="text")
    await proxy.warm()

    proxy.stage.app.draining = True
    proxy.stage._master.options.update(server=False)
    await until(lambda: not proxy.listener.sockets)

    assert len([each for each in caplog.records if each.name == "feedproxy.access"]) == 4
