"""A connection handler for mitmproxy that informs its layers of a shutdown, and frees them after the end of the
connection.

The layers refer to each other in cycles, which only the garbage collector would free. Those of an intercepted tunnel
take 80 KB.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from mitmproxy import ctx
from mitmproxy.connection import Connection
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.mode_servers import AsyncioServerInstance, ProxyConnectionHandler, ServerInstance

from feedproxy.clock import Seconds
from feedproxy.server.mitm.http2_limits_and_shutdown import DrainNotice

RETRY_FIRST: Seconds = 1
"""The cycles cannot be broken while a request is being answered. A second attempt then follows after this many seconds,
and each further attempt after twice the previous time."""

RETRY_LAST: Seconds = 128
"""The wait before the last attempt, in seconds. If this attempt fails, the garbage collector frees the layers."""


async def handle_stream(instance: AsyncioServerInstance[Any], reader: Any, writer: Any = None) -> None:
    """Handle a connection of mitmproxy's own listener, in place of `AsyncioServerInstance.handle_stream`."""
    await CycleFreeHandler(instance, reader, writer).run()


class _ClosedLayer(layer.Layer):
    """A layer that ignores all events, in place of the layers of an ended connection."""

    def __init__(self) -> None:
        """Skip mitmproxy's constructor, because this layer needs no context."""

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        yield from ()

    _handle_event = handle_event


class CycleFreeHandler(ProxyConnectionHandler):
    """A connection handler that leaves no reference cycles, and informs its layers of a shutdown."""

    def __init__(self, instance: ServerInstance[Any], reader: Any, writer: Any) -> None:
        super().__init__(ctx.master, reader, writer, ctx.options, instance.mode)  # type: ignore[no-untyped-call]
        self._instance = instance
        self.shutting_down = asyncio.Event()

    async def run(self) -> None:
        """Handle the connection to its end."""
        self.layer = self._instance.make_top_layer(self.layer.context)
        with self._instance.manager.register_connection(self.client.id, self):
            await self.handle_client()
        self.break_cycles()

    async def wakeup(self, request: commands.RequestWakeup) -> None:
        if isinstance(request, DrainNotice):
            await self.shutting_down.wait()
            request.delay = 0
        await super().wakeup(request)

    async def handle_connection(self, connection: Connection) -> None:
        reader = self.transports[connection].reader
        is_cancelled = False
        try:
            await super().handle_connection(connection)
        except asyncio.CancelledError as error:
            # The caller's frame refers to this exception, and the exception refers to that frame.
            error.__traceback__ = None
            is_cancelled = True
        finally:
            if isinstance(reader, asyncio.StreamReader) and (failure := reader.exception()) is not None:
                failure.__traceback__ = None
            del reader
        if is_cancelled:
            raise asyncio.CancelledError

    def break_cycles(self, retry_after: Seconds = RETRY_FIRST) -> None:
        """Break the reference cycles of the layers after mitmproxy's `handle_client` has returned. While a request is
        being answered, try again after `retry_after` seconds."""
        if not self._break_cycles() and retry_after <= RETRY_LAST:
            asyncio.get_running_loop().call_later(retry_after, self.break_cycles, 2 * retry_after)

    def _break_cycles(self) -> bool:
        layers = list(_reachable_layers(self.layer))
        if any(layer_found._paused is not None for layer_found in layers):
            return False  # the request continues when its hook returns, and then ends
        self.layer = _ClosedLayer()
        self.timeout_watchdog.callback = _do_nothing
        self.transports.clear()
        for layer_found in layers:
            if (state := getattr(layer_found, "h2_conn", None)) is not None:
                state.__dict__.clear()
            layer_found.__dict__.clear()
        return True


async def _do_nothing() -> None:
    """Do nothing, in place of the timeout function of a closed connection."""


def _reachable_layers(top: layer.Layer) -> Iterator[layer.Layer]:
    """Yield this layer and all layers to which it refers, directly or indirectly."""
    visited, pending = {id(top)}, [top]
    while pending:
        current = pending.pop()
        yield current
        for layer_found in _layers_in(list(current.__dict__.values())):
            if id(layer_found) not in visited:
                visited.add(id(layer_found))
                pending.append(layer_found)


def _layers_in(values: list[Any]) -> Iterator[layer.Layer]:
    for value in values:
        if isinstance(value, layer.Layer):
            yield value
        elif isinstance(value, dict | list):
            yield from (
                layer_found
                for layer_found in (value.values() if isinstance(value, dict) else value)
                if isinstance(layer_found, layer.Layer)
            )
        elif (layers := getattr(value, "layers", None)) is not None:  # a context
            yield from layers
