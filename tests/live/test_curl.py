"""The proxy tested with curl, in all variants of HTTP that readers use."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.conftest import needs
from tests.live.origin import Asked, Authority, Handler, Origin, a_feed
from tests.live.product import Feedproxy, clean_environment
from tests.waiting import NEVER, PATIENCE

pytestmark = needs("curl")


@dataclass(frozen=True)
class Got:
    """The output of curl: the last head and the content."""

    status: int
    version: str
    head: dict[str, str]
    heads: str
    body: bytes


class Curl:
    """Curl in its own folder, through one of the entrances."""

    def __init__(self, folder: Path, proxy: Feedproxy, trusted: Path) -> None:
        self.folder = folder
        self.proxy = proxy
        self.trusted = trusted

    def gateway(self, target: str, *arguments: str) -> Got:
        return self(self.proxy.gateway(target), *arguments)

    def through(self, target: str, *arguments: str) -> Got:
        """Use the explicit proxy."""
        return self(target, "--proxy", self.proxy.base, *arguments)

    def __call__(self, url: str, *arguments: str) -> Got:
        heads, body = self.folder / "heads", self.folder / "body"
        body.write_bytes(b"")
        said = "%{http_code} %{http_version}\n"
        quiet = ("--silent", "--show-error", "--cacert", str(self.trusted), "--noproxy", "")
        command = ["curl", *quiet, "--dump-header", str(heads), "--output", str(body), "--write-out", said]
        done = subprocess.run(
            [*command, *arguments, url],
            env=clean_environment(HOME=str(self.folder)),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (arguments, url, done.stderr, heads.read_text() if heads.exists() else "")
        status, version = done.stdout.splitlines()[-1].split()
        blocks = [each for each in heads.read_text().replace("\r\n", "\n").split("\n\n") if each]
        lines = [line.partition(":") for line in blocks[-1].splitlines()[1:]]
        head = {name.lower(): value.strip() for name, _, value in lines}
        return Got(int(status), version, head, heads.read_text(), body.read_bytes())


@pytest.fixture
def curl(tmp_path: Path, proxy: Feedproxy, authority: Authority) -> Curl:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.file.read_bytes() + proxy.authority.read_bytes())
    return Curl(tmp_path, proxy, trusted)


type Way = Callable[..., Got]

WAYS = ("gateway", "proxy", "intercepted")


@pytest.fixture(params=WAYS)
def fetch(request: pytest.FixtureRequest, curl: Curl, origin: Origin) -> Way:
    """Return a function that requests a path of the origin, for each entrance where feedproxy sees the request."""

    def ask(path: str, *arguments: str) -> Got:
        if request.param == "gateway":
            return curl.gateway(origin.url(path), *arguments)
        if request.param == "proxy":
            return curl.through(origin.url(path), *arguments)
        return curl.through(origin.url(path, secure=True, host="localhost"), *arguments)

    return ask


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """Return a path that no other test uses."""
    return "/" + str(request.node.name).replace("[", "/").rstrip("]")


def test_saved_entity_tag_gets_304(fetch: Way, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"))
    assert fetch(path, "--etag-save", "tag").status == 200

    again = fetch(path, "--etag-compare", "tag")

    assert (again.status, again.body) == (304, b"")
    assert "hit" in again.head["cache-status"]
    assert again.head["etag"]
    assert len(origin.asked(path)) == 1


def test_saved_entity_tag_of_a_coded_response_gets_304(fetch: Way, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed(*map(str, range(50))))
    first = fetch(path, "--compressed", "--etag-save", "tag")
    assert first.head["content-encoding"] in ("gzip", "br", "zstd")
    assert first.body.count(b"<item>") == 50

    assert fetch(path, "--compressed", "--etag-compare", "tag").status == 304


def test_modification_time_of_a_file_gets_304(fetch: Way, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"), Last_Modified="Fri, 20 Nov 2020 12:00:00 GMT")
    assert fetch(path).status == 200

    assert fetch(path, "-z", "Fri, 20 Nov 2020 12:00:00 GMT").status == 304
    assert fetch(path, "-z", "Fri, 20 Nov 2020 11:59:59 GMT").status == 200
    assert len(origin.asked(path)) == 1


def test_only_accepted_codings_are_used(fetch: Way, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed(*map(str, range(50))))
    sizes = {}
    for coding in ("identity", "gzip", "br", "zstd"):
        got = fetch(path, "-H", f"Accept-Encoding: {coding}")
        assert got.head.get("content-encoding", "identity") == coding
        assert "accept-encoding" in got.head["vary"].lower()
        assert int(got.head["content-length"]) == len(got.body)
        sizes[coding] = len(got.body)
    assert all(sizes[coding] < sizes["identity"] / 2 for coding in ("gzip", "br", "zstd"))
    assert len(origin.asked(path)) == 1


def test_http_1_0_client_gets_a_complete_response_and_the_end_of_the_connection(
    fetch: Way, origin: Origin, path: str
) -> None:
    origin.publish(path, a_feed("one"))

    first, second = fetch(path, "--http1.0"), fetch(path, "--http1.0")

    assert first.status == second.status == 200
    assert b"<title>one</title>" in first.body
    assert "transfer-encoding" not in first.head
    assert "hit" in second.head["cache-status"]


def test_head_has_the_fields_of_get_without_content(fetch: Way, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"))
    whole = fetch(path)

    head = fetch(path, "--head")

    assert head.status == 200
    assert head.head["content-length"] == str(len(whole.body))
    assert head.head["etag"] == whole.head["etag"]
    assert len(origin.asked(path)) == 1


def test_head_of_an_unstored_target_has_no_content(fetch: Way, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"))

    assert fetch(path, "--head").status == 200


def test_range_of_a_stored_feed_is_served_from_the_copy(fetch: Way, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"))
    whole = fetch(path)

    part = fetch(path, "--range", "6-18")

    assert (part.status, part.body) == (206, whole.body[6:19])
    assert part.head["content-range"] == f"bytes 6-18/{len(whole.body)}"
    assert fetch(path, "--range", f"{len(whole.body)}-").status == 416
    assert len(origin.asked(path)) == 1


def test_http_2_works_inside_an_intercepted_tunnel(curl: Curl, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"))
    url = origin.url(path, secure=True, host="localhost")

    first, second = curl.through(url, "--http2"), curl.through(url, "--http2")
    head = curl.through(url, "--http2", "--head")

    assert first.version == second.version == head.version == "2"
    assert first.status == second.status == head.status == 200
    assert first.body == second.body
    assert "hit" in second.head["cache-status"]


def test_concurrent_http_2_streams_are_answered(curl: Curl, origin: Origin) -> None:
    paths = [f"/streams/{number}" for number in range(6)]
    for each in paths:
        origin.publish(each, a_feed(each[-1]))
    urls = [origin.url(each, secure=True, host="localhost") for each in paths]

    names = [word for number in range(1, 6) for word in ("--output", f"body-{number}")]
    curl.through(urls[5], "--http2", "--parallel", *names, *urls[:5])

    for each in paths[1:]:
        assert f"<title>{each[-1]}</title>".encode() in (curl.folder / f"body-{each[-1]}").read_bytes()


def test_untrusted_certificate_is_an_error_of_the_origin(
    start: Callable[..., Feedproxy], origin: Origin, path: str, tmp_path: Path
) -> None:
    origin.publish(path, a_feed("one"))
    stranger = start(authority=None)

    got = Curl(tmp_path, stranger, stranger.authority).gateway(origin.url(path, secure=True))

    assert got.status == 502
    assert origin.asked(path) == []


def test_body_above_the_buffer_is_streamed_and_not_stored(fetch: Way, origin: Origin, path: str) -> None:
    body = a_feed("one", padding=400_000)
    origin.publish(path, body)

    first, second = fetch(path), fetch(path)

    assert first.status == second.status == 200
    assert first.body == second.body == body
    assert "detail=oversized" in second.head["cache-status"]
    # One fetch by feedproxy, which stops at the head, and then one for each reader.
    assert len(origin.asked(path)) == 3


def test_large_post_is_streamed_to_the_origin_unchanged(fetch: Way, origin: Origin, path: str, tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(bytes(range(256)) * 8_192)
    origin.publish(path, b"thank you")

    got = fetch(path, "--data-binary", "@upload")

    assert (got.status, got.body) == (200, b"thank you")
    (asked,) = origin.asked(path)
    assert (asked.method, asked.size) == ("POST", 2_097_152)
    assert "fwd=method" in got.head["cache-status"]


def test_chunked_upload_reaches_the_origin(fetch: Way, origin: Origin, path: str, tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(b"0123456789" * 50_000)
    origin.publish(path, b"thank you")

    got = fetch(path, "-H", "Transfer-Encoding: chunked", "--upload-file", "upload", "-X", "PUT")

    assert (got.status, got.body) == (200, b"thank you")
    (asked,) = origin.asked(path)
    assert (asked.method, asked.size) == ("PUT", 500_000)


def test_http_2_content_without_a_length_is_chunked_for_http_1_1(
    curl: Curl, origin: Origin, path: str, tmp_path: Path
) -> None:
    """Without framing, the content would be parsed as the next request on that connection."""
    (tmp_path / "upload").write_bytes(b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n" * 5)
    origin.publish(path, b"thank you")
    url = origin.url(path, secure=True, host="localhost")

    got = curl.through(url, "--http2", "-H", "Transfer-Encoding: chunked", "--upload-file", "upload", "-X", "POST")

    assert got.version == "2"
    assert origin.asked(path)[0].size == 175
    assert origin.asked("/smuggled") == []


def test_expect_100_continue_is_answered_at_once(fetch: Way, origin: Origin, path: str, tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(b"x" * 300_000)
    origin.publish(path, b"thank you")

    got = fetch(path, "-H", "Expect: 100-continue", "--expect100-timeout", str(NEVER), "--data-binary", "@upload")

    assert got.status == 200
    assert origin.asked(path)[0].size == 300_000


def test_response_to_post_without_a_length_ends_with_the_connection(fetch: Way, origin: Origin, path: str) -> None:
    def without_length(handler: Handler, _: Asked) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nall of it")

    origin.stage(path, without_length)

    for version in ("--http1.1", "--http1.0"):
        got = fetch(path, version, "--data", "x")
        assert (got.status, got.body) == (200, b"all of it")


def test_chunked_response_is_stored_completely(fetch: Way, origin: Origin, path: str) -> None:
    body = a_feed("one")

    def chunked(handler: Handler, _: Asked) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/rss+xml")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for start in range(0, len(body), 40):
            piece = body[start : start + 40]
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")

    origin.stage(path, chunked)

    first, second = fetch(path), fetch(path, "--http1.0")

    assert first.body == second.body
    assert b"<title>one</title>" in first.body
    assert "hit" in second.head["cache-status"]


def test_cookie_is_not_forwarded_by_the_gateway(curl: Curl, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"), Set_Cookie="track=1")

    got = curl.gateway(origin.url(path), "--cookie", "session=secret", "--referer", "http://home.example/")

    (asked,) = origin.asked(path)
    assert "Cookie" not in asked.fields
    assert "Referer" not in asked.fields
    assert "set-cookie" not in got.head
    assert got.head["content-security-policy"] == "sandbox"
    assert got.head["x-content-type-options"] == "nosniff"


def test_cookie_is_forwarded_by_the_explicit_proxy(curl: Curl, origin: Origin, path: str) -> None:
    origin.publish(path, b"hello", Content_Type="text/plain")

    curl.through(origin.url(path), "--cookie", "session=mine")

    assert origin.asked(path)[0].fields["Cookie"] == "session=mine"


def test_proxy_credentials_are_not_forwarded_to_the_origin(curl: Curl, origin: Origin, path: str) -> None:
    for method in ("GET", "POST"):
        origin.publish(path, b"hello", Content_Type="text/plain")
        curl.through(origin.url(path), "-X", method, "--proxy-header", "Proxy-Authorization: Basic eA==")

    assert [each.method for each in origin.asked(path)] == ["GET", "POST"]
    for each in origin.asked(path):
        assert not {"proxy-authorization", "proxy-connection"} & {name.lower() for name in each.fields}


def test_two_readers_at_the_gateway_are_two_subscribers(curl: Curl, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"), Cache_Control="no-cache")

    for agent in ("Amethyst/1", "Beryl/2 (41 subscribers)", "Amethyst/1"):
        curl.gateway(origin.url(path), "--user-agent", agent)

    said = [each.agent for each in origin.asked(path)]
    assert ["1 subscriber;" in said[0], "42 subscribers;" in said[1], "42 subscribers;" in said[2]] == [True] * 3


@pytest.mark.parametrize("slashes", ["//", "/"])
def test_both_gateway_address_forms_are_the_same_feed(
    curl: Curl, proxy: Feedproxy, origin: Origin, slashes: str
) -> None:
    origin.publish("/spelling?a=1&b=%2F", a_feed("one"))

    got = curl(proxy.gateway(origin.url("/spelling?a=1&b=%2F"), slashes=slashes), "--path-as-is")

    assert got.status == 200
    assert len(origin.asked("/spelling?a=1&b=%2F")) == 1


def test_redirect_stays_within_the_gateway(curl: Curl, proxy: Feedproxy, origin: Origin, path: str) -> None:
    origin.publish(path, b"", 302, Location="/elsewhere.html", Content_Type="text/html")
    origin.publish("/elsewhere.html", b"<html>hello</html>", Content_Type="text/html")

    got = curl.gateway(origin.url(path))

    assert got.status == 302
    assert got.head["location"] == proxy.gateway(origin.url("/elsewhere.html"))


def test_root_and_unknown_endpoints_are_answered_by_the_proxy(curl: Curl, proxy: Feedproxy) -> None:
    assert curl(proxy.base + "/").status == 200
    for own in ("/-/nothing", "/nothing"):
        got = curl(proxy.base + own)
        assert got.status == 404
        assert got.head["content-type"] == "application/problem+json"
    assert curl(proxy.base + "/http://user:secret@localhost/").status == 400


def test_response_has_one_via_member_of_the_proxy(fetch: Way, origin: Origin, path: str) -> None:
    origin.publish(path, a_feed("one"))

    for got in (fetch(path), fetch(path)):
        assert got.head["via"].startswith("1.1 feedproxy-")
        for name in ("date", "cache-status", "via", "content-type", "etag", "content-length"):
            assert got.heads.lower().count(f"\n{name}: ") == 1, name
