"""Probes for monitoring: /metrics, /healthz and /readyz."""

import asyncio

from aiohttp import web

from feedproxy.admin.pages.feed_pages import FeedPages
from feedproxy.app import App
from feedproxy.clock import Seconds
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.telemetry import metrics_aggregation
from feedproxy.telemetry.metrics import CONTENT_TYPE
from feedproxy.web.display_formats import plural

FEEDS_WAIT: Seconds = 2
"""`/metrics` waits at most this many seconds for the list of feeds. After a start with many stored feeds, reading the
list takes longer. Until then, the response lacks the metrics of subscribers. Prometheus gives up after 10 s."""


class Probes:
    """The handlers of `/metrics`, `/healthz` and `/readyz`."""

    def __init__(self, app: App, pages: FeedPages) -> None:
        self._app = app
        self._pages = pages
        self._has_started = False
        self._counting: asyncio.Task[None] | None = None

    async def metrics(self, _: web.Request) -> web.Response:
        """Return the metrics in Prometheus's exposition format."""
        reports = await self._app.peer_reports()
        service = self._pages.service()
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._count_subscribers())
        done, _pending = await asyncio.wait([self._counting], timeout=FEEDS_WAIT)
        for counting in done:
            counting.result()  # raises the exception of a failed count
        metrics = self._app.metrics
        metrics.stored.set(await self._pages.feed_table.count(service))
        metrics.unwritten.set(service.store.unwritten_count)
        metrics.draining.set(self._app.draining)
        families = metrics_aggregation.merge_families(metrics.families(), reports.families)
        return web.Response(body=metrics_aggregation.exposition(families), headers={"Content-Type": CONTENT_TYPE})

    async def _count_subscribers(self) -> None:
        """Set the metrics of subscribers from the subscriber count of each stored feed."""
        service, now = self._pages.service(), self._app.clock.now()
        targets = iterate_cooperatively(await self._pages.feed_table.feeds(service))
        counts = [count async for target in targets if (count := service.counts.total(target, now))]
        self._app.metrics.observe_subscribers(counts)

    async def healthz(self, _: web.Request) -> web.Response:
        """Return a line `ok`. In a fleet, a line about the connection to Redis follows. Further lines report a shortage
        of resources, and values that could not be written to the store.

        The status is 200 in all these cases, because a restart would not help.
        """
        lines = filter(None, ("ok", *self._app.status_lines(), self._app.shortage(), self._unwritten()))
        return web.Response(text="".join(f"{line}\n" for line in lines))

    def _unwritten(self) -> str:
        """Return a line about the values that wait for another attempt to write them to the disk, or "" if there are
        none."""
        count = self._app.service.store.unwritten_count if self._app.is_open else 0
        return f"store: {plural(count, 'value', 'values')} could not be written yet" if count else ""

    async def readyz(self, _: web.Request) -> web.Response:
        """Return 200 while the listeners accept clients, and 503 during the start and the shutdown.

        The start ends when each worker has been ready once. A connection to a worker that is not ready would wait. A
        worker that was restarted does not wait for the others.
        """
        if self._app.draining or self._app.terminating:
            return web.Response(status=503, text="draining\n")
        worker = self._app.worker
        self._has_started = self._has_started or worker is None or not worker.logs_start or worker.all_are_ready
        if not (self._app.ready and self._has_started):
            return web.Response(status=503, text="not listening yet\n")
        return web.Response(text="ready\n")
