"""Faults that replace the response: challenges, rate limits, errors, and the end of a feed."""

from typing import ClassVar

from feedproxy.errors import UsageError
from feedproxy.feed import xml_redirect
from feedproxy.http.date import format_http_date
from feedproxy.lab.replay.faults.fault import Fault, FaultContext, NumberFault, replace_reply
from feedproxy.lab.replay.replay_response import ReplayResponse

CHALLENGE = b"""<!DOCTYPE html>
<html lang="en"><head><title>One moment</title><meta name="robots" content="noindex"></head>
<body><h1>Checking that you are human</h1><noscript>Please switch on JavaScript.</noscript>
<script>window._cf_chl_opt = {};</script></body></html>
"""


class ChallengePage(Fault):
    """The response is a page that tests for a browser, with status 403.

    The value in `challenge=VALUE` is another status. Servers also use 200, 202 and 503 for such pages.

    A good reader keeps its copy, tells its user after some days, and polls less often. It does not show the page as an
    item, and does not imitate a browser.
    """

    name = "challenge"
    default = "403"

    def check(self) -> None:
        if not (self.value.isascii() and self.value.isdigit() and 200 <= int(self.value) <= 599):
            raise UsageError(f"--fault {self.name}={self.value}: expected a status such as 403")

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        lines = [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Cf-Mitigated", "challenge"),
            ("Cache-Control", "no-store"),
        ]
        return replace_reply(reply, int(self.value), lines, CHALLENGE)


class _FixedResponse(Fault):
    status: ClassVar[int]
    media_type: ClassVar[str] = "text/plain"
    content: ClassVar[bytes] = b""

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        lines = [("Content-Type", self.media_type)] if self.content else []
        return replace_reply(reply, self.status, lines, self.content)


class Empty429(_FixedResponse):
    """The response is 429 without content and without Retry-After.

    A good reader slows down: it waits for an hour or more, longer after each 429, with a random part.
    """

    name = "429"
    status = 429


class _RetryAfter(NumberFault):
    status: ClassVar[int] = 429

    def retry_after(self, context: FaultContext) -> str:
        return self.value

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        lines = [("Retry-After", self.retry_after(context)), ("Content-Type", "text/plain")]
        return replace_reply(reply, self.status, lines, b"Later, please.\n")


class RetryAfterSeconds(_RetryAfter):
    """The response is 429 with Retry-After in seconds. The fault's value is this number (default: two hours).

    A good reader does not poll before the time in Retry-After has passed (RFC 9110, section 10.2.3). If possible, it
    polls none of the site's feeds until then. Afterwards it polls as before.
    """

    name = "retry-after-seconds"
    default = "7200"
    least = 0


class RetryAfterDate(_RetryAfter):
    """The response is 503 with a date in Retry-After. The fault's value is the time until this date, in seconds
    (default: two hours).

    A good reader supports both forms of Retry-After (RFC 9110, section 10.2.3). If its clock differs from the server's,
    it measures the time from Date.
    """

    name = "retry-after-date"
    default = "7200"
    least = 0
    status = 503

    def retry_after(self, context: FaultContext) -> str:
        return format_http_date(context.incoming.at + self.number)


class RetryAfterNegative(_RetryAfter):
    """The response is 429 with a negative Retry-After, which is invalid.

    A good reader ignores a negative Retry-After. It waits for an hour or more, as after a 429 without Retry-After.
    """

    name = "retry-after-negative"
    default = "-60"

    def check(self) -> None:
        super().check()
        if self.number >= 0:
            raise UsageError(f"--fault {self.name}={self.value}: expected a negative number")


class RetryAfterHuge(_RetryAfter):
    """The response is 429 with Retry-After of ten years.

    A good reader limits the wait to some days, so that a mistake of the server does not end the subscription.
    """

    name = "retry-after-huge"
    default = "315360000"
    least = 0


class Error500(_FixedResponse):
    """The response is 500 with a page, for the first hour of the replay. `500@2h..3h` selects another period.

    A good reader keeps its copy and polls at its usual interval or less often. It neither repeats the request at once
    nor ends the subscription.
    """

    name = "500"
    when = "0s..1h"
    status = 500
    media_type = "text/html"
    content = b"<!DOCTYPE html><title>500</title><h1>Internal Server Error</h1>\n"


class GoneResponse(_FixedResponse):
    """The response is 410: the feed has ended.

    A good reader tells its user and stops polling. It may check again after some weeks, in case the 410 was a mistake.
    """

    name = "410"
    status = 410
    content = b"This feed has ended.\n"


class XmlGone(_FixedResponse):
    """The response is 200 with an XML redirect document that names no address, which means 410 (RSS Feed State).

    A good reader stops polling. A reader that does not support redirect documents must not treat the document as a feed
    without entries.
    """

    name = "xml-gone"
    status = 200
    media_type = "application/xml"
    content = xml_redirect.make_document(None)


FAULTS = (
    *(ChallengePage, Empty429, RetryAfterSeconds, RetryAfterDate, RetryAfterNegative, RetryAfterHuge),
    *(Error500, GoneResponse, XmlGone),
)
