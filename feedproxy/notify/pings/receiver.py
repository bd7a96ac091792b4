"""The receiver of pings by XML-RPC and HTTP GET.

The response is the same for known and unknown sites: it must not disclose which feeds are read here.
"""

import html
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http.message import Fields, Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings import messages
from feedproxy.notify.pings.messages import InvalidCall, InvalidPing, Ping
from feedproxy.notify.refresh_requests import TooManyRequests
from feedproxy.notify.topics import named_address
from feedproxy.request.endpoints import Call
from feedproxy.request.entrance import ClientContext

THANKS = "Thanks for the ping."

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><style>:root{{color-scheme:light dark}}\
body{{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:4rem auto;padding:0 1rem}}\
p{{overflow-wrap:anywhere}}</style></head>
<body><h1>{title}</h1><p>{words}</p></body></html>
"""


class PingReceiver:
    """Accepts pings and answers them."""

    def __init__(self, service: NotificationService) -> None:
        self._service = service

    async def simple(self, parameters: tuple[Any, ...], call: Call) -> dict[str, Any]:
        """Answer weblogUpdates.ping."""
        return await self._respond(messages.simple, parameters, call)

    async def extended(self, parameters: tuple[Any, ...], call: Call) -> dict[str, Any]:
        """Answer weblogUpdates.extendedPing."""
        return await self._respond(messages.extended, parameters, call)

    async def page(self, call: Call) -> Response:
        """Answer `/pingSiteForm?name=…&url=…` with "an HTML human readable page". Errors have their status."""
        try:
            given = parse_qs(call.query, keep_blank_values=True, max_num_fields=20)
        except ValueError:
            given = {}
        try:
            heard = messages.ping_of(given.get("name", [""])[0], given.get("url", [""])[0])
            await self.accept(heard, call.client)
        except TooManyRequests as error:
            return _page(429, "Too many pings", str(error), ("Retry-After", "60"))
        except InvalidPing as error:
            return _page(400, "Invalid ping", str(error))
        except FeedproxyError:
            return _page(503, "Please try again later", "the ping could not be recorded", ("Retry-After", "60"))
        return _page(
            200,
            THANKS,
            f"It reports that {heard.name or heard.url} has changed. If it is read here, it will be fetched soon",
        )

    async def accept(self, heard: Ping, visit: ClientContext) -> None:
        """Enqueue the refreshes that a client's ping requests. Raises TooManyRequests, StoreError."""
        bell, settings, source = self._service.refresh_requests, self._service.settings(), visit.address
        heard = replace(heard, url=self._resolve(heard.url, visit), feed=self._resolve(heard.feed, visit))
        targets = await bell.find_feeds(heard.feed) if heard.feed else []
        if not targets:
            targets = await bell.find_feeds(*heard.addresses())
        await bell.accept_ping(targets, source)
        if targets or settings.ping_unknown == "ignore" or not heard.has_public_address():
            return
        await bell.record_unknown_site(heard.url, heard.name)
        if settings.ping_unknown == "fetch":
            await bell.enqueue_unknown(heard.feed or heard.url)

    def _resolve(self, address: str, visit: ClientContext) -> str:
        """Return the target of a gateway URL; other URLs are returned unchanged."""
        try:
            return named_address(self._service, address, visit.base) if address else ""
        except BadTarget:
            return address

    async def _respond(self, read: Any, parameters: tuple[Any, ...], call: Call) -> dict[str, Any]:
        """Return the struct of a response: "flerror is a boolean … the message describes the success or failure"."""
        try:
            await self.accept(read(parameters), call.client)
        except InvalidCall:
            raise
        except (InvalidPing, TooManyRequests) as error:
            return {"flerror": True, "message": str(error)}
        except FeedproxyError:
            return {"flerror": True, "message": "the ping could not be recorded; please try again later"}
        return {"flerror": False, "message": THANKS}


def _page(status: int, title: str, words: str, *extra: tuple[str, str]) -> Response:
    words = words[:1].upper() + words[1:]
    body = PAGE.format(title=html.escape(title), words=html.escape(words) + ".").encode()
    lines = [("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"), *extra]
    policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
    lines += [("Content-Security-Policy", policy), ("X-Content-Type-Options", "nosniff")]
    return Response(status, Fields([*lines, ("Content-Length", str(len(body)))]), body)
