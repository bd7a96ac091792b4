"""Scores of tracked readers: how the readers poll, and the traffic of their polls.

Each worker tracks readers separately (scoring/live_scores.py). The page adds up the requests and bytes of all workers.
"""

import asyncio

from aiohttp import web
from msgspec import Struct

from feedproxy.admin.html_or_json import as_json, wants_json
from feedproxy.admin.pages.feed_pages import FeedPages
from feedproxy.app import App
from feedproxy.clock import Instant, Seconds
from feedproxy.scoring import score_report
from feedproxy.scoring.grade import ReaderScore, rank, score_account
from feedproxy.scoring.reader_accounts import merge_accounts, sum_costs
from feedproxy.scoring.rule_weights import short_target

SHOWN_MAX = 200
"""Maximum number of scores on the page."""
COUNTED_MAX = 40
"""The page lists at most this many readers with their numbers of subscriptions."""


class ScoreSummary(Struct, frozen=True):
    """Scores, the lowest grade first. `followed` is the number of tracked readers, and `limit` the maximum of this
    number."""

    scores: list[ReaderScore]
    followed: int
    limit: int


class ReaderScores:
    """The scores of readers, from the records of all workers, and the handler of `/readers`."""

    def __init__(self, app: App, pages: FeedPages) -> None:
        self._app = app
        self._pages = pages
        self._last: tuple[Instant, ScoreSummary] | None = None

    async def summary(self, *, age_max: Seconds = 0) -> ScoreSummary:
        """Return the scores. Scores that were computed less than `age_max` seconds ago are reused. The event loop
        serves clients during the computation."""
        now = self._app.clock.now()
        if self._last is not None and 0 <= now - self._last[0] < age_max:
            return self._last[1]
        peers = self._app.worker_peers
        peer_accounts = await peers.readers() if peers is not None else ()
        scores = []
        for account in merge_accounts([*self._app.live_scores.accounts(), *peer_accounts]):
            scores.append(score_account(account, now))
            await asyncio.sleep(0)
        summary = ScoreSummary(rank(scores), len(scores), self._app.live_scores.size * self._app.workers)
        self._last = (now, summary)
        return summary

    async def show(self, request: web.Request) -> web.Response:
        """Return the scores of the tracked readers, the lowest grade first."""
        await self._app.peer_reports()
        summary = await self.summary()
        scores = summary.scores[:SHOWN_MAX]
        total = score_report.cost_view(sum_costs(score.cost for score in scores))
        counted = await self._pages.service().counts.by_reader(self._app.clock.now())
        if wants_json(request):
            view = score_report.view(scores)
            counts = [{"reader": name, "direct": direct, "claimed": claimed} for name, direct, claimed in counted]
            view |= {"followed": summary.followed, "most": summary.limit}
            return as_json({**view, "total": total, "subscriptions": counts})
        readers = [
            {
                "name": score_report.display_name(score),
                "score": score,
                "feeds": [short_target(feed.feed) for feed in score.feeds[:3]],
            }
            for score in scores
        ]
        return self._pages.page(
            request,
            "readers.html",
            readers=readers,
            summary=summary,
            total=total,
            counted=counted[:COUNTED_MAX],
            more_counted=max(0, len(counted) - COUNTED_MAX),
        )
