"""Of an origin's answer only fields pass the gateway that speak of that answer alone."""

import pytest

from feedproxy.http.message import Fields
from feedproxy.request.entrance import ClientContext, Entrance, apply_entrance_rules

OF_THE_WHOLE_ORIGIN = [
    "Set-Cookie",
    "set-cookie2",
    "Clear-Site-Data",
    "Service-Worker-Allowed",
    "Strict-Transport-Security",
    "Public-Key-Pins",
    "NEL",
    "Report-To",
    "Reporting-Endpoints",
    "Accept-CH",
    "Critical-CH",
    "Use-As-Dictionary",
    "Set-Login",
    "Secure-Session-Registration",
    "Sec-Session-Registration",
    "Activate-Storage-Access",
    "Speculation-Rules",
    "Origin-Trial",
    "Origin-Agent-Cluster",
    "Supports-Loading-Mode",
    "Access-Control-Allow-Credentials",
    "Content-Security-Policy-Report-Only",
    "Observe-Browsing-Topics",
    "Attribution-Reporting-Register-Source",
    "Alt-Svc",
    "A-Field-Of-Next-Year",
]
FOR_SERVERS_IN_FRONT = [
    "X-Accel-Redirect",
    "X-Accel-Expires",
    "X-Accel-Buffering",
    "X-Sendfile",
    "X-Sendfile2",
    "X-LIGHTTPD-send-file",
    "X-LiteSpeed-Location",
    "X-Reproxy-URL",
    "X-Envoy-Immediate-Health-Check-Fail",
]
OF_THIS_ANSWER = [
    "Content-Type",
    "ETag",
    "Vary",
    "Link",
    "Retry-After",
    "IM",
    "X-Robots-Tag",
    "Access-Control-Allow-Origin",
]
TARGET = "http://origin.example/feed"


def dressed(entrance: Entrance, *names: str) -> Fields:
    fields = Fields((name, "x") for name in names)
    return apply_entrance_rules(
        fields, ClientContext(entrance, "http://proxy.example", "192.0.2.1"), target=TARGET, upstream=""
    )


@pytest.mark.parametrize("name", OF_THE_WHOLE_ORIGIN)
def test_what_counts_for_a_whole_web_origin_does_not_pass_the_gateway(name: str) -> None:
    assert name not in dressed(Entrance.GATEWAY, name, "ETag")


@pytest.mark.parametrize("name", FOR_SERVERS_IN_FRONT)
def test_no_stranger_gives_orders_to_the_server_in_front_of_the_gateway(name: str) -> None:
    assert name not in dressed(Entrance.GATEWAY, name, "ETag")
    assert name in dressed(Entrance.REVERSE, name), "there the origin is the operator's"


@pytest.mark.parametrize("name", OF_THIS_ANSWER)
def test_what_speaks_of_the_answer_passes(name: str) -> None:
    assert dressed(Entrance.GATEWAY, name).get(name) == "x"


@pytest.mark.parametrize("entrance", [Entrance.PROXY, Entrance.REVERSE])
def test_by_the_other_entrances_fields_pass_that_nobody_knows(entrance: Entrance) -> None:
    """RFC 9110, 5.1: a proxy forwards fields that it does not recognise."""
    assert dressed(entrance, "A-Field-Of-Next-Year").get("a-field-of-next-year") == "x"
