"""Address policy: addresses, names and ports that clients may and may not reach."""

import asyncio

import pytest

from feedproxy.errors import BadTarget, Forbidden, UsageError
from feedproxy.upstream import address_policy
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.resolver import Lookup
from feedproxy.upstream.special_networks import embedded_ipv4
from feedproxy.upstream.upstream_errors import Unreachable


def answering(*addresses: str) -> Lookup:
    async def lookup(host: str, port: int) -> list[str]:
        return list(addresses)

    return lookup


PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.1.1",
    "::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
]
NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "fd00:ec2::254",
    "192.0.0.1",
    "192.0.2.1",
    "198.51.100.7",
    "203.0.113.9",
    "198.18.0.1",
    "198.19.255.255",
    "192.88.99.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "100::1",
    "100:0:0:1::1",
    "64:ff9b:2::1",
    "1fff::1",
    "4000::1",
    "fe00::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2001:1ff::1",
    "3fff::1",
    "5f00::1",
    "ff02::1",
    "ff0e::1",
]
PUBLIC = "8.8.8.8 93.184.216.34 172.32.0.1 100.128.0.1 192.0.1.1 2606:2800:220:1::1 2a00::1 2001:4860::8888"
FORMS = {  # each leads to 127.0.0.1
    "::ffff:127.0.0.1": "IPv4-mapped",
    "::ffff:7f00:1": "IPv4-mapped",
    "::ffff:0:127.0.0.1": "IPv4-translated",
    "::127.0.0.1": "IPv4-compatible",
    "64:ff9b::7f00:1": "NAT64",
    "64:ff9b:1::7f00:1": "local NAT64",
    "2002:7f00:1::": "6to4",
    "2001:0:4136:e378:8000:63bf:80ff:fffe": "Teredo",
    "2a00:1450::5efe:127.0.0.1": "ISATAP",
    "2a00:1450::200:5efe:127.0.0.1": "ISATAP",
}


@pytest.mark.parametrize("ip", PRIVATE)
def test_private_address_is_refused_without_allow_private(ip: str) -> None:
    with pytest.raises(Forbidden, match="not a public address"):
        AddressPolicy().check_address(ip)
    AddressPolicy(allow_private=True).check_address(ip)


@pytest.mark.parametrize("ip", NEVER)
def test_special_purpose_address_is_refused_even_with_allow_private(ip: str) -> None:
    for allow_private in (False, True):
        with pytest.raises(Forbidden):
            AddressPolicy(allow_private).check_address(ip)


@pytest.mark.parametrize("ip", PUBLIC.split())
def test_globally_routable_ip_address_is_allowed(ip: str) -> None:
    AddressPolicy().check_address(ip)


@pytest.mark.parametrize(("ip", "form"), FORMS.items())
def test_translated_address_is_refused_or_with_allow_private_checked_by_its_ipv4_address(ip: str, form: str) -> None:
    import ipaddress

    assert str(embedded_ipv4(ipaddress.ip_address(ip))) == str((form, ipaddress.ip_address("127.0.0.1")))
    with pytest.raises(Forbidden, match=form):
        AddressPolicy().check_address(ip)
    AddressPolicy(allow_private=True).check_address(ip)


@pytest.mark.parametrize("ip", ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::ffff:0.0.0.0"])
def test_translated_address_of_metadata_service_is_refused_even_with_allow_private(ip: str) -> None:
    with pytest.raises(Forbidden):
        AddressPolicy(allow_private=True).check_address(ip)


def test_listed_network_is_allowed_and_adjacent_networks_are_refused() -> None:
    policy = AddressPolicy(networks=["10.1.0.0/16", "fd00:1::/32", "169.254.169.254"])
    for ip in ("10.1.2.3", "fd00:1::5", "169.254.169.254"):
        policy.check_address(ip)
    for ip in ("10.2.0.1", "fd00:2::1", "127.0.0.1", "::ffff:10.1.2.3"):
        with pytest.raises(Forbidden):
            policy.check_address(ip)


def test_listed_nat64_prefix_allows_public_addresses_only() -> None:
    policy = AddressPolicy(networks=["64:ff9b::/96"])

    policy.check_address("64:ff9b::808:808")
    with pytest.raises(Forbidden):
        policy.check_address("64:ff9b::7f00:1")


@pytest.mark.parametrize("ip", ["fe80::1%eth0", "fe80::1%25lo", "::1%1", "10.0.0.1%x", "", "example.com", "1.2.3"])
def test_invalid_address_or_zone_id_is_refused(ip: str) -> None:
    with pytest.raises(Forbidden):
        AddressPolicy(allow_private=True).check_address(ip)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "0X7F.0.0.1",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "0177.0.0.1",
        "010.0.0.1",
        "8.8.2056",
        "127.0.0.1..",
        "256.1.1.1",
        "1.2.3.4.5",
        "4294967296",
        "0x",
        "example.0x7f",
        "foo.127",
    ],
)
async def test_ipv4_address_in_nonstandard_form_is_refused_even_with_allow_private(host: str) -> None:
    with pytest.raises((Forbidden, BadTarget)):
        await AddressPolicy(True, lookup=answering("8.8.8.8")).resolve(host, 80)


@pytest.mark.parametrize("host", ["127.0.0.1.", "１２７.０.０.１", "127。0。0。1", "①27.0.0.1"])
async def test_loopback_address_with_final_dot_or_unicode_digits_is_refused(host: str) -> None:
    with pytest.raises(Forbidden):
        await AddressPolicy(lookup=answering("8.8.8.8")).resolve(host, 80)


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("under_score.example", "under_score.example"),
        ("127.0.0.1.nip.example", "127.0.0.1.nip.example"),
    ],
)
async def test_name_is_resolved_in_normal_form_and_its_address_checked(host: str, asked: str) -> None:
    names: list[str] = []

    async def lookup(name: str, port: int) -> list[str]:
        names.append(name)
        return ["8.8.8.8"]

    assert await AddressPolicy(lookup=lookup).resolve(host, 443) == ["8.8.8.8"]
    assert names == [asked]
    with pytest.raises(Unreachable):
        await AddressPolicy(lookup=answering("127.0.0.1")).resolve(host, 443)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "a..b",
        "a b",
        "a%2e",
        "example.com%00",
        "a@b",
        "a/b",
        "a\r\nb",
        "x" * 64,
        "exa%6dple.com",
        "[::1",
    ],
)
async def test_invalid_host_is_bad_target_or_forbidden(host: str) -> None:
    with pytest.raises((BadTarget, Forbidden)):
        await AddressPolicy(True, lookup=answering("8.8.8.8")).resolve(host, 80)


async def test_name_with_public_and_private_addresses_resolves_to_public_ones() -> None:
    mixed = AddressPolicy(lookup=answering("10.0.0.1", "8.8.8.8", "::1", "2a00:1450::1"))

    assert await mixed.resolve("mixed.example", 80) == ["8.8.8.8", "2a00:1450::1"]


async def test_resolved_addresses_are_logged_and_not_in_errors(caplog: pytest.LogCaptureFixture) -> None:
    """A client cannot tell an internal name from a name that does not exist: kind and text of the errors are equal."""
    caplog.set_level("INFO", "feedproxy")

    async def nothing(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    said = []
    for lookup in (answering("10.1.2.3"), answering("127.0.0.1", "::1"), nothing, answering()):
        with pytest.raises(Unreachable) as caught:
            await AddressPolicy(lookup=lookup).resolve("intranet.corp", 80)
        said.append((type(caught.value), str(caught.value)))

    assert set(said) == {(Unreachable, "intranet.corp cannot be resolved")}
    assert "intranet.corp: 10.1.2.3 is not a public address" in caplog.text
    assert "intranet.corp: Name or service not known" in caplog.text


async def test_ipv6_address_in_brackets_is_checked_without_lookup() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        raise AssertionError("looked up")

    policy = AddressPolicy(lookup=lookup)
    assert await policy.resolve("[2A00:1450:0:0::1]", 443) == ["2a00:1450::1"]
    for host in ("[::1]", "[::ffff:127.0.0.1]", "[fe80::1%25eth0]", "::1"):
        with pytest.raises(Forbidden):
            await policy.resolve(host, 443)


async def test_name_without_address_is_unreachable() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    for policy in (AddressPolicy(lookup=lookup), AddressPolicy(lookup=answering())):
        with pytest.raises(Unreachable):
            await policy.resolve("nowhere.example", 80)


@pytest.mark.parametrize("host", ["localhost", "feeds.LOCALHOST.", "127.0.0.1", "10.0.0.1", "[::1]", "127.1"])
def test_target_check_refuses_private_addresses_and_localhost_without_a_lookup(host: str) -> None:
    with pytest.raises(Forbidden):
        AddressPolicy().check_target(host, 80)
    AddressPolicy().check_target("feeds.example", 80)


@pytest.mark.parametrize("network", ["127.0.0.0/8", "127.0.0.2/32", "::1/128"])
def test_target_check_permits_localhost_if_a_loopback_network_is_permitted(network: str) -> None:
    AddressPolicy(networks=(network,)).check_target("localhost", 80)


def test_target_check_refuses_ports_that_are_not_permitted() -> None:
    with pytest.raises(Forbidden):
        AddressPolicy().check_target("feeds.example", 9999)


async def test_name_localhost_of_system_resolver_is_refused_without_allow_private() -> None:
    assert set(await AddressPolicy(allow_private=True).resolve("localhost", 80)) <= {"127.0.0.1", "::1"}
    with pytest.raises(Forbidden):
        await AddressPolicy().resolve("localhost", 80)


def test_port_outside_list_and_ranges_is_refused() -> None:
    policy = AddressPolicy(ports=["80", "443", "1025-2000"])

    for port in (80, 443, 1025, 2000):
        policy.check_port(port)
    for port in (0, 22, 25, 81, 1024, 2001, 6379):
        with pytest.raises(Forbidden):
            policy.check_port(port)


def test_high_ports_are_permitted_with_private_addresses() -> None:
    for port in (80, 1025, 65_535):
        AddressPolicy(allow_private=True).check_port(port)
    for port in (22, 1024):
        with pytest.raises(Forbidden):
            AddressPolicy(allow_private=True).check_port(port)


async def test_port_is_checked_before_lookup() -> None:
    with pytest.raises(Forbidden, match="port 25"):
        await AddressPolicy(True, lookup=answering()).resolve("example.com", 25)


@pytest.mark.parametrize("ports", [["http"], ["0"], ["65536"], ["5-1"], ["-"], [""]])
def test_port_option_that_is_invalid_is_rejected(ports: list[str]) -> None:
    with pytest.raises(UsageError):
        AddressPolicy(ports=ports)


def test_network_option_that_is_invalid_is_rejected_with_its_value() -> None:
    with pytest.raises(UsageError, match=r"10\.0\.0\.0/99"):
        AddressPolicy(networks=["10.0.0.0/99"])


async def test_name_server_that_never_answers_is_unreachable_after_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """mitmproxy's own timeout is suspended during the address check."""

    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(address_policy, "LOOKUP_TIMEOUT", 0.01)
    with pytest.raises(Unreachable):
        await AddressPolicy(lookup=never).resolve("slow.example", 443)
