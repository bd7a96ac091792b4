"""feedproxy and mitmdump, forked from processes that have imported them already.

A start costs a fifth of a second of processor time then instead of one and a half. The process is a real one in every
other way: its own pid, environment, folder, standard streams, inherited sockets and signals. What depends on how the
interpreter itself is started (preloaded libraries) is started by exec, as `Process` decides.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from mitmproxy import certs
from mitmproxy.options import CONF_BASENAME

from tests import cheap_mitmproxy, local_names

ROOT = Path(__file__).resolve().parents[2]
MESSAGE_MAX = 200_000
LIBRARIES = (
    "aiohttp.web",
    "argon2",
    "defusedxml.ElementTree",
    "diskcache",
    "lxml.etree",
    "msgspec",
    "nh3",
    "prometheus_client",
    "publicsuffixlist",
    "xmlrpc.client",
    "zlib_ng.zlib_ng",
)
"""Libraries of feedproxy that mitmdump does not import."""
PASSED_MAX = 8
"""Number of descriptors that a process can inherit."""


class Forked:
    """A process of a `Nursery`, with the methods of Popen that the tests use."""

    def __init__(self, pid: int, command: list[str], stdout: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._command = command
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        """Record the exit code."""
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self._command, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that has imported a program. It starts with the first `start`, and ends with the tests."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        self._begun = threading.Condition()
        self._pids: list[int] = []
        self._codes: dict[int, int] = {}
        self._processes: dict[int, Forked] = {}

    def start(
        self,
        arguments: list[str],
        environment: dict[str, str],
        folder: Path,
        stderr: IO[bytes],
        passed: Sequence[int] = (),
        program: str | None = None,
    ) -> Forked:
        """Start the program with these arguments. It inherits the descriptors `passed` from 3 on, as from systemd.

        The process of feedproxy can also start the other `program`.
        """
        with self._lock:
            control = self._control or self._open()
            ours, theirs = os.pipe()
            try:
                order = json.dumps([program or self._program, arguments, environment, str(folder)]).encode()
                assert len(order) < MESSAGE_MAX
                socket.send_fds(control, [order], [theirs, stderr.fileno(), *passed])
            finally:
                os.close(theirs)
            with self._begun:
                assert self._begun.wait_for(lambda: self._pids, 60), "the nursery is silent"
                pid = self._pids.pop()
                process = Forked(pid, [program or self._program, *arguments], os.fdopen(ours))
                if pid in self._codes:
                    process.end(self._codes.pop(pid))
                else:
                    self._processes[pid] = process
            return process

    def _open(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (ours, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_MAX)
        run = "from tests.live.forked import main; import sys; main(int(sys.argv[1]), *sys.argv[2:])"
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-P", "-c", run, str(theirs.fileno()), authority_folder().name, self._program]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        subprocess.Popen(command, pass_fds=(theirs.fileno(),), env={**environment, "PYTHONPATH": path})
        theirs.close()
        self._control = ours
        threading.Thread(target=self._listen, args=(ours,), daemon=True).start()
        return ours

    def _listen(self, control: socket.socket) -> None:
        while message := control.recv(64):
            what, pid, code = message.decode().split()
            with self._begun:
                if what == "began":
                    self._pids.append(int(pid))
                    self._begun.notify_all()
                elif (process := self._processes.pop(int(pid), None)) is not None:
                    process.end(int(code))
                else:
                    self._codes[int(pid)] = int(code)


nurseries = {program: Nursery(program) for program in ("feedproxy", "mitmdump")}


@functools.cache
def authority_folder() -> tempfile.TemporaryDirectory[str]:
    """Create mitmproxy's authority once, because its keys take half of a start's time."""
    folder = tempfile.TemporaryDirectory()
    certs.CertStore.from_store(folder.name, CONF_BASENAME, 2048)
    return folder


def main(descriptor: int, authority: str, program: str) -> None:
    """Fork a process for every order until the tests end."""
    runs = {"mitmdump": import_mitmdump()}
    if program == "feedproxy":
        runs["feedproxy"] = import_feedproxy()
    local_names.look_up_local_names_only()
    cheap_mitmproxy.cheapen_options_and_keys()
    if program == "feedproxy":
        cheap_mitmproxy.ignore_commands()
    store = certs.CertStore.from_store(authority, CONF_BASENAME, 2048)
    made = store.default_privatekey, store.default_ca.to_cryptography()
    # A process that finds no authority writes a copy of this one.
    setattr(certs, "create_ca", lambda **_: made)  # noqa: B010 -- mypy knows a function with three parameters
    # No collection of a forked process scans existing objects, because that would copy every memory page.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as control:
        order = _served(control)
    if order is not None:
        sys.argv = order
        try:
            code: Any = runs[order[0]](order[1:])
        except SystemExit as ended:
            code = ended.code
        _end(code)


def _end(code: Any) -> None:
    """Exit like `sys.exit`, but without freeing all modules.

    That takes a tenth of a second, a third of the time of a start and an end, because it copies every memory page.
    Threads are joined, exit functions are called, and unreachable objects are freed. `test_process.py` shows that an
    executed process prints nothing when its modules are freed.
    """
    if not isinstance(code, int | None):
        sys.exit(code)  # it prints a text
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit((code or 0) & 0xFF)


def import_feedproxy() -> Callable[[list[str]], int | None]:
    """Return the command, with all that its processes would import and compute each."""
    import feedproxy.cli
    from feedproxy.http.target_uri.registrable_domain import site_of_host
    from feedproxy.process import proxy_process, supervisor  # noqa: F401
    from feedproxy.server.fastpath import mitmproxy_compatibility, mitmproxy_modes  # noqa: F401
    from feedproxy.web import templates

    feedproxy.cli.make_parser()
    templates.make_ready()
    site_of_host("www.example")
    mitmproxy_compatibility.find_missing()
    _fork_templates()
    return feedproxy.cli.main


class _Template:
    """A process forked before the proxy has threads, which becomes the template of its helper processes on request.

    A template that is started by exec imports for half a second what this process has. Like that template, it is a
    child of the proxy and has no descriptors of it.
    """

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            try:
                self._wait(parent, theirs.detach())
            finally:
                os._exit(1)
        theirs.close()

    @staticmethod
    def _wait(parent: int, control: int) -> None:
        from feedproxy.refresh.ingest import helper_process

        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        os.dup2(control, 3)
        os.closerange(4, 1024)
        with socket.socket(fileno=3) as order:
            message, descriptors, _, _ = socket.recv_fds(order, 1000, 1)
        if descriptors:
            helper_process.main(descriptors[0], parent, *json.loads(message))
        os._exit(0)

    def begin(self, descriptor: int, *limits: float) -> None:
        """Run the template with this socket and these limits."""
        with self._control:
            socket.send_fds(self._control, [json.dumps(limits).encode()], [descriptor])

    def discard(self) -> None:
        """End the process if it is not a template."""
        if self._control.fileno() >= 0:
            self._control.close()
            self.wait()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        os.waitpid(self.pid, 0)


def _fork_templates() -> None:
    """Let each proxy fork its first template. Further ones are started by exec, as usual."""
    from feedproxy.process import proxy_process
    from feedproxy.refresh.ingest import helper_pool

    run, start = proxy_process.serve, helper_pool._start_template
    forked: list[_Template] = []

    async def serve_with_template(*arguments: Any, **named: Any) -> Any:
        forked.append(template := _Template())
        try:
            return await run(*arguments, **named)
        finally:
            forked.clear()
            template.discard()

    def start_template(descriptor: int, limits: Any) -> Any:
        if not forked:
            return start(descriptor, limits)
        template = forked.pop()
        template.begin(descriptor, limits.cpu, limits.memory)
        return template

    proxy_process.serve = serve_with_template
    helper_pool._start_template = start_template


def import_mitmdump() -> Callable[[list[str]], int | None]:
    """Return mitmdump with the libraries of feedproxy, which take two fifths of the time of importing its scripts.

    In the process of mitmdump, each forked process imports feedproxy itself.
    """
    from mitmproxy.tools.main import mitmdump

    for name in LIBRARIES:
        with contextlib.suppress(ImportError):  # feedproxy can do without zlib-ng
            importlib.import_module(name)
    return mitmdump


def _served(control: socket.socket) -> list[str] | None:
    """Serve orders. Return the program and its arguments in each forked process, and None at the end of the tests."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        watched: list[socket.socket | int] = [control, told]
        ready, _, _ = select.select(watched, [], [])
        if told in ready:
            os.read(told, 4096)
            _tell_ends(control)
        if control not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_MAX, 2 + PASSED_MAX)
        if not message:
            return None
        if pid := os.fork():
            control.send(b"began %d 0" % pid)
            for each in descriptors:
                os.close(each)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.detach()
        return _settled(json.loads(message), descriptors)


def _settled(order: Any, descriptors: list[int]) -> list[str]:
    """Apply the order's streams, environment and folder to this process, and return its program and arguments."""
    program, command, environment, folder = order
    with open(os.devnull, "rb") as nothing:
        for number, each in enumerate((nothing.fileno(), *descriptors)):
            os.dup2(each, number)
    os.closerange(1 + len(descriptors), 1024)
    os.environ.clear()
    os.environ.update(environment)
    if passed := len(descriptors) - 2:
        os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(passed)}
    # Only at its start, the interpreter reads this variable and looks whether the output is a file. `main` was started
    # without the variable, and perhaps with a file.
    sys.stdout = open(1, "w", buffering=1 if "PYTHONUNBUFFERED" in environment else -1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    random.seed()  # otherwise all processes would have the same random numbers
    return [program, *command]


def _tell_ends(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        control.send(b"ended %d %d" % (pid, os.waitstatus_to_exitcode(status)))
