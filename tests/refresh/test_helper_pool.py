"""Jobs in helper processes: results, errors, ended processes and shutdown."""

import asyncio
import functools
import os
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from feedproxy.cache.stored_response import Bodies, Content
from feedproxy.http.message import Fields, Response
from feedproxy.refresh.ingest import helper_pool
from feedproxy.refresh.ingest.helper_pool import HelperPool, HelpersExited
from feedproxy.refresh.ingest.helper_process import (
    OUT_OF_BAND_MIN,
    Limits,
    dump_message,
    frame,
    load_result,
    template_command,
)
from feedproxy.refresh.ingest.ingest import IngestedContent, KnownFeed, ingest
from feedproxy.settings import Settings
from feedproxy.store.versions_for_dictionaries import PreviousContents
from tests.waiting import PATIENCE


@pytest.fixture
async def pool() -> AsyncIterator[HelperPool]:
    with ThreadPoolExecutor(1) as threads:
        made = HelperPool(threads)
        yield made
        await made.close()


async def start_process(pool: HelperPool) -> None:
    pool.start()
    async with asyncio.timeout(PATIENCE):
        while not pool.is_running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_job_runs_in_a_thread_if_no_process_is_running(pool: HelperPool) -> None:
    assert await pool.submit(os.getpid) == os.getpid()


def test_template_process_ignores_an_interrupt_while_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "feedproxy").mkdir()
    interrupted = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit(7)\n"
    (tmp_path / "feedproxy" / "__init__.py").write_text(interrupted)
    monkeypatch.syspath_prepend(tmp_path)

    done = subprocess.run(template_command(0, Limits()), capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (7, b"")


async def test_worker_process_returns_results_to_callers(pool: HelperPool) -> None:
    await start_process(pool)

    pids = await asyncio.gather(*(pool.submit(functools.partial(divmod, number, 7)) for number in range(50)))

    assert pids == [divmod(number, 7) for number in range(50)]
    assert await pool.submit(os.getpid) != os.getpid()


async def test_large_results_arrive_complete(pool: HelperPool) -> None:
    await start_process(pool)

    assert await pool.submit(functools.partial(bytes, 9_000_000)) == bytes(9_000_000)


def test_long_content_is_not_copied_into_a_job_or_its_result() -> None:
    """Copies would delay the event loop, and with it all clients."""
    body = bytes(OUT_OF_BAND_MIN)
    response = Response(200, Fields(), body)
    known = KnownFeed(Content(Bodies({"gzip": body})))
    job = dump_message(functools.partial(ingest, response, Settings(), self_href="", now=0.0, known=known))

    assert [part for part in job if part is body] == [body], "once, and as it is"
    assert sum(map(len, job)) < len(body) + 20_000
    assert all(part is body for part in frame(job) if len(part) >= OUT_OF_BAND_MIN)
    result, _ = load_result(dump_message((IngestedContent(Content(Bodies({"identity": body}))), None)))
    assert result.content.bodies["identity"] is body


def test_result_with_previous_contents_arrives_unchanged() -> None:
    old, new = b"<old/>" * 100, b"<new/>" * 100
    previous_contents = PreviousContents().with_content(old, new, size_max=10_000)
    ingested = IngestedContent(Content(Bodies({"identity": new})), previous_contents=previous_contents)
    assert previous_contents

    assert load_result(dump_message((ingested, None))) == (ingested, None)


async def test_several_long_contents_arrive_unchanged(pool: HelperPool) -> None:
    await start_process(pool)
    contents = [bytes([number]) * (OUT_OF_BAND_MIN + number) for number in range(5)] + [b"short"]

    assert await pool.submit(functools.partial(max, [contents, []])) == contents


async def test_exception_of_a_job_is_raised_to_its_caller(pool: HelperPool) -> None:
    await start_process(pool)

    with pytest.raises(ZeroDivisionError):
        await pool.submit(functools.partial(divmod, 1, 0))


async def test_cancelled_caller_does_not_affect_others(pool: HelperPool) -> None:
    await start_process(pool)
    leaving = asyncio.ensure_future(pool.submit(functools.partial(pow, 2, 3)))
    staying = asyncio.ensure_future(pool.submit(functools.partial(pow, 2, 5)))
    await asyncio.sleep(0)
    leaving.cancel()

    assert await staying == 32


async def test_job_that_ends_its_process_twice_fails_alone(pool: HelperPool) -> None:
    await start_process(pool)
    deadly = asyncio.ensure_future(pool.submit(functools.partial(os._exit, 1)))
    other = asyncio.ensure_future(pool.submit(functools.partial(pow, 2, 5)))

    with pytest.raises(HelpersExited) as raised:
        await deadly
    assert raised.value.status_hint == 503
    assert dict(raised.value.fields) == {"Retry-After": "60"}
    assert await other == 32


async def test_job_survives_the_end_of_its_process(pool: HelperPool) -> None:
    await start_process(pool)
    before = await pool.submit(os.getpid)
    waiting = asyncio.ensure_future(pool.submit(functools.partial(pow, 2, 5)))
    await asyncio.sleep(0)
    os.kill(before, signal.SIGKILL)

    assert await waiting == 32


async def test_helper_process_ignores_signals_to_its_group(pool: HelperPool) -> None:
    await start_process(pool)
    before = await pool.submit(os.getpid)
    os.kill(before, signal.SIGTERM)
    os.kill(before, signal.SIGINT)

    assert await pool.submit(os.getpid) == before


async def test_helper_process_is_replaced_after_its_number_of_jobs_without_losing_one(
    pool: HelperPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper_pool, "HELPER_JOBS_MAX", 5)
    await start_process(pool)

    pids = [await pool.submit(os.getpid) for _ in range(23)]

    assert max(Counter(pids).values()) == 5
    assert len(set(pids)) >= 5


async def test_no_task_waits_for_a_helper_that_was_stopped_after_its_job(
    pool: HelperPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper_pool, "HELPER_JOBS_MAX", 1)
    stopped: list[asyncio.Task[None] | None] = []
    stop = HelperPool._stop_helper

    def record(pool: HelperPool, helper: helper_pool._Helper) -> None:
        stopped.append(helper.listener)
        stop(pool, helper)

    monkeypatch.setattr(HelperPool, "_stop_helper", record)
    await start_process(pool)
    reading = asyncio.StreamReader.readexactly
    read_after_stop = 0

    async def read(reader: asyncio.StreamReader, count: int) -> bytes:
        nonlocal read_after_stop
        read_after_stop += asyncio.current_task() in stopped
        return await reading(reader, count)

    monkeypatch.setattr(asyncio.StreamReader, "readexactly", read)

    await pool.submit(os.getpid)
    await asyncio.sleep(0)

    assert len(stopped) == 1
    assert read_after_stop == 0
