"""XML-RPC: the dispatcher of one endpoint, and reading and writing of calls.

Calls are parsed with defusedxml, because the parser of Python's xmlrpc.client expands entities.
"""

import logging
import xmlrpc.client
from collections.abc import Awaitable, Callable
from typing import Any
from xml.parsers.expat import ExpatError

from defusedxml.common import DefusedXmlException
from defusedxml.xmlrpc import DefusedExpatParser

from feedproxy.errors import FeedproxyError
from feedproxy.feed.encoding_detection import declared_encoding, encoding_by_bytes, to_utf8
from feedproxy.feed.xml_well_formedness import valid_text
from feedproxy.http.field_values import charset_of
from feedproxy.http.message import Fields, Response
from feedproxy.notify.endpoint_responses import XML, generated_response
from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.request.endpoint_registry import Call

logger = logging.getLogger(__name__)

CONTENT_MAX = 65_536
"""A call of more than this many bytes is refused. A subscription to a hundred feeds has about 10,000 bytes."""

CHARACTER_COUNTS_MAX = {b"<": 2_000, b"=": 2_000, b"&": 2_000, b"\n": 8_000, b"\r": 8_000}
"""Maximum number of occurrences of each character in a call. More of them would take too long to parse. A subscription
to a hundred feeds has some hundreds of each character."""

NOT_WELL_FORMED, NO_METHOD, INTERNAL_ERROR = -32700, -32601, -32603
"""XML-RPC fault codes (Specification for Fault Code Interoperability)."""

type Method = Callable[[tuple[Any, ...], Call], Awaitable[Any]]
"""Function that returns the result of a call, as a value that xmlrpc.client can write. Raises InvalidCall for invalid
parameters."""


class XmlRpcDispatcher:
    """Dispatcher of calls to methods, by name."""

    def __init__(self) -> None:
        self._methods: dict[str, Method] = {}

    def add(self, name: str, method: Method) -> None:
        """Add a method. Names are case-sensitive."""
        self._methods[name] = method

    async def answer(self, call: Call) -> Response:
        """Return the response to a call. A fault has status 200, as the specification requires."""
        try:
            name, parameters = read_call(utf8_content(call.content, call.request.fields))
        except InvalidCall as error:
            return write_response(xmlrpc.client.Fault(NOT_WELL_FORMED, str(error)))
        method = self._methods.get(name)
        if method is None:
            return write_response(xmlrpc.client.Fault(NO_METHOD, f"there is no method {name[:100]}"))
        try:
            return write_response(await method(parameters, call))
        except InvalidCall as error:
            return write_response(xmlrpc.client.Fault(error.fault_code, str(error)))
        except FeedproxyError as error:
            return write_response(xmlrpc.client.Fault(INTERNAL_ERROR, str(error)))
        except Exception:
            logger.exception("xmlrpc: method %s failed", name)
            return write_response(xmlrpc.client.Fault(INTERNAL_ERROR, "internal error; see feedproxy's log"))


def is_excessive(content: bytes) -> bool:
    """Return whether a document has so many tags, attributes or lines that parsing could take too long."""
    return any(content.count(character) > limit for character, limit in CHARACTER_COUNTS_MAX.items())


def utf8_content(content: bytes, fields: Fields) -> bytes:
    """Return the XML content of a message with these fields. The content is converted to UTF-8 if its encoding is
    stated only by the charset of Content-Type."""
    charset = charset_of(fields.get("content-type"))
    if charset is None or encoding_by_bytes(content) is not None or declared_encoding(content) is not None:
        return content
    text = to_utf8(content, charset)
    return text.data if text.sound else content


def read_call(content: bytes) -> tuple[str, tuple[Any, ...]]:
    """Return a call's method name and parameters. Raises InvalidCall if the content is no valid call."""
    if is_excessive(content):
        raise InvalidCall("the call has too many elements, attributes or lines")
    try:
        name, parameters = _unmarshal(content)
    except Exception as error:
        # Exceptions of expat and defusedxml, and of xmlrpc.client for a malformed value.
        raise InvalidCall(f"invalid XML-RPC call: {_reason(error)}") from error
    if not isinstance(name, str) or not isinstance(parameters, tuple):
        raise InvalidCall("invalid XML-RPC call: the method name is missing")
    return name.strip(), parameters


def _reason(error: Exception) -> str:
    if isinstance(error, ExpatError):
        return f"expected well-formed XML: {error}"
    if isinstance(error, DefusedXmlException):
        return "expected no document type and no entities"
    return "expected a value of XML-RPC"


def _unmarshal(content: bytes) -> tuple[str | None, Any]:
    unmarshaller = xmlrpc.client.Unmarshaller()
    parser = DefusedExpatParser(unmarshaller, forbid_dtd=True, forbid_entities=True, forbid_external=True)
    parser.feed(content)
    parser.close()
    values = unmarshaller.close()
    return unmarshaller.getmethodname(), values


def write_call(name: str, *parameters: str) -> bytes:
    """Return a call with strings as parameters."""
    return xmlrpc.client.dumps(tuple(map(valid_text, parameters)), name).encode()


def read_answer(content: bytes) -> Any:
    """Return the value of a response. Raises InvalidCall for a fault or an invalid response."""
    try:
        _, (value,) = _unmarshal(content)
    except xmlrpc.client.Fault as fault:
        raise InvalidCall(f"fault {fault.faultCode}: {str(fault.faultString)[:200]}") from fault
    except Exception as error:
        raise InvalidCall(f"invalid XML-RPC response: {_reason(error)}") from error
    return value


def write_response(value: Any) -> Response:
    if not isinstance(value, xmlrpc.client.Fault):
        value = (value,)
    else:
        value = xmlrpc.client.Fault(value.faultCode, valid_text(value.faultString))
    head = b'<?xml version="1.0"?>\n'
    body = head + xmlrpc.client.dumps(value, methodresponse=True).partition("?>")[2].strip().encode() + b"\n"
    return generated_response(200, XML, body)
