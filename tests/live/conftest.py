"""Fixtures of the live tests: an origin on loopback, the product as a process, and the installed readers.

No fixture uses a fixed port or contacts another machine. A missing reader is a visible skip.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.live.hostile import load_server
from tests.live.origin import Authority, Origin, opened
from tests.live.product import Feedproxy


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return a mark that skips the test and names the programs that are not installed."""
    missing = [each for each in programs if shutil.which(each) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Origin, Authority]]:
    with opened(tmp_path_factory.mktemp("origin")) as both:
        yield both


@pytest.fixture(scope="module")
def origin(made: tuple[Origin, Authority]) -> Origin:
    """Run the origin for the tests of one module. Each test has its own paths."""
    return made[0]


@pytest.fixture(scope="module")
def authority(made: tuple[Origin, Authority]) -> Authority:
    """Return the certificate authority of the origin."""
    return made[1]


@pytest.fixture(scope="module")
def proxy(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feedproxy]:
    """Run a gateway and explicit proxy for a module. The proxy decrypts `localhost` and tunnels other hosts."""
    made = Feedproxy(
        tmp_path_factory.mktemp("feedproxy"), authority=authority.file, intercept="localhost", buffer_max=200_000
    )
    yield made
    code = made.terminate()
    assert code == 0, made.said
    assert "Traceback" not in made.said, made.said


@pytest.fixture
def start(authority: Authority, tmp_path: Path) -> Iterator[Callable[..., Feedproxy]]:
    """Yield a function that starts a feedproxy: `start("--upstream", URL, store=…, feed_hints="off")`."""
    started: list[Feedproxy] = []

    def begin(*arguments: str, **options: Any) -> Feedproxy:
        folder = options.pop("folder", None) or tmp_path / f"feedproxy-{len(started)}"
        options.setdefault("authority", authority.file)
        started.append(Feedproxy(folder, *arguments, **options))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.terminate()
        else:
            each.wait()


@pytest.fixture(scope="module")
def hostile_origin(corpus: Path) -> Iterator[tuple[ModuleType, int]]:
    """Run the hostile corpus's origin and return its module and port."""
    module = load_server(corpus)
    with module.S(("127.0.0.1", 0), module.H) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield module, listening.server_address[1]
        listening.shutdown()
        thread.join()
