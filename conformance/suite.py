"""The source of the suite, and its origin server.

The package on npm is a release of 2021. It does not change, so two results differ only if feedproxy has changed. The
repository has newer tests, so a checkout is better for comparing caches.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from conformance.process import free_port, started

PACKAGE = "http-cache-tests"
CLIENT = Path(__file__).with_name("client.mjs")
# Each pause of the suite takes three seconds, and its tests run in batches.
DEADLINE = 300.0
NPM_DEADLINE = 120.0


class Missing(Exception):
    """A requirement is not installed on this machine. The text names it."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The suite in a folder. `name` identifies its version by the content of its tests."""

    folder: Path
    name: str

    @property
    def server(self) -> Path:
        new = self.folder / "test-engine" / "server" / "server.mjs"
        return new if new.is_file() else self.folder / "server" / "server.mjs"


def in_folder(folder: Path) -> Suite:
    """Return the suite in a checkout. npm installs its dependencies if they are missing.

    Raises Missing if the folder contains no suite, or npm fails.
    """
    if not (folder / "tests" / "index.mjs").is_file():
        raise Missing(f"no checkout of cache-tests: {folder}")
    if not (folder / "node_modules").is_dir() and folder.parent.name != "node_modules":
        _npm("install", "--omit=dev", cwd=folder)
    return Suite(folder.resolve(), _name(folder))


def from_npm() -> Suite:
    """Return the release on npm, which is installed once into this user's cache folder. Raises Missing if that
    fails."""
    place = _cache_folder()
    folder = place / "node_modules" / PACKAGE
    if not (folder / "tests" / "index.mjs").is_file():
        (place / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        _npm("install", PACKAGE, cwd=place)
    return in_folder(folder)


def _cache_folder() -> Path:
    temporary = Path(tempfile.gettempdir()) / f"feedproxy-conformance-{os.getuid()}"
    for place in (user_cache_path("feedproxy") / "conformance", temporary):
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            # In a shared folder, another user could have placed files first, and they would be run.
            if place.stat().st_uid == os.getuid() and os.access(place, os.W_OK):
                return place
        except OSError:
            continue
    raise Missing("no folder that can be written to for the suite")


def _npm(*arguments: str, cwd: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Missing("node and npm are not installed")
    command = (npm, *arguments, "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=NPM_DEADLINE, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"npm {' '.join(arguments)} took more than {NPM_DEADLINE / 60:g} minutes") from None
    if done.returncode:
        raise Missing(f"npm {' '.join(arguments)} failed: {done.stderr.strip()[-300:]}")


def _name(folder: Path) -> str:
    """Return the name of a suite's version. package.json has had the same version since 2021, so the tests are
    hashed."""
    digest = hashlib.sha256()
    for file in sorted((folder / "tests").rglob("*.mjs")):
        digest.update(file.read_bytes())
    version = json.loads((folder / "package.json").read_bytes())["version"]
    origin = "npm" if folder.parent.name == "node_modules" else "checkout"
    return f"{origin}-{version}-{digest.hexdigest()[:8]}"


@contextmanager
def origin_of(suite: Suite, scratch: Path) -> Iterator[int]:
    """Run the suite's origin server in this context. Yield its port."""
    port = free_port()
    settings = {
        "npm_config_protocol": "http",
        "npm_config_port": str(port),
        "npm_config_pidfile": str(scratch / "origin.pid"),
    }
    with started([_node(), str(suite.server)], port, log=scratch / "origin.log", cwd=suite.folder, env=settings):
        yield port


def run(
    suite: Suite, scratch: Path, *, base: str, proxy: str | None = None, only: Sequence[str] | None = None
) -> Mapping[str, Any]:
    """Return the output of the client for a run against `base`: its `tests` and `results`, as client.mjs makes them."""
    out = scratch / "results.json"
    order = {"suite": str(suite.folder), "base": base, "proxy": proxy, "only": only, "out": str(out)}
    # The user's proxy settings must not affect the measured cache.
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with (scratch / "client.log").open("wb") as log:
        command = [_node(), "--no-warnings", str(CLIENT), json.dumps(order)]
        subprocess.run(command, stdout=log, stderr=log, env=env, timeout=DEADLINE, check=True)
    made: Mapping[str, Any] = json.loads(out.read_bytes())
    return made


def _node() -> str:
    if (node := shutil.which("node")) is None:
        raise Missing("node is not installed")
    return node
