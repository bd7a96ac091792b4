"""Target URIs: normal form (RFC 3986, section 6.2), gateway paths and references."""

import pytest

from feedproxy.errors import BadTarget, NotFound
from feedproxy.http.target_uri.gateway_path import gateway_path, gateway_target
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.http.uri import normalise, origin_of, resolve, split_host_port


@pytest.mark.parametrize(
    ("uri", "normal"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:443/a", "http://example.com:443/a"),
        ("http://example.com:/a", "http://example.com/a"),
        ("http://example.com:0080/a", "http://example.com/a"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://example.com/#a", "http://example.com/"),
        ("http://example.com?a#b?c", "http://example.com/?a"),
        ("http://example.com/?", "http://example.com/?"),
        ("http://example.com/%7euser/%c3%a9/%2f", "http://example.com/~user/%C3%A9/%2F"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        ("http://example.com/a/%2e%2E/b", "http://example.com/b"),
        ("http://example.com/../../a", "http://example.com/a"),
        ("http://example.com/a/..", "http://example.com/"),
        ("http://example.com/a/b/.", "http://example.com/a/b/"),
        ("http://example.com/a//../b", "http://example.com/a/b"),
        ("http://example.com//a//b/", "http://example.com//a//b/"),
        ("http://example.com/a?b=../c/./d", "http://example.com/a?b=../c/./d"),
        ("http://example.com/.a/..b/c.", "http://example.com/.a/..b/c."),
        ("http://example.com/100%", "http://example.com/100%25"),
        ("http://example.com/%%34%31", "http://example.com/%2541"),
        ("http://example.com/a|b?c[]={\"d\"}<e>\\", "http://example.com/a%7Cb?c[]=%7B%22d%22%7D%3Ce%3E%5C"),
        ("http://example.com/é", "http://example.com/%C3%A9"),
        ("http://example.com/Ã©", "http://example.com/%C3%A9"),  # the bytes of é, as they stand on the wire
        ("http://example.com/日本", "http://example.com/%E6%97%A5%E6%9C%AC"),
        ("http://Bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://b%C3%BCcher.example/", "http://xn--bcher-kva.example/"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
        ("http://faß.example/", "http://xn--fa-hia.example/"),
        ("http://i❤.example/", "http://xn--i-7iq.example/"),
        ("http://１２７.０.０.１/", "http://127.0.0.1/"),
        ("http://ex%61mple.com/", "http://example.com/"),
        ("http://my_blog.example/", "http://my_blog.example/"),
        ("http://[2001:DB8:0::1]:8080/", "http://[2001:db8::1]:8080/"),
        ("http://[::FFFF:7F00:1]/", "http://[::ffff:127.0.0.1]/"),
        ("http://example.com/a@b:c", "http://example.com/a@b:c"),
    ],
)  # fmt: skip
def test_target_has_one_normal_form(uri: str, normal: str) -> None:
    assert normalise(uri) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "example.com",
        "/feed",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http:example.com",
        "http:/example.com",
        "http://",
        "http:///feed",
        "http://:80/",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://@example.com/",
        "http://example.com\\@other.example/",
        "http://example.com:x/",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:-1/",
        "http://example.com:٨٠/",
        "http://example.com:" + "9" * 5000 + "/",
        "http://example.com:80:80/",
        "http://a b/",
        "http://example.com/a b",
        " http://example.com/",
        "http://example.com/\r\nSet-Cookie: a",
        "http://example.com/\t",
        "http://example.com/\x00",
        "http://example.com/\x7f",
        "http://exa\\mple.com/",
        "http://exa%2Fmple.com/",
        "http://example.com%00.other.example/",
        "http://example%.com/",
        "http://%ff.example/",
        "http://example..com/",
        "http://.example.com/",
        "http://" + "a" * 64 + ".example/",
        "http://" + "a." * 130 + "example/",
        "http://" + "é" * 5000 + ".example/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://[v1.x]/",
        "http://[127.0.0.1]/",
        "http://[]/",
        "http://℀.example/",
        "http://example.com/\ud800",
    ],
)
def test_target_that_is_invalid_is_rejected(uri: str) -> None:
    with pytest.raises(BadTarget):
        normalise(uri)


def test_target_rejection_does_not_contain_password() -> None:
    with pytest.raises(BadTarget) as refusal:
        normalise("http://user:secret@example.com/")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/https://example.com/feed?x", "https://example.com/feed?x"),
        ("/https:/example.com/feed?x=//y", "https://example.com/feed?x=//y"),
        ("/HTTP://Example.com", "http://example.com/"),
        ("/http://example.com:80/a/../b", "http://example.com/b"),
        ("/https://example.com?u=https://other.example/", "https://example.com/?u=https://other.example/"),
        ("/https://[::1]:8443/a", "https://[::1]:8443/a"),
    ],
)
def test_gateway_path_is_parsed_to_its_target(path: str, target: str) -> None:
    assert gateway_target(path) == target


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/favicon.ico",
        "/example.com/feed",
        "/ftp://example.com/",
        "//example.com/",
        "/-/hub",
        "/https",
    ],
)
def test_gateway_path_without_http_or_https_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        gateway_target(path)


@pytest.mark.parametrize(
    "path",
    ["/https://", "/https:/", "/https:", "/https:///feed", "/http://user:pw@example.com/", "/http://a b/"],
)
def test_gateway_path_with_invalid_target_is_rejected(path: str) -> None:
    with pytest.raises(BadTarget):
        gateway_target(path)


def test_gateway_path_of_target_contains_the_target() -> None:
    assert gateway_path("https://example.com/a?b") == "/https://example.com/a?b"


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        # RFC 3986, section 5.4
        ("http://h.example/", "http://h.example/"),
        ("g", "http://a.example/b/c/g"),
        ("./g", "http://a.example/b/c/g"),
        ("g/", "http://a.example/b/c/g/"),
        ("/g", "http://a.example/g"),
        ("//g.example", "http://g.example/"),
        ("?y", "http://a.example/b/c/d;p?y"),
        ("g?y", "http://a.example/b/c/g?y"),
        ("#s", "http://a.example/b/c/d;p?q"),
        ("g#s", "http://a.example/b/c/g"),
        (";x", "http://a.example/b/c/;x"),
        ("", "http://a.example/b/c/d;p?q"),
        (".", "http://a.example/b/c/"),
        ("..", "http://a.example/b/"),
        ("../g", "http://a.example/b/g"),
        ("../../../g", "http://a.example/g"),
        ("/./g", "http://a.example/g"),
        ("g;x=1/../y", "http://a.example/b/c/y"),
        ("g?y/../x", "http://a.example/b/c/g?y/../x"),
        # and what servers send
        ("\n  http://h.example/a \n", "http://h.example/a"),
        ("/new feed.xml?a b", "http://a.example/new%20feed.xml?a%20b"),
        ("/caf\u00c3\u00a9", "http://a.example/caf%C3%A9"),
        ("HTTP://A.example:80/x", "http://a.example/x"),
    ],
)
def test_reference_is_resolved_against_its_base_target(reference: str, target: str) -> None:
    assert resolve("http://a.example/b/c/d;p?q", reference) == target


@pytest.mark.parametrize(
    "reference",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "mailto:a@example.com",
        "http:g",
        "//u@h.example/",
        "/a\r\nb: c",
        "http://",
    ],
)
def test_reference_to_invalid_target_is_rejected(reference: str) -> None:
    with pytest.raises(BadTarget):
        resolve("http://a.example/b", reference)


def test_target_is_split_into_origin_host_and_port() -> None:
    assert origin_of("https://example.com/a?b") == "https://example.com"
    assert origin_of("http://[::1]:8080/a") == "http://[::1]:8080"
    assert split_host_port("https://example.com/a") == ("example.com", 443)
    assert split_host_port("http://example.com/a") == ("example.com", 80)
    assert split_host_port("http://[2001:db8::1]:8080/a:9") == ("2001:db8::1", 8080)
    assert split_host_port("http://[2001:db8::1]/") == ("2001:db8::1", 80)


@pytest.mark.parametrize(
    ("target", "site"),
    [
        ("https://feeds.news.example.co.uk/a", "example.co.uk"),
        ("https://example.com:8443/a", "example.com"),
        ("http://intranet:8080/", "intranet"),
        ("http://localhost:8080/", "localhost:8080"),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
        ("http://[fd00::1]/", "[fd00::1]:80"),
        ("http://[fd00::2]:8080/", "[fd00::2]:8080"),
        ("http://co.uk/", "co.uk"),
        ("http://one.github.io/", "one.github.io"),
        ("http://a.two.github.io/", "two.github.io"),
        ("http://one.pages.dev/", "one.pages.dev"),
        ("http://one.vercel.app/", "one.vercel.app"),
        ("http://a.silent.example/", "silent.example"),
        ("http://" + "a." * 120 + "example.com/", "example.com"),
    ],
)
def test_site_of_target_is_its_registrable_domain(target: str, site: str) -> None:
    assert site_of(target) == site


@pytest.mark.parametrize("text", ["news.rss", "127.0.0.1:8000", "ftp://example.com/", ""])
def test_target_without_http_scheme_is_rejected_with_expected_scheme(text: str) -> None:
    with pytest.raises(BadTarget, match="expected http:// or https://"):
        normalise(text)


@pytest.mark.parametrize("text", ["a" * 16_400, "?" + "%" * 6000])
def test_very_long_target_is_refused(text: str) -> None:
    with pytest.raises(BadTarget, match="longer than 16384 characters"):
        normalise(f"http://example.com/{text}")
