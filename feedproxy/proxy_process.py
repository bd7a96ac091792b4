"""`feedproxy serve`: a mitmproxy master with feedproxy's addons. On SIGTERM, it finishes open requests and exits.

The master has only four of mitmproxy's default addons, because the others would take half of the time of a request.
"""

import asyncio
import contextlib
import ipaddress
import logging
import os
import re
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mitmproxy import exceptions, master, options
from mitmproxy.addons import core, disable_h2c, next_layer, proxyserver, tlsconfig
from mitmproxy.certs import CertStore
from mitmproxy.log import LegacyLogEvents
from mitmproxy.options import CONF_BASENAME
from mitmproxy.proxy.mode_servers import AsyncioServerInstance

from feedproxy import option_files, systemd
from feedproxy.access.authorization import AccessControl
from feedproxy.addons import default_addons
from feedproxy.admin.admin_authorization import admin_address, admin_token
from feedproxy.app import App, bind_app
from feedproxy.clock import Seconds
from feedproxy.config_file import (
    Config,
    OptionSpec,
    check_values,
    from_environment,
    load,
    option_specs,
    parse_sets,
    spec_of,
    unknown_variables,
)
from feedproxy.durations_and_sizes import format_quantity
from feedproxy.errors import CannotListen, FeedproxyError, UsageError
from feedproxy.feed_rules import Rule, Rules
from feedproxy.fleet.redis_connection import RedisConnection
from feedproxy.http import uri
from feedproxy.memory_max_shares import BESIDE_CACHES, fitting_memory_max
from feedproxy.server.fastpath.client_tls_connection import ReloadingCertificate
from feedproxy.server.fastpath.gc_policy import GcScheduler, freeze_startup_objects, without_collections
from feedproxy.server.fastpath.listener import Listener
from feedproxy.server.fastpath.mitmproxy_compatibility import select_modes
from feedproxy.server.fastpath.sockets import reject_new_connections, wait_accept_queue_empty
from feedproxy.settings import Settings, declare, defaults, listen_address, option_names, restart_names
from feedproxy.store import folder_lock
from feedproxy.store.tiered import MEMORY, store_folder
from feedproxy.telemetry.log_format import LineHandler
from feedproxy.upstream import local_failure, parent_proxy
from feedproxy.upstream.parent_proxy import OPTION
from feedproxy.workers.available_memory import available_memory
from feedproxy.workers.worker_context import WorkerContext
from feedproxy.workers.worker_messages import WorkerPeers

logger = logging.getLogger("feedproxy")

MITMPROXY_DEFAULTS: dict[str, Any] = {
    # With `eager`, each hit would open an upstream connection, and fail if the origin is unavailable.
    "connection_strategy": "lazy",
    "rawtcp": False,
    "websocket": False,
    "http3": False,
    # mitmproxy has only this timeout for connections. It must exceed the longest hook (answer_timeout).
    "tcp_timeout": 75,
    "listen_host": "127.0.0.1",
    "listen_port": 8080,
}

ALL_ADDRESSES = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 -- compared, not bound
"""Hosts in `listen` and `admin` that stand for all addresses of the machine."""

PATH_OPTIONS = frozenset(
    {
        "admin_token_file",
        "certs",
        "client_certs",
        "confdir",
        "fleet_local",
        "record",
        "ssl_verify_upstream_trusted_ca",
        "ssl_verify_upstream_trusted_confdir",
        "store",
        "tls_certificate",
        "tls_key",
        "tokens_file",
        "users_file",
        "wallet",
        "wsse_file",
    }
)
"""Options of feedproxy and mitmproxy that name files or folders."""

HEARTBEAT_INTERVAL: Seconds = 0.5
"""Seconds between two heartbeats of a worker to its supervisor."""

OTHER_DESCRIPTORS = 1024
"""The process needs this many file descriptors besides those of clients: for store, exchanges, helper processes and
body files."""

FILES_MIN = 256
"""The process needs at least this many file descriptors: about 70 for itself, 32 that stay free for the store
(upstream/local_failure.py), and those of clients and origins."""

CONNECTION_WAIT: Seconds = 0.05
"""The proxy waits this many seconds between closing the listeners and refusing connections.

In this time, it takes over connections that the system has already accepted.
"""

SWITCH_INTERVAL: Seconds = 0.0005
"""A computing thread must release Python's interpreter lock after this many seconds.

With Python's default, clients would wait for 5 ms whenever a thread compresses or stores.
"""


class LoadedOptions(NamedTuple):
    """The options and rules of all sources."""

    config: Config
    """The configuration file."""
    overrides: Mapping[str, Any]
    """Options from flags, `--set` and the environment, which take precedence over the configuration file."""

    @contextlib.contextmanager
    def locating(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.OptionsError, UsageError) as error:
            # All messages begin with the option's name.
            option = re.match(r"\w*", str(error))[0]  # type: ignore[index]  # it matches at least the empty string
            location = self.config.locations.get(option) if option not in self.overrides else None
            raise UsageError(f"{location}: {error}" if location else str(error)) from error


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The settings for a supervisor of several workers."""

    size: int
    scheme: str
    listen: tuple[str, int]
    admin: tuple[str, int] | None
    drain_timeout: int
    reuse_port: bool
    folder: Path | None
    """Folder of the store to be locked by the supervisor, or None if other processes may use the folder."""
    fixed: Mapping[str, Any]
    """Options that a reload does not change, and that a restarted worker gets, too."""
    specs: Mapping[str, OptionSpec]
    """The specifications of all options, for a reload."""
    loaded: LoadedOptions
    """The options of all sources, as read at the start."""


@dataclass(frozen=True, slots=True)
class ServePlan:
    """Arguments of `serve`: the sources of options, and sockets that are already open."""

    config: str = ""
    sets: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options from flags, which take precedence over `--set`, the environment and the configuration file."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, which may set options."""
    sockets: tuple[socket.socket, ...] = ()
    """Listening sockets for clients from systemd, in place of `listen`."""
    admin_sockets: tuple[socket.socket, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Options that the supervisor sets at the start of a worker. They take precedence over all sources."""
    loaded: LoadedOptions | None = None
    """The options of all workers. A restarted worker gets these, because the configuration file may have changed."""


class Master(master.Master):
    """mitmproxy's master, which logs the exhaustion of local resources in one line."""

    def _asyncio_exception_handler(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if local_failure.is_exhaustion(error):
            local_failure.complaints.warn(f"{context.get('message') or 'a task failed'}: {error}")
        else:
            super()._asyncio_exception_handler(loop, context)


def make_master(plan: ServePlan, app: App | None = None) -> tuple[master.Master, App]:
    """Return a configured master and its App. Requires a running event loop. Raises UsageError if the configuration is
    invalid."""
    return _make_master(plan, app)[:2]


def _make_master(plan: ServePlan, app: App | None) -> tuple[master.Master, App, LoadedOptions]:
    declared = options.Options()
    # Set before addons are added, because mitmproxy configures all addons again for each option that changes.
    declared.update_defer(**MITMPROXY_DEFAULTS)
    declare(declared, *defaults())
    proxy_master = Master(declared)
    _remove_log_events(proxy_master)
    app = app or App()
    bind_app(proxy_master, app)
    first = [core.Core(), disable_h2c.DisableH2C(), proxyserver.Proxyserver()]
    addons = [*first, *default_addons(), next_layer.NextLayer(), tlsconfig.TlsConfig()]
    # The chain gets all addons at once, because mitmproxy configures each addon in it again for each new option.
    proxy_master.addons.chain += [proxy_master.addons.register(addon) for addon in addons]
    loaded = plan.loaded
    if loaded is None:
        specs = known_options(proxy_master)
        loaded = _read(plan, specs)
        for variable, suggestion in unknown_variables(plan.environment, specs).items():
            logger.warning("config: environment variable %s sets no option: did you mean %s?", variable, suggestion)
    config, overrides = loaded
    app.set_rules(Rules(config.rules))
    with loaded.locating():
        values = {**_with_modes(config.options), **_with_modes(overrides), **plan.fixed}
        values = {**_fitting_defaults(values), **values}
        _check_mode(values)
        _check_paths(values)
        _check_confdir(values.get("confdir", proxy_master.options.confdir), values.get("cert_passphrase") or "")
        proxy_master.options.update(**values)  # mitmproxy now creates the certificate authority
        _check(app)
        mode = _reverse_mode(app.settings) if app.settings.upstream else ""
    derived: dict[str, Any] = {"mode": [mode], "keep_host_header": True} if mode else {}
    if "tcp_timeout" not in values:
        derived["tcp_timeout"] = max(75, app.settings.answer_timeout + 30)
    if app.settings.fast_path and not app.settings.record:  # the fast path makes no flows, which the recording needs
        derived["mode"] = select_modes(derived.get("mode", proxy_master.options.mode))
    proxy_master.options.update(**derived)
    with loaded.locating():
        if app.settings.tls_certificate and not all(mode.startswith("front") for mode in proxy_master.options.mode):
            raise UsageError("tls_certificate: TLS for readers needs the fast path (fast_path: true, without record)")
    return proxy_master, app, loaded


def _read(plan: ServePlan, specs: Mapping[str, OptionSpec]) -> LoadedOptions:
    """Return the options of the configuration file, and those of other sources. Raises UsageError if an option is
    invalid."""
    config = load(plan.config, specs) if plan.config else Config()
    overrides = {**from_environment(plan.environment, specs), **parse_sets(plan.sets, specs)}
    return LoadedOptions(config, overrides | check_values(plan.options, specs))


def read_again(plan: ServePlan, specs: Mapping[str, OptionSpec], rules: Rules) -> LoadedOptions:
    """Return the options of all sources for a reload. Raises UsageError if the configuration is invalid.

    A pipe is refused, because it can be read only once. An empty file is refused while `rules`, those in force, protect
    feeds, because an editor may be writing the file.
    """
    if plan.config and Path(plan.config).is_fifo():
        raise UsageError(f"{plan.config}: it is a pipe, which can be read only at the start")
    loaded = _read(plan, specs)
    if plan.config and not loaded.config.options and not loaded.config.rules and rules.protecting_count:
        raise UsageError(f"{plan.config}: it is empty, and rules with readers or private are in force")
    return loaded


def reload(proxy_master: master.Master, app: App, plan: ServePlan) -> None:
    """Load the configuration and the TLS certificate again, apply what needs no restart, and log the result.

    After a mistake, nothing is applied. The service manager is notified of the beginning and the end.
    """
    with systemd.reloading() if app.ready else contextlib.nullcontext():
        _reload(proxy_master, app, plan)


def _reload(proxy_master: master.Master, app: App, plan: ServePlan) -> None:
    protecting = app.configured_rules.protecting_count
    try:
        loaded = read_again(plan, known_options(proxy_master), app.configured_rules)
        config, overrides = loaded
        values = {**config.options, **overrides}
        values = {**defaults(), **_fitting_defaults(values), **values}
        changed = {
            name: value
            for name in defaults()
            if (value := values[name]) != _plain_value(getattr(proxy_master.options, name))
        }
        later = [name for name in changed if name in restart_names()]
        now = {name: value for name, value in changed.items() if name not in later}
        with loaded.locating():
            _apply(proxy_master, app, now, Rules(config.rules))
    except UsageError as error:
        logger.error("configuration not loaded, keeping the previous one: %s", error)
        return
    _set_log(app.settings)
    for listener in _listeners(proxy_master):
        if isinstance(listener, Listener):
            listener.reload_certificate()
    logger.info(
        "configuration loaded: %d rules; options changed: %s", len(app.configured_rules), ", ".join(now) or "none"
    )
    if (remaining := app.configured_rules.protecting_count) < protecting:
        logger.warning("rules with readers or private: %d, and %d before", remaining, protecting)
    if later:
        logger.warning("these options take effect after a restart: %s", ", ".join(later))


def _listeners(proxy_master: master.Master) -> list[Any]:
    server: proxyserver.Proxyserver = proxy_master.addons.get("proxyserver")
    return [listener for instance in server.servers for listener in getattr(instance, "_servers", ())]


def _apply(proxy_master: master.Master, app: App, options: Mapping[str, Any], rules: Rules) -> None:
    """Set both rules and options, or neither. Raises UsageError or mitmproxy's OptionsError."""
    _check_paths(options)
    former, former_rules = {name: getattr(proxy_master.options, name) for name in options}, app.configured_rules
    app.set_rules(rules)
    try:
        proxy_master.options.update(**options)
        _check(app)
    except (exceptions.OptionsError, UsageError):
        app.set_rules(former_rules)
        proxy_master.options.update(**former)
        raise


def _plain_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value


def known_options(proxy_master: master.Master) -> dict[str, OptionSpec]:
    """Return the specifications of all options of this master, feedproxy's and mitmproxy's."""
    own = option_specs()
    return {
        name: own.get(name) or spec_of(option.typespec, option.choices) for name, option in proxy_master.options.items()
    }


async def check(plan: ServePlan) -> list[str]:
    """Check the configuration as at a start. Return lines that describe it. Raises UsageError if the configuration is
    invalid."""
    proxy_master, app, loaded = _make_master(plan, None)
    settings = app.settings
    with loaded.locating():
        if settings.admin:
            admin_address(settings.admin, admin_token(settings))
        AccessControl(settings, app.clock, b"")  # reads the files of users, tokens and credentials
        _check_folders(settings)
        if settings.is_fleet:
            RedisConnection(settings.store, timeout=1)  # checks the address without a connection
    kind = f"reverse, in front of {settings.upstream}" if settings.upstream else "gateway and explicit proxy"
    defaults = Settings()
    changed = [name for name in option_names() if getattr(settings, name) != getattr(defaults, name)]
    rules, options = len(app.rules), proxy_master.options
    return [
        f"mode:    {kind}",
        f"listen:  {options.listen_host or '*'}:{options.listen_port}; admin: {settings.admin or 'off'}",
        f"options: {len(changed)} not at their default{': ' if changed else ''}{', '.join(changed)}",
        f"rules:   {rules}",
        *([f"{OPTION}: {proxy}"] if (proxy := parent_proxy.without_password(settings.upstream_proxy)) else []),
        *(f"warning: {warning}" for warning in _warnings(settings, app.configured_rules.rules)),
    ]


READABLE_BY_OTHERS = 0o044
"""Bits of a file's mode that permit other users to read the file."""


def _warnings(settings: Settings, rules: Iterable[Rule] = ()) -> list[str]:
    """Return warnings about settings and rules that are valid but probably not intended."""
    warnings = []
    has_readers = settings.readers or any(rule.overrides.get("readers") for rule in rules)
    if has_readers and not (settings.users_file or settings.wsse_file or settings.tokens_file):
        warnings.append("readers: no client can sign in without users_file, wsse_file or tokens_file")
    if settings.upstream and not settings.public_url:
        warnings.append(
            "public_url is not set: feeds, redirects and notifications cannot name the address that readers use"
        )
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < settings.max_connections:
        warnings.append(
            f"max_connections: {settings.max_connections}, but this process may open only {files} files (ulimit -Hn)"
        )
    available = available_memory()
    if settings.memory_max > fitting_memory_max(settings.memory_max, available, settings.workers):
        needed = (2 * settings.memory_max + BESIDE_CACHES) * settings.workers
        warnings.append(
            f"memory_max: {format_quantity(settings.memory_max, 'B')} and {settings.workers} workers may take"
            f" {needed // 2**20} MiB, but the machine or container has {available // 2**20} MiB"
        )
    for name in ("wsse_file", "wallet", "admin_token_file"):
        path = option_files.expand(getattr(settings, name)) if getattr(settings, name) else None
        with contextlib.suppress(OSError):
            if path is not None and (mode := path.stat().st_mode) & READABLE_BY_OTHERS:
                warnings.append(
                    f"{name}: {path} holds secrets and other users can read it: mode {mode & 0o777:04o}, not 0600"
                )
    return warnings


def _check_folders(settings: Settings) -> None:
    """Check that the folders of store and recording are writable. Raises UsageError otherwise."""
    folders = {"store": None if settings.is_fleet or settings.store == MEMORY else store_folder(settings.store)}
    folders["record"] = option_files.expand(settings.record).absolute().parent if settings.record else None
    for name, folder in folders.items():
        if folder is None:
            continue
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if not nearest.is_dir():
            raise UsageError(f"{name}: {nearest} is not a folder")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise UsageError(f"{name}: cannot write to {nearest}")


def _remove_log_events(proxy_master: master.Master) -> None:
    """Remove mitmproxy's log handler that makes an event of each line. No addon uses the events."""
    for handler in list(logging.getLogger().handlers):
        if isinstance(handler, LegacyLogEvents) and handler.master is proxy_master:
            handler.uninstall()


def _fitting_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults that depend on this machine or container: `memory_max`."""
    workers = values.get("workers", Settings().workers)
    return {"memory_max": fitting_memory_max(Settings().memory_max, available_memory(), workers)}


def _with_modes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with `listen` split into mitmproxy's listen_host and listen_port, unless these are set."""
    if "listen" not in values:
        return dict(values)
    host, port = listen_address(values["listen"], "listen")
    return {"listen_host": host, "listen_port": port, **values}


def _check_mode(values: Mapping[str, Any]) -> None:
    for mode in values.get("mode", ()):
        if mode.partition("@")[0] != "regular":
            # Any other mode would bypass the entrances and their checks.
            expected = "gateway and explicit proxy (regular), or reverse by the option upstream"
            raise UsageError(f"mode: {mode} is not supported: expected {expected}")


def _check(app: App) -> None:
    """Check values that would cause failures later. Raises UsageError for such a value."""
    settings = app.settings
    if settings.tls_certificate:
        ReloadingCertificate(settings.tls_certificate, settings.tls_key)
    elif settings.tls_key:
        raise UsageError("tls_key: tls_certificate is not set, and without it clients are served without TLS")
    if settings.workers > 1 and settings.local_store == MEMORY:
        raise UsageError(f"workers: {settings.workers} workers need a shared store: store is {MEMORY}")
    if settings.admin:
        admin, listen = listen_address(settings.admin, "admin"), listen_address(settings.listen, "listen")
        if admin == listen and admin[1]:
            raise UsageError(f"admin: {settings.admin} is the address of `listen`, too: expected another port")
    _check_parents(app)
    try:
        if app.trusted_ca:
            option_files.read(Path(app.trusted_ca))
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=app.trusted_ca)
    except OSError as error:
        raise UsageError(f"ssl_verify_upstream_trusted_ca: {app.trusted_ca}: {error.strerror or error}") from error


def _check_parents(app: App) -> None:
    """Check that no `upstream_proxy` in settings and rules is this proxy itself. Raises UsageError for such an
    option."""
    for value in sorted({app.settings.upstream_proxy, *(rule.overrides.get(OPTION, "") for rule in app.rules.rules)}):
        parent = parent_proxy.parse(value) if value != parent_proxy.ENVIRONMENT else None
        if parent is not None and _is_own_address(app.settings, parent.host, parent.port):
            raise UsageError(f"{OPTION}: {parent} is this proxy itself")


def _is_own_address(settings: Settings, host: str, port: int) -> bool:
    """Return True if this proxy listens at this loopback address."""
    addresses = [listen_address(settings.listen, "listen")]
    if settings.admin:
        addresses.append(listen_address(settings.admin, "admin"))
    return uri.is_this_machine(host) and any(
        port == own_port and (own_host in ALL_ADDRESSES or uri.is_this_machine(own_host))
        for own_host, own_port in addresses
    )


def _check_paths(values: Mapping[str, Any]) -> None:
    """Check that each path can be expanded. Raises UsageError for the home folder of an unknown user."""
    for name in PATH_OPTIONS & values.keys():
        for value in values[name] if isinstance(values[name], list) else (values[name],):
            try:
                # An entry of `certs` may begin with the name of a host: DOMAIN=PATH.
                option_files.expand(value.rpartition("=")[2] if name == "certs" else value or "")
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from error


def _check_confdir(confdir: str, passphrase: str) -> None:
    """Check that mitmproxy can use its certificate authority in `confdir`, or write one. Raises UsageError
    otherwise."""
    folder = option_files.expand(confdir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"confdir (for the CA): {folder} cannot be used: {error.strerror or error}") from error
    authority, parameters = (folder / f"{CONF_BASENAME}-{name}.pem" for name in ("ca", "dhparam"))
    if not authority.exists():
        if not os.access(folder, os.W_OK):
            raise UsageError(f"confdir (for the CA): {folder} cannot be written to")
        return
    try:
        for file in (authority, parameters):
            if file.exists():
                option_files.read(file)
        # mitmproxy logs an error as a traceback, and continues without an authority.
        CertStore.from_files(authority, parameters, passphrase.encode() or None)
    except OSError as error:
        raise UsageError(f"confdir (for the CA): {file}: {error.strerror or error}") from error
    except (ValueError, TypeError, IndexError) as error:
        expected = "expected a private key and a certificate (without the file, feedproxy makes a new CA)"
        raise UsageError(f"confdir (for the CA): {authority} is damaged: {expected}") from error


def _reverse_mode(settings: Settings) -> str:
    """Return mitmproxy's mode for `upstream`, always with http, because feedproxy makes the connections."""
    upstream = settings.upstream
    try:
        host, port = uri.split_host_port(uri.normalise(upstream))
    except FeedproxyError as error:
        raise UsageError(f"upstream: {upstream}: {error}") from error
    if "?" in upstream or "#" in upstream:
        raise UsageError(f"upstream: {upstream}: an origin has no query and no fragment")
    if _is_own_address(settings, host, port):
        raise UsageError(f"upstream: {upstream} is this proxy itself")
    return f"reverse:http://{uri.join_host_port(host, port)}"


class _Lifecycle:
    """Addon that reports the listeners, sends heartbeats and drains the proxy."""

    def __init__(self, proxy_master: master.Master, app: App, announce: Callable[[str], None]) -> None:
        self._master = proxy_master
        self._app = app
        self._announce = announce
        self.failure = ""

    def running(self) -> None:
        if self._app.failure:
            return  # the master is shutting down
        server: proxyserver.Proxyserver = self._master.addons.get("proxyserver")
        addresses = server.listen_addrs()
        failures = [instance.last_exception for instance in server.servers if instance.last_exception]
        if failures or not addresses:
            self.failure = _short_reason(failures[0]) if failures else "no listener"
            self._master.shutdown()
            return
        self._app.ready = True
        freeze_startup_objects()
        if not any(mode.startswith("front") for mode in self._master.options.mode):
            self._collect_garbage(GcScheduler(asyncio.get_running_loop().time()))
        sys.setswitchinterval(SWITCH_INTERVAL)
        scheme = _scheme(self._app.settings)
        for host, port, *_ in addresses:
            self._announce(f"{scheme}://{uri.join_host_port(host, port)}")
        if self._app.worker is not None:
            self._send_heartbeats(self._app.worker)
        else:
            systemd.notify("READY=1\nSTATUS=ready")
            self._notify_watchdog(systemd.watchdog())
        if self._app.worker is None or self._app.worker.is_first:
            self._warn_if_open(addresses)
        if not self._app.settings.public_url:
            logger.info("public_url is not set: push updates (WebSub, rssCloud, CNWS) are disabled")

    def _warn_if_open(self, addresses: Iterable[tuple[Any, ...]]) -> None:
        """Log a warning if other machines may use the proxy without restriction."""
        settings = self._app.settings
        if settings.upstream or settings.readers:
            return
        for host, port, *_ in addresses:
            if ipaddress.ip_address(host.partition("%")[0]).is_loopback:
                continue
            name = socket.gethostname() if host in ALL_ADDRESSES else host
            message = "listen: every machine that reaches %s may use this proxy (readers is empty)"
            logger.warning(message, uri.join_host_port(name, port))
            return

    def _collect_garbage(self, garbage: GcScheduler) -> None:
        """Run garbage collections if there is no fast path. The fast path would run them while clients are idle."""
        loop = asyncio.get_running_loop()
        loop.call_later(1, self._collect_garbage, garbage)
        garbage.maybe_collect(loop.time(), int(loop.time()))

    def _send_heartbeats(self, worker: WorkerContext) -> None:
        """Send heartbeats to the supervisor while the event loop runs."""
        worker.record_heartbeat()
        asyncio.get_running_loop().call_later(HEARTBEAT_INTERVAL, self._send_heartbeats, worker)

    def _notify_watchdog(self, interval: Seconds | None) -> None:
        """Notify systemd's watchdog while the event loop runs."""
        if interval is not None:
            systemd.notify("WATCHDOG=1")
            asyncio.get_running_loop().call_later(interval, self._notify_watchdog, interval)

    async def drain(self) -> None:
        """Stop listening, finish requests within `drain_timeout`, and shut down.

        Connections in the accept queue are still served.
        """
        app = self._app
        if app.terminating:
            return
        app.terminating = True
        app.ready = False
        logger.info("shutting down: finishing open requests (up to %s s)", app.settings.drain_timeout)
        if app.worker is None:
            systemd.notify("STOPPING=1\nSTATUS=draining")
        loop = asyncio.get_running_loop()
        deadline = app.drain_deadline = loop.time() + app.settings.drain_timeout
        listeners = _listeners(self._master)
        sockets = [listening_socket for listener in listeners for listening_socket in listener.sockets]
        if not app.sockets:
            for listening_socket in sockets:
                reject_new_connections(listening_socket)  # sockets of a supervisor or of systemd stay open
        if app.worker is not None or not app.sockets:
            await wait_accept_queue_empty(sockets)
        for listener in listeners:
            listener.close()
        await asyncio.sleep(CONNECTION_WAIT)
        app.draining = True
        self._master.options.update(server=False)
        while self._app.requests + self._app.fastpath_requests > 0 and loop.time() < deadline:  # noqa: ASYNC110 (it happens once)
            await asyncio.sleep(0.05)
        self._master.shutdown()


async def serve(
    plan: ServePlan,
    announce: Callable[[str], None],
    app: App | None = None,
    worker: WorkerContext | None = None,
) -> int | WorkerOptions:
    """Run the proxy until SIGTERM or SIGINT. Return the exit code. Raises UsageError if the configuration is invalid,
    and CannotListen if an address cannot be listened on.

    `announce` is called with each listening address. If several workers are configured and `worker` is None, the proxy
    does not run, and the result is the settings for their supervisor (supervisor.py).
    """
    proxy_master, app, loaded = _make_master(plan, app)
    with loaded.locating():
        if app.settings.workers > 1 and worker is None:
            return _worker_options(proxy_master, app, loaded)
    _raise_descriptor_limit(app.settings)
    app.worker = worker
    for port in worker.admin_ports if worker is not None else ():
        app.listeners.add(port, for_readers=False)
    app.sockets = worker.sockets if worker is not None else plan.sockets
    app.admin_sockets = worker.admin if worker is not None else plan.admin_sockets
    _listen_as_given(app)
    _set_log(app.settings)
    for warning in _warnings(app.settings, app.configured_rules.rules):
        logger.warning("%s", warning)
    life = _Lifecycle(proxy_master, app, announce)
    proxy_master.addons.add(life)
    loop = asyncio.get_running_loop()
    drains: set[asyncio.Task[None]] = set()

    def stop() -> None:
        if worker is not None:
            loop.remove_reader(worker.lifeline)  # it stays readable, and would call this function again and again
        drains.add(asyncio.ensure_future(life.drain()))

    for name in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(name, stop)
    with contextlib.suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGHUP, reload, proxy_master, app, plan)
    app.reports_failures = True
    lock = folder_lock.acquire(folder) if worker is None and (folder := _own_folder(app.settings)) else None
    with loaded.locating():
        with without_collections():
            _ = app.service  # opens the store now, so that a failure ends the start
        try:
            _ = app.recorder  # opens the recording now, so that a failure ends the start
        except UsageError as error:
            await app.close()
            raise UsageError(f"record: {error}") from error
    if app.settings.feed_process:
        app.service.helper_pool.start()
    if worker is not None:
        loop.add_reader(worker.lifeline, stop)  # the socket becomes readable when the supervisor exits
        await app.service.store.flush()  # the next worker must find the pseudonym and secrets of the installation
        if isinstance(app.peer_metrics, WorkerPeers):
            await app.peer_metrics.start()
    if app.fleet is not None:
        await app.fleet.start()
    if app.terminating:
        await proxy_master.done()  # a signal has ended the start, and run() would forget the call of shutdown()
    else:
        await proxy_master.run()
    if lock is not None:
        os.close(lock)
    if life.failure:
        address = f"{proxy_master.options.listen_host}:{proxy_master.options.listen_port}"
        raise CannotListen(f"cannot listen on {address}: {life.failure} (--listen HOST:PORT names another address)")
    if app.failure is not None:
        raise app.failure
    return 0


def _raise_descriptor_limit(settings: Settings) -> None:
    """Raise this process's limit of open files to what `max_connections` needs, if the system permits. Raises
    UsageError if the limit remains below FILES_MIN.

    Shells and service managers often set 1,024, for programs that use select(2).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        raise UsageError(f"this process may open only {hard} files (ulimit -Hn): expected at least {FILES_MIN}")
    needed = settings.max_connections + OTHER_DESCRIPTORS
    if soft < needed and soft != resource.RLIM_INFINITY:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (needed if hard == resource.RLIM_INFINITY else min(needed, hard), hard)
        )


def _scheme(settings: Settings) -> str:
    return "https" if settings.tls_certificate else "http"


def _worker_options(proxy_master: master.Master, app: App, loaded: LoadedOptions) -> WorkerOptions:
    settings = app.settings
    admin = admin_address(settings.admin, admin_token(settings)) if settings.admin else None
    listen = (proxy_master.options.listen_host, proxy_master.options.listen_port)
    # Otherwise a worker that starts after a change of the file would have another store or upstream than the others.
    fixed = {name: getattr(proxy_master.options, name) for name in restart_names()}
    return WorkerOptions(
        settings.workers,
        _scheme(settings),
        listen,
        admin,
        settings.drain_timeout,
        settings.reuse_port,
        _own_folder(settings),
        fixed,
        known_options(proxy_master),
        loaded,
    )


def _own_folder(settings: Settings) -> Path | None:
    """Return the folder of the store, or None if this proxy does not own it: in memory, or shared because of
    `reuse_port`."""
    return None if settings.local_store == MEMORY or settings.reuse_port else store_folder(settings.local_store)


def _listen_as_given(app: App) -> None:
    """Make mitmproxy listen on the sockets passed to this process, or on a shared port."""
    shared = app.worker is not None or app.settings.reuse_port
    if not app.sockets and not shared:
        return

    async def listen(instance: AsyncioServerInstance[Any], host: str, port: int) -> list[Any]:
        if instance.mode.custom_listen_port is not None or not app.sockets:
            return [await asyncio.start_server(instance.handle_stream, host, port, reuse_port=shared or None)]
        return [await asyncio.start_server(instance.handle_stream, sock=passed_socket) for passed_socket in app.sockets]

    # The class may be changed for the whole process, because the process runs only this master.
    AsyncioServerInstance.listen = listen  # type: ignore[method-assign,assignment]


def _short_reason(error: BaseException) -> str:
    """Return the system's reason why a listener could not be opened, in place of mitmproxy's three lines."""
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(error).rpartition(" with ")[2]


def _is_real_error(record: logging.LogRecord) -> bool:
    """Return True if a log record is an error. The cancellation of tasks, which asyncio logs before 3.12.3, is no
    error."""
    return not (record.exc_info and record.exc_info[0] is asyncio.CancelledError)


def log_to(stream: Any = None) -> None:
    """Log feedproxy's lines and mitmproxy's warnings to a stream."""
    handler = LineHandler(stream or sys.stderr)
    handler.addFilter(_is_real_error)
    logging.getLogger().addHandler(handler)
    # A failure to listen is reported once, as the reason for the exit.
    logging.getLogger("mitmproxy.addons.proxyserver").setLevel(logging.CRITICAL)
    _set_log(Settings())


def _set_log(settings: Settings) -> None:
    root, level = logging.getLogger(), logging.getLevelNamesMapping()[settings.log_level.upper()]
    for handler in root.handlers:
        if isinstance(handler, LineHandler):
            handler.set_form(settings.log_format)
    root.setLevel(logging.INFO if level == logging.DEBUG else max(level, logging.WARNING))
    logging.getLogger("feedproxy").setLevel(level)
