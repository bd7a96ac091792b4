"""Feeds that have moved or ended, those of which it is only said so far included, and what to do about each."""

from aiohttp import web

from feedproxy.admin.feed_pages import FeedPages, as_json, wants_json
from feedproxy.admin.feed_state import State

SHOWN_MAX = 500


class RelocationsPage:
    """The handler of `/moves`."""

    def __init__(self, answers: FeedPages) -> None:
        self._pages = answers

    async def show(self, request: web.Request) -> web.Response:
        """All of them, those with the most subscribers first."""
        roll = await self._pages.roll()
        found = [row for row in roll.rows if row["sighting"] or row["state"] in (State.MOVED, State.GONE)]
        found.sort(
            key=lambda row: (
                row["state"] not in (State.MOVED, State.GONE),
                -row["subscribers"],
                row["title"].casefold(),
            )
        )
        if wants_json(request):
            return as_json({"total": len(found), "feeds": found})
        believed = [row for row in found if row["state"] in (State.MOVED, State.GONE)]
        return self._pages.page(
            request,
            "moves.html",
            as_of=roll.at,
            rows=found[:SHOWN_MAX],
            total=len(found),
            believed=len(believed),
            subscribers=sum(row["subscribers"] for row in believed),
        )
