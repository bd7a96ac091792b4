"""The change notification service ("a very simple web service", 2003): a test for each sentence that binds a server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest

from feedproxy.clock import ManualClock
from feedproxy.errors import Forbidden
from feedproxy.http.message import Response
from feedproxy.notify import resubscribe_after_outage
from feedproxy.notify.cnws import cnws_messages
from feedproxy.notify.cnws.cnws_messages import NAME, NAMESPACE
from feedproxy.notify.cnws.publisher import Publisher
from feedproxy.notify.cnws.subscriber import Subscriber
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.subscription_table import Role, State, Subscription
from feedproxy.upstream.upstream_errors import FetchTimeout, Unreachable
from tests.stages.clouds import PUBLIC, WORKSTATION, call
from tests.stages.notify import NOON, TARGET, Stand, wait_idle
from tests.stages.origin import Origin, a_feed

HOUR, DAY = 3600, 86_400
ME = f"http://{WORKSTATION}:8888/"
TRUE, FALSE = cnws_messages.write_result(True), cnws_messages.write_result(False)

SUBSCRIBE = f"""<notification version="1.0" xmlns="{NAMESPACE}">
<subscribe>
<resourceID>{{resource}}</resourceID>
<notificationURL>{{url}}</notificationURL>
</subscribe>
</notification>"""

CHANGE = f"""<notification version="1.0" xmlns="{NAMESPACE}">
<resourceChange>
<resourceID>{{resource}}</resourceID>
<changeTime>Mon, 07 Apr 2003 22:59:33 BST</changeTime>
<title>A title</title>
</resourceChange>
</notification>"""


@dataclass
class Service:
    """The publisher's and the subscriber's role of CNWS, and their stand."""

    stand: Stand
    publisher: Publisher
    subscriber: Subscriber

    async def subscribe(
        self, resource: str = TARGET, url: str = ME, *, content: bytes | None = None, **more: Any
    ) -> Response:
        content = content if content is not None else SUBSCRIBE.format(resource=resource, url=url).encode()
        return await self.publisher.endpoint(call("cnws", content, **more))

    async def push(self, path: str, resource: str = TARGET, *, content: bytes | None = None) -> str | None:
        content = content if content is not None else CHANGE.format(resource=resource).encode()
        answer = await self.subscriber.endpoint(call(path, content))
        await self.stand.settled()
        return status(answer)

    async def held(self, role: Role = Role.SUBSCRIBER) -> list[Subscription]:
        return await self.stand.notifications.subscriptions.all(role=role, protocol=NAME)

    async def change(self, *titles: str, **more: Any) -> None:
        self.stand.others.calls.clear()
        self.stand.origin.publish("/feed.xml", a_feed(*(titles or ("two", "one")), **more))
        await self.stand.read()

    @property
    def told(self) -> list[tuple[str, dict[str, str]]]:
        """Return the callback and the texts of every notification."""
        return [(url, parts(content, "resourceChange")) for _, url, content in self.stand.others.calls]


async def service_on(stand_at: Callable[..., Any], **options: Any) -> Service:
    made: list[tuple[Publisher, Subscriber]] = []

    def join(here: NotificationService) -> None:
        made.append((Publisher(here), Subscriber(here)))
        here.senders[NAME], here.subscribers[NAME] = made[0]

    stand = await stand_at(join=join, **{"ping_interval": 0, "source_limit": 0, **options})
    stand.others.answer = lambda _: Response(200, body=TRUE)
    return Service(stand, *made[0])


@pytest.fixture
async def service(stand_at: Callable[..., Any]) -> Service:
    """Return a publisher that has one feed, and subscribers that answer true."""
    made = await service_on(stand_at)
    made.stand.origin.publish(
        "/feed.xml", a_feed("one", extra="<description>All &lt;b&gt;the&lt;/b&gt; news</description>")
    )
    await made.stand.read()
    return made


def parts(content: bytes, kind: str) -> dict[str, str]:
    """Return the texts of a message, by element name. The message must have the form of the specification's samples."""
    root = ET.fromstring(content)
    assert (root.tag, root.get("version")) == (f"{{{NAMESPACE}}}notification", "1.0")
    (inner,) = root
    assert inner.tag == f"{{{NAMESPACE}}}{kind}"
    return {each.tag.partition("}")[2]: each.text or "" for each in inner}


def status(answer: Response) -> str | None:
    assert (answer.fields.get("Content-Type") or "").startswith("text/xml")
    return parts(answer.body, "result")["status"]


# -- the publisher


async def test_subscription_is_answered_true_with_title_and_description(service: Service) -> None:
    """ "The response should be an XML document … The title and description are optional." """
    answer = await service.subscribe()

    assert answer.status == 200
    assert parts(answer.body, "result") == {"status": "true", "title": "News", "description": "All the news"}


async def test_change_is_sent_to_the_subscriber(service: Service) -> None:
    await service.subscribe()
    await service.change("New <b>&amp;</b> shiny".replace("<", "&lt;").replace(">", "&gt;"), "one")

    ((url, told),) = service.told
    assert url == ME
    assert told == {
        "resourceID": TARGET,
        "changeTime": "Fri, 29 May 2026 12:00:00 GMT",
        "title": "New & shiny",
    }


async def test_title_and_description_are_plain_text_and_title_is_at_most_255_characters(service: Service) -> None:
    """ "If either is present then they must be markup free plain text in the same encoding as the rest of the XML
    message (e.g. utf8). The title can be up to 255 characters in length, the description can be of any length." """
    await service.subscribe()
    text = "&lt;p&gt;Ein &lt;i&gt;schöner&lt;/i&gt; Tag&lt;/p&gt;&lt;script&gt;x()&lt;/script&gt;"
    long = "ä" * 300
    body = f"""<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>{long}</title>
    <link>http://example.com/</link><description>d</description><item><title>{long}</title><guid>g</guid>
    <description>{text}</description></item></channel></rss>""".encode()
    service.stand.origin.publish("/feed.xml", body)
    await service.stand.read()

    ((_, told),) = service.told
    assert told["title"] == "ä" * 255
    assert told["description"] == "Ein schöner Tag"
    assert parts((await service.subscribe()).body, "result")["title"] == "ä" * 255


async def test_repeated_subscription_is_answered_true(service: Service) -> None:
    """ "If the subscriber is already on the list of interested parties for this resource then the the status should
    be true." """
    assert status(await service.subscribe()) == status(await service.subscribe()) == "true"
    await service.change()

    assert len(service.told) == 1


@pytest.mark.parametrize("resource", ["http://origin.example/unknown.xml", "nonsense", "ftp://origin.example/feed.xml"])
async def test_subscription_to_unpublished_resource_is_answered_false(service: Service, resource: str) -> None:
    """ "If the response is an error (HTTP, or FALSE) then the subscription is refused by the publisher." """
    answer = await service.subscribe(resource)

    assert status(answer) == "false"
    assert b"<description>" in answer.body  # why
    assert service.stand.origin.requests == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<notification/>",
        b"<other><subscribe/></other>",
        SUBSCRIBE.format(resource="", url=ME).encode(),
        SUBSCRIBE.format(resource=TARGET, url="").encode(),
        f'<!DOCTYPE a [<!ENTITY b "{TARGET}">]>'.encode() + SUBSCRIBE.format(resource="&b;", url=ME).encode(),
    ],
)
async def test_invalid_message_is_answered_400_and_false(service: Service, content: bytes) -> None:
    answer = await service.subscribe(content=content)

    assert (answer.status, status(answer)) == (400, "false")


async def test_resource_id_may_be_a_site(service: Service) -> None:
    """The sample's resourceID is that of a site, `http://news.bbc.co.uk/`."""
    assert status(await service.subscribe("http://example.com/")) == "true"
    await service.change()

    ((_, told),) = service.told
    assert told["resourceID"] == "http://example.com/"


async def test_resource_id_of_a_site_excludes_feeds_below_list_readers_min(stand_at: Callable[..., Any]) -> None:
    """Subscribers learn of feeds by a site that they did not name (option list_readers_min)."""
    service = await service_on(stand_at)
    service.stand.origin.publish("/feed.xml", a_feed("one"))
    await service.stand.read(readers=2)

    assert status(await service.subscribe("http://example.com/")) == "false"
    assert status(await service.subscribe(TARGET)) == "true"


async def test_subscriber_that_answers_false_is_removed(service: Service) -> None:
    """ "If the response is false then remove this server from the list." """
    await service.subscribe()
    service.stand.others.answer = lambda _: Response(200, body=FALSE)
    await service.change()

    assert await service.held() == []


@pytest.mark.parametrize("answer", [Response(404), Response(500), Response(410), Response(302)])
async def test_subscriber_that_answers_http_error_is_removed(service: Service, answer: Response) -> None:
    """ "If a HTTP error occurs then the server is removed from the list." """
    await service.subscribe()
    service.stand.others.answer = lambda _: answer
    await service.change()

    assert await service.held() == []


@pytest.mark.parametrize("failure", [Unreachable("closed"), FetchTimeout("slow")])
async def test_unreachable_subscriber_is_retried_for_24_hours_and_once_at_the_end(
    service: Service, failure: Exception
) -> None:
    """ "The publisher should keep retrying for a minimum of a 24 hour period, with a minimum of 1 retry at the end of
    that period." """
    await service.subscribe()
    service.stand.others.answer = lambda _: failure  # type: ignore[assignment,return-value]
    await service.change()
    begun, tries = service.stand.clock.now(), list[float]()
    while await service.held():
        count = len(service.stand.others.calls)
        await service.stand.pass_time(900)
        if len(service.stand.others.calls) > count:
            tries.append(service.stand.clock.now() - begun)

    assert DAY <= tries[-1] <= DAY + 900
    assert len(tries) > 10


async def test_unreachable_subscriber_that_recovers_within_a_day_is_notified_and_kept(service: Service) -> None:
    await service.subscribe()
    service.stand.others.answer = lambda _: Unreachable("closed")
    await service.change()
    for _ in range(10):
        await service.stand.pass_time(HOUR)
    service.stand.others.answer = lambda _: Response(200, body=TRUE)
    for _ in range(3):
        await service.stand.pass_time(HOUR)

    (one,) = await service.held()
    assert one.failures == 0
    assert await service.stand.notifications.queue.count_waiting() == {}


async def test_subscription_for_another_host_requires_that_host_to_answer_true(service: Service) -> None:
    """ "It may be required to add a server callback mechanism … to reduce the possibility for abuse." """
    service.stand.others.at["victim.example"] = ["198.51.100.9"]
    for answer in (Response(200), Response(200, body=b"<html>"), Response(200, body=FALSE), Response(500, body=TRUE)):
        service.stand.others.answer = lambda _, answer=answer: answer  # type: ignore[misc]
        assert status(await service.subscribe(url="http://victim.example/x")) == "false"
    service.stand.others.answer = lambda _: Unreachable("closed")
    assert status(await service.subscribe(url="http://victim.example/x")) == "false"
    await service.change()
    assert service.told == []

    service.stand.others.answer = lambda _: Response(200, body=TRUE)
    assert status(await service.subscribe(url="http://victim.example/x")) == "true"
    ((url, told),) = service.told
    assert (url, told["resourceID"]) == ("http://victim.example/x", TARGET)


async def test_subscription_for_a_name_of_the_caller_address_needs_no_verification(service: Service) -> None:
    service.stand.others.at["own.example"] = ["198.51.100.9", WORKSTATION]

    assert status(await service.subscribe(url="http://own.example/x")) == "true"
    assert service.stand.others.calls == []


async def test_subscription_with_forbidden_notification_url_is_answered_false(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def addresses(url: str) -> list[str]:
        raise Forbidden("127.0.0.1 is not a public address")

    monkeypatch.setattr(service.stand.others, "resolve", addresses)

    assert status(await service.subscribe(url="http://127.0.0.1/")) == "false"
    assert status(await service.subscribe(url="http://user:pass@host.example/")) == "false"


async def test_subscription_expires_40_days_after_the_last_true(service: Service) -> None:
    await service.subscribe()
    for _ in range(39):
        await service.stand.pass_time(DAY)
    await service.change()  # true: forty days more
    for _ in range(39):
        await service.stand.pass_time(DAY)
    assert len(await service.held()) == 1

    await service.stand.pass_time(DAY)
    assert await service.held() == []


async def test_subscription_is_answered_false_for_private_feed_or_disabled_publisher(
    stand_at: Callable[..., Any],
) -> None:
    for option in ({"private": True}, {"readers": ("ann",)}, {"cnws_publisher": "off"}, {"cnws_publisher": "own"}):
        service = await service_on(stand_at, **option)
        service.stand.origin.publish("/feed.xml", a_feed("one"))
        await service.stand.read()

        assert status(await service.subscribe()) == "false"


async def test_subscription_rate_per_address_is_limited(stand_at: Callable[..., Any]) -> None:
    service = await service_on(stand_at, source_limit=2)
    service.stand.origin.publish("/feed.xml", a_feed("one"))
    await service.stand.read()

    said = [status(await service.subscribe(url=f"{ME}{number}")) for number in range(3)]

    assert said == ["true", "true", "false"]


# -- the subscriber

PUBLISHER = "http://publisher.example/-/cnws"


async def subscribed(stand_at: Callable[..., Any], **options: Any) -> Service:
    service = await service_on(stand_at, **{"public_url": PUBLIC, "cnws_subscribe": PUBLISHER, **options})
    service.stand.origin.publish("/feed.xml", a_feed("one"))
    await service.stand.read()
    return service


async def our_path(service: Service) -> str:
    (one,) = await service.held(Role.PUBLISHER)
    return f"push/cnws/{one.id}-{one.secret}"


async def test_subscriber_requests_subscription_from_configured_publisher(stand_at: Callable[..., Any]) -> None:
    service = await subscribed(stand_at)

    ((method, url, content),) = service.stand.others.calls
    asked = parts(content, "subscribe")
    assert (method, url, asked["resourceID"]) == ("POST", PUBLISHER, TARGET)
    assert asked["notificationURL"] == f"https://proxy.example/-/{await our_path(service)}"
    assert (await service.held(Role.PUBLISHER))[0].state is State.ACTIVE


async def test_subscriber_without_public_url_requests_no_subscription(stand_at: Callable[..., Any]) -> None:
    assert (await subscribed(stand_at, public_url="")).stand.others.calls == []


async def test_notification_refreshes_the_feed_and_is_answered_true(stand_at: Callable[..., Any]) -> None:
    service = await subscribed(stand_at)
    requests = service.stand.origin.requests

    assert await service.push(await our_path(service)) == "true"
    assert service.stand.origin.requests == requests + 1


async def test_notification_with_foreign_namespace_elements_is_accepted(stand_at: Callable[..., Any]) -> None:
    """ "It's intended that extra information be added to the <resourceChange> elements by placing new elements into a
    different namespace." """
    service = await subscribed(stand_at)
    extra = '<x:content xmlns:x="urn:x"><x:resourceID>http://other.example/</x:resourceID></x:content></resourceChange>'
    content = CHANGE.format(resource=TARGET).replace("</resourceChange>", extra).encode()
    requests = service.stand.origin.requests

    assert await service.push(await our_path(service), content=content) == "true"
    assert service.stand.origin.requests == requests + 1


async def test_notification_may_state_its_encoding_in_content_type(stand_at: Callable[..., Any]) -> None:
    service = await subscribed(stand_at)
    content = CHANGE.format(resource=TARGET).replace("A title", "Café")
    request = call(await our_path(service), content.encode("latin-1"), Content_Type="text/xml; charset=iso-8859-1")

    assert status(await service.subscriber.endpoint(request)) == "true"


async def test_notification_for_unsubscribed_resource_is_answered_false(stand_at: Callable[..., Any]) -> None:
    """ "To unsubscribe from a resource notification list no action needs to be taken. When the next notification is
    received for a resource that is no longer of interest simply return 'false' as the status." """
    service = await subscribed(stand_at)
    path, requests = await our_path(service), service.stand.origin.requests

    assert await service.push(path, "http://other.example/feed") == "false"
    assert await service.push("push/cnws/77-guessed") == "false"
    assert await service.push(f"{path}x") == "false"
    service.stand.app.configure({"store": "memory:", "site_interval": 0, "public_url": PUBLIC})
    assert await service.push(path) == "false"  # the rule is gone
    assert service.stand.origin.requests == requests

    answer = await service.subscriber.endpoint(call(path, b"<!DOCTYPE a><a/>"))
    assert (answer.status, status(answer)) == (400, "false")


async def test_notification_for_purged_feed_is_answered_false(stand_at: Callable[..., Any]) -> None:
    service = await subscribed(stand_at)
    await service.stand.app.service.admin.purge(TARGET)

    assert await service.push(await our_path(service)) == "false"


async def test_notification_repeated_or_out_of_order_causes_one_fetch(stand_at: Callable[..., Any]) -> None:
    service = await subscribed(stand_at, ping_interval=60)
    path, requests = await our_path(service), service.stand.origin.requests

    for _ in range(4):
        assert await service.push(path) == "true"

    assert service.stand.origin.requests == requests + 1


async def test_subscription_is_confirmed_after_30_days_without_notification(
    stand_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "If any publisher has not issued a notification for a given resource within 30 days the subscriber should try
    and re-confirm the subscription." """
    monkeypatch.setattr(
        resubscribe_after_outage, "OUTAGE_MIN", 13 * HOUR
    )  # the loop turns twice a day here, for 50 days
    service = await subscribed(stand_at)
    path = await our_path(service)
    await hours(service, 20 * 24, step=12)
    assert await service.push(path) == "true"
    await hours(service, 30 * 24 - 12, step=12)
    assert len(service.stand.others.calls) == 1

    await hours(service, 12, step=12)

    assert [url for _, url, _ in service.stand.others.calls] == [PUBLISHER] * 2
    assert await our_path(service) == path


async def test_subscription_is_confirmed_after_an_outage(stand_at: Callable[..., Any]) -> None:
    """ "A server should normally only need to confirm (by re-subscribing) if there has been a service outage. When the
    service comes back on-line it should confirm all subscriptions." """
    clock = ManualClock(NOON)
    origin = Origin(clock)
    service = await subscribed(stand_at, folder="same", clock=clock, origin=origin)
    await hours(service, 5)
    assert len(service.stand.others.calls) == 1
    await service.stand.pass_time(3 * DAY)  # the machine slept
    assert len(service.stand.others.calls) == 2
    await service.stand.app.close()

    again = await service_on(
        stand_at, folder="same", clock=clock, origin=origin, public_url=PUBLIC, cnws_subscribe=PUBLISHER
    )
    await again.stand.settled()

    assert [urlsplit(url).netloc for _, url, _ in again.stand.others.calls] == ["publisher.example"]


@pytest.mark.parametrize("answer", [Response(200, body=FALSE), Response(404), Response(200, body=b"yes")])
async def test_subscription_refused_by_publisher_is_requested_again_after_a_day(
    stand_at: Callable[..., Any], answer: Response
) -> None:
    service = await service_on(stand_at, public_url=PUBLIC, cnws_subscribe=PUBLISHER)
    service.stand.others.answer = lambda _: answer
    service.stand.origin.publish("/feed.xml", a_feed("one"))
    await service.stand.read()
    await hours(service, 23)
    assert len(service.stand.others.calls) == 1

    await hours(service, 2)

    assert len(service.stand.others.calls) == 2


async def hours(service: Service, count: int, *, step: float = 1 / 12) -> None:
    """Advance the clock by `count` hours, in steps of `step` hours. Steps of more than five minutes count as
    outages.
    """
    for _ in range(round(count / step)):
        service.stand.clock.advance(step * HOUR)
        service.stand.notifications.wake()
        await wait_idle(service.stand.notifications)
