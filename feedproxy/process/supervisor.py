"""Supervisor of several workers on one port: it starts them, restarts those that exit or hang, and ends them.

The supervisor serves no requests, opens no store, and has neither an event loop nor threads, so that it cannot hang. It
forks the workers, and for each reload a process that reads the configuration. The supervisor opens only these files:

    listening sockets   one for each worker and address (SO_REUSEPORT). They stay open while a worker restarts, so
                        that new connections wait. After two exits in a row, they are closed, and the other workers
                        get all connections until the worker starts again.
    lifeline            a pair of connected sockets. The workers share one of them, and learn by it that the supervisor
                        has exited.
    read configuration  in memory, from the process that reads it at a reload.
    shared memory       for the coordination of the store, metrics and heartbeats. It outlives the workers.
"""

import asyncio
import contextlib
import dataclasses
import fcntl
import gc
import logging
import mmap
import os
import pickle
import random
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from feedproxy import oom_score
from feedproxy.clock import Seconds
from feedproxy.errors import CannotListen, FeedproxyError, UsageError
from feedproxy.feed_rules import Rules
from feedproxy.http import uri
from feedproxy.process import proxy_process, systemd
from feedproxy.process.option_sources import LoadedOptions, ServePlan
from feedproxy.process.proxy_process import WorkerOptions
from feedproxy.process.reload import read_again
from feedproxy.request.upstream_and_public_urls import listener_url
from feedproxy.server.fastpath.sockets import bind_socket, bind_sockets, reject_new_connections
from feedproxy.settings import from_options
from feedproxy.store.coordination import folder_lock
from feedproxy.telemetry.log_format import print_error
from feedproxy.telemetry.log_setup import hold_lines, set_log
from feedproxy.workers.worker_context import HEARTBEAT, WorkerContext

START_TIMEOUT: Seconds = 60
"""A worker must be ready within this many seconds. A store of 100,000 feeds takes a few seconds."""
START_CHECK_INTERVAL: Seconds = 0.01
"""Seconds between two checks of a worker that is starting."""
STABLE_AFTER: Seconds = 10
"""A worker that exits after at least this many seconds of operation is restarted without a pause."""
BACK_OFF_FIRST: Seconds = 0.5
"""A worker is restarted this many seconds after its second exit in a row. Each further exit doubles the pause."""
BACK_OFF_MAX: Seconds = 30
SHUTDOWN_GRACE: Seconds = 10
"""A worker is killed this many seconds after the end of `drain_timeout`."""

HANG_TIMEOUT: Seconds = 3.5
"""A worker is killed after this many seconds without a heartbeat. The longest iterations of a worker's event loop take
about 50 ms."""
CHECK_INTERVAL: Seconds = 0.5
"""Seconds between two checks of the workers."""
SUSPENDED_ABOVE: Seconds = 1
"""If the supervisor's own checks are late by more than this many seconds, the machine counts as suspended or
overloaded. The supervisor then kills no worker, because a missing heartbeat does not show that the worker hangs."""

USAGE_ERROR = 2
"""Exit code of a worker that cannot use its options."""

_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM})
"""The signals for which the supervisor waits. SIGALRM ends the wait after a time."""
TIMER_MIN: Seconds = 0.001
"""The shortest wait in seconds. Zero would switch the timer off."""

logger = logging.getLogger("feedproxy.process.supervisor")

type Announce = Callable[[str], None]


@dataclass(slots=True)
class _WorkerSlot:
    """The state of one worker. `due` is the time of its next start by the monotonic clock, or None while it runs."""

    index: int
    sockets: tuple[socket.socket, ...]
    pid: int = 0
    started: Seconds = 0.0
    exits_in_a_row: int = 0
    due: Seconds | None = None
    missed_reload: bool = False
    """True from a reload until the supervisor has sent this worker the signal to reload."""


@dataclass(slots=True)
class Supervisor:
    """The supervisor of one proxy's workers. `run` is called once."""

    plan: ServePlan
    options: WorkerOptions
    announce: Announce
    _folder: Path = field(init=False)
    _folder_descriptor: int = -1
    _lock: int | None = None
    _admin: tuple[socket.socket, ...] = ()
    _admin_ports: tuple[int, ...] = ()
    _workers: list[_WorkerSlot] = field(default_factory=list)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _coordination: int = -1
    _snapshots: tuple[int, ...] = ()
    _beats: mmap.mmap = field(init=False)
    _lifeline: tuple[socket.socket, socket.socket] = field(init=False)
    """Two connected sockets: the supervisor's, and the one by which workers notice that the supervisor has exited."""
    _startup_grace_until: Seconds = 0.0
    _previous: WorkerOptions | None = None
    _reload_requested: bool = False
    _reader: tuple[int, int] | None = None
    """The process that reads the configuration, and the file of its result (`_start_reader`)."""

    def run(self) -> int:
        """Run the workers until SIGTERM or SIGINT. Return the exit code. Raises CannotListen if an address cannot be
        bound."""
        options, settings = self.options, self.options.settings
        exclusive = not settings.reuse_port
        if self.plan.admin_sockets:
            self._admin = self.plan.admin_sockets
        elif options.admin is not None:
            self._admin = _bind(*options.admin, "admin", exclusive=exclusive)
        self._admin_ports = tuple({listening.getsockname()[1] for listening in self._admin})
        if self.plan.sockets:
            # All workers accept from systemd's socket, which stays open when feedproxy exits.
            addresses = [(systemd_socket.family, systemd_socket.getsockname()) for systemd_socket in self.plan.sockets]
            self._workers = [_WorkerSlot(index, self.plan.sockets) for index in range(settings.workers)]
        else:
            host, port = options.listen
            bound = _bind(host, port, "listen", exclusive=exclusive)
            addresses = [(listening.family, listening.getsockname()) for listening in bound]
            _close(bound)
            self._workers = [_WorkerSlot(index, _bind_again(addresses)) for index in range(settings.workers)]
        folder = proxy_process.own_folder(settings)
        self._lock = folder_lock.acquire(folder) if folder is not None else None
        self._folder, self._folder_descriptor = _make_folder()
        self._coordination = os.memfd_create("feedproxy-common", os.MFD_CLOEXEC)
        self._snapshots = tuple(
            os.memfd_create(f"feedproxy-{number}", os.MFD_CLOEXEC) for number in range(settings.workers)
        )
        self._beats = mmap.mmap(-1, HEARTBEAT.size * settings.workers)
        self._lifeline = socket.socketpair()
        # Objects created so far are never collected, so that all workers share their memory pages.
        gc.collect()
        gc.freeze()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # it may be pending when signals are unblocked at the end
        try:
            return self._supervise(addresses)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            _close((*self._admin, *(listening for worker in self._workers for listening in worker.sockets)))
            _close(self._lifeline)
            shutil.rmtree(self._folder, ignore_errors=True)
            for descriptor in (self._coordination, self._folder_descriptor, *self._snapshots):
                os.close(descriptor)
            if self._lock is not None:
                os.close(self._lock)

    def _supervise(self, addresses: "list[Place]") -> int:
        for worker in self._workers:
            # Workers start one after the other. The first worker initializes the store, and reports its errors.
            try:
                self._start(worker)
            except OSError as error:
                logger.error("worker %d cannot start (%s)", worker.index, error.strerror)
                self._end()
                return 1
            if (code := self._wait_ready(worker)) is not None:
                self._end()
                return code
        for _, address in addresses:
            self.announce(listener_url(self.options.settings, str(address[0]), int(address[1])))
        systemd.notify(f"READY=1\nSTATUS={len(self._workers)} workers are ready")
        interval, watchdog_notified = systemd.watchdog(), 0.0
        while True:
            start = time.monotonic()
            due = min(
                (worker.due for worker in self._workers if worker.due is not None), default=start + CHECK_INTERVAL
            )
            timeout = max(0.0, min(due - start, CHECK_INTERVAL))
            received = wait_for_signal(timeout)
            now = time.monotonic()
            if now - start > timeout + SUSPENDED_ABOVE:
                self._startup_grace_until = now + HANG_TIMEOUT
            if interval is not None and now - watchdog_notified >= interval / 2:
                watchdog_notified = now
                systemd.notify("WATCHDOG=1")
            if received == signal.SIGHUP:
                self._reload_requested = True
            elif received in (signal.SIGTERM, signal.SIGINT):
                logger.info("shutting down: finishing open requests of %d workers", len(self._workers))
                systemd.notify("STOPPING=1\nSTATUS=draining")
                return self._end()
            is_read = self._has_read()
            self._check_workers(addresses)  # signals the workers
            if is_read:
                systemd.notify_ready()
            if self._reload_requested and self._reader is None:
                self._start_reader()
            self._kill_hanging(now)

    def _start_reader(self) -> None:
        """Start a process that reads the configuration, because thousands of rules take seconds. If the system has no
        process left, do nothing: the reload stays requested for the next call."""
        result = os.memfd_create("feedproxy-configuration", os.MFD_CLOEXEC)
        try:
            pid = os.fork()
        except OSError:
            os.close(result)
            return
        if not pid:
            _close((*self._lifeline, *self._admin, *(own for worker in self._workers for own in worker.sockets)))
            if self._lock is not None:
                os.close(self._lock)
            _read_configuration(self.plan, self.options, result)
        self._reload_requested = False
        self._reader = pid, result
        systemd.notify_reloading()

    def _has_read(self) -> bool:
        """Return True if the process that reads the configuration has ended since the last call. If it was successful,
        its result is now in force. In both cases, each worker is to load the configuration again."""
        if self._reader is None:
            return False
        pid, result = self._reader
        if (status := _exit_status(pid)) is None:
            return False
        self._reader = None
        with open(result, "rb") as file:
            if status == 0:
                file.seek(0)
                self._set_options(pickle.load(file))  # noqa: S301 (this program wrote it)
        for worker in self._workers:
            worker.missed_reload = True
        return True

    def _set_options(self, loaded: LoadedOptions) -> None:
        values = {**loaded.config.options, **loaded.overrides}
        own_options = ("drain_timeout", "log_format", "log_level")
        new = from_options({name: values[name] for name in own_options if name in values})
        set_log(new)
        settings = dataclasses.replace(self.options.settings, drain_timeout=new.drain_timeout)
        self._previous = self.options
        self.options = structs.replace(self.options, loaded=loaded, settings=settings)

    def _kill_hanging(self, now: Seconds) -> None:
        """Kill the worker with the oldest heartbeat if it hangs. If several workers hang, the others are perhaps only
        waiting for this worker."""
        if now < self._startup_grace_until:
            return
        silent: list[tuple[Seconds, int, _WorkerSlot]] = []
        for worker in self._workers:
            if worker.pid:
                beat = self._heartbeat(worker)
                excess = now - beat - HANG_TIMEOUT if beat else now - worker.started - START_TIMEOUT
                silent.append((excess, worker.index, worker))
        if not silent or max(silent)[0] <= 0:
            return
        excess, _, worker = max(silent)
        logger.warning("worker %d hangs (no heartbeat for %.1f s): killing it", worker.index, HANG_TIMEOUT + excess)
        os.kill(worker.pid, signal.SIGKILL)
        self._startup_grace_until = now + CHECK_INTERVAL

    def _check_workers(self, addresses: "list[Place]") -> None:
        for worker in self._workers:
            if worker.pid and (status := _exit_status(worker.pid)) is not None:
                self._on_worker_exit(worker, status)
            if worker.due is not None and worker.due <= time.monotonic():
                self._restart(worker, addresses)
            if worker.missed_reload and worker.pid and self._heartbeat(worker):
                worker.missed_reload = False
                os.kill(worker.pid, signal.SIGHUP)

    def _restart(self, worker: _WorkerSlot, addresses: "list[Place]") -> None:
        """Start a worker again. If the system lacks resources, schedule another attempt."""
        try:
            if not worker.sockets:
                worker.sockets = _bind_again(addresses)
            self._start(worker)
        except OSError as error:
            self._schedule_restart(worker, f"cannot start ({error.strerror})", is_first=False)

    def _on_worker_exit(self, worker: _WorkerSlot, status: int) -> None:
        is_first = time.monotonic() - worker.started >= STABLE_AFTER or self._revert_options(worker, status)
        self._schedule_restart(worker, _describe_exit(status), is_first=is_first)

    def _schedule_restart(self, worker: _WorkerSlot, event: str, *, is_first: bool) -> None:
        """Schedule the restart of a worker that does not run. `event` says in the log what has happened. `is_first` is
        True for the first exit in a row."""
        worker.exits_in_a_row = 1 if is_first else worker.exits_in_a_row + 1
        pause = (
            0.0
            if worker.exits_in_a_row == 1
            else min(BACK_OFF_MAX, BACK_OFF_FIRST * 2 ** min(worker.exits_in_a_row - 2, 16))
        )
        if pause and not self.plan.sockets:
            _close(worker.sockets)
            worker.sockets = ()
        when = f"in {pause:g} s" if pause else "at once"
        logger.warning("worker %d %s, restarting %s", worker.index, event, when)
        worker.pid = 0
        worker.due = time.monotonic() + pause

    def _revert_options(self, worker: _WorkerSlot, status: int) -> bool:
        """If a worker cannot start with the options of the last reload, restore the previous options, and return True.
        Otherwise return False.

        The running workers have refused the new options as well.
        """
        if self._heartbeat(worker) or os.waitstatus_to_exitcode(status) != USAGE_ERROR or self._previous is None:
            return False
        self.options, self._previous = self._previous, None
        return True

    def _heartbeat(self, worker: _WorkerSlot) -> Seconds:
        """Return the time of a worker's last heartbeat on the monotonic clock, or 0 if the worker is not ready yet."""
        (beat,) = HEARTBEAT.unpack_from(self._beats, HEARTBEAT.size * worker.index)
        return float(beat)

    def _start(self, worker: _WorkerSlot) -> None:
        """Start a worker. Raises OSError if the system has no process left for it."""
        HEARTBEAT.pack_into(self._beats, HEARTBEAT.size * worker.index, 0.0)
        with contextlib.suppress(OSError):  # their reader has ended, or the disk is full
            sys.stdout.flush()
            sys.stderr.flush()
        pid = os.fork()
        if not pid:
            own_socket, lifeline = self._lifeline
            own_socket.close()
            if self._lock is not None:
                os.close(self._lock)  # the lock must end when the supervisor exits
            if self._reader is not None:
                os.close(self._reader[1])
            if not self.plan.sockets:
                _close(listening for other in self._workers if other is not worker for listening in other.sockets)
            admin = self._admin if worker.index == 0 else ()
            if not admin:
                _close(self._admin)
            context = WorkerContext(
                worker.index,
                self.options.settings.workers,
                Path(f"/proc/self/fd/{self._folder_descriptor}"),
                worker.sockets,
                admin,
                lifeline,
                self._key,
                self._coordination,
                self._snapshots,
                self._beats,
                self._admin_ports,
                logs_start=worker.index == 0 and not worker.started,
            )
            plan = structs.replace(self.plan, fixed=self.options.fixed, loaded=self.options.loaded)
            _run_worker(plan, context)
        worker.pid, worker.started, worker.due, worker.missed_reload = pid, time.monotonic(), None, False

    def _wait_ready(self, worker: _WorkerSlot) -> int | None:
        """Wait for a starting worker. Return None if it is ready, and 0 if this process gets SIGTERM or SIGINT. Return
        an exit code above 0 if the worker ends, or is not ready within START_TIMEOUT seconds."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            received = wait_for_signal(START_CHECK_INTERVAL)
            if received == signal.SIGHUP:
                self._reload_requested = True
            elif received in (signal.SIGTERM, signal.SIGINT):
                logger.info("shutting down during the start: %s", received.name)
                return 0
            if self._heartbeat(worker):
                return None
            if (status := _exit_status(worker.pid)) is not None:
                worker.pid = 0
                code = os.waitstatus_to_exitcode(status)
                if code < 0:
                    logger.error("worker %d %s before it was ready", worker.index, _describe_exit(status))
                return code if code > 0 else 1
        logger.error("worker %d was not ready within %d s", worker.index, START_TIMEOUT)
        return 1

    def _end(self) -> int:
        """End all workers, and kill those that do not end in time. Return 0 if all of them ended as requested, and 1 if
        not."""
        self._kill_reader()
        self._stop_listening()
        running = [worker for worker in self._workers if worker.pid]
        for worker in running:
            os.kill(worker.pid, signal.SIGTERM)
        deadline, are_clean = time.monotonic() + self.options.settings.drain_timeout + SHUTDOWN_GRACE, True
        while running:
            if time.monotonic() > deadline:
                for worker in running:
                    logger.error("worker %d did not end in time", worker.index)
                    os.kill(worker.pid, signal.SIGKILL)
                deadline = float("inf")
            for worker in list(running):
                if (status := _exit_status(worker.pid)) is not None:
                    # SIGTERM kills a worker that is starting.
                    are_clean &= os.waitstatus_to_exitcode(status) in (0, -signal.SIGTERM)
                    worker.pid = 0
                    running.remove(worker)
            if running:
                wait_for_signal(0.2)
        return 0 if are_clean else 1

    def _kill_reader(self) -> None:
        if self._reader is not None:
            pid, result = self._reader
            self._reader = None
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(result)

    def _stop_listening(self) -> None:
        # A draining worker must be the last process with its sockets open, so that closing them ends listening.
        for worker in self._workers:
            if not self.plan.sockets:
                for listening in worker.sockets:
                    reject_new_connections(listening)
            _close(worker.sockets)
            worker.sockets = ()
        _close(self._admin)
        self._admin = ()


type Place = tuple[socket.AddressFamily, tuple[str | int, ...]]


def wait_for_signal(timeout: Seconds) -> signal.Signals:
    """Wait for one of _SIGNALS and return it. After `timeout` seconds, return SIGALRM. The signals must be blocked.

    A timer is used, because signal.sigtimedwait can return the number of an arbitrary signal if the process was stopped
    and continued (SIGSTOP, `docker pause`) and the time has passed.
    """
    signal.setitimer(signal.ITIMER_REAL, max(timeout, TIMER_MIN))
    return signal.Signals(signal.sigwait(_SIGNALS))


def _read_configuration(plan: ServePlan, options: WorkerOptions, result: int) -> None:
    """Read the configuration in the new process, and write its options to the file `result`. Does not return."""
    code = 1
    try:
        with hold_lines() as held:
            try:
                loaded = read_again(plan, options.specs, Rules(options.loaded.config.rules))
            finally:
                held.clear()  # the workers log the same
        with open(result, "wb") as file:
            pickle.dump(loaded, file)
        code = 0
    except UsageError:
        pass  # the workers report it
    except BaseException:
        logger.exception(
            "the process that reads the configuration failed by a defect of feedproxy, keeping the previous"
            " configuration; please report the traceback"
        )
    finally:
        logging.shutdown()  # waits until the log is written
        os._exit(code)


def _run_worker(plan: ServePlan, worker: WorkerContext) -> None:
    code, folder_in_use = 1, -1
    oom_score.raise_oom_score(oom_score.WORKER)
    try:
        folder_in_use = _mark_in_use(worker.folder)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        systemd.disable_notifications()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        random.seed()  # otherwise all workers would generate the same random numbers
        done = asyncio.run(proxy_process.serve(plan, lambda _: None, worker=worker))
        code = done if isinstance(done, int) else 1
    except UsageError as error:
        print_error(error)
        code = USAGE_ERROR
    except FeedproxyError as error:
        print_error(error)
    except BaseException:
        logger.exception("worker %d failed by a defect of feedproxy; please report the traceback", worker.index)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        if worker.supervisor_has_exited and folder_in_use != -1 and _is_last_user(folder_in_use):
            shutil.rmtree(worker.folder.resolve(), ignore_errors=True)  # the supervisor was killed
        logging.shutdown()  # waits until the log is written
        # sys.exit is not used, because it would run the exit handlers of the supervisor.
        os._exit(code)


def _make_folder() -> tuple[Path, int]:
    """Create the folder for the sockets of the workers. Return its path, and a descriptor by which the workers name it:
    the path of a socket can have at most 107 bytes. Raises UsageError if no temporary folder can be written."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="feedproxy-"))
        return folder, os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reason = f"{error.strerror or error}; the environment variable TMPDIR names the folder"
        raise UsageError(f"workers: the workers need a temporary folder for their sockets: {reason}") from error


def _mark_in_use(folder: Path) -> int:
    """Take a shared lock of the workers' folder, which lasts until this process ends. Return the locked descriptor."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _is_last_user(descriptor: int) -> bool:
    """Release the shared lock of the folder, and return True if no other worker holds it."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _bind(host: str, port: int, option: str, *, exclusive: bool) -> tuple[socket.socket, ...]:
    """Return sockets bound to each address of a host, at one port, which no other process can bind if `exclusive` is
    true. Raises CannotListen, with the name `option` in its message, if an address cannot be bound."""
    try:
        return tuple(bind_sockets(host, port, reuse_port=not exclusive))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        failure = f"{'admin: ' if option == 'admin' else ''}cannot listen on {uri.join_host_port(host, port)}: {reason}"
        raise CannotListen(f"{failure} (--{option} HOST:PORT names another address)") from error


def _bind_again(addresses: "Sequence[Place]") -> tuple[socket.socket, ...]:
    return tuple(bind_socket(family, address, reuse_port=True) for family, address in addresses)


def _close(sockets: Iterable[socket.socket]) -> None:
    for closing in sockets:
        closing.close()


def _exit_status(pid: int) -> int | None:
    """Return the exit status of a child process, None while it runs, or 0 if there is no such child."""
    try:
        exited_pid, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return status if exited_pid else None


def _describe_exit(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else f"exited with status {code}"
