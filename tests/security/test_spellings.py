"""Access rules and origins interpret addresses alike: a table of spellings, and real origins with lax parsers."""

import contextlib
import functools
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from feedproxy.errors import BadTarget
from feedproxy.feed_rules import AMBIGUOUS, Rule, Rules, may_serve_under
from feedproxy.http import uri
from feedproxy.http.target_uri.path_confusion import INTERPRETATIONS_MAX, interpretations
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.settings import Settings
from tests.live.conftest import authority, made, start  # noqa: F401 -- fixtures
from tests.live.origin import a_feed
from tests.live.product import Feedproxy, ask, raw
from tests.steps import steps

BASE = "http://o.example"

SPELLINGS = [
    "/secret/feed",
    "/%73ecret/feed",
    "/secret%2ffeed",
    "/secret%2Ffeed",
    "/%73ecret%2ffeed",
    "/%2fsecret/feed",
    "/%2f%2fsecret%2ffeed",
    "//secret/feed",
    "/secret//feed",
    "///secret///feed",
    "/./secret/feed",
    "/x/../secret/feed",
    "/x/%2e%2e/secret/feed",
    "/x/..%2fsecret/feed",
    "/x%2f..%2fsecret/feed",
    "/x/%252e%252e/secret/feed",
    "/.%2fsecret/feed",
    "/secret%252ffeed",
    "/secret%25252ffeed",
    "/%2573ecret/feed",
    "/secret;x/feed",
    "/secret;x=1;y/feed",
    "/;/secret/feed",
    "/x/..;/secret/feed",
    "/secret%3bx/feed",
    "/secret;%2ffeed",
    "/secret\\feed",
    "/secret%5cfeed",
    "/secret%255cfeed",
    "/x\\..\\secret/feed",
    "/SECRET/feed",
    "/Secret/FEED",
    "/secret./feed",
    "/secret%20/feed",
    "/secret%u002ffeed",
    "/%u0073ecret/feed",
    "/%ef%bd%93ecret/feed",
    "/secret%ef%bc%8ffeed",
    "/secret%e2%88%95feed",
    "/secret::$INDEX_ALLOCATION/feed",
    "/secret:$I30:$INDEX_ALLOCATION/feed",
    "/secret/feed:stream:$DATA",
    "/se%e2%80%8bcret/feed",
    "/s%c2%adecret%ef%bb%bf/feed",
    "/secret/feed/",
    "/secret/feed?x=1",
    "/secret/feed%3fx",
    "/secret/feed%23x",
    "/secret",
    "/secret?x",
]
"""Paths that at least one server interprets as a path below /secret."""

OTHERS = [
    "/",
    "/public/feed",
    "/secrets/feed",
    "/notsecret/feed",
    "/x/secret/feed",
    "/public/a%20b(1).xml",
    "/caf%C3%A9",
]

REFUSED = [
    "/secret%00/feed",
    "/x%00",
    "/%0asecret",
    "/secret%c0%affeed",
    "/%e0%80%afsecret",
    "/%f0%80%80%afx",
    "/%c1%9cx",
]
"""Paths that servers interpret in unpredictable ways, so feedproxy refuses them."""


def protecting(*rules: tuple[str, dict[str, object]]) -> Callable[[str], Settings]:
    made_of, base = Rules([Rule(TargetPattern(pattern), overrides) for pattern, overrides in rules]), Settings()
    return lambda target: made_of.settings_for(uri.normalise(target), base)


@pytest.mark.parametrize("path", SPELLINGS)
@pytest.mark.parametrize("overrides", [{"readers": ("bob",)}, {"private": True}], ids=["readers", "private"])
@pytest.mark.parametrize("pattern", [f"{BASE}/secret/*", "o.example/secret/*", "*/secret/*"])
def test_every_spelling_of_a_protected_path_is_protected(path: str, overrides: dict[str, object], pattern: str) -> None:
    found = protecting((pattern, overrides))(BASE + path)

    assert (found.readers == ("bob",)) == ("readers" in overrides)
    assert found.private == ("private" in overrides)


@pytest.mark.parametrize("path", OTHERS)
def test_protecting_rule_does_not_protect_other_paths(path: str) -> None:
    found = protecting((f"{BASE}/secret/*", {"readers": ("bob",), "private": True}))(BASE + path)

    assert found.readers == ()
    assert not found.private


@pytest.mark.parametrize("path", REFUSED)
def test_ambiguous_address_is_refused_only_at_a_protected_host(path: str) -> None:
    settings_for = protecting((f"{BASE}/secret/*", {"readers": ("bob",)}))

    assert settings_for(BASE + path).readers == AMBIGUOUS
    assert settings_for("http://other.example" + path).readers == ()


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("http://o.example/s/*", "https://o.example/s/feed"),
        ("https://o.example/s/*", "http://o.example/s/feed"),
        ("http://o.example/s/*", "http://O.EXAMPLE./s/feed"),
        ("http://o.example/s/*", "http://o.example:80/s/feed"),
        ("http://o.example/s/*", "http://o.example:443/s/feed"),
        ("http://o.example:8000/s/*", "https://o.example:8000/s/feed"),
        ("http://127.0.0.1:8000/s/*", "http://localhost:8000/s/feed"),
        ("http://127.0.0.1:8000/s/*", "http://sub.localhost.:8000/s/feed"),
        ("http://127.0.0.1:8000/s/*", "http://[::1]:8000/s/feed"),
        ("http://127.0.0.1:8000/s/*", "http://[::ffff:127.0.0.1]:8000/s/feed"),
        ("http://127.0.0.1:8000/s/*", "http://[::ffff:7f00:1]:8000/s/feed"),
        ("http://127.0.0.1:8000/s/*", "http://127.9.9.9:8000/s/feed"),
        ("http://127.0.0.1:8000/s/*", "http://0.0.0.0:8000/s/feed"),
        ("http://localhost/s/*", "http://127.0.0.1/s/feed"),
        ("http://10.1.2.3/s/*", "http://[::ffff:a01:203]/s/feed"),
        ("http://[::ffff:10.1.2.3]/s/*", "http://10.1.2.3/s/feed"),
        ("http://o.example/team(1)/*", "http://o.example/team%281%29/feed"),
        ("http://o.example/a%20b/*", "http://o.example/a%2520b/feed"),
        ("http://o.example/caf%C3%A9/*", "http://o.example/cafe%CC%81/feed"),
        ("http://o.example/feed?user=bob", "http://o.example/feed?x=1&user=bob"),
        ("http://o.example/feed?user=bob", "http://o.example/feed?user=%2562ob&x"),
        ("http://o.example/feed.php", "http://o.example/FEED.php/?x"),
        ("http://o.example/f?cat=5&key=s*", "http://o.example/f?key=secret&cat=5"),
        ("http://o.example/f?cat=5&key=s*", "http://o.example/f?cat=5&x=1&key=secret&y"),
        ("http://o.example/f?cat=5&key=s*", "http://o.example/f%3fkey=secret%26cat=5"),
        ("http://o.example/f?cat=5&key=s*", "http://o.example/f%3fkey=secret?cat=5"),
        ("http://o.example/f?key=s", "http://o.example/f?x;key=s;y"),
        ("http://o.example/f?key=s", "http://o.example/f?+key=%20s+"),
        ("http://o.example/f?key=s", "http://o.example/f?key%00x=s%00y"),
        ("http://o.example/f?key=s", "http://o.example/f?key[]=s"),
        ("http://o.example/f?key=s", "http://o.example/f?key%5ba%5d%5bb%5d=s"),
        ("http://o.example/f?key=s", "http://o.example/f?%u006bey=s"),
        ("http://o.example/f?my_key=s", "http://o.example/f?my.key=s"),
        ("http://o.example/f?my.key=a+b", "http://o.example/f?my_key=a%20b"),
        ("http://o.example/f?*key*", "http://o.example/f?x=1&my-KEY=s"),
    ],
)
def test_other_names_of_a_server_or_feed_are_protected(pattern: str, target: str) -> None:
    assert protecting((pattern, {"readers": ("bob",)}))(target).readers == ("bob",)


@pytest.mark.parametrize("query", ["", "?", "?key=t", "?akey=s", "?key=st", "?x=key=s", "?key=s/", "?ke=y=s", "?cat=5"])
def test_protecting_rule_with_a_query_does_not_protect_other_queries(query: str) -> None:
    assert protecting(("http://o.example/f?key=s", {"readers": ("bob",)}))(f"{BASE}/f{query}").readers == ()


def test_comparison_of_a_long_query_is_cheap() -> None:
    settings_for = protecting(
        (f"{BASE}/f?cat=5&key=s*", {"readers": ("bob",)}),
        (f"{BASE}/f?*token*", {"readers": ("bob",)}),
    )
    for piece in ("&key=s", "&a=%26key=s", ";", "&cat=5&key", "+", "&tok", "[", "%5b%5d&"):
        short, long = (f"{BASE}/f?" + piece * (length // len(piece)) for length in (2000, 8000))
        assert steps(functools.partial(settings_for, long)) < 5 * steps(functools.partial(settings_for, short)), piece


def test_rule_that_permits_access_matches_the_exact_spelling_only() -> None:
    settings_for = protecting((f"{BASE}/Blog/*", {"readers": ("bob",)}), (f"{BASE}/Blog/Open/*", {"readers": ()}))

    for path in ("/Blog/Open/feed", "/Blog/Open/", "/Blog/Open/feed?x=1", "/Blog/Open/a%20b"):
        assert settings_for(BASE + path).readers == (), path
    for path in ("/Blog/feed", "/blog/open/feed", "/Blog/Open/..%2ffeed", "/Blog/Open%2ffeed", "/Blog/Open/..;/feed"):
        assert settings_for(BASE + path).readers == ("bob",), path


def test_address_that_matches_rules_for_different_readers_is_refused() -> None:
    settings_for = protecting((f"{BASE}/a/*", {"readers": ("alice",)}), (f"{BASE}/a/b/*", {"readers": ("bob",)}))

    assert settings_for(f"{BASE}/a/b/x").readers == ("bob",)
    assert settings_for(f"{BASE}/a/b/..%2fx").readers == AMBIGUOUS


def test_public_url_in_reverse_mode_is_interpreted_alike() -> None:
    base = Settings(upstream="http://127.0.0.1:9/app", public_url="https://feeds.example/")
    rules = Rules([Rule(TargetPattern("https://feeds.example/secret/*"), {"readers": ("bob",)})])

    for path in ("/secret/x", "/secret%2fx", "//secret/x", "/SECRET;a/x"):
        assert rules.settings_for(uri.normalise("http://127.0.0.1:9/app" + path), base).readers == ("bob",)


def test_address_with_too_many_interpretations_is_refused_cheaply() -> None:
    def interpret(path: str) -> None:
        with contextlib.suppress(BadTarget):
            assert len(interpretations(uri.normalise(BASE + path))) <= INTERPRETATIONS_MAX

    for piece, number in (("/%25252f..;a\\", 100), ("/a;b", 1000), ("/" + "%25" * 20, 100), ("/.%2f", 500)):
        quarter = steps(lambda: interpret(piece * (number // 4)))  # noqa: B023
        assert steps(lambda: interpret(piece * number)) < 5 * quarter, piece  # noqa: B023


def test_feed_covers_another_if_all_its_readers_may_read_both() -> None:
    def given(*readers: str, private: bool = False) -> Settings:
        return Settings(readers=readers, private=private)

    assert may_serve_under(given(), given())
    assert may_serve_under(given("bob"), given())
    assert may_serve_under(given("bob"), given("bob", "carol"))
    assert may_serve_under(given("bob"), given("*"))
    assert not may_serve_under(given(), given("*"))
    assert not may_serve_under(given("*"), given("bob"))
    assert not may_serve_under(given("bob", "carol"), given("bob"))
    assert not may_serve_under(given(), given(private=True))
    assert may_serve_under(given(private=True), given(private=True))
    assert not may_serve_under(given("bob"), given(*AMBIGUOUS))


TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""Folders of nginx for temporary files, which must be writable."""

# -- origins with lax parsers behind a proxy


def like_werkzeug(path: str) -> str:
    return re.sub("/+", "/", unquote(path.partition("?")[0]))


def like_a_servlet_container(path: str) -> str:
    segments: list[str] = []
    for each in unquote(re.sub(";[^/]*", "", path.partition("?")[0])).split("/"):
        if each == ".." and segments:
            segments.pop()
        elif each not in (".", ".."):
            segments.append(each)
    return "/".join(segments)


def like_iis(path: str) -> str:
    return like_werkzeug(unquote(path)).replace("\\", "/").lower()


def serving(reads: Callable[[str], str]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = "HIDDEN" if reads(self.path).rstrip("/") == "/secret/feed" else "other"
            body = a_feed(name)
            self.send_response(200)
            self.send_header("Content-Type", "application/rss+xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


@pytest.fixture
def origins(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Return the ports of all origins. Nginx, if installed, merges slashes and decodes."""
    servers = {each.__name__: serving(each) for each in (like_werkzeug, like_a_servlet_container, like_iis)}
    ports = {name: server.server_port for name, server in servers.items()}
    nginx = None
    if shutil.which("nginx"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports["nginx"] = probe.getsockname()[1]
        (tmp_path / "www/secret").mkdir(parents=True)
        (tmp_path / "www/secret/feed").write_bytes(a_feed("HIDDEN"))
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
            "http { access_log off; merge_slashes on; default_type application/rss+xml;\n"
            + "".join(f"{each}_temp_path {tmp_path}/{each};" for each in TEMPORARY)
            + f"server {{ listen 127.0.0.1:{ports['nginx']}; root {tmp_path}/www; }} }}\n"
        )
        nginx = subprocess.Popen(["nginx", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)])
        end = time.monotonic() + 30
        while socket.socket().connect_ex(("127.0.0.1", ports["nginx"])) and time.monotonic() < end:
            time.sleep(0.02)
    yield ports
    if nginx is not None:
        nginx.terminate()
        nginx.wait(30)
    for server in servers.values():
        server.shutdown()
        server.server_close()


def test_no_spelling_gets_the_protected_feed_from_a_lax_origin(
    start: Callable[..., Feedproxy],  # noqa: F811
    origins: dict[str, int],
    tmp_path: Path,
) -> None:
    rules = "".join(f"  - match: http://127.0.0.1:{port}/secret/*\n    readers: [bob]\n" for port in origins.values())
    config = tmp_path / "feedproxy.yaml"
    config.write_text(f"connect_ports: [1-65535]\nfeeds:\n{rules}")
    proxy = start("--config", str(config))
    hidden = set()
    for name, port in origins.items():
        for path in (*SPELLINGS, *REFUSED):
            request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
            if b"HIDDEN" in raw(("127.0.0.1", port), request).body:
                hidden.add((name, path))
            place = f"http://127.0.0.1:{port}{path}"
            for line in (f"/{place}", place, f"/-/as/json/{place}"):
                direct = (
                    f"GET {line} HTTP/1.1\r\nHost: {proxy.address[0]}:{proxy.address[1]}\r\nConnection: close\r\n\r\n"
                )
                seen = raw(proxy.address, direct.encode())
                assert b"HIDDEN" not in seen.body, (name, line)
                assert seen.status in (400, 401, 407), (name, line, seen)
        tunnel = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        assert raw(proxy.address, tunnel, "CONNECT").status == 403
        for host in ("localhost", "[::ffff:127.0.0.1]"):
            tunnel = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
            assert raw(proxy.address, tunnel, "CONNECT").status == 403
            assert ask(proxy.gateway(f"http://{host}:{port}/secret/feed")).status == 401
        assert b"other" in ask(proxy.gateway(f"http://127.0.0.1:{port}/public")).body or name == "nginx"
    assert len({path for _, path in hidden}) > 20, "the origins are lax indeed"
    assert {name for name, _ in hidden} == set(origins)


# -- tunnels


@pytest.mark.parametrize(
    ("pattern", "overrides", "host", "refused"),
    [
        ("https://o.example/secret/*", {"readers": ("bob",)}, "o.example", True),
        ("https://o.example/secret/*", {"private": True}, "o.example", True),
        ("https://o.example/", {"readers": ("bob",)}, "o.example", True),
        ("http://o.example:8080/secret/*", {"readers": ("bob",)}, "o.example", True),
        ("*.example/secret/*", {"readers": ("bob",)}, "o.example", True),
        ("*/secret/*", {"readers": ("bob",)}, "o.example", True),
        ("o.example", {"private": True}, "o.example", True),
        ("o.example", {"readers": ("bob",)}, "o.example", True),
        ("*", {"readers": ("*",)}, "o.example", True),
        ("o.example", {"readers": ()}, "o.example", False),
        ("https://o.example/secret/*", {"readers": ("bob",)}, "other.example", False),
        ("https://o.example/secret/*", {"hint_max": 1}, "o.example", False),
        ("https://127.0.0.1/secret/*", {"readers": ("bob",)}, "localhost", True),
    ],
)
def test_tunnel_bypasses_no_rule_for_its_host(
    pattern: str, overrides: dict[str, object], host: str, refused: bool
) -> None:
    rules = Rules([Rule(TargetPattern(pattern), overrides)])

    assert rules.protects_host(host, Settings()) == refused
