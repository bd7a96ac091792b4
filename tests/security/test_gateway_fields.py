"""Fields that the gateway forwards from an origin's response: those that concern the response alone."""

import pytest

from feedproxy.http.message import Fields
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.response_fields_by_entrance import apply_entrance_rules

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
    "X-Archive-Files",
    "X-Esi",
    "Surrogate-Control",
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
def test_field_that_affects_a_whole_web_origin_is_removed_at_the_gateway(name: str) -> None:
    assert name not in dressed(Entrance.GATEWAY, name, "ETag")


@pytest.mark.parametrize("name", FOR_SERVERS_IN_FRONT)
def test_field_that_controls_the_server_in_front_is_removed_at_the_gateway(name: str) -> None:
    assert name not in dressed(Entrance.GATEWAY, name, "ETag")
    assert name in dressed(Entrance.REVERSE, name), "there the origin is the operator's"


@pytest.mark.parametrize("name", OF_THIS_ANSWER)
def test_field_that_describes_the_response_is_forwarded(name: str) -> None:
    assert dressed(Entrance.GATEWAY, name).get(name) == "x"


@pytest.mark.parametrize("entrance", [Entrance.PROXY, Entrance.REVERSE])
def test_unknown_field_is_forwarded_at_the_other_entrances(entrance: Entrance) -> None:
    """A proxy forwards fields that it does not recognize (RFC 9110, section 5.1)."""
    assert dressed(entrance, "A-Field-Of-Next-Year").get("a-field-of-next-year") == "x"
