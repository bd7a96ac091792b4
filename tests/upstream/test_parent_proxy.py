"""Requests through a parent proxy (`upstream_proxy`): address checks, request forms and failures."""

import base64
import logging
import socket
from typing import Any

import pytest

from feedproxy.errors import FeedproxyError, Forbidden, LoopDetected, Overload
from feedproxy.http.message import Fields
from feedproxy.upstream import parent_proxy_tunnel
from feedproxy.upstream.address_policy import AddressTrust
from feedproxy.upstream.callback_client import CallbackClient
from feedproxy.upstream.fetch_result import Fetched
from feedproxy.upstream.origin_client import Fetcher, FetchLimits
from feedproxy.upstream.own_listeners import OwnListeners
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.tls_probe import probe_certificate
from feedproxy.upstream.upstream_errors import FetchTimeout, ParentFailed, ParentRefused, Unreachable
from tests.upstream.parents import Played, a_parent
from tests.upstream.raw import OK, a_fetcher, a_get, a_policy, origin, play
from tests.upstream.test_tls_probe import Authority

HOST = "feeds.example.com"
PASSWORD = "s3cret-of-the-parent"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


async def unknown(host: str, port: int) -> list[str]:
    if host == "127.0.0.1":  # the parent, which is written out
        return [host]
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def through(parent: Parent | None, **options: Any) -> Fetcher:
    policy = a_policy(lookup=options.pop("lookup", here), **options.pop("policy", {}))
    return a_fetcher(policy=policy, parent_of=lambda target: parent, **options)


async def body(fetcher: Fetcher, url: str) -> bytes:
    answer = await fetcher.fetch(a_get(url))
    assert isinstance(answer, Fetched)
    return answer.response.body


# -- what goes out


async def test_http_request_to_http_parent_has_absolute_form() -> None:
    async with origin(OK) as raw, a_parent() as played, through(played.parent()) as fetcher:
        assert await body(fetcher, raw.url("/feed?a=%2f", HOST)) == b"ok"
        where = f"{HOST}:{raw.port}"
        assert played.heads == [f"GET http://{where}/feed?a=%2f HTTP/1.1\r\nHost: {where}\r\n\r\n".encode()]


async def test_connection_to_http_parent_is_reused_for_other_hosts() -> None:
    async with origin(OK) as raw, a_parent() as played, through(played.parent()) as fetcher:
        for host in (HOST, "other.example.org"):
            await body(fetcher, raw.url("/feed", host))
        assert played.connections == 1


async def test_https_request_uses_connect_and_verifies_origin_certificate(authority: Authority) -> None:
    trust = authority.trusting()
    async with origin(OK, tls=authority.serving(HOST)) as raw, a_parent() as played:
        async with through(played.parent(), ssl_context=trust) as fetcher:
            assert await body(fetcher, raw.url("/a", HOST)) == b"ok"
            assert await body(fetcher, raw.url("/b", HOST)) == b"ok"
        assert played.asked == [f"{HOST}:{raw.port}"]  # the tunnel is kept for the second request
        assert raw.heads[0].startswith(b"GET /a HTTP/1.1\r\n")


async def test_https_request_rejects_certificate_of_another_name_in_tunnel(authority: Authority) -> None:
    async with origin(OK, tls=authority.serving("other.example.com")) as raw, a_parent() as played:
        async with through(played.parent(), ssl_context=authority.trusting()) as fetcher:
            with pytest.raises(Unreachable, match="its certificate is not trusted") as caught:
                await fetcher.fetch(a_get(raw.url("/feed", HOST)))
        assert not isinstance(caught.value, ParentRefused)
        assert raw.heads == []


@pytest.mark.parametrize(("scheme", "asked"), [("socks5", "127.0.0.1"), ("socks5h", HOST)])
async def test_socks5_parent_receives_checked_address_and_socks5h_the_name(scheme: str, asked: str) -> None:
    async with origin(OK) as raw, a_parent("socks5") as played, through(played.parent(scheme)) as fetcher:
        assert await body(fetcher, raw.url("/feed", HOST)) == b"ok"
        assert played.asked == [f"{asked}:{raw.port}"]
        assert raw.heads[0].startswith(b"GET /feed HTTP/1.1\r\n")


async def test_socks5_parent_carries_https(authority: Authority) -> None:
    async with (
        origin(OK, tls=authority.serving(HOST)) as raw,
        a_parent("socks5") as played,
        through(played.parent(), ssl_context=authority.trusting()) as fetcher,
    ):
        assert await body(fetcher, raw.url("/feed", HOST)) == b"ok"


async def test_connections_of_two_parents_are_separate() -> None:
    async with origin(OK) as raw, a_parent() as first, a_parent() as second:
        parents = {"/a": first.parent(), "/b": second.parent(), "/c": None}
        fetcher = a_fetcher(policy=a_policy(lookup=here), parent_of=lambda target: parents[target[-2:]])
        async with fetcher:
            for path in ("/a", "/b", "/c", "/b", "/a"):
                await body(fetcher, raw.url(path, HOST))
        assert [len(first.asked), len(second.asked), len(raw.heads)] == [2, 2, 5]


# -- credentials


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("tls", [False, True])
async def test_credentials_reach_the_parent_and_neither_origin_nor_log(
    scheme: str, tls: bool, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    encoded = base64.b64encode(f"feedproxy:{PASSWORD}".encode())
    async with (
        origin(OK, tls=authority.serving(HOST) if tls else None) as raw,
        a_parent(scheme, user="feedproxy", password=PASSWORD) as played,
    ):
        parent = played.parent(user="feedproxy", password=PASSWORD)
        async with through(parent, ssl_context=authority.trusting()) as fetcher:
            assert await body(fetcher, raw.url("/feed", HOST)) == b"ok"
        assert PASSWORD not in repr(parent) + str(parent)
    assert b"roxy-" not in raw.heads[0]
    assert encoded not in raw.heads[0]
    assert PASSWORD not in caplog.text
    assert encoded.decode() not in caplog.text


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("tls", [False, True])
async def test_credentials_that_parent_refuses_are_parent_failure(scheme: str, tls: bool, authority: Authority) -> None:
    async with (
        origin(OK, tls=authority.serving(HOST) if tls else None) as raw,
        a_parent(scheme, user="feedproxy", password="right") as played,
    ):
        parent = played.parent(user="feedproxy", password=PASSWORD)
        async with through(parent, ssl_context=authority.trusting()) as fetcher:
            with pytest.raises(ParentFailed, match=f"{scheme}://127.0.0.1:{played.port} .upstream_proxy.") as caught:
                await fetcher.fetch(a_get(raw.url("/feed", HOST)))
    assert PASSWORD not in str(caught.value)
    assert raw.heads == []


async def test_socks5_parent_that_requires_absent_credentials_is_parent_failure() -> None:
    async with a_parent("socks5", user="a", password="b") as played, through(played.parent()) as fetcher:
        with pytest.raises(ParentFailed, match="upstream_proxy"):
            await fetcher.fetch(a_get("http://feeds.example.com/"))


# -- what is checked here


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
@pytest.mark.parametrize(
    ("address", "error"),
    [("http://10.0.0.1/", Forbidden), ("http://inside.example.com/", Unreachable), ("http://inside/", Unreachable)],
)
@pytest.mark.parametrize("tls", [False, True])
async def test_private_target_is_refused_without_request_to_parent(
    scheme: str, address: str, error: type[FeedproxyError], tls: bool
) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]  # one address that is not permitted is enough: the parent may take it

    address = address.replace("http:", "https:") if tls else address
    async with a_parent(scheme.rstrip("h") if scheme == "socks5h" else scheme) as played:
        options = {"allow_private": False, "ports": ("80", "443")}
        async with through(played.parent(scheme), lookup=lookup, policy=options) as fetcher:
            with pytest.raises(error):
                await fetcher.fetch(a_get(address))
            with pytest.raises(Forbidden, match="port 25"):
                await fetcher.fetch(a_get("http://feeds.example.com:25/"))
        assert played.connections == 0


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
async def test_public_name_that_cannot_be_resolved_is_sent_to_http_or_socks5h_parent(scheme: str) -> None:
    async with origin(OK) as raw, a_parent("http" if scheme == "http" else "socks5") as played:
        async with through(played.parent(scheme), lookup=unknown) as fetcher:
            assert await body(fetcher, raw.url("/feed", HOST)) == b"ok"
            for inside in ("inside", "feeds.corp", "feeds.internal", "feeds.home.arpa"):
                with pytest.raises(Unreachable):
                    await fetcher.fetch(a_get(raw.url("/feed", inside)))
        assert len(played.asked) == 1


async def test_name_that_cannot_be_resolved_is_not_sent_to_socks5_parent() -> None:
    async with a_parent("socks5") as played, through(played.parent(), lookup=unknown) as fetcher:
        with pytest.raises(Unreachable):
            await fetcher.fetch(a_get("http://feeds.example.com/"))
        assert played.connections == 0


async def test_parent_that_is_own_listener_is_refused_as_loop() -> None:
    listeners = OwnListeners()
    async with a_parent() as played:
        listeners.add(played.port, for_readers=True)
        async with through(played.parent(), policy={"listeners": listeners}) as fetcher:
            for target in ("http://feeds.example.com:81/", "https://feeds.example.com:81/"):
                with pytest.raises(LoopDetected, match="upstream_proxy"):
                    await fetcher.fetch(a_get(target))
        assert played.connections == 0


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_exempt_upstream_uses_parent_without_address_check(scheme: str) -> None:
    async with origin(OK) as raw, a_parent(scheme) as played:
        async with through(played.parent(), policy={"allow_private": False, "ports": ("1",)}) as fetcher:
            answer = await fetcher.fetch(a_get(raw.url("/feed", "inside")), skip_address_check=True)
            assert isinstance(answer, Fetched)
        assert len(played.asked) == 1


# -- whose failure it is


async def failing(played: Played, target: str, **options: object) -> FeedproxyError:
    async with through(played.parent(), **options) as fetcher:
        with pytest.raises(FeedproxyError) as caught:
            await fetcher.fetch(a_get(target))
    return caught.value


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("target", ["http://feeds.example.com:81/", "https://feeds.example.com:81/"])
async def test_parent_that_is_down_is_named_as_parent_failure(scheme: str, target: str) -> None:
    async with a_parent(scheme) as played:
        pass
    error = await failing(played, target)
    assert isinstance(error, ParentFailed)
    assert isinstance(error, Overload)
    assert str(error) == (
        f"the parent proxy {scheme}://127.0.0.1:{played.port} (upstream_proxy) cannot be reached: Connection refused"
    )


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_parent_that_accepts_no_connection_is_parent_failure(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent_proxy_tunnel, "CONNECT_TIMEOUT", 0.1)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # as many as this wait to be accepted; the next one gets no answer
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        parent = Parent(scheme, "127.0.0.1", full.getsockname()[1])
        async with through(parent) as fetcher:
            with pytest.raises(ParentFailed, match=r"it does not respond in 0\.1 s"):
                await fetcher.fetch(a_get("https://feeds.example.com/"))


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_parent_that_sends_nothing_exceeds_connect_timeout(scheme: str) -> None:
    async with origin(OK) as silent:
        silent.script = [play(then="hold")]
        parent = Parent(scheme, "127.0.0.1", silent.port)
        async with through(parent, limits=FetchLimits(connect=0.1)) as fetcher:
            with pytest.raises(FetchTimeout, match=r"the parent proxy .* \(upstream_proxy\) in 0.1 s"):
                await fetcher.fetch(a_get("https://feeds.example.com/"))
            assert not fetcher._open


@pytest.mark.parametrize("status", [403, 502, 503])
async def test_parent_that_refuses_connect_is_named(status: int) -> None:
    async with a_parent(answer=b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status) as played:
        error = await failing(played, "https://feeds.example.com/")
    assert isinstance(error, ParentRefused)
    assert error.detail == "parent-proxy"
    assert str(error).endswith(f"the parent proxy {played.parent()} (upstream_proxy) answered {status} to CONNECT")


async def test_parent_without_http_is_parent_failure() -> None:
    async with a_parent(answer=b"SSH-2.0-OpenSSH\r\n\r\n") as played:
        error = await failing(played, "https://feeds.example.com/")
    assert isinstance(error, ParentFailed)
    assert "no valid response to CONNECT" in str(error)


async def test_socks5_parent_refusal_is_named() -> None:
    async with a_parent("socks5", answer=b"\x02") as played:
        error = await failing(played, "https://feeds.example.com/")
    assert isinstance(error, ParentRefused)
    assert "connection not allowed by its rules" in str(error)


async def test_origin_error_is_returned_unchanged() -> None:
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
    async with origin(answer) as raw, a_parent() as played, through(played.parent()) as fetcher:
        got = await fetcher.fetch(a_get(raw.url("/feed", HOST)))
        assert isinstance(got, Fetched)
        assert got.response.status == 403


# -- other ways out


def a_caller(parent: Parent, **options: object) -> CallbackClient:
    return CallbackClient(a_policy(lookup=here, **options), parent_of=lambda target: parent)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_callback_is_called_through_the_parent(scheme: str) -> None:
    async with origin(OK) as raw, a_parent(scheme, user="feedproxy", password=PASSWORD) as played:
        caller = a_caller(played.parent(user="feedproxy", password=PASSWORD))
        answer = await caller.call("GET", raw.url("/callback", HOST), Fields([("User-Agent", "feedproxy")]))
        await caller.close()
        assert (answer.status, len(played.asked)) == (200, 1)
        assert raw.heads[0].startswith(b"GET /callback HTTP/1.1\r\n")
        assert b"roxy-A" not in raw.heads[0]


async def test_calls_to_private_address_are_refused_without_request_to_parent() -> None:
    async with a_parent() as played:
        caller = a_caller(played.parent(), allow_private=False)
        for scheme in ("http", "https"):
            for named in (AddressTrust.UNTRUSTED, AddressTrust.CONFIGURED_NAME):
                with pytest.raises(Unreachable):
                    await caller.call("POST", f"{scheme}://{HOST}/callback", body=b"x", trust=named)
        await caller.close()
        assert played.connections == 0


async def test_calls_report_parent_that_refuses_credentials() -> None:
    async with a_parent(user="feedproxy", password="right") as played:
        caller = a_caller(played.parent(user="feedproxy", password=PASSWORD))
        for scheme in ("http", "https"):
            with pytest.raises(ParentFailed, match="407"):
                await caller.call("POST", f"{scheme}://{HOST}/callback", body=b"x")
        await caller.close()


async def test_certificate_probe_uses_parent(authority: Authority) -> None:
    async with origin(OK, tls=authority.serving(HOST)) as raw, a_parent() as played:
        shown = await probe_certificate(
            HOST, raw.port, a_policy(lookup=here), timeout=5, context=authority.trusting, parent=played.parent()
        )
        assert shown.version == "TLSv1.3"
        assert played.asked == [f"{HOST}:{raw.port}"]
