"""Check of mitmproxy's internal names that the fast path uses.

If a name is missing, mitmproxy's own listener answers all requests, as with `fast_path: false`, and a warning lists the
missing names.
"""

import functools
import importlib
import inspect
import logging
import select
import socket
from collections.abc import Iterable, Mapping
from typing import Any

logger = logging.getLogger("feedproxy")

REQUIRED_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "mitmproxy.ctx": (),
    "mitmproxy.proxy.mode_specs": ("RegularMode.type_name", "ReverseMode.type_name", "ProxyMode.parse"),
    "mitmproxy.proxy.mode_servers": (
        "ProxyConnectionHandler.handle_client",
        "ProxyConnectionHandler.handle_connection",
        "AsyncioServerInstance.listen",
        "AsyncioServerInstance.listen_addrs",
        "AsyncioServerInstance.handle_stream",
    ),
    "mitmproxy.proxy.layers": ("modes.HttpProxy", "modes.ReverseProxy", "ClientTLSLayer"),
    "mitmproxy.proxy.layers.http": ("HttpLayer.make_stream",),
    "mitmproxy.proxy.layers.http._http1": ("Http1Server.read_headers", "Http1Server.send"),
    "mitmproxy.net.http.status_codes": ("RESPONSES",),
    "mitmproxy.net.http.url": ("parse_authority",),
}
"""Required attributes of mitmproxy, by module."""

REQUIRED_SOURCE: Mapping[str, tuple[str, ...]] = {
    # Instance attributes cannot be looked up on the class. Therefore the source of the class is searched for them.
    "mitmproxy.proxy.layers.http._http1:Http1Connection": ("self.request", "self.buf", "self.state"),
    "mitmproxy.proxy.layers.http:HttpLayer": ("self.connections", "self.streams"),
    "mitmproxy.proxy.layer:Layer": ("context.layers.append(self)", "self._paused ="),
    "mitmproxy.proxy.server:ConnectionHandler": ("self.timeout_watchdog =", "self.transports ="),
    "mitmproxy.proxy.server:LiveConnectionHandler": ("Client(", "super().__init__(context)"),
    "mitmproxy.proxy.mode_servers:ServerInstance": ("register_connection", "make_top_layer", "handle_client()"),
}
"""Pieces of source code that a class of mitmproxy must contain, by the class's name."""


def find_missing() -> list[str]:
    """Return the required attributes and pieces of source code that this version of mitmproxy lacks."""
    missing = [
        f"{module}.{name}"
        for module, names in REQUIRED_ATTRIBUTES.items()
        for name in _missing_attributes(module, names)
    ]
    for class_name, texts in REQUIRED_SOURCE.items():
        module, _, name = class_name.partition(":")
        try:
            source = _source_of(getattr(importlib.import_module(module), name))
        except (ImportError, AttributeError, OSError):
            missing.append(class_name)
            continue
        missing += [f"{class_name} ({text})" for text in texts if text not in source]
    # epoll exists on Linux only
    missing += [name for owner, name in ((socket.socket, "_accept"), (select, "epoll")) if not hasattr(owner, name)]
    return missing


@functools.cache
def _source_of(cls: type) -> str:
    return inspect.getsource(cls)


def _missing_attributes(module: str, names: Iterable[str]) -> Iterable[str]:
    try:
        module_object: Any = importlib.import_module(module)
    except ImportError:
        return [""]
    absent = []
    for name in names:
        value = module_object
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is None:
            absent.append(name)
    return absent


def select_modes(modes: Iterable[str]) -> list[str]:
    """Return the mode specifications `modes` in their fast-path form, or unchanged if mitmproxy is incompatible."""
    if missing := find_missing():
        logger.warning("fast path: off, because mitmproxy lacks %s; responses are slower", ", ".join(missing))
        return list(modes)
    # Importing the module registers its modes with mitmproxy.
    import feedproxy.server.fastpath.mitmproxy_modes  # noqa: F401, PLC0415

    fast_path_modes = {"regular": "front", "reverse": "frontreverse"}
    changed = []
    for mode in modes:
        name = mode.partition("@")[0].partition(":")[0]
        changed.append(fast_path_modes[name] + mode.removeprefix(name) if name in fast_path_modes else mode)
    return changed
