"""The sources of options for one process: configuration file, environment, `--set` and flags."""

import contextlib
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mitmproxy import exceptions
from msgspec import Struct, field

from feedproxy.config.config_file import Config, load
from feedproxy.config.environment_and_set import from_environment, parse_sets
from feedproxy.config.option_types import OptionSpec, check_value
from feedproxy.errors import UsageError
from feedproxy.memory_max_shares import fitting_memory_max
from feedproxy.settings import Settings
from feedproxy.workers.available_memory import available_memory


class LoadedOptions(NamedTuple):
    """The options and rules of all sources."""

    config: Config
    """The configuration file."""
    overrides: Mapping[str, Any]
    """Options from flags, `--set` and the environment. They take precedence over the configuration file."""

    @contextlib.contextmanager
    def locating(self) -> Iterator[None]:
        """Raise errors in the `with` block as a UsageError that names the file and line of the option."""
        try:
            yield
        except (exceptions.OptionsError, UsageError) as error:
            # All messages begin with the option's name.
            option = re.match(r"\w*", str(error))[0]  # type: ignore[index]  # it matches at least the empty string
            location = self.config.locations.get(option) if option not in self.overrides else None
            raise UsageError(f"{location}: {error}" if location else str(error)) from error


class ServePlan(Struct, frozen=True):
    """Arguments of `serve`: the sources of options, and sockets that are already open."""

    config: str = ""
    sets: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options from flags. They take precedence over `--set`, the environment and the configuration file."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables. `FEEDPROXY_NAME` sets an option."""
    sockets: tuple[socket.socket, ...] = ()
    """Listening sockets for clients, which systemd has passed. They take the place of `listen`."""
    admin_sockets: tuple[socket.socket, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Options that a supervisor sets for its workers. They take precedence over all sources."""
    loaded: LoadedOptions | None = None
    """The options that the supervisor has read, or None to read them from the sources.

    All workers get the supervisor's options, even if the configuration file has changed before a worker is restarted.
    """


def read(plan: ServePlan, specs: Mapping[str, OptionSpec]) -> LoadedOptions:
    """Return the options and rules of all sources. `specs` has the specification of each option by name. Raises
    UsageError if an option is invalid."""
    config = load(plan.config, specs) if plan.config else Config()
    overrides = {**from_environment(plan.environment, specs), **parse_sets(plan.sets, specs)}
    flags = {name: check_value(name, value, specs[name], "") for name, value in plan.options.items()}
    return LoadedOptions(config, overrides | flags)


def fitting_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default of `memory_max`, which depends on this machine or container, and on the number of workers that
    share its memory. `values` are the options that are set."""
    workers = values.get("workers", Settings().workers)
    return {"memory_max": fitting_memory_max(Settings().memory_max, available_memory(), workers)}
