"""Exchange among the workers of a machine: readers' requests for feeds, metrics, and recent activity.

The coherence of the store does not depend on this exchange: a worker sees changes of the store within one iteration of
its event loop (store/coordination/worker_coordination.py). The data that workers exchange here can be a second late.
Each worker answers the others by HTTP, over a socket in their folder:

    GET  /families   its metrics; before the answer, the worker reports its readers' requests to all others
    POST /news       readers' requests for feeds (subscribers/read_events.py)
    GET  /readers    its accounts of tracked readers (scoring/account_serialization.py)
    GET  /fetches    its last fetches of a target
    GET  /counts     all its reader counts, for a worker that has just started
    GET  /rhythms    the polling rhythms of all readers, for a worker that has just started
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from msgspec import ValidationError, convert, to_builtins
from prometheus_client.core import Metric

from feedproxy.background_work import cancel, repeat
from feedproxy.clock import Clock, Seconds
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.errors import StoreError
from feedproxy.fleet.machine_coordination import MachineCoordination
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.proxy.service import Service
from feedproxy.refresh.refresh_result import RefreshRecord
from feedproxy.scoring import account_serialization
from feedproxy.scoring.live_scores import LiveScores
from feedproxy.scoring.reader_accounts import ReaderAccount
from feedproxy.store.coordination.worker_coordination import SharedMemoryCoordination
from feedproxy.subscribers.read_events import ReadEvents, read_events
from feedproxy.telemetry import metrics_aggregation, traffic_history
from feedproxy.telemetry.metrics import Metrics
from feedproxy.telemetry.metrics_aggregation import PeerReports, Plain
from feedproxy.telemetry.recent_activity import Journal, RecentActivity
from feedproxy.telemetry.traffic_history import History, HistoryRecorder
from feedproxy.workers.metrics_across_restarts import MetricsSnapshot
from feedproxy.workers.worker_context import WorkerContext

SYNC_INTERVAL: Seconds = 1.0
"""Once in this many seconds, a worker reports its readers' requests to the other workers, and checks which feeds the
others have changed. Reader counts and the refresh schedule need no shorter interval."""
PEER_TIMEOUT: Seconds = 2.0
"""Maximum seconds to wait for another worker's answer. A later answer is ignored."""
SNAPSHOT_INTERVAL: Seconds = 5.0
"""Seconds between two snapshots of the metrics. A killed worker loses the counts since its last snapshot."""
MESSAGE_MAX = 64 * 1024 * 1024
"""A message from another worker may have at most this many bytes. Even the report of a full queue of readers' requests
is smaller."""

logger = logging.getLogger("feedproxy.process.supervisor")


class WorkerPeers:
    """Access of one worker to the other workers of its machine."""

    def __init__(
        self,
        worker: WorkerContext,
        service: Service,
        metrics: Metrics,
        clock: Clock,
        history_recorder: HistoryRecorder,
        live_scores: Callable[[], LiveScores],
        recent_activity: RecentActivity,
    ) -> None:
        self._worker = worker
        self._service = service
        self._metrics = metrics
        self._clock = clock
        self._history_recorder = history_recorder
        self._live_scores = live_scores
        self._recent_activity = recent_activity
        self._journal_by_worker: dict[int, Journal] = {}
        self._indices = [index for index in range(worker.size) if index != worker.index]
        self._sockets = [worker.socket_path(index) for index in self._indices]
        self._sessions: list[aiohttp.ClientSession] = []
        self._runner: web.AppRunner | None = None
        self._sync_task: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._snapshots = [MetricsSnapshot(descriptor) for descriptor in worker.snapshots]
        self._predecessor_counts = _read_snapshot(self._snapshots[worker.index])  # of former workers with this number
        self._last_snapshot: Seconds = 0.0
        metrics.collected.subscribe(self._write_snapshot)
        self._history_by_worker: dict[int, History] = {}
        coordination = service.store.coordination
        if isinstance(coordination, MachineCoordination):
            coordination = coordination.local  # a change by another machine counts when this machine's store has it
        self._shared = coordination if isinstance(coordination, SharedMemoryCoordination) else None
        self._generation = coordination.generation
        self._reads = ReadEvents()
        service.counts.reader_seen.subscribe(self._reads.record)

    async def start(self) -> None:
        """Start answering the other workers, and load reader counts and polling rhythms from a worker that answers."""
        self._sessions = [
            aiohttp.ClientSession(
                "http://worker",
                connector=aiohttp.UnixConnector(str(path)),
                timeout=aiohttp.ClientTimeout(total=PEER_TIMEOUT),
            )
            for path in self._sockets
        ]
        application = web.Application(client_max_size=MESSAGE_MAX)
        application.router.add_get("/families", self._send_families)
        application.router.add_get("/readers", self._send_readers)
        application.router.add_get("/counts", self._send_counts)
        application.router.add_get("/rhythms", self._send_rhythms)
        application.router.add_get("/fetches", self._send_fetches)
        application.router.add_post("/news", self._receive_reads)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=PEER_TIMEOUT)
        counts = self._service.counts
        with counts.keep_peer_reads():
            await self._runner.setup()
            path = self._worker.socket_path(self._worker.index)
            path.unlink(missing_ok=True)
            await web.UnixSite(self._runner, str(path)).start()
            for name, load in (("counts", counts.load), ("rhythms", counts.rhythms.load)):
                for answer in await asyncio.gather(*(self._request(session, name) for session in self._sessions)):
                    if answer:
                        with contextlib.suppress(StoreError):
                            load(answer, self._clock.now())
                        break
        self._sync_task = asyncio.ensure_future(
            repeat(SYNC_INTERVAL, self._synchronize, "workers: synchronization with the other workers")
        )

    async def reports(self) -> PeerReports:
        """Return the reports of the other workers: their metrics, and their last known activity and traffic history.

        The metrics include those of exited workers, also of former workers with this worker's number. The call also
        applies, in this worker, the changes of feeds and the readers' requests that the other workers report.
        """
        self._process_changes()
        answers = await asyncio.gather(*(self._request(session, "families") for session in self._sessions))
        families = [self._predecessor_counts]
        for index, answer in zip(self._indices, answers, strict=True):
            parsed = self._parse_families(index, answer) if answer is not None else None
            # A worker that restarts or does not answer is represented by its last snapshot.
            families.append(parsed if parsed is not None else _read_snapshot(self._snapshots[index]))
        return PeerReports(
            families,
            list(self._journal_by_worker.values()),
            list(self._history_by_worker.values()),
            sum(answer is None for answer in answers),
        )

    def _parse_families(self, index: int, answer: bytes) -> Plain | None:
        try:
            message = json.loads(answer)
            families = list(message["families"])
            self._history_by_worker[index] = traffic_history.parse_history(message["history"])
            self._journal_by_worker[index] = convert(message["journal"], Journal)
        except (ValueError, LookupError, TypeError, ValidationError) as error:
            logger.warning("workers: metrics of worker %d unreadable, left out of /metrics: %s", index, error)
            return None
        return families

    async def readers(self) -> Sequence[ReaderAccount]:
        """Return what the other workers have recorded about readers, for the readers' grades. The records of exited
        workers are lost."""
        accounts = []
        for answer in await asyncio.gather(*(self._request(session, "readers") for session in self._sessions)):
            try:
                async for line in iterate_cooperatively((answer or b"").splitlines()):
                    accounts.append(account_serialization.load_account(line))
            except (ValueError, LookupError, TypeError, AttributeError, ValidationError) as error:
                logger.warning("workers: accounts of readers from another worker unreadable, left out: %s", error)
        return accounts

    async def fetches(self, target: str) -> Sequence[RefreshRecord]:
        """Return the recent fetches of a target that the other workers have recorded (recent_activity.py)."""
        path, activities = f"fetches?{urlencode({'target': target})}", list[RefreshRecord]()
        for answer in await asyncio.gather(*(self._request(session, path) for session in self._sessions)):
            try:
                activities += convert(json.loads(answer or b"[]"), list[RefreshRecord])
            except (ValueError, ValidationError) as error:
                logger.warning(
                    "workers: fetches of %s from another worker unreadable, left out: %s", redact_target(target), error
                )
        return activities

    async def send_reads(self) -> None:
        """Report the requests of this worker's readers to the other workers. Return when each of them has received the
        report, or has not answered in time (PEER_TIMEOUT)."""
        if reads := self._reads.take():
            message = json.dumps(reads).encode()
            await asyncio.gather(*(self._request(session, "news", message) for session in self._sessions))

    async def close(self) -> None:
        """Stop the exchange with the other workers."""
        await cancel(self._sync_task, self._catching_up)
        for session in self._sessions:
            await session.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._metrics.families()  # for the next worker with this number

    # -- internals

    async def _synchronize(self) -> None:
        await self.send_reads()
        self._process_changes()
        if (now := time.monotonic()) - self._last_snapshot >= SNAPSHOT_INTERVAL:
            self._last_snapshot = now
            self._metrics.families()

    def _write_snapshot(self, families: Sequence[Metric]) -> None:
        merged = metrics_aggregation.merge_families(
            [], [metrics_aggregation.counters(metrics_aggregation.plain_families(families)), self._predecessor_counts]
        )
        with contextlib.suppress(OSError):
            self._snapshots[self._worker.index].write(json.dumps(metrics_aggregation.plain_families(merged)).encode())

    def _process_changes(self) -> None:
        """Emit `updated_by_peer` for each target that another worker changed."""
        if self._shared is None or self._shared.generation == self._generation:
            return
        self._generation, changed = self._shared.changes_since(self._generation)
        if changed is None:
            self._catching_up = asyncio.ensure_future(self._process_all())
            return
        for target in changed:
            self._service.events.updated_by_peer.emit(target)

    async def _process_all(self) -> None:
        async for target in iterate_cooperatively(self._service.store.targets()):
            self._service.events.updated_by_peer.emit(target)

    async def _request(self, session: aiohttp.ClientSession, path: str, message: bytes | None = None) -> bytes | None:
        """Return the content of another worker's answer, or None if there is no answer or its status is not 200."""
        method = "GET" if message is None else "POST"
        try:
            async with session.request(method, f"/{path}", data=message) as response:
                body: bytes = await response.read()
                return body if response.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None  # the worker is starting or has exited

    async def _send_families(self, _: web.Request) -> web.Response:
        await self.send_reads()
        message = {
            "families": metrics_aggregation.plain_families(
                metrics_aggregation.merge_families(self._metrics.families(), [self._predecessor_counts])
            ),
            "history": self._history_recorder.record(self._clock.now()).plain(),
            "journal": to_builtins(self._recent_activity.journal()),
        }
        return web.json_response(message)

    async def _send_readers(self, _: web.Request) -> web.Response:
        accounts = iterate_cooperatively(self._live_scores().accounts())
        lines = [account_serialization.dump_account(account) async for account in accounts]
        return web.Response(body=b"".join(lines))

    async def _send_fetches(self, request: web.Request) -> web.Response:
        return web.json_response(to_builtins(self._recent_activity.fetches(request.query.get("target", ""))))

    async def _send_counts(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._service.counts.dump())

    async def _send_rhythms(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._service.counts.rhythms.dump())

    async def _receive_reads(self, request: web.Request) -> web.Response:
        try:
            reads = read_events(json.loads(await request.read()))
        except (ValueError, TypeError) as error:
            return web.Response(status=400, text=str(error))
        self._service.counts.apply_peer_reads(reads)
        return web.Response()


def _read_snapshot(snapshot: MetricsSnapshot) -> Plain:
    """Return the metrics in a snapshot, or no metrics if it is unreadable."""
    try:
        families = json.loads(snapshot.read() or b"[]")
        return metrics_aggregation.plain_families(metrics_aggregation.merge_families([], [families]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        logger.warning("workers: snapshot of a former worker not read: %s", error)
        return []
