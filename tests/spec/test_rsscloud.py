"""rssCloud ("Publish and subscribe", the cloud element of RSS 2.0, 2003): a test for each of its sentences.

And what today's servers have beside it: http-post, domain and challenge, JSON.
"""

import asyncio
import gzip
import json
import logging
import xmlrpc.client
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from xml.etree import ElementTree as ET

import pytest

from feedproxy.clock import ManualClock
from feedproxy.errors import Forbidden
from feedproxy.http.message import Response
from feedproxy.notify.refresh_requests import RefreshRequests
from feedproxy.notify.rpc import soap
from feedproxy.notify.rsscloud.rsscloud_messages import URLS_MAX, RegistrationRefused, from_form
from feedproxy.notify.subscription_table import Role, State, Subscription
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.clouds import PUBLIC, WORKSTATION, Clouds, answering, call, clouds_on
from tests.stages.notify import NOON, TARGET
from tests.stages.origin import Origin, a_feed
from tests.waiting import PATIENCE

HOUR = 3600
ENDPOINT = f"http://{WORKSTATION}:8080/notify"
TRUE = xmlrpc.client.dumps((True,), methodresponse=True).encode()
FALSE = xmlrpc.client.dumps((False,), methodresponse=True).encode()
FAULT = xmlrpc.client.dumps(xmlrpc.client.Fault(4, "no"), methodresponse=True).encode()


@pytest.fixture
async def clouds(stand_at: Callable[..., Any]) -> Clouds:
    """Return a cloud that has one feed, and workstations that accept every notification."""
    made = await clouds_on(stand_at)
    made.stand.others.answer = answering(TRUE)
    made.stand.origin.publish("/feed.xml", a_feed("one"))
    await made.stand.read()
    return made


async def change(clouds: Clouds, *titles: str) -> None:
    clouds.stand.others.calls.clear()
    clouds.stand.origin.publish("/feed.xml", a_feed(*(titles or ("two", "one"))))
    await clouds.stand.read()


async def by_rpc(clouds: Clouds, *parameters: Any, method: str = "rssCloud.pleaseNotify", **more: Any) -> Any:
    content = xmlrpc.client.dumps(parameters, method).encode()
    answer = await clouds.stand.notifications.xmlrpc.answer(call("RPC2", content, **more))
    (value,), _ = xmlrpc.client.loads(answer.body.decode())
    return value


async def by_form(clouds: Clouds, *, address: str = WORKSTATION, accept: str = "", **given: str) -> Response:
    fields = {"protocol": "http-post", "port": "8080", "path": "/notify", "url1": TARGET, **given}
    content = urlencode({name: value for name, value in fields.items() if value}).encode()
    return await clouds.hub.by_form(call("pleaseNotify", content, address=address, Accept=accept))


async def held(clouds: Clouds, role: Role = Role.SUBSCRIBER) -> list[Subscription]:
    return await clouds.stand.notifications.subscriptions.all(role=role, protocol="rsscloud")


def verdict(answer: Response) -> tuple[str | None, str | None]:
    root = ET.fromstring(answer.body)
    assert root.tag == "notifyResult"
    return root.get("success"), root.get("msg")


# -- registration


async def test_registration_by_xml_rpc_is_notified_at_its_procedure(clouds: Clouds) -> None:
    """ "The procedure takes five parameters: the name of the procedure that the cloud should call to notify the
    workstation of changes, the TCP port the workstation is listening on, the path to its responder, a string
    indicating which protocol to use (xml-rpc or soap, case-sensitive), and a list of urls of RSS files to be watched."
    """
    done = await by_rpc(
        clouds, "news.changed", 8080, "/notify", "xml-rpc", [TARGET], method="xmlStorageSystem.rssPleaseNotify"
    )
    await change(clouds)

    assert done is True
    ((method, url, content),) = clouds.stand.others.calls
    assert (method, url) == ("POST", ENDPOINT)
    assert xmlrpc.client.loads(content.decode()) == ((TARGET,), "news.changed")


async def test_registration_by_soap_is_notified_by_soap(clouds: Clouds) -> None:
    """The procedure "can be implemented in either XML-RPC or SOAP"; "with one parameter, the url of the channel"."""
    clouds.stand.others.answer = answering(soap.write_response(soap.SoapCall("changed", "", ()), True).body)
    parameters: list[tuple[str, soap.ParameterValue]] = [
        ("notifyProcedure", "changed"),
        ("port", "8080"),
        ("path", "/notify"),
        ("protocol", "soap"),
        ("urlList", [TARGET]),
    ]
    answer = await clouds.hub.by_soap(call("soap", soap.write_call("rssPleaseNotify", parameters, "urn:x")))
    await change(clouds)

    assert (answer.status, soap.read_answer(answer.body)) == (200, "1")
    ((_, url, content),) = clouds.stand.others.calls
    called = soap.read_call(content)
    assert (url, called.method, called.parameters) == (ENDPOINT, "changed", (("url", TARGET),))


async def test_soap_call_that_is_invalid_returns_a_fault_with_status_500(clouds: Clouds) -> None:
    for content in (b"", b"<a/>", soap.write_call("other", []), b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"):
        answer = await clouds.hub.by_soap(call("soap", content))

        assert answer.status == 500
        assert b"faultstring" in answer.body


@pytest.mark.parametrize("protocol", ["XML-RPC", "Soap", "http", ""])
async def test_protocol_names_are_case_sensitive(clouds: Clouds, protocol: str) -> None:
    assert await by_rpc(clouds, "changed", 8080, "/notify", protocol, [TARGET]) is False
    assert await held(clouds) == []


async def test_registration_by_http_post_is_notified_by_http_post(clouds: Clouds) -> None:
    answer = await by_form(clouds)
    await change(clouds)

    assert verdict(answer)[0] == "true"
    assert clouds.stand.others.calls == [("POST", ENDPOINT, urlencode({"url": TARGET}).encode())]


async def test_registration_result_is_json_on_request(clouds: Clouds) -> None:
    done = json.loads((await by_form(clouds, accept="application/json")).body)
    refused = json.loads((await by_form(clouds, accept="application/json", port="0")).body)

    assert (done["success"], refused["success"]) == (True, False)
    assert refused["msg"]


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        ("application/json, text/plain, */*", True),
        ("text/xml, application/json", True),
        ("text/xml, application/json;q=0.5", False),
        ("application/json;q=0, text/xml", False),
        ("*/*", False),
    ],
)
async def test_registration_result_has_the_preferred_form(clouds: Clouds, accept: str, is_json: bool) -> None:
    assert (await by_form(clouds, accept=accept)).body.startswith(b"{") is is_json


async def test_callback_without_domain_uses_the_address_of_the_caller(clouds: Clouds) -> None:
    """ "The cloud can determine the IP address of the caller from the request. A workstation cannot make a
    registration call on behalf of another." """
    for address, host in (
        ("198.51.100.1", "198.51.100.1"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
    ):
        assert verdict(await by_form(clouds, address=address))[0] == "true"

        assert clouds.stand.others.calls[-1][1] == f"http://{host}:8080/notify"


async def test_callback_without_domain_must_accept_a_test_notification(clouds: Clouds) -> None:
    """Without a domain "the server sends the ordinary notification … any 2xx accepts"."""
    assert verdict(await by_form(clouds))[0] == "true"
    assert clouds.stand.others.calls == [("POST", ENDPOINT, urlencode({"url": TARGET}).encode())]

    clouds.stand.others.answer = lambda _: Response(404)
    assert verdict(await by_form(clouds, path="/other"))[0] == "false"

    clouds.stand.others.answer = lambda _: Unreachable("closed")
    assert verdict(await by_form(clouds, path="/third"))[0] == "false"
    assert [each.callback for each in await held(clouds)] == [ENDPOINT]


async def test_callback_at_a_domain_must_return_the_challenge(clouds: Clouds) -> None:
    answer = await by_form(clouds, domain="river.example", path="/feedping?id=3")

    assert verdict(answer)[0] == "true"
    ((method, url, _),) = clouds.stand.others.calls
    split = urlsplit(url)
    asked = parse_qs(split.query)
    assert (method, split.netloc, split.path) == ("GET", "river.example:8080", "/feedping")
    assert (asked["url"], asked["id"]) == ([TARGET], ["3"])
    assert len(asked["challenge"][0]) > 20

    await change(clouds)
    assert clouds.stand.others.calls[0][:2] == ("POST", "http://river.example:8080/feedping?id=3")


@pytest.mark.parametrize("body", [b"", b"something else", b"<html>the challenge</html>"])
async def test_callback_that_does_not_return_the_challenge_is_not_notified(clouds: Clouds, body: bytes) -> None:
    clouds.stand.others.answer = lambda _: Response(200, body=body)

    assert verdict(await by_form(clouds, domain="victim.example"))[0] == "false"

    (failed,) = clouds.stand.notifications.delivery_worker.failed_requests
    assert (failed.request.what, failed.request.topic) == ("verify", TARGET)
    await change(clouds)
    assert clouds.stand.others.calls == []


@pytest.mark.parametrize("answer", [b"", b"<html>Hello</html>", FALSE, FAULT])
async def test_callback_procedure_at_a_domain_must_return_true(
    clouds: Clouds, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """ "The workstation returns true." Any web server answers 200."""
    caplog.set_level("INFO", "feedproxy")
    clouds.stand.others.answer = answering(answer)

    assert await by_rpc(clouds, "changed", 8080, "/notify", "xml-rpc", [TARGET], "victim.example") is False
    assert "rsscloud: registration refused: the test notification failed" in caplog.text
    clouds.stand.others.answer = answering(TRUE)
    assert await by_rpc(clouds, "changed", 8080, "/notify", "xml-rpc", [TARGET], "willing.example") is True


async def test_registration_that_fails_returns_false(clouds: Clouds) -> None:
    """ "The cloud returns true if it was able to do the registration, false otherwise." """
    for url in (
        "http://origin.example/unknown.xml",
        "ftp://origin.example/",
        "",
        "http://origin.example/feed.xml?token=s3cr3t",
    ):
        assert await by_rpc(clouds, "changed", 8080, "/notify", "xml-rpc", [url]) is False
    assert await by_rpc(clouds, "", 8080, "/notify", "xml-rpc", [TARGET]) is False
    assert await by_rpc(clouds, "changed", 0, "/notify", "xml-rpc", [TARGET]) is False
    assert await by_rpc(clouds, "changed", 8080, "/notify", "xml-rpc", []) is False
    assert await by_rpc(clouds, "changed", 8080, "/notify", "xml-rpc", [TARGET] * 1, "a/b") is False

    assert clouds.stand.others.calls == []
    assert clouds.stand.origin.requests == 1  # a registration makes nobody fetch anything


async def test_xml_rpc_call_that_is_malformed_returns_fault_code_4(clouds: Clouds) -> None:
    wrong: list[tuple[Any, ...]] = [
        (),
        ("a", 1, "/", "xml-rpc"),
        ("a", [], "/", "xml-rpc", [TARGET]),
        ("a", 1, "/", "xml-rpc", [7]),
    ]
    for parameters in wrong:
        with pytest.raises(xmlrpc.client.Fault) as fault:
            await by_rpc(clouds, *parameters)
        assert fault.value.faultCode == 4
    with pytest.raises(xmlrpc.client.Fault) as fault:
        await by_rpc(clouds, method="rssCloud.ping")
    assert fault.value.faultCode == 4


async def test_registration_of_several_feeds_requires_one_verification(clouds: Clouds) -> None:
    clouds.stand.origin.publish("/second.xml", a_feed("x"))
    await clouds.stand.read("http://origin.example/second.xml")

    assert verdict(await by_form(clouds, url2="http://origin.example/second.xml"))[0] == "true"

    assert len(clouds.stand.others.calls) == 1
    assert {each.topic for each in await held(clouds)} == {TARGET, "http://origin.example/second.xml"}
    many = {f"url{number}": f"{TARGET}?{number}" for number in range(101)}
    assert verdict(await by_form(clouds, **many))[0] == "false"


async def test_registration_of_several_feeds_stays_within_the_limit_of_a_site(stand_at: Callable[..., Any]) -> None:
    clouds = await clouds_on(stand_at, subscriptions_max=100)  # two for each site
    clouds.stand.others.answer = answering(TRUE)
    topics = [f"http://origin.example/{number}.xml" for number in range(3)]
    for topic in topics:
        clouds.stand.origin.publish(topic.removeprefix("http://origin.example"), a_feed("x"))
        await clouds.stand.read(topic)

    refused = verdict(await by_form(clouds, url1=topics[0], url2=topics[1], url3=topics[2]))
    assert refused == ("false", "no more subscriptions are accepted at present")
    assert await held(clouds) == []
    for _ in range(2):  # the second registration renews the first
        assert verdict(await by_form(clouds, url1=topics[0], url2=topics[1]))[0] == "true"
    assert verdict(await by_form(clouds, url1=topics[1], url2=topics[2]))[0] == "false"
    assert {each.topic for each in await held(clouds)} == {*topics[:2]}


async def test_registrations_at_once_stay_within_the_limit_of_a_site(stand_at: Callable[..., Any]) -> None:
    clouds = await clouds_on(stand_at, subscriptions_max=100)
    clouds.stand.others.answer = answering(TRUE)
    clouds.stand.origin.publish("/feed.xml", a_feed("x"))
    await clouds.stand.read()

    answers = await asyncio.gather(*(by_form(clouds, path=f"/notify{number}") for number in range(4)))

    assert sorted(verdict(answer)[0] or "" for answer in answers) == ["false", "false", "true", "true"]
    assert len(await held(clouds)) == 2


async def test_registration_of_a_forbidden_callback_is_rejected_with_the_reason(clouds: Clouds) -> None:
    clouds.stand.others.answer = lambda _: Forbidden("port 25 is not in allow_ports")

    assert verdict(await by_form(clouds, port="25")) == ("false", "port 25 is not in allow_ports")


async def test_callback_on_port_443_or_https_post_uses_tls(clouds: Clouds) -> None:
    await by_form(clouds, port="443")
    await by_form(clouds, protocol="https-post", port="8443")

    urls = [url for _, url, _ in clouds.stand.others.calls]
    assert urls == [f"https://{WORKSTATION}/notify", f"https://{WORKSTATION}:8443/notify"]


async def test_registration_repeated_is_notified_once(clouds: Clouds) -> None:
    await by_form(clouds)
    await by_form(clouds)
    await change(clouds)

    assert len(clouds.stand.others.calls) == 1


async def test_registration_is_rejected_with_rsscloud_hub_off_or_own(stand_at: Callable[..., Any]) -> None:
    for whose in ("off", "own"):
        clouds = await clouds_on(stand_at, rsscloud_hub=whose)
        clouds.stand.origin.publish("/feed.xml", a_feed("one"))
        await clouds.stand.read()

        assert verdict(await by_form(clouds))[0] == "false"


async def test_registration_for_a_restricted_feed_is_answered_like_one_for_an_unknown_feed(
    stand_at: Callable[..., Any],
) -> None:
    for option in ({"private": True}, {"readers": ("ann",)}):
        clouds = await clouds_on(stand_at, **option)
        clouds.stand.origin.publish("/feed.xml", a_feed("one"))
        await clouds.stand.read()
        unknown = verdict(await by_form(clouds, url1="http://origin.example/unknown"))[1] or ""

        said = verdict(await by_form(clouds))

        assert said == ("false", unknown.replace("http://origin.example/unknown", TARGET))


async def test_registration_for_an_upstream_feed_needs_no_earlier_fetch(
    stand_at: Callable[..., Any],
) -> None:
    clouds = await clouds_on(stand_at, upstream="http://origin.example/", public_url=PUBLIC, rsscloud_hub="own")
    clouds.stand.others.answer = answering()
    clouds.stand.origin.publish("/feed.xml", a_feed("one"))

    assert verdict(await by_form(clouds, url1="https://proxy.example/feed.xml"))[0] == "true"
    await change(clouds)

    assert clouds.stand.others.calls[0][2] == urlencode({"url": "https://proxy.example/feed.xml"}).encode()


# -- how long


async def test_registration_expires_after_25_hours(clouds: Clouds) -> None:
    """ "By convention registrations expire after 25 hours." """
    await by_form(clouds)
    await clouds.stand.pass_time(25 * HOUR - 1)
    await change(clouds)
    assert len(clouds.stand.others.calls) == 1

    await clouds.stand.pass_time(1)
    await change(clouds, "three")

    assert clouds.stand.others.calls == []
    assert await held(clouds) == []


async def test_registration_renewed_every_24_hours_is_kept(clouds: Clouds) -> None:
    await by_form(clouds)
    for day in range(3):
        await clouds.stand.pass_time(24 * HOUR)
        await by_form(clouds)
        await change(clouds, f"day {day}")
        assert len(clouds.stand.others.calls) == 1


async def test_subscriber_that_fails_is_retried_and_then_removed(clouds: Clouds) -> None:
    await by_form(clouds)
    clouds.stand.others.answer = lambda _: Response(500)
    await change(clouds)
    assert len(await held(clouds)) == 1

    for _ in range(25 * 12):
        await clouds.stand.pass_time(300)

    assert await held(clouds) == []
    assert 3 <= len(clouds.stand.others.calls) < 30
    assert await clouds.stand.notifications.queue.count_waiting() == {}


async def test_subscriber_that_recovers_is_notified_once(clouds: Clouds) -> None:
    await by_form(clouds)
    clouds.stand.others.answer = lambda _: Unreachable("restarting")
    await change(clouds)
    await change(clouds, "three")
    clouds.stand.others.answer = answering()
    clouds.stand.others.calls.clear()

    await clouds.stand.pass_time(HOUR)
    await clouds.stand.pass_time(HOUR)

    assert len(clouds.stand.others.calls) == 1


# -- ping


async def test_ping_fetches_the_feed_and_notifies_of_changes(clouds: Clouds) -> None:
    """ "The server re-reads the feed and notifies only if its body hash or size changed." """
    await by_form(clouds)
    clouds.stand.others.calls.clear()

    assert await by_rpc(clouds, TARGET, method="rssCloud.ping") is True
    await clouds.stand.settled()
    assert (clouds.stand.origin.requests, clouds.stand.others.calls) == (2, [])

    clouds.stand.origin.publish("/feed.xml", a_feed("two"))
    answer = await clouds.hub.ping_by_form(call("ping", urlencode({"url": TARGET}).encode()))
    await clouds.stand.settled()
    assert answer.body.endswith(b'<result success="true" msg="Thanks for the ping."/>\n')
    assert len(clouds.stand.others.calls) == 1


async def test_ping_of_an_unknown_feed_is_answered_alike_and_fetches_nothing(clouds: Clouds) -> None:
    assert await by_rpc(clouds, "http://other.example/feed", method="rssCloud.ping") is True
    await clouds.stand.settled()

    assert clouds.stand.origin.requests == 1


async def test_ping_without_a_url_is_answered_without_success(clouds: Clouds) -> None:
    answer = await clouds.hub.ping_by_form(call("ping", b"", Accept="application/json"))

    assert json.loads(answer.body)["success"] is False


async def test_hello_is_answered_true(clouds: Clouds) -> None:
    assert await by_rpc(clouds, method="rssCloud.hello") is True


# -- in the publisher's feeds


@pytest.mark.parametrize(
    ("public_url", "named"),
    [
        ("https://feeds.example/", 'domain="feeds.example" port="443" path="/-/pleaseNotify"'),
        ("http://feeds.example:8080/blog/", 'domain="feeds.example" port="8080" path="/blog/-/pleaseNotify"'),
        ("https://feeds.example:8443/", ""),
    ],
)
async def test_announce_cloud_adds_a_cloud_element_to_feeds_of_the_upstream(
    stand_at: Callable[..., Any], public_url: str, named: str
) -> None:
    """ "A has five required attributes"; and protocol "is xml-rpc, soap or http-post": none of them is https."""
    upstream = {"upstream": "http://origin.example/", "public_url": public_url}
    clouds = await clouds_on(stand_at, **upstream, announce=("cloud",))
    clouds.stand.origin.publish("/feed.xml", a_feed("one"))
    await clouds.stand.read()

    resource = clouds.stand.app.service.store.get(TARGET)
    assert resource is not None
    bodies = resource.variants[0].content.bodies
    body = bodies.get("identity") or gzip.decompress(bodies["gzip"])

    tag = f'<cloud {named} registerProcedure="" protocol="http-post"/>'.encode()
    assert (tag in body) if named else (b"<cloud" not in body)
    assert await held(clouds, Role.PUBLISHER) == []


# -- the workstation's side


CLOUD = (
    "<cloud domain='cloud.example' port='{port}' path='/RPC2' registerProcedure='{procedure}' protocol='{protocol}'/>"
)
TAKEN = b'<notifyResult success="true" msg="Thanks."/>'


def clouded(*titles: str, protocol: str = "http-post", port: str = "5337", procedure: str = "") -> bytes:
    return a_feed(*titles, extra=CLOUD.format(port=port, procedure=procedure, protocol=protocol))


async def workstation(stand_at: Callable[..., Any], **options: Any) -> Clouds:
    options.setdefault("public_url", PUBLIC)
    made = await clouds_on(stand_at, **options)
    made.stand.others.answer = lambda _: Response(200, body=TAKEN)
    return made


async def registered(stand_at: Callable[..., Any], **options: Any) -> Clouds:
    made = await workstation(stand_at, **options)
    made.stand.origin.publish("/feed.xml", clouded("one"))
    await made.stand.read()
    return made


async def our_path(clouds: Clouds) -> str:
    (each,) = await held(clouds, Role.PUBLISHER)
    return f"push/rsscloud/{each.id}-{each.secret}"


async def test_cloud_element_with_http_post_is_registered_with(stand_at: Callable[..., Any]) -> None:
    clouds = await registered(stand_at)

    ((method, url, content),) = clouds.stand.others.calls
    given = {name: values[0] for name, values in parse_qs(content.decode()).items()}
    assert (method, url) == ("POST", "http://cloud.example:5337/RPC2")
    assert given.pop("path") == f"/-/{await our_path(clouds)}"
    assert given == {"protocol": "http-post", "port": "443", "domain": "proxy.example", "url1": TARGET}
    (one,) = await held(clouds, Role.PUBLISHER)
    assert (one.state, one.expires, one.renew_at) == (State.ACTIVE, NOON + 25 * HOUR, NOON + 24 * HOUR)


async def test_cloud_element_beyond_the_limit_of_subscriptions_is_ignored(
    stand_at: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    clouds = await registered(stand_at, subscriptions_max=1)
    clouds.stand.origin.publish("/other.xml", clouded("one"))

    await clouds.stand.read("http://origin.example/other.xml")

    assert [each.topic for each in await held(clouds, Role.PUBLISHER)] == [TARGET]
    assert caplog.records == []


async def test_cloud_element_with_xml_rpc_is_registered_with(stand_at: Callable[..., Any]) -> None:
    """ "This is telling the aggregator to send an XML-RPC message to on port 80, with path /RPC2 to the procedure
    named xmlStorageSystem.rssPleaseNotify to request notification." """
    clouds = await workstation(stand_at)
    clouds.stand.others.answer = answering(TRUE)
    procedure = "xmlStorageSystem.rssPleaseNotify"
    clouds.stand.origin.publish("/feed.xml", clouded("one", protocol="xml-rpc", port="80", procedure=procedure))
    await clouds.stand.read()

    ((_, url, content),) = clouds.stand.others.calls
    parameters, method = xmlrpc.client.loads(content.decode())
    assert (url, method) == ("http://cloud.example/RPC2", procedure)
    assert parameters == ("rssCloud.notify", 443, f"/-/{await our_path(clouds)}", "xml-rpc", [TARGET])
    assert (await held(clouds, Role.PUBLISHER))[0].state is State.ACTIVE

    clouds.stand.others.calls.clear()
    newer = clouded("two", protocol="xml-rpc", port="80", procedure="rssCloud.pleaseNotify")
    clouds.stand.origin.publish("/feed.xml", newer)
    await clouds.stand.read()
    parameters, method = xmlrpc.client.loads(clouds.stand.others.calls[0][2].decode())
    assert (method, parameters[5]) == ("rssCloud.pleaseNotify", "proxy.example")


async def test_cloud_element_with_soap_is_registered_with(stand_at: Callable[..., Any]) -> None:
    clouds = await workstation(stand_at)
    clouds.stand.others.answer = answering(soap.write_response(soap.SoapCall("x", "", ()), True).body)
    clouds.stand.origin.publish("/feed.xml", clouded("one", protocol="soap", procedure="rssPleaseNotify"))
    await clouds.stand.read()

    asked = soap.read_call(clouds.stand.others.calls[0][2])
    assert asked.method == "rssPleaseNotify"
    assert b'<port xsi:type="xsd:int">443</port>' in clouds.stand.others.calls[0][2]
    assert [value for _, value in asked.parameters] == [
        *("notify", "443", f"/-/{await our_path(clouds)}", "soap", [TARGET])
    ]
    assert (await held(clouds, Role.PUBLISHER))[0].state is State.ACTIVE


@pytest.mark.parametrize(
    "cloud",
    [
        {"protocol": "HTTP-POST"},
        {"protocol": "jabber"},
        {"port": "many"},
        {"port": "99999"},
    ],
)
async def test_cloud_element_that_cannot_be_called_is_ignored(
    stand_at: Callable[..., Any], cloud: dict[str, str]
) -> None:
    """ "protocol is xml-rpc, soap or http-post (case-sensitive)"."""
    clouds = await workstation(stand_at)
    clouds.stand.origin.publish("/feed.xml", clouded("one", **cloud))
    await clouds.stand.read()
    clouds.stand.origin.publish("/feed.xml", clouded("one").replace(b"cloud.example", b""))
    await clouds.stand.read()

    assert clouds.stand.others.calls == []


async def test_cloud_element_is_ignored_without_public_url(stand_at: Callable[..., Any]) -> None:
    """ "By design, this protocol/format will not work for aggregators that are isolated from the Internet"."""
    clouds = await registered(stand_at, public_url="")

    assert clouds.stand.others.calls == []


async def test_cloud_element_is_ignored_for_private_feeds_or_without_push_subscribe(
    stand_at: Callable[..., Any],
) -> None:
    for option in ({"private": True}, {"push_subscribe": False}):
        clouds = await registered(stand_at, **option)

        assert clouds.stand.others.calls == []


async def test_cloud_element_of_this_proxy_is_ignored(stand_at: Callable[..., Any]) -> None:
    clouds = await workstation(stand_at)
    own = "<cloud domain='proxy.example' port='443' path='/-/pleaseNotify' registerProcedure='' protocol='http-post'/>"
    clouds.stand.origin.publish("/feed.xml", a_feed("one", extra=own))
    await clouds.stand.read()

    assert clouds.stand.others.calls == []


@pytest.mark.parametrize(
    "named",
    [
        "domain='cloud.example' procedure='a xmlns=&quot;x&quot;&gt;&lt;evil/' protocol='soap'",
        "domain='cloud.example' procedure='a&lt;/methodName&gt;&lt;evil/&gt;' protocol='xml-rpc'",
        "domain='cloud.example/x?' procedure='' protocol='http-post'",
        "domain='name@cloud.example' procedure='' protocol='http-post'",
    ],
)
async def test_cloud_element_with_markup_or_a_path_in_a_name_is_ignored(
    stand_at: Callable[..., Any], named: str
) -> None:
    """Otherwise a publisher could determine the content of a request to the server of another party."""
    clouds = await workstation(stand_at)
    cloud = f"<cloud {named.replace('procedure', 'registerProcedure')} port='80' path='/RPC2'/>"
    clouds.stand.origin.publish("/feed.xml", a_feed("one", extra=cloud))
    await clouds.stand.read()

    assert clouds.stand.others.calls == []


async def test_challenge_is_returned_for_own_registrations_only(stand_at: Callable[..., Any]) -> None:
    clouds = await registered(stand_at)
    path, query = await our_path(clouds), urlencode({"url": TARGET, "challenge": "abc<b>"})

    answer = await clouds.push(path, query=query)
    assert (answer.status, answer.body) == (200, b"abc<b>")
    assert answer.fields.get("X-Content-Type-Options") == "nosniff"
    assert (answer.fields.get("Content-Type") or "").startswith("text/plain")

    for other in (f"{path}x", "push/rsscloud/1-", "push/rsscloud/", "push/rsscloud/999-x"):
        assert (await clouds.push(other, query=query)).status == 404
    assert (await clouds.push(path, query=urlencode({"url": f"{TARGET}2", "challenge": "abc"}))).status == 404
    assert (await clouds.push(path, query=urlencode({"url": TARGET, "challenge": "a" * 300}))).status == 404
    assert (await clouds.push(path, query=f"{query}&{'a&' * 1000}")).status == 404


async def test_notification_causes_a_fetch(stand_at: Callable[..., Any]) -> None:
    """ "At that point the workstation could read the channel … The workstation returns true." """
    clouds = await registered(stand_at)
    path, requests = await our_path(clouds), clouds.stand.origin.requests

    posted = await clouds.push(path, urlencode({"url": TARGET}).encode())
    await clouds.stand.settled()
    assert (posted.status, clouds.stand.origin.requests) == (200, requests + 1)

    called = await clouds.push(path, xmlrpc.client.dumps((TARGET,), "rssCloud.notify").encode())
    await clouds.stand.settled()
    assert xmlrpc.client.loads(called.body.decode())[0] == (True,)
    assert clouds.stand.origin.requests == requests + 2

    by_soap = await clouds.push(path, soap.write_call("notify", [("url", TARGET)]))
    await clouds.stand.settled()
    assert soap.read_answer(by_soap.body) == "1"
    assert clouds.stand.origin.requests == requests + 3


async def test_notification_may_state_its_encoding_in_content_type(stand_at: Callable[..., Any]) -> None:
    clouds = await registered(stand_at)
    path, fields = await our_path(clouds), {"Content_Type": "text/xml; charset=iso-8859-1"}
    by_rpc = xmlrpc.client.dumps((TARGET,), "rssCloud.notify").partition("?>")[2] + "<!-- é -->"
    by_soap = soap.write_call("notify", [("url", TARGET), ("title", "Café")]).decode().partition("?>")[2]

    called = await clouds.aggregator.endpoint(call(path, by_rpc.encode("latin-1"), **fields))
    sent = await clouds.aggregator.endpoint(call(path, by_soap.encode("latin-1"), **fields))

    assert xmlrpc.client.loads(called.body.decode())[0] == (True,)
    assert soap.read_answer(sent.body) == "1"


async def test_notification_for_an_unregistered_feed_is_rejected(stand_at: Callable[..., Any]) -> None:
    clouds = await registered(stand_at)
    path, requests = await our_path(clouds), clouds.stand.origin.requests
    stranger = urlencode({"url": "http://victim.example/feed"}).encode()

    assert (await clouds.push(path, stranger)).status == 404
    assert (await clouds.push(f"{path}x", urlencode({"url": TARGET}).encode())).status == 404
    called = await clouds.push("push/rsscloud/1-guess", xmlrpc.client.dumps((TARGET,), "rssCloud.notify").encode())
    assert xmlrpc.client.loads(called.body.decode())[0] == (False,)
    with pytest.raises(xmlrpc.client.Fault):
        xmlrpc.client.loads((await clouds.push(path, b"<!DOCTYPE a><a/>")).body.decode())
    await clouds.stand.settled()

    assert clouds.stand.origin.requests == requests


async def test_notification_after_the_test_call_of_a_cloud_is_not_delayed(stand_at: Callable[..., Any]) -> None:
    clouds = await workstation(stand_at, ping_interval=600, feed_min_interval=0, site_interval=0)
    clouds.stand.others.answer = lambda _: Unreachable("closed")  # it does not get to its answer yet
    clouds.stand.origin.publish("/feed.xml", clouded("one"))
    await clouds.stand.read()
    path = await our_path(clouds)
    await clouds.push(path, urlencode({"url": TARGET}).encode())
    await clouds.stand.settled()
    clouds.stand.others.answer = lambda _: Response(200, body=TAKEN)
    await clouds.stand.pass_time(60)
    assert (await held(clouds, Role.PUBLISHER))[0].state is State.ACTIVE
    requests = clouds.stand.origin.requests

    await clouds.push(path, urlencode({"url": TARGET}).encode())
    await clouds.stand.settled()

    assert clouds.stand.origin.requests == requests + 1


async def test_notification_repeated_causes_one_fetch(stand_at: Callable[..., Any]) -> None:
    clouds = await registered(stand_at, ping_interval=30)
    path, requests = await our_path(clouds), clouds.stand.origin.requests

    for _ in range(3):
        await clouds.push(path, urlencode({"url": TARGET}).encode())
    await clouds.stand.settled()

    assert clouds.stand.origin.requests == requests + 1


async def test_registration_with_a_cloud_is_renewed_every_24_hours(stand_at: Callable[..., Any]) -> None:
    """ "Workstations should register every 24 hours for each subscription to keep them current." """
    clouds = await registered(stand_at)
    path = await our_path(clouds)
    times = [0.0]
    for tick in range(1, 50 * 12 + 1):
        count = len(clouds.stand.others.calls)
        await clouds.stand.pass_time(300)
        times += [tick * 300.0] * (len(clouds.stand.others.calls) - count)

    assert times == [0, 24 * HOUR, 48 * HOUR]
    assert await our_path(clouds) == path


async def test_registration_with_a_cloud_is_renewed_at_startup_and_after_an_outage(
    stand_at: Callable[..., Any],
) -> None:
    """ "It will work for systems with non-fixed IP addresses if the workstation software re-registers at startup." """
    clock = ManualClock(NOON)
    origin = Origin(clock)
    clouds = await registered(stand_at, folder="same", clock=clock, origin=origin)
    path = await our_path(clouds)
    await clouds.stand.app.close()

    again = await workstation(stand_at, folder="same", clock=clock, origin=origin)
    assert [url for _, url, _ in again.stand.others.calls] == ["http://cloud.example:5337/RPC2"]
    assert await our_path(again) == path

    await again.stand.pass_time(8 * HOUR)  # nothing happened meanwhile: the machine slept
    assert len(again.stand.others.calls) == 2


async def test_registration_with_an_unreachable_cloud_is_retried(stand_at: Callable[..., Any]) -> None:
    clouds = await workstation(stand_at)
    clouds.stand.others.answer = lambda _: Unreachable("closed")
    clouds.stand.origin.publish("/feed.xml", clouded("one"))
    await clouds.stand.read()
    assert (await held(clouds, Role.PUBLISHER))[0].state is State.PENDING

    clouds.stand.others.answer = lambda _: Response(200, body=TAKEN)
    await clouds.stand.pass_time(60)

    assert (await held(clouds, Role.PUBLISHER))[0].state is State.ACTIVE


@pytest.mark.parametrize(
    "answer",
    [
        Response(404),
        Response(200, body=b'<notifyResult success="false" msg="no"/>'),
        Response(200, body=b'{"success": false, "msg": "no"}'),
        Response(200, body=b"<html>"),
        Response(200, body=b'{"success": false, "msg": ' + b"[" * 60_000),
        Response(200, body=b"<!DOCTYPE a [<!ENTITY b 'c'>]><a success='true'/>"),
    ],
)
async def test_registration_refused_by_a_cloud_is_retried_after_a_day(
    stand_at: Callable[..., Any], answer: Response
) -> None:
    clouds = await workstation(stand_at)
    clouds.stand.others.answer = lambda _: answer
    clouds.stand.origin.publish("/feed.xml", clouded("one"))
    await clouds.stand.read()
    clouds.stand.origin.publish("/feed.xml", clouded("two"))
    await clouds.stand.read()

    assert len(clouds.stand.others.calls) == 1
    for _ in range(24 * 12 + 1):
        await clouds.stand.pass_time(300)
    assert len(clouds.stand.others.calls) == 2


@pytest.mark.parametrize("success", ["true", "false"])
async def test_registration_result_with_half_of_a_surrogate_pair_does_not_end_all_deliveries(
    stand_at: Callable[..., Any], success: str
) -> None:
    """SQLite refused such a message, and with it the outcomes of all other deliveries, again and again."""
    clouds = await workstation(stand_at)
    clouds.stand.others.answer = lambda _: Response(200, body=b'{"success": %b, "msg": "\\ud800"}' % success.encode())
    clouds.stand.origin.publish("/feed.xml", clouded("one"))

    await asyncio.wait_for(clouds.stand.read(), PATIENCE)

    assert clouds.stand.notifications.delivery_worker.running_count == 0
    notifications = clouds.stand.notifications
    assert not notifications.delivery_worker.has_outcomes
    assert await notifications.database.run(notifications.queue.next_due) is None


async def test_secret_callback_that_a_cloud_repeats_is_not_logged(
    stand_at: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The message of a cloud is cut. A part of the secret before the cut is as secret as the whole."""
    caplog.set_level(logging.INFO)
    clouds = await workstation(stand_at)
    secrets: list[str] = []

    def repeat_the_callback(_: str) -> Response:
        (path,) = parse_qs(clouds.stand.others.calls[-1][2].decode())["path"]
        secrets.append(path.rpartition("/")[2])
        return Response(
            200, body=json.dumps({"success": False, "msg": "refused ".ljust(180, ".") + secrets[-1]}).encode()
        )

    clouds.stand.others.answer = repeat_the_callback
    clouds.stand.origin.publish("/feed.xml", clouded("one"))

    await clouds.stand.read()

    assert "refused ..." in caplog.text
    assert secrets
    assert all(secret[:8] not in caplog.text for secret in secrets)


async def test_registration_follows_a_changed_cloud_element(
    stand_at: Callable[..., Any],
) -> None:
    clouds = await registered(stand_at)
    clouds.stand.origin.publish("/feed.xml", clouded("two").replace(b"cloud.example", b"new.example"))
    await clouds.stand.read()

    assert [each.callback for each in await held(clouds, Role.PUBLISHER)] == ["http://new.example:5337/RPC2"]

    clouds.stand.origin.publish("/feed.xml", a_feed("three"))
    await clouds.stand.read()
    await clouds.stand.pass_time(24 * HOUR)
    assert await held(clouds, Role.PUBLISHER) == []


async def test_registration_that_is_paused_acknowledges_notifications_without_a_fetch(
    stand_at: Callable[..., Any],
) -> None:
    clouds = await registered(stand_at)
    (one,) = await held(clouds, Role.PUBLISHER)
    await clouds.stand.notifications.subscriptions.pause(one.id)
    requests = clouds.stand.origin.requests

    assert (await clouds.push(await our_path(clouds), urlencode({"url": TARGET}).encode())).status == 200
    await clouds.stand.settled()

    assert clouds.stand.origin.requests == requests


async def test_notifications_of_one_cloud_are_exempt_from_the_source_limit(
    stand_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[str] = []

    async def promise(self: RefreshRequests, targets: list[str], *, is_test: bool = False) -> None:
        rung.extend(targets)

    monkeypatch.setattr(RefreshRequests, "enqueue", promise)
    clouds = await registered(stand_at, source_limit=1)
    path = await our_path(clouds)

    for _ in range(100):
        assert (await clouds.push(path, urlencode({"url": TARGET}).encode())).status == 200

    assert len(rung) == 100


@pytest.mark.parametrize("count", [URLS_MAX + 1, URLS_MAX + 100])
def test_registration_form_with_too_many_feeds_is_refused_with_the_limit(count: int) -> None:
    parameters = {
        "protocol": "http-post",
        "port": "80",
        "path": "/",
        **{f"url{n}": f"http://x/{n}" for n in range(count)},
    }

    with pytest.raises(RegistrationRefused, match=f"too many feeds: expected at most {URLS_MAX} in one call"):
        from_form(urlencode(parameters).encode())
