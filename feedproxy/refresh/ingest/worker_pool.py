"""Where feeds are read, converted and compressed: in processes beside the proxy, else in threads.

A thread that computes takes Python's lock in turns of some milliseconds, and so long readers wait who could be answered
in microseconds. A process takes a CPU, and where there is only one, the system gives it back at once to who has the
better right to it (worker_process.py: nice). What goes over and comes back is copied, a twentieth of a millisecond for
a feed.

There are two lanes. A job begins in the quick one. Where it takes longer than a moment, its worker goes over to the
slow lane with it, and another worker does what waits behind it. A job that is large goes there at once. So no document
holds up another feed's for longer than `Limits.quick`, and those that take long hold up one another only.

A job has limits (`Limits`). Where it exceeds them its worker is ended, the job fails with `TooMuch`, and it is not
begun again: the document has failed. A worker that ends by itself (a parser's fault, the kernel short of memory) takes
one job with it, which is begun once more in another. A worker is replaced after a job that took long, so that its
memory is given back. (docs/decisions/feeds-are-read-in-a-process-beside.md)
"""

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError, Overload
from feedproxy.refresh.ingest.worker_process import (
    KILL,
    LENGTH,
    NICE_LONG,
    PARTS_MAX,
    START,
    Limits,
    Parts,
    command,
    done,
    framed,
    numbers,
    packed,
    unpacked,
)
from feedproxy.upstream import local_failure

logger = logging.getLogger(__name__)

BUFFER = 1024 * 1024
"""Bytes of a result that are read ahead."""

TRIES = 2
"""Workers that a job may see die before it is taken for the reason."""

QUICK_MAX = 2
"""Workers that do quick jobs at the same time."""

SLOW_MAX = 2
"""Workers that do jobs that take long, at the same time."""

WAITING_MAX = 64
"""Jobs that wait for the slow lane: beyond them, those that would take long fail at once."""

LARGE = 8 * 1024 * 1024
"""Bytes of a job that goes to the slow lane at once: a feed of a megabyte, with the copies it is compared with, is
less."""

RESULT_MAX = 256 * 1024 * 1024
"""Bytes of a result: five times `decoded_max`, for a content in several codings."""

STARTING: Seconds = 60
"""So long template and workers may take to begin; then they are replaced."""

PAUSE_MAX: Seconds = 60
"""Between two templates, at most, where none comes to life."""

FAILURES_MAX = 2
"""Templates that may end before a job was done, until threads do what waits."""

_MICRO = 1_000_000


class TooMuch(FeedproxyError):
    """What an origin sent takes more time or memory to read than a document may."""

    status_hint = 502
    detail = "too-large"


@dataclass(slots=True, eq=False)
class _Job:
    message: Parts
    done: asyncio.Future[Parts]
    deaths: int = 0
    is_long: bool = False

    def fail(self, error: FeedproxyError) -> None:
        if not self.done.done():  # whoever waited may have gone
            self.done.set_exception(error)


@dataclass(slots=True, eq=False)
class _Worker:
    number: int
    pid: int = 0
    """Known once it is ready."""
    writer: asyncio.StreamWriter | None = None
    job: _Job | None = None
    began: float = 0.0
    spent: Seconds = 0.0
    """Processor time before the job, as it said itself."""
    timer: asyncio.TimerHandle | None = None
    life: asyncio.Task[None] | None = None

    @property
    def is_slow(self) -> bool:
        return self.job is not None and self.job.is_long


class Workshop:
    """Does what is to be done, and gives what comes of it. Without `start`, in threads."""

    def __init__(self, threads: Executor, limits: Limits | None = None) -> None:
        self._threads = threads
        self._limits = limits or Limits()
        self._quick: deque[_Job] = deque()
        self._slow: deque[_Job] = deque()
        self._workers: dict[int, _Worker] = {}
        self._numbers = 0
        self._control: socket.socket | None = None
        self._ended: asyncio.Event | None = None
        self._life: asyncio.Task[None] | None = None
        self._in_threads = True
        self._in_vain = 0
        self.pause: Seconds = 0.0
        """Until the next template is started."""
        self.template: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have processes for it from now on, and others when they end."""
        if self._life is None:
            self._in_threads = False
            self._life = asyncio.ensure_future(self._live())

    @property
    def apart(self) -> bool:
        """Whether a process is ready to do it."""
        return any(each.pid for each in self._workers.values())

    @property
    def pids(self) -> list[int]:
        """Of the workers that are ready."""
        return [each.pid for each in self._workers.values() if each.pid]

    async def do[T](self, work: Callable[[], T]) -> T:
        """Do this somewhere else: a `functools.partial` of a function at a module's top level, with values.

        Raises what it raises, TooMuch where it exceeds its limits, FeedproxyError where its processes died of it, and
        Overload where this machine has nothing left to do it with.
        """
        if self._in_threads:
            try:
                working = asyncio.get_running_loop().run_in_executor(self._threads, work)
            except RuntimeError as refused:
                if not local_failure.is_exhaustion(refused):
                    raise
                raise _exhausted(refused) from refused
            return await working
        job = _Job(packed(work), asyncio.get_running_loop().create_future())
        self._begin(job)
        message = await job.done
        try:
            result, error = unpacked(message)
        except Exception as unreadable:
            raise FeedproxyError("feedproxy failed at what the origin sent; its log says more") from unreadable
        if isinstance(error, MemoryError):
            raise TooMuch("what the origin sent takes more memory to read than a feed may")
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # what `work` gives, by way of bytes

    # -- who does what

    def _begin(self, job: _Job) -> None:
        job.is_long = job.is_long or sum(map(len, job.message)) >= LARGE
        waiting = self._slow if job.is_long else self._quick
        if job.is_long and len(waiting) >= WAITING_MAX:
            job.fail(TooMuch("too much is being read that takes long"))
            return
        waiting.append(job)
        self._assign()

    def _assign(self) -> None:
        """Give jobs that wait to workers that are free."""
        for waiting, most, is_slow in ((self._quick, QUICK_MAX, False), (self._slow, SLOW_MAX, True)):
            while waiting:
                if waiting[0].done.done():  # whoever waited has gone
                    waiting.popleft()
                    continue
                busy = sum(each.job is not None and each.is_slow == is_slow for each in self._workers.values())
                if busy >= most:
                    break
                worker = next((each for each in self._workers.values() if each.pid and each.job is None), None)
                if worker is None:
                    try:
                        self._add_worker()
                    except Overload as error:
                        if not busy:  # else those are done by the worker that is at work in this lane
                            _refuse(waiting, error)
                    break
                self._give(worker, waiting.popleft())

    def _give(self, worker: _Worker, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        assert worker.writer is not None
        worker.job, worker.began = job, loop.time()
        if job.is_long:
            self._slow_down(worker, job)
        else:
            worker.timer = loop.call_later(self._limits.quick, self._overdue, worker, job)
        worker.writer.writelines(framed(job.message))

    def _overdue(self, worker: _Worker, job: _Job) -> None:
        """A job has not been done in a moment: it goes over to the slow lane, with its worker if there is room."""
        if worker.job is not job:
            return
        loop, quick = asyncio.get_running_loop(), self._limits.quick
        state, spent = _usage(worker.pid)
        if state in ("T", "t"):
            logger.warning("a process that reads feeds was stopped: it is replaced")
            self._end(worker)
        elif spent - worker.spent < quick / 2 and loop.time() - worker.began < 4 * quick:
            worker.timer = loop.call_later(quick / 2, self._overdue, worker, job)  # the machine is busy, not the job
        elif sum(each.is_slow for each in self._workers.values()) < SLOW_MAX:
            job.is_long = True
            self._slow_down(worker, job)
            self._assign()
        else:
            job.is_long = True
            worker.job = None
            self._end(worker)
            self._begin(job)

    def _slow_down(self, worker: _Worker, job: _Job) -> None:
        """The worker is in the slow lane with its job."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, worker.pid, NICE_LONG)
        loop = asyncio.get_running_loop()
        rest = max(0.0, worker.began + self._limits.wall - loop.time())
        worker.timer = loop.call_later(rest, self._give_up, worker, job)

    def _give_up(self, worker: _Worker, job: _Job) -> None:
        if worker.job is job:
            worker.job = None
            self._too_long(job)
            self._end(worker)

    def _too_long(self, job: _Job) -> None:
        logger.error("what an origin sent took too long to read: it is given up")
        job.fail(TooMuch("what the origin sent takes longer to read than a feed may"))

    # -- workers

    def _add_worker(self) -> None:
        """Have one more, unless one is about to begin. Raises Overload."""
        if self._control is None or any(not each.pid for each in self._workers.values()):
            return
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _exhausted(error) from error
        self._numbers += 1
        worker = _Worker(self._numbers)
        with theirs:
            try:
                socket.send_fds(self._control, [START + worker.number.to_bytes(LENGTH, "big")], [theirs.fileno()])
            except OSError:
                ours.close()
                self._is_over()
                return
        self._workers[worker.number] = worker
        worker.life = asyncio.ensure_future(self._listen(worker, ours))

    async def _listen(self, worker: _Worker, ours: socket.socket) -> None:
        """Take in what a worker gives until it ends."""
        reader, worker.writer = await asyncio.open_connection(sock=ours, limit=BUFFER)
        try:
            async with asyncio.timeout(STARTING):
                pid = int.from_bytes(await reader.readexactly(LENGTH), "big")
        except TimeoutError:
            logger.warning("no process that reads feeds came to life in %g s", STARTING)
            self._is_over()
            return
        except (asyncio.IncompleteReadError, ConnectionError):
            self._lost(worker)
            self._is_over()
            return
        worker.pid, self._in_threads = pid, False
        self._assign()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(2 * LENGTH)
                spent, count = numbers(head)
                if not 0 < count <= PARTS_MAX:
                    break
                lengths = numbers(await reader.readexactly(count * LENGTH))
                if sum(lengths) > RESULT_MAX:
                    break
                worker.spent = spent / _MICRO
                self._take(worker, [await reader.readexactly(length) for length in lengths])
        self._lost(worker)
        self._assign()

    def _take(self, worker: _Worker, result: Parts) -> None:
        job, worker.job = worker.job, None
        self.pause, self._in_vain = 0.0, 0
        if worker.timer is not None:
            worker.timer.cancel()
        if job is None:
            return
        if not job.done.done():
            job.done.set_result(result)
        if job.is_long or b"MemoryError" in result[0][:64]:
            self._end(worker)  # with the memory that it took
        self._assign()

    def _end(self, worker: _Worker) -> None:
        """Have a worker ended; its job, if it has one, is begun again (`_lost`)."""
        self._lost(worker)
        self._assign()

    def _lost(self, worker: _Worker) -> None:
        """A worker has ended, or is to: what it was at is perhaps the reason."""
        if self._workers.pop(worker.number, None) is None:
            return
        if worker.timer is not None:
            worker.timer.cancel()
        if worker.writer is not None:
            worker.writer.close()
        if worker.life is not None and worker.life is not asyncio.current_task():
            worker.life.cancel()
        if self._control is not None:
            with contextlib.suppress(OSError):  # the template has ended, and all workers with it
                self._control.send(KILL + worker.number.to_bytes(LENGTH, "big"))
        job, worker.job = worker.job, None
        if job is None:
            return
        if job.is_long:
            self._too_long(job)
            return
        job.deaths += 1
        if job.deaths < TRIES:
            self._quick.appendleft(job)
            return
        logger.error("what an origin sent ended the process that read it, twice: it is given up")
        job.fail(FeedproxyError("feedproxy failed at what the origin sent; its log says more"))

    # -- the template

    async def _live(self) -> None:
        while True:
            try:
                await self._serve_one_life()
            except OSError as error:
                logger.warning("no process for reading feeds could be started: %s", error)
                self._in_vain, self.pause = FAILURES_MAX, PAUSE_MAX
            self._let_go()
            self._in_vain += 1
            if self._in_vain > FAILURES_MAX:
                self._to_threads()
            await asyncio.sleep(self.pause)
            self.pause = min(PAUSE_MAX, 2 * self.pause + 0.1)

    async def _serve_one_life(self) -> None:
        """Start a template and the first worker; return when it ends. Raises OSError where it cannot be started."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._ended = asyncio.Event()
        with theirs:
            try:
                self.template = _started(theirs.fileno(), self._limits)
            except OSError:
                ours.close()
                raise
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, self._is_over)  # it says nothing, but ends
        self._control = ours
        try:
            with contextlib.suppress(Overload):  # the next job asks for one
                self._add_worker()
            await self._ended.wait()
        finally:
            loop.remove_reader(ours)

    def _is_over(self) -> None:
        """The template has ended, or gives no sign of life."""
        if self._ended is not None:
            self._ended.set()

    def _to_threads(self) -> None:
        """Have threads do what waits, until there are processes again."""
        if not self._in_threads:
            logger.warning("feeds are read in threads until a process for it comes to life")
        self._in_threads = True
        loop = asyncio.get_running_loop()
        for job in (*self._quick, *self._slow):
            work = loop.run_in_executor(self._threads, done, job.message)
            work.add_done_callback(partial(_pass_on, job.done))
        self._quick.clear()
        self._slow.clear()

    def _let_go(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
        if self.template is not None:
            self.template.kill()
            self.template.wait()
            self.template = None
        for worker in list(self._workers.values()):
            self._lost(worker)

    async def close(self) -> None:
        """End the processes. What is still under way comes to nothing: its waiters were to be waited for before."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
            self._life = None
        under_way = [worker.job for worker in self._workers.values() if worker.job is not None]
        lives = [worker.life for worker in self._workers.values() if worker.life is not None]
        for worker in self._workers.values():
            worker.job = None
        self._let_go()
        await asyncio.gather(*lives, return_exceptions=True)
        for job in (*under_way, *self._quick, *self._slow):
            job.done.cancel()
        self._quick.clear()
        self._slow.clear()
        self._in_threads = True


def _started(descriptor: int, limits: Limits) -> "subprocess.Popen[bytes]":
    """Begun, not waited for: it takes a millisecond. Raises OSError."""
    return subprocess.Popen(command(descriptor, limits), pass_fds=[descriptor], stdin=subprocess.DEVNULL)  # noqa: S603 (ours)


def _exhausted(error: Exception) -> Overload:
    """What is said where there is no descriptor for a process, or no thread."""
    local_failure.complaints.say(f"no process for reading feeds can be started: {error}")
    return Overload("no process can be started for it now")


def _refuse(waiting: deque[_Job], error: FeedproxyError) -> None:
    while waiting:
        waiting.popleft().fail(error)


def _pass_on(waiting: "asyncio.Future[Parts]", ended: "asyncio.Future[Parts]") -> None:
    if ended.cancelled():
        waiting.cancel()
    elif not waiting.done():
        waiting.set_result(ended.result())  # `done` never raises


def _usage(pid: int) -> tuple[str, Seconds]:
    """State and processor time of a process, as the system tells them; a running one where it does not."""
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return told[0].decode(), (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return "R", float("inf")
