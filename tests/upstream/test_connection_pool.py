"""Private members of aiohttp that the connection pool depends on."""

import asyncio

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler

from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.connection_pool import IDLE_MAX, CheckedResolver, OriginConnector, OriginProtocol
from feedproxy.upstream.origin_client import FetchLimits
from tests.upstream.raw import OK, a_fetcher, a_get, origin


async def test_aiohttp_connector_creates_protocols_with_factory() -> None:
    plain = aiohttp.TCPConnector()
    assert plain._factory.func is ResponseHandler
    await plain.close()

    exact = OriginConnector(
        CheckedResolver(AddressPolicy().resolve),
        ssl_context=None, open_connections=set(),
    )  # fmt: skip
    assert isinstance(exact._factory(), OriginProtocol)
    await exact.close()


async def test_aiohttp_protocol_has_the_members_that_are_overridden_or_read() -> None:
    protocol = ResponseHandler(asyncio.get_running_loop())

    for name in ("connection_lost", "set_exception", "force_close", "is_connected", "close"):
        assert callable(getattr(protocol, name)), name
    assert protocol.transport is None
    assert not protocol.should_close
    protocol.force_close()
    assert protocol.should_close


async def test_fetcher_connections_are_origin_protocols() -> None:
    async with origin(OK) as raw, a_fetcher() as fetcher:
        await fetcher.fetch(a_get(raw.url()))
        (protocol,) = fetcher._open
        assert isinstance(protocol, OriginProtocol)


async def test_idle_connection_closes_itself_after_the_longest_pause() -> None:
    async with origin(OK) as raw, a_fetcher() as fetcher:
        await fetcher.fetch(a_get(raw.url()))
        (protocol,) = fetcher._open
        assert isinstance(protocol, OriginProtocol)
        protocol._check()
        assert protocol.is_connected()

        protocol._received_at -= IDLE_MAX
        protocol._check()

        assert not protocol.is_connected()


@pytest.mark.parametrize("read_timeout", [1, 60])
async def test_check_of_an_idle_connection_does_not_delay_the_timeout_of_the_next_request(read_timeout: float) -> None:
    async with origin(OK) as raw, a_fetcher(FetchLimits(first_byte=read_timeout)) as fetcher:
        await fetcher.fetch(a_get(raw.url()))
        (protocol,) = fetcher._open
        assert isinstance(protocol, OriginProtocol)
        protocol._check()
        await fetcher.fetch(a_get(raw.url()))

        assert protocol._watch is not None
        assert protocol._watch.when() <= protocol._sent_at + read_timeout
