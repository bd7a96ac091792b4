"""The page of feeds that have moved or ended, with advice."""

from aiohttp import web

from feedproxy.admin.html_or_json import as_json, wants_json
from feedproxy.admin.pages.feed_pages import FeedPages
from feedproxy.admin.pages.feed_state import FeedState

SHOWN_MAX = 500
"""Maximum number of feeds on the page."""


async def show_moves(request: web.Request, pages: FeedPages) -> web.Response:
    """Return the feeds that have moved or ended, and after them those with an unconfirmed move or end. In both groups,
    the feeds with the most subscribers come first."""
    table = await pages.table()
    rows = [row for row in table.rows if row["sighting"] or row["state"] in (FeedState.MOVED, FeedState.GONE)]
    rows.sort(
        key=lambda row: (
            row["state"] not in (FeedState.MOVED, FeedState.GONE),
            -row["subscribers"],
            row["title"].casefold(),
        )
    )
    if wants_json(request):
        return as_json({"total": len(rows), "feeds": rows})
    confirmed = [row for row in rows if row["state"] in (FeedState.MOVED, FeedState.GONE)]
    return pages.page(
        request,
        "moves.html",
        as_of=table.at,
        rows=rows[:SHOWN_MAX],
        total=len(rows),
        confirmed=len(confirmed),
        subscribers=sum(row["subscribers"] for row in confirmed),
    )
