"""What a worker does with the others: it tells who reads, hears the same of them, and sums up what all have counted.

Coherence is no matter of this: what is stored is agreed upon in the store (store/shared_memory.py), within a turn of
the event loop. What is told here may be a second late. Each worker answers the others over a socket of its own in their
folder, in HTTP, whose client and server are there already:

GET  /families   its metrics, once it has told what it knows of readers
POST /news       who reads (subscribers/replication.py)
GET  /readers    what it knows of the readers that it follows (scoring/serialization.py)
GET  /fetches    its last fetches of a target
GET  /counts     all that it counts of readers, for one that has just been started
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from prometheus_client.core import Metric

from feedproxy.aio import yielding
from feedproxy.clock import Clock, Seconds
from feedproxy.cluster.leases import ClusterCoordination
from feedproxy.errors import StoreError
from feedproxy.proxy.service import Service
from feedproxy.scoring import serialization
from feedproxy.scoring.aggregate import ReaderAccount
from feedproxy.scoring.live_scores import LiveScores
from feedproxy.store.shared_memory import SharedMemoryCoordination
from feedproxy.subscribers.replication import Heard, ReadEvents, read_events
from feedproxy.telemetry import aggregation, history
from feedproxy.telemetry.aggregation import Plain
from feedproxy.telemetry.history import History, HistoryRecorder
from feedproxy.telemetry.metrics import Metrics
from feedproxy.telemetry.recent_activity import FetchActivity, RecentActivity
from feedproxy.workers.metrics_snapshot import MetricsSnapshot
from feedproxy.workers.worker import WorkerContext

SYNC_INTERVAL: Seconds = 1.0
"""News of readers and of changed feeds go round this often: a count and the schedule need no more."""
PEER_TIMEOUT: Seconds = 2.0
"""A worker that does not answer by then is passed over."""
SNAPSHOT_INTERVAL: Seconds = 5.0
"""What a worker has counted is kept this often, beside every look: a worker that is killed loses what came since."""
MESSAGE_MAX = 64 * 1024 * 1024
"""Bytes of a message from another worker: more than the most that can wait."""

ACCOUNTS_PER_ITERATION = 10
"""Accounts of readers told or read before whoever waits for an answer is served."""

logger = logging.getLogger("feedproxy.supervisor")


class WorkerPeers:
    """The other workers, as one of them sees them."""

    def __init__(
        self,
        seat: WorkerContext,
        service: Service,
        metrics: Metrics,
        clock: Clock,
        connections: Callable[[], int],
        diary: HistoryRecorder,
        panel: Callable[[], LiveScores],
        journal: RecentActivity,
    ) -> None:
        self._worker = seat
        self._service = service
        self._metrics = metrics
        self._clock = clock
        self._connections = connections
        self._diary = diary
        self._panel = panel
        self._journal = journal
        self._journals: dict[int, dict[str, Any]] = {}
        self._indices = [index for index in range(seat.size) if index != seat.index]
        self._sockets = [seat.socket_path(index) for index in self._indices]
        self._sessions: list[aiohttp.ClientSession] = []
        self._runner: web.AppRunner | None = None
        self._sync_task: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._snapshots = [MetricsSnapshot(handle) for handle in seat.snapshots]
        self._former_counts = _read_snapshot(self._snapshots[seat.index])  # by those who had this seat before
        self._last_snapshot: Seconds = 0.0
        metrics.collected.subscribe(self._write_snapshot)
        self._reads_during_start: list[Heard] | None = (
            None  # while it is learnt what was counted: it would make that forgotten
        )
        self._books: dict[int, History] = {}
        self.silent = 0
        """Workers that did not answer when they were last asked."""
        common = service.store.coordination
        if isinstance(common, ClusterCoordination):
            common = common.local  # what other machines do is here when this machine's store has it
        self._shared = common if isinstance(common, SharedMemoryCoordination) else None
        self._generation = common.generation
        service.counts.news = ReadEvents()

    async def start(self) -> None:
        """Be there for the others, and learn from one of them what was counted while this one was away."""
        self._sessions = [
            aiohttp.ClientSession(
                "http://worker",
                connector=aiohttp.UnixConnector(str(door)),
                timeout=aiohttp.ClientTimeout(total=PEER_TIMEOUT),
            )
            for door in self._sockets
        ]
        application = web.Application(client_max_size=MESSAGE_MAX)
        application.router.add_get("/families", self._send_families)
        application.router.add_get("/readers", self._send_readers)
        application.router.add_get("/counts", self._send_counts)
        application.router.add_get("/fetches", self._send_fetches)
        application.router.add_post("/news", self._receive_reads)
        self._reads_during_start = []
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=PEER_TIMEOUT)
        await self._runner.setup()
        door = self._worker.socket_path(self._worker.index)
        door.unlink(missing_ok=True)
        await web.UnixSite(self._runner, str(door)).start()
        for counts in await asyncio.gather(*(self._request(each, "counts") for each in self._sessions)):
            if counts:
                with contextlib.suppress(StoreError):
                    self._service.counts.load(counts, self._clock.now())
                break
        heard, self._reads_during_start = self._reads_during_start, None
        self._service.counts.apply_peer_reads(heard)
        self._sync_task = asyncio.ensure_future(self._sync_loop())

    async def families(self) -> Sequence[Plain]:
        """What the others have counted, those that are no more included; what they know of readers is known then.

        Those who had this worker's own seat before are among them.
        """
        self._process_changes()
        answers = await asyncio.gather(*(self._request(each, "families") for each in self._sessions))
        self.silent = sum(answer is None for answer in answers)
        told = [self._former_counts]
        for index, answer in zip(self._indices, answers, strict=True):
            said = self._parse_families(index, answer) if answer is not None else None
            # Of one that is being started again, or does not answer, what it counted last.
            told.append(said if said is not None else _read_snapshot(self._snapshots[index]))
        return told

    def _parse_families(self, index: int, answer: bytes) -> Plain | None:
        try:
            said = json.loads(answer)
            families = list(said["families"])
            self._books[index] = history.parse_history(said["history"])
            self._journals[index] = dict(said["journal"])
        except (ValueError, LookupError, TypeError) as error:
            logger.warning("answer of a worker not understood (metrics): %s", error)
            return None
        return families

    async def readers(self) -> Sequence[ReaderAccount]:
        """What the others know of the readers that they follow now; of what one has seen that died, nothing."""
        found = []
        for answer in await asyncio.gather(*(self._request(each, "readers") for each in self._sessions)):
            try:
                for number, line in enumerate((answer or b"").splitlines()):
                    found.append(serialization.load_account(line))
                    if number % ACCOUNTS_PER_ITERATION == ACCOUNTS_PER_ITERATION - 1:
                        await asyncio.sleep(0)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                logger.warning("answer of a worker not understood (readers): %s", error)
        return found

    async def fetches(self, target: str) -> Sequence[FetchActivity]:
        """The last fetches of a target that the others have made."""
        path, found = f"fetches?{urlencode({'target': target})}", list[FetchActivity]()
        for answer in await asyncio.gather(*(self._request(each, path) for each in self._sessions)):
            try:
                found += [FetchActivity(*each) for each in json.loads(answer or b"[]")]
            except (ValueError, TypeError) as error:
                logger.warning("answer of a worker not understood (fetches): %s", error)
        return found

    @property
    def journals(self) -> Sequence[Mapping[str, Any]]:
        """What happened lately in each of the others, as it told last."""
        return list(self._journals.values())

    @property
    def histories(self) -> Sequence[History]:
        """The history of each of the others, as it told last. Whoever is started again goes on with his own."""
        return list(self._books.values())

    async def send_reads(self) -> None:
        """Tell the others who reads; returns when they know."""
        news = self._service.counts.news.take() if self._service.counts.news is not None else []
        if news:
            message = json.dumps(news).encode()
            await asyncio.gather(*(self._request(each, "news", message) for each in self._sessions))

    async def close(self) -> None:
        """Be there no more."""
        for task in (self._sync_task, self._catching_up):
            if task is not None:
                task.cancel()
        for session in self._sessions:
            await session.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._metrics.families()  # kept for the next in this seat

    # -- inside

    async def _sync_loop(self) -> None:
        while True:
            await asyncio.sleep(SYNC_INTERVAL)
            try:
                await self.send_reads()
                self._process_changes()
                if (now := time.monotonic()) - self._last_snapshot >= SNAPSHOT_INTERVAL:
                    self._last_snapshot = now
                    self._metrics.families()
            except Exception:
                logger.exception("the round among workers failed")

    def _write_snapshot(self, families: Sequence[Metric]) -> None:
        """Let what has been counted outlive this process."""
        counted = aggregation.merge_families(
            [], [aggregation.counters(aggregation.plain_families(families)), self._former_counts]
        )
        with contextlib.suppress(OSError):
            self._snapshots[self._worker.index].write(json.dumps(aggregation.plain_families(counted)).encode())

    def _process_changes(self) -> None:
        """What others have updated is shown anew; what is ours to look after gets its next instant."""
        if self._shared is None or self._shared.generation == self._generation:
            return
        self._generation, changed = self._shared.changes_since(self._generation)
        if changed is None:
            self._catching_up = asyncio.ensure_future(self._process_all())
            return
        for target in changed:
            self._process_change(target)

    async def _process_all(self) -> None:
        async for target in yielding(self._service.store.targets()):
            self._process_change(target)

    def _process_change(self, target: str) -> None:
        self._metrics.target_updated.emit(target)
        self._service.admin.reschedule(target)

    async def _request(self, session: aiohttp.ClientSession, what: str, message: bytes | None = None) -> bytes | None:
        """What another worker says; None where it does not."""
        method = "GET" if message is None else "POST"
        try:
            async with session.request(method, f"/{what}", data=message) as answer:
                body: bytes = await answer.read()
                return body if answer.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None  # it is not there yet, or no more

    async def _send_families(self, _: web.Request) -> web.Response:
        await self.send_reads()
        self._metrics.observe_process(under_way=self._service.admin.active_refreshes, connections=self._connections())
        said = {
            "families": aggregation.plain_families(
                aggregation.merge_families(self._metrics.families(), [self._former_counts])
            ),
            "history": self._diary.record(self._clock.now()).plain(),
            "journal": self._journal.plain(),
        }
        return web.json_response(said)

    async def _send_readers(self, _: web.Request) -> web.Response:
        lines = []
        for number, account in enumerate(self._panel().accounts()):
            lines.append(serialization.dump_account(account))
            if number % ACCOUNTS_PER_ITERATION == ACCOUNTS_PER_ITERATION - 1:
                await asyncio.sleep(0)
        return web.Response(body=b"".join(lines))

    async def _send_fetches(self, request: web.Request) -> web.Response:
        return web.json_response([astuple(each) for each in self._journal.fetches(request.query.get("target", ""))])

    async def _send_counts(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._service.counts.dump_yielding())

    async def _receive_reads(self, request: web.Request) -> web.Response:
        try:
            told = read_events(json.loads(await request.read()))
        except (ValueError, TypeError) as error:
            return web.Response(status=400, text=str(error))
        self._service.counts.apply_peer_reads(told)
        if self._reads_during_start is not None:
            self._reads_during_start += told
        return web.Response()


def _read_snapshot(snapshot: MetricsSnapshot) -> Plain:
    """What was counted in this seat, as it was kept last."""
    try:
        families = json.loads(snapshot.read() or b"[]")
        return aggregation.plain_families(aggregation.merge_families([], [families]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        logger.warning("counts of a former worker are lost: %s", error)
        return []
