"""Faults that replace the response: challenges, rate limits, errors, and the end of a feed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from feedproxy.errors import UsageError
from feedproxy.feed import xml_redirect
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields
from feedproxy.lab.replay.faults.base import Fault, FaultContext
from feedproxy.lab.replay.replay_response import ReplayRequest, ReplayResponse

CHALLENGE = b"""<!DOCTYPE html>
<html lang="en"><head><title>One moment</title><meta name="robots" content="noindex"></head>
<body><h1>Checking that you are human</h1><noscript>Please switch on JavaScript.</noscript>
<script>window._cf_chl_opt = {};</script></body></html>
"""


def _replace_reply(
    reply: ReplayResponse, status: int, reason: str, lines: Sequence[tuple[str, str]] = (), body: bytes = b""
) -> ReplayResponse:
    """Return another response in place of this one; only its Date is kept."""
    date = [("Date", value)] if (value := reply.fields.get("date")) else []
    return replace(reply, status=status, fields=Fields([*date, *lines]), body=body, reason=reason)


class Challenge(Fault):
    """A page that wants to know whether a browser is asking, with 403, in the place of the feed. The value is another
    status: 200, 202 and 503 are met, too.

    A good reader keeps what it has, tells its user after some days, and asks less often meanwhile. It does not show
    the page as an entry, and does not pretend to be a browser.
    """

    name = "challenge"
    default = "403"

    def check(self) -> None:
        if not (self.value.isascii() and self.value.isdigit() and 200 <= int(self.value) <= 599):
            raise UsageError(f"--fault {self.name}={self.value}: expected a status such as 403")

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        lines = [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Cf-Mitigated", "challenge"),
            ("Cache-Control", "no-store"),
        ]
        return _replace_reply(reply, int(self.value), "", lines, CHALLENGE)


class Empty429(Fault):
    """429, and nothing else: no body, no Retry-After.

    A good reader takes it for a word about its pace: it waits, longer each time, with some chance in it, and an hour
    at least.
    """

    name = "429"

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return _replace_reply(reply, 429, "Too Many Requests")


class _RetryAfter(Fault):
    status: ClassVar[int] = 429
    reason: ClassVar[str] = "Too Many Requests"

    def retry_after(self, context: FaultContext) -> str:
        return self.value

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        lines = [("Retry-After", self.retry_after(context)), ("Content-Type", "text/plain")]
        return _replace_reply(reply, self.status, self.reason, lines, b"Later, please.\n")


class RetryAfterSeconds(_RetryAfter):
    """429 with Retry-After in seconds (default: two hours).

    A good reader does not ask again before that time is over (RFC 9110, section 10.2.3), for any of the site's feeds
    if it can, and asks after it as if nothing had been.
    """

    name = "retry-after-seconds"
    default = "7200"

    def check(self) -> None:
        self.number(0)


class RetryAfterDate(_RetryAfter):
    """503 with Retry-After as a date, so many seconds from now (default: two hours).

    A good reader knows both forms (RFC 9110, section 10.2.3), and measures the time from the answer's Date where its
    own clock differs.
    """

    name = "retry-after-date"
    default = "7200"
    status = 503
    reason = "Service Unavailable"

    def check(self) -> None:
        self.number(0)

    def retry_after(self, context: FaultContext) -> str:
        return format_http_date(context.now + self.number())


class RetryAfterNegative(_RetryAfter):
    """429 with a Retry-After below zero, which is no number of seconds.

    A good reader takes it as absent: it waits as after an empty 429, and does not ask at once, or for ever.
    """

    name = "retry-after-negative"
    default = "-60"

    def check(self) -> None:
        if self.number() >= 0:
            raise UsageError(f"--fault {self.name}={self.value}: expected a number below zero")


class RetryAfterHuge(_RetryAfter):
    """429 with a Retry-After of ten years.

    A good reader obeys within reason: it asks again after some days at the latest, and does not lose the feed to
    a mistake of its server.
    """

    name = "retry-after-huge"
    default = "315360000"

    def check(self) -> None:
        self.number(0)


class Error500(Fault):
    """500 with a page, for an hour from the beginning; `500@2h..3h` selects another period.

    A good reader keeps what it has and goes on at its usual pace, or slower: it neither hammers nor unsubscribes.
    """

    name = "500"
    when = "0s..1h"

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        page = b"<!DOCTYPE html><title>500</title><h1>Internal Server Error</h1>\n"
        return _replace_reply(reply, 500, "Internal Server Error", [("Content-Type", "text/html")], page)


class Gone(Fault):
    """410: the feed has ended.

    A good reader tells its user and stops asking; it may look again after weeks, in case it was a mistake.
    """

    name = "410"

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return _replace_reply(reply, 410, "Gone", [("Content-Type", "text/plain")], b"This feed has ended.\n")


class XmlGone(Fault):
    """200 with a redirect document that has no new address: RSS Feed State's way to say 410.

    A good reader stops asking. One that does not know the document must at least not take it for a feed without
    entries.
    """

    name = "xml-gone"

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        return _replace_reply(reply, 200, "OK", [("Content-Type", "application/xml")], xml_redirect.make_document(None))


FAULTS = (
    *(Challenge, Empty429, RetryAfterSeconds, RetryAfterDate, RetryAfterNegative, RetryAfterHuge),
    *(Error500, Gone, XmlGone),
)
