"""XML-RPC: one endpoint, many methods.

Python's own xmlrpc reads and writes the values; defusedxml's parser stands in front of it and refuses what no call
has: a document type, and with it entities. (xmlrpc.client alone would expand them.)
"""

import logging
import xmlrpc.client
from collections.abc import Awaitable, Callable
from typing import Any

from defusedxml.xmlrpc import DefusedExpatParser

from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Response
from feedproxy.notify.pings.messages import InvalidCall
from feedproxy.notify.responses import XML, generated_response
from feedproxy.request.endpoints import Call

logger = logging.getLogger(__name__)

CONTENT_MAX = 65_536
"""Bytes of a call: a ping has half a thousand, a subscription to a hundred feeds some ten thousand."""

CHARACTER_COUNTS_MAX = {b"<": 2_000, b"=": 2_000, b"&": 2_000, b"\n": 8_000, b"\r": 8_000}
"""Signs of a call, which is read where readers wait: what is made of these takes most of the time. A subscription to a
hundred feeds has some hundreds of each."""

NOT_WELL_FORMED, NO_METHOD, INTERNAL_ERROR = -32700, -32601, -32603
"""The codes that implementations of XML-RPC have agreed on for faults."""

type Method = Callable[[tuple[Any, ...], Call], Awaitable[Any]]
"""Gets the parameters; returns what xmlrpc.client can write. Raises BadCall where they are not of its form."""


class XmlRpcDispatcher:
    """The methods, by name."""

    def __init__(self) -> None:
        self._methods: dict[str, Method] = {}

    def add(self, name: str, method: Method) -> None:
        """Offer a method; the names of the texts are case-sensitive."""
        self._methods[name] = method

    async def answer(self, call: Call) -> Response:
        """The endpoint's handler. A fault is an answer, too: status 200, as the specification has it."""
        try:
            name, parameters = read_call(call.content)
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
            logger.exception("the method %s failed", name)
            return write_response(xmlrpc.client.Fault(INTERNAL_ERROR, "feedproxy failed; its log says more"))


def is_excessive(content: bytes) -> bool:
    """Whether a document has more of what takes time than a call has."""
    return any(content.count(sign) > most for sign, most in CHARACTER_COUNTS_MAX.items())


def read_call(content: bytes) -> tuple[str, tuple[Any, ...]]:
    """Method name and parameters. Raises BadCall for what is no XML-RPC call."""
    if is_excessive(content):
        raise InvalidCall("this is more XML than a call has")
    unmarshaller = xmlrpc.client.Unmarshaller()
    try:
        parser = DefusedExpatParser(unmarshaller, forbid_dtd=True, forbid_entities=True, forbid_external=True)
        parser.feed(content)
        parser.close()
        parameters = unmarshaller.close()
    except Exception as error:
        # expat's, defusedxml's, and whatever a value of the wrong form makes Python's own classes raise.
        raise InvalidCall("this is no XML-RPC call") from error
    name = unmarshaller.getmethodname()
    if not isinstance(name, str) or not isinstance(parameters, tuple):
        raise InvalidCall("this is no XML-RPC call: it names no method")
    return name.strip(), parameters


def write_call(name: str, *parameters: str) -> bytes:
    """A call whose parameters are texts."""
    return xmlrpc.client.dumps(tuple(map(remove_unwritable, parameters)), name).encode()


def read_answer(content: bytes) -> Any:
    """The value that a method returned. Raises BadCall where it is none, or a fault."""
    unmarshaller = xmlrpc.client.Unmarshaller()
    try:
        parser = DefusedExpatParser(unmarshaller, forbid_dtd=True, forbid_entities=True, forbid_external=True)
        parser.feed(content)
        parser.close()
        (value,) = unmarshaller.close()
    except xmlrpc.client.Fault as fault:
        raise InvalidCall(f"fault {fault.faultCode}: {str(fault.faultString)[:200]}") from fault
    except Exception as error:
        raise InvalidCall("this is no answer of XML-RPC") from error
    return value


def write_response(value: Any) -> Response:
    """The response that returns this value, or this fault."""
    if not isinstance(value, xmlrpc.client.Fault):
        value = (value,)
    else:
        value = xmlrpc.client.Fault(value.faultCode, remove_unwritable(value.faultString))
    head = b'<?xml version="1.0"?>\n'
    body = head + xmlrpc.client.dumps(value, methodresponse=True).partition("?>")[2].strip().encode() + b"\n"
    return generated_response(200, XML, body)


def remove_unwritable(text: str) -> str:
    """A text without what XML cannot hold."""
    return "".join(each for each in text if each in "\t\n\r" or (each >= " " and not "\ud800" <= each <= "\udfff"))
