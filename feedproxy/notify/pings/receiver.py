"""The receiver of pings by XML-RPC and HTTP GET.

The response is the same for known and unknown sites, so that it does not disclose which feeds are read.
"""

import html
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from msgspec.structs import replace

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http.message import Response
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.notify.client_rate_limit import TooManyRequests
from feedproxy.notify.endpoint_responses import generated_response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings import ping_messages
from feedproxy.notify.pings.ping_messages import InvalidCall, InvalidPing, Ping
from feedproxy.notify.topics import find_feeds, named_address
from feedproxy.request.context import ClientContext
from feedproxy.request.endpoint_registry import Call

THANKS = "Thanks for the ping."

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><style>:root{{color-scheme:light dark}}\
body{{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:4rem auto;padding:0 1rem}}\
p{{overflow-wrap:anywhere}}</style></head>
<body><main><h1>{title}</h1><p>{text}</p></main></body></html>
"""


class PingReceiver:
    """The handlers of pings by XML-RPC and HTTP GET."""

    def __init__(self, service: NotificationService) -> None:
        self._service = service

    async def simple(self, parameters: tuple[Any, ...], call: Call) -> dict[str, Any]:
        return await self._respond(ping_messages.parse_simple_ping, parameters, call)

    async def extended(self, parameters: tuple[Any, ...], call: Call) -> dict[str, Any]:
        return await self._respond(ping_messages.parse_extended_ping, parameters, call)

    async def page(self, call: Call) -> Response:
        """Answer `/pingSiteForm?name=…&url=…` with "an HTML human readable page" (RSS Feed State), and status 200, 400,
        429 or 503."""
        try:
            query = parse_qs(call.query, keep_blank_values=True, max_num_fields=20)
        except ValueError:
            query = {}
        try:
            ping = ping_messages.ping_of(query.get("name", [""])[0], query.get("url", [""])[0])
            await self.accept(ping, call.client)
        except TooManyRequests as error:
            return _page(429, "Too many pings", str(error), ("Retry-After", "60"))
        except InvalidPing as error:
            return _page(400, "Invalid ping", str(error))
        except FeedproxyError:
            return _page(503, "Please try again later", "the ping could not be recorded", ("Retry-After", "60"))
        return _page(
            200,
            THANKS,
            f"It reports that {ping.name or ping.url} has changed. If it is read here, it will be fetched soon",
        )

    async def accept(self, ping: Ping, client: ClientContext) -> None:
        """Enqueue the refreshes that a ping requests. Raises TooManyRequests if the client exceeds `source_limit`, and
        StoreError if the database fails."""
        refresh_requests, settings, source = self._service.refresh_requests, self._service.settings(), client.address
        ping = replace(ping, url=self._resolve(ping.url, client), feed=self._resolve(ping.feed, client))
        targets = await find_feeds(self._service, ping.feed) if ping.feed else []
        if not targets:
            targets = await find_feeds(self._service, *ping.addresses())
        await refresh_requests.accept_ping(targets, source)
        # A URL with a secret is not recorded.
        if targets or settings.ping_unknown == "ignore" or has_secret(ping.url):
            return
        await refresh_requests.record_unknown_site(ping.url, ping.name)
        if settings.ping_unknown == "fetch":
            await refresh_requests.enqueue_unknown(ping.feed or ping.url)

    def _resolve(self, address: str, client: ClientContext) -> str:
        try:
            return named_address(self._service, address, client.base) if address else ""
        except BadTarget:
            return address

    async def _respond(self, read: Any, parameters: tuple[Any, ...], call: Call) -> dict[str, Any]:
        """Accept a ping. Return the struct of the response, in which "flerror is a boolean … the message describes the
        success or failure" (RSS Feed State)."""
        reason = await self.accept_or_refuse(lambda: read(parameters), call.client)
        return {"flerror": bool(reason), "message": reason or THANKS}

    async def accept_or_refuse(self, read: Callable[[], Ping], client: ClientContext) -> str:
        """Accept or refuse the ping that `read` returns. Return the reason of a refusal, or "" for an accepted ping.
        Raises InvalidCall if `read` raises it."""
        try:
            await self.accept(read(), client)
        except InvalidCall:
            raise
        except (InvalidPing, TooManyRequests) as error:
            return str(error)
        except FeedproxyError:
            return "the ping could not be recorded; please try again later"
        return ""


def _page(status: int, title: str, text: str, *extra_fields: tuple[str, str]) -> Response:
    text = text[:1].upper() + text[1:] + "."
    body = PAGE.format(title=html.escape(title), text=html.escape(text)).encode()
    policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
    return generated_response(
        status, "text/html; charset=utf-8", body, ("Content-Security-Policy", policy), *extra_fields
    )
