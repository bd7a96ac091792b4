"""A reader's request for a page is redirected to the page's feed."""

import gzip

import pytest

from feedproxy.http.link_field import parse_links
from feedproxy.request.context import Entrance
from tests.stages.origin import a_feed

RSS, ATOM = "application/rss+xml", "application/atom+xml"
READER = f"{RSS}, {ATOM};q=0.9, */*;q=0.1"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def a_page(*feeds: str) -> bytes:
    links = "".join(f'<link rel="alternate" type="{RSS}" title="F" href="{each}">' for each in feeds)
    return f"<!doctype html><html><head><title>Blog</title>{links}</head><body>hello</body></html>".encode()


async def a_stage(door, body: bytes = a_page("/a.rss", "/b.rss"), settings=None, **fields: str):
    proxy, origin, clock = await door(**(settings or {}))
    fields = {"content_type": "text/html; charset=utf-8", "cache_control": "max-age=600", **fields}
    origin.publish("/blog", body, **fields)
    origin.publish("/a.rss", a_feed())
    return proxy, origin, clock


async def test_page_redirects_a_client_that_prefers_feeds_to_its_first_feed(stage):
    proxy, origin, _ = await a_stage(stage)

    seen = await proxy.get("/blog", accept=READER)

    seen.expect(302, cache="fwd=uri-miss; stored")
    gateway = seen.location.removesuffix(origin.url("/a.rss"))
    assert gateway.endswith("/")
    assert seen.location == gateway + origin.url("/a.rss")
    links = parse_links(seen.fields)
    assert [(each.href, each.rels, each.type, each.title) for each in links] == [
        (gateway + origin.url("/a.rss"), ("alternate",), RSS, "F"),
        (gateway + origin.url("/b.rss"), ("alternate",), RSS, "F"),
    ]
    assert "accept" in (seen.fields.combined("vary") or "").lower()
    assert "sandbox" in (seen.fields.get("content-security-policy") or "")
    (await proxy.get("/a.rss", accept=READER)).expect(200)


@pytest.mark.parametrize("accept", [BROWSER, "*/*", "text/html", f"{RSS};q=0.5, text/html"])
async def test_page_is_sent_to_a_client_without_preference_for_feeds(stage, accept):
    proxy, _, _ = await a_stage(stage)

    seen = await proxy.get("/blog", accept=accept)

    seen.expect(200, body=a_page("/a.rss", "/b.rss"))
    assert "accept" in (seen.fields.combined("vary") or "").lower()


async def test_page_is_sent_without_accept(stage):
    proxy, _, _ = await a_stage(stage)

    (await proxy.get("/blog")).expect(200)


async def test_page_copy_serves_browsers_and_feed_readers(stage):
    proxy, origin, clock = await a_stage(stage)
    for _ in range(4):
        (await proxy.get("/blog", accept=READER)).expect(302)
        (await proxy.get("/blog", accept=BROWSER)).expect(200)
    clock.advance(minutes=5)

    (await proxy.get("/blog", accept=READER)).expect(302, cache="hit; ttl=300", age=300)
    assert origin.requests == 1


async def test_page_redirect_follows_a_changed_page(stage):
    proxy, origin, clock = await a_stage(stage)
    (await proxy.get("/blog", accept=READER)).expect(302)
    origin.publish("/blog", a_page("/new.rss"), content_type="text/html")
    clock.advance(minutes=11)

    assert (await proxy.get("/blog", accept=READER)).location.endswith("/new.rss")


async def test_page_redirect_ignores_a_current_etag_of_the_page(stage):
    proxy, _, _ = await a_stage(stage)
    first = await proxy.get("/blog", accept=BROWSER)

    (await proxy.get("/blog", accept=BROWSER, if_none_match=first.tag)).expect(304)
    (await proxy.get("/blog", accept=READER, if_none_match=first.tag)).expect(302)


async def test_page_redirect_finds_a_feed_in_a_compressed_page(stage):
    proxy, _, _ = await a_stage(stage, gzip.compress(a_page("/a.rss")), content_encoding="gzip")

    (await proxy.get("/blog", accept=READER, accept_encoding="gzip")).expect(302)


async def test_page_redirect_finds_a_feed_in_the_link_field(stage):
    proxy, _, _ = await a_stage(stage, a_page(), link=f'</a.rss>; rel="alternate"; type="{RSS}"')

    assert (await proxy.get("/blog", accept=READER)).location.endswith("/a.rss")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (a_page(), "text/html"),
        (a_page("javascript:alert(1)", "https://user:word@e.example/a"), "text/html"),
        (b"", "text/html"),
        (b"\x00\xff" * 1000, "text/html"),
        (a_page("/a.rss"), "text/plain"),
    ],
)
async def test_page_without_a_valid_feed_link_is_sent_unchanged(stage, body, kind):
    proxy, _, _ = await a_stage(stage, body, content_type=kind)

    (await proxy.get("/blog", accept=READER)).expect(200, body=body)


async def test_page_redirect_never_leads_to_the_page_itself(stage):
    proxy, _, _ = await a_stage(stage, a_page("/blog"))

    (await proxy.get("/blog", accept=READER)).expect(200)


async def test_page_redirect_removes_control_characters_from_titles(stage):
    body = a_page("/a.rss").replace(b'"F"', b'"x&#13;&#10;Set-Cookie: a=b&#1;&quot;"')
    proxy, _, _ = await a_stage(stage, body)

    seen = await proxy.get("/blog", accept=READER)

    seen.expect(302)
    assert "set-cookie" not in seen.fields


async def test_page_redirect_for_head_equals_get(stage):
    proxy, _, _ = await a_stage(stage)

    (await proxy.head("/blog", accept=READER)).expect(302, body=b"")


async def test_page_redirect_is_disabled_by_option(stage):
    proxy, _, _ = await a_stage(stage, settings={"lead_to_feeds": False})

    (await proxy.get("/blog", accept=READER)).expect(200)


async def test_page_redirect_exists_at_the_gateway_only(stage):
    proxy, _, _ = await a_stage(stage)

    (await proxy.send("GET", "/blog", entrance=Entrance.PROXY, accept=READER)).expect(200)


async def test_page_redirect_is_not_sent_for_an_error_page(stage):
    proxy, origin, _ = await a_stage(stage)
    origin.publish("/blog", a_page("/a.rss"), status=404, content_type="text/html")

    (await proxy.get("/blog", accept=READER)).expect(404)


async def test_page_redirect_follows_a_changed_link_field(stage):
    proxy, origin, clock = await a_stage(stage, a_page(), link=f'</a.rss>; rel="alternate"; type="{RSS}"')
    (await proxy.get("/blog", accept=READER)).expect(302)
    changed = f'</b.rss>; rel="alternate"; type="{RSS}"'
    origin.publish("/blog", a_page(), content_type="text/html; charset=utf-8", etag='"2"', link=changed)
    clock.advance(minutes=11)

    assert (await proxy.get("/blog", accept=READER)).location.endswith("/b.rss")
