"""The mitmproxy master of a process, configured from all sources of options. It has only four of mitmproxy's default
addons, because the others would take half of the time of a request."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from mitmproxy import addonmanager, exceptions, hooks, master, options
from mitmproxy.addons import core, disable_h2c, next_layer, proxyserver
from mitmproxy.log import LegacyLogEvents

from feedproxy.addons.order import default_addons
from feedproxy.app import App, bind_app
from feedproxy.config.environment_and_set import unknown_variables
from feedproxy.config.option_types import OptionSpec, option_specs, spec_of
from feedproxy.errors import UsageError
from feedproxy.feed_rules import Rules
from feedproxy.http import uri
from feedproxy.process.option_sources import LoadedOptions, ServePlan, fitting_defaults, read
from feedproxy.process.startup_checks import TLS_NEEDS_FAST_PATH, check_app, check_confdir, check_mode, check_paths
from feedproxy.server.fastpath.mitmproxy_compatibility import select_modes
from feedproxy.server.mitm.interception_certificates_and_alpn import TlsConfig, extend_new_authority
from feedproxy.settings import Settings, declare, defaults, listen_address
from feedproxy.upstream import local_resource_exhaustion

logger = logging.getLogger("feedproxy")

MITMPROXY_DEFAULTS: dict[str, Any] = {
    # With `eager`, each hit would open an upstream connection, and fail if the origin is unavailable.
    "connection_strategy": "lazy",
    "rawtcp": False,
    "websocket": False,
    "http3": False,
    "tcp_timeout": Settings().keepalive_timeout,
    "listen_host": "127.0.0.1",
    "listen_port": 8080,
}


class AddonManager(addonmanager.AddonManager):
    """mitmproxy's addon manager. It triggers an event only on the addons that handle it: at most 6 of the 26 for each
    of the eight events of a request.

    mitmproxy's own manager enters a context and awaits a coroutine for every addon, which would add 0.4 ms to each
    request.
    """

    async def trigger_event(self, event: hooks.Hook) -> None:
        for addon in [addon for addon in self.chain if hasattr(addon, event.name)]:
            try:
                with addonmanager.safecall():
                    await self.invoke_addon(addon, event)
            except exceptions.AddonHalt:
                return


class Master(master.Master):
    """mitmproxy's master. It logs the exhaustion of local resources in one line."""

    def __init__(self, declared: options.Options) -> None:
        super().__init__(declared)
        self.addons = AddonManager(self)  # type: ignore[no-untyped-call]  # mitmproxy has no types for it

    def _asyncio_exception_handler(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if local_resource_exhaustion.is_exhaustion(error):
            local_resource_exhaustion.shortage_log.warn(f"{context.get('message') or 'a task failed'}: {error}")
        else:
            super()._asyncio_exception_handler(loop, context)


def build_master(plan: ServePlan, app: App | None = None) -> tuple[master.Master, App, LoadedOptions]:
    """Return a configured master, its App (`app`, or a new one) and its options. The caller needs a running event loop.
    Raises UsageError if the configuration is invalid."""
    declared = options.Options()
    # Set before addons are added, because mitmproxy configures all addons again for each option that changes.
    declared.update_defer(**MITMPROXY_DEFAULTS)
    declare(declared, *defaults())
    proxy_master = Master(declared)
    _remove_log_events(proxy_master)
    app = app or App()
    bind_app(proxy_master, app)
    first = [core.Core(), disable_h2c.DisableH2C(), proxyserver.Proxyserver()]
    addons = [*first, *default_addons(), next_layer.NextLayer(), TlsConfig()]
    # The chain gets all addons at once, because mitmproxy configures each addon in it again for each new option.
    proxy_master.addons.chain += [proxy_master.addons.register(addon) for addon in addons]
    loaded = plan.loaded
    if loaded is None:
        specs = known_options(proxy_master)
        loaded = read(plan, specs)
        for variable, suggestion in unknown_variables(plan.environment, specs).items():
            logger.warning("config: environment variable %s sets no option: did you mean %s?", variable, suggestion)
    config, overrides = loaded
    app.set_rules(Rules(config.rules))
    with loaded.locating():
        values = {**_split_listen(config.options), **_split_listen(overrides), **plan.fixed}
        values = {**fitting_defaults(values), **values}
        check_mode(values)
        check_paths(values)
        check_confdir(values.get("confdir", proxy_master.options.confdir), values.get("cert_passphrase") or "")
        extend_new_authority(app.clock.now())
        proxy_master.options.update(**values)  # mitmproxy now creates the certificate authority
        check_app(app)
        mode = _reverse_mode(app.settings) if app.settings.upstream else ""
    derived: dict[str, Any] = {"mode": [mode], "keep_host_header": True} if mode else {}
    if "tcp_timeout" not in values:
        derived["tcp_timeout"] = app.settings.keepalive_timeout
    if app.settings.fast_path and not app.settings.record:  # the fast path makes no flows, which the recording needs
        derived["mode"] = select_modes(derived.get("mode", proxy_master.options.mode))
    proxy_master.options.update(**derived)
    with loaded.locating():
        if app.settings.tls_certificate and not all(mode.startswith("front") for mode in proxy_master.options.mode):
            raise UsageError(f"tls_certificate: {TLS_NEEDS_FAST_PATH}")  # mitmproxy is incompatible with it
    return proxy_master, app, loaded


def listeners_of(proxy_master: master.Master) -> list[Any]:
    server: proxyserver.Proxyserver = proxy_master.addons.get("proxyserver")
    return [listener for instance in server.servers for listener in getattr(instance, "_servers", ())]


def known_options(proxy_master: master.Master) -> dict[str, OptionSpec]:
    """Return the specification of each option of this master by name, of feedproxy's and of mitmproxy's options."""
    own = option_specs()
    return {
        name: own.get(name) or spec_of(option.typespec, option.choices) for name, option in proxy_master.options.items()
    }


def _remove_log_events(proxy_master: master.Master) -> None:
    """Remove mitmproxy's log handler, which triggers an event for each line of the log. No addon uses these events."""
    for handler in list(logging.getLogger().handlers):
        if isinstance(handler, LegacyLogEvents) and handler.master is proxy_master:
            handler.uninstall()


def _split_listen(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with `listen` split into mitmproxy's listen_host and listen_port, unless these are set."""
    if "listen" not in values:
        return dict(values)
    host, port = listen_address(values["listen"], "listen")
    return {"listen_host": host, "listen_port": port, **values}


def _reverse_mode(settings: Settings) -> str:
    """Return mitmproxy's reverse mode for `upstream`. The scheme is always http, because feedproxy itself connects to
    the origin."""
    host, port = uri.split_host_port(uri.normalise(settings.upstream))
    return f"reverse:http://{uri.join_host_port(host, port)}"
