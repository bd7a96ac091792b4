"""Work in a process beside: results, errors, deaths, and the end."""

import asyncio
import functools
import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from feedproxy.cache.stored_response import Content
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Response
from feedproxy.refresh.ingest.ingest import Prepared, prepare
from feedproxy.refresh.ingest.worker_pool import Workshop
from feedproxy.refresh.ingest.worker_process import PART_MIN, framed, packed, unpacked
from feedproxy.settings import Settings
from tests.waiting import PATIENCE


@pytest.fixture
async def workshop() -> AsyncIterator[Workshop]:
    with ThreadPoolExecutor(1) as threads:
        made = Workshop(threads)
        yield made
        await made.close()


async def apart(workshop: Workshop) -> None:
    workshop.start()
    async with asyncio.timeout(PATIENCE):
        while not workshop.apart:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_without_a_process_threads_do_it(workshop: Workshop) -> None:
    assert await workshop.do(os.getpid) == os.getpid()


async def test_a_process_does_it_and_results_come_to_who_asked(workshop: Workshop) -> None:
    await apart(workshop)

    pids = await asyncio.gather(*(workshop.do(functools.partial(divmod, number, 7)) for number in range(50)))

    assert pids == [divmod(number, 7) for number in range(50)]
    assert await workshop.do(os.getpid) != os.getpid()


async def test_large_results_come_whole(workshop: Workshop) -> None:
    await apart(workshop)

    assert await workshop.do(functools.partial(bytes, 9_000_000)) == bytes(9_000_000)


def test_long_content_is_copied_neither_into_a_job_nor_out_of_its_result() -> None:
    """The event loop does that, and readers wait meanwhile."""
    body = bytes(PART_MIN)
    response = Response(200, Fields(), body)
    job = packed(functools.partial(prepare, response, Settings(), self_href="", now=0.0, held=Content({"gzip": body})))

    assert [part for part in job if part is body] == [body], "once, and as it is"
    assert sum(map(len, job)) < len(body) + 20_000
    assert all(part is body for part in framed(job) if len(part) >= PART_MIN)
    result, _ = unpacked(packed((Prepared(Content({"identity": body})), None)))
    assert result.content.bodies["identity"] is body


async def test_several_long_contents_come_back_as_they_went(workshop: Workshop) -> None:
    await apart(workshop)
    contents = [bytes([number]) * (PART_MIN + number) for number in range(5)] + [b"short"]

    assert await workshop.do(functools.partial(max, [contents, []])) == contents


async def test_an_exception_comes_back(workshop: Workshop) -> None:
    await apart(workshop)

    with pytest.raises(ZeroDivisionError):
        await workshop.do(functools.partial(divmod, 1, 0))


async def test_who_goes_away_takes_nothing_from_others(workshop: Workshop) -> None:
    await apart(workshop)
    leaving = asyncio.ensure_future(workshop.do(functools.partial(pow, 2, 3)))
    staying = asyncio.ensure_future(workshop.do(functools.partial(pow, 2, 5)))
    await asyncio.sleep(0)
    leaving.cancel()

    assert await staying == 32


async def test_a_job_that_ends_its_process_twice_is_given_up_and_no_other(workshop: Workshop) -> None:
    await apart(workshop)
    deadly = asyncio.ensure_future(workshop.do(functools.partial(os._exit, 1)))
    other = asyncio.ensure_future(workshop.do(functools.partial(pow, 2, 5)))

    with pytest.raises(FeedproxyError):
        await deadly
    assert await other == 32


async def test_the_end_of_a_process_loses_nothing(workshop: Workshop) -> None:
    await apart(workshop)
    before = await workshop.do(os.getpid)
    waiting = asyncio.ensure_future(workshop.do(functools.partial(pow, 2, 5)))
    await asyncio.sleep(0)
    os.kill(before, signal.SIGKILL)

    assert await waiting == 32


async def test_the_signals_of_the_group_are_not_for_it(workshop: Workshop) -> None:
    await apart(workshop)
    before = await workshop.do(os.getpid)
    os.kill(before, signal.SIGTERM)
    os.kill(before, signal.SIGINT)

    assert await workshop.do(os.getpid) == before
