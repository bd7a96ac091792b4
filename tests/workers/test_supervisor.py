"""The supervisor of several workers goes on if the machine lacks what a worker needs to start."""

import errno
import io
import mmap
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedproxy.config.config_file import Config
from feedproxy.config.option_types import option_specs
from feedproxy.errors import UsageError
from feedproxy.feed_rules import Rule
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.process import proxy_process, supervisor
from feedproxy.process.option_sources import LoadedOptions, ServePlan
from feedproxy.process.supervisor import Supervisor, _WorkerSlot
from feedproxy.settings import Settings
from feedproxy.workers.worker_context import HEARTBEAT
from tests.waiting import PATIENCE

WORKERS = 2


@pytest.fixture
def supervising() -> Iterator[Supervisor]:
    """A supervisor of two workers that have exited, and are due to start again."""
    loaded = LoadedOptions(Config(), {})
    settings = Settings(workers=WORKERS, drain_timeout=1, store="memory:")
    options = proxy_process.WorkerOptions(settings, ("127.0.0.1", 0), None, {}, {}, loaded)
    supervising = Supervisor(ServePlan(), options, print)
    supervising._beats = mmap.mmap(-1, HEARTBEAT.size * WORKERS)
    supervising._workers = [
        _WorkerSlot(index, (socket.create_server(("127.0.0.1", 0)),), due=0.0) for index in range(WORKERS)
    ]
    supervising._lifeline = socket.socketpair()
    yield supervising
    supervisor._close(supervising._lifeline)
    for worker in supervising._workers:
        supervisor._close(worker.sockets)


def no_process() -> int:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_worker_for_which_no_process_is_left_is_started_later(
    supervising: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "fork", no_process)
    descriptors = len(os.listdir("/proc/self/fd"))
    supervising._check_workers([])
    assert "worker 0 cannot start (Resource temporarily unavailable), restarting at once" in caplog.text
    supervising._check_workers([])
    assert "restarting in 0.5 s" in caplog.text
    assert all(worker.due is not None and worker.due > time.monotonic() for worker in supervising._workers)
    assert len(os.listdir("/proc/self/fd")) == descriptors - WORKERS, "only the listening sockets are closed"


def test_worker_whose_port_another_program_has_taken_is_started_later(
    supervising: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    for worker in supervising._workers:
        supervisor._close(worker.sockets)
        worker.sockets = ()
    with socket.create_server(("127.0.0.1", 0)) as other:
        supervising._check_workers([(socket.AF_INET, other.getsockname())])
    assert caplog.text.count("cannot start (Address already in use), restarting at once") == WORKERS


def reload(supervising: Supervisor) -> None:
    supervising._start_reader()
    deadline = time.monotonic() + PATIENCE
    while not supervising._has_read():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_reload_with_an_error_keeps_the_options(supervising: Supervisor, tmp_path: Path) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text("drain_timeout: 30\nnonsense: 1\n")
    supervising.plan = ServePlan(config=str(file))
    supervising.options = before = replace(supervising.options, specs=option_specs())

    reload(supervising)

    assert supervising.options is before
    assert all(worker.missed_reload for worker in supervising._workers)


def test_end_of_the_supervisor_does_not_wait_until_the_configuration_is_read(
    supervising: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "read_again", lambda *_: time.sleep(PATIENCE))
    supervising._start_reader()
    assert supervising._reader is not None
    pid, _ = supervising._reader
    assert not supervising._has_read()

    assert supervising._end() == 0

    assert not Path(f"/proc/{pid}").exists()


def test_reload_for_which_no_process_is_left_is_tried_again(
    supervising: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervising._reload_requested = True
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", no_process)
        supervising._start_reader()
    assert supervising._reload_requested
    reload(supervising)
    assert not supervising._reload_requested


def test_reload_changes_the_time_in_which_workers_must_end(supervising: Supervisor, tmp_path: Path) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text(
        "drain_timeout: 30\nworkers: 9\nfeeds:\n- match: a.example\n  private: true\n"
    )
    supervising.plan = ServePlan(config=str(file))
    supervising.options = replace(supervising.options, specs=option_specs())

    reload(supervising)

    assert supervising.options.settings.drain_timeout == 30
    assert supervising.options.loaded.config.rules == (Rule(TargetPattern("a.example"), {"private": True}),)
    assert supervising.options.settings.workers == WORKERS


class FullDisk(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_worker_starts_again_although_standard_output_cannot_be_written(
    supervising: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = iter((101, 102))
    monkeypatch.setattr(os, "fork", lambda: next(pids))
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (0, 0))
    monkeypatch.setattr(sys, "stdout", FullDisk())
    supervising._check_workers([])
    assert [worker.pid for worker in supervising._workers] == [101, 102]


def test_reload_during_the_start_of_a_worker_reaches_it_when_it_is_ready(
    supervising: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (0, 0))
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))
    for worker in supervising._workers:
        worker.pid, worker.due = 101 + worker.index, None
    HEARTBEAT.pack_into(supervising._beats, 0, time.monotonic())

    monkeypatch.setattr(supervisor, "_exit_status", lambda _: 1)
    supervising._reader = 103, os.memfd_create("x")
    assert supervising._has_read()
    monkeypatch.setattr(supervisor, "_exit_status", lambda _: None)
    supervising._check_workers([])
    supervising._check_workers([])
    assert signals == [(101, signal.SIGHUP)]

    HEARTBEAT.pack_into(supervising._beats, HEARTBEAT.size, time.monotonic())
    supervising._check_workers([])
    supervising._check_workers([])
    assert signals == [(101, signal.SIGHUP), (102, signal.SIGHUP)]


def a_child(act: Callable[[], bool]) -> int:
    """Return the pid of a new process, which blocks the supervisor's signals as the supervisor does, and exits with 0
    if `act` returns True. It has no other thread, which would get the signals."""
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_BLOCK, supervisor._SIGNALS)
        os._exit(not act())
    return child


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, 1)])
def test_supervisor_exits_with_0_if_sigterm_ends_a_worker_during_its_start(
    supervising: Supervisor, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    for worker in supervising._workers:
        worker.pid, worker.due = 101 + worker.index, None
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (pid, number if pid == 102 else 0))

    assert supervising._end() == code


def test_supervisor_that_was_stopped_and_continued_takes_no_signal_for_another() -> None:
    """Python's sigtimedwait returns an arbitrary signal in this case, and the supervisor shut down."""
    timeout = 0.2

    child = a_child(lambda: supervisor.wait_for_signal(timeout) == signal.SIGALRM)
    while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        time.sleep(0.01)  # until it waits
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    time.sleep(timeout)
    os.kill(child, signal.SIGCONT)

    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD])
def test_supervisor_waits_for_a_signal_or_the_end_of_the_time(number: signal.Signals) -> None:
    def wait_twice() -> bool:
        signal.raise_signal(number)
        first = supervisor.wait_for_signal(PATIENCE)
        return first == number and supervisor.wait_for_signal(0) == signal.SIGALRM

    assert os.waitpid(a_child(wait_twice), 0)[1] == 0


def test_missing_temporary_folder_is_reported_with_the_variable_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

    with pytest.raises(UsageError, match=r"^workers: .* No such file or directory; .* TMPDIR "):
        supervisor._make_folder()
