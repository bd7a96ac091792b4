"""WebSub over days: leases, renewals, outages and failing hubs; and limits for unknown clients."""

import gzip
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from feedproxy.clock import DAY, ManualClock
from feedproxy.errors import Forbidden
from feedproxy.http.message import Fields, Request, Response
from feedproxy.notify.subscription_table import Role, State
from feedproxy.notify.websub import signatures_and_tokens
from feedproxy.notify.websub.subscriber import Subscriber
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from feedproxy.store.permitted_store import PermittedStore
from feedproxy.store.tiered import TieredStore
from feedproxy.upstream.upstream_errors import Unreachable
from tests.spec.test_websub import signed
from tests.stages.notify import NOON, TARGET
from tests.stages.origin import Origin, a_feed
from tests.stages.websub import HUB, LINKS, ME, WebSubStand, websub_at

OLD = ("one", "two", "three")
HOUR = 3_600


async def subscribed(stand_at: Callable[..., Any], link: str = LINKS, **more: Any) -> WebSubStand:
    """Return a stand with a feed that is read and has a verified subscription of ten days."""
    made = await websub_at(stand_at, **more)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=link)
    await made.read_by_somebody()
    await made.verify(lease_seconds=10 * DAY)
    return made


async def push(made: WebSubStand, *titles: str, **more: Any) -> Response:
    body = a_feed(*titles)
    return await made.at_callback("POST", content=body, **{**signed(made, body), **more})


def copy_of(made: WebSubStand) -> bytes:
    resource = made.stand.app.service.store.get(TARGET)
    assert resource is not None
    return bytes(resource.variants[0].content.bodies["identity"])


def shown(made: WebSubStand) -> str:
    """Return the state of the stored copy as the admin interface shows it."""
    service = made.stand.app.service
    resource = service.store.get(TARGET)
    assert resource is not None
    freshness = service.admin.freshness_of(resource)
    assert freshness is not None
    return freshness.description


def in_language(titles: list[str], **more: str) -> Callable[[Request], Response]:
    """Return an origin whose feed has the language that the client prefers."""

    def answer(request: Request) -> Response:
        language = request.fields.get("accept-language") or "en"
        fields = [("Content-Type", "application/rss+xml"), ("Vary", "Accept-Language"), ("Content-Language", language)]
        return Response(200, Fields([*fields, *more.items()]), a_feed(*[f"{language} {title}" for title in titles]))

    return answer


async def read(made: WebSubStand, **fields: str) -> bytes:
    """Return the feed for a client with these fields."""
    visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", "192.0.2.9")
    named = Fields((name.replace("_", "-"), value) for name, value in fields.items())
    answer = await made.stand.app.service.answer(Request("GET", TARGET, named), visit)
    assert isinstance(answer, ProxyResponse)
    return answer.response.body


# -- effects of a push


async def test_push_lease_reduces_polling_until_it_ends(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at, default_lifetime=1_800, lifetime_max=1_800)
    assert "fresh for another 29 min" in shown(made)

    await push(made, "four", *OLD)
    assert "fresh for another 6 h: its changes are pushed here" in shown(made)

    await made.stand.pass_time(HOUR)
    made.stand.origin.publish("/feed.xml", a_feed("five", "four", *OLD), link=LINKS)
    await made.stand.read()  # the feed changed without a push and was then fetched
    assert "fresh for another 30 min" in shown(made)

    await push(made, "six", "five", "four", *OLD)
    assert "its changes are pushed here" in shown(made)


async def test_push_replaces_no_copy_in_the_language_of_a_client(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at, feed_min_interval=0, site_interval=0)
    made.stand.origin.speak(in_language(["one"], Link=LINKS))
    await made.read_by_somebody()
    await read(made, accept_language="de")
    await made.verify(lease_seconds=10 * DAY)

    await push(made, "en two", "en one")

    assert b"en two" in await read(made)
    assert b"de one" in await read(made, accept_language="de")


async def test_push_respects_no_store(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS, cache_control="max-age=60, must-revalidate")
    await made.read_by_somebody()
    await made.verify(lease_seconds=10 * DAY)

    await push(made, "four", *OLD)

    assert "fresh for another 60 s" in shown(made) or "fresh for another 1 min" in shown(made)


async def test_push_lease_ends_with_subscription(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at, default_lifetime=1_800, lifetime_max=1_800)
    await push(made, "four", *OLD)
    resource = made.stand.app.service.store.get(TARGET)
    assert resource is not None
    assert resource.push_lease_expires == pytest.approx(made.stand.clock.now() + 10 * DAY, abs=60)

    await made.verify(mode="denied", challenge=None)

    assert "its changes are pushed here" not in shown(made)


async def test_push_of_partial_feed_causes_fetch(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    made.stand.origin.publish("/feed.xml", a_feed("four", *OLD), link=LINKS)

    answer = await push(made, "four")

    assert answer.status == 202
    assert copy_of(made).count(b"<item>") == 4


async def test_push_overtaken_causes_fetch(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    newest = ("five", "four", *OLD[:-1])
    made.stand.origin.publish("/feed.xml", a_feed(*newest), link=LINKS)
    await push(made, *newest)
    asked = made.stand.origin.requests

    answer = await push(made, "four", *OLD)  # sent first, but arrives last

    assert answer.status == 202
    assert b"five" in copy_of(made)
    assert made.stand.origin.requests == asked + 1


async def test_push_repeated_changes_nothing(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    await push(made, "four", *OLD)
    asked, told = made.stand.origin.requests, await made.stand.notifications.changes.last_number()

    answer = await push(made, "four", *OLD)

    assert answer.status == 202
    assert (made.stand.origin.requests, await made.stand.notifications.changes.last_number()) == (asked, told)


@pytest.mark.parametrize("body", [b"", b"<html>", b"<rss><channel>", b"<feed xmlns='http://www.w3.org/2005/Atom'/>"])
async def test_push_refused_by_content_guard_keeps_copy(stand_at: Callable[..., Any], body: bytes) -> None:
    made = await subscribed(stand_at)
    before = copy_of(made)

    await made.at_callback("POST", content=body, **signed(made, body))

    assert copy_of(made) == before
    assert len(made.stand.origin.log) == 2


async def test_push_does_not_change_origin_state(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    made.stand.origin.break_down(500)
    await made.stand.read()

    await push(made, "four", *OLD)

    resource = made.stand.app.service.store.get(TARGET)
    assert resource is not None
    assert resource.failures.count == 1
    assert "etag" not in resource.variants[0].fields
    assert b"four" in copy_of(made)


async def test_push_compressed_is_decoded(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    body = gzip.compress(a_feed("four", *OLD))

    await made.at_callback("POST", content=body, Content_Encoding="gzip", **signed(made, body))

    assert b"four" in copy_of(made)
    assert made.stand.origin.requests == 1


async def test_push_for_https_feed_needs_secret_sent_over_https(
    stand_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await subscribed(stand_at)
    (known,) = await made.held(Role.PUBLISHER)
    over_http, over_https = known.secret, made.asked[-1]["hub.secret"]
    service, bodies = made.stand.app.service, list[bytes]()

    async def pushed(target: str, body: bytes, media_type: str | None) -> str:
        bodies.append(body)
        return ""

    monkeypatch.setattr(service.admin, "apply_push", pushed)
    for secret, topic, used in (
        (over_http, "https://origin.example/feed.xml", 0),
        (over_https, "https://origin.example/feed.xml", 1),
        (over_http, "http://origin.example/feed.xml", 2),
    ):
        await made.stand.notifications.subscriptions.remove(known.id)
        known = await made.stand.notifications.subscriptions.put(replace(known, topic=topic))
        body = a_feed("x")
        callback = f"https://feeds.example/-/push/websub/{known.id}.{known.data['key']}"
        signature = signatures_and_tokens.signature(secret, body, "sha256")
        await made.at_callback("POST", callback=callback, content=body, X_Hub_Signature=signature)
        assert len(bodies) == used


async def test_secret_over_https_is_not_sent_over_http(stand_at: Callable[..., Any]) -> None:
    """A hub without https gets the request by http. If the next lease is requested by https, a party that read the
    request by http does not know the secret."""
    made = await websub_at(stand_at)
    secrets = dict[str, set[str]]()

    def answer(url: str) -> Response | Unreachable:
        body = next(body for method, asked, body in reversed(made.calls) if asked == url)
        secrets.setdefault(url, set()).add(dict(parse_qsl(body.decode()))["hub.secret"])
        return Response(202) if url.startswith("http:") else Unreachable("no https")

    made.stand.others.answer = answer
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS.replace("https:", "http:"))
    await made.read_by_somebody()
    await made.stand.pass_time(60)

    assert secrets.keys() == {HUB, HUB.replace("https:", "http:")}
    assert len(set.union(*secrets.values())) == 2


@pytest.mark.parametrize(
    ("later", "words"), [(1, "pushed, with the content"), (-1, "the hub has accepted the request")]
)
async def test_push_during_subscription_request_is_newer_than_its_response(
    stand_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, later: int, words: str
) -> None:
    """A hub may verify and push before it responds to the request. The push then counts as newer than the response."""
    made = await websub_at(stand_at)
    stand, call = made.stand, made.stand.others.call

    async def pushes_first(method: str, url: str, *rest: Any, **more: Any) -> Response:
        answer = await call(method, url, *rest, **more)
        (known,) = await made.held(Role.PUBLISHER)
        at = stand.clock.now() + later
        await stand.notifications.subscriptions.record_notification(
            known.id, at, "pushed, with the content", success=True
        )
        return answer

    monkeypatch.setattr(stand.others, "call", pushes_first)
    stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()

    (known,) = await made.held(Role.PUBLISHER)
    assert known.note == words


async def test_secrets_that_a_hub_repeats_are_not_logged(
    stand_at: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    made = await websub_at(stand_at)
    made.stand.others.answer = lambda _: Response(400, body=b"invalid: " + made.calls[-1][2][::-1][:200][::-1])
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)

    await made.read_by_somebody()

    assert "status 400 from the hub" in caplog.text
    (known,) = await made.held(Role.PUBLISHER)
    for secret in (known.secret, known.data["https_secret"], known.data["next"]):
        assert secret not in caplog.text


async def test_push_rate_is_limited(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at, source_limit=3)

    answers = [(await push(made, "four", *OLD)).status for _ in range(4)]

    assert answers == [202, 202, 202, 429]


# -- leases, outages and failing hubs


async def test_lease_is_renewed_repeatedly(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)

    for _ in range(4):
        for _ in range(18):
            await made.read_by_somebody()
            await made.stand.pass_time(DAY / 2)
        await made.verify(lease_seconds=10 * DAY)

    assert len(made.asked) == 5
    assert {each["hub.mode"] for each in made.asked} == {"subscribe"}
    assert len({each["hub.callback"] for each in made.asked}) == 5
    (known,) = await made.held(Role.PUBLISHER)
    assert known.expires > made.stand.clock.now() + 9 * DAY


async def test_lease_expired_in_outage_is_requested_anew(
    stand_at: Callable[..., Any],
) -> None:
    clock = ManualClock(NOON)
    origin = Origin(clock)
    made = await subscribed(stand_at, folder="store", origin=origin, clock=clock)
    await made.stand.app.close()
    clock.advance(30 * DAY)

    again = await websub_at(stand_at, folder="store", origin=origin, clock=clock)
    assert again.asked == []
    await again.read_by_somebody()

    (asked,) = again.asked
    assert asked["hub.callback"] != made.asked[0]["hub.callback"]


async def test_short_lease_that_ended_in_outage_is_requested_anew_at_once(stand_at: Callable[..., Any]) -> None:
    """The feed still has readers. Without a lease, changes are pushed again only after the next request to the hub."""
    clock = ManualClock(NOON)
    origin = Origin(clock)
    made = await websub_at(stand_at, folder="store", origin=origin, clock=clock)
    origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()
    await made.verify(lease_seconds=HOUR)
    await made.stand.app.close()
    clock.advance(2 * HOUR)

    again = await websub_at(stand_at, folder="store", origin=origin, clock=clock)
    await again.stand.pass_time(10)

    ((_, url, body),) = _to_hubs(again)
    assert url == HUB
    assert dict(parse_qsl(body.decode()))["hub.callback"] != made.asked[0]["hub.callback"]


async def test_lease_that_ended_without_an_answer_of_the_hub_is_requested_anew_at_once(
    stand_at: Callable[..., Any],
) -> None:
    made = await websub_at(stand_at)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()
    await made.verify(lease_seconds=300)
    made.hub = lambda: Response(503)
    await made.stand.pass_time(285)
    (known,) = await made.held(Role.PUBLISHER)

    await made.stand.pass_time(20)
    await made.stand.pass_time(1)

    (new,) = await made.held(Role.PUBLISHER)
    assert new.id != known.id
    assert made.asked[-1]["hub.callback"].partition("/websub/")[2].startswith(f"{new.id}.")


async def test_lease_survives_short_outage(
    stand_at: Callable[..., Any],
) -> None:
    clock = ManualClock(NOON)
    origin = Origin(clock)
    made = await subscribed(stand_at, folder="store", origin=origin, clock=clock)
    callback = made.asked[0]["hub.callback"]
    await made.stand.app.close()
    clock.advance(HOUR)
    again = await websub_at(stand_at, folder="store", origin=origin, clock=clock)
    body = a_feed("four", *OLD)
    fields = signed(made, body)
    assert again.asked == []

    assert (await again.at_callback("POST", callback=callback, content=body, **fields)).status == 202
    assert b"four" in copy_of(again)

    for _ in range(18):
        await again.read_by_somebody()
        await again.stand.pass_time(DAY / 2)
    assert [each["hub.mode"] for each in again.asked] == ["subscribe"]


async def test_feed_without_readers_is_unsubscribed(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)

    await made.stand.pass_time(DAY + HOUR)
    assert made.asked[-1]["hub.mode"] == "unsubscribe"
    assert made.asked[-1]["hub.callback"] == made.asked[0]["hub.callback"]
    assert (await made.at_callback("POST", content=b"x")).status == 410
    answer = await made.verify(mode="unsubscribe", lease_seconds=None)

    assert (answer.status, answer.body) == (200, b"abc")
    assert await made.held(Role.PUBLISHER) == []


async def test_feed_without_readers_is_unsubscribed_once_at_a_hub_that_it_no_longer_names(
    stand_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await subscribed(stand_at)
    await made.stand.pass_time(DAY / 2)
    await made.read_by_somebody()
    await made.stand.pass_time(DAY / 2 + HOUR)  # the counts are complete
    other = LINKS.replace("https://hub.example/", HUB + "new")
    made.stand.origin.publish("/feed.xml", a_feed("four", *OLD), link=other)
    monkeypatch.setattr(Subscriber, "is_read", lambda *_: False)
    ended: list[str] = []
    end_push_lease = made.stand.app.service.admin.end_push_lease

    async def end(target: str) -> None:
        ended.append(target)
        await end_push_lease(target)

    monkeypatch.setattr(made.stand.app.service.admin, "end_push_lease", end)

    await made.stand.read()
    await made.stand.pass_time(5)

    asked = [(dict(parse_qsl(body.decode()))["hub.mode"], url) for _, url, body in _to_hubs(made)]
    assert asked == [("subscribe", HUB), ("unsubscribe", HUB)]
    assert ended == [TARGET]


async def test_clock_set_forward_after_the_start_ends_no_subscription_within_the_first_window(
    stand_at: Callable[..., Any],
) -> None:
    made = await subscribed(stand_at)
    asked = len(made.asked)
    made.stand.clock.set(NOON + 2 * DAY)

    await made.stand.pass_time(HOUR)
    assert len(made.asked) == asked  # readers that poll daily have not polled since the start

    await made.stand.pass_time(DAY)
    assert made.asked[-1]["hub.mode"] == "unsubscribe"


async def test_feed_with_new_hub_is_resubscribed(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    other = LINKS.replace("https://hub.example/", HUB + "new")

    made.stand.origin.publish("/feed.xml", a_feed("four", *OLD), link=other)
    await made.stand.read()
    await made.stand.pass_time(5)

    asked = [(dict(parse_qsl(body.decode()))["hub.mode"], url) for _, url, body in _to_hubs(made)]
    assert asked == [("subscribe", HUB), ("unsubscribe", HUB), ("subscribe", HUB + "new")]


@pytest.mark.parametrize("answer", [Response(400, body=b"no"), Response(403), Forbidden("private")])
async def test_hub_refusal_leads_to_next_hub(stand_at: Callable[..., Any], answer: Any) -> None:
    made = await websub_at(stand_at)
    made.hub = lambda: answer if made.calls[-1][1] == HUB + "a" else Response(202)
    links = f'<{HUB}a>; rel="hub", <{HUB}b>; rel=hub'
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=links)

    await made.read_by_somebody()
    await made.stand.pass_time(5)

    assert [url for _, url, _ in _to_hubs(made)] == [HUB + "a", HUB + "b"]
    states = {each.callback: "failed" in each.data for each in await made.held(Role.PUBLISHER)}
    assert states == {HUB + "a": True, HUB + "b": False}


async def test_hub_unreachable_is_retried(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at)
    made.hub = lambda: Unreachable("away")
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()
    await made.stand.pass_time(60)
    tried = len(made.asked)
    made.hub = lambda: Response(202)

    await made.stand.pass_time(2 * HOUR)
    await made.verify()

    assert tried >= 2
    assert [each.state for each in await made.held(Role.PUBLISHER)] == [State.ACTIVE]


async def test_hub_is_asked_again_only_after_its_retry_after(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at)
    made.hub = lambda: Response(503, Fields([("Retry-After", "7200")]))
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()
    first = len(made.asked)
    for _ in range(11):
        await made.stand.pass_time(600)
    early = len(made.asked)

    await made.stand.pass_time(600)

    assert (first, early, len(made.asked)) == (1, 1, 2)


async def test_request_that_a_hub_verifies_but_answers_with_an_error_is_repeated(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at)
    made.hub = lambda: Response(500)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()
    assert (await made.verify(lease_seconds=10 * DAY)).status == 200
    made.hub = lambda: Response(202)

    await made.stand.pass_time(HOUR)

    first, *_, last = made.asked
    assert last["hub.callback"] == first["hub.callback"]
    (known,) = await made.held(Role.PUBLISHER)
    assert (known.state, known.note) == (State.ACTIVE, "the hub has accepted the request")


async def test_request_is_not_repeated_after_a_denial(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at)
    made.hub = lambda: Response(500)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()
    tried = len(made.asked)

    await made.verify(mode="denied", challenge=None)
    await made.stand.pass_time(HOUR)

    assert len(made.asked) == tried


@pytest.mark.parametrize("answer", [Response(404), Response(301), Forbidden("port 443 is not allowed")])
async def test_hub_advertised_by_http_is_asked_by_http_if_https_refuses(
    stand_at: Callable[..., Any], answer: Any
) -> None:
    made = await websub_at(stand_at)
    made.stand.others.answer = lambda url: answer if url.startswith("https:") else Response(202)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link='<http://hub.example/>; rel="hub"')

    await made.read_by_somebody()
    await made.stand.pass_time(60)

    assert [url for _, url, _ in made.calls] == ["https://hub.example/", "http://hub.example/"]


async def test_change_of_public_url_renews_the_subscription(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at, folder="store")
    await made.stand.app.close()

    again = await websub_at(
        stand_at, folder="store", origin=made.stand.origin, clock=made.stand.clock, public_url="https://new.example/"
    )
    await again.read_by_somebody()
    await again.stand.pass_time(HOUR)

    (body,) = [body for _, url, body in again.calls if url == HUB]
    assert dict(parse_qsl(body.decode()))["hub.callback"].startswith("https://new.example/-/push/websub/")


async def test_feed_with_new_topic_is_resubscribed_after_a_day(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    new_topic = "http://origin.example/other.xml"
    made.stand.origin.publish("/feed.xml", a_feed("four", *OLD), link=f"<{HUB}>; rel=hub, <{new_topic}>; rel=self")
    await made.read_by_somebody()
    await made.stand.read()
    await made.stand.pass_time(HOUR)
    assert len(made.asked) == 1

    for _ in range(3):
        await made.stand.pass_time(DAY / 2)
        await made.read_by_somebody()

    assert [(asked["hub.mode"], asked["hub.topic"]) for asked in made.asked] == [
        ("subscribe", TARGET),
        ("subscribe", new_topic),
    ]
    assert (await push(made, "five", "four", *OLD)).status == 404
    assert (await made.verify()).status == 200
    assert (await push(made, "five", "four", *OLD)).status == 202


async def test_change_of_hub_and_public_url_ends_the_former_subscription(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at, folder="store")
    await made.stand.app.close()
    made.stand.origin.publish("/feed.xml", a_feed("four", *OLD), link=LINKS.replace("hub.example", "other.example"))

    again = await websub_at(
        stand_at, folder="store", origin=made.stand.origin, clock=made.stand.clock, public_url="https://new.example/"
    )
    await again.stand.read()
    await again.stand.pass_time(HOUR)

    requests = [(url, dict(parse_qsl(body.decode()))["hub.mode"]) for _, url, body in again.calls]
    assert {("https://other.example/", "subscribe"), (HUB, "unsubscribe")} <= set(requests)
    assert {each.callback: each.data["wanted"] for each in await again.held(Role.PUBLISHER)} == {
        "https://other.example/": "subscribe",
        HUB: "unsubscribe",
    }


async def test_feed_is_not_subscribed_without_public_url_or_permission(
    stand_at: Callable[..., Any],
) -> None:
    own = LINKS.replace(HUB, "https://feeds.example/-/hub")
    for options, link in (
        ({"public_url": ""}, LINKS),
        ({"push_subscribe": False}, LINKS),
        ({"private": True}, LINKS),
        ({}, own),
        ({"upstream": "http://origin.example/"}, LINKS),
    ):
        made = await websub_at(stand_at, **options)
        made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=link)
        await made.read_by_somebody()
        await made.stand.pass_time(HOUR)
        assert (made.asked, await made.held(Role.PUBLISHER)) == ([], []), options


async def test_feed_never_read_is_not_subscribed(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)

    await made.stand.read()
    await made.stand.pass_time(HOUR)

    assert made.asked == []


# -- limits for unknown clients


async def test_hub_limits_subscriptions_per_site(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at, subscriptions_max=100)
    await made.change(*OLD)

    answers = [(await made.subscribe(f"http://{name}.stranger.org/")).status for name in "abc"]

    assert answers == [202, 202, 503]
    assert (await made.subscribe("http://a.stranger.org/")).status == 202
    assert (await made.subscribe("http://other.org/")).status == 202


async def test_hub_counts_pending_verifications(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at, subscriptions_max=2)
    await made.change(*OLD)
    made.confirms = False
    made.callback = lambda _: Unreachable("away")

    answers = [(await made.subscribe(f"http://{name}.example/")).status for name in "abc"]

    assert answers == [202, 202, 503]


async def test_hub_limits_requests_per_client(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at, source_limit=2)
    await made.change(*OLD)

    answers = [(await made.subscribe(f"{ME}{number}")).status for number in range(3)]

    assert answers == [202, 202, 429]
    assert (await made.subscribe(ME, address="198.51.100.1")).status == 202


async def test_subscription_and_delivery_survive_restart(stand_at: Callable[..., Any]) -> None:
    clock = ManualClock(NOON)
    origin = Origin(clock)
    made = await websub_at(stand_at, folder="store", origin=origin, clock=clock)
    await made.change(*OLD)
    await made.subscribe(secret="s")
    made.callback = lambda _: Unreachable("away")
    await made.change("four", *OLD)
    await made.stand.app.close()

    again = await websub_at(stand_at, folder="store", origin=origin, clock=clock)
    await again.stand.pass_time(60)

    ((url, body, fields),) = again.deliveries
    assert (url, b"four" in body, "x-hub-signature" in fields) == (ME, True, True)


async def with_purged_delivery(stand_at: Callable[..., Any]) -> WebSubStand:
    """Return a hub with a delivery that failed once and whose feed was then purged."""
    made = await websub_at(stand_at)
    made.stand.origin.publish("/feed.xml", a_feed("one"))
    await made.stand.read()
    await made.subscribe()
    made.callback = lambda _: Response(503)
    await made.change("two", "one")
    made.callback = lambda _: Response(200)
    await made.stand.app.service.admin.purge(TARGET)
    return made


async def test_delivery_of_a_purged_feed_fetches_the_feed(stand_at: Callable[..., Any]) -> None:
    made = await with_purged_delivery(stand_at)

    await made.stand.pass_time(60)

    assert [b"<title>two</title>" in body for _, body, _ in made.deliveries] == [True, True]
    assert len(made.verifications) == 1
    assert [each.state for each in await made.held()] == [State.ACTIVE]


async def test_delivery_of_a_purged_feed_waits_for_the_origin(stand_at: Callable[..., Any]) -> None:
    made = await with_purged_delivery(stand_at)
    made.stand.origin.break_down()
    await made.stand.pass_time(HOUR)
    made.stand.origin.recover()

    await made.stand.pass_time(2 * HOUR)

    assert len(made.deliveries) == 2
    assert [each.state for each in await made.held()] == [State.ACTIVE]


async def test_paused_subscription_refuses_queued_delivery(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    (known,) = await made.held(Role.PUBLISHER)
    await made.stand.notifications.subscriptions.pause(known.id)
    before = copy_of(made)

    assert (await push(made, "four", *OLD)).status == 202

    assert copy_of(made) == before


async def test_hub_without_public_url_delivers_nothing(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at, upstream="http://origin.example")
    await made.change("one")
    await made.subscribe()
    options = {"store": "memory:", "websub_hub": "known", "feed_min_interval": 0, "site_interval": 0}
    made.stand.app.configure({**options, "upstream": "http://origin.example"})

    await made.change("two", "one")

    assert made.deliveries == []


async def test_hub_sends_the_language_that_a_client_without_preference_gets(stand_at: Callable[..., Any]) -> None:
    made = await websub_at(stand_at, feed_min_interval=0, site_interval=0)
    titles = ["one"]
    made.stand.origin.speak(in_language(titles))
    await read(made)
    await read(made, accept_language="de")
    await made.subscribe()
    for title in ("two", "three"):
        titles.insert(0, title)
        await made.stand.pass_time(2 * HOUR)
        await read(made)
        await read(made, accept_language="de")
        await made.stand.pass_time(60)

    bodies = [body for _, body, _ in made.deliveries]
    assert bodies
    assert all(b"en one" in body and b"de" not in body.partition(b"<item>")[2] for body in bodies)


@pytest.mark.parametrize("status", [401, 451])
async def test_hub_sends_no_copy_of_a_feed_to_which_the_origin_restricts_access(
    stand_at: Callable[..., Any], status: int
) -> None:
    made = await websub_at(stand_at, feed_min_interval=0, site_interval=0)
    made.stand.origin.publish("/feed.xml", a_feed("one"))
    await made.read_by_somebody()
    await made.subscribe()
    made.callback = lambda _: Unreachable("down")
    await made.change("two", "one")
    attempts = len(made.deliveries)
    assert attempts

    made.stand.origin.break_down(status)
    await made.stand.pass_time(20)
    await made.stand.read()
    attempts = len(made.deliveries)
    made.callback = lambda _: Response(200)
    await made.stand.pass_time(DAY)

    assert len(made.deliveries) == attempts
    assert [each.state for each in await made.held()] == [State.ACTIVE]


async def test_subscription_display_omits_secret(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)
    (known,) = await made.held(Role.PUBLISHER)

    assert known.secret
    assert known.secret not in repr(known)


async def test_verification_with_too_many_parameters_is_refused(stand_at: Callable[..., Any]) -> None:
    made = await subscribed(stand_at)

    answer = await made.at_callback(query=urlencode([(f"a{number}", "b") for number in range(1_000)]))

    assert answer.status == 404


def _to_hubs(made: WebSubStand) -> list[tuple[str, str, bytes]]:
    return [each for each in made.calls if each[0] == "POST" and each[1].startswith(HUB)]


async def test_start_does_not_load_feeds_into_memory_for_hubs(stand_at: Callable[..., Any]) -> None:
    clock = ManualClock(NOON)
    origin = Origin(clock)
    made = await subscribed(stand_at, folder="store", origin=origin, clock=clock)
    origin.publish("/other.xml", a_feed(*OLD))
    await made.stand.read(TARGET.replace("feed.xml", "other.xml"))
    await made.stand.app.close()

    again = await websub_at(stand_at, folder="store", origin=origin, clock=clock)
    await again.stand.pass_time(1)

    permitted = again.stand.app.service.store
    assert isinstance(permitted, PermittedStore)
    store = permitted.wrapped
    assert isinstance(store, TieredStore)
    assert (len(list(store.targets())), len(store._memory)) == (2, 0)
