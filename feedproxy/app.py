"""The App: settings, service, store, counts and metrics that addons share. Each mitmproxy master has one App. Addons
get it by `get_app(ctx.master)`, and never import each other."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from feedproxy import __version__, option_files
from feedproxy.access.authorization import AccessControl
from feedproxy.background_work import cancel, repeat
from feedproxy.clock import Clock, Seconds, SystemClock
from feedproxy.endpoints.feed_list import FeedList
from feedproxy.endpoints.imported_feeds import ImportedFeeds
from feedproxy.errors import BadTarget, FeedproxyError, Forbidden, StoreError
from feedproxy.feed_rules import Rule, Rules, may_serve_under
from feedproxy.fleet.synchronization import FleetSynchronization
from feedproxy.http import uri
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import Fields, Response
from feedproxy.http.target_uri.registrable_domain import site_of_host
from feedproxy.http.target_uri.url_redaction import host_alone, without_secrets
from feedproxy.lab.record.recorder import Recorder, RecordingClient
from feedproxy.notify.notification_database import database_file
from feedproxy.notify.notification_service import NotificationService
from feedproxy.proxy.public_feeds import is_public
from feedproxy.proxy.scheduled_refreshes import is_owner
from feedproxy.proxy.service import Service
from feedproxy.refresh.credentialed_client import ClosableOriginClient, CredentialedClient
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.policy import paused_and_blocked
from feedproxy.refresh.policy.paused_and_blocked import OperatorDecisions
from feedproxy.refresh.reader_tracking import ReaderTracker
from feedproxy.refresh.refresh_events import Events
from feedproxy.request.endpoint_registry import Call, Endpoints
from feedproxy.request.loops_and_max_forwards import new_pseudonym
from feedproxy.request.upstream_and_public_urls import is_upstream_target, to_public
from feedproxy.scoring.live_scores import LiveScores
from feedproxy.settings import Settings, deprecated_names, from_options, option_names
from feedproxy.store.permitted_store import IsTargetPermitted, PermittedStore
from feedproxy.store.store_location import open_store
from feedproxy.subscribers import subscriber_counts
from feedproxy.subscribers.reader_pseudonyms import Identifier
from feedproxy.subscribers.subscriber_counts import SubscriberCounts
from feedproxy.telemetry import traffic_history
from feedproxy.telemetry.metrics import Metrics
from feedproxy.telemetry.metrics_aggregation import PeerReports
from feedproxy.telemetry.recent_activity import RecentActivity
from feedproxy.telemetry.traffic_history import HistoryRecorder
from feedproxy.upstream import local_resource_exhaustion
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.callback_client import CallbackClient
from feedproxy.upstream.origin_certificate_verification import upstream_context
from feedproxy.upstream.origin_client import Fetcher, FetchLimits
from feedproxy.upstream.own_listeners import OwnListeners
from feedproxy.upstream.parent_proxy import Parent, parent_of
from feedproxy.workers.worker_context import WorkerContext
from feedproxy.workers.worker_messages import WorkerPeers


class App:
    """The settings, and the parts made from them. The store and the origin client are opened at their first use."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        make_client: Callable[[Settings], ClosableOriginClient] | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Create an App. `make_client` returns the client for origins (default: upstream/origin_client.py).
        `random_bytes` returns random bytes for names and secrets."""
        self.clock: Clock = clock or SystemClock()
        self._make_client = make_client
        self.random_bytes = random_bytes
        self._settings = Settings()
        self._adopted: Any = None
        self.rules = Rules()
        self.configured_rules = Rules()
        """Rules of the configuration. `rules` also has the operator's decisions about single feeds."""
        self._decision_rules: tuple[Rule, ...] = ()
        self.metrics = Metrics()
        self.recent_activity = RecentActivity(lambda: self.settings, lambda target: self.names_in_log(target)[0])
        self.events = Events()
        self.events.scheduled_refresh_started.subscribe(self.metrics.on_scheduled_refresh_started)
        self.events.refresh_ended.subscribe(self.metrics.on_refresh_ended)
        self.events.refresh_ended.subscribe(self.recent_activity.on_refresh_ended)
        self.events.page_redirected_to_feed.subscribe(self.recent_activity.on_page_redirected_to_feed)
        self.draining = False
        self.reports_failures = False
        """True if `feedproxy serve` prints `failure` when it exits. In other cases, addons log the failure."""
        self.failure: FeedproxyError | None = None
        """Reason why the proxy cannot run, or None if it can run."""
        self.warnings: frozenset[str] = frozenset()
        """Warnings about the configuration that applied at the start or the last reload."""
        self.ready = False
        """True if all listeners are open."""
        self.requests = 0
        self.fastpath_requests = 0
        """Number of requests in progress on the fast path (server/fastpath/)."""
        self.settings_generation = 0
        """Number of changes of options and rules since the start."""
        self.worker: WorkerContext | None = None
        """Context of this process as one of several workers, or None for a single process."""
        self.sockets: tuple[socket.socket, ...] = ()
        """Listening sockets for clients, from the supervisor or systemd. If empty, the process binds its own."""
        self.admin_sockets: tuple[socket.socket, ...] = ()
        self.terminating = False
        """True after SIGTERM. Connections in the accept queue are still accepted until `draining` is set."""
        self.drain_deadline: Seconds | None = None
        """End of `drain_timeout` by the event loop's clock, or None while the proxy is not shutting down."""
        self.enforces_targets = False
        """True if mitmproxy may connect only to targets that server/mitm/passthrough.py has approved."""
        self.listeners = OwnListeners()
        """Addresses of the listeners of all workers. They are refused as targets."""
        self.connections = 0
        """Number of open connections from clients."""
        self.trusted_ca: str | None = None
        self.insecure = False
        self.endpoints = Endpoints()
        """Endpoints below `/-/`."""
        self.flow_handler: Any = None
        """The handler of flows from mitmproxy (server/mitm/flow_handler.py)."""
        self._live_scores = LiveScores()
        self._recorder: Callable[[], Recorder | None] = lambda: None
        self.notification_plugins: dict[str, Callable[[NotificationService], None]] = {}
        """Functions by which addons add their notification protocols to a new NotificationService."""
        self.helper_pool = HelperPool()
        self._parts: Parts | None = None
        self._is_closed = False

    # -- settings

    @property
    def settings(self) -> Settings:
        """Return the settings in force. A store or origin client that is open keeps the settings with which it was
        opened."""
        if self._adopted is not None:
            options, self._adopted = self._adopted, None
            names = set(options.keys())
            self._settings = from_options(
                {name: getattr(options, name) for name in (*option_names(), *deprecated_names()) if name in names}
            )
            if "ssl_verify_upstream_trusted_ca" in names:
                file = options.ssl_verify_upstream_trusted_ca
                self.trusted_ca = str(option_files.expand(file)) if file else None
                self.insecure = options.ssl_insecure
        return self._settings

    def configure(self, values: Mapping[str, Any]) -> None:
        self.settings_generation += 1
        self._adopted, self._settings = None, from_options(values)

    def adopt(self, options: Any) -> None:
        """Take the settings from mitmproxy's options. The options are read at the next use of the settings, because
        mitmproxy configures all addons again for each declared option."""
        self._adopted = options
        self.settings_generation += 1

    def make_client(self, policy: AddressPolicy) -> ClosableOriginClient:
        """Return a new client for requests to origins."""
        if self._make_client is not None:
            return self._make_client(self.settings)
        return Fetcher(
            policy,
            FetchLimits.from_settings(self.settings),
            clock=self.clock,
            ssl_context=upstream_context(self.trusted_ca, insecure=self.insecure),
            parent_of=self.parent_of,
        )

    def target_check(self, policy: AddressPolicy) -> IsTargetPermitted:
        """Return a function that returns True for a target if its stored copies may be used: if its address is
        permitted, or if it is at the upstream. The client for origins makes the same check. With the argument
        `make_client`, all targets are permitted."""
        if self._make_client is not None:
            return lambda target: True
        settings = self.settings

        @uri.memoize_by_origin
        def is_target_permitted(target: str) -> bool:
            if is_upstream_target(target, settings):
                return True
            try:
                policy.check_target(*uri.split_host_port(target))
            except (Forbidden, BadTarget):
                return False
            return True

        return is_target_permitted

    def set_rules(self, rules: Rules) -> None:
        self.configured_rules = rules
        self._merge_rules()

    def _set_decision_rules(self, rules: tuple[Rule, ...]) -> None:
        self._decision_rules = rules
        self._merge_rules()

    def _merge_rules(self) -> None:
        configured = self.configured_rules
        self.rules = Rules((*configured.rules, *self._decision_rules)) if self._decision_rules else configured
        self.settings_generation += 1

    def settings_for(self, target: str) -> Settings:
        """Return the settings for a target, with its rules applied."""
        return self.rules.settings_for(target, self.settings)

    def parent_of(self, target: str) -> Parent | None:
        """Return the parent proxy for a target, or None for a direct connection. Raises ParentFailed if the parent
        cannot be used."""
        return parent_of(self.settings_for(target).upstream_proxy, target)

    def is_redirect_permitted(self, start: str, end: str | None) -> bool:
        """Return True if a response from `end` may be stored under the target `start`. If `end` is unknown (None),
        return True only if no rule protects feeds."""
        if end is not None:
            return may_serve_under(self.settings_for(start), self.settings_for(end))
        return not self.rules.protects_feeds

    def names_in_log(self, target: str, request: Fields | None = None) -> tuple[str, str]:
        """Return two names of a target for the log: its public address, and its upstream address. If both are equal,
        the second name is "".

        A private resource (proxy/public_feeds.py), and the target of a request with credentials, have only their host
        as first name, and "" as second name. The names contain no secrets.
        """
        public = to_public(target, self.settings)
        is_personal = request is not None and any(is_credential(name) for name, _ in request)
        try:
            resource = self.service.store.peek(target) if self.is_open else None
            if is_personal or not is_public(self.settings_for(target), resource):
                return host_alone(public), ""
        except ValueError:
            pass  # the target is invalid and was refused
        return without_secrets(public), without_secrets(target) if public != target else ""

    # -- opening and closing

    @property
    def is_open(self) -> bool:
        """Return True if the store and the origin client are open."""
        return self._parts is not None and not self._is_closed

    @property
    def parts(self) -> "Parts":
        """Return the parts that need an event loop. The first call makes them."""
        if self._parts is None:
            self._parts = Parts(self)
        return self._parts

    @property
    def service(self) -> Service:
        return self.parts.service

    @property
    def notifications(self) -> NotificationService:
        return self.parts.notifications

    @property
    def feed_list(self) -> FeedList:
        return self.parts.feed_list

    async def rpc(self, call: Call) -> Response:
        """Answer a call of the XML-RPC endpoint, which several addons share."""
        return await self.notifications.xmlrpc.answer(call)

    @property
    def workers(self) -> int:
        """Return the number of processes that serve this port."""
        return self.worker.size if self.worker is not None else 1

    @property
    def fleet(self) -> FleetSynchronization | None:
        """Return the synchronization with other machines, or None if there is no fleet or the store is not open yet."""
        return self._parts.fleet if self._parts is not None else None

    @property
    def worker_peers(self) -> WorkerPeers | None:
        """Return the other workers, or None if there is only one process or the store is not open yet."""
        return self._parts.worker_peers if self._parts is not None else None

    async def peer_reports(self) -> PeerReports:
        """Return the reports of the other workers. The call also counts the readers' requests in these reports."""
        return await self.worker_peers.reports() if self.worker_peers is not None else PeerReports()

    def status_lines(self) -> tuple[str, ...]:
        """Return the status line of the fleet, or nothing if there is no fleet."""
        return (self.fleet.status_line(),) if self.fleet is not None else ()

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each problem that the operator should see."""
        of_fleet = self.fleet.problem() if self.fleet is not None else ""
        return tuple(filter(None, (of_fleet, self.shortage())))

    @staticmethod
    def shortage() -> str:
        """Return a sentence about a resource of which too little is left for requests to origins, or "" if there is
        enough of each."""
        reason = local_resource_exhaustion.shortage()
        return f"No origin can be asked: {reason}." if reason else ""

    @property
    def live_scores(self) -> LiveScores:
        """Return the scores of the readers that this process tracks."""
        scores = self._live_scores
        scores.size, scores.bytes_max = self.settings.score_readers, self.settings.memory.scores
        if self.worker is not None and not scores.partial:
            scores.join_workers(self.worker.index, self.worker.size, self.worker.key)
        return scores

    def use_recorder(self, make: Callable[[], Recorder | None]) -> None:
        """Let the recorder that `make` returns record all exchanges. If it returns None, nothing is recorded."""
        self._recorder = cache(make)

    @property
    def recorder(self) -> Recorder | None:
        return self._recorder()

    async def close(self) -> None:
        """Finish refreshes within `drain_timeout`, save the state and close. May be called again. The closed parts are
        kept, so that a connection that ends later can be logged without opening the store again."""
        try:
            if self._parts is not None and not self._is_closed:
                self._is_closed = True
                timeout: Seconds = self.settings.drain_timeout
                if self.drain_deadline is not None:
                    timeout = max(0.0, self.drain_deadline - asyncio.get_running_loop().time())
                await self._parts.close(timeout)
        finally:
            self.recent_activity.log_lines.flush()


class Parts:
    """The parts of an App that need an event loop: the store, the origin client, and everything that uses them."""

    def __init__(self, app: App) -> None:
        settings = app.settings
        # Load the list of public suffixes at the start, so that no client waits for it.
        site_of_host("www.example")
        self.clock = app.clock
        store = open_store(
            settings.local_store,
            memory_max=settings.memory.responses,
            disk_max=settings.store_max,
            on_failure=app.metrics.on_store_failure,
            shared=app.worker.coordination_file if app.worker is not None else False,
        )
        permitted, own = (settings.allow_private, settings.allow_networks), app.listeners
        self.policy = AddressPolicy(*permitted, settings.allow_ports, listeners=own)
        self.connect_policy = AddressPolicy(*permitted, settings.connect_ports, listeners=own)
        is_target_permitted = app.target_check(self.policy)
        self.store = PermittedStore(store, app.is_redirect_permitted, is_target_permitted)
        self.fleet: FleetSynchronization | None = None
        self._make_secret = partial(app.random_bytes, 32)
        makers = {"pseudonym": partial(new_pseudonym, app.random_bytes), "reader-secret": self._make_secret}
        if settings.is_fleet:
            self.fleet = FleetSynchronization(
                settings, store, app.is_redirect_permitted, is_target_permitted, app.clock, app.events
            )
            self.fleet.adopt_shared_state(makers)
            self.store = self.fleet.store
        pseudonym, secret = (self.stored_secret(*item) for item in makers.items())
        self.access_control = AccessControl(
            settings, app.clock, secret, _nonce_folder(settings.local_store, app.worker)
        )
        client = app.make_client(self.policy)
        credentialed = CredentialedClient(client, self.access_control.origin_credentials.with_credentials)
        self.fetcher: ClosableOriginClient = RecordingClient(credentialed, lambda: app.recorder, app.clock)
        self.counts = SubscriberCounts(
            window=settings.subscriber_window,
            claim_max=settings.claim_max,
            claim_jump=settings.claim_jump,
            feeds_max=settings.memory.feeds,
            entries_max=settings.memory.readers,
            sum_with_peers=self.fleet.sums.sum_of if self.fleet is not None else None,
        )
        with contextlib.suppress(StoreError, ValueError):
            self.counts.load(self.store.get_state("counts") or b"", app.clock.now())
        with contextlib.suppress(StoreError):
            self.counts.rhythms.load(self.store.get_state("rhythms") or b"", app.clock.now())
        imports = ImportedFeeds(self.store)
        self.service = Service(
            settings_for=app.settings_for,
            store=self.store,
            fetcher=self.fetcher,
            clock=app.clock,
            audience=ReaderTracker(
                self.counts,
                Identifier(secret, period=max(86_400, settings.subscriber_window)),
                app.clock,
                app.settings_for,
                installation=pseudonym.decode(),
                version=__version__,
            ),
            events=app.events,
            credentials=self.access_control.origin_credentials,
            peers=self.fleet,
            owns=partial(is_owner, app.worker.index, app.worker.size) if app.worker is not None else None,
            count_demand=imports.count_since,
            limits=settings.memory,
            helper_pool=app.helper_pool,
        )
        self.decisions = OperatorDecisions(self.store, app._set_decision_rules)
        worker = app.worker
        self.history_recorder = HistoryRecorder(
            app.metrics.tally, self.store, worker.index if worker else 0, app.workers
        )
        self.worker_peers: WorkerPeers | None = None
        if worker is not None:
            self.worker_peers = WorkerPeers(
                worker,
                self.service,
                app.metrics,
                app.clock,
                self.history_recorder,
                lambda: app.live_scores,
                app.recent_activity,
            )

        def observe() -> None:
            app.metrics.under_way.set(self.service.admin.active_refreshes)
            app.metrics.connections.set(app.connections)

        app.metrics.add_flush_hook(observe)
        self.service.schedule.resume()
        self.feed_list = FeedList(
            self.service,
            imports,
            app.clock,
            app.settings_for,
            lambda: app.settings_generation,
            is_target_permitted=is_target_permitted,
        )
        if worker is None or worker.is_first:
            self.feed_list.resume()
        context = upstream_context(app.trusted_ca, insecure=app.insecure)
        self.callback_client = CallbackClient(self.policy, ssl_context=context, parent_of=app.parent_of)
        self.notifications = NotificationService(
            file=database_file(settings.local_store),
            proxy=self.service,
            settings=lambda: app.settings,
            settings_for=app.settings_for,
            caller=self.callback_client,
            clock=app.clock,
            listed_feeds=self.feed_list.public_addresses,
            on_failure=app.metrics.on_store_failure,
            claim_delivery=self.fleet.claim_delivery if self.fleet is not None else None,
        )
        if self.fleet is not None:
            self.fleet.join(self.service, self.notifications, app.metrics)
        for add_protocols in app.notification_plugins.values():
            add_protocols(self.notifications)
        if app.notification_plugins:
            self.notifications.start()
        periodic = [
            repeat(traffic_history.SAVE_INTERVAL, self._save_history, "history: saving the traffic"),
            repeat(subscriber_counts.SAVE_INTERVAL, self._save_counts, "subscribers: saving the counts"),
            repeat(subscriber_counts.SAVE_INTERVAL, self._sweep, "subscribers: removal of readers"),
        ]
        if worker is not None or self.fleet is not None:
            reload = self.decisions.reload_in_background
            periodic.append(repeat(paused_and_blocked.RELOAD_INTERVAL, reload, "decisions: reading"))
        self._tasks = [asyncio.ensure_future(work) for work in periodic]

    def stored_secret(self, name: str, make: Callable[[], bytes] | None = None) -> bytes:
        """Return a secret of this installation from the store. If the store has no such secret or cannot be read,
        `make` creates the secret (by default 32 random bytes), which is then stored."""
        with contextlib.suppress(StoreError):
            if stored := self.store.get_state(name):
                return stored
        value = (make or self._make_secret)()
        self._pending = asyncio.ensure_future(self.store.put_state(name, value))
        return value

    async def _save_history(self) -> None:
        await self.history_recorder.save(self.clock.now())

    async def _sweep(self) -> None:
        await self.counts.sweep(self.clock.now())

    async def _save_counts(self) -> None:
        with contextlib.suppress(StoreError):
            await self.store.put_state("counts", await self.counts.dump())
            await self.feed_list.save_requested()
            await self.store.put_state("rhythms", await self.counts.rhythms.dump())

    async def close(self, timeout: Seconds) -> None:
        """Save the state and close all parts. Refreshes and deliveries in progress may take `timeout` seconds."""
        deadline = asyncio.get_running_loop().time() + timeout
        # The tasks must not write after the last save.
        await cancel(*self._tasks)
        await self.feed_list.close()
        await self.service.close(timeout)
        if self.worker_peers is not None:
            await self.worker_peers.send_reads()  # the last worker that saves must have the reads of all workers
        if self.fleet is not None:
            await self.fleet.close()
        await self.notifications.close(max(0.0, deadline - asyncio.get_running_loop().time()))
        await self._save_history()
        await self._save_counts()
        await self.callback_client.close()
        await self.fetcher.close()
        if self.worker_peers is not None:
            await self.worker_peers.close()
        await self.store.close()


def _nonce_folder(store: str, worker: WorkerContext | None) -> Path | None:
    """Return the folder of used WSSE proofs (access/wsse_nonces.py), or None for one process with a store in memory."""
    file = database_file(store)
    if file is not None:
        return file.parent.parent / "nonces"
    return worker.folder / "nonces" if worker is not None else None


_APP = "feedproxy_app"
"""Attribute of a mitmproxy master that refers to its App."""


def bind_app(master: object, app: App) -> None:
    """Make `get_app` return this App for a mitmproxy master. Call this function before addons are added."""
    setattr(master, _APP, app)


def get_app(master: object) -> App:
    """Return the App of a mitmproxy master, created at the first call."""
    app: App | None = getattr(master, _APP, None)
    if app is None:
        bind_app(master, app := App())
    return app
