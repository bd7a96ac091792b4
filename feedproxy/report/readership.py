"""For the publisher: who polls how, who is worst, and what it costs; of the readers that are followed.

Each process follows its own (readers/score/panel.py).
"""

from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web

from feedproxy.clock import Clock, Instant
from feedproxy.feed.channel import Channel
from feedproxy.http.message import Fields
from feedproxy.readers.score.grade import ReaderScore
from feedproxy.readers.score.panel import Panel
from feedproxy.readers.score.poll import Content, Poll
from feedproxy.readers.score.rules import shown
from feedproxy.report import scored
from feedproxy.report.answers import Answers, as_json, wants_json
from feedproxy.report.scorepage import level_of, marked

SHOWN_MAX = 200
COUNTED_MAX = 40


class Readership:
    """The handlers of `/readers`."""

    def __init__(self, panel: Callable[[], Panel], clock: Clock, answers: Answers) -> None:
        self._panel = panel
        self._clock = clock
        self._answers = answers

    async def show(self, request: web.Request) -> web.Response:
        """The readers followed, the worst first."""
        await self._answers.others()
        panel = self._panel()
        scores = panel.scores(self._clock.now())[:SHOWN_MAX]
        counted = await self._answers.service().counts.by_reader(self._clock.now())
        if wants_json(request):
            view = scored.view(scores)
            told = [{"reader": name, "direct": direct, "claimed": claimed} for name, direct, claimed in counted]
            more = {"followed": len(panel), "most": panel.size, "total": _total(scores), "subscriptions": told}
            return as_json({**view, **more})
        readers = [
            {
                "name": scored.name_of(each),
                "level": level_of(each.grade),
                "score": each,
                "feeds": [shown(feed.feed) for feed in each.feeds[:3]],
            }
            for each in scores
        ]
        return self._answers.page(
            request,
            "readers.html",
            readers=readers,
            panel=panel,
            marked=marked,
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
    channel: Channel | None,
    size: int,
    *,
    method: str = "GET",
    version: str = "HTTP/1.1",
    connection: str = "",
    entrance: str = "",
    public: str = "",
) -> Poll:
    """An answer as the score wants it; what its content says is what is known of the resource."""
    content = Content(is_feed=True, schedule=channel.schedule) if channel is not None else None
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
        "bytes_in_vain": sum(each.spared for each in costs),
        "not_modified": sum(each.unchanged for each in costs),
    }
