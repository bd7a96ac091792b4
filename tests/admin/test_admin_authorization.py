"""Access control of the admin listener."""

import base64

import pytest

from feedproxy.admin.admin_authorization import AdminAuthorization, admin_address
from feedproxy.errors import UsageError

OURS = {"Host": "127.0.0.1:8081"}


def _status(authorization: AdminAuthorization, method: str = "GET", path: str = "/", **headers: str) -> int | None:
    given = {**OURS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    refusal = authorization.refuse(method, path, given)
    return refusal.status if refusal else None


@pytest.mark.parametrize("admin", ["127.0.0.1:8081", "[::1]:0", "localhost:8081", "127.3.2.1:1", "8081"])
def test_token_is_not_required_on_loopback(admin: str) -> None:
    admin_address(admin, "")


@pytest.mark.parametrize("admin", ["0.0.0.0:8081", ":8081", "[::]:8081", "192.0.2.7:8081", "proxy.example:8081"])
def test_admin_address_outside_of_loopback_without_a_token_is_refused(admin: str) -> None:
    with pytest.raises(UsageError, match="admin_token"):
        admin_address(admin, "")
    admin_address(admin, "secret")


@pytest.mark.parametrize("admin", ["808100", "127.0.0.1", "127.0.0.1:99999", "http://127.0.0.1:80", "a b:1", "::1:80"])
def test_invalid_address_is_reported_at_start(admin: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        admin_address(admin, "secret")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8081", "localhost", "LOCALHOST:9", "[::1]:8081", "admin.example:8081", "localhost.", "localhost:"],
)
def test_host_may_be_the_address_localhost_or_a_configured_name(host: str) -> None:
    assert _status(AdminAuthorization("127.0.0.1", names=["Admin.example"]), Host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8081",
        "127.0.0.1.evil.example",
        "",
        "192.0.2.1",
        "localhost.evil.example",
        "a@localhost",
    ],
)
def test_unknown_host_name_is_refused(host: str) -> None:
    assert _status(AdminAuthorization("127.0.0.1"), Host=host) == 421


def test_wildcard_address_accepts_any_ip_address_but_no_name() -> None:
    authorization = AdminAuthorization("0.0.0.0", "t")
    assert _status(authorization, Host="192.0.2.1:8081", Authorization="Bearer t") is None
    assert _status(authorization, Host="evil.example", Authorization="Bearer t") == 421


def test_ipv6_address_that_listens_is_accepted_but_no_other() -> None:
    authorization = AdminAuthorization("2001:DB8::7")
    assert _status(authorization, Host="[2001:db8::7]:8081") is None
    assert _status(authorization, Host="[2001:db8::8]:8081") == 421


def test_configured_token_is_required() -> None:
    authorization = AdminAuthorization("127.0.0.1", "geheim-ü")
    right, wrong = (base64.b64encode(f"me:{word}".encode()).decode() for word in ("geheim-ü", "geheim"))

    assert _status(authorization) == 401
    assert _status(authorization, Authorization="Bearer geheim") == 401
    assert _status(authorization, Authorization="Digest geheim-ü") == 401
    assert _status(authorization, Authorization=f"Basic {wrong}") == 401
    assert _status(authorization, Authorization="Basic %%%") == 401
    assert _status(authorization, Authorization="Bearer geheim-ü") is None
    assert _status(authorization, Authorization="bearer  geheim-ü ") is None
    assert _status(authorization, Authorization=f"basic {right}") is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Origin": "http://127.0.0.1:8081"},
        {"Referer": "https://evil.example/page"},
        {"Origin": "http://[::"},
    ],
)
def test_post_from_another_sites_page_is_refused(headers: dict[str, str]) -> None:
    assert _status(AdminAuthorization("127.0.0.1"), "POST", "/purge", **headers) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:8081", "Sec_Fetch_Site": "same-origin"},
        {"Referer": "http://127.0.0.1:8081/feeds"},
    ],
)
def test_post_from_own_pages_or_without_origin_is_accepted(headers: dict[str, str]) -> None:
    assert _status(AdminAuthorization("127.0.0.1"), "POST", "/purge", **headers) is None


def test_get_from_another_sites_page_is_accepted() -> None:
    assert (
        _status(AdminAuthorization("127.0.0.1"), Sec_Fetch_Site="cross-site", Referer="https://wiki.example/") is None
    )


def test_probes_need_no_token() -> None:
    assert _status(AdminAuthorization("192.0.2.1", "t"), path="/readyz", Host="10.1.2.3:8081") is None
