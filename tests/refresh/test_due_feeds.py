"""Plans of feeds that are due, with a store on disk."""

from pathlib import Path

import pytest

from feedproxy.app import App
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.clock import ManualClock
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.message import Fields
from feedproxy.refresh.policy.refresh_ahead import Later, Refresh
from feedproxy.store.resource import Resource
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

FEED, NOW = "https://example.com/feed", 1_800_000_000.0


def open_app(folder: Path, clock: ManualClock) -> App:
    app = App(clock)
    app.configure({"admin": "", "store": str(folder)})
    return app


@pytest.mark.parametrize(("age", "planned"), [(60, Later), (3599, Refresh)])
async def test_due_feed_enters_memory_only_if_it_is_refreshed(tmp_path: Path, age: float, planned: type) -> None:
    clock = ManualClock(NOW)
    fields = Fields([("Cache-Control", "max-age=3600")])
    copy = StoredResponse(FEED, 200, fields, Content(Bodies({"identity": b"<rss/>"}), tag="a", feed=True), NOW, NOW)
    app = open_app(tmp_path, clock)
    await app.service.store.put(Resource(FEED, (copy,), Channel(Kind.RSS, "2.0", True), fetched=NOW, first_seen=NOW))
    await app.close()
    app = open_app(tmp_path, clock)
    clock.advance(age)
    app.service.schedule.counts.record_read(FEED, Pseudonym(1, 1), "Reader/1", clock.now())

    plan = app.service.schedule._planned_refresh_of_due_feed(FEED)

    assert type(plan) is planned
    assert (app.service.store.version(FEED) is not None) == (planned is Refresh)
    await app.close()
