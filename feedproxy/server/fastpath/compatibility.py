"""What the listener in front leans on in mitmproxy, checked before it is used.

Modes and instances are classes that mitmproxy invites to be derived; how its HTTP/1 server says that it has nothing to
do, and how a handler is begun, are its own affair and may change with any release. Then the ordinary listener answers
everything, as it does with `fast_path: false`, and a warning tells why.
"""

import importlib
import inspect
import logging
import select
import socket
from collections.abc import Iterable, Mapping
from typing import Any

logger = logging.getLogger("feedproxy")

NAMES: Mapping[str, tuple[str, ...]] = {
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
"""Modules, and the names in them that have to be there."""

SOURCES: Mapping[str, tuple[str, ...]] = {
    # Attributes that are made when there is an instance: looked for in the words of those who make them.
    "mitmproxy.proxy.layers.http._http1:Http1Connection": ("self.request", "self.buf", "self.state"),
    "mitmproxy.proxy.layers.http:HttpLayer": ("self.connections", "self.streams"),
    "mitmproxy.proxy.layer:Layer": ("context.layers.append(self)", "self._paused ="),
    "mitmproxy.proxy.server:ConnectionHandler": ("self.timeout_watchdog =", "self.transports ="),
    "mitmproxy.proxy.server:LiveConnectionHandler": ("Client(", "super().__init__(context)"),
    "mitmproxy.proxy.mode_servers:ServerInstance": ("register_connection", "make_top_layer", "handle_client()"),
}
"""Classes, and the words that have to stand in their source."""


def missing() -> list[str]:
    """What is not as it was."""
    gone = [f"{module}.{name}" for module, names in NAMES.items() for name in _absent(module, names)]
    for where, words in SOURCES.items():
        module, _, name = where.partition(":")
        try:
            source = inspect.getsource(getattr(importlib.import_module(module), name))
        except (ImportError, AttributeError, OSError):
            gone.append(where)
            continue
        gone += [f"{where} ({each})" for each in words if each not in source]
    # Of Python and the system: epoll is Linux's.
    gone += [name for owner, name in ((socket.socket, "_accept"), (select, "epoll")) if not hasattr(owner, name)]
    return gone


def _absent(module: str, names: Iterable[str]) -> Iterable[str]:
    try:
        there: Any = importlib.import_module(module)
    except ImportError:
        return [""]
    absent = []
    for name in names:
        here = there
        for part in name.split("."):
            here = getattr(here, part, None)
        if here is None:
            absent.append(name)
    return absent


def in_front(modes: Iterable[str]) -> list[str]:
    """mitmproxy's modes as they are answered in front; unchanged where they cannot be."""
    if gone := missing():
        logger.warning("not as it has to be here: %s; the fast path is off, and answers are slower", ", ".join(gone))
        return list(modes)
    # Importing it makes the modes known to mitmproxy.
    import feedproxy.server.fastpath.proxy_mode  # noqa: F401, PLC0415

    ours = {"regular": "front", "reverse": "frontreverse"}
    changed = []
    for mode in modes:
        name = mode.partition("@")[0].partition(":")[0]
        changed.append(ours[name] + mode.removeprefix(name) if name in ours else mode)
    return changed
