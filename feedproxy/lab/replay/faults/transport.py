"""Faults of the connection: late or incomplete responses."""

from dataclasses import replace

from feedproxy.http.content_coding import encode
from feedproxy.lab.replay.faults.base import Fault, FaultContext
from feedproxy.lab.replay.replay_response import ReplayRequest, ReplayResponse


class SlowFirstByte(Fault):
    """The server thinks for so many seconds before it says a word (default: 3; of the machine's own time).

    A good reader waits, half a minute say, without holding up its other feeds.
    """

    name = "slow-first-byte"
    default = "3"

    def check(self) -> None:
        self.number(0)

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return replace(reply, pause=reply.pause + self.number())


class SlowBody(Fault):
    """The head comes at once, and the body trickles for so many seconds (default: 3; of the machine's own time).

    A good reader has a deadline for the whole, not only between two bytes, and drops what is not complete by then.
    """

    name = "slow-body"
    default = "3"

    def check(self) -> None:
        self.number(0)

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return replace(reply, spread=reply.spread + self.number())


class Reset(Fault):
    """The connection is reset when half of the body is sent; where there is none, after the head.

    A good reader takes no half feed for a whole one: it keeps what it had, with the old validators, and tries again
    at its usual time.
    """

    name = "reset"

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return replace(reply, reset=True)


class TruncatedGzip(Fault):
    """gzip that ends before its end, in an answer that is whole otherwise: Content-Length fits. Only clients
    that accept gzip get it.

    A program that died while it compressed, behind a server that did not notice.

    A good reader takes the missing end for a failure, and does not keep what could be unpacked, nor the validators.
    """

    name = "truncated-gzip"

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        coding = reply.fields.get("content-encoding") or ""
        takes = "gzip" in (incoming.request.fields.combined("accept-encoding") or "").lower()
        if reply.status != 200 or not reply.body or not takes or coding not in ("", "gzip"):
            return reply
        packed = reply.body if coding else encode(reply.body, "gzip", 6)
        return replace(reply, body=packed[: len(packed) // 2]).with_field("Content-Encoding", "gzip")


class WrongLength(Fault):
    """Content-Length promises so many bytes more than come (default: 100), and the connection is closed; below zero
    it promises less, and the rest follows unasked.

    A good reader takes the first for a failure (RFC 9112, section 8), and in the second case never reads the surplus
    as the answer to its next request.
    """

    name = "wrong-length"
    default = "100"

    def check(self) -> None:
        self.number()

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return replace(reply, surplus=max(int(self.number()), -len(reply.body))) if reply.body else reply


FAULTS = (SlowFirstByte, SlowBody, Reset, TruncatedGzip, WrongLength)
