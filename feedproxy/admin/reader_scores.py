"""For the publisher: who polls how, who is worst, and what it costs; of the readers that are followed.

Each process follows its own (scoring/live_scores.py); of several all are shown, and what they know of one is added up.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from feedproxy.admin.feed_pages import AppView, FeedPages, as_json, wants_json
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.feed.channel import Schedule
from feedproxy.http.message import Fields
from feedproxy.lab.score_page import grade_level, with_code
from feedproxy.scoring import report
from feedproxy.scoring.aggregate import merge_accounts
from feedproxy.scoring.grade import ReaderScore, rank, score_account
from feedproxy.scoring.rules import redact_target
from feedproxy.scoring.scored_request import Content, Poll

SHOWN_MAX = 200
COUNTED_MAX = 40


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Scores, the worst first; how many are followed, for whatever they have asked, and how many may be."""

    scores: list[ReaderScore]
    followed: int
    most: int


class ReaderScores:
    """The readers that all workers follow, judged once for each reader."""

    def __init__(self, app: AppView) -> None:
        self._app = app
        self._last: tuple[Instant, ScoreSummary] | None = None

    async def look(self, *, age_max: Seconds = 0) -> ScoreSummary:
        """What they have come to by now, or by so many seconds ago. Who waits for an answer is served meanwhile."""
        now = self._app.clock.now()
        if self._last is not None and 0 <= now - self._last[0] < age_max:
            return self._last[1]
        others = await self._app.peer_metrics.readers()
        scores = []
        for account in merge_accounts([*self._app.live_scores.accounts(), *others]):
            scores.append(score_account(account, now))
            await asyncio.sleep(0)
        judged = ScoreSummary(rank(scores), len(scores), self._app.live_scores.size * self._app.workers)
        self._last = (now, judged)
        return judged


class ReadersPage:
    """The handlers of `/readers`."""

    def __init__(self, judges: ReaderScores, clock: Clock, answers: FeedPages) -> None:
        self._judges = judges
        self._clock = clock
        self._pages = answers

    async def show(self, request: web.Request) -> web.Response:
        """The readers followed, the worst first."""
        await self._pages.others()
        judged = await self._judges.look()
        scores = judged.scores[:SHOWN_MAX]
        counted = await self._pages.service().counts.by_reader(self._clock.now())
        if wants_json(request):
            view = report.view(scores)
            told = [{"reader": name, "direct": direct, "claimed": claimed} for name, direct, claimed in counted]
            more = {"followed": judged.followed, "most": judged.most, "total": _total(scores), "subscriptions": told}
            return as_json({**view, **more})
        readers = [
            {
                "name": report.display_name(each),
                "level": grade_level(each.grade),
                "score": each,
                "feeds": [redact_target(feed.feed) for feed in each.feeds[:3]],
            }
            for each in scores
        ]
        return self._pages.page(
            request,
            "readers.html",
            readers=readers,
            judged=judged,
            marked=with_code,
            total=_total(scores),
            counted=counted[:COUNTED_MAX],
            more_counted=max(0, len(counted) - COUNTED_MAX),
        )


def poll_of(
    number: int,
    at: Instant,
    target: str,
    asked: Fields,
    status: int,
    answer: Fields,
    schedule: Schedule | None,
    size: int,
    *,
    method: str = "GET",
    version: str = "HTTP/1.1",
    connection: str = "",
    entrance: str = "",
    public: str = "",
) -> Poll:
    """An answer as the score wants it; `schedule` is what is known of the feed's, None where it is no feed."""
    content = Content(is_feed=True, schedule=schedule) if schedule is not None else None
    told = content if status in (200, 226, 304) else None
    return Poll(
        number,
        at,
        target,
        asked,
        status,
        answer,
        told,
        method,
        version,
        connection,
        size,
        entrance=entrance,
        public=public if public != target else "",
    )


def _total(scores: Iterable[ReaderScore]) -> dict[str, Any]:
    costs = [each.cost for each in scores]
    return {
        "requests": sum(each.requests for each in costs),
        "bytes": sum(each.size for each in costs),
        "bytes_in_vain": sum(each.redundant for each in costs),
        "not_modified": sum(each.unchanged for each in costs),
    }
