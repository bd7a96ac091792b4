"""The inner names of aiohttp that wire.py stands on: a release that moves one of them fails here."""

import asyncio

import aiohttp
from aiohttp.client_proto import ResponseHandler

from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.connection_pool import CheckedResolver, OriginConnector, OriginProtocol
from tests.upstream.raw import OK, a_fetcher, a_get, origin


async def test_aiohttps_connector_still_makes_its_protocols_with_a_factory() -> None:
    plain = aiohttp.TCPConnector()
    assert plain._factory.func is ResponseHandler
    await plain.close()

    exact = OriginConnector(
        CheckedResolver(AddressPolicy().resolve),
        ssl_context=None, open_connections=set(),
    )  # fmt: skip
    assert isinstance(exact._factory(), OriginProtocol)
    await exact.close()


async def test_aiohttps_protocol_still_has_what_is_overridden_and_read() -> None:
    protocol = ResponseHandler(asyncio.get_running_loop())

    for name in ("connection_lost", "set_exception", "force_close", "is_connected", "close"):
        assert callable(getattr(protocol, name)), name
    assert protocol.transport is None
    assert not protocol.should_close
    protocol.force_close()
    assert protocol.should_close


async def test_every_connection_of_a_fetcher_is_an_exact_one() -> None:
    async with origin(OK) as raw, a_fetcher() as fetcher:
        await fetcher.fetch(a_get(raw.url()))
        (protocol,) = fetcher._open
        assert isinstance(protocol, OriginProtocol)
