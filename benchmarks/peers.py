"""The compared servers: feedproxy as `feedproxy serve` runs it, and its peers, each as a careful operator would
configure it.

All have equal terms: one worker, reverse mode in front of the same origin, and enough memory (nginx: page cache) for
all requested feeds. Each writes its usual request log, in blocks if possible (Varnish: in shared memory).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from benchmarks import feed
from benchmarks.load import pinned, split_cpus
from benchmarks.rows import Row
from conformance.caches import PATH, ConfigTemplate
from conformance.process import free_port, started

HERE = Path(__file__).parent
ROOT = HERE.parent
MEMORY = 2 * 1024**3
GROUPS = ("nginx", "Varnish", "Squid", "HAProxy", "H2O")
"""The peers in the columns of the table. The better of a peer's variants counts."""


@dataclass(frozen=True, slots=True)
class Place:
    """The resources of a server: a folder of its own, its ports, the origin's port, a certificate and its key.

    `workers` is the number of processes that should answer, if the server supports it.
    """

    folder: Path
    port: int
    tls_port: int
    origin: int
    certificate: Path
    key: Path
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer. `command` writes its configuration into its folder, and returns the command that runs it in the
    foreground.

    `check` gets the command that runs the server, and returns the command that checks its configuration.
    """

    name: str
    group: str
    program: str
    command: Callable[[str, Place], list[str]]
    check: Callable[[list[str]], list[str]]
    tls: bool = False
    caches: bool = True
    """False for a server that passes each request on, so that only its misses are measured."""

    @property
    def path(self) -> str | None:
        """Return the path of the program, or None if it is not installed."""
        return shutil.which(self.program, path=PATH)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    name: str
    group: str
    pid: int
    port: int
    tls_port: int | None = None
    tls_pid: int | None = None
    """The process that listens on the TLS port, or None if it is the process `pid`."""
    caches: bool = True

    def takes_part(self, row: Row) -> bool:
        """Return whether this row is measured with this server."""
        return (self.caches or row.miss) and (not row.tls or self.tls_port is not None)

    def url(self, path: str, tls: bool = False) -> str:
        """Return the URL of a path at this server."""
        return f"https://127.0.0.1:{self.tls_port}{path}" if tls else f"http://127.0.0.1:{self.port}{path}"


def _write(place: Place, template: str, **values: str) -> Path:
    place.folder.mkdir(exist_ok=True)
    # Started as root, most peers change to another user.
    place.folder.chmod(0o777)
    values |= {each.name: str(getattr(place, each.name)) for each in fields(place)}
    values["as_root"] = "" if os.geteuid() == 0 else "# "
    text = (HERE / "conf" / template).read_text(encoding="utf-8")
    target = place.folder / template
    target.write_text(ConfigTemplate(text).substitute(values), encoding="utf-8")
    return target


def _nginx(program: str, place: Place) -> list[str]:
    conf = _write(place, "nginx.conf", plain="", tuned="# ", deferred="")
    return [program, "-p", str(place.folder), "-e", "stderr", "-c", str(conf)]


def _nginx_tuned(program: str, place: Place) -> list[str]:
    conf = _write(place, "nginx.conf", plain="# ", tuned="", deferred="deferred")
    return [program, "-p", str(place.folder), "-e", "stderr", "-c", str(conf)]


def _varnish(program: str, place: Place) -> list[str]:
    vcl = _write(place, "varnish.vcl")
    listen = ("-a", f"127.0.0.1:{place.port}", "-T", "none")
    work = str(place.folder / "work")
    return [program, "-F", *listen, "-f", str(vcl), "-n", work, "-s", f"malloc,{MEMORY}"]


def _varnish_both(program: str, place: Place) -> list[str]:
    """Return the command of a Varnish that stores the origin's response in each coding. By default, it would store gzip
    alone and decode it for clients without gzip."""
    return [*_varnish(program, place), "-p", "http_gzip_support=off"]


def _squid(program: str, place: Place) -> list[str]:
    # Each Squid needs a name of its own, because Squids with equal names share memory.
    return [program, "-N", "-n", f"bench{place.port}", "-f", str(_write(place, "squid.conf"))]


def _haproxy(program: str, place: Place) -> list[str]:
    return [program, "-db", "-f", str(_write(place, "haproxy.cfg"))]


def _h2o(program: str, place: Place) -> list[str]:
    return [program, "-c", str(_write(place, "h2o.conf"))]


def _tested(command: list[str]) -> list[str]:
    return [*command, "-t"]


def _compiled(command: list[str]) -> list[str]:
    return [command[0], "-C", *command[2:]]


def _parsed(command: list[str]) -> list[str]:
    return [command[0], "-k", "parse", *command[2:]]


def _checked(command: list[str]) -> list[str]:
    return [*command, "-c"]


NGINX = Peer("nginx", "nginx", "nginx", _nginx, _tested, tls=True)
PEERS = (
    NGINX,
    Peer("nginx tuned", "nginx", "nginx", _nginx_tuned, _tested, tls=True),
    Peer("Varnish", "Varnish", "varnishd", _varnish, _compiled),
    Peer("Varnish, both codings", "Varnish", "varnishd", _varnish_both, _compiled),
    Peer("Squid", "Squid", "squid", _squid, _parsed),
    Peer("HAProxy", "HAProxy", "haproxy", _haproxy, _checked),
    Peer("H2O", "H2O", "h2o", _h2o, _tested, caches=False),
)


def feedproxy_command(place: Place, *more: str, module: str = "feedproxy.cli") -> list[str]:
    """Return the command of feedproxy as a user runs it, in front of the origin."""
    place.folder.mkdir(exist_ok=True)
    return [
        *(sys.executable, "-m", module, "serve", "--upstream", f"http://127.0.0.1:{place.origin}"),
        *("--public-url", f"http://{feed.HOST}/", "--listen", f"127.0.0.1:{place.port}"),
        *("--admin", f"127.0.0.1:{free_port()}", "--store", str(place.folder / "store")),
        *("--set", f"confdir={place.folder / 'ca'}", "--set", f"memory_max={MEMORY}"),
        # The origin belongs to the same operator: no intervals are needed.
        *("--set", "site_interval=0", "--set", "feed_min_interval=0"),
        *more,
    ]


class Stage:
    """The origin and the servers on one machine. Each is a process of its own, which ends with this object."""

    def __init__(self, folder: Path, server_cpus: set[int] | None, other_cpus: set[int] | None) -> None:
        self.folder = folder
        folder.chmod(0o755)
        self.server_cpus = server_cpus
        self.other_cpus = other_cpus
        self._stack = ExitStack()
        self.certificate, self.key = make_certificate(folder)
        self.origin = free_port()

    def __enter__(self) -> "Stage":
        command = [sys.executable, "-m", "benchmarks.origin", str(self.origin)]
        self._start(command, self.origin, "origin", self.other_cpus)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """End the servers that were started in a `with` block when the block ends."""
        outer, self._stack = self._stack, ExitStack()
        try:
            with self._stack:
                yield
        finally:
            self._stack = outer

    def place(self, name: str) -> Place:
        """Return an empty folder and free ports for a server of this name."""
        folder = self.folder / name.replace(" ", "-").replace(",", "").lower()
        return Place(folder, free_port(), free_port(), self.origin, self.certificate, self.key)

    def peer(self, peer: Peer, *, workers: int = 1, free: bool = False) -> Server:
        """Start a peer, on any CPU if `free`. Raises DidNotStart."""
        place = replace(self.place(peer.name), workers=workers)
        command = peer.command(peer.path or peer.program, place)
        pid = self._start(command, place.port, peer.name, None if free else self.server_cpus)
        tls_port = place.tls_port if peer.tls else None
        return Server(peer.name, peer.group, pid, place.port, tls_port, caches=peer.caches)

    def feedproxy(
        self, *more: str, name: str = "feedproxy", free: bool = False, module: str = "feedproxy.cli"
    ) -> Server:
        """Start feedproxy with these options, on any CPU if `free`. `module` is run instead of the command line. Raises
        DidNotStart."""
        place = self.place(name)
        command = feedproxy_command(place, *more, module=module)
        pid = self._start(command, place.port, name, None if free else self.server_cpus)
        return Server(name, "feedproxy", pid, place.port)

    def with_tls(self, server: Server) -> Server:
        """Start a second feedproxy that listens with TLS. Return `server` with the port and the process of the second.
        Raises DidNotStart."""
        certificate = ("--set", f"tls_certificate={self.certificate}", "--set", f"tls_key={self.key}")
        second = self.feedproxy(*certificate, name=f"{server.name} with TLS")
        return replace(server, tls_port=second.port, tls_pid=second.pid)

    def _start(self, command: Sequence[str], port: int, name: str, cpus: set[int] | None) -> int:
        log = self.folder / f"{name}.log"
        with pinned(cpus):
            process = self._stack.enter_context(started(command, port, log=log, cwd=ROOT))
        return process.pid


@contextmanager
def a_stage() -> Iterator[Stage]:
    """Yield a stage in a temporary folder. Servers and load run on different CPUs."""
    with tempfile.TemporaryDirectory(prefix="feedproxy-bench-") as folder, Stage(Path(folder), *split_cpus()) as stage:
        yield stage


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Return a certificate for loopback and its key (ECDSA, P-256), made by openssl."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(key)]
    command = ["openssl", "req", "-x509", *new, "-out", str(certificate), "-subj", f"/CN={feed.HOST}", "-days", "30"]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    key.chmod(0o644)
    return certificate, key
