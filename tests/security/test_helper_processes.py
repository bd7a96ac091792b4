"""Jobs on documents from unknown publishers: lanes, time limits, system limits, ended processes and shutdown."""

import asyncio
import contextlib
import functools
import io
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import Bodies, Content
from feedproxy.errors import FeedproxyError, Overload
from feedproxy.refresh.ingest import helper_pool
from feedproxy.refresh.ingest.helper_pool import HelperPool, JobLimitExceeded
from feedproxy.refresh.ingest.helper_process import NICENESS, Limits, load_result
from feedproxy.refresh.ingest.ingest import IngestedContent, ingest
from feedproxy.settings import Settings
from tests.security.readings import HREF, as_response
from tests.waiting import PATIENCE

LIMITS = Limits(quick=0.1, cpu=60, wall=600)
"""Limits long enough that other jobs are finished while the long job is running."""

SHORT = Limits(quick=0.1, cpu=1, wall=600)


@pytest.fixture(autouse=True)
def slow_lane_has_priority_of_quick_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the slow lane normal priority, because the lowest gets no processor time beside other tests."""
    monkeypatch.setattr(helper_pool, "NICENESS_SLOW", NICENESS)


@contextlib.asynccontextmanager
async def opened(limits: Limits = LIMITS) -> AsyncIterator[HelperPool]:
    with ThreadPoolExecutor(1) as threads:
        made = HelperPool(threads, limits)
        made.start()
        async with asyncio.timeout(PATIENCE):
            while not made.is_running:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        try:
            yield made
        finally:
            await made.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def helpers(template: int) -> list[int]:
    """Return the process ids of the helpers, which the template has forked."""
    children = Path(f"/proc/{template}/task/{template}/children").read_text().split()
    return [pid for pid in map(int, children) if is_running(pid)]


def _spin(steps: int | None = None) -> int:
    return sum(repeat(0) if steps is None else repeat(0, steps))


def spinning() -> functools.partial[int]:
    """Compute endlessly in one call that no exception interrupts."""
    return functools.partial(_spin)


async def test_slow_job_delays_no_other() -> None:
    async with opened() as jobs:
        hostile = asyncio.ensure_future(jobs.submit(spinning()))
        await asyncio.sleep(0)

        assert await jobs.submit(functools.partial(pow, 2, 5)) == 32

        assert not hostile.done()
        hostile.cancel()


async def test_job_beyond_its_time_limit_fails_and_is_not_repeated() -> None:
    async with opened(SHORT) as jobs:
        with pytest.raises(JobLimitExceeded):
            await jobs.submit(spinning())

        assert await jobs.submit(functools.partial(pow, 2, 5)) == 32


async def test_job_that_hangs_without_computing_fails_after_its_time_limit() -> None:
    async with opened(Limits(quick=0.1, cpu=2, wall=0.8)) as jobs:
        with pytest.raises(JobLimitExceeded):
            await jobs.submit(functools.partial(time.sleep, 600))


async def test_many_slow_jobs_delay_no_other() -> None:
    async with opened() as jobs:
        hostile = [asyncio.ensure_future(jobs.submit(spinning())) for _ in range(6)]
        await asyncio.sleep(0)

        assert await jobs.submit(functools.partial(pow, 2, 5)) == 32

        assert not any(each.done() for each in hostile)
        assert jobs.template is not None
        assert len(helpers(jobs.template.pid)) <= helper_pool.QUICK_HELPERS_MAX + helper_pool.SLOW_HELPERS_MAX
        for each in hostile:
            each.cancel()


async def test_job_for_a_full_slow_lane_is_overload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_pool, "LARGE_JOB", 1)
    monkeypatch.setattr(helper_pool, "SLOW_QUEUE_MAX", 1)
    async with opened() as jobs:
        tasks = [asyncio.ensure_future(jobs.submit(functools.partial(time.sleep, 0.5))) for _ in range(8)]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

        assert all(isinstance(task.exception(), Overload) for task in done)
        assert waiting
        assert not any((await asyncio.wait(waiting))[1])


async def test_stopped_worker_process_is_replaced_and_its_job_completed() -> None:
    async with opened() as jobs:
        os.kill(await jobs.submit(os.getpid), signal.SIGSTOP)

        assert await jobs.submit(functools.partial(pow, 2, 5)) == 32


async def test_job_that_ends_its_process_ends_no_other() -> None:
    async with opened() as jobs:
        deadly = [asyncio.ensure_future(jobs.submit(functools.partial(os._exit, 1))) for _ in range(4)]
        others = [asyncio.ensure_future(jobs.submit(functools.partial(pow, 2, each))) for each in range(20)]

        assert await asyncio.gather(*others) == [2**each for each in range(20)]
        for each in await asyncio.gather(*deadly, return_exceptions=True):
            assert isinstance(each, FeedproxyError)


async def test_restart_delay_does_not_grow_with_the_number_of_ended_processes() -> None:
    async with opened() as jobs:
        for _ in range(4):
            await until(lambda: jobs.template is not None)
            assert jobs.template is not None
            jobs.template.kill()
            assert await jobs.submit(functools.partial(pow, 2, 5)) == 32
            assert jobs.restart_pause == 0


async def test_memory_of_a_job_is_limited() -> None:
    async with opened(Limits(quick=5, cpu=20, wall=30, memory=200_000_000)) as jobs:
        with pytest.raises(JobLimitExceeded):
            await jobs.submit(functools.partial(bytearray, 400_000_000))

        assert await jobs.submit(functools.partial(pow, 2, 5)) == 32


async def test_document_with_millions_of_items_fails_as_a_value() -> None:
    document = b'{"version": "https://jsonfeed.org/version/1.1", "items": [' + b"{}," * 1_500_000 + b"{}]}"
    work = functools.partial(ingest, as_response(document), Settings(), self_href=HREF, now=1e9)
    async with opened(Limits(quick=5, cpu=20, wall=60, memory=200_000_000)) as jobs:
        with contextlib.suppress(JobLimitExceeded):
            assert isinstance(await jobs.submit(work), IngestedContent)

        assert await jobs.submit(functools.partial(pow, 2, 5)) == 32


async def test_worker_process_has_system_limits() -> None:
    async with opened() as jobs:
        pid = await jobs.submit(os.getpid)
        limits = {
            name: resource.prlimit(pid, getattr(resource, f"RLIMIT_{name}"))[0]
            for name in ("AS", "CPU", "CORE", "FSIZE", "NOFILE", "NPROC")
        }

        assert limits["CORE"] == limits["FSIZE"] == limits["NPROC"] == 0
        assert limits["NOFILE"] <= 64
        assert LIMITS.memory <= limits["AS"] < LIMITS.memory + 4_000_000_000
        assert 0 < limits["CPU"] <= LIMITS.cpu + 5


async def test_memory_of_a_long_job_is_returned() -> None:
    async with opened() as jobs:
        before = await jobs.submit(os.getpid)
        await jobs.submit(functools.partial(_spin, 40_000_000))

        await until(lambda: not is_running(before))
        assert await jobs.submit(functools.partial(pow, 2, 5)) == 32


async def test_result_of_a_worker_process_calls_nothing() -> None:
    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, ("true",)

    for value in (Hostile(), subprocess.Popen, Path("/"), functools.partial(os.getpid)):
        with pytest.raises(Exception, match="not a permitted class"):
            load_result([pickle.dumps((value, None))])
    content = IngestedContent(Content(Bodies({"identity": b"x"})))
    assert load_result([pickle.dumps((content, None))])[0] == content


@pytest.mark.parametrize("made", [b"(Vgone\ntR", b""], ids=["member", "class"])
def test_result_of_a_worker_process_changes_no_enumeration(made: bytes) -> None:
    hostile = b"cfeedproxy.cache.cache_status\nDetail\n" + made + b"}Vforged\nI1\nsb."

    with pytest.raises(pickle.UnpicklingError, match="takes no state"):
        load_result([hostile])

    assert not hasattr(Detail.GONE, "forged")
    assert load_result([pickle.dumps((Detail.GONE, None))]) == (Detail.GONE, None)


class _Numbered(pickle.Pickler):
    """Refers to an external part by a given number."""

    def persistent_id(self, value: object) -> object:
        return value if value in (0, -1, 7, "1", True) else None


@pytest.mark.parametrize("number", [0, -1, 7, "1", True])
async def test_result_of_a_worker_process_refers_to_existing_parts_only(number: object) -> None:
    buffer = io.BytesIO()
    _Numbered(buffer, pickle.HIGHEST_PROTOCOL).dump((number, None))

    with pytest.raises(pickle.UnpicklingError):
        load_result([buffer.getvalue(), b"x"])


_PARENT = """
import asyncio, functools, os
from concurrent.futures import ThreadPoolExecutor
from feedproxy.refresh.ingest.helper_pool import HelperPool

async def main():
    jobs = HelperPool(ThreadPoolExecutor(1))
    jobs.start()
    while not jobs.is_running:
        await asyncio.sleep(0.01)
    spinning = asyncio.ensure_future(jobs.submit(functools.partial(pow, 3, 10**9)))
    await asyncio.sleep(0.2)
    print(jobs.template.pid, flush=True)
    await spinning

asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system ends them elsewhere by their sockets only")
def test_processes_end_with_a_killed_proxy() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        template = int(parent.stdout.readline())
        pids = [template, *helpers(template)]
    finally:
        parent.kill()
        parent.communicate()

    assert len(pids) >= 2
    deadline = time.monotonic() + PATIENCE
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
