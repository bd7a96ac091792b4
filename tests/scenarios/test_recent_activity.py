"""The journal of recent requests, fetches and failed addresses."""

import pytest

from feedproxy.admin.pages import activity_views
from feedproxy.telemetry import recent_activity
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM

SECRET = "/feed.rss?token=hunter2hunter2"


def journal_of(proxy):
    """The journal of the stage, which is the service alone or the whole proxy."""
    return proxy.stage.recent_activity if hasattr(proxy.stage, "recent_activity") else proxy.stage.app.recent_activity


async def test_journal_of_requests_names_the_client_without_address_or_secret(door):
    proxy, origin, _ = await door()
    origin.publish(SECRET, a_feed())
    here = proxy.stage.app

    for _ in range(3):
        await proxy.ask("/" + origin.url(SECRET), user_agent="Liferea/1.14 (Linux)")
    await proxy.ask("/-/nothing", user_agent="curl/8")
    here.metrics.families()

    views = [
        activity_views.request_view(each, here.settings)
        for each in recent_activity.merge_requests([here.recent_activity.journal()])
    ]
    assert {(each["status"], each["client"], each["target"]) for each in views} == {
        (200, "Liferea", origin.url("/feed.rss?token=…")),
        (404, "curl", "/-/nothing"),
    }
    assert sum("hit" in each["cache"] for each in views) >= 2
    assert not [each for each in views if "192.0.2.1" in str(each) or "hunter2" in str(each)]


async def test_journal_of_fetches_has_status_size_and_outcome(stage):
    proxy, origin, clock = await stage(default_lifetime=600)
    origin.publish("/feed.rss", a_feed(), etag='"one"')
    await proxy.get("/feed.rss")
    clock.advance(minutes=50)
    await proxy.service.admin.refresh(origin.url("/feed.rss"))
    origin.break_down()
    clock.advance(minutes=50)
    await proxy.service.admin.refresh(origin.url("/feed.rss"))

    told = [
        (each.occasion, each.status, each.received_size > 0, each.outcome)
        for each in journal_of(proxy).fetches(origin.url("/feed.rss"))
    ]
    assert told[:2] == [("reader", 200, True, "updated"), ("background", 304, False, "confirmed")]
    assert told[2][0] == "background"
    assert told[2][3] == "failed"
    assert journal_of(proxy).fetches(origin.url("/feed.rss"))[-1].at == clock.now()


@pytest.mark.parametrize(
    ("path", "kind", "status"), [("/nothing", "text/plain", 404), ("/page", "text/html", 200), ("/error", "", 500)]
)
async def test_journal_keeps_a_failed_address_until_it_has_a_feed(stage, path, kind, status):
    proxy, origin, clock = await stage()
    origin.publish(path, b"<html></html>", content_type=kind, status=status)
    await proxy.get(path)

    assert [(each.target, each.last.status) for each in journal_of(proxy).journal().failed] == [
        (origin.url(path), status)
    ]

    origin.publish(path, a_feed())
    clock.advance(hours=1)
    await proxy.get(path)
    assert journal_of(proxy).journal().failed == []


async def test_journal_of_failed_addresses_excludes_a_feed_that_worked_before(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed())
    await proxy.get("/feed.rss")
    origin.break_down()
    clock.advance(hours=30)
    await proxy.get("/feed.rss")

    assert journal_of(proxy).journal().failed == []


@pytest.mark.parametrize(("accept", "count"), [("*/*", 0), ("text/html", 0), ("application/rss+xml", 1)])
async def test_journal_of_failed_addresses_has_own_pages_only_if_a_feed_was_requested(stage, accept, count):
    proxy, origin, _ = await stage(upstream=UPSTREAM, public_url="https://feeds.example/")
    origin.publish("/", b"<html></html>", content_type="text/html")

    await proxy.get("/", accept=accept)

    assert len(journal_of(proxy).journal().failed) == count
