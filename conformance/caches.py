"""The caches in front of the suite's origin: feedproxy in its usual form, and the installed peers.

A peer's configuration is a template in peers/, as its own manual suggests for a cache in front of one origin or, for
`proxy`, as an explicit proxy. No peer is tuned for the suite. feedproxy's option `shared_fields` names the suite's
fields, because feedproxy does not share a response to a request with unknown fields.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from conformance.process import free_port, started

ROOT = Path(__file__).parents[1].absolute()
PEERS = Path(__file__).with_name("peers")
REVERSE, PROXY = "reverse", "proxy"
BOTH, ONLY_REVERSE = frozenset({REVERSE, PROXY}), frozenset({REVERSE})
# Servers are installed in sbin, which is not in every user's path.
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"))


class ConfigTemplate(Template):
    """A template with placeholders `@{port}`, because some configuration languages use the dollar sign."""

    delimiter = "@"


@dataclass(frozen=True, slots=True)
class Place:
    """The resources of a cache: an empty folder, its port, the origin's port, and the entrance."""

    folder: Path
    port: int
    origin: int
    entrance: str


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache. `command` writes its configuration into its folder, and returns the command that runs it in the
    foreground."""

    name: str
    program: str
    version: Sequence[str]
    entrances: frozenset[str]
    command: Callable[[str, Place], Sequence[str]]

    @property
    def program_name(self) -> str:
        """Return the name without the options."""
        return self.name.partition(",")[0]

    @property
    def path(self) -> str | None:
        return shutil.which(self.program, path=PATH)

    def version_text(self) -> str:
        """Return the version number that the program reports."""
        command = [self.path or self.program, *self.version]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        found = re.search(r"\d+\.\d+(\.\d+)*", done.stdout + done.stderr)
        return found[0] if found else "?"

    @contextmanager
    def running(self, scratch: Path, origin: int, entrance: str) -> Iterator[str]:
        """Run the cache in front of the origin in this context. Yield its URL. Raises DidNotStart."""
        folder = scratch / self.program_name.replace(" ", "-").lower()
        folder.mkdir()
        # Started as root, most peers change to another user.
        folder.chmod(0o777)
        place = Place(folder, free_port(), origin, entrance)
        command = self.command(self.path or self.program, place)
        with started(command, place.port, log=folder / "output.log", cwd=ROOT):
            yield f"http://127.0.0.1:{place.port}"


def _write(place: Place, template: str, into: str = "") -> Path:
    target = place.folder / (into or template)
    values = {
        "folder": str(place.folder),
        "port": str(place.port),
        "origin": str(place.origin),
        "is_reverse": str(int(place.entrance == REVERSE)),
        "as_root": "" if os.geteuid() == 0 else "# ",
    }
    text = (PEERS / template).read_text(encoding="utf-8")
    target.write_text(ConfigTemplate(text).substitute(values), encoding="utf-8")
    return target


SHARED_FIELDS = ("test-id", "test-name", "req-num", "foo", "bar", "baz", "other", "authorization")
"""Fields of the suite's requests. If the response of the suite's origin depends on one of them, Vary names this
field."""


def feedproxy(workers: int = 1, options: Sequence[str] = ()) -> Cache:
    """Return feedproxy, optionally with options (`NAME=VALUE`), which its name then includes."""

    def command(program: str, place: Place) -> Sequence[str]:
        upstream = ["--upstream", f"http://127.0.0.1:{place.origin}"] if place.entrance == REVERSE else []
        return [
            *(program, "-m", "feedproxy.cli", "serve", "--allow-private", *upstream),
            *("--listen", f"127.0.0.1:{place.port}", "--admin", f"127.0.0.1:{free_port()}"),
            *(word for each in SHARED_FIELDS for word in ("--set", f"shared_fields={each}")),
            *("--store", str(place.folder / "store"), "--set", f"confdir={place.folder / 'ca'}"),
            *(["--workers", str(workers)] if workers > 1 else []),
            *(word for each in options for word in ("--set", each)),
        ]

    name = ", ".join(("feedproxy", *([f"{workers} workers"] if workers > 1 else []), *options))
    return Cache(name, sys.executable, ("-m", "feedproxy.cli", "--version"), BOTH, command)


def _nginx(program: str, place: Place) -> Sequence[str]:
    return [program, "-p", str(place.folder), "-e", "stderr", "-c", str(_write(place, "nginx.conf"))]


def _squid(program: str, place: Place) -> Sequence[str]:
    # Its shared memory is named after the service, and another Squid may be running.
    service = ("-n", f"conformance{place.port}")
    return [program, "-N", *service, "-f", str(_write(place, f"squid-{place.entrance}.conf", "squid.conf"))]


def _varnish(program: str, place: Place) -> Sequence[str]:
    vcl = _write(place, "varnish.vcl")
    listen = ("-a", f"127.0.0.1:{place.port}", "-T", "none")
    # Its default of two minutes for responses without a lifetime would violate RFC 9111, section 4.2.2.
    return [program, "-F", "-t", "0", *listen, "-f", str(vcl), "-n", str(place.folder / "work"), "-s", "default,64m"]


def _traffic_server(program: str, place: Place) -> Sequence[str]:
    for name in ("etc", "cache", "log", "run"):
        (place.folder / name).mkdir()
        (place.folder / name).chmod(0o777)
    for name in ("runroot.yaml", "records.config", "storage.config", "ip_allow.yaml"):
        _write(place, f"trafficserver-{name}", name if name == "runroot.yaml" else f"etc/{name}")
    _write(place, f"trafficserver-remap-{place.entrance}.config", "etc/remap.config")
    return [program, f"--run-root={place.folder / 'runroot.yaml'}"]


def _httpd(program: str, place: Place) -> Sequence[str]:
    (place.folder / "cache").mkdir()
    (place.folder / "cache").chmod(0o777)
    return [program, "-DFOREGROUND", "-f", str(_write(place, f"httpd-{place.entrance}.conf", "httpd.conf"))]


FEEDPROXY = feedproxy()
OTHERS = (
    Cache("nginx", "nginx", ("-v",), ONLY_REVERSE, _nginx),
    Cache("Squid", "squid", ("-v",), BOTH, _squid),
    Cache("Varnish", "varnishd", ("-V",), ONLY_REVERSE, _varnish),
    Cache("Traffic Server", "traffic_server", ("--version",), BOTH, _traffic_server),
    Cache("httpd", "apache2", ("-v",), BOTH, _httpd),
)
