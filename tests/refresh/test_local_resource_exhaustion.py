"""Failures of the local machine do not count as failures of an origin."""

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from feedproxy.clock import ManualClock
from feedproxy.errors import FeedproxyError, Overload
from feedproxy.process.mitmproxy_master import Master
from feedproxy.refresh.ingest import helper_pool
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.ingest.helper_process import Limits
from feedproxy.store.resource import Failures
from feedproxy.upstream import local_resource_exhaustion
from feedproxy.upstream.local_resource_exhaustion import NetworkState, ShortageLog, is_exhaustion, overload_of
from feedproxy.upstream.upstream_errors import NoNetwork, ParentFailed, ParentRefused, Unreachable
from tests.stages.origin import a_feed
from tests.stages.play import OnService, Proxy
from tests.upstream.raw import a_fetcher, a_get, a_policy
from tests.waiting import PATIENCE


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> NetworkState:
    """Return a network state without a successful connection."""
    made = NetworkState()
    monkeypatch.setattr(local_resource_exhaustion, "network", made)
    monkeypatch.setattr(local_resource_exhaustion, "shortage_log", ShortageLog())
    return made


@pytest.fixture
async def stage() -> AsyncIterator[OnService]:
    opened = OnService(ManualClock(1_795_176_000.0), {"polling": "off"})
    await opened.open()
    yield opened
    await opened.close()


async def test_overload_is_no_failure_of_the_feed(stage: OnService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine lacks descriptors, or the slow lane of the helper pool is full."""
    proxy, feed, clock = Proxy(stage), stage.origin, stage.clock
    feed.publish("/feed.rss", a_feed("first"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)

    feed.break_down(Overload("no descriptor is left"))
    (await proxy.get("/feed.rss")).expect(200, cache="detail=overload")
    refused = (await proxy.get("/new.rss")).expect(503, cache="detail=overload")

    assert int(refused.fields.get("retry-after") or 0) > 0
    assert _failures(stage) == Failures()

    clock.advance(minutes=10)
    feed.recover()
    feed.publish("/feed.rss", a_feed("second"), cache_control="max-age=60")
    monkeypatch.setattr(helper_pool, "LARGE_JOB", 1)
    monkeypatch.setattr(helper_pool, "SLOW_QUEUE_MAX", 0)
    pool = stage.service._coordinator.helper_pool
    monkeypatch.setattr(pool, "_in_threads", False)
    (await proxy.get("/feed.rss")).expect(200, cache="detail=overload")

    assert _failures(stage) == Failures()
    monkeypatch.setattr(pool, "_in_threads", True)
    clock.advance(minutes=10)
    assert b"second" in (await proxy.get("/feed.rss")).expect(200, cache="stored").body


def _failures(stage: OnService) -> Failures:
    held = stage.service.store.get(stage.origin.url("/feed.rss"))
    assert held is not None
    return held.failures


async def test_failure_of_the_parent_proxy_is_neither_a_move_nor_an_end_of_the_feed(stage: OnService) -> None:
    proxy, feed, clock = Proxy(stage), stage.origin, stage.clock
    feed.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")

    for error, failed in ((ParentFailed("it is down"), 0), (ParentRefused("it answered 403 to CONNECT"), 1)):
        clock.advance(minutes=10)
        feed.break_down(error)
        (await proxy.get("/feed.rss")).expect(200, cache="detail=parent-proxy")
        held = stage.service.store.get(feed.url("/feed.rss"))
        assert held is not None
        assert held.relocation is None
        assert not any(each.invalid for each in held.variants)
        assert held.failures.count == failed


@pytest.mark.parametrize("name", ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EADDRNOTAVAIL"])
def test_resource_exhaustion_is_overload_and_logged(
    network: NetworkState, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    error = OSError(getattr(errno, name), "x")

    assert is_exhaustion(error)
    assert type(overload_of(error, "example.org cannot be reached")) is Overload
    assert "out of resources: example.org cannot be reached: " in caplog.text


def test_lack_of_memory_or_threads_is_overload(network: NetworkState) -> None:
    assert type(overload_of(MemoryError(), "x")) is Overload
    assert type(overload_of(RuntimeError("can't start new thread"), "x")) is Overload
    assert overload_of(RuntimeError("something else"), "x") is None


@pytest.mark.parametrize("error", [OSError(errno.ECONNREFUSED, "x"), socket.gaierror(socket.EAI_NONAME, "x"), None])
def test_errors_of_origins_and_their_names_are_no_overload(network: NetworkState, error: OSError | None) -> None:
    assert overload_of(error, "x") is None


@pytest.mark.parametrize("error", [OSError(errno.ENETUNREACH, "x"), socket.gaierror(socket.EAI_AGAIN, "x")])
def test_network_error_is_no_network_only_until_a_connection_succeeds(
    network: NetworkState, caplog: pytest.LogCaptureFixture, error: OSError
) -> None:
    overload = overload_of(error, "example.org cannot be reached")

    assert isinstance(overload, NoNetwork)
    assert overload.detail == "no-network"
    assert str(overload) == "example.org cannot be reached now: x"
    assert not caplog.records, "the machine has resources"
    network.record_success()
    assert overload_of(error, "x") is None


@pytest.mark.parametrize(
    ("error", "raised"),
    [(errno.EMFILE, Overload), (errno.ENETUNREACH, NoNetwork), (errno.ENOENT, Unreachable)],
)
async def test_failed_local_name_lookup_is_overload(
    network: NetworkState, error: int, raised: type[FeedproxyError]
) -> None:
    async def fails(host: str, port: int) -> list[str]:
        raise OSError(error, os.strerror(error))

    with pytest.raises(raised):
        await a_policy(lookup=fails).resolve("example.org", 80)


@contextmanager
def few_descriptors(spare: int = 2) -> Iterator[None]:
    """Leave this process only `spare` free descriptors."""
    gc.collect()  # within the block, a collection would close the descriptors of earlier tests, and free them
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_missing_descriptors_for_a_process_are_overload(
    network: NetworkState, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as threads, caplog.at_level(logging.WARNING):
        # On a busy machine, the sleeping job could otherwise move to the slow lane, where no job waits for it.
        pool = HelperPool(threads, Limits(quick=PATIENCE, wall=2 * PATIENCE))
        pool.start()
        async with asyncio.timeout(PATIENCE):
            worker = await pool.submit(os.getpid)
        busy = asyncio.ensure_future(pool.submit(partial(time.sleep, 0.1)))
        await asyncio.sleep(0)
        with few_descriptors(0):
            assert await pool.submit(partial(pow, 2, 5)) == 32, "it waits for the worker that there is"
            await busy
            os.kill(worker, signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                while pool.is_running:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            for _ in range(20):
                with pytest.raises(Overload):
                    await pool.submit(os.getpid)
        assert await pool.submit(os.getpid) != worker
        await pool.close()
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert caplog.records[0].exc_info is None


def test_process_without_descriptors_counts_as_one_that_has_used_no_processor_time() -> None:
    """A job on a busy machine gets more time, although its processor time cannot be read."""
    with few_descriptors(0):
        usage = helper_pool._process_usage(os.getpid())

    assert usage == ("R", 0.0)
    assert helper_pool._process_usage(2**30) == ("R", float("inf"))


async def test_exchange_without_descriptors_is_refused_before_it_begins(
    network: NetworkState, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with a_fetcher() as fetcher:
            with few_descriptors():
                for _ in range(50):
                    with pytest.raises(Overload):
                        await fetcher.fetch(a_get("http://127.0.0.1:9/"))
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is None


def test_connections_refused_for_lack_of_descriptors_log_one_line_without_traceback(
    network: NetworkState, caplog: pytest.LogCaptureFixture
) -> None:
    made = Master.__new__(Master)
    loop = asyncio.new_event_loop()
    for _ in range(50):
        error = OSError(errno.EMFILE, "Too many open files")
        made._asyncio_exception_handler(loop, {"message": "socket.accept() out of system resource", "exception": error})
    loop.close()

    (record,) = caplog.records
    assert record.exc_info is None
