"""SOAP 1.1 for rssCloud: a call with parameters of simple types, and a value or a fault in return.

Envelopes of SOAP 1.2 are read, too.
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, ParseError
from xml.sax.saxutils import escape

from defusedxml.ElementTree import fromstring
from msgspec import Struct

from feedproxy.feed.xml_parser import safe_length
from feedproxy.feed.xml_well_formedness import valid_text
from feedproxy.http.message import Response
from feedproxy.notify.endpoint_responses import XML, generated_response
from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.notify.rpc.xmlrpc import is_excessive

SOAP_11 = "http://schemas.xmlsoap.org/soap/envelope/"
SOAP_12 = "http://www.w3.org/2003/05/soap-envelope"
ENCODING = "http://schemas.xmlsoap.org/soap/encoding/"

type ParameterValue = str | list[str]


class SoapCall(Struct, frozen=True):
    """A call: its method and namespace, and its parameters as names and values in order."""

    method: str
    namespace: str
    parameters: tuple[tuple[str, ParameterValue], ...]


def parse_document(content: bytes) -> Element:
    """Return the root element of a document. Raises InvalidCall for ill-formed XML and for a document type."""
    if is_excessive(content) or safe_length(content) < len(content):
        raise InvalidCall("the call has too many elements, attributes or lines")
    try:
        root: Element = fromstring(content, forbid_dtd=True)
    except (ParseError, ValueError, LookupError) as error:
        raise InvalidCall("invalid document: expected well-formed XML without a document type") from error
    return root


def split_tag(tag: str) -> tuple[str, str]:
    """Return the namespace and the local name of an element's tag."""
    space, brace, local = tag.removeprefix("{").rpartition("}")
    return (space, local) if brace else ("", tag)


def read_call(content: bytes) -> SoapCall:
    method = _in_body(content)
    space, local = split_tag(method.tag)
    return SoapCall(local, space, tuple((split_tag(parameter.tag)[1], _value(parameter)) for parameter in method))


def read_answer(content: bytes) -> str:
    """Return the value of a response, or "" if the response has no value. Raises InvalidCall for a fault."""
    answer = _in_body(content)
    if split_tag(answer.tag)[1] == "Fault":
        message = " ".join(" ".join(answer.itertext()).split())
        raise InvalidCall(f"fault: {message[:200]}")
    return "".join(answer.itertext()).strip()


def write_call(method: str, parameters: Sequence[tuple[str, ParameterValue | int]], namespace: str = "") -> bytes:
    """Return an envelope with a call."""
    inner = "".join(_parameter(name, value) for name, value in parameters)
    declared = f' xmlns:m="{_text(namespace)}"' if namespace else ""
    name = f"m:{method}" if namespace else method
    return _envelope(f"<{name}{declared}>{inner}</{name}>")


def write_response(call: SoapCall, value: bool) -> Response:
    """Return the response to a call with a boolean result."""
    name = f"m:{call.method}Response"
    declared = f' xmlns:m="{_text(call.namespace)}"'
    result = f'<Result xsi:type="xsd:boolean">{int(value)}</Result>'
    if not call.namespace:
        name, declared = f"{call.method}Response", ""
    return generated_response(200, XML, _envelope(f"<{name}{declared}>{result}</{name}>"))


def write_fault(message: str) -> Response:
    inner = f"<faultcode>SOAP-ENV:Client</faultcode><faultstring>{_text(message)}</faultstring>"
    return generated_response(500, XML, _envelope(f"<SOAP-ENV:Fault>{inner}</SOAP-ENV:Fault>"))


def _in_body(content: bytes) -> Element:
    root = parse_document(content)
    space, local = split_tag(root.tag)
    if local != "Envelope" or space not in (SOAP_11, SOAP_12):
        raise InvalidCall("invalid call: expected a SOAP envelope")
    body = root.find(f"{{{space}}}Body")
    if body is None or len(body) == 0:
        raise InvalidCall("the envelope's body is empty")
    return body[0]


def _value(element: Element) -> ParameterValue:
    if len(element) or any(split_tag(name)[1] == "arrayType" for name in element.attrib):
        return ["".join(item.itertext()).strip() for item in element]
    return (element.text or "").strip()


def _parameter(name: str, value: ParameterValue | int) -> str:
    if isinstance(value, int):
        return f'<{name} xsi:type="xsd:int">{value}</{name}>'
    if isinstance(value, str):
        return f'<{name} xsi:type="xsd:string">{_text(value)}</{name}>'
    items = "".join(f'<item xsi:type="xsd:string">{_text(item)}</item>' for item in value)
    kind = f'xsi:type="SOAP-ENC:Array" SOAP-ENC:arrayType="xsd:string[{len(value)}]"'
    return f"<{name} {kind}>{items}</{name}>"


def _envelope(inner: str) -> bytes:
    spaces = {
        "SOAP-ENV": SOAP_11,
        "SOAP-ENC": ENCODING,
        "xsd": "http://www.w3.org/2001/XMLSchema",
        "xsi": "http://www.w3.org/2001/XMLSchema-instance",
    }
    declared = "".join(f' xmlns:{prefix}="{name}"' for prefix, name in spaces.items())
    style = f'SOAP-ENV:encodingStyle="{ENCODING}"'
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<SOAP-ENV:Envelope {style}{declared}>'
        f"<SOAP-ENV:Body>{inner}</SOAP-ENV:Body></SOAP-ENV:Envelope>\n"
    ).encode()


def _text(text: str) -> str:
    return escape(valid_text(text), {'"': "&quot;"})
