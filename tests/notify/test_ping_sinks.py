"""Pings to services: configuration, requests, and the meaning of responses."""

import xmlrpc.client
from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.cli import main
from feedproxy.errors import UsageError
from feedproxy.http.message import Fields, Response
from feedproxy.notify.changes.change_lists import ChangeLists
from feedproxy.notify.notification_protocol import Delivered, Refused, Retry
from feedproxy.notify.pings.sinks import PingSinks, SinkKind, interpret_response, ping_message, read_ping_sink
from feedproxy.notify.sink_address import SinkAddress
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.clouds import call
from tests.stages.origin import a_feed

RPC = "http://rpc.sink.example/RPC2"
GET = "http://sink.example/ping?name={name}&url={url}&f={feed}"


@pytest.mark.parametrize(
    ("text", "sink"),
    [
        (RPC, SinkAddress(SinkKind.SIMPLE, RPC)),
        (f"simple:{RPC}", SinkAddress(SinkKind.SIMPLE, RPC)),
        (f"extended:{RPC}", SinkAddress(SinkKind.EXTENDED, RPC)),
        (GET, SinkAddress(SinkKind.GET, GET)),
        (f"get:{GET}", SinkAddress(SinkKind.GET, GET)),
    ],
)
def test_ping_sink_may_have_prefix(text: str, sink: SinkAddress[SinkKind]) -> None:
    assert read_ping_sink(text) == sink


@pytest.mark.parametrize("text", ["", "nonsense", "ftp://a.example/", f"get:{RPC}", "http://{url}/"])
def test_ping_sink_invalid_is_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        read_ping_sink(text)


def test_ping_template_values_are_encoded() -> None:
    message = ping_message(read_ping_sink(GET), name="A & {url}", url="http://a.example/?b=c&d", feed="")

    assert message.url.endswith(
        "?name=A%20%26%20%7Burl%7D&url=http%3A%2F%2Fa.example%2F%3Fb%3Dc%26d&f=http%3A%2F%2Fa.example%2F%3Fb%3Dc%26d"
    )


def test_extended_ping_has_four_parameters_in_order() -> None:
    message = ping_message(
        read_ping_sink(f"extended:{RPC}"), name="N\x00am\uffffe", url="http://a/", feed="http://a/feed"
    )

    assert xmlrpc.client.loads(message.body.decode()) == (
        ("Name", "http://a/", "http://a/", "http://a/feed"),
        "weblogUpdates.extendedPing",
    )


def answered(value: Any) -> Response:
    return Response(200, body=xmlrpc.client.dumps((value,), methodresponse=True).encode())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (answered({"flerror": False, "message": "ok"}), Delivered),
        (answered({"flError": False, "message": "ok", "legal": "x"}), Delivered),
        (answered({"flError": True, "message": "too often"}), Refused),
        (answered(True), Delivered),
        (Response(200, body=xmlrpc.client.dumps(xmlrpc.client.Fault(4, "no")).encode()), Refused),
        (Response(200, body=b"<html>"), Refused),
        (Response(404), Refused),
        (Response(503), Retry),
        (Response(429), Retry),
        (Unreachable("down"), Retry),
    ],
)
def test_ping_response_is_delivered_refused_or_retried(answer: Any, kind: type) -> None:
    assert isinstance(interpret_response(read_ping_sink(RPC), answer), kind)


def test_ping_response_may_state_its_encoding_in_content_type() -> None:
    body = xmlrpc.client.dumps(({"flerror": False, "message": "Merci, c'est noté"},), methodresponse=True)
    fields = Fields([("Content-Type", "text/xml; charset=iso-8859-1")])

    verdict = interpret_response(read_ping_sink(RPC), Response(200, fields, body.partition("?>")[2].encode("latin-1")))

    assert verdict == Delivered("Merci, c'est noté")


def test_ping_by_xml_rpc_states_its_encoding() -> None:
    message = ping_message(read_ping_sink(RPC), name="Café", url="http://a.example/")

    assert message.fields.get("content-type") == "text/xml; charset=utf-8"
    assert xmlrpc.client.loads(message.body.decode())[0] == ("Café", "http://a.example/")


async def test_ping_sinks_get_changes_of_upstream_only(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(
        upstream="http://origin.example", public_url="https://feeds.example/", ping_sinks=[f"extended:{RPC}"]
    )
    stand.notifications.add_sinks(PingSinks(stand.notifications.settings, stand.app.service.store.get))
    for title in ("one", "two"):
        stand.origin.publish("/feed.xml", a_feed(title))
        await stand.read()
        await stand.read("http://elsewhere.example/feed.xml")

    ((method, url, body),) = stand.others.calls
    assert (method, url) == ("POST", RPC)
    assert xmlrpc.client.loads(body.decode())[0][3] == "https://feeds.example/feed.xml"


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("http://origin.example/app/", "https://feeds.example/"),
        ("http://origin.example/app/blog", "https://feeds.example/blog"),
        ("http://origin.example", "https://feeds.example/"),
        ("http://elsewhere.example/", "http://elsewhere.example/"),
    ],
)
async def test_ping_and_change_list_name_same_public_url(stand_at: Callable[..., Any], link: str, said: str) -> None:
    stand = await stand_at(
        upstream="http://origin.example/app", public_url="https://feeds.example/", ping_sinks=[f"extended:{RPC}"]
    )
    stand.notifications.add_sinks(PingSinks(stand.notifications.settings, stand.app.service.store.get))
    for title in ("one", "two"):
        stand.origin.publish("/app/feed.xml", a_feed(title).replace(b"http://example.com/", link.encode()))
        await stand.read("http://origin.example/app/feed.xml")

    ((_, _, body),) = stand.others.calls
    assert xmlrpc.client.loads(body.decode())[0][1:] == (said, said, "https://feeds.example/feed.xml")
    listed = await ChangeLists(stand.notifications).long(call("changes.xml", method="GET"))
    assert f' url="{said}" rssUrl="https://feeds.example/feed.xml"'.encode() in listed.body


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("http://sink.example/pingSiteForm?name={0}&url={1}", "?name=News&url=http%3A%2F%2Fa.example%2F"),
        ("http://sink.example/ping?u={0}", "?u=http%3A%2F%2Fa.example%2F"),
    ],
)
def test_ping_template_may_have_numbered_values(template: str, expected: str) -> None:
    message = ping_message(read_ping_sink(template), name="News", url="http://a.example/")

    assert message.url.endswith(expected)


def test_ping_command_refuses_invalid_sink(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", "http://example.com/", "--sink", "nonsense"]) == 2
    assert main(["ping", "nonsense", "--sink", RPC]) == 2
    assert "Traceback" not in capsys.readouterr().err
