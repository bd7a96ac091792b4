"""Faults of the connection: late or incomplete responses."""

from msgspec.structs import replace

from feedproxy.http.coding.content_coding import encode
from feedproxy.lab.replay.faults.fault import Fault, FaultContext, NumberFault
from feedproxy.lab.replay.replay_response import ReplayResponse
from feedproxy.lab.replay.timeline import Version


class SlowFirstByte(NumberFault):
    """The server sends the first byte late. The fault's value is the delay in seconds of real time (default: 3).

    A good reader waits about half a minute and polls its other feeds meanwhile.
    """

    name = "slow-first-byte"
    default = "3"
    least = 0

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        return replace(reply, pause=reply.pause + self.number)


class SlowBody(NumberFault):
    """The server sends the head at once and the content slowly. The fault's value is the time for the content, in
    seconds of real time (default: 3).

    A good reader has a deadline for the whole response, not only between two bytes, and discards a response that is
    incomplete at the deadline.
    """

    name = "slow-body"
    default = "3"
    least = 0

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        return replace(reply, spread=reply.spread + self.number)


class Reset(Fault):
    """The connection is reset after half of the content, or after the head if there is no content.

    A good reader discards the incomplete feed. It keeps its copy with the old validators and polls again at the usual
    time.
    """

    name = "reset"

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        return replace(reply, reset=True)


class TruncatedGzip(Fault):
    """The gzip data is truncated, but Content-Length matches. Only clients that accept gzip get this response.

    A typical cause is a program that ended while it compressed, behind a server that did not notice.

    A good reader treats the missing end as a failure. It keeps neither the decoded part nor the validators.
    """

    name = "truncated-gzip"

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        coding = reply.fields.get("content-encoding") or ""
        takes = "gzip" in (context.incoming.request.fields.combined("accept-encoding") or "").lower()
        if reply.status != 200 or not reply.body or not takes or coding not in ("", "gzip"):
            return reply
        packed = reply.body if coding else encode(reply.body, "gzip", 6)
        return replace(reply, body=packed[: len(packed) // 2]).with_field("Content-Encoding", "gzip")


class WrongLength(NumberFault):
    """Content-Length is larger than the content, and the server closes the connection after the content.

    The fault's value is the difference in bytes (default: 100). If the value is negative, Content-Length is smaller
    than the content, and the server also sends the bytes beyond Content-Length.

    A good reader treats a Content-Length that is too large as a failure (RFC 9112, section 8). If Content-Length is too
    small, the reader never takes the surplus bytes for the answer to its next request.
    """

    name = "wrong-length"
    default = "100"

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        return replace(reply, surplus=max(int(self.number), -len(reply.body))) if reply.body else reply


class Endless(NumberFault):
    """The response has no Content-Length and does not end. After the content, the server sends blanks, as fast as the
    client reads them.

    The fault's value is the number of megabytes after which the server resets the connection (default: 64, at least
    32).

    A good reader limits the size of a feed, to some megabytes. At the limit it closes the connection, and treats the
    response as a failure. It keeps neither the content nor the validators.
    """

    name = "endless"
    default = "64"
    least = 32

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        # Blanks after the end of gzip data would be an error. A recorded wrong Content-Encoding remains.
        return representation if representation.raw else replace(representation, coded=())

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        return replace(reply, blanks=int(self.number * 1_000_000)) if reply.body else reply


FAULTS = (SlowFirstByte, SlowBody, Reset, TruncatedGzip, WrongLength, Endless)
