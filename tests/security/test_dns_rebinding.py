"""The gateway refuses requests that a web page of another site can cause by DNS rebinding, on both listeners."""

import pytest

from feedproxy.upstream.address_policy import AddressPolicy
from tests.security.conftest import bases
from tests.security.wire import exchange, head_of, raw_origin, status_of
from tests.stages.front import OnFront

pytestmark = pytest.mark.asyncio(loop_scope="module")

REBOUND = "rebound.site"
LISTENERS = ["fast path", "mitmproxy"]
FEED = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: 6\r\n\r\n<rss/>"


def a_get(path: str, host: str, *fields: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *fields, "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize(
    "path", ["target", "/", "/robots.txt", "/-/feeds.opml", "/-/none", "/RPC2", "/example.com/feed"]
)
async def test_every_path_of_the_gateway_is_refused_at_a_foreign_name(stage: OnFront, listener: str, path: str) -> None:
    base = bases(stage)[listener]
    async with raw_origin(FEED) as origin:
        path = f"/{origin.base}/{listener[0]}.xml" if path == "target" else path

        said = await exchange(base, a_get(path, f"{REBOUND}:{base.rpartition(':')[2]}"))

        assert status_of(said) == 421
        assert b"feedproxy; detail=wrong-host" in head_of(said)
        assert b"content-security-policy: sandbox" in head_of(said).lower()
        assert b"gateway_hosts" in said
        assert not origin.received


@pytest.mark.parametrize("listener", LISTENERS)
async def test_hit_for_another_host_is_refused_at_a_foreign_name(stage: OnFront, listener: str) -> None:
    async with raw_origin(FEED) as origin:
        path = f"/{origin.base}/hit.xml"
        for _ in range(4):
            assert status_of(await exchange(bases(stage)[listener], a_get(path, "proxy"))) == 200

        assert status_of(await exchange(bases(stage)[listener], a_get(path, REBOUND))) == 421
        assert len(origin.connections) == 1


@pytest.mark.parametrize("listener", LISTENERS)
async def test_removal_of_a_name_from_gateway_hosts_ends_hits_at_this_name(stage: OnFront, listener: str) -> None:
    base = bases(stage)[listener]
    async with raw_origin(FEED) as origin:
        path = f"/{origin.base}/option.xml"
        stage._master.options.update(gateway_hosts=["office.site"])
        try:
            for _ in range(4):
                assert status_of(await exchange(base, a_get(path, "office.site"))) == 200
        finally:
            stage._master.options.update(gateway_hosts=[])

        assert status_of(await exchange(base, a_get(path, "office.site"))) == 421


@pytest.mark.parametrize("listener", LISTENERS)
async def test_absolute_form_that_names_the_proxy_by_a_foreign_name_is_refused(
    stage: OnFront, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def addresses(policy: AddressPolicy, host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(AddressPolicy, "addresses", addresses)
    base = bases(stage)[listener]
    authority = f"{REBOUND}:{base.rpartition(':')[2]}"
    for host in (authority, "127.0.0.1"):
        said = await exchange(base, a_get(f"http://{authority}/-/feeds.opml", host))
        assert status_of(said) == 421, host
    named = f"proxy:{base.rpartition(':')[2]}"
    assert status_of(await exchange(base, a_get(f"http://{named}/-/feeds.opml", REBOUND))) == 200


@pytest.mark.parametrize("listener", LISTENERS)
async def test_host_that_a_trusted_proxy_states_is_checked_beside_host(stage: OnFront, listener: str) -> None:
    base = bases(stage)[listener]
    stage._master.options.update(trusted_proxies=["127.0.0.1"], forwarded_by="forwarded")
    try:
        for host, stated, status in (
            ("proxy", "proxy.lan", 200),
            ("proxy", REBOUND, 421),
            (REBOUND, "proxy.lan", 421),
        ):
            said = await exchange(base, a_get("/", host, f"Forwarded: for=192.0.2.7;host={stated}"))
            assert status_of(said) == status, (host, stated)
    finally:
        stage._master.options.update(trusted_proxies=[], forwarded_by="x-forwarded-for")


@pytest.mark.parametrize("listener", LISTENERS)
async def test_request_without_host_is_served_at_the_gateway(stage: OnFront, listener: str) -> None:
    assert status_of(await exchange(bases(stage)[listener], b"GET / HTTP/1.0\r\n\r\n")) == 200


@pytest.mark.parametrize("listener", LISTENERS)
async def test_explicit_proxy_serves_every_host(stage: OnFront, listener: str) -> None:
    async with raw_origin(FEED) as origin:
        assert status_of(await exchange(bases(stage)[listener], a_get(f"{origin.base}/x.xml", REBOUND))) == 200
