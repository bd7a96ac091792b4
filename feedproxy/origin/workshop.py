"""Where feeds are read and compressed: in a process beside the proxy, else in threads.

A thread that computes takes Python's lock in turns of some milliseconds, and so long readers wait who could be answered
in microseconds. A process takes a CPU, and where there is only one, the system gives it back at once to who has the
better right to it (apart.py: nice). What goes over and comes back is copied, a twentieth of a millisecond for a feed.

It is also where a fault of a parser that ends a process ends that one: the feed that did it twice is given up, what
else was under way is done by the next. While there is none, threads do the work.
(docs/decisions/feeds-are-read-in-a-process-beside.md)
"""

import asyncio
import contextlib
import logging
import pickle
import socket
import subprocess
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from feedproxy.errors import FeedproxyError
from feedproxy.origin.apart import LENGTH, READY, command, framed, packed

logger = logging.getLogger(__name__)

BUFFER = 1024 * 1024
"""Bytes of a result that are read ahead."""

TRIES = 2
"""Processes that a job may see die before it is taken for the reason."""


@dataclass(slots=True, eq=False)
class _Job:
    message: bytes
    done: asyncio.Future[bytes]
    deaths: int = 0


class Workshop:
    """Does what is to be done, and gives what comes of it. Without `start`, in threads."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._under_way: deque[_Job] = deque()
        self._writer: asyncio.StreamWriter | None = None
        self._life: asyncio.Task[None] | None = None
        self._ready = False
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have a process for it from now on, and another one when that ends."""
        if self._life is None:
            self._life = asyncio.ensure_future(self._live())

    @property
    def apart(self) -> bool:
        """Whether a process does it now."""
        return self._ready

    async def do[T](self, work: Callable[[], T]) -> T:
        """Do this somewhere else: a `functools.partial` of a function at a module's top level, with values.

        Raises what it raises, and FeedproxyError where its process died of it.
        """
        if not self._ready:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        job = _Job(framed(packed(work)), asyncio.get_running_loop().create_future())
        self._begin(job)
        result, error = pickle.loads(await job.done)  # noqa: S301 (our own child's)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # what `work` gives, by way of bytes

    def _begin(self, job: _Job) -> None:
        assert self._writer is not None
        self._under_way.append(job)
        self._writer.write(job.message)

    async def _live(self) -> None:
        pause = 0.0
        while True:
            try:
                await self._serve_one_life()
            except OSError as error:
                logger.warning("feeds are read in threads: no process for it could be started: %s", error)
                pause = 60.0
            self._mourn()
            await asyncio.sleep(pause)
            pause = min(60.0, 2 * pause + 0.1)

    async def _serve_one_life(self) -> None:
        """Start one, and take in what it gives until it ends. Raises OSError where it cannot be started."""
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            self.process = _started(number)
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=BUFFER)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            if await reader.readexactly(LENGTH) != READY:
                return
            again, self._under_way = self._under_way, deque()
            for job in again:
                self._begin(job)
            self._ready = True
            while True:
                length = int.from_bytes(await reader.readexactly(LENGTH), "big")
                result = await reader.readexactly(length)
                job = self._under_way.popleft()
                if not job.done.done():  # who waited may have gone
                    job.done.set_result(result)

    def _mourn(self) -> None:
        """It has ended: the job it was at is perhaps the reason."""
        self._ready = False
        self._let_go()
        if not self._under_way:
            return
        first = self._under_way[0]
        first.deaths += 1
        if first.deaths >= TRIES:
            self._under_way.popleft()
            logger.error("what an origin sent ended the process that read it, twice: it is given up")
            if not first.done.done():
                first.done.set_exception(FeedproxyError("feedproxy failed at what the origin sent; its log says more"))

    def _let_go(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    async def close(self) -> None:
        """End the process. What is still under way comes to nothing: its waiters were to be waited for before."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
            self._life = None
        self._ready = False
        self._let_go()
        for job in self._under_way:
            job.done.cancel()
        self._under_way.clear()


def _started(descriptor: int) -> "subprocess.Popen[bytes]":
    """Begun, not waited for: it takes a millisecond. Raises OSError."""
    return subprocess.Popen(command(descriptor), pass_fds=[descriptor], stdin=subprocess.DEVNULL)  # noqa: S603 (ours)
