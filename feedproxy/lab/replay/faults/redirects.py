"""Redirects in HTTP and XML to `/moved-1/…` at the same host, where the feed is served."""

from dataclasses import replace
from typing import ClassVar

from feedproxy.errors import UsageError
from feedproxy.feed import xml_redirect
from feedproxy.http.message import Fields
from feedproxy.lab.replay.faults.base import Fault, FaultContext
from feedproxy.lab.replay.replay_response import ReplayRequest, ReplayResponse

_REASONS = {
    301: "Moved Permanently",
    302: "Found",
    303: "See Other",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
}


def _to(reply: ReplayResponse, status: int, location: str) -> ReplayResponse:
    date = [("Date", value)] if (value := reply.fields.get("date")) else []
    lines = [*date, ("Location", location), ("Content-Type", "text/plain")]
    body = f"{location}\n".encode("latin-1")
    return replace(reply, status=status, fields=Fields(lines), body=body, reason=_REASONS[status])


class _Redirect(Fault):
    status: ClassVar[int]
    moves = True

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return reply if incoming.hops else _to(reply, self.status, incoming.moved(1))


class Redirect301(_Redirect):
    """301 to another address, where the feed is.

    A good reader follows, adopts the new address (at once, or after it has seen the same some times), and asks the
    old one no more.
    """

    name = "redirect-301"
    status = 301


class Redirect302(_Redirect):
    """302 to another address, where the feed is.

    A good reader follows the redirect and keeps the old address. The next poll sends the feed's validators there.
    """

    name = "redirect-302"
    status = 302


class Redirect307(_Redirect):
    """307 to another address, where the feed is.

    A good reader treats it as 302: it follows, and adopts nothing.
    """

    name = "redirect-307"
    status = 307


class Redirect308(_Redirect):
    """308 to another address, where the feed is.

    A good reader treats it as 301: it follows, and adopts the new address.
    """

    name = "redirect-308"
    status = 308


class RedirectChain(Fault):
    """One redirect leads to the next, and the last one to the feed. The value lists their statuses (default:
    301,308,302,307).

    A good reader follows some, five at least, and adopts an address only as far as all redirects up to it are
    permanent.
    """

    name = "redirect-chain"
    default = "301,308,302,307"
    moves = True

    def check(self) -> None:
        if not all(status.isdigit() and int(status) in _REASONS for status in self.value.split(",")):
            raise UsageError(f"--fault {self.name}={self.value}: expected statuses such as {self.default}")

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        statuses = [int(status) for status in self.value.split(",")]
        return (
            _to(reply, statuses[incoming.hops], incoming.moved(incoming.hops + 1))
            if incoming.hops < len(statuses)
            else reply
        )


class RedirectLoop(Fault):
    """Two addresses that redirect to one another for ever, with 302 (or the status that is the value).

    A good reader notices, stops, and takes it for a failure: it keeps its copy and the old address.
    """

    name = "redirect-loop"
    default = "302"
    moves = True

    def check(self) -> None:
        if self.value not in map(str, _REASONS):
            raise UsageError(f"--fault {self.name}={self.value}: expected 301, 302, 303, 307 or 308")

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return _to(reply, int(self.value), incoming.moved(0 if incoming.hops else 1))


class XmlRedirect(Fault):
    """200 with RSS Feed State's redirect document, which names the new address: a 301 for publishers that
    cannot set a status.

    A good reader treats it as 301. One that does not know the document must at least not take it for a feed without
    entries.
    """

    name = "xml-redirect"
    moves = True

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        if incoming.hops:
            return reply
        date = [("Date", value)] if (value := reply.fields.get("date")) else []
        document = xml_redirect.make_document(incoming.moved(1))
        fields = Fields([*date, ("Content-Type", "application/xml")])
        return replace(reply, status=200, fields=fields, body=document, reason="OK")


FAULTS = (Redirect301, Redirect302, Redirect307, Redirect308, RedirectChain, RedirectLoop, XmlRedirect)
