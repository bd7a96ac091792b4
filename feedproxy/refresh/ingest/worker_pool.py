"""Pool of worker processes that parse, convert and compress feeds; threads replace them if none can start.

A thread that computes holds Python's lock for some milliseconds at a time, while hits take microseconds. A process uses
another CPU or, on a single one, yields to the proxy at once (worker_process.py: nice). Copying a feed to and from it
takes a twentieth of a millisecond.

There are two lanes. A job starts in the quick one. If it exceeds `Limits.quick`, its worker moves to the slow lane with
it, and another worker takes the next quick job. Large jobs start in the slow lane. So no document delays those of other
feeds for longer than `Limits.quick`, and slow jobs delay only each other.

A job that exceeds its `Limits` fails with `JobLimitExceeded`, and its worker is ended; the job is not repeated. A full
slow lane is an Overload. If a worker exits by itself (a fault of a parser, lack of memory), its job is repeated once in
another. A worker is replaced after a slow job, to free its memory. (docs/decisions/feed-processes.md)
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
    KILL_WORKER,
    NICENESS_SLOW,
    NUMBER_SIZE,
    PARTS_MAX,
    START_WORKER,
    Limits,
    Parts,
    decode_numbers,
    dump_message,
    frame,
    load_result,
    run_job,
    template_command,
)
from feedproxy.upstream import local_failure

logger = logging.getLogger(__name__)

READ_BUFFER = 1024 * 1024
"""Bytes of a result that are read ahead."""

ATTEMPTS_MAX = 2
"""Workers that may exit during a job before the job fails."""

QUICK_WORKERS_MAX = 2
"""Workers in the quick lane."""

SLOW_WORKERS_MAX = 2
"""Workers in the slow lane."""

SLOW_QUEUE_MAX = 64
"""Jobs that wait for the slow lane; a further one fails at once with Overload."""

WORKER_JOBS_MAX = 1000
"""Jobs after which a worker is replaced, in a few milliseconds, to free memory that parsers leak."""

LARGE_JOB = 8 * 1024 * 1024
"""Bytes of a job that goes to the slow lane at once: a feed of a megabyte, with the copies it is compared with, is
less."""

RESULT_MAX = 256 * 1024 * 1024
"""Bytes of a result: five times `decoded_max`, for a content in several codings."""

START_TIMEOUT: Seconds = 60
"""Seconds for template and workers to start; then they are replaced."""

RESTART_PAUSE_MAX: Seconds = 60
"""Longest pause in seconds between two failed starts of the template."""

FAILED_STARTS_MAX = 2
"""Templates that may end before a job was done, until threads do what waits."""

_MICRO = 1_000_000


class JobLimitExceeded(FeedproxyError):
    """A document takes more time or memory to read than a job may."""

    status_hint = 502
    detail = "too-large"


@dataclass(slots=True, eq=False)
class _Job:
    message: Parts
    done: asyncio.Future[Parts]
    worker_exits: int = 0
    is_long: bool = False

    def fail(self, error: FeedproxyError) -> None:
        if not self.done.done():  # the waiter may have been cancelled
            self.done.set_exception(error)


@dataclass(slots=True, eq=False)
class _Worker:
    number: int
    pid: int = 0
    """Known once it is ready."""
    writer: asyncio.StreamWriter | None = None
    job: _Job | None = None
    jobs_done: int = 0
    started_at: float = 0.0
    cpu_before: Seconds = 0.0
    """Processor time before the job, as the worker reported."""
    timer: asyncio.TimerHandle | None = None
    listener: asyncio.Task[None] | None = None

    @property
    def is_slow(self) -> bool:
        return self.job is not None and self.job.is_long


class WorkerPool:
    """Runs jobs in worker processes and returns their results. Before `start`, in threads."""

    def __init__(self, threads: Executor, limits: Limits | None = None) -> None:
        self._threads = threads
        self._limits = limits or Limits()
        self._quick: deque[_Job] = deque()
        self._slow: deque[_Job] = deque()
        self._workers: dict[int, _Worker] = {}
        self._numbers = 0
        self._control: socket.socket | None = None
        self._ended: asyncio.Event | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._in_threads = True
        self._failed_starts = 0
        self.restart_pause: Seconds = 0.0
        """Seconds until the next template is started."""
        self.template: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the worker processes, and replace those that exit."""
        if self._supervisor is None:
            self._in_threads = False
            self._supervisor = asyncio.ensure_future(self._supervise())

    @property
    def is_running(self) -> bool:
        """Return whether a worker process is ready."""
        return any(worker.pid for worker in self._workers.values())

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the workers that are ready."""
        return [worker.pid for worker in self._workers.values() if worker.pid]

    async def submit[T](self, work: Callable[[], T]) -> T:
        """Run a job: a `functools.partial` of a function at a module's top level, with values.

        Return its result. Raises the exceptions of the function, JobLimitExceeded beyond its limits, FeedproxyError if
        its workers exited, and Overload if this machine has no capacity for it.
        """
        if self._in_threads:
            try:
                working = asyncio.get_running_loop().run_in_executor(self._threads, work)
            except RuntimeError as refused:
                if not local_failure.is_exhaustion(refused):
                    raise
                raise _overload(refused) from refused
            return await working
        job = _Job(dump_message(work), asyncio.get_running_loop().create_future())
        self._enqueue(job)
        message = await job.done
        try:
            result, error = load_result(message)
        except Exception as unreadable:
            raise FeedproxyError("feedproxy failed at what the origin sent; its log says more") from unreadable
        if isinstance(error, MemoryError):
            raise JobLimitExceeded("what the origin sent takes more memory to read than a feed may")
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # the result of `work`, decoded

    # -- lanes

    def _enqueue(self, job: _Job) -> None:
        job.is_long = job.is_long or sum(map(len, job.message)) >= LARGE_JOB
        waiting = self._slow if job.is_long else self._quick
        if job.is_long and len(waiting) >= SLOW_QUEUE_MAX:
            job.fail(Overload("too many documents that take long to read are waiting"))
            return
        waiting.append(job)
        self._assign()

    def _assign(self) -> None:
        """Assign waiting jobs to free workers."""
        for waiting, most, is_slow in ((self._quick, QUICK_WORKERS_MAX, False), (self._slow, SLOW_WORKERS_MAX, True)):
            while waiting:
                if waiting[0].done.done():  # its waiter was cancelled
                    waiting.popleft()
                    continue
                busy = sum(worker.job is not None and worker.is_slow == is_slow for worker in self._workers.values())
                if busy >= most:
                    break
                worker = next((worker for worker in self._workers.values() if worker.pid and worker.job is None), None)
                if worker is None:
                    try:
                        self._add_worker()
                    except Overload as error:
                        if not busy:  # otherwise the busy worker of this lane takes them later
                            _fail_all(waiting, error)
                    break
                self._send_job(worker, waiting.popleft())

    def _send_job(self, worker: _Worker, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        assert worker.writer is not None
        worker.job, worker.started_at = job, loop.time()
        if job.is_long:
            self._move_to_slow_lane(worker, job)
        else:
            worker.timer = loop.call_later(self._limits.quick, self._on_quick_limit, worker, job)
        worker.writer.writelines(frame(job.message))

    def _on_quick_limit(self, worker: _Worker, job: _Job) -> None:
        """Move a job beyond `Limits.quick` to the slow lane, with its worker if there is room."""
        if worker.job is not job:
            return
        loop, quick = asyncio.get_running_loop(), self._limits.quick
        state, spent = _process_usage(worker.pid)
        if state in ("T", "t"):
            logger.warning("worker pool: a worker was stopped by a signal: it is replaced")
            self._stop_worker(worker)
        elif spent - worker.cpu_before < quick / 2 and loop.time() - worker.started_at < 4 * quick:
            worker.timer = loop.call_later(
                quick / 2, self._on_quick_limit, worker, job
            )  # the machine is busy, not the job
        elif sum(worker.is_slow for worker in self._workers.values()) < SLOW_WORKERS_MAX:
            job.is_long = True
            self._move_to_slow_lane(worker, job)
            self._assign()
        else:
            job.is_long = True
            worker.job = None
            self._stop_worker(worker)
            self._enqueue(job)

    def _move_to_slow_lane(self, worker: _Worker, job: _Job) -> None:
        """Lower the worker's priority, and set the time limit of its job."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, worker.pid, NICENESS_SLOW)
        loop = asyncio.get_running_loop()
        remaining = max(0.0, worker.started_at + self._limits.wall - loop.time())
        worker.timer = loop.call_later(remaining, self._on_wall_limit, worker, job)

    def _on_wall_limit(self, worker: _Worker, job: _Job) -> None:
        if worker.job is job:
            worker.job = None
            self._fail_too_long(job)
            self._stop_worker(worker)

    def _fail_too_long(self, job: _Job) -> None:
        logger.error("worker pool: job failed: time limit exceeded")
        job.fail(JobLimitExceeded("what the origin sent takes longer to read than a feed may"))

    # -- workers

    def _add_worker(self) -> None:
        """Start a worker, unless another is starting. Raises Overload."""
        if self._control is None or any(not starting.pid for starting in self._workers.values()):
            return
        try:
            own_end, peer_end = socket.socketpair()
        except OSError as error:
            raise _overload(error) from error
        self._numbers += 1
        worker = _Worker(self._numbers)
        with peer_end:
            try:
                socket.send_fds(
                    self._control, [START_WORKER + worker.number.to_bytes(NUMBER_SIZE, "big")], [peer_end.fileno()]
                )
            except OSError:
                own_end.close()
                self._on_template_exit()
                return
        self._workers[worker.number] = worker
        worker.listener = asyncio.ensure_future(self._listen(worker, own_end))

    async def _listen(self, worker: _Worker, own_end: socket.socket) -> None:
        """Receive the results of a worker until it exits."""
        reader, worker.writer = await asyncio.open_connection(sock=own_end, limit=READ_BUFFER)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                pid = int.from_bytes(await reader.readexactly(NUMBER_SIZE), "big")
        except TimeoutError:
            logger.warning("no process that reads feeds came to life in %g s", START_TIMEOUT)
            self._on_template_exit()
            return
        except (asyncio.IncompleteReadError, ConnectionError):
            self._on_worker_exit(worker)
            self._on_template_exit()
            return
        worker.pid, self._in_threads = pid, False
        self._assign()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(2 * NUMBER_SIZE)
                spent, count = decode_numbers(head)
                if not 0 < count <= PARTS_MAX:
                    break
                lengths = decode_numbers(await reader.readexactly(count * NUMBER_SIZE))
                if sum(lengths) > RESULT_MAX:
                    break
                worker.cpu_before = spent / _MICRO
                self._on_result(worker, [await reader.readexactly(length) for length in lengths])
        self._on_worker_exit(worker)
        self._assign()

    def _on_result(self, worker: _Worker, result: Parts) -> None:
        job, worker.job = worker.job, None
        worker.jobs_done += 1
        self.restart_pause, self._failed_starts = 0.0, 0
        if worker.timer is not None:
            worker.timer.cancel()
        if job is None:
            return
        if not job.done.done():
            job.done.set_result(result)
        if job.is_long or b"MemoryError" in result[0][:64] or worker.jobs_done >= WORKER_JOBS_MAX:
            self._stop_worker(worker)  # to free its memory
        self._assign()

    def _stop_worker(self, worker: _Worker) -> None:
        """End a worker; its job, if it has one, is repeated."""
        self._on_worker_exit(worker)
        self._assign()

    def _on_worker_exit(self, worker: _Worker) -> None:
        """Remove a worker that has exited or is ended; its job may be the reason."""
        if self._workers.pop(worker.number, None) is None:
            return
        if worker.timer is not None:
            worker.timer.cancel()
        if worker.writer is not None:
            worker.writer.close()
        if worker.listener is not None and worker.listener is not asyncio.current_task():
            worker.listener.cancel()
        if self._control is not None:
            with contextlib.suppress(OSError):  # the template has ended, and all workers with it
                self._control.send(KILL_WORKER + worker.number.to_bytes(NUMBER_SIZE, "big"))
        job, worker.job = worker.job, None
        if job is None:
            return
        if job.is_long:
            self._fail_too_long(job)
            return
        job.worker_exits += 1
        if job.worker_exits < ATTEMPTS_MAX:
            self._quick.appendleft(job)
            return
        logger.error("worker pool: job failed: two workers exited during it")
        job.fail(FeedproxyError("feedproxy failed at what the origin sent; its log says more"))

    # -- the template

    async def _supervise(self) -> None:
        while True:
            try:
                await self._run_template()
            except OSError as error:
                logger.warning("no process for reading feeds could be started: %s", error)
                self._failed_starts, self.restart_pause = FAILED_STARTS_MAX, RESTART_PAUSE_MAX
            self._close_workers()
            self._failed_starts += 1
            if self._failed_starts > FAILED_STARTS_MAX:
                self._fall_back_to_threads()
            await asyncio.sleep(self.restart_pause)
            self.restart_pause = min(RESTART_PAUSE_MAX, 2 * self.restart_pause + 0.1)

    async def _run_template(self) -> None:
        """Start a template and the first worker; return when it exits. Raises OSError if it cannot be started."""
        own_end, peer_end = socket.socketpair()
        own_end.setblocking(False)
        self._ended = asyncio.Event()
        with peer_end:
            try:
                self.template = _start_template(peer_end.fileno(), self._limits)
            except OSError:
                own_end.close()
                raise
        loop = asyncio.get_running_loop()
        loop.add_reader(own_end, self._on_template_exit)  # readable only at its end
        self._control = own_end
        try:
            with contextlib.suppress(Overload):  # the next job starts one
                self._add_worker()
            await self._ended.wait()
        finally:
            loop.remove_reader(own_end)

    def _on_template_exit(self) -> None:
        """Record that the template has exited or does not respond."""
        if self._ended is not None:
            self._ended.set()

    def _fall_back_to_threads(self) -> None:
        """Run waiting jobs in threads until a worker process is ready."""
        if not self._in_threads:
            logger.warning("feeds are read in threads until a process for it comes to life")
        self._in_threads = True
        loop = asyncio.get_running_loop()
        for job in (*self._quick, *self._slow):
            work = loop.run_in_executor(self._threads, run_job, job.message)
            work.add_done_callback(partial(_copy_result, job.done))
        self._quick.clear()
        self._slow.clear()

    def _close_workers(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
        if self.template is not None:
            self.template.kill()
            self.template.wait()
            self.template = None
        for worker in list(self._workers.values()):
            self._on_worker_exit(worker)

    async def close(self) -> None:
        """End the processes and cancel the remaining jobs; callers drain their refreshes before."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
            self._supervisor = None
        under_way = [worker.job for worker in self._workers.values() if worker.job is not None]
        listeners = [worker.listener for worker in self._workers.values() if worker.listener is not None]
        for worker in self._workers.values():
            worker.job = None
        self._close_workers()
        await asyncio.gather(*listeners, return_exceptions=True)
        for job in (*under_way, *self._quick, *self._slow):
            job.done.cancel()
        self._quick.clear()
        self._slow.clear()
        self._in_threads = True


def _start_template(descriptor: int, limits: Limits) -> "subprocess.Popen[bytes]":
    """Start the template without waiting for it, in a millisecond. Raises OSError."""
    return subprocess.Popen(template_command(descriptor, limits), pass_fds=[descriptor], stdin=subprocess.DEVNULL)  # noqa: S603 -- a fixed command


def _overload(error: Exception) -> Overload:
    """Log and return the error for a lack of descriptors or threads."""
    local_failure.complaints.warn(f"no process for reading feeds can be started: {error}")
    return Overload("no process can be started for it now")


def _fail_all(waiting: deque[_Job], error: FeedproxyError) -> None:
    while waiting:
        waiting.popleft().fail(error)


def _copy_result(waiting: "asyncio.Future[Parts]", ended: "asyncio.Future[Parts]") -> None:
    if ended.cancelled():
        waiting.cancel()
    elif not waiting.done():
        waiting.set_result(ended.result())  # `done` never raises


def _process_usage(pid: int) -> tuple[str, Seconds]:
    """Return a process's state and processor time; those of a running one if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return "R", float("inf")
