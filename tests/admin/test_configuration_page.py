"""The page of the configuration in force: it shows differences from the defaults and no secret."""

import json

from feedproxy.admin.pages import configuration_page
from feedproxy.feed_rules import Rule
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.settings import Settings
from tests.stages.admin import Proxy


def test_only_options_that_differ_are_shown_with_units_and_default() -> None:
    assert configuration_page.changed_options(Settings()) == []

    (found,) = configuration_page.changed_options(Settings(stale_max=3600))

    assert (found["name"], found["value"], found["default"], found["restart"]) == ("stale_max", "1h", "7d", False)


def test_no_secret_of_an_option_is_shown() -> None:
    settings = Settings(
        admin_token="hush-1",
        purge_fields=("Fastly-Key: hush-2",),
        store="redis://feedproxy:hush-3@redis.example:6379/0",
        upstream_proxy="http://us:hush-4@proxy.example:3128",
        ping_sinks=("https://name:hush-5@sink.example/?token=hush-6",),
    )
    told = json.dumps(configuration_page.changed_options(settings))
    assert "hush" not in told
    socket = Settings(store="unix:///run/redis.sock?db=1&password=hush-7")
    assert "/run/redis.sock?db=1&password=…" in configuration_page.changed_options(socket)[0]["value"]
    assert "proxy.example:3128" in told
    assert "redis.example:6379" in told


def test_rules_are_shown_in_their_order_without_secrets() -> None:
    rules = [
        Rule(TargetPattern("https://a.example/?token=hush"), {"private": True}),
        Rule(TargetPattern("*.b.example"), {"codings": ("gzip",), "upstream_proxy": "http://us:hush@p.example:1"}),
    ]
    first, second = configuration_page.rule_views(rules)
    assert first["options"] == {"private": "true"}
    assert second["match"] == "*.b.example"
    assert second["options"]["codings"] == "[gzip]"
    assert "hush" not in json.dumps([first, second])


async def test_configuration_is_a_page_and_json(proxy: Proxy) -> None:
    proxy.app.configure({"stale_max": 3600})

    status, text = await proxy.get("/configuration")
    told = await proxy.json("/configuration")

    assert status == 200
    assert "<code>stale_max</code>" in text
    assert "at a reload (SIGHUP)" in text
    assert [each["name"] for each in told["options"]] == ["stale_max"]
    assert told["rules"] == []
