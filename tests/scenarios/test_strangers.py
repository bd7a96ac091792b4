"""What one reader sends is his own affair: the copy that all others share does not suffer from it."""

import pytest

from feedproxy.http.message import Fields, Response
from feedproxy.origin.entrance import Entrance
from tests.stages.origin import a_feed


async def with_a_stale_copy(stage, **settings):
    proxy, origin, clock = await stage(**settings)
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    return proxy, origin, clock


@pytest.mark.parametrize("changed", [False, True], ids=["not-modified", "changed"])
@pytest.mark.parametrize("fields", [{"cache_control": "no-store"}, {"authorization": "Basic eDp5"}])
async def test_an_answer_that_was_not_to_be_stored_leaves_what_is_stored(stage, fields, changed):
    proxy, origin, clock = await with_a_stale_copy(stage)
    if changed:
        origin.publish("/feed.rss", a_feed("for one"), cache_control="max-age=60")
    (await proxy.get("/feed.rss", **fields)).expect(200)
    origin.break_down(503)
    clock.advance(minutes=10)

    seen = (await proxy.get("/feed.rss")).expect(200)

    assert b"good" in seen.body


@pytest.mark.parametrize("status", [401, 403, 410, 429, 503])
async def test_credentials_that_an_origin_refuses_are_refused_to_their_owner_alone(stage, status):
    proxy, origin, clock = await with_a_stale_copy(stage)

    def refuse(request):
        if "authorization" in request.fields:
            return Response(status, Fields([("Content-Type", "text/plain"), ("Retry-After", "9999")]), b"not you")
        return Response(200, Fields([("Content-Type", "application/rss+xml")]), a_feed("new"))

    origin.speak(refuse)
    await proxy.get("/feed.rss", authorization="Basic eDp5")
    clock.advance(minutes=2)

    seen = (await proxy.get("/feed.rss")).expect(200)

    assert b"new" in seen.body
