"""What the addons share: one Runtime per mitmproxy master, made from its options, started once.

Addons never import one another. Each asks `runtime(ctx.master)` and finds the same service, store, counts and
metrics, whichever of them came first. Loaded alone, an addon finds defaults for the options it does not declare.
"""

import asyncio
import contextlib
import logging
import secrets
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from feedproxy import __version__
from feedproxy.clock import Clock, Seconds, SystemClock
from feedproxy.errors import StoreError
from feedproxy.net.address import AddressPolicy
from feedproxy.net.fetch import Fetcher, FetchLimits
from feedproxy.origin.service import Service
from feedproxy.origin.trail import Fetching
from feedproxy.readers.count import SubscriberCounts
from feedproxy.readers.identify import Identifier
from feedproxy.report.metrics import Metrics
from feedproxy.rules import Rules
from feedproxy.settings import Settings, from_options, option_names, ports
from feedproxy.store.base import Store
from feedproxy.store.tiered import open_store

logger = logging.getLogger(__name__)

SAVE_INTERVAL: Seconds = 600
"""Counts are written this often; a crash forgets ten minutes of who read what, and no feed."""


class Client(Fetching, Protocol):
    """What the service fetches with; closed at the end."""

    async def close(self) -> None: ...


class Runtime:
    """Settings, and what was made from them. Created at the first look, opened at the first request."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._settings = Settings()
        self._adopted: Any = None
        self.rules = Rules()
        self.metrics = Metrics()
        self.draining = False
        self.tells_failures = False
        """`feedproxy serve` tells `failure` itself, in one line at the end; under mitmdump the log has to."""
        self.failure = ""
        """Why the proxy cannot run, told by an addon that found out after the start."""
        self.ready = False
        """The listeners are up, and not being closed."""
        self.requests = 0
        """Requests under way."""
        self.whole = False
        """The desk decides what goes upstream: whatever it did not let pass is refused (front/passing.py)."""
        self.connections = 0
        """Connections from readers held now."""
        self.trusted_ca: str | None = None
        self.insecure = False
        self.make_fetcher: Callable[[], Client] | None = None
        """Makes another client than net/fetch.py's: a recording, or an origin in memory."""
        self._opened: _Opened | None = None

    # -- settings

    @property
    def settings(self) -> Settings:
        """What the operator decided; what was opened already keeps the store and the limits it was opened with."""
        if self._adopted is not None:
            options, self._adopted = self._adopted, None
            names = set(options.keys())
            self._settings = from_options({name: getattr(options, name) for name in option_names() if name in names})
            if "ssl_verify_upstream_trusted_ca" in names:
                self.trusted_ca = options.ssl_verify_upstream_trusted_ca
                self.insecure = options.ssl_insecure
        return self._settings

    def configure(self, values: Mapping[str, Any]) -> None:
        """Take over option values."""
        self._adopted, self._settings = None, from_options(values)

    def adopt(self, options: Any) -> None:
        """Take over mitmproxy's options: those of ours that are declared, and its own word on upstream TLS.

        They are read when they are next asked for: mitmproxy configures every addon anew for each option declared.
        """
        self._adopted = options

    def set_rules(self, rules: Rules) -> None:
        """Take over the rules of `feeds:`."""
        self.rules = rules

    def settings_for(self, target: str) -> Settings:
        """The settings for one target, rules included."""
        return self.rules.settings_for(target, self.settings)

    # -- life

    @property
    def opened(self) -> bool:
        """Whether store and client are open."""
        return self._opened is not None

    @property
    def service(self) -> Service:
        """The service; opens store and client at the first look, inside a running event loop."""
        if self._opened is None:
            self._opened = _Opened(self)
        return self._opened.service

    @property
    def connect_policy(self) -> AddressPolicy:
        """Which addresses and ports CONNECT may reach."""
        _ = self.service
        assert self._opened is not None
        return self._opened.connect_policy

    @property
    def policy(self) -> AddressPolicy:
        """Which addresses may be reached."""
        _ = self.service
        assert self._opened is not None
        return self._opened.policy

    async def close(self) -> None:
        """Drain, write what is to be remembered, close."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            await opened.close(self.settings.drain_timeout)


class _Opened:
    """What needs an event loop, and is closed again."""

    def __init__(self, runtime: Runtime) -> None:
        settings = runtime.settings
        self.clock = runtime.clock
        self.store: Store = open_store(
            settings.store,
            memory_max=settings.memory_max,
            disk_max=settings.store_max,
            on_failure=runtime.metrics.store_failed,
        )
        self.policy = AddressPolicy(
            settings.allow_private, settings.allow_networks, ports(settings, settings.allow_ports)
        )
        self.connect_policy = AddressPolicy(
            settings.allow_private, settings.allow_networks, ports(settings, settings.connect_ports)
        )
        self.fetcher: Client = (runtime.make_fetcher or partial(_fetcher, runtime, self.policy))()
        self.counts = SubscriberCounts(
            window=settings.subscriber_window, claim_max=settings.claim_max, claim_jump=settings.claim_jump
        )
        with contextlib.suppress(StoreError, ValueError):
            self.counts.load(self.store.get_state("counts") or b"", runtime.clock.now())
        pseudonym = self._remembered("pseudonym", _new_pseudonym).decode()
        secret = self._remembered("reader-secret", lambda: secrets.token_bytes(32))
        self.service = Service(
            settings_for=runtime.settings_for,
            store=self.store,
            fetcher=self.fetcher,
            clock=runtime.clock,
            counts=self.counts,
            identifier=Identifier(secret, period=max(86_400, settings.subscriber_window)),
            pseudonym=pseudonym,
            version=__version__,
            observer=runtime.metrics,
        )
        self._saving = asyncio.ensure_future(self._save_now_and_then())

    def _remembered(self, name: str, make: Any) -> bytes:
        """A value of this installation, made at its first start."""
        try:
            found = self.store.get_state(name)
        except StoreError:
            found = None
        if found:
            return found
        value: bytes = make()
        self._pending = asyncio.ensure_future(self.store.put_state(name, value))
        return value

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(SAVE_INTERVAL)
            await self._save()

    async def _save(self) -> None:
        with contextlib.suppress(StoreError):
            await self.store.put_state("counts", self.counts.dump())

    async def close(self, timeout: Seconds) -> None:
        self._saving.cancel()
        await self.service.close(timeout)
        await self._save()
        await self.fetcher.close()
        await self.store.close()


def _fetcher(runtime: Runtime, policy: AddressPolicy) -> Fetcher:
    return Fetcher(
        policy,
        FetchLimits.from_settings(runtime.settings),
        clock=runtime.clock,
        ssl_context=_ssl_context(runtime.trusted_ca, insecure=runtime.insecure),
    )


def _new_pseudonym() -> bytes:
    return f"feedproxy-{secrets.token_hex(4)}".encode()


def _ssl_context(trusted_ca: str | None, *, insecure: bool) -> ssl.SSLContext:
    """TLS to origins: the system's authorities and the operator's (`ssl_verify_upstream_trusted_ca`)."""
    context = ssl.create_default_context()
    if trusted_ca:
        context.load_verify_locations(cafile=trusted_ca)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


_runtimes: "WeakKeyDictionary[object, Runtime]" = WeakKeyDictionary()


def runtime(master: object) -> Runtime:
    """The Runtime of this mitmproxy master."""
    found = _runtimes.get(master)
    if found is None:
        found = _runtimes[master] = Runtime()
    return found
