"""Pool of helper processes that parse, convert and compress feeds. If no process can be started, threads run the jobs.

docs/decisions/feed-processes.md explains the two lanes, the limits of a job, and the repetition after a crash.
"""

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from feedproxy.background_work import cancel
from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError, Overload
from feedproxy.refresh.ingest.helper_process import (
    KILL_HELPER,
    NICENESS_SLOW,
    NUMBER_SIZE,
    PARTS_MAX,
    START_HELPER,
    Limits,
    Parts,
    decode_numbers,
    dump_message,
    frame,
    load_result,
    run_job,
    template_command,
)
from feedproxy.upstream import local_resource_exhaustion

logger = logging.getLogger(__name__)

READ_BUFFER = 1024 * 1024
"""Size of the buffer for results of a helper, in bytes."""

ATTEMPTS_MAX = 2
"""A quick job is attempted at most this many times: it is repeated if its helper exits during the job. A slow job is
attempted once."""

QUICK_HELPERS_MAX = 2
"""Maximum number of helpers in the quick lane, which runs all jobs that are not slow."""

SLOW_HELPERS_MAX = 2
"""Maximum number of helpers in the slow lane, which runs large jobs, and jobs that take longer than `Limits.quick`."""

SLOW_QUEUE_MAX = 64
"""At most this many jobs wait for the slow lane. Further jobs raise Overload."""

HELPER_JOBS_MAX = 1000
"""A helper is replaced after this many jobs, to free memory that parsers leak."""

LARGE_JOB = 8 * 1024 * 1024
"""A job with data of at least this many bytes starts in the slow lane."""

RESULT_MAX = 256 * 1024 * 1024
"""A helper that sends a result of more than this many bytes is ended. The limit is five times `decoded_max`."""

START_TIMEOUT: Seconds = 60
"""The template process, and each helper, must start within this many seconds. A process that takes longer is
replaced."""

RESTART_PAUSE_MAX: Seconds = 60
"""After a failed start of the template process, the next start follows within this many seconds."""

FAILED_STARTS_MAX = 2
"""If more than this many template processes exit in a row before a helper has completed a job, threads run the waiting
jobs."""

_MICRO = 1_000_000


class JobLimitExceeded(FeedproxyError, status=502, detail="too-large"):
    """Error for a document that needs more time or memory than a job may use."""


RETRY_AFTER: Seconds = 60
"""Seconds after which a conversion during which helper processes exited is tried again."""


class HelpersExited(FeedproxyError, status=503):
    """Error for a job during which helper processes exited, for example because memory ran out."""

    fields = (("Retry-After", str(RETRY_AFTER)),)


@dataclass(slots=True, eq=False)
class _Job:
    message: Parts
    done: asyncio.Future[Parts]
    helper_exits: int = 0
    is_long: bool = False

    def fail(self, error: FeedproxyError) -> None:
        if not self.done.done():  # the caller may have been cancelled
            self.done.set_exception(error)


@dataclass(slots=True, eq=False)
class _Helper:
    number: int
    pid: int = 0
    """Process id, or 0 until the helper is ready."""
    writer: asyncio.StreamWriter | None = None
    job: _Job | None = None
    jobs_done: int = 0
    started_at: float = 0.0
    cpu_before: Seconds = 0.0
    """Processor time of the helper before the current job, in seconds."""
    timer: asyncio.TimerHandle | None = None
    listener: asyncio.Task[None] | None = None

    @property
    def is_slow(self) -> bool:
        return self.job is not None and self.job.is_long


class HelperPool:
    """Pool that runs jobs in helper processes. If no process can be started, threads run the jobs."""

    def __init__(self, threads: Executor | None = None, limits: Limits | None = None) -> None:
        self._threads = threads or ThreadPoolExecutor(2, thread_name_prefix="feedproxy-prepare")
        self._limits = limits or Limits()
        self._quick: deque[_Job] = deque()
        self._slow: deque[_Job] = deque()
        self._helpers: dict[int, _Helper] = {}
        self._numbers = 0
        self._control: socket.socket | None = None
        self._ended: asyncio.Event | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._in_threads = True
        self._failed_starts = 0
        self.restart_pause: Seconds = 0.0
        """Seconds to wait before the next start of a template process."""
        self.template: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the helper processes. Helpers that exit are replaced."""
        if self._supervisor is None:
            self._in_threads = False
            self._supervisor = asyncio.ensure_future(self._supervise())

    @property
    def is_running(self) -> bool:
        """Return whether a helper process is ready."""
        return any(helper.pid for helper in self._helpers.values())

    async def submit[T](self, work: Callable[[], T]) -> T:
        """Run a job and return its result.

        `work` is a `functools.partial` of a module-level function with picklable arguments. Raises the exceptions of
        this function. Raises JobLimitExceeded if the job exceeds a limit, and HelpersExited if helpers exited during
        the job. Raises Overload if the pool is full, or if no process can be started.
        """
        if self._in_threads:
            try:
                future = asyncio.get_running_loop().run_in_executor(self._threads, work)
            except RuntimeError as thread_error:
                if not local_resource_exhaustion.is_exhaustion(thread_error):
                    raise
                raise _overload_error(thread_error) from thread_error
            return await future
        job = _Job(dump_message(work), asyncio.get_running_loop().create_future())
        self._enqueue(job)
        message = await job.done
        try:
            result, error = load_result(message)
        except Exception as decoding_error:
            logger.error(
                "helper pool: result of a job unreadable, its response is not stored; the line of the fetch names the"
                " feed: %s",
                decoding_error,
            )
            raise FeedproxyError("feedproxy could not process the response; see its log") from decoding_error
        if isinstance(error, MemoryError):
            raise JobLimitExceeded("processing the response takes more memory than the limit")
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
        for waiting, limit, is_slow in ((self._quick, QUICK_HELPERS_MAX, False), (self._slow, SLOW_HELPERS_MAX, True)):
            while waiting:
                if waiting[0].done.done():  # its caller was cancelled
                    waiting.popleft()
                    continue
                busy = sum(helper.job is not None and helper.is_slow == is_slow for helper in self._helpers.values())
                if busy >= limit:
                    break
                helper = next((helper for helper in self._helpers.values() if helper.pid and helper.job is None), None)
                if helper is None:
                    try:
                        self._add_helper()
                    except Overload as error:
                        if not busy:  # otherwise a busy helper of this lane runs the waiting jobs later
                            _fail_all(waiting, error)
                    break
                self._send_job(helper, waiting.popleft())

    def _send_job(self, helper: _Helper, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        assert helper.writer is not None
        helper.job, helper.started_at = job, loop.time()
        if job.is_long:
            self._move_to_slow_lane(helper, job)
        else:
            helper.timer = loop.call_later(self._limits.quick, self._on_quick_limit, helper, job)
        helper.writer.writelines(frame(job.message))

    def _on_quick_limit(self, helper: _Helper, job: _Job) -> None:
        """Move a job that exceeds `Limits.quick` to the slow lane.

        On a busy machine, the job first gets more time. Then its helper joins the slow lane and continues the job. If
        the slow lane already has SLOW_HELPERS_MAX helpers, the helper is ended instead, and the job waits to be run
        again. A helper that is suspended (SIGSTOP) is ended, too.
        """
        if helper.job is not job:
            return
        loop, quick = asyncio.get_running_loop(), self._limits.quick
        state, cpu_time = _process_usage(helper.pid)
        if state in ("T", "t"):
            logger.warning("helper pool: helper process %d stopped by a signal, replacing it", helper.pid)
            self._stop_helper(helper)
        elif cpu_time - helper.cpu_before < quick / 2 and loop.time() - helper.started_at < 4 * quick:
            helper.timer = loop.call_later(
                quick / 2, self._on_quick_limit, helper, job
            )  # the job has used little processor time, because the machine is busy
        elif sum(helper.is_slow for helper in self._helpers.values()) < SLOW_HELPERS_MAX:
            job.is_long = True
            self._move_to_slow_lane(helper, job)
            self._assign()
        else:
            job.is_long = True
            helper.job = None
            self._stop_helper(helper)
            self._enqueue(job)

    def _move_to_slow_lane(self, helper: _Helper, job: _Job) -> None:
        """Lower the priority of the helper, and end it if its job takes longer than `Limits.wall`."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, helper.pid, NICENESS_SLOW)
        loop = asyncio.get_running_loop()
        remaining = max(0.0, helper.started_at + self._limits.wall - loop.time())
        helper.timer = loop.call_later(remaining, self._on_wall_limit, helper, job)

    def _on_wall_limit(self, helper: _Helper, job: _Job) -> None:
        if helper.job is job:
            helper.job = None
            self._fail_too_long(job)
            self._stop_helper(helper)

    def _fail_too_long(self, job: _Job) -> None:
        logger.error(
            "helper pool: job ended by its limit of %g s or of processor time; its response is not stored; the"
            " line of the fetch names the feed",
            self._limits.wall,
        )
        job.fail(JobLimitExceeded("processing the response takes longer than the limit"))

    # -- helpers

    def _add_helper(self) -> None:
        """Start a helper, unless one is starting already. Raises Overload if no file descriptor is free."""
        if self._control is None or any(not starting.pid for starting in self._helpers.values()):
            return
        try:
            own_end, peer_end = socket.socketpair()
        except OSError as error:
            raise _overload_error(error) from error
        self._numbers += 1
        helper = _Helper(self._numbers)
        with peer_end:
            try:
                socket.send_fds(
                    self._control, [START_HELPER + helper.number.to_bytes(NUMBER_SIZE, "big")], [peer_end.fileno()]
                )
            except OSError:
                own_end.close()
                self._on_template_exit()
                return
        self._helpers[helper.number] = helper
        helper.listener = asyncio.ensure_future(self._listen(helper, own_end))

    async def _listen(self, helper: _Helper, own_end: socket.socket) -> None:
        reader, helper.writer = await asyncio.open_connection(sock=own_end, limit=READ_BUFFER)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                pid = int.from_bytes(await reader.readexactly(NUMBER_SIZE), "big")
        except TimeoutError:
            logger.warning("helper pool: no helper process ready after %g s", START_TIMEOUT)
            self._on_template_exit()
            return
        except (asyncio.IncompleteReadError, ConnectionError):
            self._on_helper_exit(helper)
            self._on_template_exit()
            return
        helper.pid, self._in_threads = pid, False
        self._assign()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            # Nothing refers to this task after its helper is stopped, and Python would free it while it waits.
            while helper.number in self._helpers:
                head = await reader.readexactly(2 * NUMBER_SIZE)
                cpu_time, count = decode_numbers(head)
                if not 0 < count <= PARTS_MAX:
                    break
                lengths = decode_numbers(await reader.readexactly(count * NUMBER_SIZE))
                if sum(lengths) > RESULT_MAX:
                    break
                helper.cpu_before = cpu_time / _MICRO
                self._on_result(helper, [await reader.readexactly(length) for length in lengths])
        self._on_helper_exit(helper)
        self._assign()

    def _on_result(self, helper: _Helper, result: Parts) -> None:
        job, helper.job = helper.job, None
        helper.jobs_done += 1
        self.restart_pause, self._failed_starts = 0.0, 0
        if helper.timer is not None:
            helper.timer.cancel()
        if job is None:
            return
        if not job.done.done():
            job.done.set_result(result)
        if job.is_long or b"MemoryError" in result[0][:64] or helper.jobs_done >= HELPER_JOBS_MAX:
            self._stop_helper(helper)  # to free its memory
        self._assign()

    def _stop_helper(self, helper: _Helper) -> None:
        self._on_helper_exit(helper)
        self._assign()

    def _on_helper_exit(self, helper: _Helper) -> None:
        """Remove a helper that has exited or been ended. A quick job of the helper is repeated, up to ATTEMPTS_MAX
        attempts. A slow job fails."""
        if self._helpers.pop(helper.number, None) is None:
            return
        if helper.timer is not None:
            helper.timer.cancel()
        if helper.writer is not None:
            helper.writer.close()
        if helper.listener is not None and helper.listener is not asyncio.current_task():
            helper.listener.cancel()
        if self._control is not None:
            with contextlib.suppress(OSError):  # the template has ended, and all helpers with it
                self._control.send(KILL_HELPER + helper.number.to_bytes(NUMBER_SIZE, "big"))
        job, helper.job = helper.job, None
        if job is None:
            return
        if job.is_long:
            self._fail_too_long(job)
            return
        job.helper_exits += 1
        if job.helper_exits < ATTEMPTS_MAX:
            self._quick.appendleft(job)
            return
        logger.error(
            "helper pool: job failed, because %d helper processes exited during it; the line of the fetch names the"
            " feed",
            ATTEMPTS_MAX,
        )
        job.fail(HelpersExited("feedproxy could not process the response; see its log"))

    # -- the template

    async def _supervise(self) -> None:
        while True:
            try:
                await self._run_template()
            except OSError as error:
                logger.warning("helper pool: starting a helper process failed, trying again: %s", error)
                self._failed_starts, self.restart_pause = FAILED_STARTS_MAX, RESTART_PAUSE_MAX
            self._close_helpers()
            self._failed_starts += 1
            if self._failed_starts > FAILED_STARTS_MAX:
                self._fall_back_to_threads()
            await asyncio.sleep(self.restart_pause)
            self.restart_pause = min(RESTART_PAUSE_MAX, 2 * self.restart_pause + 0.1)

    async def _run_template(self) -> None:
        """Start the template process and its first helper. Return when the template exits. Raises OSError if the
        process cannot be started."""
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
        loop.add_reader(own_end, self._on_template_exit)  # the socket becomes readable when the template exits
        self._control = own_end
        try:
            with contextlib.suppress(Overload):  # the next job starts a helper
                self._add_helper()
            await self._ended.wait()
        finally:
            loop.remove_reader(own_end)

    def _on_template_exit(self) -> None:
        """End `_run_template`, because the template process has exited or does not respond."""
        if self._ended is not None:
            self._ended.set()

    def _fall_back_to_threads(self) -> None:
        if not self._in_threads:
            logger.warning("helper pool: running jobs in threads until a helper process is ready")
        self._in_threads = True
        loop = asyncio.get_running_loop()
        for job in (*self._quick, *self._slow):
            work = loop.run_in_executor(self._threads, run_job, job.message)
            work.add_done_callback(partial(_copy_result, job.done))
        self._quick.clear()
        self._slow.clear()

    def _close_helpers(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
        if self.template is not None:
            self.template.kill()
            self.template.wait()
            self.template = None
        for helper in list(self._helpers.values()):
            self._on_helper_exit(helper)

    async def close(self) -> None:
        """End the processes and threads, and cancel the remaining jobs."""
        await cancel(self._supervisor)
        self._supervisor = None
        running_jobs = [helper.job for helper in self._helpers.values() if helper.job is not None]
        listeners = [helper.listener for helper in self._helpers.values() if helper.listener is not None]
        for helper in self._helpers.values():
            helper.job = None
        self._close_helpers()
        await asyncio.gather(*listeners, return_exceptions=True)
        for job in (*running_jobs, *self._quick, *self._slow):
            job.done.cancel()
        self._quick.clear()
        self._slow.clear()
        self._in_threads = True
        self._threads.shutdown(cancel_futures=True)


def _start_template(descriptor: int, limits: Limits) -> "subprocess.Popen[bytes]":
    """Start the template process, and return it without waiting until it is ready. Raises OSError if it cannot be
    started."""
    return subprocess.Popen(template_command(descriptor, limits), pass_fds=[descriptor], stdin=subprocess.DEVNULL)  # noqa: S603 -- a fixed command


def _overload_error(error: Exception) -> Overload:
    """Log that file descriptors, threads or processes are exhausted, and return the error to raise."""
    local_resource_exhaustion.shortage_log.warn(f"helper pool: no process can be started: {error}")
    return Overload("no helper process can be started now")


def _fail_all(jobs: deque[_Job], error: FeedproxyError) -> None:
    while jobs:
        jobs.popleft().fail(error)


def _copy_result(target: "asyncio.Future[Parts]", source: "asyncio.Future[Parts]") -> None:
    if source.cancelled():
        target.cancel()
    elif not target.done():
        target.set_result(source.result())  # jobs in threads report their exceptions as results


def _process_usage(pid: int) -> tuple[str, Seconds]:
    """Return the state letter of a process (`proc_pid_stat(5)`) and its processor time in seconds. If the process is
    unknown, return "R" (running) and infinity. If no file descriptor is free, return "R" and 0."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError) as error:
        return "R", 0.0 if local_resource_exhaustion.is_exhaustion(error) else float("inf")
