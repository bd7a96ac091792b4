"""XML-RPC and SOAP calls are parsed in the event loop, so calls that take long are refused without parsing."""

import pytest

from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.notify.rpc import soap, xmlrpc

_SOAP = b'<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body>%s</e:Body></e:Envelope>'
_RPC = b"<methodCall><methodName>x</methodName><params>%s</params></methodCall>"

_LONG = {
    "elements": b"<x>" + b"<y/>" * 8_000 + b"</x>",
    "a long namespace": b"<x xmlns='" + b"u" * 30_000 + b"'>" + b"<y/>" * 900 + b"</x>",
    "attributes": b"<x" + b"".join(b" a%d=''" % at for at in range(7_000)) + b"/>",
    "lines": b"<x>" + b"\n" * 60_000 + b"</x>",
    "lines of old": b"<x>" + b"\r" * 60_000 + b"</x>",
    "references": b"<x>" + b"&#9;" * 15_000 + b"</x>",
}


@pytest.mark.parametrize("name", _LONG)
def test_slow_soap_call_is_refused(name: str) -> None:
    with pytest.raises(InvalidCall, match="too many elements"):
        soap.read_call(_SOAP % _LONG[name])


@pytest.mark.parametrize("name", ["elements", "attributes", "lines", "lines of old", "references"])
def test_slow_xml_rpc_call_is_refused(name: str) -> None:
    with pytest.raises(InvalidCall, match="too many elements"):
        xmlrpc.read_call(_RPC % _LONG[name])


def test_call_with_a_hundred_feeds_is_parsed() -> None:
    urls = [f"http://a.example/feed?number={at}&form=rss" for at in range(100)]
    assert xmlrpc.read_call(xmlrpc.write_call("x", *urls)) == ("x", tuple(urls))
    call = soap.read_call(soap.write_call("hello", [("urls", urls)], "http://n.example/"))
    assert call.parameters == (("urls", urls),)
