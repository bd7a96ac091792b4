"""Checks what the fast path relies on in mitmproxy.

Modes and server instances are meant to be derived from. How mitmproxy's HTTP/1 server shows that it is idle, and how a
handler is started, is internal and may change with any release. In that case the ordinary listener answers everything,
as with `fast_path: false`, and a warning gives the reason.
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
"""Modules and the attributes that they must have."""

REQUIRED_SOURCE: Mapping[str, tuple[str, ...]] = {
    # Instance attributes: searched for in the source of the class.
    "mitmproxy.proxy.layers.http._http1:Http1Connection": ("self.request", "self.buf", "self.state"),
    "mitmproxy.proxy.layers.http:HttpLayer": ("self.connections", "self.streams"),
    "mitmproxy.proxy.layer:Layer": ("context.layers.append(self)", "self._paused ="),
    "mitmproxy.proxy.server:ConnectionHandler": ("self.timeout_watchdog =", "self.transports ="),
    "mitmproxy.proxy.server:LiveConnectionHandler": ("Client(", "super().__init__(context)"),
    "mitmproxy.proxy.mode_servers:ServerInstance": ("register_connection", "make_top_layer", "handle_client()"),
}
"""Classes and the texts that their source must contain."""


def find_missing() -> list[str]:
    """Return the names of required attributes and texts that are missing."""
    missing = [
        f"{module}.{name}"
        for module, names in REQUIRED_ATTRIBUTES.items()
        for name in _missing_attributes(module, names)
    ]
    for place, texts in REQUIRED_SOURCE.items():
        module, _, name = place.partition(":")
        try:
            source = _source_of(getattr(importlib.import_module(module), name))
        except (ImportError, AttributeError, OSError):
            missing.append(place)
            continue
        missing += [f"{place} ({text})" for text in texts if text not in source]
    # Python's and the system's: epoll exists on Linux only.
    missing += [name for owner, name in ((socket.socket, "_accept"), (select, "epoll")) if not hasattr(owner, name)]
    return missing


@functools.cache
def _source_of(found: type) -> str:
    return inspect.getsource(found)


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
    """Return mitmproxy's modes with their fast-path form; unchanged if mitmproxy is incompatible."""
    if missing := find_missing():
        logger.warning("incompatible mitmproxy: %s; the fast path is off, and responses are slower", ", ".join(missing))
        return list(modes)
    # Importing it makes the modes known to mitmproxy.
    import feedproxy.server.fastpath.proxy_mode  # noqa: F401, PLC0415

    fast_path_modes = {"regular": "front", "reverse": "frontreverse"}
    changed = []
    for mode in modes:
        name = mode.partition("@")[0].partition(":")[0]
        changed.append(fast_path_modes[name] + mode.removeprefix(name) if name in fast_path_modes else mode)
    return changed
