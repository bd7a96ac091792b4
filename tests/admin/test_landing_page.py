"""The gateway's landing page."""

import pytest

from feedproxy.endpoints.landing_page import SANDBOX, Preview, landing_page, pasted_target, preview_page
from feedproxy.errors import NotFound
from feedproxy.http.target_uri.gateway_path import gateway_path

BASE = "http://proxy.example:8080"


def test_landing_page_shows_both_gateway_address_forms_and_the_proxy_address() -> None:
    answer = landing_page("/", BASE)

    text = answer.body.decode()
    assert answer.status == 200
    assert f"{BASE}/https://example.com/feed.xml" in text
    assert f"{BASE}/https:/example.com/feed.xml" in text
    assert f"http_proxy={BASE}" in text
    assert 'action="/"' in text
    assert 'name="url"' in text


def test_landing_page_links_to_published_lists() -> None:
    text = landing_page("/", BASE, "/own/").body.decode()

    for path in ("feeds.opml", "feeds.opml?addresses=original", "proxy.pac"):
        assert f'href="{BASE}/own/{path}"' in text


def test_landing_page_runs_no_script_and_loads_nothing_from_other_hosts() -> None:
    answer = landing_page("/", BASE)

    policy = answer.fields.get("content-security-policy") or ""
    assert policy.startswith(f"{SANDBOX}; default-src 'none'; style-src 'sha256-")
    assert f"form-action 'self' {BASE};" in policy
    assert b"<script" not in answer.body
    assert b'src="http' not in answer.body


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("https%3A%2F%2Fexample.com%2Ffeed%3Fa%3D1%26b", "/https://example.com/feed?a=1&b"),
        ("example.com/feed.xml", "/https://example.com/feed.xml"),
        ("example.com:8443/feed.xml", "/https://example.com:8443/feed.xml"),
        ("++https://example.com/feed+", "/https://example.com/feed"),
        ("feed://example.com/feed", "/http://example.com/feed"),
        ("feed:https://example.com/feed", "/https://example.com/feed"),
        ("https:/example.com/feed", "/https://example.com/feed"),
        ("http://proxy.example:8080/https://example.com/feed", "/https://example.com/feed"),
        ("https://b%C3%BCcher.example/", "/https://xn--bcher-kva.example/"),
    ],
)
def test_pasted_address_is_interpreted_as_the_target(address: str, path: str) -> None:
    assert gateway_path(pasted_target(f"/?url={address}", BASE, "/-/")) == path


def test_pasted_address_of_a_conversion_is_read_with_the_configured_prefix() -> None:
    address = f"/?url={BASE}/own/as/atom/https://example.com/feed"

    assert pasted_target(address, BASE, "/own/") == "https://example.com/feed"
    assert landing_page(address, BASE, "/own/").status == 200


@pytest.mark.parametrize(
    "address",
    [
        "",
        "feed",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://user:word@example.com/",
        "http://",
        "%5B::1",
        "https://exa%0Ample.com/",
        "//",
        "%00",
    ],
)
def test_pasted_text_that_is_no_address_gets_the_page_with_a_reason(address: str) -> None:
    answer = landing_page(f"/?url={address}", BASE)

    assert answer.status == 400
    assert b'role="alert"' in answer.body
    assert answer.fields.get("location") is None


def test_pasted_text_is_escaped() -> None:
    answer = landing_page("/?url=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", BASE)

    assert answer.status == 400
    assert b"<script" not in answer.body
    assert b"&lt;script&gt;" in answer.body


def test_crawlers_are_excluded_by_robots_txt() -> None:
    assert landing_page("/robots.txt", BASE).body == b"User-agent: *\nDisallow: /\n"


def test_browsers_get_an_icon() -> None:
    answer = landing_page("/favicon.ico", BASE)

    assert answer.fields.get("content-type") == "image/svg+xml"
    assert answer.body.startswith(b"<svg")


def test_landing_page_is_not_found_at_another_path() -> None:
    with pytest.raises(NotFound):
        landing_page("/feeds", BASE)


def test_preview_shows_the_address_a_subscribe_link_and_the_entries_as_text() -> None:
    preview = Preview("https://example.com/f?a=1&b", "<b>News</b>", (("<script>x</script>", "2026-11-20"),))

    answer = preview_page(preview, BASE)

    text = answer.body.decode()
    assert answer.status == 200
    assert answer.fields.get("cache-control") == "no-store"
    assert f'readonly value="{BASE}/https://example.com/f?a=1&amp;b"' in text
    assert f'href="feed:{BASE}/https://example.com/f?a=1&amp;b"' in text
    assert "&lt;b&gt;News&lt;/b&gt;" in text
    assert "&lt;script&gt;x&lt;/script&gt;" in text
    assert "<script" not in text


def test_reason_for_a_missing_preview_precedes_the_address() -> None:
    preview = Preview("https://example.com/", reason="This document is not a feed, and names none.")

    text = preview_page(preview, BASE).body.decode()

    assert text.index(preview.reason) < text.index("Copy this address")
    assert "no entries" not in text
