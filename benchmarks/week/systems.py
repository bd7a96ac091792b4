"""The systems of the week: no cache, the peers in the configuration of a good operator, and feedproxy."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.week.host import Host
from benchmarks.week.model import Feed
from benchmarks.week.page import Page
from benchmarks.week.play import ROW
from benchmarks.week.wire import Received

HERE = Path(__file__).parent
SYSTEM_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
DEFAULT_TTL = 600
"""Seconds for which the peers store a response that states no lifetime."""


def clock_of(page: Page, folder: Path) -> dict[str, str] | None:
    """Return the environment in which a program uses the page's time, or None without a C compiler."""
    if shutil.which("cc") is None:
        return None
    library = folder / "clock.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "clock.c"), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return {"LD_PRELOAD": str(library), "WEEK_CLOCK": str(page.path), "TZ": "UTC"}


class Nothing:
    """No cache: the readers send their requests to the origin."""

    name = "nothing"
    row = ROW

    def __init__(self, port: int, page: Page, start: float) -> None:
        self.port, self._page, self._start = port, page, start

    def settle(self, at: float) -> None:
        """Set the time. There is no work in the background."""
        self._page.now = self._start + at

    def answered_from_store(self, received: Received, feed: int) -> bool:
        return False


class Peer:
    """A peer: another cache, in a process of its own."""

    def __init__(self, name: str, port: int, page: Page, start: float) -> None:
        self.name, self.port, self._page, self._start = name, port, page, start
        self.row = 1 if name == "Squid" else ROW  # with more, Squid requests several feeds from the origin at once
        self._stale: set[int] = set()
        """The feeds that the peer will request from the origin in the background."""
        self._waited = 0
        self._asked = 0

    def settle(self, at: float) -> None:
        """Wait until the peer has finished its requests in the background, and set the time."""
        page = self._page
        if self._stale:
            # The peer answers the client first, and then requests the feed from the origin.
            until, expected = time.monotonic() + 0.25, self._asked + self._waited + len(self._stale)
            while (page.begun < expected or page.ended < page.begun) and time.monotonic() < until:
                time.sleep(0.00005)
            time.sleep(0.0002)
            self._stale.clear()
        self._waited = 0
        self._asked = page.begun
        page.now = self._start + at

    def answered_from_store(self, received: Received, feed: int) -> bool:
        if self.name == "Squid":
            # Squid also reports a HIT for a response that it has just validated. It makes no requests in the
            # background.
            before, self._asked = self._asked, self._page.begun
            return self._asked == before
        said = received.fields.get(b"x-cache", b"")
        if said == b"STALE":
            self._stale.add(feed)
        stored = said in (b"HIT", b"UPDATING", b"STALE")
        self._waited += not stored
        return stored


PROGRAMS = {"nginx": "nginx", "Varnish": "varnishd", "Squid": "squid"}


def installed(name: str) -> str | None:
    """Return the path of a peer's program, or None if it is not installed."""
    return shutil.which(PROGRAMS[name], path=SYSTEM_PATH)


@contextmanager
def peer(
    name: str, origin: int, clock: dict[str, str], page: Page, start: float, folder: Path, fixed: int | None
) -> Iterator[Peer]:
    """Run a peer in front of the origin's port. With `fixed`, it stores every response for this number of seconds.

    Raises RuntimeError if the peer does not start.
    """
    port = _free_port()
    process, log = _begun(name, port, origin, clock, folder, fixed)
    try:
        if not _listens(port, process):
            raise RuntimeError(f"{name} did not start: {_end_of(log)}")
        yield Peer(name, port, page, start)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _begun(
    name: str, port: int, origin: int, clock: dict[str, str], folder: Path, fixed: int | None
) -> tuple[subprocess.Popen[bytes], Path]:
    place = Path(tempfile.mkdtemp(prefix=f"{name.lower()}-", dir=folder))
    place.chmod(0o777)
    ttl = fixed or DEFAULT_TTL
    values = {
        "folder": place,
        "port": port,
        "origin": origin,
        "ttl": ttl,
        "minutes": ttl // 60,
        # These values comment out the lines for the other case.
        "obey": "# " if fixed else "",
        "fixed": "" if fixed else "# ",
        "as_root": "" if os.geteuid() == 0 else "# ",
    }
    template = {"nginx": "nginx.conf", "Varnish": "varnish.vcl", "Squid": "squid.conf"}[name]
    text = (HERE / "conf" / template).read_text(encoding="utf-8")
    conf = place / template
    conf.write_text(_Conf(text).substitute(values), encoding="utf-8")
    program = installed(name) or PROGRAMS[name]
    command = {
        "nginx": [program, "-p", str(place), "-e", "stderr", "-c", str(conf)],
        "Varnish": [
            *(program, "-F", "-j", "none", "-a", f"127.0.0.1:{port}", "-T", "none", "-n", str(place / "work")),
            *("-f", str(conf), "-s", "malloc,4G", "-p", f"default_ttl={ttl}"),
            # By the play's clock, every connection is idle for long.
            *("-p", "timeout_idle=3600", "-p", "backend_idle_timeout=3600"),
        ],
        # Squid names its shared memory after this name, so that each instance needs another one.
        "Squid": [program, "-N", "-n", f"week{port}", "-f", str(conf)],
    }[name]
    log = place / "log"
    with log.open("wb") as out:
        environment = {**os.environ, **clock}
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=place), log


class _Conf(Template):
    """A template with placeholders `@{name}`, because nginx and VCL use the dollar sign themselves."""

    delimiter = "@"


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.05)
    return False


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-800:]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Feedproxy:
    """feedproxy, which also refreshes feeds by its schedule."""

    row = ROW

    def __init__(self, name: str, host: Host, page: Page, start: float) -> None:
        self.name, self.host, self.port = name, host, host.port
        self._page, self._start = page, start
        self._plain = False

    def settle(self, at: float) -> None:
        """Advance the time, and let feedproxy do the work that is due before it, each piece at its own instant."""
        moment = self._start + at
        if self._plain and self._page.wakes > moment:
            self._page.now = moment
        else:
            self.host.settle(moment)
        self._plain = True

    def answered_from_store(self, received: Received, feed: int) -> bool:
        said = received.fields.get(b"cache-status", b"").rpartition(b",")[2]
        words = [word.strip() for word in said.split(b";")]
        # A hit with a detail may have started a refresh.
        self._plain = self._plain and b"hit" in words and b"detail" not in said
        return b"hit" in words or not any(word.startswith(b"fwd") for word in words)


@contextmanager
def feedproxy(
    name: str, origin: int, feeds: Sequence[Feed], page: Page, start: float, folder: Path, options: dict[str, Any]
) -> Iterator[Feedproxy]:
    """Run a complete feedproxy in front of the origin's port, in reverse mode."""
    given = {
        "listen_host": "127.0.0.1",
        "listen_port": 0,
        "admin": "",
        "store": "memory:",
        "memory_max": 4 * 1024**3,
        "confdir": str(folder),
        "log_format": "off",
        "allow_private": True,
        "trusted_proxies": ["127.0.0.1"],
        "upstream": f"http://127.0.0.1:{origin}",
        "public_url": "http://origin.test/",
    }
    host = Host(feeds, start, page, {**given, **options})
    try:
        yield Feedproxy(name, host, page, start)
    finally:
        host.close()
