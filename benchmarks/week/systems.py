"""What the week is played through: nothing, the peers as a good operator has them, and feedproxy."""

import asyncio
import contextlib
import heapq
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.week.model import Feed
from benchmarks.week.origin import Origin, is_skipped
from benchmarks.week.wire import Received
from feedproxy.clock import ManualClock
from feedproxy.report.metrics import Metrics
from feedproxy.serve import Plan, make_master

HERE = Path(__file__).parent
SYSTEM_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
DEFAULT_TTL = 600
"""Seconds that the peers keep what says nothing of its freshness."""


class WallClock:
    """The clock of the peers: a file that clock.c reads, moved by the play."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clock"
        self.path.write_bytes(bytes(8))
        self.path.chmod(0o644)
        self.library = folder / "clock.so"
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self.library), str(HERE / "clock.c"), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
        self._file = os.open(self.path, os.O_WRONLY)

    def set(self, instant: float) -> None:
        """Unix seconds."""
        os.pwrite(self._file, int(instant * 1e9).to_bytes(8, "little"), 0)

    @property
    def environment(self) -> dict[str, str]:
        """For a program that is to live by this clock."""
        return {"LD_PRELOAD": str(self.library), "WEEK_CLOCK": str(self.path), "TZ": "UTC"}


class Nothing:
    """Readers ask the origin itself."""

    name = "nothing"

    def __init__(self, port: int) -> None:
        self.port = port

    async def settle(self, at: float) -> None:
        """Nothing is done by itself."""

    def answered_from_store(self, received: Received) -> bool:
        return False


class Peer:
    """A cache of others, in a process of its own."""

    def __init__(self, name: str, port: int, origin: Origin) -> None:
        self.name, self.port, self._origin = name, port, origin
        self._stale = False
        self._asked = 0

    async def settle(self, at: float) -> None:
        """Let it finish what it does in the background before time goes on."""
        if self._stale:
            await asyncio.sleep(0.0005)
        while self._origin.active:  # noqa: ASYNC110 -- nobody tells when
            await asyncio.sleep(0)
        self._asked = self._origin.tally.requests

    def answered_from_store(self, received: Received) -> bool:
        if self.name == "Squid":
            # It says HIT of what it has just revalidated, too; and does nothing in the background.
            return self._origin.tally.requests == self._asked
        said = received.fields.get("x-cache", "")
        self._stale = said in ("STALE", "UPDATING")
        return said in ("HIT", "STALE", "UPDATING")


PROGRAMS = {"nginx": "nginx", "Varnish": "varnishd", "Squid": "squid"}


def installed(name: str) -> str | None:
    """The program of a peer."""
    return shutil.which(PROGRAMS[name], path=SYSTEM_PATH)


@asynccontextmanager
async def peer(name: str, origin: Origin, clock: WallClock, folder: Path, fixed: int | None) -> AsyncIterator[Peer]:
    """A peer that runs. With `fixed`, everything is kept for so many seconds, whatever the origin says.

    Raises RuntimeError where it does not start.
    """
    port = _free_port()
    process, log = _started(name, port, origin.port, clock, folder, fixed)
    try:
        if not await _listens(port, process):
            raise RuntimeError(f"{name} did not start: {_end_of(log)}")
        yield Peer(name, port, origin)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _started(
    name: str, port: int, origin: int, clock: WallClock, folder: Path, fixed: int | None
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
        # What comments out the lines of the other case.
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
        ],
        # A name of its own: Squid's shared memory is named after it.
        "Squid": [program, "-N", "-n", f"week{port}", "-f", str(conf)],
    }[name]
    log = place / "log"
    with log.open("wb") as out:
        environment = {**os.environ, **clock.environment}
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=place), log


class _Conf(Template):
    """`@{name}`: nginx and VCL have dollars of their own."""

    delimiter = "@"


async def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return True
        await asyncio.sleep(0.05)
    return False


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-800:]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class PlayClock(ManualClock):
    """A clock that knows whom it has to wake next."""

    def wakes_next(self, until: float) -> float | None:
        """The next moment up to `until` at which somebody is to be woken."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers and self._sleepers[0][0] <= until else None


class Watching(Metrics):
    """Counts what the schedule asks for, and what of it falls where the publisher wants to be left alone."""

    def __init__(self, feeds: list[Feed], clock: ManualClock, start: float) -> None:
        super().__init__()
        self._feeds, self._clock, self._start = feeds, clock, start
        self.ahead = 0
        self.in_skipped_hours = 0

    def scheduled(self, target: str) -> None:
        super().scheduled(target)
        self.ahead += 1
        feed = self._feeds[int(target.rsplit("/", 1)[1].removesuffix(".xml"))]
        self.in_skipped_hours += is_skipped(feed, self._clock.now() - self._start)


class Feedproxy:
    """feedproxy as `feedproxy serve` runs it, by the play's clock."""

    def __init__(self, name: str, port: int, clock: PlayClock, start: float, service: Any, metrics: Watching) -> None:
        self.name, self.port, self.clock, self.metrics = name, port, clock, metrics
        self._start, self._service = start, service

    async def settle(self, at: float) -> None:
        """What is due before this moment is done at its own."""
        await self._quiet()
        while (due := self.clock.wakes_next(self._start + at)) is not None:
            self.clock.advance(max(0.0, due - self.clock.now()))
            await self._quiet()
        self.clock.advance(max(0.0, self._start + at - self.clock.now()))

    async def _quiet(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)
        while self._service.under_way:  # noqa: ASYNC110 -- nobody tells when; its threads need the time
            await asyncio.sleep(0.0005)

    def answered_from_store(self, received: Received) -> bool:
        said = [word.strip() for word in received.fields.get("cache-status", "").split(";")]
        return "hit" in said or not any(word.startswith("fwd") for word in said)


@asynccontextmanager
async def feedproxy(
    name: str, origin: Origin, feeds: list[Feed], start: float, folder: Path, options: dict[str, Any]
) -> AsyncIterator[Feedproxy]:
    """A whole feedproxy in front of the origin, as its publisher or an office would have it."""
    clock = PlayClock(start)
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
        "upstream": f"http://127.0.0.1:{origin.port}",
        "public_url": "http://origin.test/",
    }
    made, here = make_master(Plan(options={**given, **options}), clock)
    here.metrics = metrics = Watching(feeds, clock, start)
    running = asyncio.ensure_future(made.run())
    try:
        server = made.addons.get("proxyserver")
        while not server.listen_addrs():
            if running.done():
                raise RuntimeError("feedproxy did not start")
            await asyncio.sleep(0.01)
        yield Feedproxy(name, server.listen_addrs()[0][1], clock, start, here.service, metrics)
    finally:
        made.shutdown()
        await running
