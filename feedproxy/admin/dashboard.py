"""The first page: what an operator asks in the first minute, answered.

Is it well? What did it save? What needs attention? Who reads? And what is this that runs here.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from aiohttp import web

from feedproxy import __version__
from feedproxy.admin import activity_views, charts, health
from feedproxy.admin.feed_pages import SORTS, AppView, FeedPages, as_json, by_state, subscribers_of, wants_json
from feedproxy.admin.feed_state import State
from feedproxy.admin.feed_table import FeedTable
from feedproxy.admin.reader_scores import ReaderScores
from feedproxy.admin.store_usage import StoreUsageMeter
from feedproxy.clock import Seconds
from feedproxy.lab.score_page import grade_level
from feedproxy.request.upstream_request import feed_id
from feedproxy.scoring.report import display_name
from feedproxy.settings import Settings, listen_address
from feedproxy.telemetry import aggregation, history, recent_activity
from feedproxy.telemetry.history import DAY, HOUR, NO_TRAFFIC, History, TrafficCounts
from feedproxy.telemetry.redacted import View, redact_text
from feedproxy.web import templates

ATTENTION_MAX = 8
"""Feeds in trouble that the first page names; the table has all of them."""

POPULAR_MAX = 10
READERS_MAX = 8
READERS_KEPT: Seconds = 15
"""Readers are judged no more often for the first page, which looks again by itself every few seconds."""

TROUBLED_STATES = (State.FAILING, State.GONE, State.MOVED)


class Dashboard:
    """The handlers of `/` and of the history."""

    def __init__(self, app: AppView, answers: FeedPages, listening: Callable[[], bool], judges: ReaderScores) -> None:
        self._app = app
        self._pages = answers
        self._listening = listening
        self._judges = judges
        self._started = app.clock.now()
        self._surveyor = StoreUsageMeter()

    async def show(self, request: web.Request) -> web.Response:
        """The page, or the same as JSON."""
        others = await self._app.peer_metrics.families()
        roll, book = await self._pages.roll(), self.book()
        view = await self._view(roll, others, book)
        if wants_json(request):
            return as_json(view)
        now = self._app.clock.now()
        span = charts.find_span(request.query.get("span", ""))
        shown = charts.make_slots(book, span, now)
        judged = await self._judges.look(age_max=READERS_KEPT)
        troubled = await asyncio.to_thread(_troubled, roll.rows)
        return self._pages.page(
            request,
            "status.html",
            as_of=roll.at,
            status=view,
            gateway=_gateway(self._app.settings),
            span=span,
            spans=charts.SPANS,
            slots=shown,
            requests=charts.requests_chart(shown, span),
            traffic=charts.traffic_chart(shown, span),
            whole=sum((each.tally for each in shown), NO_TRAFFIC),
            troubled=troubled[:ATTENTION_MAX],
            more_troubled=max(0, len(troubled) - ATTENTION_MAX),
            popular=await asyncio.to_thread(_popular, roll.rows),
            readers=(await self._pages.service().counts.by_reader(now))[:READERS_MAX],
            worst=[
                (display_name(each), each.grade, grade_level(each.grade))
                for each in judged.scores[:READERS_MAX]
                if each.grade < 90
            ],
        )

    async def history(self, request: web.Request) -> web.Response:
        """What happened by the hour (72) and by the day (400), as JSON; stretches in which nothing did are left out."""
        await self._app.peer_metrics.families()
        book = self.book()
        told = (("hours", book.hours, HOUR), ("days", book.days, DAY))
        return as_json({name: _slots(kept, unit) for name, kept, unit in told})

    def book(self) -> History:
        """The history of all workers, up to now."""
        self._pages.service()
        mine = self._app.history_recorder.note(self._app.clock.now())
        return history.merge_histories([mine, *self._app.peer_metrics.books])

    async def _view(self, roll: FeedTable, others: Sequence[aggregation.Plain], book: History) -> View:
        now, metrics, settings = self._app.clock.now(), self._app.metrics, self._app.settings
        metrics.observe_process(
            under_way=self._pages.service().admin.active_refreshes, connections=self._app.connections
        )
        families = aggregation.merge_families(metrics.families(), others)
        totals, memory = metrics.totals(families), aggregation.gauge_value(families, "process_resident_memory_bytes")
        read = subscribers_of(roll)
        ready = self._listening() and not self._app.draining
        connections = round(aggregation.gauge_value(families, "feedproxy_connections") or 0)
        silent = self._app.peer_metrics.silent
        workers = max(1, self._app.workers - silent)
        place = await self._surveyor.look(settings.local_store, settings.store_max)
        findings = health.examine(
            health.HealthFacts(
                ready=ready,
                draining=self._app.draining,
                place=place,
                connections=connections,
                connections_max=settings.max_connections * self._app.workers,
                workers=workers,
                silent=silent,
                lately=sum((tally for _, tally in book.last(HOUR, 2, now)), NO_TRAFFIC),
                told=[redact_text(each) for each in self._app.problems()],
            )
        )
        journals = self._app.peer_metrics.journals
        on_roll = {row["id"] for row in roll.rows}
        failed = recent_activity.merge_failures(journals, self._app.journal.failed())
        failed = [each for each in failed if feed_id(each.target) not in on_roll]
        asked = recent_activity.merge_requests(journals, self._app.journal.requests())
        states = by_state(roll.rows)
        troubled = sum(states[each] for each in TROUBLED_STATES)
        today = next(tally for _, tally in book.last(DAY, 1, now))
        return {
            "version": __version__,
            "started": templates.iso(self._started),
            "uptime": round(now - self._started),
            "as_of": templates.iso(roll.at),
            "health": str(health.verdict(findings)),
            "headline": health.headline(findings, len(roll.rows), troubled, len(failed)),
            "findings": [{**asdict(each), "level": str(each.level)} for each in findings],
            "ready": ready,
            "draining": self._app.draining,
            "feeds": len(roll.rows),
            "states": states,
            "others": roll.others,
            "complete": roll.complete,
            "never_worked": [activity_views.failed_view(each, settings) for each in failed],
            "recent_requests": [activity_views.request_view(each, settings) for each in asked],
            "subscribers": sum(read),
            "feeds_read": len(read),
            "today": counts_view(today),
            "requests": {**asdict(totals), "hit_share": totals.hit_share, "saved": totals.saved},
            "under_way": round(aggregation.gauge_value(families, "feedproxy_updates_under_way") or 0),
            "connections": connections,
            "memory": None if memory is None else int(memory),
            "workers": workers,
            "store": asdict(place),
            "fleet": [redact_text(each) for each in self._app.status_lines()],
        }


def _gateway(settings: Settings) -> str:
    """Return the URL that readers put before a feed's; empty in reverse mode.

    Where every address is listened on, it is this machine's own name: an address such as 0.0.0.0 leads nowhere.
    """
    if settings.upstream:
        return ""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host, port = listen_address(settings.listen, "listen")
    host = socket.gethostname() if host in ("", "0.0.0.0", "::") else host  # noqa: S104 -- compared, not bound
    scheme = "https" if settings.tls_certificate else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _troubled(rows: Sequence[View]) -> list[View]:
    """The feeds that need attention, the worst first."""
    troubled = [row for row in rows if row["state"] in TROUBLED_STATES]
    return sorted(troubled, key=lambda row: (SORTS["state"][1](row), -row["subscribers"]))


def _popular(rows: Sequence[View]) -> list[View]:
    """The feeds that somebody reads, the most read first; where nobody does, any."""
    return sorted([row for row in rows if row["subscribers"]] or rows, key=SORTS["subscribers"][1])[:POPULAR_MAX]


def counts_view(tally: TrafficCounts) -> View:
    """A tally with what follows from it."""
    return {
        **asdict(tally),
        "hit_share": tally.hit_share,
        "spared": tally.spared,
        "bytes_spared": tally.bytes_spared,
    }


def _slots(kept: Mapping[int, TrafficCounts], unit: float) -> list[View]:
    return [{"from": templates.iso(number * unit), **counts_view(tally)} for number, tally in sorted(kept.items())]
