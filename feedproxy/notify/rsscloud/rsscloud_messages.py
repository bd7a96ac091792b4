"""rssCloud messages by XML-RPC, SOAP and http-post (the `cloud` element of RSS 2.0, 2003)."""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from msgspec import Struct

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.feed.channel_addresses import cloud_scheme
from feedproxy.feed.xml_well_formedness import valid_text
from feedproxy.http import uri
from feedproxy.http.content_negotiation import choose_media_type
from feedproxy.http.message import Fields, Response
from feedproxy.notify.endpoint_responses import XML, generated_response
from feedproxy.notify.notification_protocol import Message
from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.notify.rpc import soap, xmlrpc
from feedproxy.notify.rpc.soap import SoapCall

NAME = "rsscloud"
JSON = "application/json"

URLS_MAX = 100
"""A registration may name at most this many feeds. feedproxy sends one verification for the whole registration."""

FORM_PARAMETERS_MAX = URLS_MAX + 20
"""A form may have at most this many parameters."""

FAULT_CODE = 4
"""Fault code of all rssCloud faults, also in other implementations."""

SOAP_NAMESPACE = "http://www.soapware.org/"

PROCEDURE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
"""Pattern of the names of procedures that feedproxy calls. Another name could change the structure of the call."""

_CLOUD_PROCEDURES = frozenset({"hello", "ping", "pleasenotify", "rsspleasenotify"})
"""Names of a cloud's own procedures, without prefix. The procedure of a callback must not have such a name. Every cloud
answers a call of `ping` with true. That answer would not prove that the server is an aggregator."""


class NotificationMethod(StrEnum):
    """The protocol by which a cloud sends notifications. Values are case-sensitive."""

    HTTP_POST = "http-post"
    HTTPS_POST = "https-post"  # an extension of current servers
    XML_RPC = "xml-rpc"
    SOAP = "soap"

    @property
    def is_form(self) -> bool:
        return self in (NotificationMethod.HTTP_POST, NotificationMethod.HTTPS_POST)


class MalformedCall(InvalidCall):
    """Error for a call with wrong parameters."""

    fault_code = FAULT_CODE


class RegistrationRefused(FeedproxyError, status=403, detail="access"):
    """Error for a refused registration. The client gets the answer false."""


class Registration(Struct, frozen=True):
    """The registration of an aggregator. An empty `domain` means the caller's own address."""

    method: NotificationMethod
    procedure: str
    port: int
    path: str
    urls: tuple[str, ...]
    domain: str = ""

    def callback(self, address: str) -> str:
        """Return the callback URL for a caller at `address`. Raises RegistrationRefused if a value is invalid."""
        host = self.domain or address.removeprefix("::ffff:")
        scheme = cloud_scheme(self.method, str(self.port))
        try:
            url = uri.normalise(f"{scheme}://{uri.join_host_port(host, self.port)}{self.path}")
        except BadTarget as error:
            raise RegistrationRefused(f"invalid callback: {error}") from error
        return url


def registration(
    procedure: str, port: object, path: str, protocol: str, urls: Sequence[str], domain: str = ""
) -> Registration:
    """Return the registration with these parameters. Raises RegistrationRefused for an invalid parameter."""
    if protocol not in tuple(NotificationMethod):
        raise RegistrationRefused(
            f"invalid protocol {protocol[:40]!r}: expected one of {', '.join(NotificationMethod)}"
        )
    method, digits = NotificationMethod(protocol), str(port).strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) <= 65535):
        raise RegistrationRefused(f"invalid port {digits[:40]!r}: expected a number from 1 to 65535")
    if not method.is_form and not PROCEDURE_NAME.fullmatch(procedure):
        raise RegistrationRefused(f"invalid procedure {procedure[:40]!r}: expected a name such as rssCloud.notify")
    if not method.is_form and procedure.rpartition(".")[2].lower() in _CLOUD_PROCEDURES:
        raise RegistrationRefused(f"invalid procedure {procedure!r}: expected a name that no procedure of a cloud has")
    if not urls or not all(urls):
        raise RegistrationRefused("the URLs of feeds are missing")
    if len(urls) > URLS_MAX:
        raise RegistrationRefused(f"too many feeds: expected at most {URLS_MAX} in one call")
    domain = domain.strip()
    if re.search(r"[/?#@\\\s]", domain):
        raise RegistrationRefused("invalid domain: expected the name or the address of a host")
    host = domain.removeprefix("[").removesuffix("]")
    path = path.strip()
    return Registration(
        *(method, procedure, int(digits)),
        path if path.startswith("/") else f"/{path}",
        tuple(dict.fromkeys(urls)),
        host,
    )


def from_parameters(parameters: Sequence[Any]) -> Registration:
    """Return the registration of an XML-RPC call. Raises MalformedCall if a parameter is missing or has the wrong type,
    and RegistrationRefused if a value is invalid.

    The parameters are "the name of the procedure … the TCP port … the path to its responder, a string indicating which
    protocol to use … and a list of urls". At current servers, a domain can follow.
    """
    if not 5 <= len(parameters) <= 6:
        raise MalformedCall(f"{len(parameters)} parameters: expected five or six")
    procedure, port, path, protocol, urls, *domain = parameters
    urls = [urls] if isinstance(urls, str) else urls
    texts = (procedure, path, protocol, *domain)
    if not isinstance(port, int | str) or isinstance(port, bool) or not isinstance(urls, list | tuple):
        raise MalformedCall("invalid parameters: expected a port as the second, a list of URLs as the fifth")
    if not all(isinstance(text, str) for text in (*texts, *urls)):
        raise MalformedCall("invalid parameters: expected strings as procedure, path, protocol and URLs")
    return registration(procedure, port, path, protocol, [url.strip() for url in urls], "".join(domain))


def from_soap(call: SoapCall) -> Registration:
    """Return the registration of a SOAP call. Parameters are identified by name, or, if a required name is missing, by
    order.

    Raises MalformedCall if a parameter is missing or has the wrong type, and RegistrationRefused if a value is invalid.
    """
    order = ("notifyprocedure", "port", "path", "protocol", "urllist", "domain")
    values = {name.lower(): value for name, value in call.parameters}
    if all(name in values for name in order[:5]):
        return from_parameters([values[name] for name in order if name in values])
    return from_parameters([value for _, value in call.parameters])


def from_form(content: bytes) -> Registration:
    """Return the registration of a form with protocol, port, path, url1 … urlN, and perhaps domain and procedure.
    Raises RegistrationRefused if a parameter is missing or invalid."""
    if content.count(b"&") >= FORM_PARAMETERS_MAX:
        raise RegistrationRefused(f"too many feeds: expected at most {URLS_MAX} in one call")
    parameters = parse_form(content)
    by_name = {name.lower(): value for name, value in parameters}
    if missing := [name for name in ("protocol", "port", "path") if not by_name.get(name)]:
        raise RegistrationRefused(f"missing parameters: {', '.join(missing)}")
    urls = [value.strip() for name, value in parameters if name.lower().startswith("url")]
    procedure = by_name.get("notifyprocedure") or by_name.get("registerprocedure") or ""
    return registration(
        procedure, by_name["port"], by_name["path"], by_name["protocol"], urls, by_name.get("domain", "")
    )


def parse_form(content: bytes) -> list[tuple[str, str]]:
    """Return the names and values of a form in order. An invalid form gives an empty list."""
    try:
        return parse_qsl(
            content.decode("utf-8", "replace"),
            keep_blank_values=True,
            max_num_fields=FORM_PARAMETERS_MAX,
            separator="&",
        )
    except ValueError:
        return []


# -- notifications


def notification(method: NotificationMethod, callback: str, procedure: str, url: str) -> Message:
    """Return a notification: "the cloud calls back to the procedure … with one parameter, the url"."""
    if method.is_form:
        fields = Fields([("Content-Type", "application/x-www-form-urlencoded")])
        return Message("POST", callback, fields, urlencode({"url": url}).encode())
    lines = [("Content-Type", "text/xml; charset=utf-8")]
    if method is NotificationMethod.XML_RPC:
        return Message("POST", callback, Fields(lines), xmlrpc.write_call(procedure, url))
    lines.append(("SOAPAction", f'"{urlsplit(callback).path}"'))
    return Message("POST", callback, Fields(lines), soap.write_call(procedure, [("url", url)], SOAP_NAMESPACE))


def challenge(callback: str, url: str, token: str) -> Message:
    """Return the challenge for a callback at another host (`domain`). The response must repeat `token`."""
    separator = "&" if "?" in callback else "?"
    query = f"url={quote_plus(url)}&challenge={quote_plus(token)}"
    return Message("GET", f"{callback}{separator}{query}")


def failure_reason(method: NotificationMethod, answer: Response, *, strictly: bool = False) -> str:
    """Return the reason why a notification failed, or "" if it succeeded.

    A status other than 2xx is a failure. If `strictly` is True, an XML-RPC or SOAP response must also contain the value
    true. Otherwise the response must not contain false or a fault.
    """
    if not 200 <= answer.status < 300:
        return f"status {answer.status}"
    if method.is_form:
        return ""
    try:
        content = xmlrpc.utf8_content(answer.body, answer.fields)
        value = xmlrpc.read_answer(content) if method is NotificationMethod.XML_RPC else soap.read_answer(content)
    except InvalidCall as error:
        return str(error) if strictly or "fault" in str(error) else ""
    if value is False or value in ("0", "false"):
        return "result false"
    return "" if not strictly or value is True or value in ("1", "true") else "the result is not true"


# -- results


def write_result(element: str, success: bool, message: str, accept: str) -> Response:
    """Return the XML element `element` with the attributes `success` and `msg`, or JSON if the client prefers JSON."""
    offers = (JSON, "text/xml", "application/xml")
    if JSON in accept and choose_media_type(accept, offers) == JSON:  # `*/*` alone stands for the usual XML
        body, media_type = json.dumps({"success": success, "msg": message}), JSON
    else:
        result = valid_text(message).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
        body = f'<?xml version="1.0" encoding="utf-8"?>\n<{element} success="{str(success).lower()}" msg="{result}"/>\n'
        media_type = XML
    return generated_response(200, media_type, body.encode())


def read_result(content: bytes) -> tuple[bool, str]:
    """Return two values of a registration's result: whether it reports success, and its message. Raises InvalidCall if
    the result is invalid."""
    try:
        result: Mapping[str, Any] = (
            json.loads(content) if content.lstrip()[:1] == b"{" else soap.parse_document(content).attrib
        )
    except (ValueError, RecursionError) as error:
        raise InvalidCall("invalid result of a registration") from error
    if "success" not in result:
        raise InvalidCall("invalid result of a registration")
    # JSON can encode half of a surrogate pair, which UTF-8 and therefore the database cannot.
    message = str(result.get("msg", ""))[:200].encode("utf-8", "replace").decode()
    return str(result["success"]).lower() == "true", message
