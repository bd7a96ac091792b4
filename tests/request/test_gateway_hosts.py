"""Host names at which the gateway answers."""

import pytest

from feedproxy.request import gateway_hosts
from feedproxy.request.gateway_hosts import is_gateway_host
from feedproxy.settings import Settings

NEVER_PUBLIC = [
    "127.0.0.1:8080",
    "192.0.2.7",
    "[::1]:8080",
    "[2001:db8::7]",
    "localhost:8080",
    "LOCALHOST.",
    "proxy:8080",
    "feed_proxy",
    "proxy.localhost",
    "proxy.local",
    "proxy.internal:8080",
    "PROXY.LAN",
    "proxy.home.arpa",
    "feedproxy.default.svc.cluster.local",
    "proxy.example.com",
    "feeds.office.example.org:8080",
]
"""Hosts that cannot be registered in the public DNS."""

FOREIGN = [
    "rebound.site",
    "rebound.site.",
    "rebound.site:8080",
    "127.0.0.1.rebound.site",
    "localhost.rebound.site",
    "proxy.lan.rebound.site",
    "home.arpa",
    "proxyexample.com",
    "example.com.rebound.site",
    "local.rebound",
    "rebound.site..",
    "reader@127.0.0.1.rebound.site",
    "127.0.0.1, rebound.site",
    "127.0.0.1:8080:1",
    "[::1].rebound.site",
    "[fe80::1%25eth0]",
    ":8080",
    "localhost/..",
]


@pytest.mark.parametrize("host", NEVER_PUBLIC)
def test_host_that_cannot_be_registered_is_accepted_by_default(host: str) -> None:
    assert is_gateway_host(host, Settings())


@pytest.mark.parametrize("host", FOREIGN)
def test_host_name_of_the_public_dns_and_invalid_host_are_refused_by_default(host: str) -> None:
    assert not is_gateway_host(host, Settings())


def test_name_of_the_machine_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway_hosts._machine_name.cache_clear()
    monkeypatch.setattr("socket.gethostname", lambda: "Feeds.Office.site")
    try:
        assert is_gateway_host("feeds.office.site:8080", Settings())
        assert not is_gateway_host("feeds.office.site.rebound.site", Settings())
    finally:
        gateway_hosts._machine_name.cache_clear()


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        (Settings(listen="proxy.office.site:8080"), "proxy.office.site:8080"),
        (Settings(public_url="https://Feeds.office.site/"), "feeds.office.site"),
        (Settings(public_url="https://feeds.office.site:8443/x"), "feeds.office.site:80"),
        (Settings(public_url="https://bücher.site/"), "xn--bcher-kva.site"),
        (Settings(gateway_hosts=("other.site", "Proxy.office.site.")), "proxy.office.site"),
        (Settings(gateway_hosts=("*.office.site",)), "proxy.office.site:8080"),
        (Settings(gateway_hosts=("*",)), "any.site"),
    ],
)
def test_host_name_that_an_option_names_is_accepted_at_the_gateway(settings: Settings, host: str) -> None:
    assert is_gateway_host(host, settings)
    assert not is_gateway_host(host, Settings())


@pytest.mark.parametrize("host", ["office.site", "notoffice.site", "proxy.office.site.rebound.site"])
def test_gateway_hosts_pattern_accepts_only_names_below_its_domain(host: str) -> None:
    assert not is_gateway_host(host, Settings(gateway_hosts=("*.office.site",)))
