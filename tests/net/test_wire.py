"""The inner names of aiohttp that wire.py stands on: a release that moves one of them fails here."""

import asyncio
import inspect
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

from feedproxy.net.address import AddressPolicy
from feedproxy.net.wire import CheckedResolver, ExactConnector, ExactProtocol, Latin1Transport
from tests.net.raw import OK, a_fetcher, a_get, origin


async def test_aiohttps_connector_still_makes_its_protocols_with_a_factory() -> None:
    plain = aiohttp.TCPConnector()
    assert plain._factory.func is ResponseHandler
    await plain.close()

    exact = ExactConnector(
        CheckedResolver(AddressPolicy().resolve),
        ssl_context=None, connections=1, per_host=1, head_max=1, open_connections=set(),
    )  # fmt: skip
    assert isinstance(exact._factory(), ExactProtocol)
    await exact.close()


async def test_aiohttps_protocol_still_has_what_is_overridden_and_read() -> None:
    protocol = ResponseHandler(asyncio.get_running_loop())

    for name in (
        "set_response_params",
        "feed_data",
        "data_received",
        "connection_lost",
        "set_exception",
        "force_close",
    ):
        assert callable(getattr(protocol, name)), name
    for name in ("_payload", "_parser", "transport"):
        assert hasattr(protocol, name), name
    parameters = inspect.signature(ResponseHandler.set_response_params).parameters
    assert {"skip_payload", "max_line_size", "max_field_size"} <= set(parameters)


async def test_every_connection_of_a_fetcher_is_an_exact_one() -> None:
    async with origin(OK) as raw, a_fetcher() as fetcher:
        await fetcher.fetch(a_get(raw.url()))
        (protocol,) = fetcher._open
        assert isinstance(protocol, ExactProtocol)
        assert isinstance(protocol.transport, Latin1Transport)


def test_a_head_is_written_in_the_bytes_its_characters_stand_for() -> None:
    class Sink:
        written = b""

        def write(self, data: bytes) -> None:
            self.written += data

    transport = Latin1Transport(cast(Any, sink := Sink()))
    transport.write("X: caf\xe9\xff\r\n".encode())
    transport.write(b"Y: plain\r\n")

    assert sink.written == b"X: caf\xe9\xff\r\nY: plain\r\n"
