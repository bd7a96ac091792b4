"""Query parameters that a rule or the No-Vary-Search of the origin excludes from the target."""

import pytest

from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import Entrance
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM

PATH = "/feed.rss"
UTM = {"ignore_query": ("utm_*", "null")}


def publish(origin, *paths: str, **fields: str) -> None:
    for path in paths:
        origin.publish(path, a_feed("one"), cache_control="max-age=600", **fields)


def asked(origin) -> list[str]:
    return [request.target.removeprefix(origin.base) for request in origin.log]


# -- the rule ignore_query


async def test_ignored_parameter_is_removed_from_the_target(stage):
    proxy, origin, clock = await stage(**UTM)
    publish(origin, PATH)

    (await proxy.get(f"{PATH}?utm_source=x")).expect(200, cache="fwd=uri-miss; fwd-status=200; stored")

    for query in ("", "?null", "?utm_medium=y&utm_source=z", "?null", "?null"):
        (await proxy.get(PATH + query)).expect(200, cache="hit")
    assert asked(origin) == [PATH]
    clock.advance(minutes=11)
    (await proxy.get(f"{PATH}?null")).expect(200, cache="fwd=stale; fwd-status=304")
    assert asked(origin) == [PATH, PATH]


async def test_ignored_parameter_rule_keeps_other_parameters(stage):
    proxy, origin, _ = await stage(**UTM)
    publish(origin, f"{PATH}?id=5", f"{PATH}?id=6")

    await proxy.get(f"{PATH}?utm_source=x&id=5")
    await proxy.get(f"{PATH}?id=6&utm_source=x")

    assert asked(origin) == [f"{PATH}?id=5", f"{PATH}?id=6"]


async def test_ignored_parameter_rule_applies_to_its_feeds_only(stage):
    proxy, origin, _ = await stage()
    proxy.rule("/a/*", ignore_query=("null",))
    publish(origin, "/a/feed", "/b/feed?null")

    await proxy.get("/a/feed?null")
    await proxy.get("/b/feed?null")

    assert asked(origin) == ["/a/feed", "/b/feed?null"]


async def test_ignored_parameter_rule_is_stated_as_no_vary_search(stage):
    proxy, origin, _ = await stage(**UTM)
    publish(origin, PATH)
    first = await proxy.get(PATH)

    known = await proxy.get(f"{PATH}?null", if_none_match=first.tag)

    for seen in (first, known, await proxy.get(PATH)):
        value = seen.fields.get("no-vary-search")
        assert value is not None
        assert value.startswith('params=("null" "utm_source"')
    assert known.status == 304


async def test_no_vary_search_of_the_origin_is_forwarded(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM, **UTM)
    publish(origin, PATH, no_vary_search="params")

    seen = await proxy.get(PATH, entrance=Entrance.REVERSE)

    assert seen.fields.get_all("no-vary-search") == ["params"]


async def test_no_vary_search_is_absent_without_a_rule(stage):
    proxy, origin, _ = await stage()
    publish(origin, PATH)

    assert "no-vary-search" not in (await proxy.get(PATH)).fields


async def test_wildcard_of_ignored_parameters_does_not_remove_secret_parameters(stage):
    proxy, origin, _ = await stage(ignore_query=("*",))
    publish(origin, f"{PATH}?token=Zx81kQw0aP", PATH)

    await proxy.get(f"{PATH}?token=Zx81kQw0aP&utm_source=x")
    seen = await proxy.get(f"{PATH}?token=Zx81kQw0aP")
    await proxy.get(PATH)

    assert asked(origin) == [f"{PATH}?token=Zx81kQw0aP", PATH]
    assert "no-vary-search" not in seen.fields


@pytest.mark.parametrize("protected", [f"{PATH}?null", PATH, f"{PATH}?utm_source=x"])
@pytest.mark.parametrize("rule", [{"readers": ("bob",)}, {"private": True}], ids=["readers", "private"])
async def test_ignored_parameter_does_not_weaken_an_access_rule(door, protected: str, rule: dict[str, object]):
    proxy, origin, _ = await door(**UTM)
    publish(origin, PATH, f"{PATH}?null", f"{PATH}?utm_source=x")
    proxy.rule(protected, **rule)
    queries = ("", "?null", "?utm_source=x")

    service = proxy.stage.service
    for query in queries:
        target = origin.url(PATH + query)
        settings = service._settings_for(target)
        resolved = service.resolve_target(Request("GET", target)).target
        used = service._settings_for(resolved)

        seen = await proxy.get(PATH + query)

        assert (used.readers, used.private) == (settings.readers, settings.private)
        assert (seen.status in (401, 407)) is bool(settings.readers)
    assert service._settings_for(origin.url(protected)).private or "readers" in rule


async def test_ignored_parameter_is_removed_for_purge_and_refresh(door):
    proxy, origin, clock = await door(**UTM)
    publish(origin, PATH)
    await proxy.get(PATH)
    admin, address = proxy.stage.service.admin, origin.url(f"{PATH}?utm_source=x")
    clock.advance(minutes=2)

    report = await admin.refresh(address)
    purged = await admin.purge(address)

    assert (report.target, report.outcome) == (origin.url(PATH), "confirmed")
    assert purged == [origin.url(PATH)]
    assert asked(origin) == [PATH, PATH]


async def test_ignored_parameter_is_removed_for_invalidation(door):
    proxy, origin, _ = await door(**UTM, feed_min_interval=0, site_interval=0)
    publish(origin, PATH)
    await proxy.get(PATH)
    origin.publish(PATH, a_feed("new"), cache_control="max-age=600")
    origin.methods["POST"] = lambda _: Response(204, Fields())

    (await proxy.send("POST", f"{PATH}?utm_source=x", body=b"x")).expect(204)

    for query in ("?utm_source=x", ""):
        assert b"new" in (await proxy.get(PATH + query)).expect(200).plain


async def test_purge_finds_a_response_from_before_the_rule(door):
    proxy, origin, _ = await door()
    publish(origin, f"{PATH}?utm_source=x")
    await proxy.get(f"{PATH}?utm_source=x")
    proxy.rule(PATH, **UTM)
    proxy.rule(f"{PATH}?utm_source=x", **UTM)

    purged = await proxy.stage.service.admin.purge(origin.url(f"{PATH}?utm_source=x"))

    assert purged == [origin.url(f"{PATH}?utm_source=x")]


# -- the origin's No-Vary-Search


async def test_no_vary_search_response_answers_an_equivalent_target(stage):
    proxy, origin, _ = await stage()
    publish(origin, f"{PATH}?id=1&from=a", no_vary_search='params=("from")')
    await proxy.get(f"{PATH}?id=1&from=a")

    for query in ("?id=1", "?id=1&from=b", "?from=c&id=1", "?id=1&from=b"):
        (await proxy.get(PATH + query)).expect(200, cache="hit")

    await proxy.get(f"{PATH}?id=2&from=a")
    assert asked(origin) == [f"{PATH}?id=1&from=a", f"{PATH}?id=2&from=a"]


async def test_no_vary_search_response_is_not_validated_under_another_target(stage):
    proxy, origin, clock = await stage(feed_hints="off")
    publish(origin, f"{PATH}?from=a", f"{PATH}?from=b", no_vary_search="params")
    await proxy.get(f"{PATH}?from=a")
    clock.advance(minutes=11)

    await proxy.get(f"{PATH}?from=b")

    assert asked(origin) == [f"{PATH}?from=a", f"{PATH}?from=b"]
    # "the most recent one": both are fresh or stale by themselves from now on.
    (await proxy.get(f"{PATH}?from=c")).expect(200, cache="hit")


@pytest.mark.parametrize("value", ["", 'params="from"', "params=(from)", 'params=("other")', "key-order"])
async def test_no_vary_search_that_is_invalid_or_names_another_parameter_is_ignored(stage, value: str):
    proxy, origin, _ = await stage()
    fields = {"no_vary_search": value} if value else {}
    publish(origin, f"{PATH}?from=a", f"{PATH}?from=b", **fields)

    await proxy.get(f"{PATH}?from=a")
    await proxy.get(f"{PATH}?from=b")

    assert len(asked(origin)) == 2


async def test_no_vary_search_response_is_invalidated_by_an_unsafe_request_to_an_equivalent_target(door):
    proxy, origin, _ = await door(feed_min_interval=0, site_interval=0)
    publish(origin, f"{PATH}?a", no_vary_search="params")
    await proxy.get(f"{PATH}?a")
    (await proxy.get(f"{PATH}?b")).expect(200, cache="hit")
    origin.publish(f"{PATH}?b", a_feed("new"), cache_control="max-age=600", no_vary_search="params")
    origin.methods["POST"] = lambda _: Response(204, Fields())

    (await proxy.send("POST", f"{PATH}?b", body=b"x")).expect(204)

    assert b"new" in (await proxy.get(f"{PATH}?b")).expect(200).plain


@pytest.mark.parametrize(
    "fields", [{"cache_control": "no-cache"}, {"authorization": "Basic YTpi"}, {"x_api_key": "abc"}]
)
async def test_no_vary_search_is_ignored_for_no_cache_or_credentials(stage, fields):
    proxy, origin, _ = await stage()
    publish(origin, f"{PATH}?from=a", f"{PATH}?from=b", no_vary_search="params")
    await proxy.get(f"{PATH}?from=a")

    await proxy.get(f"{PATH}?from=b", **fields)

    assert asked(origin)[1] == f"{PATH}?from=b"


async def test_no_vary_search_of_a_private_response_or_secret_target_is_ignored(stage):
    proxy, origin, _ = await stage()
    for path in (f"{PATH}?token=Zx81kQw0aP", f"{PATH}?token=Qw7rT2mLx9", PATH):
        publish(origin, path, no_vary_search="params")
        await proxy.get(path)
    origin.publish("/p?a", a_feed("one"), cache_control="private, max-age=60", no_vary_search="params")
    origin.publish("/p?b", a_feed("one"), cache_control="private, max-age=60", no_vary_search="params")
    await proxy.get("/p?a")
    await proxy.get("/p?b")

    assert len(asked(origin)) == 5


async def test_no_vary_search_of_a_response_that_varies_is_ignored(stage):
    proxy, origin, _ = await stage()
    publish(origin, f"{PATH}?a", f"{PATH}?b", no_vary_search="params", vary="Accept-Language")

    await proxy.get(f"{PATH}?a")
    await proxy.get(f"{PATH}?b")

    assert len(asked(origin)) == 2


async def test_no_vary_search_does_not_cross_a_private_rule(door):
    proxy, origin, _ = await door()
    publish(origin, f"{PATH}?from=a", f"{PATH}?secretly=b", no_vary_search="params")
    proxy.rule(f"{PATH}?secretly=*", private=True)

    await proxy.get(f"{PATH}?secretly=b")
    await proxy.get(f"{PATH}?from=a")

    assert len(asked(origin)) == 2


async def test_no_vary_search_after_a_redirect_is_ignored(stage):
    proxy, origin, _ = await stage()
    for number in "12":
        fields = {"cache_control": "max-age=600"}
        origin.publish(f"/feed?id={number}", b"", status=302, location=f"/copy-{number}", **fields)
        origin.publish(f"/copy-{number}", a_feed(f"item of {number}"), no_vary_search="params", **fields)

    seen = [(await proxy.get(f"/feed?id={number}")).expect(200) for number in "12"]

    assert [f"item of {number}".encode() in each.body for number, each in zip("12", seen, strict=True)] == [True, True]
    assert not any("no-vary-search" in each.fields for each in seen)
