"""Several processes on one port: a supervisor that starts them, starts anew what dies, and ends all together.

It answers nobody, opens no store and has no event loop: what has no work cannot hang. Workers are forks of it, so that
one that died is back in a moment; it has no threads then, and no file but these:

listening sockets   one for each worker and address (SO_REUSEPORT), bound here, so that a port that is taken is told
                    once, and `--listen HOST:0` means the same port for all. They stay open here while a worker is
                    started again: who has connected meanwhile waits a moment, instead of being refused. After a second
                    death in a row they are closed, and the other workers get all connections until it comes back.
lifelines           a pair of sockets for each worker: its end tells when it is ready, and when the supervisor is gone.
memory              in which workers agree on what is stored, keep what they have counted, and tell that they are alive:
                    it outlives each of them.

A worker that hangs is killed and started again. Its sockets stay open meanwhile: who has connected waits for the next.
"""

import asyncio
import contextlib
import gc
import logging
import mmap
import os
import random
import secrets
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from feedproxy import serve, systemd
from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.server.fastpath.sockets import reject_new_connections
from feedproxy.store import folder_lock
from feedproxy.workers.worker import HEARTBEAT, WorkerContext

START_TIMEOUT: Seconds = 60
"""A store of 100,000 feeds is opened in a few seconds; what takes longer than this hangs."""
STABLE_AFTER: Seconds = 10
"""A worker that has lived so long was well: when it dies it is started again at once."""
BACK_OFF_FIRST: Seconds = 0.5
BACK_OFF_MAX: Seconds = 30
SHUTDOWN_GRACE: Seconds = 10
"""Seconds beyond `drain_timeout` that a worker may take to end."""

HANG_TIMEOUT: Seconds = 3.5
"""A worker whose event loop has not turned for so long is killed: its readers wait, and it may never come back. Its
longest turns are some 50 ms."""
CHECK_INTERVAL: Seconds = 0.5
"""How often workers are looked at."""
SUSPENDED_ABOVE: Seconds = 1
"""Where the supervisor itself is late by so much, the machine was stopped or is too busy: no worker is to blame."""

_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})

logger = logging.getLogger("feedproxy.supervisor")

type Announce = Callable[[str], None]


@dataclass(slots=True)
class _WorkerSlot:
    """A seat, and who sits there. `due` is when the next one is started, on the monotonic clock."""

    index: int
    sockets: tuple[socket.socket, ...]
    pid: int = 0
    control_socket: socket.socket | None = None
    started: Seconds = 0.0
    deaths: int = 0
    due: Seconds | None = None


@dataclass(slots=True)
class Supervisor:
    """Runs the workers of one proxy. `run` is called once."""

    plan: serve.ServePlan
    wanted: serve.WorkerOptions
    announce: Announce
    _folder: Path = field(init=False)
    _lock: int | None = None
    _admin: tuple[socket.socket, ...] = ()
    _admin_ports: tuple[int, ...] = ()
    _workers: list[_WorkerSlot] = field(default_factory=list)
    _ending: bool = False
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _common: int = -1
    _snapshots: tuple[int, ...] = ()
    _beats: mmap.mmap = field(init=False)
    _startup_grace_until: Seconds = 0.0

    def run(self) -> int:
        """Run until SIGTERM or SIGINT; the exit code. Raises UsageError where it cannot listen."""
        wanted = self.wanted
        exclusive = not wanted.reuse_port
        if self.plan.admin_sockets:
            self._admin = self.plan.admin_sockets
        elif wanted.admin is not None:
            self._admin = _bind(*wanted.admin, "admin: cannot listen on", exclusive=exclusive)
        self._admin_ports = tuple({each.getsockname()[1] for each in self._admin})
        if self.plan.sockets:
            # systemd's socket is one for all: whoever is free accepts, and it lives on when we end.
            places = [(each.family, each.getsockname()) for each in self.plan.sockets]
            self._workers = [_WorkerSlot(index, self.plan.sockets) for index in range(wanted.size)]
        else:
            host, port = wanted.listen
            held = _bind(host, port, "cannot listen on", exclusive=exclusive)
            places = [(each.family, each.getsockname()) for each in held]
            _close(held)
            self._workers = [_WorkerSlot(index, _duplicate_sockets(places)) for index in range(wanted.size)]
        self._lock = folder_lock.acquire(wanted.folder) if wanted.folder is not None else None
        self._folder = Path(tempfile.mkdtemp(prefix="feedproxy-"))
        self._common = os.memfd_create("feedproxy-common", os.MFD_CLOEXEC)
        self._snapshots = tuple(os.memfd_create(f"feedproxy-{n}", os.MFD_CLOEXEC) for n in range(wanted.size))
        self._beats = mmap.mmap(-1, HEARTBEAT.size * wanted.size)
        # What was made until now is never collected, and so stays common to all workers.
        gc.collect()
        gc.freeze()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            return self._supervise(places)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            _close((*self._admin, *(each for worker in self._workers for each in worker.sockets)))
            shutil.rmtree(self._folder, ignore_errors=True)
            for each in (self._common, *self._snapshots):
                os.close(each)
            if self._lock is not None:
                os.close(self._lock)

    def _supervise(self, places: "list[Place]") -> int:
        for worker in self._workers:
            # One after the other: the first makes what the store has none of yet, and tells what is wrong with it.
            self._start(worker)
            if (code := self._wait_ready(worker)) is not None:
                self._end()
                return code
        for _, address in places:
            self.announce(f"http://{_format_address(address)}")
        systemd.notify(f"READY=1\nSTATUS={len(self._workers)} workers are ready")
        interval, patted = systemd.watchdog(), 0.0
        while True:
            began = time.monotonic()
            due = min(
                (worker.due for worker in self._workers if worker.due is not None), default=began + CHECK_INTERVAL
            )
            patience = max(0.0, min(due - began, CHECK_INTERVAL))
            got = signal.sigtimedwait(_SIGNALS, patience)
            now = time.monotonic()
            if now - began > patience + SUSPENDED_ABOVE:
                self._startup_grace_until = now + HANG_TIMEOUT
            if interval is not None and now - patted >= interval / 2:
                patted = now
                systemd.notify("WATCHDOG=1")
            if got is not None and got.si_signo == signal.SIGHUP:
                self._reload()
            elif got is not None and got.si_signo != signal.SIGCHLD:
                logger.info("shutting down: finishing open requests of %d workers", len(self._workers))
                systemd.notify("STOPPING=1\nSTATUS=draining")
                return self._end()
            self._check_workers(places)
            self._kill_hanging(now)

    def _reload(self) -> None:
        """Let every worker load the configuration again; one that starts later reads it anyway."""
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, signal.SIGHUP)

    def _kill_hanging(self, now: Seconds) -> None:
        """Kill the worker that has been silent for longest, where that is too long: others may have waited for it."""
        if now < self._startup_grace_until:
            return
        silent: list[tuple[Seconds, int, _WorkerSlot]] = []
        for worker in self._workers:
            if worker.pid:
                (beat,) = HEARTBEAT.unpack_from(self._beats, HEARTBEAT.size * worker.index)
                beyond = now - beat - HANG_TIMEOUT if beat else now - worker.started - START_TIMEOUT
                silent.append((beyond, worker.index, worker))
        if not silent or max(silent)[0] <= 0:
            return
        beyond, _, worker = max(silent)
        logger.warning(
            "worker %d hangs (no sign of life for %.1f s): it is killed", worker.index, HANG_TIMEOUT + beyond
        )
        os.kill(worker.pid, signal.SIGKILL)
        self._startup_grace_until = now + CHECK_INTERVAL

    def _check_workers(self, places: "list[Place]") -> None:
        for worker in self._workers:
            if worker.pid and (status := _exit_status(worker.pid)) is not None:
                self._on_worker_exit(worker, status)
            if worker.due is not None and worker.due <= time.monotonic():
                if not worker.sockets:
                    worker.sockets = _duplicate_sockets(places)
                self._start(worker)

    def _on_worker_exit(self, worker: _WorkerSlot, status: int) -> None:
        """A worker has died: when does the next one take its seat?"""
        now = time.monotonic()
        worker.deaths = 1 if now - worker.started >= STABLE_AFTER else worker.deaths + 1
        pause = 0.0 if worker.deaths == 1 else min(BACK_OFF_MAX, BACK_OFF_FIRST * 2 ** min(worker.deaths - 2, 16))
        if pause and not self.plan.sockets:
            _close(worker.sockets)
            worker.sockets = ()
        when = f"in {pause:g} s" if pause else "at once"
        logger.warning("worker %d %s, restarting %s", worker.index, _describe_exit(status), when)
        self._clear_slots(worker)
        worker.due = now + pause

    def _start(self, worker: _WorkerSlot) -> None:
        HEARTBEAT.pack_into(self._beats, HEARTBEAT.size * worker.index, 0.0)
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            if self._lock is not None:
                os.close(self._lock)  # it ends with the supervisor, however that ends
            _close([ours, *(each.control_socket for each in self._workers if each.control_socket)])
            if not self.plan.sockets:
                _close(each for other in self._workers if other is not worker for each in other.sockets)
            admin = self._admin if worker.index == 0 else ()
            if not admin:
                _close(self._admin)
            context = WorkerContext(
                worker.index,
                self.wanted.size,
                self._folder,
                worker.sockets,
                admin,
                theirs,
                self._key,
                self._common,
                self._snapshots,
                self._beats,
                self._admin_ports,
            )
            _run_worker(self.plan, context)
        theirs.close()
        worker.pid, worker.control_socket, worker.started, worker.due = pid, ours, time.monotonic(), None

    def _wait_ready(self, worker: _WorkerSlot) -> int | None:
        """Wait until a worker lets readers in; the exit code where it never does, or nobody waits any more."""
        assert worker.control_socket is not None
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if select.select([worker.control_socket], [], [], 0.05)[0]:
                if _receive(worker.control_socket):
                    return None
                _, status = os.waitpid(worker.pid, 0)
                self._clear_slots(worker)
                code = os.waitstatus_to_exitcode(status)
                if code < 0:
                    logger.error("worker %d %s before it was ready", worker.index, _describe_exit(status))
                return code if code > 0 else 1
            got = signal.sigtimedwait(_SIGNALS - {signal.SIGCHLD}, 0)
            if got is not None and got.si_signo != signal.SIGHUP:
                logger.info("draining before the start was over: %s", signal.Signals(got.si_signo).name)
                return 0
        logger.error("worker %d was not ready within %d s", worker.index, START_TIMEOUT)
        return 1

    def _end(self) -> int:
        """End every worker, those that do not obey by force; 0 where all came to a good end."""
        # Only who holds them listens: a worker that drains must be the last to hold its own.
        for worker in self._workers:
            if not self.plan.sockets:
                for each in worker.sockets:
                    reject_new_connections(each)
            _close(worker.sockets)
            worker.sockets = ()
        _close(self._admin)
        self._admin = ()
        under_way = [worker for worker in self._workers if worker.pid]
        for worker in under_way:
            os.kill(worker.pid, signal.SIGTERM)
        deadline, code = time.monotonic() + self.wanted.drain_timeout + SHUTDOWN_GRACE, 0
        while under_way:
            if time.monotonic() > deadline:
                for worker in under_way:
                    logger.error("worker %d did not end in time", worker.index)
                    os.kill(worker.pid, signal.SIGKILL)
                deadline = float("inf")
            for worker in list(under_way):
                if (status := _exit_status(worker.pid)) is not None:
                    code = code or (1 if os.waitstatus_to_exitcode(status) else 0)
                    self._clear_slots(worker)
                    under_way.remove(worker)
            if under_way:
                signal.sigtimedwait({signal.SIGCHLD}, 0.2)
        return code

    @staticmethod
    def _clear_slots(worker: _WorkerSlot) -> None:
        worker.pid = 0
        if worker.control_socket is not None:
            worker.control_socket.close()
            worker.control_socket = None


type Place = tuple[socket.AddressFamily, tuple[str | int, ...]]


def _run_worker(plan: serve.ServePlan, worker: WorkerContext) -> None:
    """In the new process: be a worker to the end. Does not return."""
    code = 1
    try:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        systemd.be_silent()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        random.seed()  # else all workers would throw the same dice
        done = asyncio.run(serve.serve(plan, lambda _: worker.notify_ready(), worker=worker))
        code = done if isinstance(done, int) else 1
    except UsageError as error:
        print(f"feedproxy: {error}", file=sys.stderr)
        code = 2
    except FeedproxyError as error:
        print(f"feedproxy: {error}", file=sys.stderr)
    except BaseException:
        logger.exception("worker %d failed", worker.index)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # Not sys.exit: what the supervisor wanted done at its own end is none of a worker's business.
        os._exit(code)


def _bind(host: str, port: int, failure: str, *, exclusive: bool) -> tuple[socket.socket, ...]:
    """Sockets bound to every address of this host, at one port. Raises UsageError."""
    made: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            place = (address[0], made[0].getsockname()[1] if made else port, *address[2:])
            try:
                made.append(_open_socket(family, place, shared=not exclusive))
            except OSError:
                # A machine may have IPv6's addresses and no IPv6. One of them is enough where all are meant.
                if host or not made:
                    raise
    except OSError as error:
        _close(made)
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        raise UsageError(f"{failure} {host}:{port}: {why}") from error
    return tuple(made)


def _duplicate_sockets(places: "Sequence[Place]") -> tuple[socket.socket, ...]:
    """Sockets for one more worker."""
    return tuple(_open_socket(family, address, shared=True) for family, address in places)


def _open_socket(family: int, address: tuple[str | int, ...], *, shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _close(sockets: Iterable[socket.socket | None]) -> None:
    for each in sockets:
        if each is not None:
            each.close()


def _receive(lifeline: socket.socket) -> bool:
    try:
        return bool(lifeline.recv(1))
    except OSError:
        return False


def _exit_status(pid: int) -> int | None:
    """How this child has ended; None while it lives."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return status if found else None


def _describe_exit(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else f"exited with status {code}"


def _format_address(address: tuple[str | int, ...]) -> str:
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
