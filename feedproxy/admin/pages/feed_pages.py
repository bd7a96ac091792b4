"""Pages about feeds, as HTML, or as JSON for clients that prefer JSON."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from msgspec import Struct

from feedproxy.admin.html_or_json import as_json, wants_json
from feedproxy.admin.pages import activity_views
from feedproxy.admin.pages.feed_state import MEANING, FeedState
from feedproxy.admin.pages.feed_table import FeedTable, FeedTableCache
from feedproxy.admin.pages.resource_views import feed_view, version_views, view_resource
from feedproxy.app import App
from feedproxy.errors import FeedproxyError, NotFound
from feedproxy.lru_map import LRU
from feedproxy.proxy.service import Service
from feedproxy.request.feed_id import feed_id
from feedproxy.request.upstream_and_public_urls import public_name
from feedproxy.telemetry import recent_activity
from feedproxy.telemetry.page_redaction import View
from feedproxy.web import templates

PER_PAGE = 50
"""Number of feeds on a page of the list, if the query has no `per_page`."""
PER_PAGE_MAX = 1000
"""Largest value of the parameter `per_page`."""

NOTICES_MAX = 64
"""At most this many outcomes of actions are kept. An outcome is kept until the page to which its action redirects has
shown it."""

_ORDER = {str(state): number for number, state in enumerate(FeedState)}

SORTS: Mapping[str, tuple[str, Callable[[View], Any]]] = {
    "subscribers": ("Subscribers", lambda row: -row["subscribers"]),
    "title": ("Title", lambda row: row["title"].casefold()),
    "state": ("State", lambda row: _ORDER[row["state"]]),
    "next": ("Next fetch", lambda row: row["next_fetch"]["at"] or ""),
    "fetched": ("Fetched", lambda row: row["fetched"] or ""),
}


class StoreClosed(FeedproxyError, status=503, detail="drain"):
    """Error for requests while the proxy is closing its store."""


class Notice(Struct, frozen=True):
    """The outcome of an action in words, for the page to which the action redirects."""

    ok: bool
    text: str


class ActionOutcome(Struct, frozen=True):
    """The outcome of an action. A client that prefers JSON gets `view`. Any other client gets a redirect to the page at
    `path`, which shows the notice (html_or_json.py)."""

    view: View
    notice: Notice
    path: str
    status: int = 200
    """Status of the JSON response."""


class FeedPages:
    """The handlers of GET requests for pages about feeds, and functions that other handlers call."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.feed_table = FeedTableCache()
        app.events.refresh_ended.subscribe(lambda event: self.feed_table.touch(event.target))
        app.events.updated_by_peer.subscribe(self.feed_table.touch)
        self._was_open = False
        self._notices: LRU[str, Notice] = LRU(entries_max=NOTICES_MAX)

    # -- pages, as HTML or JSON

    async def feeds(self, request: web.Request) -> web.Response:
        """Return the table of feeds. The parameters are `q` (a part of title or address), `state`, `sort`, `page` and
        `per_page`."""
        await self._app.peer_reports()
        table = await self.table()
        query, state = request.query.get("q", "").strip(), request.query.get("state", "")
        sort = request.query.get("sort", "subscribers")
        sort = sort if sort in SORTS else "subscribers"
        matching_rows, states = await asyncio.to_thread(_find_rows, table.rows, query, state, sort)
        per_page = _parse_count(request.query.get("per_page"), PER_PAGE, PER_PAGE_MAX)
        count = max(1, -(-len(matching_rows) // per_page))
        number = _parse_count(request.query.get("page"), 1, count)
        rows = matching_rows[(number - 1) * per_page : number * per_page]
        if wants_json(request):
            decided = self.operator_decisions()
            return as_json(
                {"total": len(matching_rows), "page": number, "pages": count, "feeds": rows, "decided": decided}
            )

        def link(**changes: Any) -> str:
            parameters = {"q": query, "state": state, "sort": sort, "per_page": per_page, "page": 1} | changes
            defaults = {"q": "", "state": "", "sort": "subscribers", "per_page": PER_PAGE, "page": 1}
            return "/feeds?" + urlencode({name: value for name, value in parameters.items() if value != defaults[name]})

        return self.page(
            request,
            "feeds.html",
            as_of=table.at,
            rows=rows,
            decided=self.operator_decisions(),
            total=len(matching_rows),
            held=len(table.rows),
            complete=table.complete,
            states=states,
            meaning=MEANING,
            sorts={name: title for name, (title, _) in SORTS.items()},
            query=query,
            state=state,
            sort=sort,
            page=number,
            pages=count,
            link=link,
        )

    async def feed(self, request: web.Request) -> web.Response:
        """Return the page of a feed. Raises NotFound if no feed has the id, or if its copy was removed."""
        await self._app.peer_reports()
        service, target = self.service(), await self.target(request.match_info["id"])
        await service.store.load(target)
        resource = service.store.get(target)
        if resource is None:
            raise NotFound("The copy of that feed was removed.")
        now = self._app.clock.now()
        resource_view = view_resource(resource, service, self._app.settings_for(target), now)
        versions = await service.helper_pool.submit(partial(version_views, resource))
        peers = self._app.worker_peers
        peer_fetches = await peers.fetches(target) if peers is not None else ()
        fetches = recent_activity.merge_fetches([*self._app.recent_activity.fetches(target), *peer_fetches])
        view = {
            **feed_view(resource_view, service.counts.view(target, now)),
            "versions": versions,
            "fetches": [activity_views.fetch_view(fetch) for fetch in fetches],
        }
        if wants_json(request):
            return as_json(view)
        return self.page(request, "feed.html", feed=view, meaning=MEANING)

    async def asset(self, request: web.Request) -> web.Response:
        """Return the style sheet or script with this name, which contains a hash. Raises NotFound if no file has the
        name."""
        content = templates.asset(request.match_info["name"])
        if content is None:
            raise NotFound("This page does not exist.")
        media_type, body = content
        answer = web.Response(body=body, headers={"Content-Type": media_type, "Cache-Control": "max-age=31536000"})
        answer.enable_compression()
        return answer

    async def icon(self, _: web.Request) -> web.Response:
        """Return the favicon, which browsers request without a link in the page."""
        return web.Response(text=templates.ICON, content_type="image/svg+xml")

    # -- for other handlers

    def service(self) -> Service:
        """Return the service. Raises StoreClosed if the store was open and is closed, because a page must not open it
        again."""
        if self._was_open and not self._app.is_open:
            raise StoreClosed("The proxy is shutting down.")
        service = self._app.service
        self._was_open = True
        return service

    async def table(self) -> FeedTable:
        """Return the table of all feeds."""
        return await self.feed_table.table(self.service(), self._app.settings_for, self._app.clock.now())

    def operator_decisions(self) -> list[View]:
        """Return the feeds that the operator has paused or blocked."""
        settings = self._app.settings
        return [
            {"id": feed_id(target), **public_name(target, settings), "decision": str(decision)}
            for target, decision in self._app.parts.decisions.list_all()
        ]

    async def target(self, identifier: str) -> str:
        """Return the target with this id. Raises NotFound if no target has the id."""
        target = self.feed_table.target_of(identifier)
        if target is None:
            await self.table()
            target = self.feed_table.target_of(identifier)
        if target is None:
            decided = (target for target, _ in self._app.parts.decisions.list_all())
            target = next((target for target in decided if feed_id(target) == identifier), None)
        if target is None:
            raise NotFound("No feed has that id.")
        return target

    def answer(self, request: web.Request, outcome: ActionOutcome) -> web.Response:
        """Return the response to an action: JSON, or a redirect to the page that shows the notice."""
        if wants_json(request):
            return as_json(outcome.view, outcome.status)
        token = secrets.token_urlsafe(8)
        self._notices.put(token, outcome.notice)
        return web.Response(status=303, headers={"Location": f"{outcome.path}?done={token}"})

    def page(self, request: web.Request, template: str, **values: Any) -> web.Response:
        """Return a page from a template with these values, or a 304 if the client already has the page. If an action
        has redirected to the page, add the notice of the action."""
        now = self._app.clock.now()
        notice = self._notices.get(request.query.get("done", ""))
        shared = {"now": now, "as_of": now, "notice": notice, "path": request.path}
        body = templates.page(template, **(shared | values))
        tag = templates.page_entity_tag(body)
        if tag in [text.strip() for text in request.headers.get("If-None-Match", "").split(",")]:
            return web.Response(status=304, headers={"ETag": tag})
        answer = web.Response(body=body, headers={"Content-Type": templates.HTML, "ETag": tag})
        answer.enable_compression()
        return answer


def _find_rows(rows: Sequence[View], query: str, state: str, sort: str) -> tuple[list[View], dict[str, int]]:
    """Return the rows that match, sorted, and the number of rows in each state.

    A row matches if it is in `state`, and has the text `query` in its title or address. Empty arguments match all rows.
    The numbers ignore `state`.
    """
    part = query.casefold()
    matches = [
        row for row in rows if any(part in row.get(name, "").casefold() for name in ("title", "target", "upstream"))
    ]
    rows_in_state = [row for row in matches if not state or row["state"] == state]
    rows_in_state.sort(key=lambda row: (SORTS[sort][1](row), -row["subscribers"], row["title"].casefold()))
    return rows_in_state, by_state(matches)


def by_state(rows: Sequence[View]) -> dict[str, int]:
    """Return the number of rows in each state."""
    counts = dict.fromkeys((str(state) for state in FeedState), 0)
    for row in rows:
        counts[row["state"]] += 1
    return counts


def _parse_count(text: str | None, default: int, largest: int) -> int:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 9:
        return min(default, largest)
    return max(1, min(int(text), largest))
