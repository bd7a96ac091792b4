"""WebSub (W3C Recommendation, 23 January 2018): a test for each of its sentences that binds a hub or a subscriber."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.clock import DAY
from feedproxy.errors import Forbidden
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.message import Fields, Response
from feedproxy.notify.subscription_table import Role, State
from feedproxy.notify.websub.hub_discovery import discover
from feedproxy.notify.websub.subscriber import prefer_https
from feedproxy.upstream.upstream_errors import FetchTimeout, MalformedResponse, Unreachable
from tests.stages.notify import NOON, TARGET
from tests.stages.origin import a_feed
from tests.stages.websub import HUB, LINKS, ME, PUBLIC, WebSubStand, links_of, websub_at

CHANNEL = Channel(Kind.RSS, "2.0", well_formed=True)
OLD = ("one", "two", "three")


@pytest.fixture
async def stage(stand_at: Callable[..., Any]) -> WebSubStand:
    """Return a hub with one stored, public feed."""
    made = await websub_at(stand_at)
    await made.change(*OLD)
    return made


@pytest.fixture
async def reader(stand_at: Callable[..., Any]) -> WebSubStand:
    """Return a subscriber with one feed that names a hub, after its subscription request."""
    made = await websub_at(stand_at)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()
    return made


def signed(made: WebSubStand, body: bytes, method: str = "sha256") -> dict[str, str]:
    secret = made.asked[-1]["hub.secret"].encode()
    return {"X_Hub_Signature": f"{method}={hmac.new(secret, body, method).hexdigest()}"}


# -- 3.1, 5.1: the subscription request, at our hub


async def test_subscription_request_is_answered_202_and_then_verified(
    stage: WebSubStand,
) -> None:
    answer = await stage.subscribe()

    assert answer.status == 202
    (asked,) = stage.verifications
    assert asked["hub.mode"] == ["subscribe"]
    assert asked["hub.topic"] == [TARGET]
    assert len(asked["hub.challenge"][0]) >= 32
    assert asked["hub.lease_seconds"] == ["864000"]
    (known,) = await stage.held()
    assert (known.state, known.expires, known.callback) == (State.ACTIVE, NOON + 864_000, ME)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mode": "subscribe", "topic": TARGET}, "hub.callback is missing"),
        ({"mode": "subscribe", "callback": ME}, "hub.topic is missing"),
        ({"callback": ME, "topic": TARGET}, "hub.mode is missing"),
        ({"mode": "subscript", "callback": ME, "topic": TARGET}, "invalid hub.mode"),
        ({"mode": "subscribe", "callback": [ME, "http://b.example/"], "topic": TARGET}, "expected one value"),
        ({"mode": "subscribe", "callback": ME, "topic": TARGET, "secret": "x" * 200}, "less than 200 bytes"),
        ({"mode": "subscribe", "callback": ME, "topic": TARGET, "lease_seconds": "0"}, "positive decimal integer"),
        ({"mode": "subscribe", "callback": ME, "topic": TARGET, "lease_seconds": "-5"}, "positive decimal integer"),
        ({"mode": "subscribe", "callback": "ftp://me.example/", "topic": TARGET}, "invalid hub.callback"),
        ({"mode": "subscribe", "callback": "http://a:b@me.example/", "topic": TARGET}, "invalid hub.callback"),
        ({"mode": "subscribe", "callback": ME + "#part", "topic": TARGET}, "fragment"),
        ({"mode": "subscribe", "callback": ME, "topic": "http://origin.example/unknown"}, "no public feed"),
        ({"mode": "subscribe", "callback": PUBLIC + "-/hub", "topic": TARGET}, "leads back"),
        ({"mode": "subscribe", "callback": "http://proxy.example/http://b.example/", "topic": TARGET}, "leads back"),
        ({"mode": "unsubscribe", "callback": ME, "topic": TARGET}, "no such subscription"),
        ({"content": b"hub.mode=subscribe&hub.callback=%FF"}, "UTF-8"),
        ({"content": b"hub.callback=\xff"}, "UTF-8"),
    ],
)
async def test_subscription_request_with_an_error_is_answered_4xx_with_plain_text(
    stage: WebSubStand, wrong: dict[str, Any], words: str
) -> None:
    answer = await stage.post(**wrong)

    assert 400 <= answer.status < 500
    assert answer.fields.get("content-type") == "text/plain; charset=utf-8"
    assert words in answer.body.decode()
    assert stage.calls == []


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        ("http://me.example:2525/callback", "port 2525 is not in allow_ports"),
        ("http://192.168.1.9/callback", "192.168.1.9 is not a public address"),
        ("http://[::1]/callback", "::1 is not a public address"),
        ("http://localhost/callback", "127.0.0.1 is not a public address"),
        ("http://0x7f.1/callback", "unusual spelling"),
    ],
)
async def test_subscription_request_with_a_forbidden_callback_is_answered_403(
    stage: WebSubStand, callback: str, words: str
) -> None:
    answer = await stage.subscribe(callback)

    assert answer.status == 403
    assert words in answer.body.decode()
    assert stage.calls == []


async def test_subscription_request_must_be_a_form(stage: WebSubStand) -> None:
    assert (await stage.subscribe(media_type="application/json")).status == 415
    assert (await stage.subscribe(media_type="application/x-www-form-urlencoded; charset=UTF-8")).status == 202


async def test_subscription_request_parameters_that_are_unknown_are_ignored(stage: WebSubStand) -> None:
    assert (await stage.subscribe(verify="async", colour="blue")).status == 202
    assert len(await stage.held()) == 1


@pytest.mark.parametrize(
    ("asked", "granted"), [(None, 864_000), (3_600, 3_600), (1, 60), (10**9, 864_000), (10**30, 864_000)]
)
async def test_lease_is_granted_within_bounds(stage: WebSubStand, asked: int | None, granted: int) -> None:
    wanted: dict[str, Any] = {"lease_seconds": asked} if asked is not None else {}
    await stage.subscribe(**wanted)

    assert stage.verifications[0]["hub.lease_seconds"] == [str(granted)]
    (known,) = await stage.held()
    assert known.expires == NOON + granted


async def test_subscription_is_replaced_once_a_repeated_request_is_verified(stage: WebSubStand) -> None:
    await stage.subscribe(lease_seconds=3_600, secret="one")
    stage.stand.clock.advance(1_800)

    await stage.subscribe(lease_seconds=7_200, secret="two")

    (known,) = await stage.held()
    assert (known.expires, known.secret) == (NOON + 1_800 + 7_200, "two")


async def test_subscription_is_unchanged_if_verification_fails(stage: WebSubStand) -> None:
    await stage.subscribe(lease_seconds=3_600, secret="one")
    stage.confirms = False

    assert (await stage.subscribe(lease_seconds=7_200, secret="two")).status == 202
    assert (await stage.post(mode="unsubscribe", callback=ME, topic=TARGET)).status == 202

    (known,) = await stage.held()
    assert (known.expires, known.secret) == (NOON + 3_600, "one")


async def test_topic_is_recognised_in_every_equivalent_spelling(stage: WebSubStand) -> None:
    await stage.subscribe(topic="HTTP://origin.example:80/%66eed.xml")
    await stage.subscribe(callback=ME + "2", topic=PUBLIC + "http://origin.example/feed.xml")
    await stage.subscribe(callback="http://me.example/%63allback", topic=TARGET)

    assert {each.topic for each in await stage.held()} == {TARGET}
    assert [each.callback for each in await stage.held()] == [ME, ME + "2"]
    assert stage.verifications[0]["hub.topic"] == ["HTTP://origin.example:80/%66eed.xml"]


async def test_callback_query_is_preserved_and_parameters_are_appended(stage: WebSubStand) -> None:
    callback = "http://me.example/cb?foo=bar&hub.mode=mine"

    await stage.subscribe(callback=callback)
    await stage.change("four", *OLD)

    assert stage.calls[0][1].startswith(callback + "&hub.mode=subscribe&hub.topic=")
    assert [each[0] for each in stage.deliveries] == [callback]


async def test_subscription_to_a_private_topic_is_answered_404(
    stand_at: Callable[..., Any],
) -> None:
    for more in ({"private": True}, {"readers": ("ann",)}):
        stage = await websub_at(stand_at, **more)
        await stage.change(*OLD)
        assert (await stage.subscribe()).status == 404
        assert stage.calls == []


async def test_subscription_is_answered_403_with_websub_hub_own_or_off(stand_at: Callable[..., Any]) -> None:
    for policy in ("own", "off"):
        stage = await websub_at(stand_at, websub_hub=policy)
        await stage.change(*OLD)
        assert (await stage.subscribe()).status == 403
    without = await websub_at(stand_at, public_url="")
    assert (await without.subscribe()).status == 403


# -- 5.2: validation


async def test_subscription_to_an_unread_upstream_topic_fetches_it_and_denies_non_feeds(
    stand_at: Callable[..., Any],
) -> None:
    stage = await websub_at(stand_at, websub_hub="own", upstream="http://origin.example/")
    stage.stand.origin.publish("/feed.xml", a_feed("one"))
    stage.stand.origin.publish("/page", b"<html>", content_type="text/html")

    assert (await stage.subscribe(topic=PUBLIC + "feed.xml")).status == 202
    assert (await stage.subscribe(topic=PUBLIC + "page")).status == 202

    good, denied = stage.verifications
    assert good["hub.mode"] == ["subscribe"]
    assert (denied["hub.mode"], denied["hub.topic"]) == (["denied"], [PUBLIC + "page"])
    assert denied["hub.reason"]
    assert [each.topic for each in await stage.held()] == [TARGET]


async def test_subscription_is_denied_when_its_topic_becomes_private_before_delivery(
    stage: WebSubStand,
) -> None:
    await stage.subscribe()
    stage.callback = lambda _: Unreachable("away")
    await stage.change("four", *OLD)
    values = {"store": "memory:", "public_url": PUBLIC, "websub_hub": "known", "private": True}
    stage.stand.app.configure({**values, "feed_min_interval": 0, "site_interval": 0})

    await stage.stand.pass_time(60)

    assert len(stage.deliveries) == 1
    assert stage.verifications[-1]["hub.mode"] == ["denied"]
    assert await stage.held() == []


# -- 5.3: verification of intent


@pytest.mark.parametrize(
    "answer",
    [
        Response(200, body=b"something else"),
        Response(200),
        Response(404),
        Response(302, Fields([("Location", ME)])),
        Response(500),
        Forbidden("a private address"),
    ],
)
async def test_verification_fails_on_any_answer_other_than_the_challenge(
    stage: WebSubStand, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "feedproxy")
    stage.confirms = False
    stage.callback = lambda _: answer

    assert (await stage.subscribe()).status == 202
    await stage.stand.pass_time(3 * DAY)

    assert len(stage.calls) == 1
    assert await stage.held() == []
    assert f"websub: verify refused, {ME}: " in caplog.text
    (failed,) = stage.stand.notifications.delivery_worker.failed_requests
    assert (failed.request.protocol, failed.request.what, failed.request.callback) == ("websub", "verify", ME)


async def test_verification_of_an_unreachable_callback_is_tried_three_times_with_new_challenges(
    stage: WebSubStand,
) -> None:
    stage.confirms = False
    stage.callback = lambda _: Unreachable("away")

    await stage.subscribe()
    for _ in range(5):
        await stage.stand.pass_time(3_600)

    challenges = {each["hub.challenge"][0] for each in stage.verifications}
    assert len(stage.verifications) == len(challenges) == 3


async def test_verification_precedes_any_delivery(stage: WebSubStand) -> None:
    stage.confirms = False
    await stage.subscribe()

    await stage.change("four", *OLD)

    assert stage.deliveries == []


async def test_unsubscription_is_verified_and_ends_the_subscription(stage: WebSubStand) -> None:
    await stage.subscribe()

    assert (await stage.post(mode="unsubscribe", callback=ME, topic=TARGET, lease_seconds="x")).status == 202

    assert stage.verifications[-1]["hub.mode"] == ["unsubscribe"]
    assert await stage.held() == []
    await stage.change("four", *OLD)
    assert stage.deliveries == []


async def test_lease_that_expires_ends_the_subscription(stage: WebSubStand) -> None:
    await stage.subscribe(lease_seconds=3_600)

    await stage.stand.pass_time(3_601)
    await stage.change("four", *OLD)

    assert (await stage.held(), stage.deliveries) == ([], [])


# -- 6: publishing


@pytest.mark.parametrize("name", ["url", "topic"])
async def test_publish_notice_fetches_known_topics_only(stage: WebSubStand, name: str) -> None:
    await stage.subscribe()
    before = stage.stand.origin.requests
    stage.stand.origin.publish("/feed.xml", a_feed("four", *OLD))

    said: dict[str, Any] = {name: [TARGET, "http://origin.example/unknown"]}

    answer = await stage.post(mode="publish", **said)

    assert answer.status == 204
    assert stage.stand.origin.requests == before + 1
    assert b"four" in stage.deliveries[0][1]


async def test_publish_notice_without_a_valid_url_is_answered_400(stage: WebSubStand) -> None:
    assert (await stage.post(mode="publish")).status == 400
    assert (await stage.post(mode="publish", url="nonsense")).status == 400


# -- 7: content distribution


async def test_delivery_has_the_full_content_media_type_and_links(stage: WebSubStand) -> None:
    await stage.subscribe()

    await stage.change("four", *OLD)

    ((url, body, fields),) = stage.deliveries
    stored = stage.stand.app.service.store.get(TARGET)
    assert stored is not None
    assert url == ME
    assert body == stored.variants[0].content.bodies["identity"]
    assert fields.get("content-type") == "application/rss+xml"
    assert links_of(fields) == {"hub": PUBLIC + "-/hub", "self": TARGET}
    assert "x-hub-signature" not in fields


@pytest.mark.parametrize(
    ("topic", "named"),
    [
        (PUBLIC + "http://origin.example/feed.xml", PUBLIC + "http://origin.example/feed.xml"),
        ("HTTP://origin.example:80/feed.xml", "HTTP://origin.example:80/feed.xml"),
        ("http://origin.example/feed.xml#>", TARGET),
    ],
)
async def test_delivery_names_the_topic_as_the_subscriber_wrote_it(stage: WebSubStand, topic: str, named: str) -> None:
    """Subscribers recognise the subscription by it."""
    await stage.subscribe(topic=topic)

    await stage.change("four", *OLD)

    assert links_of(stage.deliveries[0][2]) == {"hub": PUBLIC + "-/hub", "self": named}


async def test_delivery_in_reverse_mode_names_the_public_topic(stand_at: Callable[..., Any]) -> None:
    stage = await websub_at(stand_at, websub_hub="own", upstream="http://origin.example/")
    await stage.change(*OLD)
    await stage.subscribe(topic=PUBLIC + "feed.xml")

    await stage.change("four", *OLD)

    assert links_of(stage.deliveries[0][2]) == {"hub": PUBLIC + "-/hub", "self": PUBLIC + "feed.xml"}


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_delivery_with_a_secret_is_signed(stand_at: Callable[..., Any], method: str) -> None:
    stage = await websub_at(stand_at, websub_signature=method)
    await stage.change(*OLD)
    await stage.subscribe(secret="sëcret")

    await stage.change("four", *OLD)

    ((_, body, fields),) = stage.deliveries
    expected = hmac.new("sëcret".encode(), body, getattr(hashlib, method)).hexdigest()
    assert fields.get("x-hub-signature") == f"{method}={expected}"


async def test_delivery_answered_2xx_is_successful_and_the_body_is_ignored(stage: WebSubStand) -> None:
    await stage.subscribe()
    stage.callback = lambda _: Response(299, body=b"error")

    await stage.change("four", *OLD)
    await stage.stand.pass_time(DAY)

    assert len(stage.deliveries) == 1


async def test_delivery_answered_410_ends_the_subscription(stage: WebSubStand) -> None:
    await stage.subscribe()
    stage.callback = lambda _: Response(410)

    await stage.change("four", *OLD)

    assert await stage.held() == []


@pytest.mark.parametrize(
    "answer",
    [
        Response(500),
        Response(302),
        Response(404),
        Unreachable("away"),
        FetchTimeout("slow"),
        MalformedResponse("closed"),
    ],
)
async def test_delivery_with_any_other_answer_is_retried_with_the_newest_content(
    stage: WebSubStand, answer: Any
) -> None:
    await stage.subscribe()
    stage.callback = lambda _: answer
    await stage.change("four", *OLD)
    await stage.stand.pass_time(60)
    await stage.change("five", "four", *OLD)
    failed = len(stage.deliveries)
    stage.callback = lambda _: Response(200)

    await stage.stand.pass_time(7_200)

    assert failed >= 2
    assert len(stage.deliveries) == failed + 1
    assert b"five" in stage.deliveries[-1][1]


async def test_delivery_failure_keeps_the_subscription_until_its_lease_ends(
    stage: WebSubStand,
) -> None:
    await stage.subscribe()
    stage.callback = lambda _: Response(500)
    await stage.change("four", *OLD)
    for _ in range(20):
        await stage.stand.pass_time(7_200)
    given_up = len(stage.deliveries)
    await stage.stand.pass_time(DAY)
    assert len(stage.deliveries) == given_up
    stage.callback = lambda _: Response(200)

    await stage.change("five", *OLD)

    assert len(await stage.held()) == 1
    assert b"five" in stage.deliveries[-1][1]


# -- 4: discovery, by our subscriber


def test_discovery_prefers_link_fields_to_the_document() -> None:
    from feedproxy.feed.parse import channel_parser

    body = a_feed(
        extra='<x:link xmlns:x="http://www.w3.org/2005/Atom" rel="hub" href="//inside.example/"/>'
        '<x:link xmlns:x="http://www.w3.org/2005/Atom" rel="self" href="/inside"/>'
    )
    channel = channel_parser.read(body, None)
    assert channel is not None

    by_field = discover(TARGET, Fields([("Link", LINKS)]), channel)
    by_document = discover(TARGET, Fields(), channel)

    assert (by_field.topic, by_field.hubs) == (TARGET, (HUB,))
    assert (by_document.topic, by_document.hubs) == ("http://origin.example/inside", ("http://inside.example/",))


def test_discovery_resolves_the_topic_against_xml_base() -> None:
    from feedproxy.feed.parse import channel_parser

    body = a_feed(
        extra='<x:link xmlns:x="http://www.w3.org/2005/Atom" rel="hub" href="hub" xml:base="https://hub.example/"/>'
        '<x:link xmlns:x="http://www.w3.org/2005/Atom" rel="self" href="feed#top" xml:base="https://e.example/a/"/>'
    )
    channel = channel_parser.read(body, None)
    assert channel is not None

    discovered = discover(TARGET, Fields(), channel)

    assert (discovered.topic, discovered.hubs) == ("https://e.example/a/feed", ("https://hub.example/hub",))


@pytest.mark.parametrize(
    ("href", "topic"),
    [
        ("http://Origin.example:80/%7efeed", "http://Origin.example:80/%7efeed"),
        ("http://origin.example", "http://origin.example"),
        (" HTTP://origin.example/feed ", "HTTP://origin.example/feed"),
        ("http://origin.example/feed?#top", "http://origin.example/feed?"),
        ("feed", "http://origin.example/feed"),
        ("feed#top", "http://origin.example/feed"),
        ("http://origin.example/a b", "http://origin.example/a%20b"),
        ("http://user@origin.example/", TARGET),
    ],
)
def test_discovery_does_not_normalise_the_topic(href: str, topic: str) -> None:
    assert discover(TARGET, Fields([("Link", f'<{href}>; rel="self", <{HUB}>; rel="hub"')]), CHANNEL).topic == topic


def test_discovery_prefers_https_for_hubs_advertised_as_http() -> None:
    assert prefer_https("http://hub.example/x", 0) == "https://hub.example/x"
    assert prefer_https("http://hub.example/x", 1) == "http://hub.example/x"
    assert prefer_https("http://hub.example:8080/", 0) == "http://hub.example:8080/"
    assert prefer_https("http://127.0.0.1/", 0) == "http://127.0.0.1/"


# -- 5.1: what our subscriber asks


async def test_subscriber_requests_the_self_link_as_topic(reader: WebSubStand) -> None:
    (asked,) = reader.asked

    assert (asked["hub.mode"], asked["hub.topic"]) == ("subscribe", TARGET)
    assert asked["hub.callback"].startswith(PUBLIC + "-/push/")
    assert len(asked["hub.callback"].rpartition(".")[2]) >= 32
    assert 16 <= len(asked["hub.secret"].encode()) < 200
    assert int(asked["hub.lease_seconds"]) == 10 * DAY
    heads = [fields for (method, _, _), fields in zip(reader.calls, reader.stand.others.heads, strict=True)]
    assert heads[0].get("content-type") == "application/x-www-form-urlencoded"


@pytest.mark.parametrize("status", [307, 308])
async def test_subscriber_follows_a_redirect_of_the_hub(reader: WebSubStand, status: int) -> None:
    before = len(reader.asked)
    reader.hub = lambda: (
        Response(status, Fields([("Location", "/other")])) if len(reader.asked) == before + 1 else (Response(202))
    )
    (known,) = await reader.held(Role.PUBLISHER)

    await reader.subscriber.renew(known)
    await reader.stand.settled()
    await reader.stand.pass_time(60)

    assert [url for _, url, _ in reader.calls][-1] == HUB + "other"
    assert reader.asked[-1]["hub.topic"] == TARGET


# -- 5.3: how our subscriber verifies


async def test_subscriber_returns_the_challenge_for_a_requested_subscription(reader: WebSubStand) -> None:
    answer = await reader.verify()

    assert (answer.status, answer.body) == (200, b"abc")
    (known,) = await reader.held(Role.PUBLISHER)
    assert known.state is State.ACTIVE
    assert known.expires == reader.stand.clock.now() + 86_400


@pytest.mark.parametrize(
    "changed", [{"topic": "http://origin.example/other"}, {"mode": "unsubscribe"}, {"mode": "x"}, {"challenge": None}]
)
async def test_subscriber_answers_404_to_verification_of_an_unrequested_subscription(
    reader: WebSubStand, changed: dict[str, Any]
) -> None:
    assert (await reader.verify(**changed)).status == 404
    assert [each.state for each in await reader.held(Role.PUBLISHER)] == [State.PENDING]


async def test_subscriber_answers_404_at_an_unknown_callback(reader: WebSubStand) -> None:
    for path in ("push/websub/1.guess", "push/websub/9.x", "push/websub/", "push/websub/1."):
        answer = await reader.at_callback(
            callback=PUBLIC + "-/" + path, query=f"hub.mode=subscribe&hub.topic={TARGET}&hub.challenge=x"
        )
        assert (answer.status, answer.body == b"x") == (404, False)


async def test_subscriber_ends_a_denied_subscription(reader: WebSubStand) -> None:
    await reader.verify()

    assert (await reader.verify(mode="denied", challenge=None, reason="no")).status == 200

    (known,) = await reader.held(Role.PUBLISHER)
    assert (known.state, known.renew_at, known.note) == (State.PENDING, None, "the hub denies: no")
    assert (await reader.at_callback("POST", content=b"x")).status == 410


async def test_subscriber_renews_before_the_lease_ends_with_a_new_callback(
    reader: WebSubStand,
) -> None:
    await reader.verify()
    first = reader.asked[-1]["hub.callback"]

    await reader.stand.pass_time(86_400 * 0.95)
    await reader.verify()

    assert len(reader.asked) == 2
    assert reader.asked[-1]["hub.callback"] != first
    assert (await reader.at_callback("POST", callback=first, content=b"x")).status == 410


# -- 7: what our subscriber does with content


async def test_push_with_a_valid_signature_replaces_the_copy_without_a_fetch(reader: WebSubStand) -> None:
    await reader.verify()
    asked, body = reader.stand.origin.requests, a_feed("four", *OLD)

    answer = await reader.at_callback("POST", content=body, Content_Type="application/rss+xml", **signed(reader, body))

    assert answer.status == 202
    resource = reader.stand.app.service.store.get(TARGET)
    assert resource is not None
    assert b"four" in resource.variants[0].content.bodies["identity"]
    assert reader.stand.origin.requests == asked


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_push_accepts_every_signature_method_of_the_hub(reader: WebSubStand, method: str) -> None:
    await reader.verify()
    body = a_feed("four", *OLD)

    await reader.at_callback("POST", content=body, **signed(reader, body, method))

    (known,) = await reader.held(Role.PUBLISHER)
    assert known.last_success == reader.stand.clock.now()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"X_Hub_Signature": "sha256=" + "0" * 64},
        {"X_Hub_Signature": "md5=" + "0" * 32},
        {"X_Hub_Signature": "sha256"},
        {"X_Hub_Signature": "sha256=é"},
    ],
)
async def test_push_without_a_valid_signature_is_acknowledged_and_ignored(
    reader: WebSubStand, fields: dict[str, str]
) -> None:
    await reader.verify()
    asked = reader.stand.origin.requests

    answer = await reader.at_callback("POST", content=a_feed("forged", *OLD), **fields)

    assert answer.status == 202
    assert reader.stand.origin.requests == asked
    resource = reader.stand.app.service.store.get(TARGET)
    assert resource is not None
    assert b"forged" not in resource.variants[0].content.bodies["identity"]
    (known,) = await reader.held(Role.PUBLISHER)
    assert (known.failures, known.last_success) == (1, known.last_success)


async def test_push_link_fields_are_ignored(reader: WebSubStand) -> None:
    await reader.verify()
    body = a_feed("four", *OLD)
    other = '<https://evil.example/>; rel="hub", <http://other.example/>; rel="self"'

    await reader.at_callback("POST", content=body, Link=other, **signed(reader, body))

    resource = reader.stand.app.service.store.get(TARGET)
    assert resource is not None
    assert resource.variants[0].fields.get("link") == LINKS


async def test_push_for_an_ended_subscription_is_answered_410(reader: WebSubStand) -> None:
    await reader.verify()
    (known,) = await reader.held(Role.PUBLISHER)
    await reader.stand.notifications.subscriptions.remove(known.id)

    assert (await reader.at_callback("POST", content=b"x")).status == 410
