"""The proxy in front of the operator's origin: alone, behind nginx, in a chain, and in a loop."""

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.conftest import needs
from tests.live.origin import Asked, Authority, Handler, Origin, a_feed, until
from tests.live.product import Feedproxy, Process, Seen, ask, raw
from tests.waiting import PATIENCE

type Start = Callable[..., Feedproxy]

PUBLIC = "https://feeds.example"


@pytest.fixture(scope="module")
def publisher(authority: Authority, origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feedproxy]:
    """Run a proxy in front of the origin. It needs no --allow-private, because the operator configured the origin."""
    made = Feedproxy(
        tmp_path_factory.mktemp("publisher"),
        "--upstream",
        origin.url(""),
        "--public-url",
        PUBLIC,
        authority=authority.file,
        allow_private=False,
        buffer_max=200_000,
    )
    yield made
    assert made.terminate() == 0, made.said
    assert "Traceback" not in made.said, made.said


@pytest.fixture
def get(publisher: Feedproxy) -> Callable[..., Seen]:
    """Request a path from the publisher's proxy."""

    def asking(path: str, method: str = "GET", **more: object) -> Seen:
        return ask(publisher.base + path, method, **more)  # type: ignore[arg-type]

    return asking


def test_copy_serves_readers_with_a_public_self_link(origin: Origin, get: Callable[..., Seen]) -> None:
    origin.publish("/news.rss?n=5", a_feed("one"))

    first, second = get("/news.rss?n=5"), get("/news.rss?n=5")

    assert first.status == second.status == 200
    assert f'href="{PUBLIC}/news.rss?n=5"'.encode() in first.body.replace(b"'", b'"')
    assert "hit" in second.cache
    assert len(origin.asked("/news.rss?n=5")) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_origin_gets_its_own_host_name_and_forwarding_fields(
    origin: Origin, get: Callable[..., Seen], method: str
) -> None:
    path = f"/host/{method}"
    origin.publish(path, b"hello", Content_Type="text/plain")

    get(path, method, fields={"host": "feeds.example", "x_forwarded_for": "198.51.100.7"})

    (asked,) = origin.asked(path)
    assert asked.fields["Host"] == origin.url("").removeprefix("http://")
    if method == "POST":
        assert asked.fields["X-Forwarded-For"] == "127.0.0.1"  # forwarding fields of untrusted clients are dropped
        assert asked.fields["X-Forwarded-Proto"] == "https"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("absolute", [True, False])
def test_redirect_to_the_origin_becomes_public(
    origin: Origin, get: Callable[..., Seen], method: str, absolute: bool
) -> None:
    path = f"/leads/{method}/{absolute}"
    origin.publish(path, b"", 303, Location=origin.url("/page?x=1") if absolute else "/page?x=1")
    origin.publish("/page?x=1", b"hello", Content_Type="text/plain")

    seen = get(path, method, fields={"accept": "text/html"})

    # A relative redirect has the same meaning on both sides.
    assert (seen.status, seen.fields["Location"]) == (303, f"{PUBLIC}/page?x=1" if absolute else "/page?x=1")


def test_redirect_to_another_host_is_unchanged(origin: Origin, get: Callable[..., Seen]) -> None:
    origin.publish("/leads/away", b"", 302, Location="https://elsewhere.example/page")

    assert get("/leads/away", fields={"accept": "text/html"}).fields["Location"] == "https://elsewhere.example/page"


def test_post_invalidates_the_copy(origin: Origin, get: Callable[..., Seen]) -> None:
    path = "/guestbook"
    origin.publish(path, b"hello", Content_Type="text/plain", Cache_Control="max-age=600")
    assert "hit" in (get(path), get(path))[1].cache

    posted = get(path, "POST", body=b"me, too")
    after = get(path)

    assert posted.status == 200
    assert "fwd=method" in posted.cache
    assert "hit" not in after.cache
    assert [each.method for each in origin.asked(path)] == ["GET", "POST", "GET"]


def test_failed_post_keeps_the_copy(origin: Origin, get: Callable[..., Seen]) -> None:
    path = "/refusing"
    origin.publish(path, b"hello", Content_Type="text/plain", Cache_Control="max-age=600")
    get(path)

    def refuse_post(handler: Handler, asked: Asked) -> None:
        handler.say(403 if asked.method == "POST" else 200, b"no")

    origin.stage(path, refuse_post)

    assert get(path, "POST", body=b"x").status == 403
    assert "hit" in get(path).cache


def test_cookie_is_forwarded_in_reverse_mode(origin: Origin, get: Callable[..., Seen]) -> None:
    origin.publish("/page", b"hello", Content_Type="text/html", Set_Cookie="a=1", Cache_Control="private")

    seen = get("/page", fields={"cookie": "b=2"})

    assert origin.asked("/page")[0].fields["Cookie"] == "b=2"
    assert seen.fields["Set-Cookie"] == "a=1"
    assert "Content-Security-Policy" not in seen.fields


def test_first_reader_of_a_feed_is_a_subscriber(origin: Origin, get: Callable[..., Seen]) -> None:
    origin.publish("/first.rss", a_feed("one"), Cache_Control="no-cache")

    for reader in ("Amethyst/1", "Beryl/2"):
        get("/first.rss", fields={"user_agent": reader})

    assert "2 subscribers;" in origin.asked("/first.rss")[-1].agent


def test_reverse_mode_refuses_absolute_form_and_connect_for_other_hosts(publisher: Feedproxy, origin: Origin) -> None:
    before = len(origin.log)
    for target in ("http://example.com/", "http://169.254.169.254/"):
        seen = raw(publisher.address, f"GET {target} HTTP/1.1\r\nHost: {target[7:-1]}x\r\n\r\n".encode())
        assert seen.status in (400, 403)
    tunnel = f"CONNECT {origin.url('')[7:]} HTTP/1.1\r\nHost: x\r\n\r\n"
    assert raw(publisher.address, tunnel.encode(), "CONNECT").status in (400, 403)
    assert len(origin.log) == before


@pytest.mark.parametrize(
    "head",
    ["CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", "GARBAGE\r\n\r\n"],
    ids=["connect", "garbage"],
)
def test_errors_never_use_mitmproxys_page(publisher: Feedproxy, head: str) -> None:
    seen = raw(publisher.address, head.encode(), head.split(maxsplit=1)[0])

    assert b"mitmproxy" not in seen.body
    assert "mitmproxy" not in seen.fields.get("Server", "")


def test_unreachable_origin_gets_the_proxys_error_page(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    proxy = start("--upstream", f"http://127.0.0.1:{port}")

    for method in ("GET", "POST"):
        seen = ask(proxy.base + "/x", method, body=b"x" if method == "POST" else None)
        assert seen.status == 502
        assert "detail=unreachable" in seen.cache
        assert b"mitmproxy" not in seen.body


def test_https_origin_is_verified_with_the_operators_authority(start: Start, origin: Origin) -> None:
    origin.publish("/tls.rss", a_feed("tls"))
    proxy = start("--upstream", origin.url("", secure=True, host="localhost"))

    assert ask(proxy.base + "/tls.rss").status == 200
    assert ask(proxy.base + "/tls.rss", "POST", body=b"x").status == 200
    assert [each.secure for each in origin.asked("/tls.rss")] == [True, True]


# -- behind nginx, which terminates TLS

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr warn;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen unix:{folder}/tls.sock ssl;
    # Readers come over a socket file here; this lets them say which address they have.
    set_real_ip_from unix:; real_ip_header X-Reader;
    ssl_certificate {certificate}; ssl_certificate_key {certificate};
    location / {{
      proxy_pass {upstream};
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
    }}
  }}
}}
"""


class Nginx(Process):
    """A TLS terminator on a socket file, so that no port can be in use."""

    def __init__(self, folder: Path, upstream: str, authority: Authority) -> None:
        folder.mkdir()
        self.socket = folder / "tls.sock"
        config = folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, certificate=authority.certificate, upstream=upstream))
        super().__init__(["nginx", "-p", str(folder), "-e", "stderr", "-c", str(config)], folder)
        self._context = ssl.create_default_context(cafile=authority.file)
        until(self.socket.exists, why="nginx does not listen")

    def get(self, path: str, **fields: str) -> Seen:
        from tests.live.product import read_answer

        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(PATIENCE)
            until(lambda: plain.connect_ex(str(self.socket)) == 0)
            lines = {"Host": "localhost", "Connection": "close"}
            lines |= {name.replace("_", "-"): value for name, value in fields.items()}
            head = f"GET {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            with self._context.wrap_socket(plain, server_hostname="localhost") as wire:
                wire.sendall(head.encode() + b"\r\n")
                return read_answer(wire)


@pytest.fixture
def nginx(authority: Authority, tmp_path: Path) -> Iterator[Callable[[str], Nginx]]:
    started: list[Nginx] = []

    def begin(upstream: str) -> Nginx:
        started.append(Nginx(tmp_path / f"nginx-{len(started)}", upstream, authority))
        return started[-1]

    yield begin
    for each in started:
        each.terminate()


@needs("nginx")
@pytest.mark.parametrize("trusted", [True, False])
def test_trusted_nginx_provides_the_public_scheme_and_the_readers(
    start: Start, origin: Origin, nginx: Callable[[str], Nginx], trusted: bool
) -> None:
    path = f"/behind/{trusted}"
    origin.publish(path, b"", 302, Location=origin.url("/page"))
    origin.publish(path + ".rss", a_feed("one"), Cache_Control="no-cache")
    proxy = start("--upstream", origin.url(""), **({"trusted_proxies": "127.0.0.0/8"} if trusted else {}))
    front = nginx(proxy.base)

    redirect = front.get(path, Accept="text/html")
    for reader in ("198.51.100.1", "198.51.100.2", "198.51.100.1"):
        seen = front.get(path + ".rss", User_Agent="Same/1", X_Reader=reader)
        assert seen.status == 200

    assert redirect.fields["Location"] == ("https" if trusted else "http") + "://localhost/page"
    assert ("2 subscribers;" if trusted else "1 subscriber;") in origin.asked(path + ".rss")[-1].agent


@needs("nginx")
def test_gateway_behind_nginx_generates_addresses_through_it(
    start: Start, origin: Origin, nginx: Callable[[str], Nginx]
) -> None:
    origin.publish("/through.rss", a_feed("one"))
    origin.publish("/hop", b"", 302, Location="/page.html")
    proxy = start(trusted_proxies="127.0.0.1")
    front = nginx(proxy.base)

    assert front.get(f"/{origin.url('/through.rss')}").status == 200
    seen = front.get(f"/{origin.url('/hop')}", Accept="text/html")

    assert seen.fields["Location"] == f"https://localhost/{origin.url('/page.html')}"


# -- in a chain, and in a loop


def test_two_proxies_in_a_chain_both_add_via(start: Start, origin: Origin) -> None:
    origin.publish("/row.rss", a_feed("one"))
    near, far = start(), start()

    seen = near.get(far.gateway(origin.url("/row.rss")))

    assert seen.status == 200
    assert seen.body.count(b"<title>one</title>") == 1
    assert len({each.split()[1] for each in seen.fields["Via"].split(",")}) == 2
    assert len(origin.asked("/row.rss")) == 1
    posted = ask(near.gateway(far.gateway(origin.url("/row.rss"))), "POST", body=b"x")
    assert posted.status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_nested_gateway_address_leads_to_the_target(proxy: Feedproxy, origin: Origin, method: str) -> None:
    path = f"/never-asked-{method}"
    target = origin.url(path)
    for round_trip in (proxy.gateway(target), proxy.gateway(proxy.gateway(target))):
        seen = ask(proxy.gateway(round_trip), method, body=b"x" if method == "POST" else None)
        assert seen.status == (405 if method == "POST" else 301), (seen.status, seen.body)
        if method != "POST":
            assert seen.fields["Location"] == proxy.gateway(target)
    assert origin.asked(path) == []
    # A program that uses this proxy as http_proxy reaches its gateway addresses, too.
    through = ask(proxy.gateway(target), method, through=proxy.address, body=b"x" if method == "POST" else None)
    assert (through.status, len(origin.asked(path))) == (404, 1)


def test_loop_of_two_proxies_is_refused(start: Start) -> None:
    """Each stands in front of the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    first = start("--upstream", f"http://127.0.0.1:{port}")
    start("--upstream", first.base, "--listen", f"127.0.0.1:{port}")

    for method in ("GET", "POST"):
        assert ask(first.base + "/round", method, body=b"x" if method == "POST" else None).status in (403, 508)
