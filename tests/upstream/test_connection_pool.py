"""Private members of aiohttp that the connection pool depends on."""

import asyncio

import aiohttp
from aiohttp.client_proto import ResponseHandler

from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.connection_pool import CheckedResolver, OriginConnector, OriginProtocol
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
