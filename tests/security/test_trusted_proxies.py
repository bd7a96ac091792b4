"""Clients cannot forge addresses behind real nginx and HAProxy with the documented configuration.

The load balancers have the trusted address 127.0.0.1; clients have other loopback addresses.
"""

import base64
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest

from conformance.process import free_port
from feedproxy.access.failed_login_limit import GUESSES_MAX
from tests.live.conftest import needs
from tests.live.origin import Origin, a_feed, opened, until
from tests.live.product import ROOT, Feedproxy, Process, Seen, read_answer
from tests.live.test_clouds import Workstation
from tests.waiting import PATIENCE

pytestmark = [
    needs("nginx", "haproxy"),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="elsewhere than on Linux loopback is one address"),
]

VICTIM = "127.0.0.8"
GUIDE = ROOT / "docs/how-to/behind-a-load-balancer.md"


def blocks(page: Path) -> list[str]:
    """Return the indented examples of a page."""
    return [block.group() for block in re.finditer(r"(?:^ {4}.*\n|^\n(?= {4}))+", page.read_text(), re.MULTILINE)]


def example(page: Path, *words: str) -> str:
    """Return the example of a page that contains these words, without its indentation."""
    (found,) = (each for each in blocks(page) if all(word in each for word in words))
    return "\n".join(line[4:] for line in found.splitlines())


def nginx(folder: Path, port: int, text: str) -> Process:
    """Start nginx with the example's lines. A `location` is placed in a server."""
    if "server {" not in text:
        text = f"server {{\n{text}\n}}"
    text = text.replace("server {", f"server {{\nlisten 127.0.0.1:{port};", 1)
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr warn;\n"
        f"events {{ worker_connections 64; }}\nhttp {{\naccess_log off; client_body_temp_path {folder}/body;\n"
        f"proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;\n"
        f"scgi_temp_path {folder}/s;\n{text}\n}}\n"
    )
    return Process(["nginx", "-p", str(folder), "-e", "stderr", "-c", str(config)], folder)


def haproxy(folder: Path, port: int, text: str) -> Process:
    """Start HAProxy with the example's lines. A backend without a frontend gets one."""
    if "frontend" not in text:
        times = "timeout connect 5s\ntimeout client 60s\ntimeout server 60s"
        text = f"defaults\nmode http\n{times}\nfrontend f\nbind :8080\ndefault_backend feedproxy\n{text}"
    folder.mkdir()
    config = folder / "haproxy.cfg"
    config.write_text(text.replace("bind :8080", f"bind 127.0.0.1:{port}") + "\n")
    return Process(["haproxy", "-f", str(config)], folder)


def balancer_cfg() -> str:
    """Start HAProxy with conf/balancer.cfg, with one local feedproxy instead of two in Docker's network."""
    text = (ROOT / "conf/balancer.cfg").read_text().partition("\nresolvers docker")[0]
    text = re.sub(r"^ *(?:maxconn|server two|default-server) .*\n", "", text + "\n", flags=re.MULTILINE)
    return text.replace("one:8080", "127.0.0.1:8080")


@dataclass
class Stand:
    """A feedproxy behind a load balancer, and its clients."""

    origin: Origin
    port: int
    client: str
    neighbour: str

    def ask(
        self, path: str, fields: list[tuple[str, str]], method: str = "GET", body: bytes = b"", client: str = ""
    ) -> Seen:
        lines = [f"{method} {path} HTTP/1.1", "Host: feeds.example", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in fields]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        with socket.create_connection(
            ("127.0.0.1", self.port), PATIENCE, source_address=(client or self.client, 0)
        ) as wire:
            wire.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            return read_answer(wire)


STANDS: dict[str, tuple[str, Callable[[Path, int, str], Process], Callable[[], str]]] = {
    "nginx": ("x-forwarded-for", nginx, lambda: example(GUIDE, "proxy_add_x_forwarded_for")),
    "nginx, tutorial": (
        "x-forwarded-for",
        nginx,
        lambda: example(ROOT / "docs/tutorial/publisher.md", "proxy_set_header").replace(
            r"~ ^/(feed\.xml|atom\.xml)$", "/"
        ),
    ),
    "nginx, Forwarded": ("forwarded", nginx, lambda: example(GUIDE, "map $remote_addr")),
    # A common configuration: the field is added, and fields from clients are kept.
    "nginx, bare": (
        "x-forwarded-for",
        nginx,
        lambda: (
            "location / { proxy_pass http://127.0.0.1:8080; proxy_set_header Host $host;\n"
            "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; }"
        ),
    ),
    "haproxy": ("x-forwarded-for", haproxy, lambda: example(GUIDE, "del-header")),
    "haproxy, balancer.cfg": ("x-forwarded-for", haproxy, balancer_cfg),
}
FAST = {"nginx", "nginx, bare", "nginx, Forwarded", "haproxy, balancer.cfg"}
"""Load balancers whose feedproxy has the fast path. For the others, mitmproxy processes all requests."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    with opened(tmp_path_factory.mktemp("origin")) as (made, _):
        made.publish("/known.rss", a_feed("one"), Cache_Control="max-age=600")
        made.publish("/hop", b"", 302, Location="/page.html")
        yield made


@pytest.fixture(scope="module")
def products(origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, bool], Feedproxy]]:
    """Yield feedproxies that trust the named field, with or without the fast path. Each is started once."""
    folder = tmp_path_factory.mktemp("products")
    (folder / "users").write_text("bob:$2b$04$abcdefghijklmnopqrstuu5s3FBqkYbSX2hVhIYDdGkY9ABdVb7Lm\n")
    (folder / "conf.yaml").write_text(
        f"users_file: {folder / 'users'}\nfeeds:\n  - match: {origin.url('/secret')}*\n    readers: [bob]\n"
    )
    started: dict[tuple[str, bool], Feedproxy] = {}

    def product(named: str, fast: bool) -> Feedproxy:
        if (named, fast) not in started:
            options = {"trusted_proxies": "127.0.0.1", "forwarded_by": named, "fast_path": fast}
            made = Feedproxy(folder / f"{named}-{fast}", "--config", str(folder / "conf.yaml"), **options)  # type: ignore[arg-type]
            started[named, fast] = made
        return started[named, fast]

    yield product
    for each in started.values():
        each.terminate()
        assert "Traceback" not in each.said, each.said


@pytest.fixture(scope="module", params=list(STANDS))
def stand(
    request: pytest.FixtureRequest,
    origin: Origin,
    products: Callable[[str, bool], Feedproxy],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stand]:
    named, begin, text = STANDS[request.param]
    proxy, port = products(named, request.param in FAST), free_port()
    text_here = text().replace("127.0.0.1:8080", "{}:{}".format(*proxy.address))
    process = begin(tmp_path_factory.mktemp("stand") / "front", port, text_here)

    def listens() -> bool:
        assert process.process.poll() is None, process.said
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(listens, why="the load balancer does not listen")
    # Guesses of a password are counted for minutes, so each stand has its own client addresses.
    number = 10 + list(STANDS).index(request.param)
    yield Stand(origin, port, f"127.0.1.{number}", f"127.0.2.{number}")
    process.terminate()


type Forge = Callable[[str], list[tuple[str, str]]]

FORGED: dict[str, Forge] = {
    "nothing": lambda _: [],
    "Forwarded": lambda address: [("Forwarded", f"for={address};host=evil.example;proto=https")],
    "Forwarded, open quote": lambda address: [("Forwarded", f'for={address};host="evil.example')],
    "X-Forwarded-For": lambda address: [("X-Forwarded-For", address)],
    "X-Forwarded-For twice": lambda address: [
        ("X-Forwarded-For", address),
        ("x-forwarded-for", f"{address}, {address}"),
    ],
    "X-Forwarded-For by the proxy": lambda address: [("X-Forwarded-For", f"{address}, 127.0.0.1")],
    "X_Forwarded_For": lambda address: [("X_Forwarded_For", address)],
    "both": lambda address: [("X-Forwarded-For", address), ("Forwarded", f"for={address};host=evil.example")],
    "X-Forwarded-Host": lambda _: [("X-Forwarded-Host", "evil.example"), ("X-Host", "evil.example")],
    "X-Forwarded-Proto": lambda _: [("X-Forwarded-Proto", "https"), ("X-Forwarded-Ssl", "on")],
    "X-Forwarded-Port": lambda _: [("X-Forwarded-Port", "666"), ("X-Forwarded-Prefix", "/evil")],
    "X-Real-IP": lambda address: [("X-Real-IP", address), ("X-Client-IP", address), ("True-Client-IP", address)],
}


@pytest.mark.parametrize("forged", list(FORGED))
def test_location_has_the_requested_host_and_scheme(stand: Stand, forged: str) -> None:
    seen = stand.ask(f"/{stand.origin.url('/hop')}", [("Accept", "text/html"), *FORGED[forged](VICTIM)])

    assert (seen.status, seen.fields["Location"]) == (302, f"http://feeds.example/{stand.origin.url('/page.html')}")


def test_password_guesses_are_counted_for_the_clients_address(stand: Stand) -> None:
    guess = "Basic " + base64.b64encode(b"bob:wrong").decode()
    path, statuses = f"/{stand.origin.url('/secret.rss')}", []
    for number in range(GUESSES_MAX + 6):
        forge = list(FORGED.values())[number % len(FORGED)]
        fields = [("Authorization", guess), *forge(f"198.51.100.{number}")]
        statuses.append(stand.ask(path, fields).status)

    assert statuses == [401] * GUESSES_MAX + [429] * 6
    # Guesses of another client are counted separately.
    assert stand.ask(path, [("Authorization", guess)], client=stand.neighbour).status == 401


@pytest.mark.parametrize("forged", ["nothing", "both", "X-Forwarded-For by the proxy", "X_Forwarded_For", "X-Real-IP"])
def test_rsscloud_subscribes_the_address_of_the_caller_only(stand: Stand, forged: str) -> None:
    feed = stand.origin.url("/known.rss")
    assert stand.ask(f"/{feed}", []).status == 200
    victim, caller = Workstation(address=VICTIM), Workstation(address=stand.client)
    try:
        for there, success in ((victim, "false"), (caller, "true")):
            content = urlencode({"protocol": "http-post", "port": there.port, "path": "/told", "url1": feed})
            fields = [("Content-Type", "application/x-www-form-urlencoded"), *FORGED[forged](VICTIM)]
            seen = stand.ask("/-/pleaseNotify", fields, "POST", content.encode())
            assert ET.fromstring(seen.body).get("success") == success
    finally:
        victim.close()
        caller.close()

    assert victim.told == []
    assert len(caller.told) == 1
