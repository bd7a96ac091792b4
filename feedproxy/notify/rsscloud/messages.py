"""rssCloud: what is registered and told, by XML-RPC, SOAP and http-post (the `cloud` element of RSS 2.0, 2003).

The two sides are in cloud.py (others register here) and aggregator.py (we register with others).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from feedproxy.clock import Seconds
from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.notify import soap, xmlrpc
from feedproxy.notify.pings.messages import InvalidCall
from feedproxy.notify.protocol import Message
from feedproxy.notify.responses import XML, generated_response
from feedproxy.notify.soap import SoapCall

NAME = "rsscloud"

REGISTRATION_LIFETIME: Seconds = 25 * 3600
RENEW_AFTER: Seconds = 24 * 3600
"""By convention registrations expire after 25 hours. Workstations should register every 24 hours"""

URLS_MAX = 100
"""Feeds that one call registers for: a verification is sent for each call, whatever its length."""

FAULT_CODE = 4
"""What implementations of rssCloud give as the code of all their faults."""

SOAP_NAMESPACE = "http://www.soapware.org/"
_PROCEDURE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
"""Both an XML-RPC method's name and, in SOAP, an element's."""


_CLOUD_PROCEDURES = frozenset({"hello", "ping", "pleasenotify", "rsspleasenotify"})
"""The last parts of a cloud's own procedures. Every cloud answers its `ping` with true, which proves nothing."""


class NotificationMethod(StrEnum):
    """By which protocol notifications come; case-sensitive."""

    HTTP_POST = "http-post"
    HTTPS_POST = "https-post"  # an extension of today's servers
    XML_RPC = "xml-rpc"
    SOAP = "soap"

    @property
    def is_form(self) -> bool:
        """Whether a notification is a form's content."""
        return self in (NotificationMethod.HTTP_POST, NotificationMethod.HTTPS_POST)


class MalformedCall(InvalidCall):
    """A call that has not the form of its procedure."""

    fault_code = FAULT_CODE


class RegistrationRefused(FeedproxyError):
    """The registration cannot be done: the answer is false, and this is why."""

    status_hint = 403
    detail = "access"


@dataclass(frozen=True, slots=True)
class Registration:
    """What a workstation asks for. `domain` is empty where the callback is at the caller's own address."""

    method: NotificationMethod
    procedure: str
    port: int
    path: str
    urls: tuple[str, ...]
    domain: str = ""

    def callback(self, address: str) -> str:
        """The address to notify, for a caller from `address`. Raises Refusal."""
        host = self.domain or address.removeprefix("::ffff:")
        # "As a convenience, http-post with port 443 is also notified over HTTPS", say today's servers.
        scheme = "https" if self.method is NotificationMethod.HTTPS_POST or self.port == 443 else "http"
        try:
            url = uri.normalise(f"{scheme}://{uri.hostport(host, self.port)}{self.path}")
        except BadTarget as error:
            raise RegistrationRefused(f"the callback has no usable address: {error}") from error
        return url


def registration(
    procedure: str, port: object, path: str, protocol: str, urls: Sequence[str], domain: str = ""
) -> Registration:
    """A registration of these parts. Raises Refusal."""
    if protocol not in tuple(NotificationMethod):
        raise RegistrationRefused(f"the protocol {protocol[:40]!r} is none of {', '.join(NotificationMethod)}")
    way, digits = NotificationMethod(protocol), str(port).strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) <= 65535):
        raise RegistrationRefused("port is a number from 1 to 65535")
    if not way.is_form and not _PROCEDURE.fullmatch(procedure):
        raise RegistrationRefused("the procedure to call is missing, or has no name that could be called")
    if not way.is_form and procedure.rpartition(".")[2].lower() in _CLOUD_PROCEDURES:
        raise RegistrationRefused("that is a procedure of clouds, not of workstations")
    if not urls or not all(urls):
        raise RegistrationRefused("no feeds are named")
    if len(urls) > URLS_MAX:
        raise RegistrationRefused(f"more than {URLS_MAX} feeds are named in one call")
    domain = domain.strip()
    if re.search(r"[/?#@\\\s]", domain):
        raise RegistrationRefused("domain is the name or the address of a host, and no more")
    bare = domain.removeprefix("[").removesuffix("]")
    path = path.strip()
    return Registration(
        *(way, procedure, int(digits)), path if path.startswith("/") else f"/{path}", tuple(dict.fromkeys(urls)), bare
    )


def from_parameters(parameters: Sequence[Any]) -> Registration:
    """A registration by XML-RPC: "the name of the procedure … the TCP port … the path to its responder, a string
    indicating which protocol to use … and a list of urls", and in today's servers a domain.

    Raises WrongCall for what has not this form, Refusal.
    """
    if not 5 <= len(parameters) <= 6:
        raise MalformedCall(f"there are five or six parameters, not {len(parameters)}")
    procedure, port, path, protocol, urls, *domain = parameters
    urls = [urls] if isinstance(urls, str) else urls
    texts = (procedure, path, protocol, *domain)
    if not isinstance(port, int | str) or isinstance(port, bool) or not isinstance(urls, list | tuple):
        raise MalformedCall("the second parameter is a port, and the fifth a list of addresses")
    if not all(isinstance(each, str) for each in (*texts, *urls)):
        raise MalformedCall("procedure, path, protocol and addresses are strings")
    return registration(procedure, port, path, protocol, [each.strip() for each in urls], "".join(domain))


def from_soap(call: SoapCall) -> Registration:
    """The same by SOAP, in the same order; parameters that bear their names may stand anywhere. Raises as above."""
    order = ("notifyprocedure", "port", "path", "protocol", "urllist", "domain")
    named = {name.lower(): value for name, value in call.parameters}
    if all(each in named for each in order[:5]):
        return from_parameters([named[each] for each in order if each in named])
    return from_parameters([value for _, value in call.parameters])


def from_form(content: bytes) -> Registration:
    """The same as a form: protocol, port, path, url1 … urlN, perhaps domain and a procedure. Raises Refusal."""
    given = parse_form(content)
    lower = {name.lower(): value for name, value in given}
    if missing := [each for each in ("protocol", "port", "path") if not lower.get(each)]:
        raise RegistrationRefused(f"these parameters are missing: {', '.join(missing)}")
    urls = [value.strip() for name, value in given if name.lower().startswith("url")]
    procedure = lower.get("notifyprocedure") or lower.get("registerprocedure") or ""
    return registration(procedure, lower["port"], lower["path"], lower["protocol"], urls, lower.get("domain", ""))


def parse_form(content: bytes) -> list[tuple[str, str]]:
    """The fields of a form, in order; empty for what is none."""
    try:
        return parse_qsl(
            content.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=URLS_MAX + 20, separator="&"
        )
    except ValueError:
        return []


# -- what is told


def notification(way: NotificationMethod, callback: str, procedure: str, url: str, agent: str) -> Message:
    """ "the cloud calls back to the procedure named in the registration call with one parameter, the url"."""
    lines = [("User-Agent", agent)]
    if way.is_form:
        lines.append(("Content-Type", "application/x-www-form-urlencoded"))
        return Message("POST", callback, Fields(lines), urlencode({"url": url}).encode())
    lines.append(("Content-Type", "text/xml; charset=utf-8"))
    if way is NotificationMethod.XML_RPC:
        return Message("POST", callback, Fields(lines), xmlrpc.write_call(procedure, url))
    lines.append(("SOAPAction", f'"{urlsplit(callback).path}"'))
    return Message("POST", callback, Fields(lines), soap.write_call(procedure, [("url", url)], SOAP_NAMESPACE))


def challenge(callback: str, url: str, token: str, agent: str) -> Message:
    """The question to a callback at a domain: whoever is there gives the challenge back, word by word."""
    mark = "&" if "?" in callback else "?"
    query = f"url={quote_plus(url)}&challenge={quote_plus(token)}"
    return Message("GET", f"{callback}{mark}{query}", Fields([("User-Agent", agent)]))


def failure_reason(way: NotificationMethod, answer: Response, *, strictly: bool = False) -> str:
    """Why an answer to a notification is none of a workstation that wants it; empty where it is.

    `strictly`: it has to say so. "The workstation returns true."
    """
    if not 200 <= answer.status < 300:
        return f"it answered {answer.status}"
    if way.is_form:
        return ""
    try:
        value = xmlrpc.read_answer(answer.body) if way is NotificationMethod.XML_RPC else soap.read_answer(answer.body)
    except InvalidCall as error:
        return str(error) if strictly or "fault" in str(error) else ""
    if value is False or value in ("0", "false"):
        return "it answered false"
    return "" if not strictly or value is True or value in ("1", "true") else "it did not answer true"


# -- results


def write_result(element: str, success: bool, words: str, accept: str) -> Response:
    """`<notifyResult success="…" msg="…"/>` and its like; as JSON where that is asked for."""
    if "application/json" in accept:
        body, media_type = json.dumps({"success": success, "msg": words}), "application/json"
    else:
        said = xmlrpc.remove_unwritable(words).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
        body = f'<?xml version="1.0" encoding="utf-8"?>\n<{element} success="{str(success).lower()}" msg="{said}"/>\n'
        media_type = XML
    return generated_response(200, media_type, body.encode())


def read_result(content: bytes) -> tuple[bool, str]:
    """Success and words of such a result. Raises BadCall."""
    try:
        said: Mapping[str, Any] = (
            json.loads(content) if content.lstrip()[:1] == b"{" else soap.parse_document(content).attrib
        )
    except ValueError as error:
        raise InvalidCall("this is no result of a registration") from error
    if "success" not in said:
        raise InvalidCall("this is no result of a registration")
    return str(said["success"]).lower() == "true", str(said.get("msg", ""))[:200]
