"""Reload of the configuration and the TLS certificate (SIGHUP)."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mitmproxy import exceptions, master

from feedproxy.app import App
from feedproxy.background_work import run_in_daemon_thread
from feedproxy.config.option_types import OptionSpec
from feedproxy.errors import UsageError
from feedproxy.feed_rules import Rules
from feedproxy.process import systemd
from feedproxy.process.mitmproxy_master import known_options, listeners_of
from feedproxy.process.option_sources import LoadedOptions, ServePlan, fitting_defaults, read
from feedproxy.process.startup_checks import check_app, check_combinations, check_mode, check_paths, log_new_warnings
from feedproxy.server.fastpath.listener import Listener
from feedproxy.settings import defaults, from_options, restart_names
from feedproxy.telemetry.log_setup import set_log

logger = logging.getLogger("feedproxy")


class Reloader:
    """Reloads of one process, one after the other. All requests during a reload cause one further reload."""

    def __init__(self, proxy_master: master.Master, app: App, plan: ServePlan) -> None:
        self._master = proxy_master
        self._app = app
        self._plan = plan
        self._is_requested = False
        self._task: asyncio.Task[None] | None = None

    def request(self) -> None:
        """Start a reload. If a reload is in progress, start another one after it."""
        self._is_requested = True
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while self._is_requested:
            self._is_requested = False
            await reload(self._master, self._app, self._plan)


async def reload(proxy_master: master.Master, app: App, plan: ServePlan) -> None:
    """Load the configuration and the TLS certificate again. Apply the options that need no restart, and log the result.
    The service manager is notified of the beginning and the end.

    A thread reads the configuration, because thousands of rules take seconds. If the configuration has a mistake, or if
    the proxy is shutting down before the thread has read it, nothing is applied.
    """
    is_notified = app.ready
    if is_notified:
        systemd.notify_reloading()
    try:
        await _reload(proxy_master, app, plan)
    finally:
        if is_notified and not app.terminating:
            systemd.notify_ready()


async def _reload(proxy_master: master.Master, app: App, plan: ServePlan) -> None:
    protecting = app.configured_rules.protecting_count
    try:
        loaded, rules = await _read_in_thread(plan, known_options(proxy_master), app.configured_rules)
        if app.terminating:
            return
        config, overrides = loaded
        values = {**config.options, **overrides}
        values = {**defaults(), **fitting_defaults(values), **values}
        changed = {
            name: value
            for name in defaults()
            if (value := values[name]) != _plain_value(getattr(proxy_master.options, name))
        }
        later = [name for name in changed if name in restart_names()]
        now = {name: value for name, value in changed.items() if name not in later}
        with loaded.locating():
            _apply(proxy_master, app, now, rules)
    except UsageError as error:
        logger.error("configuration not loaded, keeping the previous one: %s", error)
        return
    set_log(app.settings)
    for listener in listeners_of(proxy_master):
        if isinstance(listener, Listener):
            listener.reload_certificate()
    logger.info(
        "configuration loaded: %d rules; options changed: %s", len(app.configured_rules), ", ".join(now) or "none"
    )
    log_new_warnings(proxy_master, app, only_record=app.worker is not None and not app.worker.is_first)
    if (remaining := app.configured_rules.protecting_count) < protecting:
        logger.warning("rules with readers or private: %d, and %d before", remaining, protecting)
    if later:
        logger.warning("these options take effect after a restart: %s", ", ".join(later))


async def _read_in_thread(
    plan: ServePlan, specs: Mapping[str, OptionSpec], rules: Rules
) -> tuple[LoadedOptions, Rules]:
    """Return the result of `read_again`, and the Rules of the configuration. Raises UsageError if the configuration is
    invalid."""

    def work() -> tuple[LoadedOptions, Rules]:
        loaded = read_again(plan, specs, rules)
        return loaded, Rules(loaded.config.rules)

    try:
        reading = run_in_daemon_thread(work, "feedproxy-reload")
    except RuntimeError as error:
        raise UsageError(f"{plan.config}: no thread is available to read it") from error
    return await reading


def read_again(plan: ServePlan, specs: Mapping[str, OptionSpec], rules: Rules) -> LoadedOptions:
    """Return the options of all sources for a reload. Raises UsageError if the configuration is invalid, even in
    options that only a start would use.

    A pipe is refused, because it can be read only once. An empty file is refused if the rules in force (`rules`)
    protect feeds, because an editor might be writing the file.
    """
    if plan.config and Path(plan.config).is_fifo():
        raise UsageError(f"{plan.config}: it is a pipe, which can be read only at the start")
    loaded = read(plan, specs)
    if plan.config and not loaded.config.options and not loaded.config.rules and rules.protecting_count:
        raise UsageError(f"{plan.config}: it is empty, and rules with readers or private are in force")
    with loaded.locating():
        values = {**loaded.config.options, **loaded.overrides}
        check_mode(values)
        check_combinations(from_options(values), loaded.config.rules)
    return loaded


def _apply(proxy_master: master.Master, app: App, options: Mapping[str, Any], rules: Rules) -> None:
    """Set the rules and options. If they are invalid, restore the former ones, and raise UsageError or OptionsError."""
    check_paths(options)
    former, former_rules = {name: getattr(proxy_master.options, name) for name in options}, app.configured_rules
    app.set_rules(rules)
    try:
        proxy_master.options.update(**options)
        check_app(app)
    except (exceptions.OptionsError, UsageError):
        app.set_rules(former_rules)
        proxy_master.options.update(**former)
        raise


def _plain_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value
