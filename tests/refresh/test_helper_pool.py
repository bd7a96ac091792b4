"""Work in a process beside: results, errors, deaths, and the end."""

import asyncio
import functools
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from feedproxy.cache.stored_response import Content
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Response
from feedproxy.refresh.ingest import helper_pool
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.ingest.helper_process import OUT_OF_BAND_MIN, dump_message, frame, load_result
from feedproxy.refresh.ingest.ingest import IngestedContent, ingest
from feedproxy.settings import Settings
from tests.waiting import PATIENCE


@pytest.fixture
async def pool() -> AsyncIterator[HelperPool]:
    with ThreadPoolExecutor(1) as threads:
        made = HelperPool(threads)
        yield made
        await made.close()


async def apart(pool: HelperPool) -> None:
    pool.start()
    async with asyncio.timeout(PATIENCE):
        while not pool.is_running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_without_a_process_threads_do_it(pool: HelperPool) -> None:
    assert await pool.submit(os.getpid) == os.getpid()


async def test_worker_process_returns_results_to_callers(pool: HelperPool) -> None:
    await apart(pool)

    pids = await asyncio.gather(*(pool.submit(functools.partial(divmod, number, 7)) for number in range(50)))

    assert pids == [divmod(number, 7) for number in range(50)]
    assert await pool.submit(os.getpid) != os.getpid()


async def test_large_results_come_whole(pool: HelperPool) -> None:
    await apart(pool)

    assert await pool.submit(functools.partial(bytes, 9_000_000)) == bytes(9_000_000)


def test_long_content_is_copied_neither_into_a_job_nor_out_of_its_result() -> None:
    """The event loop does that, and readers wait meanwhile."""
    body = bytes(OUT_OF_BAND_MIN)
    response = Response(200, Fields(), body)
    job = dump_message(
        functools.partial(ingest, response, Settings(), self_href="", now=0.0, stored=Content({"gzip": body}))
    )

    assert [part for part in job if part is body] == [body], "once, and as it is"
    assert sum(map(len, job)) < len(body) + 20_000
    assert all(part is body for part in frame(job) if len(part) >= OUT_OF_BAND_MIN)
    result, _ = load_result(dump_message((IngestedContent(Content({"identity": body})), None)))
    assert result.content.bodies["identity"] is body


async def test_several_long_contents_come_back_as_they_went(pool: HelperPool) -> None:
    await apart(pool)
    contents = [bytes([number]) * (OUT_OF_BAND_MIN + number) for number in range(5)] + [b"short"]

    assert await pool.submit(functools.partial(max, [contents, []])) == contents


async def test_an_exception_comes_back(pool: HelperPool) -> None:
    await apart(pool)

    with pytest.raises(ZeroDivisionError):
        await pool.submit(functools.partial(divmod, 1, 0))


async def test_reader_that_leaves_does_not_affect_others(pool: HelperPool) -> None:
    await apart(pool)
    leaving = asyncio.ensure_future(pool.submit(functools.partial(pow, 2, 3)))
    staying = asyncio.ensure_future(pool.submit(functools.partial(pow, 2, 5)))
    await asyncio.sleep(0)
    leaving.cancel()

    assert await staying == 32


async def test_a_job_that_ends_its_process_twice_is_given_up_and_no_other(pool: HelperPool) -> None:
    await apart(pool)
    deadly = asyncio.ensure_future(pool.submit(functools.partial(os._exit, 1)))
    other = asyncio.ensure_future(pool.submit(functools.partial(pow, 2, 5)))

    with pytest.raises(FeedproxyError):
        await deadly
    assert await other == 32


async def test_the_end_of_a_process_loses_nothing(pool: HelperPool) -> None:
    await apart(pool)
    before = await pool.submit(os.getpid)
    waiting = asyncio.ensure_future(pool.submit(functools.partial(pow, 2, 5)))
    await asyncio.sleep(0)
    os.kill(before, signal.SIGKILL)

    assert await waiting == 32


async def test_the_signals_of_the_group_are_not_for_it(pool: HelperPool) -> None:
    await apart(pool)
    before = await pool.submit(os.getpid)
    os.kill(before, signal.SIGTERM)
    os.kill(before, signal.SIGINT)

    assert await pool.submit(os.getpid) == before


async def test_helper_is_replaced_after_its_number_of_jobs_and_no_job_is_lost(
    pool: HelperPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper_pool, "HELPER_JOBS_MAX", 5)
    await apart(pool)

    pids = [await pool.submit(os.getpid) for _ in range(23)]

    assert max(Counter(pids).values()) == 5
    assert len(set(pids)) >= 5
