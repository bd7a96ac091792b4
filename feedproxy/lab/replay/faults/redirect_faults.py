"""Redirects in HTTP and XML to `/moved-1/…` at the same host, where the feed is served."""

from typing import ClassVar

from feedproxy.errors import UsageError
from feedproxy.feed import xml_redirect
from feedproxy.lab.replay.faults.fault import Fault, FaultContext, replace_reply
from feedproxy.lab.replay.replay_response import ReplayResponse

_STATUSES = (301, 302, 303, 307, 308)


def _to(reply: ReplayResponse, status: int, location: str) -> ReplayResponse:
    lines = [("Location", location), ("Content-Type", "text/plain")]
    return replace_reply(reply, status, lines, f"{location}\n".encode("latin-1"))


class _Redirect(Fault):
    status: ClassVar[int]
    moves = True

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        return reply if context.incoming.hops else _to(reply, self.status, context.incoming.moved_address(1))


class Redirect301(_Redirect):
    """The response is a 301 to another address with the feed.

    A good reader follows the redirect and adopts the new address, at once or after several such responses. Afterwards
    it does not request the old address again.
    """

    name = "redirect-301"
    status = 301


class Redirect302(_Redirect):
    """The response is a 302 to another address with the feed.

    A good reader follows the redirect and keeps the old address. It requests the old address in the next poll, with the
    validators of the feed.
    """

    name = "redirect-302"
    status = 302


class Redirect307(_Redirect):
    """The response is a 307 to another address with the feed.

    A good reader treats a 307 like a 302: it follows the redirect and keeps the old address.
    """

    name = "redirect-307"
    status = 307


class Redirect308(_Redirect):
    """The response is a 308 to another address with the feed.

    A good reader treats a 308 like a 301: it follows the redirect and adopts the new address.
    """

    name = "redirect-308"
    status = 308


class RedirectChain(Fault):
    """Several redirects lead to the feed one after another.

    The fault's value lists the statuses of the redirects (default: 301,308,302,307).

    A good reader follows at least five redirects. It adopts the last address that is reached by permanent redirects
    only.
    """

    name = "redirect-chain"
    default = "301,308,302,307"
    moves = True

    def check(self) -> None:
        if not all(status.isdigit() and int(status) in _STATUSES for status in self.value.split(",")):
            raise UsageError(f"--fault {self.name}={self.value}: expected statuses such as {self.default}")

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        statuses = [int(status) for status in self.value.split(",")]
        return (
            _to(reply, statuses[context.incoming.hops], context.incoming.moved_address(context.incoming.hops + 1))
            if context.incoming.hops < len(statuses)
            else reply
        )


class RedirectLoop(Fault):
    """Two addresses redirect to each other. The fault's value is the status (default: 302).

    A good reader detects the loop, stops, and treats the loop as a failure: it keeps its copy and the old address.
    """

    name = "redirect-loop"
    default = "302"
    moves = True

    def check(self) -> None:
        if self.value not in map(str, _STATUSES):
            raise UsageError(f"--fault {self.name}={self.value}: expected 301, 302, 303, 307 or 308")

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        return _to(reply, int(self.value), context.incoming.moved_address(0 if context.incoming.hops else 1))


class XmlRedirect(Fault):
    """The response is 200 with a redirect document that names the new address.

    RSS Feed State defines this document for publishers that cannot send a 301.

    A good reader treats a redirect document like a 301. A reader that does not support redirect documents must not
    treat the document as a feed without entries.
    """

    name = "xml-redirect"
    moves = True

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        if context.incoming.hops:
            return reply
        document = xml_redirect.make_document(context.incoming.moved_address(1))
        return replace_reply(reply, 200, [("Content-Type", "application/xml")], document)


FAULTS = (Redirect301, Redirect302, Redirect307, Redirect308, RedirectChain, RedirectLoop, XmlRedirect)
