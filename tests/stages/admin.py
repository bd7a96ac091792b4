"""A proxy without clients: an App with a manual clock, filled by the test, and its admin listener."""

from dataclasses import dataclass
from typing import Any

import aiohttp

from feedproxy.admin.admin_listener import AdminListener
from feedproxy.app import App
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields
from feedproxy.store.resource import Resource
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

NOW = 1_780_000_000.0
"""A Thursday, 20:26:40 GMT."""
TARGET = "https://example.com/feed.xml"


def a_resource(target: str = TARGET, *, minutes_ago: float = 10, max_age: int = 3600, **channel: Any) -> Resource:
    """Return a feed as it was stored some minutes ago."""
    got = NOW - 60 * minutes_ago
    said: dict[str, Any] = {
        "kind": Kind.RSS,
        "version": "2.0",
        "well_formed": True,
        "title": "Example",
        "items": 3,
    } | channel
    fields = Fields([("Date", format_http_date(got)), ("ETag", '"theirs"'), ("Cache-Control", f"max-age={max_age}")])
    content = Content(
        Bodies({"identity": b"x" * 900, "gzip": b"y" * 100}), "ours", "application/rss+xml", got - 3600, feed=True
    )
    stored = StoredResponse(target, 200, fields, content, got, got, own_agent=True)
    return Resource(target, (stored,), Channel(**said), fetched=got)


@dataclass
class Proxy:
    """The proxy, its admin listener and a client session."""

    app: App
    admin: AdminListener
    session: aiohttp.ClientSession

    async def keep(self, *resources: Resource) -> None:
        for resource in resources:
            await self.app.service.store.put(resource)

    def read(self, target: str, agent: str, times: int = 1) -> None:
        """Record reads of a feed by a number of different readers."""
        for number in range(times):
            pseudonym = Pseudonym(number + 1, number + 1_000_001)
            self.app.service.counts.record_read(target, pseudonym, agent, NOW)

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.admin.url + path, headers=_named(headers), allow_redirects=False) as answer:
            return answer.status, await answer.text()

    async def json(self, path: str) -> Any:
        async with self.session.get(self.admin.url + "/api" + path) as answer:
            return await answer.json()

    async def post(self, path: str, data: Any = None, **headers: str) -> tuple[int, Any, str]:
        """Send a POST; return the status, the JSON (or None) and Location."""
        url = self.admin.url + path
        async with self.session.post(url, data=data, headers=_named(headers), allow_redirects=False) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await answer.json() if is_json else None, answer.headers.get("Location", "")


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
