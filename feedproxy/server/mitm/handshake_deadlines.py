"""Time limit for mitmproxy's TLS handshakes with clients. mitmproxy itself limits only the time without input
(`tcp_timeout`), so that single bytes could keep a handshake open."""

import asyncio
from collections.abc import Callable

from feedproxy.clock import Seconds

HANDSHAKE_RECORD = b"\x16"
"""First byte of a TLS handshake (RFC 8446, section 5.1)."""


class HandshakeDeadlines:
    """The deadlines of the handshakes in progress, by client connection."""

    def __init__(self) -> None:
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self, client: str, seconds: Seconds, end: Callable[[str], None]) -> None:
        """Call `end` with `client` (the id of the connection) after `seconds`, unless `cancel` is called before. Do
        nothing if `seconds` is 0, or if the connection already has a deadline."""
        if seconds and client not in self._timers:
            self._timers[client] = asyncio.get_running_loop().call_later(seconds, self._expire, client, end)

    def _expire(self, client: str, end: Callable[[str], None]) -> None:
        del self._timers[client]
        end(client)

    def cancel(self, client: str) -> None:
        """Cancel the deadline of a handshake that is complete, or of a client that has disconnected."""
        if (timer := self._timers.pop(client, None)) is not None:
            timer.cancel()
