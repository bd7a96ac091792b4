"""The product as a separate process, and a simple HTTP client that shows every detail."""

import os
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPMessage, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from tests.live.forked import Forked, authority_folder, nurseries
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "feedproxy.cli"]
MITMDUMP = [str(Path(sys.executable).with_name("mitmdump"))]
_OF_THE_START = ("LD_PRELOAD",)
"""Variables that affect the start of the interpreter. With one of them, the product is executed instead of forked."""

LISTENS = re.compile(r"feedproxy listens on (http://\S+)")


def clean_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without variables that affect a client or the product."""
    of_python = ("pythonpath", "pythonhome", "pythonunbuffered")
    dropped = (*of_python, "_proxy", "home", "ssl_cert_file", "curl_ca_bundle", "no_color")
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith(dropped)}
    return {**kept, "LC_ALL": "C.UTF-8", **more}


def product_environment(home: Path) -> dict[str, str]:
    """Return that environment for the product, with the import path of the tests if needed.

    The system's authorities, which each start would read for 20 ms, verify no origin of a test.
    """
    found = os.environ.get("PYTHONPATH")
    return clean_environment(HOME=str(home), SSL_CERT_FILE=os.devnull, **({"PYTHONPATH": found} if found else {}))


def _program_of(command: list[str]) -> tuple[str, list[str]] | None:
    """Return the program of a command that can be forked, and its arguments."""
    for program, start in (("feedproxy", COMMAND), ("mitmdump", MITMDUMP)):
        if command[: len(start)] == start:
            return program, command[len(start) :]
    return None


def copy_authority(confdir: Path) -> None:
    """Make the folder of an authority that exists, unless there is one."""
    if not confdir.exists():
        shutil.copytree(authority_folder().name, confdir)


class Process:
    """A running program: its output lines, and its end by its own pid."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        environment: dict[str, str] | None = None,
        *,
        passed: Sequence[int] = (),
        has_product: bool = False,
    ) -> None:
        """Start the command. With `has_product`, mitmdump has imported feedproxy already."""
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"log-{time.monotonic_ns()}"
        self._log = self.log.open("wb")
        environment = environment or product_environment(folder)
        self.process: subprocess.Popen[str] | Forked
        if not any(name in environment for name in _OF_THE_START) and (found := _program_of(command)):
            program, arguments = found
            nursery = nurseries["feedproxy" if has_product else program]
            self.process = nursery.start(arguments, environment, folder, self._log, passed, program)
        else:
            assert not passed, "only a forked process inherits sockets"
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment,
                cwd=folder,
                text=True,
            )
        self.printed: list[str] = []
        """All lines that came on standard output until now."""
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def line(self, pattern: re.Pattern[str], *, deadline: float = PATIENCE) -> re.Match[str]:
        """Wait for a line on standard output."""
        end = time.monotonic() + deadline
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line like {pattern.pattern} in time; the log: {self.said}") from None
            assert line is not None, f"it ended with {self.process.wait(PATIENCE)}; the log: {self.said}"
            if found := pattern.search(line):
                return found

    def rest(self, *, deadline: float = PATIENCE) -> str:
        """Return the remaining standard output after the end. `deadline` is for each line."""
        return "".join(iter(lambda: self._lines.get(timeout=deadline) or "", ""))

    def ended_before(self, pattern: re.Pattern[str], *, deadline: float = PATIENCE) -> int | None:
        """Return the exit code, or None if the program printed such a line and is running."""
        try:
            while (line := self._lines.get(timeout=deadline)) is not None:
                if pattern.search(line):
                    return None
        except queue.Empty:
            raise AssertionError(f"neither an end nor {pattern.pattern} in time; the log: {self.said}") from None
        return self.wait()

    @property
    def said(self) -> str:
        """Return all standard error output."""
        return self.log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self.process.pid

    def terminate(self, *, deadline: float = PATIENCE) -> int:
        """Send SIGTERM and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(deadline=deadline)

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def wait(self, *, deadline: float = PATIENCE) -> int:
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE)
            raise AssertionError(f"it did not end in time; the log: {self.said}") from None
        finally:
            self._log.close()


def run(
    command: list[str], folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of the product to its end, in this folder."""
    process = Process(command, folder, environment)
    printed = process.rest()
    return subprocess.CompletedProcess(command, process.wait(), printed, process.said)


class Feedproxy(Process):
    """`feedproxy serve` on a free port. `options` are passed by --set."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        store: Path | None = None,
        allow_private: bool = True,
        authority: Path | None = None,
        **options: object,
    ) -> None:
        self.folder = folder
        self.store = store or folder / "store"
        self.confdir = folder / "conf"
        copy_authority(self.confdir)
        command = [*COMMAND, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", str(self.store)]
        if allow_private:
            command.append("--allow-private")
        settings: dict[str, object] = {"confdir": self.confdir, "site_interval": 0, "feed_min_interval": 0}
        if authority is not None:
            settings["ssl_verify_upstream_trusted_ca"] = authority
        for name, value in {**settings, **options}.items():
            command += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        super().__init__([*command, *arguments], folder)
        self.base = self.line(LISTENS)[1]
        self.address = (urlsplit(self.base).hostname or "", urlsplit(self.base).port or 0)

    def gateway(self, target: str, *, slashes: str = "//") -> str:
        """Return the gateway address of a target."""
        return f"{self.base}/{target.replace('://', ':' + slashes, 1)}"

    @property
    def authority(self) -> Path:
        """Return the certificate that readers must trust for intercepted hosts."""
        return self.confdir / "mitmproxy-ca-cert.pem"

    def get(self, url: str, **fields: str) -> "Seen":
        """Send a GET for a target through the gateway."""
        return ask(self.gateway(url), fields=fields)


@dataclass(frozen=True)
class Seen:
    """A response as received."""

    status: int
    fields: HTTPMessage
    body: bytes

    @property
    def cache(self) -> str:
        """Value of Cache-Status."""
        return ", ".join(self.fields.get_all("Cache-Status", []))


def ask(
    url: str,
    method: str = "GET",
    *,
    fields: dict[str, str] | None = None,
    body: bytes | None = None,
    through: tuple[str, int] | None = None,
    context: ssl.SSLContext | None = None,
    deadline: float = PATIENCE,
) -> Seen:
    """Send one request on its own connection.

    Names of fields have underscores instead of hyphens. With `through`, it is sent to that proxy in absolute-form.
    Nothing is followed, decoded or retried.
    """
    split = urlsplit(url)
    default = 443 if split.scheme == "https" else 80
    address = through or (split.hostname or "", split.port or default)
    path = url if through else (split.path or "/") + (f"?{split.query}" if split.query else "")
    lines = {"Host": split.netloc, "Connection": "close"}
    if body is not None:
        lines["Content-Length"] = str(len(body))
    lines |= {name.replace("_", "-").title(): value for name, value in (fields or {}).items()}
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection(address, timeout=deadline) as plain:
        wire = context.wrap_socket(plain, server_hostname=split.hostname) if context else plain
        wire.sendall(head.encode("latin-1") + b"\r\n" + (body or b""))
        return read_answer(wire, method)


def raw(address: tuple[str, int], message: bytes, method: str = "GET", *, deadline: float = PATIENCE) -> Seen:
    """Send exactly these bytes and return the response."""
    with socket.create_connection(address, timeout=deadline) as wire:
        wire.sendall(message)
        return read_answer(wire, method)


def read_answer(wire: socket.socket, method: str = "GET") -> Seen:
    """Return the next response on this connection."""
    answer = HTTPResponse(wire, method=method)
    answer.begin()
    return Seen(answer.status, answer.msg, answer.read())
