"""The network that counts as one client."""

import pytest

from feedproxy.client_network import client_network


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8::7", "2001:db8::/64"),
        ("2001:db8::ffff:1:2:3", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", "not an address"),
        ("x" * 1000, "x" * 64),
        ("", ""),
    ],
)
def test_client_network_is_ipv4_address_or_ipv6_64(address: str, counted: str) -> None:
    assert client_network(address) == counted
