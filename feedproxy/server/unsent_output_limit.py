"""Limit on the memory of responses that clients have not read yet, for one process.

Without the limit, a client that requests large responses on all its connections, and reads none of them, would fill the
memory. A response that several clients read counts once.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from msgspec import Struct

from feedproxy.client_network import client_network
from feedproxy.clock import Seconds
from feedproxy.settings import Settings
from feedproxy.upstream.local_resource_exhaustion import ShortageLog

CHECK_DELAY: Seconds = 0.25
"""The memory is checked this many seconds after a response remained unsent. An origin at 1 Gbit/s sends 30 MB in this
time."""

type Buffer = tuple[int, int]
"""The identity of an object in memory, and its size in bytes."""


class UnsentOutput(Struct, frozen=True):
    """The unsent output of one connection. `close` closes the connection at once."""

    peer: str
    buffers: tuple[Buffer, ...]
    close: Callable[[], None]

    @property
    def size(self) -> int:
        return sum(size for _, size in set(self.buffers))


class UnsentOutputLimit:
    """Limiter of the unsent output of all connections. `settings` returns the current settings."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self.sources: list[Callable[[], Iterable[UnsentOutput]]] = []
        """Functions that return the unsent output of connections. A listener removes its function when the listener is
        closed."""
        self._timer: asyncio.TimerHandle | None = None
        self._shortage_log = ShortageLog()

    def check_soon(self) -> None:
        """Check the memory after CHECK_DELAY seconds. Call this method after a response remained unsent."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_DELAY, self._check)

    def _check(self) -> None:
        self._timer = None
        if self.enforce() > self._settings().unsent_max // 2:
            self.check_soon()  # responses that are not written yet may exceed the limit

    def enforce(self) -> int:
        """Close connections until the unsent output fits `unsent_max`. Return the remaining bytes. Each step closes the
        connection with the most unsent output, in the client network with the most."""
        usage, limit = _Usage(), self._settings().unsent_max
        for source in self.sources:
            for output in source():
                usage.add(output)
        closed = 0
        while usage.total > limit:
            usage.remove_largest().close()
            closed += 1
        if closed:
            self._shortage_log.warn(
                f"{closed} client connections closed, because responses that clients do not read "
                f"take more than {limit // 1_000_000} MB"
            )
        return usage.total


class _Usage:
    """The unsent output of all connections, by client network."""

    def __init__(self) -> None:
        self.total = 0
        self._uses: Counter[Buffer] = Counter()
        self._uses_by_network: defaultdict[str, Counter[Buffer]] = defaultdict(Counter)
        self._sizes: Counter[str] = Counter()
        self._outputs: defaultdict[str, list[UnsentOutput]] = defaultdict(list)
        self._is_sorted: set[str] = set()

    def add(self, output: UnsentOutput) -> None:
        network = client_network(output.peer)
        self._outputs[network].append(output)
        uses = self._uses_by_network[network]
        for buffer in output.buffers:
            if not self._uses[buffer]:
                self.total += buffer[1]
            if not uses[buffer]:
                self._sizes[network] += buffer[1]
            self._uses[buffer] += 1
            uses[buffer] += 1

    def remove_largest(self) -> UnsentOutput:
        """Remove and return the largest output of the network with the most output. If several outputs are equally
        large, the first is removed."""
        network = max(self._sizes, key=lambda name: self._sizes[name])
        outputs = self._outputs[network]
        if network not in self._is_sorted:
            outputs.reverse()
            outputs.sort(key=lambda output: output.size)
            self._is_sorted.add(network)
        output, uses = outputs.pop(), self._uses_by_network[network]
        for buffer in output.buffers:
            self._uses[buffer] -= 1
            uses[buffer] -= 1
            if not self._uses[buffer]:
                self.total -= buffer[1]
            if not uses[buffer]:
                self._sizes[network] -= buffer[1]
        if not outputs:
            del self._sizes[network]
        return output


def buffer_of(piece: memoryview | bytes) -> Buffer:
    """Return the identity of the object that contains the memory of `piece`, and the size of this object in bytes."""
    whole = piece.obj if isinstance(piece, memoryview) else piece
    return id(whole), len(whole) if isinstance(whole, bytes | bytearray) else len(piece)
