"""The proxy's own address in responses to requests that name no host."""

import pytest

from feedproxy.http.message import Fields
from feedproxy.request.context import Entrance
from feedproxy.server.mitm.request_routing import IncomingRequest, client_context
from feedproxy.settings import Settings


@pytest.mark.parametrize(
    ("address", "base"), [("192.0.2.1", "http://192.0.2.1:8080"), ("2001:db8::1", "http://[2001:db8::1]:8080")]
)
def test_base_is_the_local_address_of_the_connection(address: str, base: str) -> None:
    head = IncomingRequest("GET", "/", Fields(), "192.0.2.7", (address, 8080))

    assert client_context(head, Settings(), Entrance.GATEWAY).base == base
