"""`upstream_proxy`: valid values, and the variables that `environment` reads."""

import os

import pytest

from feedproxy.errors import UsageError
from feedproxy.upstream.parent_proxy import Parent, parent_of, parse, validate
from feedproxy.upstream.upstream_errors import ParentFailed

PASSWORD = "s3cret"
FEED, SECURE = "http://feeds.example.com/a", "https://feeds.example.com/a"


@pytest.mark.parametrize(
    ("text", "parent"),
    [
        ("", None),
        ("direct", None),
        ("http://proxy.example:3128", Parent("http", "proxy.example", 3128)),
        ("http://proxy.example:3128/", Parent("http", "proxy.example", 3128)),
        ("http://[2001:db8::1]:3128", Parent("http", "2001:db8::1", 3128)),
        ("socks5://a%40b:p%3A%2Fw@10.0.0.1:1080", Parent("socks5", "10.0.0.1", 1080, "a@b", "p:/w")),
        ("socks5h://10.0.0.1:1080", Parent("socks5h", "10.0.0.1", 1080)),
        ("http://user:@proxy.example:3128", Parent("http", "proxy.example", 3128, "user", "")),
    ],
)
def test_option_value_is_parsed_as_parent(text: str, parent: Parent | None) -> None:
    assert parse(text) == parent


@pytest.mark.parametrize(
    "text",
    [
        f"proxy.example:{PASSWORD}",
        f"https://u:{PASSWORD}@proxy.example:443",
        f"socks4://u:{PASSWORD}@proxy.example:1080",
        f"http://u:{PASSWORD}@proxy.example",
        f"http://u:{PASSWORD}@proxy.example:99999",
        f"http://u:{PASSWORD}@proxy.example:x",
        f"http://u:{PASSWORD}@:3128",
        f"http://u:{PASSWORD}@proxy.example:3128/path",
        f"http://u:{PASSWORD}/x@proxy.example:3128",
        f"http://u:{PASSWORD}#@proxy.example:3128",
        f"http://u%0D%0A:{PASSWORD}@proxy.example:3128",
        f"http://u%3A:{PASSWORD}@proxy.example:3128",
        f"http://u:{PASSWORD} @proxy.example:3128",
        f"http://u:{PASSWORD}%FF@proxy.example:3128",
        f"http://u:{PASSWORD}{'x' * 255}@proxy.example:3128",
        f"socks5://:{PASSWORD}@proxy.example:1080",
        "socks5://user@proxy.example:1080",
    ],
)
def test_option_value_that_is_invalid_is_rejected_without_its_password(text: str) -> None:
    with pytest.raises(UsageError, match=r"^upstream_proxy: ") as caught:
        validate(text)
    assert PASSWORD not in str(caught.value)


def test_parent_text_and_repr_omit_credentials() -> None:
    parent = parse(f"http://user:{PASSWORD}@proxy.example:3128")
    assert PASSWORD not in f"{parent} {parent!r}"
    assert "user" not in f"{parent} {parent!r}"
    assert parent is not None
    assert parent.authorization == "Basic dXNlcjpzM2NyZXQ="


@pytest.mark.parametrize(
    "target",
    ["http://localhost:8000/", "http://127.0.0.1:8000/", "https://127.9.9.9/", "http://[::1]/", "http://a.localhost/"],
)
def test_loopback_target_bypasses_parent(target: str) -> None:
    assert parent_of("http://proxy.example:3128", target) is None


@pytest.mark.parametrize(
    ("target", "environ", "host"),
    [
        (FEED, {"http_proxy": "http://a:1"}, "a"),
        (FEED, {"HTTP_PROXY": "http://a:1"}, ""),  # a CGI program's client could set it
        (FEED, {"https_proxy": "http://a:1"}, ""),
        (FEED, {"all_proxy": "socks5://a:1"}, "a"),
        (FEED, {"ALL_PROXY": "http://a:1"}, "a"),
        (FEED, {"http_proxy": "http://a:1", "all_proxy": "http://b:1"}, "a"),
        (SECURE, {"https_proxy": "http://a:1"}, "a"),
        (SECURE, {"HTTPS_PROXY": "http://a:1"}, "a"),
        (SECURE, {"https_proxy": "http://a:1", "HTTPS_PROXY": "http://b:1"}, "a"),
        (SECURE, {"http_proxy": "http://a:1"}, ""),
        (SECURE, {"https_proxy": "", "ALL_PROXY": "http://b:1"}, "b"),
        (SECURE, {"https_proxy": "a:1"}, "a"),
        (SECURE, {"https_proxy": "http://a"}, "a"),
    ],
)
def test_environment_variables_select_parent_as_in_curl(
    target: str, environ: dict[str, str], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", environ)
    parent = parent_of("environment", target)
    assert (parent.host if parent else "") == host


@pytest.mark.parametrize(
    ("no_proxy", "target", "direct"),
    [
        ("*", FEED, True),
        ("example.com", FEED, True),
        (".example.com", FEED, True),
        ("other.org, EXAMPLE.com", FEED, True),
        ("other.org example.com.", FEED, True),
        ("ample.com", FEED, False),
        ("feeds.example.com.org", FEED, False),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("10.1.2.3", "http://10.1.2.3:8080/", True),
        ("[2001:db8::1]", "http://[2001:db8::1]/", True),
        ("2001:db8::/32", "http://[2001:db8::1]/", True),
        ("", FEED, False),
    ],
)
@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_environment_no_proxy_excludes_hosts(
    name: str, no_proxy: str, target: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {"http_proxy": "http://a:1", name: no_proxy})
    assert (parent_of("environment", target) is None) is direct


def test_environment_variable_that_is_invalid_is_rejected_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"https_proxy": f"ftp://u:{PASSWORD}@a:1"})
    for call in (lambda: validate("environment"), lambda: parent_of("environment", SECURE)):
        with pytest.raises((UsageError, ParentFailed), match=r"^upstream_proxy: environment: https_proxy: ") as caught:
            call()
        assert PASSWORD not in str(caught.value)
