"""The dashboard: health, savings, feeds that need attention, readers, and the version."""

import asyncio
import socket
from collections.abc import Mapping, Sequence

from aiohttp import web
from msgspec.structs import asdict

from feedproxy import __version__
from feedproxy.admin.html_or_json import as_json, wants_json
from feedproxy.admin.pages import activity_views, charts, health
from feedproxy.admin.pages.feed_pages import SORTS, FeedPages, by_state
from feedproxy.admin.pages.feed_state import FeedState
from feedproxy.admin.pages.feed_table import FeedTable
from feedproxy.admin.pages.reader_scores import ReaderScores
from feedproxy.admin.pages.store_usage import StoreUsageMeter
from feedproxy.app import App
from feedproxy.clock import DAY, HOUR, Seconds
from feedproxy.http import uri
from feedproxy.request.feed_id import feed_id
from feedproxy.request.upstream_and_public_urls import listener_url
from feedproxy.scoring.score_report import display_name
from feedproxy.settings import Settings, listen_address
from feedproxy.telemetry import metrics_aggregation, recent_activity, traffic_history
from feedproxy.telemetry.metrics import answered_count
from feedproxy.telemetry.metrics_aggregation import PeerReports
from feedproxy.telemetry.page_redaction import View, redact_text
from feedproxy.telemetry.traffic_history import NO_TRAFFIC, History, TrafficCounts
from feedproxy.web.display_formats import iso

ATTENTION_MAX = 8
"""Maximum number of feeds listed as needing attention."""

POPULAR_MAX = 10
READERS_MAX = 8
SCORES_MAX_AGE: Seconds = 15
"""The dashboard reuses the scores of readers for this many seconds, because the page reloads itself every few
seconds."""

TROUBLED_STATES = (FeedState.FAILING, FeedState.GONE, FeedState.MOVED)


class Dashboard:
    """The handlers of `/` and `/api/history`."""

    def __init__(self, app: App, pages: FeedPages, reader_scores: ReaderScores) -> None:
        self._app = app
        self._pages = pages
        self._reader_scores = reader_scores
        self._started = app.clock.monotonic()
        self._store_usage = StoreUsageMeter()

    async def show(self, request: web.Request) -> web.Response:
        """Return the page, or its values as JSON."""
        reports = await self._app.peer_reports()
        table, traffic = await self._pages.table(), self._merged_history(reports)
        view = await self._view(table, reports, traffic)
        if wants_json(request):
            return as_json(view)
        now = self._app.clock.now()
        span = charts.find_span(request.query.get("span", ""))
        periods = charts.periods_of_span(traffic, span, now)
        scores = (await self._reader_scores.summary(age_max=SCORES_MAX_AGE)).scores
        troubled = await asyncio.to_thread(_feeds_with_problems, table.rows)
        return self._pages.page(
            request,
            "status.html",
            as_of=table.at,
            status=view,
            gateway=_gateway(self._app.settings),
            span=span,
            spans=charts.SPANS,
            periods=periods,
            requests=charts.requests_chart(periods, span),
            traffic=charts.traffic_chart(periods, span),
            total=sum((period.tally for period in periods), NO_TRAFFIC),
            troubled=troubled[:ATTENTION_MAX],
            more_troubled=max(0, len(troubled) - ATTENTION_MAX),
            popular=await asyncio.to_thread(_popular, table.rows),
            readers=(await self._pages.service().counts.by_reader(now))[:READERS_MAX],
            worst=[(display_name(score), score.grade) for score in scores[:READERS_MAX] if score.grade.level != "good"],
        )

    async def history(self, request: web.Request) -> web.Response:
        """Return the traffic of each of the last 72 hours, and of each of the last 400 days, as JSON. Hours and days
        without traffic are omitted."""
        traffic = self._merged_history(await self._app.peer_reports())
        periods = (("hours", traffic.hours, HOUR), ("days", traffic.days, DAY))
        return as_json({name: _slots(tallies, unit) for name, tallies, unit in periods})

    def _merged_history(self, reports: PeerReports) -> History:
        """Return the sum of the traffic histories of all workers, up to this instant."""
        self._pages.service()
        own = self._app.parts.history_recorder.record(self._app.clock.now())
        return traffic_history.merge_histories([own, *reports.histories])

    async def _view(self, table: FeedTable, reports: PeerReports, traffic: History) -> View:
        now, metrics, settings = self._app.clock.now(), self._app.metrics, self._app.settings
        families = metrics_aggregation.merge_families(metrics.families(), reports.families)
        totals = metrics.tally(families)
        memory = metrics_aggregation.gauge_value(families, "process_resident_memory_bytes")
        # Addresses that never were feeds are left out.
        subscribers = [row["subscribers"] for row in table.rows if row["format"] and row["subscribers"]]
        ready = self._app.ready and not self._app.draining
        connections = round(metrics_aggregation.gauge_value(families, "feedproxy_connections") or 0)
        workers = max(1, self._app.workers - reports.silent)
        usage = await self._store_usage.measure(settings.local_store, settings.store_max)
        findings = health.examine(
            health.HealthFacts(
                ready=ready,
                draining=self._app.draining,
                usage=usage,
                connections=connections,
                connections_max=settings.max_connections * self._app.workers,
                workers=workers,
                silent=reports.silent,
                unwritten=self._pages.service().store.unwritten_count,
                recent=sum((tally for _, tally in traffic.last(HOUR, 2, now)), NO_TRAFFIC),
                problems=[redact_text(problem) for problem in self._app.problems()],
            )
        )
        table_ids = {row["id"] for row in table.rows}
        journals = [self._app.recent_activity.journal(), *reports.journals]
        failed = recent_activity.merge_failures(journals)
        failed = [address for address in failed if feed_id(address.target) not in table_ids]
        requests = recent_activity.merge_requests(journals)
        states = by_state(table.rows)
        troubled = sum(states[state] for state in TROUBLED_STATES)
        today = next(tally for _, tally in traffic.last(DAY, 1, now))
        uptime = self._app.clock.monotonic() - self._started
        return {
            "version": __version__,
            "started": iso(now - uptime),
            "uptime": round(uptime),
            "as_of": iso(table.at),
            "health": str(health.verdict(findings)),
            "headline": health.headline(findings, len(table.rows), troubled, len(failed)),
            "findings": [
                {"level": str(finding.level), "words": finding.message, "advice": finding.advice}
                for finding in findings
            ],
            "ready": ready,
            "draining": self._app.draining,
            "feeds": len(table.rows),
            "states": states,
            "others": table.others,
            "complete": table.complete,
            "never_worked": [activity_views.failed_view(address, settings) for address in failed],
            "recent_requests": [activity_views.request_view(request, settings) for request in requests],
            "subscribers": sum(subscribers),
            "feeds_read": len(subscribers),
            "today": counts_view(today),
            "requests": {
                "answered": answered_count(families),
                "hits": totals.hits,
                "forwarded": totals.forwarded,
                "passed": totals.passed,
                "origin_requests": totals.fetches,
                "origin_failures": totals.failures,
                "hit_share": totals.hit_share,
                "saved": totals.requests_saved,
            },
            "under_way": round(metrics_aggregation.gauge_value(families, "feedproxy_updates_under_way") or 0),
            "connections": connections,
            "memory": None if memory is None else int(memory),
            "workers": workers,
            "store": asdict(usage),
            "fleet": [redact_text(line) for line in self._app.status_lines()],
        }


def _gateway(settings: Settings) -> str:
    """Return the URL of the gateway, to which clients append the URL of a feed, or "" in reverse mode. For a listener
    on all addresses, the host is the name of this machine."""
    if settings.upstream:
        return ""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host, port = listen_address(settings.listen, "listen")
    return listener_url(settings, socket.gethostname() if uri.is_every_address(host) else host, port)


def _feeds_with_problems(rows: Sequence[View]) -> list[View]:
    troubled = [row for row in rows if row["state"] in TROUBLED_STATES]
    return sorted(troubled, key=lambda row: (SORTS["state"][1](row), -row["subscribers"]))


def _popular(rows: Sequence[View]) -> list[View]:
    return sorted([row for row in rows if row["subscribers"]] or rows, key=SORTS["subscribers"][1])[:POPULAR_MAX]


def counts_view(tally: TrafficCounts) -> View:
    """Return traffic counts, and the share of hits and the savings that follow from them."""
    return {
        **asdict(tally),
        "hit_share": tally.hit_share,
        "spared": tally.requests_saved,
        "bytes_spared": tally.bytes_spared,
    }


def _slots(tallies: Mapping[int, TrafficCounts], unit: float) -> list[View]:
    return [{"from": iso(number * unit), **counts_view(tally)} for number, tally in sorted(tallies.items())]
