"""mitmproxy's handler of a connection, taken apart when the connection has ended.

Its layers refer to one another in circles, and so do exceptions with the frames that they were raised in. Only Python's
garbage collector would find that: 80 KB of each intercepted tunnel, and a look at everything takes as long as a full
store is large (gc_policy.py). Taken apart, it is freed at once.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from mitmproxy.connection import Connection
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler


class _Ended(layer.Layer):
    """Stands in the place of the layers, for whatever event is still to come."""

    def __init__(self) -> None:
        """Without a context: nothing is done here."""

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        yield from ()

    _handle_event = handle_event


class Handler(ProxyConnectionHandler):
    """Serves a connection, and leaves nothing that has to be looked for."""

    async def handle_connection(self, connection: Connection) -> None:
        reader = self.transports[connection].reader
        is_cancelled = False
        try:
            await super().handle_connection(connection)
        except asyncio.CancelledError as error:
            # The frame below holds this very exception, and that its frame.
            error.__traceback__ = None
            is_cancelled = True
        finally:
            if isinstance(reader, asyncio.StreamReader) and (failure := reader.exception()) is not None:
                failure.__traceback__ = None
            del reader
        if is_cancelled:
            raise asyncio.CancelledError

    def take_apart(self) -> bool:
        """Break the circles, once `handle_client` has returned; False where a request is still being answered."""
        layers = list(_layers_below(self.layer))
        if any(each._paused is not None for each in layers):
            return False  # it goes on when its hook returns, and ends by itself
        self.layer = _Ended()
        self.timeout_watchdog.callback = _nothing
        self.transports.clear()
        for each in layers:
            if (state := getattr(each, "h2_conn", None)) is not None:
                state.__dict__.clear()
            each.__dict__.clear()
        return True


async def _nothing() -> None:
    """Time out."""


def _layers_below(top: layer.Layer) -> Iterator[layer.Layer]:
    """This layer and all that can be reached from it."""
    found, left = {id(top)}, [top]
    while left:
        here = left.pop()
        yield here
        for each in _layers_in(list(here.__dict__.values())):
            if id(each) not in found:
                found.add(id(each))
                left.append(each)


def _layers_in(values: list[Any]) -> Iterator[layer.Layer]:
    for value in values:
        if isinstance(value, layer.Layer):
            yield value
        elif isinstance(value, dict | list):
            yield from (
                each for each in (value.values() if isinstance(value, dict) else value) if isinstance(each, layer.Layer)
            )
        elif (layers := getattr(value, "layers", None)) is not None:  # a context
            yield from layers
