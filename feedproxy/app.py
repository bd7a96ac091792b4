"""What the addons share: one App per mitmproxy master, made from its options, started once.

Addons never import one another. Each asks `runtime(ctx.master)` and finds the same service, store, counts and
metrics, whichever of them came first. Loaded alone, an addon finds defaults for the options it does not declare.
"""

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from feedproxy import __version__
from feedproxy.access.gatekeeper import Gatekeeper
from feedproxy.admin.server import Deed
from feedproxy.clock import Clock, Seconds, SystemClock
from feedproxy.cluster.node import ClusterNode
from feedproxy.endpoints.feed_list import FeedList, ImportedFeeds
from feedproxy.errors import StoreError
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.http.redaction import host_alone, without_secrets
from feedproxy.lab.record.recorder import Recorder, RecordingClient
from feedproxy.notify.database import database_file
from feedproxy.notify.notification_service import NotificationService
from feedproxy.proxy.service import Service
from feedproxy.proxy.visibility import is_public
from feedproxy.refresh.credentialed_client import CredentialedClient
from feedproxy.refresh.events import Events
from feedproxy.refresh.paused_and_blocked import OperatorDecisions
from feedproxy.refresh.redirects import OriginClient
from feedproxy.request.endpoints import Call, Endpoints
from feedproxy.request.upstream_request import is_credential
from feedproxy.request.url_mapping import to_public
from feedproxy.rules import Rule, Rules, may_serve_under
from feedproxy.scoring.live_scores import LiveScores
from feedproxy.settings import Settings, deprecated_names, from_options, option_names, ports
from feedproxy.store.interface import Store
from feedproxy.store.permitted_store import PermittedStore
from feedproxy.store.tiered import open_store
from feedproxy.subscribers.counts import SubscriberCounts
from feedproxy.subscribers.pseudonyms import Identifier
from feedproxy.telemetry.aggregation import NoPeers, PeerMetrics
from feedproxy.telemetry.history import HistoryRecorder
from feedproxy.telemetry.metrics import Metrics
from feedproxy.telemetry.recent_activity import RecentActivity
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.callback_client import CallbackClient
from feedproxy.upstream.client import Fetcher, FetchLimits
from feedproxy.upstream.own_listeners import OwnListeners
from feedproxy.upstream.parent_proxy import Parent, parent_of
from feedproxy.upstream.tls_context import upstream_context
from feedproxy.workers.peers import WorkerPeers
from feedproxy.workers.worker import WorkerContext

logger = logging.getLogger(__name__)

HISTORY_INTERVAL = 60
"""Seconds after which the history is written down: what a crash forgets of it at most."""

DECISIONS_INTERVAL = 1.0
"""Seconds after which a worker carries out what the operator has decided with another."""

SAVE_INTERVAL = 600
"""Counts are written this often; a crash forgets ten minutes of who read what, and no feed."""


class Client(OriginClient, Protocol):
    """What the service fetches with; closed at the end."""

    async def close(self) -> None: ...


class App:
    """Settings, and what was made from them. Created at the first look, opened at the first request."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._settings = Settings()
        self._adopted: Any = None
        self.rules = Rules()
        self.configured_rules = Rules()
        """Those of the configuration; `rules` are also what the operator has decided for single feeds."""
        self._configured: tuple[Rule, ...] = ()
        self.metrics = Metrics()
        self.journal = RecentActivity(
            self.metrics, self.clock, lambda: self.settings, lambda target: self.names_in_log(target)[0]
        )
        self.draining = False
        self.reports_failures = False
        """`feedproxy serve` tells `failure` itself, in one line at the end; under mitmdump the log has to."""
        self.failure = ""
        """Why the proxy cannot run, told by an addon that found out after the start."""
        self.ready = False
        """The listeners are up, and not being closed."""
        self.requests = 0
        """Requests under way in mitmproxy."""
        self.fastpath_requests = 0
        """Requests under way that the listener in front answers itself."""
        self.changed = 0
        """Another number after every change of options or rules."""
        self.seat: WorkerContext | None = None
        """Where this process is one of several workers."""
        self.sockets: tuple[socket.socket, ...] = ()
        """Sockets for readers that this process was given by its supervisor or by systemd: it binds none itself."""
        self.admin_sockets: tuple[socket.socket, ...] = ()
        """The same for the admin listener."""
        self.leaving = False
        """SIGTERM has come. What has connected already is still let in for a moment; `draining` comes after that."""
        self.drained_by: Seconds | None = None
        """When what is under way has had its time (`drain_timeout`), on the event loop's clock."""
        self.others: PeerMetrics = NoPeers()
        """The other workers."""
        self.whole = False
        """The desk decides what goes upstream: whatever it did not let pass is refused (server/mitm/passthrough.py)."""
        self.listeners = OwnListeners()
        """What listens here, and in the other workers: no target may lead there."""
        self.connections = 0
        """Connections from readers held now."""
        self.trusted_ca: str | None = None
        self.insecure = False
        self.make_fetcher: Callable[[], Client] | None = None
        """Makes another client than upstream/client.py's: a recording, or an origin in memory."""
        self.random_bytes: Callable[[int], bytes] = secrets.token_bytes
        """Where names and secrets come from that are made at the first start."""
        self.endpoints = Endpoints()
        """What stands under `/-/`: whoever offers an endpoint adds it here."""
        self.admin_actions: dict[str, Deed] = {}
        """What else the operator can do, by its path on the admin listener."""
        self.shown: dict[str, Deed] = {}
        """What else the operator can look at there, by its path."""
        self._panel = LiveScores()
        self._make_recorder: Callable[[], Recorder] | None = None
        self._recorder: Recorder | None = None
        self.notification_plugins: dict[str, Callable[[NotificationService], None]] = {}
        """Addons that hear and tell of changes: each adds what it has to the Notices when these are made."""
        self._opened: _Services | None = None

    # -- settings

    @property
    def settings(self) -> Settings:
        """What the operator decided; what was opened already keeps the store and the limits it was opened with."""
        if self._adopted is not None:
            options, self._adopted = self._adopted, None
            names = set(options.keys())
            self._settings = from_options(
                {name: getattr(options, name) for name in (*option_names(), *deprecated_names()) if name in names}
            )
            if "ssl_verify_upstream_trusted_ca" in names:
                self.trusted_ca = options.ssl_verify_upstream_trusted_ca
                self.insecure = options.ssl_insecure
        return self._settings

    def configure(self, values: Mapping[str, Any]) -> None:
        """Take over option values."""
        self.changed += 1
        self._adopted, self._settings = None, from_options(values)

    def adopt(self, options: Any) -> None:
        """Take over mitmproxy's options: those of ours that are declared, and its own word on upstream TLS.

        They are read when they are next asked for: mitmproxy configures every addon anew for each option declared.
        """
        self._adopted = options
        self.changed += 1

    def set_rules(self, rules: Rules) -> None:
        """Take over the rules of `feeds:`."""
        self.configured_rules = rules
        self._join_rules()

    def _set_configured(self, decided: tuple[Rule, ...]) -> None:
        self._configured = decided
        self._join_rules()

    def _join_rules(self) -> None:
        configured = self.configured_rules
        self.rules = Rules((*configured.rules, *self._configured)) if self._configured else configured
        self.changed += 1

    def settings_for(self, target: str) -> Settings:
        """The settings for one target, rules included."""
        return self.rules.settings_for(uri.without_fragment(target), self.settings)

    def parent_of(self, target: str) -> Parent | None:
        """The parent proxy that a target is asked for through. Raises ParentFailed."""
        return parent_of(self.settings_for(target).upstream_proxy, target)

    def may_lead(self, start: str, end: str | None) -> bool:
        """Whether what came from `end` may be had under the target `start`. None: where it came from is not known."""
        if end is not None:
            return may_serve_under(self.settings_for(start), self.settings_for(end))
        return not self.rules.protects_feeds

    def names_in_log(self, target: str, request: Fields | None = None) -> tuple[str, str]:
        """Return how the log names a target: its public address, and the one at the upstream where that is another.

        Only the host is named where not everybody may read what is there: a rule, credentials in the `request`, or the
        origin's answers say so (proxy/visibility.py). Other addresses lack their secrets.
        """
        public = to_public(target, self.settings)
        is_personal = request is not None and any(is_credential(name) for name, _ in request)
        try:
            resource = self.service.store.peek(target) if self.opened else None
            if is_personal or not is_public(self.settings_for(target), resource):
                return host_alone(public), ""
        except ValueError:
            pass  # it was refused, since it is no address
        return without_secrets(public), without_secrets(target) if public != target else ""

    # -- life

    @property
    def opened(self) -> bool:
        """Whether store and client are open."""
        return self._opened is not None

    @property
    def service(self) -> Service:
        """The service; opens store and client at the first look, inside a running event loop."""
        return self._open.service

    @property
    def _open(self) -> "_Services":
        if self._opened is None:
            self._opened = _Services(self)
        return self._opened

    @property
    def notices(self) -> NotificationService:
        """Who hears and who tells that a feed changed."""
        return self._open.notices

    async def rpc(self, call: Call) -> Response:
        """The endpoint of XML-RPC, which all who have methods for it offer."""
        return await self.notices.xmlrpc.answer(call)

    @property
    def feed_list(self) -> FeedList:
        """The list of what is read here, and what was imported into it."""
        return self._open.feed_list

    @property
    def decisions(self) -> OperatorDecisions:
        """What the operator has decided for single feeds."""
        return self._open.decisions

    @property
    def workers(self) -> int:
        """How many processes work on this port, this one included."""
        return self.seat.size if self.seat is not None else 1

    @property
    def history_recorder(self) -> HistoryRecorder:
        """What this process has done, by hour and day."""
        return self._open.history_recorder

    @property
    def fleet(self) -> ClusterNode | None:
        """What this machine does with the others that share its store; None where there are none."""
        return self._opened.fleet if self._opened is not None else None

    def condition(self) -> tuple[str, ...]:
        """What there is to say of how it stands, beside that it runs."""
        return (self.fleet.status_line(),) if self.fleet is not None else ()

    def problems(self) -> tuple[str, ...]:
        """What is wrong with parts of it now, each in a sentence for the operator."""
        return tuple(filter(None, (self.fleet.problem(),))) if self.fleet is not None else ()

    @property
    def doorkeeper(self) -> Gatekeeper:
        """Who may read what, and with what credentials we read for whom."""
        return self._open.doorkeeper

    @property
    def connect_policy(self) -> AddressPolicy:
        """Which addresses and ports CONNECT may reach."""
        return self._open.connect_policy

    @property
    def policy(self) -> AddressPolicy:
        """Which addresses may be reached."""
        return self._open.policy

    @property
    def live_scores(self) -> LiveScores:
        """The readers whose behaviour is judged while they read."""
        self._panel.size, self._panel.bytes_max = self.settings.score_readers, self.settings.memory.scores
        if self.seat is not None and not self._panel.partial:
            self._panel.join_workers(self.seat.index, self.seat.size, self.seat.key)
        return self._panel

    def record_with(self, make: Callable[[], Recorder] | None) -> None:
        """From now on exchanges go to this recorder, which is made when the first one does; None: to nobody."""
        self._make_recorder, self._recorder = make, None

    @property
    def recorder(self) -> Recorder | None:
        """Who writes down what is asked and answered, if anybody does."""
        if self._recorder is None and self._make_recorder is not None:
            self._recorder = self._make_recorder()
        return self._recorder

    def stored_secret(self, name: str) -> bytes:
        """A secret of this installation: 32 random bytes, the same as long as the store is."""
        return self._open.stored_secret(name, lambda: self.random_bytes(32))

    async def close(self) -> None:
        """Drain, write what is to be remembered, close."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            timeout: Seconds = self.settings.drain_timeout
            if self.drained_by is not None:
                timeout = max(0.0, self.drained_by - asyncio.get_running_loop().time())
            await opened.close(timeout)


class _Services:
    """What needs an event loop, and is closed again."""

    def __init__(self, runtime: App) -> None:
        settings = runtime.settings
        uri.site_of_host("www.example")  # loads the list of public suffixes now, not while readers wait
        self.clock = runtime.clock
        self.store: Store = open_store(
            settings.local_store,
            memory_max=settings.memory.responses,
            disk_max=settings.store_max,
            on_failure=runtime.metrics.store_failed,
            shared=runtime.seat.coordination_file if runtime.seat is not None else False,
        )
        self.fleet = ClusterNode(settings, self.store, runtime.clock) if settings.is_fleet else None
        name = partial(_new_pseudonym, runtime.random_bytes)
        makers = {"pseudonym": name, "reader-secret": partial(runtime.random_bytes, 32)}
        if self.fleet is not None:
            self.fleet.adopt_shared_state(makers)
            self.store = self.fleet.store
        permitted, own = (settings.allow_private, settings.allow_networks), runtime.listeners
        self.store = PermittedStore(self.store, runtime.may_lead)
        self.policy = AddressPolicy(*permitted, ports(settings, settings.allow_ports), listeners=own)
        self.connect_policy = AddressPolicy(*permitted, ports(settings, settings.connect_ports), listeners=own)
        pseudonym, secret = (self.stored_secret(*each) for each in makers.items())
        self.doorkeeper = Gatekeeper(settings, runtime.clock, secret, _nonces(settings.local_store, runtime.seat))
        client = (runtime.make_fetcher or partial(_make_client, runtime, self.policy))()
        credentialed = CredentialedClient(client, self.doorkeeper.with_credentials)
        self.fetcher: Client = RecordingClient(credentialed, lambda: runtime.recorder, runtime.clock)
        self.counts = SubscriberCounts(
            window=settings.subscriber_window, claim_max=settings.claim_max, claim_jump=settings.claim_jump
        )
        with contextlib.suppress(StoreError, ValueError):
            self.counts.load(self.store.get_state("counts") or b"", runtime.clock.now())
        with contextlib.suppress(StoreError):
            self.counts.rhythms.load(self.store.get_state("rhythms") or b"", runtime.clock.now())
        imports = ImportedFeeds(self.store)
        self.service = Service(
            settings_for=runtime.settings_for,
            store=self.store,
            fetcher=self.fetcher,
            clock=runtime.clock,
            counts=self.counts,
            identifier=Identifier(secret, period=max(86_400, settings.subscriber_window)),
            pseudonym=pseudonym.decode(),
            version=__version__,
            observer=runtime.journal,
            events=Events(),
            key_for=self.doorkeeper.key_for,
            peers=self.fleet,
            ownership=runtime.seat,
            demand=imports,
            limits=settings.memory,
        )
        self.decisions = OperatorDecisions(self.store, runtime._set_configured)
        self._reloading: asyncio.Task[None] | None = None
        if runtime.seat is not None or self.fleet is not None:
            self._reloading = asyncio.ensure_future(self._reload_decisions())
        seat = runtime.seat
        self.history_recorder = HistoryRecorder(
            runtime.metrics.tally, self.store, seat.index if seat else 0, runtime.workers
        )
        self.crew: WorkerPeers | None = None
        if seat is not None:
            told = (
                runtime.metrics,
                runtime.clock,
                lambda: runtime.connections,
                self.history_recorder,
                lambda: runtime.live_scores,
            )
            self.crew = runtime.others = WorkerPeers(seat, self.service, *told, runtime.journal)
        self.service.admin.resume()
        self.feed_list = FeedList(self.service, imports, runtime.clock, runtime.settings_for, lambda: runtime.changed)
        if seat is None or seat.is_first:
            self.feed_list.resume()
        context = upstream_context(runtime.trusted_ca, insecure=runtime.insecure)
        self.caller = CallbackClient(self.policy, ssl_context=context, parent_of=runtime.parent_of)
        self.notices = NotificationService(
            file=database_file(settings.local_store),
            service=self.service,
            settings=lambda: runtime.settings,
            settings_for=runtime.settings_for,
            caller=self.caller,
            clock=runtime.clock,
            listed_feeds=self.feed_list.public_addresses,
        )
        if self.fleet is not None:
            self.fleet.join(self.service, self.notices, runtime.metrics)
        for join in runtime.notification_plugins.values():
            join(self.notices)
        if runtime.notification_plugins:
            self.notices.start()
        self._saving = asyncio.ensure_future(self._save_periodically())

    def stored_secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """A value of this installation, made at its first start."""
        try:
            found = self.store.get_state(name)
        except StoreError:
            found = None
        if found:
            return found
        value = make()
        self._pending = asyncio.ensure_future(self.store.put_state(name, value))
        return value

    async def _reload_decisions(self) -> None:
        while True:
            await asyncio.sleep(DECISIONS_INTERVAL)
            with contextlib.suppress(StoreError):
                self.decisions.reload()

    async def _save_periodically(self) -> None:
        while True:
            for _ in range(SAVE_INTERVAL // HISTORY_INTERVAL):
                await asyncio.sleep(HISTORY_INTERVAL)
                await self.history_recorder.save(self.clock.now())
            await self._save()

    async def _save(self) -> None:
        await self.history_recorder.save(self.clock.now())
        with contextlib.suppress(StoreError):
            await self.store.put_state("counts", await self.counts.dump_yielding())
            await self.feed_list.save_requested()
            await self.store.put_state("rhythms", await self.counts.rhythms.dump_unhurried())

    async def close(self, timeout: Seconds) -> None:
        """Write what is to be remembered and let go; what is under way has `timeout` seconds in all."""
        until = asyncio.get_running_loop().time() + timeout
        self._saving.cancel()
        if self._reloading is not None:
            self._reloading.cancel()
        await asyncio.gather(self._saving, return_exceptions=True)  # it must not write after what is written last
        await self.feed_list.close()
        await self.service.close(timeout)
        if self.crew is not None:
            await self.crew.send_reads()  # who saves last, saves what all have counted
        if self.fleet is not None:
            await self.fleet.close()
        await self.notices.close(max(0.0, until - asyncio.get_running_loop().time()))
        await self._save()
        await self.caller.close()
        await self.fetcher.close()
        if self.crew is not None:
            await self.crew.close()
        await self.store.close()


def _nonces(store: str, seat: WorkerContext | None) -> Path | None:
    """Where workers remember nonces together, and through restarts; None where one process has no folder at all."""
    file = database_file(store)
    if file is not None:
        return file.parent.parent / "nonces"
    return seat.folder / "nonces" if seat is not None else None


def _make_client(runtime: App, policy: AddressPolicy) -> Fetcher:
    return Fetcher(
        policy,
        FetchLimits.from_settings(runtime.settings),
        clock=runtime.clock,
        ssl_context=upstream_context(runtime.trusted_ca, insecure=runtime.insecure),
        parent_of=runtime.parent_of,
    )


def _new_pseudonym(chance: Callable[[int], bytes]) -> bytes:
    return f"feedproxy-{chance(4).hex()}".encode()


_apps: "WeakKeyDictionary[object, App]" = WeakKeyDictionary()


def get_app(master: object) -> App:
    """The App of this mitmproxy master."""
    found = _apps.get(master)
    if found is None:
        found = _apps[master] = App()
    return found
