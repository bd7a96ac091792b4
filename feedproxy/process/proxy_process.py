"""`feedproxy serve`: one process that serves clients. On SIGTERM, it finishes open requests and exits."""

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mitmproxy import master
from mitmproxy.addons import proxyserver
from mitmproxy.proxy.mode_servers import AsyncioServerInstance
from msgspec import Struct

from feedproxy.access.authorization import AccessControl
from feedproxy.admin.admin_authorization import admin_address, admin_token
from feedproxy.app import App
from feedproxy.clock import Seconds
from feedproxy.config.option_types import OptionSpec
from feedproxy.errors import CannotListen, UsageError
from feedproxy.fleet.redis_connection import RedisConnection
from feedproxy.http import uri
from feedproxy.process import systemd
from feedproxy.process.mitmproxy_master import build_master, known_options, listeners_of
from feedproxy.process.open_file_limit import raise_open_file_limit
from feedproxy.process.option_sources import LoadedOptions, ServePlan
from feedproxy.process.reload import Reloader
from feedproxy.process.startup_checks import all_warnings, check_folders, log_new_warnings
from feedproxy.request.upstream_and_public_urls import listener_url
from feedproxy.server.fastpath.gc_policy import GcScheduler, freeze_startup_objects, without_collections
from feedproxy.server.fastpath.loop_preemption import SWITCH_INTERVAL
from feedproxy.server.fastpath.sockets import reject_new_connections, wait_accept_queue_empty
from feedproxy.server.mitm.memory_of_ended_connections import CycleFreeHandler, handle_stream
from feedproxy.settings import Settings, option_names, restart_names
from feedproxy.store.coordination import folder_lock
from feedproxy.store.store_location import MEMORY, store_folder
from feedproxy.telemetry.log_setup import hold_lines, set_log
from feedproxy.upstream import parent_proxy
from feedproxy.upstream.parent_proxy import OPTION
from feedproxy.workers.worker_context import WorkerContext

logger = logging.getLogger("feedproxy")

HEARTBEAT_INTERVAL: Seconds = 0.5
"""Seconds between two heartbeats of a worker to its supervisor."""

CONNECTION_WAIT: Seconds = 0.05
"""The proxy waits this many seconds between closing the listeners and refusing connections, to take over connections
that the system has already accepted."""


class WorkerOptions(Struct, frozen=True):
    """The settings for a supervisor of several workers, with the addresses for clients and for the operator."""

    settings: Settings
    listen: tuple[str, int]
    admin: tuple[str, int] | None
    fixed: Mapping[str, Any]
    """The options that take effect only at the start, with their values at the start of the supervisor."""
    specs: Mapping[str, OptionSpec]
    """The specifications of all options, for a reload."""
    loaded: LoadedOptions
    """The options from the configuration file, the environment and the command line, for all workers."""


async def check(plan: ServePlan) -> list[str]:
    """Check the configuration as `serve` does. Return lines that describe it, with warnings. Raises UsageError if the
    configuration is invalid."""
    proxy_master, app, loaded = build_master(plan, None)
    settings = app.settings
    with loaded.locating():
        if settings.admin:
            admin_address(settings.admin, admin_token(settings))
        AccessControl(settings, app.clock, b"")  # reads the files of users, tokens and credentials
        check_folders(settings)
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
        *(f"warning: {warning}" for warning in all_warnings(proxy_master, app)),
    ]


class _Lifecycle:
    """Addon that announces the listeners, sends heartbeats, and ends the proxy after its open requests (drain)."""

    def __init__(self, proxy_master: master.Master, app: App, announce: Callable[[str], None]) -> None:
        self._master = proxy_master
        self._app = app
        self._announce = announce
        self._drain: asyncio.Task[None] | None = None
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
            # The fast path runs garbage collections while clients are idle. Without it, a timer runs them.
            loop, garbage = asyncio.get_running_loop(), GcScheduler(asyncio.get_running_loop().time())
            _repeat(1, lambda: garbage.maybe_collect(loop.time(), int(loop.time())))
        sys.setswitchinterval(SWITCH_INTERVAL)
        is_logged = self._app.worker is None or self._app.worker.logs_start
        log_new_warnings(self._master, self._app, only_record=not is_logged)
        for host, port, *_ in addresses:
            self._announce(listener_url(self._app.settings, host, port))
        if self._app.worker is not None:
            _repeat(HEARTBEAT_INTERVAL, self._app.worker.record_heartbeat)
        else:
            systemd.notify_ready()
            if (interval := systemd.watchdog()) is not None:
                _repeat(interval, partial(systemd.notify, "WATCHDOG=1"))
        if is_logged and not self._app.settings.public_url and not self._app.settings.upstream:
            logger.info("public_url is not set: push updates (WebSub, rssCloud, CNWS) are disabled")

    def stop_on_signals(self) -> None:
        """End the proxy on SIGTERM and SIGINT."""
        for name in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(name, self._stop)

    def stop_without_supervisor(self, worker: WorkerContext) -> None:
        """End the proxy when its supervisor exits: the worker's end of the lifeline then becomes readable."""

        def stop() -> None:
            logger.warning("worker %d: the supervisor has exited, and the worker ends, too", worker.index)
            self._stop()

        asyncio.get_running_loop().add_reader(worker.lifeline, stop)

    def _stop(self) -> None:
        if self._app.worker is not None:
            # The lifeline stays readable, and its reader would be called again and again.
            asyncio.get_running_loop().remove_reader(self._app.worker.lifeline)
        self._drain = self._drain or asyncio.ensure_future(self._finish_requests())

    async def _finish_requests(self) -> None:
        """Stop listening, finish requests within `drain_timeout`, and shut down. Connections in the accept queue are
        still served."""
        app = self._app
        app.terminating = True
        app.ready = False
        logger.info("shutting down: finishing open requests (up to %s s)", app.settings.drain_timeout)
        if app.worker is None:
            systemd.notify("STOPPING=1\nSTATUS=draining")
        loop = asyncio.get_running_loop()
        deadline = app.drain_deadline = loop.time() + app.settings.drain_timeout
        listeners = listeners_of(self._master)
        sockets = [listening_socket for listener in listeners for listening_socket in listener.sockets]
        if not app.sockets:
            for listening_socket in sockets:
                reject_new_connections(listening_socket)  # sockets of a supervisor or of systemd stay open
        if app.worker is not None or not app.sockets:
            await wait_accept_queue_empty(sockets)
        for listener in listeners:
            listener.close()
        server: proxyserver.Proxyserver = self._master.addons.get("proxyserver")
        for handler in server.connections.values():
            if isinstance(handler, CycleFreeHandler):
                handler.shutting_down.set()
        await asyncio.sleep(CONNECTION_WAIT)
        app.draining = True
        self._master.options.update(server=False)
        while app.requests + app.fastpath_requests > 0 and loop.time() < deadline:  # noqa: ASYNC110 (it happens once)
            await asyncio.sleep(0.05)
        self._master.shutdown()


def _repeat(interval: Seconds, action: Callable[[], object]) -> None:
    """Call `action` now, and every `interval` seconds while the event loop runs."""
    asyncio.get_running_loop().call_later(interval, _repeat, interval, action)
    action()


async def serve(
    plan: ServePlan,
    announce: Callable[[str], None],
    app: App | None = None,
    worker: WorkerContext | None = None,
) -> int | WorkerOptions:
    """Run the proxy until SIGTERM or SIGINT. Return the exit code. `announce` is called with the URL of each listener.
    `worker` is the context of a worker.

    If several workers are configured and `worker` is None, do not run the proxy, but return the options for a
    supervisor (supervisor.py). Raises UsageError if the configuration is invalid, and CannotListen if an address cannot
    be listened on.
    """
    with hold_lines():
        proxy_master, app, loaded = build_master(plan, app)
        set_log(app.settings)
    with loaded.locating():
        if app.settings.workers > 1 and worker is None:
            return _worker_options(proxy_master, app, loaded)
    raise_open_file_limit(app.settings)
    app.worker = worker
    for port in worker.admin_ports if worker is not None else ():
        app.listeners.add(port, for_readers=False)
    app.sockets = worker.sockets if worker is not None else plan.sockets
    app.admin_sockets = worker.admin if worker is not None else plan.admin_sockets
    _change_listeners(app)
    life = _Lifecycle(proxy_master, app, announce)
    proxy_master.addons.add(life)
    life.stop_on_signals()
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, Reloader(proxy_master, app, plan).request)
    app.reports_failures = True
    lock = folder_lock.acquire(folder) if worker is None and (folder := own_folder(app.settings)) else None
    if app.settings.feed_process:
        app.helper_pool.start()
        await asyncio.sleep(0)  # the template process starts now, and imports its modules while the store is loaded
    with loaded.locating():
        with without_collections():
            _ = app.service  # opens the store now, so that a failure ends the start
        try:
            _ = app.recorder  # opens the recording now, so that a failure ends the start
        except UsageError as error:
            await app.close()
            raise UsageError(f"record: {error}") from error
    if worker is not None:
        life.stop_without_supervisor(worker)
        await app.service.store.flush()  # the next worker must find the pseudonym and secrets of the installation
        if app.worker_peers is not None:
            await app.worker_peers.start()
    if app.fleet is not None:
        await app.fleet.start()
    if app.terminating:
        await proxy_master.done()  # a signal has ended the start, and run() would forget the call of shutdown()
    else:
        await proxy_master.run()
    if lock is not None:
        os.close(lock)
    if life.failure:
        address = uri.join_host_port(proxy_master.options.listen_host, proxy_master.options.listen_port)
        raise CannotListen(f"cannot listen on {address}: {life.failure} (--listen HOST:PORT names another address)")
    if app.failure is not None:
        raise app.failure
    return 0


def _worker_options(proxy_master: master.Master, app: App, loaded: LoadedOptions) -> WorkerOptions:
    settings = app.settings
    admin = admin_address(settings.admin, admin_token(settings)) if settings.admin else None
    listen = (proxy_master.options.listen_host, proxy_master.options.listen_port)
    # Otherwise a worker that starts after a change of the file would have another store or upstream than the others.
    fixed = {name: getattr(proxy_master.options, name) for name in restart_names()}
    return WorkerOptions(settings, listen, admin, fixed, known_options(proxy_master), loaded)


def own_folder(settings: Settings) -> Path | None:
    """Return the folder of the store if this proxy uses it alone. Return None for a store in memory, and with
    `reuse_port`, because other processes may then use the folder."""
    return None if settings.local_store == MEMORY or settings.reuse_port else store_folder(settings.local_store)


def _change_listeners(app: App) -> None:
    """Make mitmproxy's own listeners use feedproxy's connection handler. Make them listen on the sockets passed to this
    process, or on a shared port."""
    # The class may be changed for the whole process, because the process runs only this master.
    AsyncioServerInstance.handle_stream = handle_stream  # type: ignore[method-assign,assignment]
    shared = app.worker is not None or app.settings.reuse_port
    if not app.sockets and not shared:
        return

    async def listen(instance: AsyncioServerInstance[Any], host: str, port: int) -> list[Any]:
        if instance.mode.custom_listen_port is not None or not app.sockets:
            return [await asyncio.start_server(instance.handle_stream, host, port, reuse_port=shared or None)]
        return [await asyncio.start_server(instance.handle_stream, sock=passed_socket) for passed_socket in app.sockets]

    AsyncioServerInstance.listen = listen  # type: ignore[method-assign,assignment]


def _short_reason(error: BaseException) -> str:
    """Return the system's reason why a listener could not be opened, in place of mitmproxy's three lines."""
    number = getattr(error, "errno", None) or 0
    if number > 0:
        return os.strerror(number)
    # The errors of name resolution have negative numbers: "… with [Errno -2] Name or service not known".
    return re.sub(r"\A\[Errno -?[0-9]+\] ", "", str(error).rpartition(" with ")[2])
