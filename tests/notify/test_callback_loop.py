"""Callbacks that are refused, and the addresses that names configured by the operator may lead to."""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

import pytest

from feedproxy.errors import BadTarget, Forbidden
from feedproxy.http.message import Fields
from feedproxy.notify.callback_loop import is_callback_to_self
from feedproxy.notify.cnws.cnws_messages import write_subscribe
from feedproxy.notify.cnws.publisher import Publisher
from feedproxy.notify.websub import signatures_and_tokens
from feedproxy.settings import Settings
from feedproxy.upstream.address_policy import AddressPolicy, AddressTrust
from feedproxy.upstream.callback_client import CallbackClient
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.clouds import call, clouds_on
from tests.stages.notify import TARGET, Stand
from tests.stages.origin import a_feed
from tests.stages.websub import WebSubStand, websub_at

OFFICE = Settings(public_url="https://feeds.example/")
PUBLISHER = Settings(public_url="https://feeds.example/", upstream="http://origin.example/")
BASE = "http://10.0.0.1:8080"


@pytest.mark.parametrize(
    ("settings", "callback", "back"),
    [
        (OFFICE, "https://feeds.example/-/ping", True),
        (OFFICE, "http://feeds.example/-/RPC2", True),
        (OFFICE, "https://FEEDS.example/http://victim.example/", True),
        (OFFICE, "http://10.0.0.1:8080/-/cnws", True),
        (OFFICE, "http://10.0.0.1:8081/-/cnws", False),
        (OFFICE, "https://other.example/-/ping", False),
        (PUBLISHER, "https://feeds.example/-/hub", True),
        (PUBLISHER, "https://feeds.example/reader/callback", False),
    ],
)
def test_own_callback_is_recognised(settings: Settings, callback: str, back: bool) -> None:
    assert is_callback_to_self(callback, settings, BASE) is back


@pytest.mark.parametrize("path", ["/-/ping", "/-/RPC2", "/http://victim.example/feed"])
async def test_rsscloud_refuses_callback_to_self(stand_at: Callable[..., Any], path: str) -> None:
    clouds = await clouds_on(stand_at)
    clouds.stand.origin.publish("/feed.xml", a_feed("one"))
    await clouds.stand.read()
    given = {"protocol": "http-post", "port": 80, "path": path, "domain": "proxy.example", "url1": TARGET}

    answer = await clouds.hub.by_form(call("pleaseNotify", urlencode(given).encode()))

    assert b'success="false" msg="the callback leads back to this proxy"' in answer.body
    assert clouds.stand.others.calls == []


@pytest.mark.parametrize("procedure", ["rssCloud.ping", "rssCloud.hello", "xmlStorageSystem.rssPleaseNotify"])
async def test_rsscloud_refuses_procedure_of_clouds(stand_at: Callable[..., Any], procedure: str) -> None:
    clouds = await clouds_on(stand_at)
    clouds.stand.origin.publish("/feed.xml", a_feed("one"))
    await clouds.stand.read()
    parameters = (procedure, 80, "/RPC2", "xml-rpc", [TARGET], "cloud.example")

    assert await clouds.hub.by_rpc(parameters, call("RPC2")) is False
    assert clouds.stand.others.calls == []


async def test_cnws_refuses_callback_to_self(stand: Stand) -> None:
    publisher = Publisher(stand.notifications)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    stand.others.at = {"proxy.example": ["192.0.2.7"]}

    answer = await publisher.endpoint(call("cnws", write_subscribe(TARGET, "http://proxy.example/-/cnws")))

    assert b"<status>false</status>" in answer.body
    assert stand.others.calls == []


# -- addresses from the configuration


def caller(found: Sequence[str]) -> CallbackClient:
    async def lookup(host: str, port: int) -> Sequence[str]:
        return found

    return CallbackClient(AddressPolicy(lookup=lookup))


@pytest.mark.parametrize("found", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::ffff:10.0.0.5"])
async def test_configured_callback_name_does_not_reach_private_address(found: str) -> None:
    calling = caller([found])
    try:
        with pytest.raises(Unreachable):  # the same error as for a name that does not exist
            await calling.call("GET", "http://sink.example:10080/", trust=AddressTrust.CONFIGURED_NAME)
    finally:
        await calling.close()


async def test_failure_of_a_callback_at_an_invalid_international_name_is_an_expected_error() -> None:
    calling = caller([])
    try:
        with pytest.raises(Unreachable, match=r"xn--a\.example"):
            await calling.call("GET", "http://xn--a.example/")
    finally:
        await calling.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "sink.localhost"])
async def test_configured_address_is_called_at_any_port(host: str, unused_tcp_port: int) -> None:
    calling = caller(["127.0.0.1"])
    try:
        with pytest.raises(Unreachable):  # no server listens, but the connection was tried
            await calling.call("GET", f"http://{host}:{unused_tcp_port}/", trust=AddressTrust.CONFIGURED_NAME)
        with pytest.raises(Forbidden):
            await calling.call("GET", f"http://{host}:{unused_tcp_port}/")
    finally:
        await calling.close()


async def test_localhost_with_public_address_is_not_called() -> None:
    with pytest.raises(Forbidden):
        await AddressPolicy(lookup=_metadata).resolve_configured("localhost", 80)


async def _metadata(host: str, port: int) -> Sequence[str]:
    return ["169.254.169.254"]


# -- the size limit of a push


def test_sealed_token_is_recognised_only_with_the_secret_that_sealed_it() -> None:
    token = signatures_and_tokens.sealed_token(b"ours")

    assert signatures_and_tokens.is_sealed(b"ours", token)
    assert token != signatures_and_tokens.sealed_token(b"ours")
    for other in (signatures_and_tokens.sealed_token(b"theirs"), token[:-1], token + "0", "", "é" * 40):
        assert not signatures_and_tokens.is_sealed(b"ours", other)


async def test_push_content_limit_is_that_of_fetch_at_known_callback(stand_at: Callable[..., Any]) -> None:
    made: WebSubStand = await websub_at(stand_at, buffer_max=7_000_000)
    pushes, token = made.subscriber_callback, signatures_and_tokens.sealed_token(b"a key")

    assert pushes.content_max(f"push/websub/1.{token}") == 7_000_000
    assert pushes.content_max("push/websub/1.guess") == 65_536


@pytest.mark.parametrize("field", [("X-A", "a\x01b"), ("X-A", "a\r\nX-B: c"), ("X\0A", "b"), ("", "b")])
async def test_callback_request_omits_invalid_field(field: tuple[str, str]) -> None:
    calling = caller(["192.0.2.1"])
    try:
        with pytest.raises(BadTarget, match="invalid field"):
            await calling.call("POST", "http://callback.example/", Fields([field]))
    finally:
        await calling.close()
