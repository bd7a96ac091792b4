"""The table of hits and misses. In each round, each kind of request is sent to one server after the other.

A run counts only if its responses were right: the response was checked before the run, the responses to wrk have the
same mean length, and at most one in a thousand failed. The origin must have received no request during hits, and
requests for at least 99 % of the misses.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from benchmarks.client import Unequal, asked, verify, warm
from benchmarks.feed import path
from benchmarks.load import CONNECTIONS, Load, Run, ask, cpu_seconds, run
from benchmarks.peers import PEERS, Server, Stage
from benchmarks.rows import ROWS, Row
from conformance.process import DidNotStart

MISS_CONNECTIONS = 10

ROUNDS = 5
"""In rows with many feeds, each feed is requested this many times before the run. The first request fetches it."""

FEEDS_A_SECOND = 2500
"""Maximum number of feeds for each second of a run. With more feeds, the run lasts longer, so that a slow server, too,
gets more than one request for each feed."""

AT_REST = 0.05
"""A server counts as idle if it uses at most this fraction of a CPU."""

_new = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one run of a row on a server. `fault` is the reason why the run does not count, or ""."""

    row: str
    server: str
    us: float
    rate: float
    p99_ms: float
    fault: str = ""


def fault(row: Row, run: Run, size: int, origin_asked: int) -> str:
    """Return the reason why a run does not count, or an empty string. `size` is the length of the right response in
    bytes."""
    counted = run.counted
    if sum(counted.errors.values()) > counted.requests * 0.001:
        # wrk also counts a read error if a connection ends without an announcement in the response (RFC 9112,
        # section 9.6).
        kinds = ", ".join(f"{many} {kind}" for kind, many in counted.errors.items())
        return f"errors in {counted.requests} requests: {kinds}"
    mean = counted.bytes / counted.requests
    # Age, dates and feed numbers vary in length, and responses that the end of the run cuts off are counted, too.
    slack = 40 + size * CONNECTIONS / counted.requests
    if abs(mean - size) > slack:
        return f"{mean:.0f} bytes an answer, not {size}"
    if row.miss and origin_asked < counted.requests * 0.99:
        return f"only {origin_asked} of {counted.requests} misses reached the origin"
    if not row.miss and origin_asked:
        return f"{origin_asked} hits were none: the origin was asked"
    return ""


def begin(stage: Stage, say: Callable[[str], None], groups: Iterable[str], tls: bool) -> list[Server]:
    """Return feedproxy and the installed peers of these groups, all running."""
    servers = [stage.with_tls(stage.feedproxy()) if tls else stage.feedproxy()]
    for peer in PEERS:
        if peer.group not in groups:
            continue
        if not peer.path:
            say(f"{peer.name} is not installed: left out")
            continue
        try:
            servers.append(stage.peer(peer))
        except DidNotStart as error:
            say(f"{error}: left out")
    return servers


def measure(stage: Stage, server: Server, row: Row, seconds: int) -> Measured:
    """Return the result of one run. Raises Unequal, ValueError, OSError."""
    tag, right = verify(server, row)
    start = next(_new) * 1_000_000
    load = Load(
        server.url(path("1"), row.tls), row.fields(tag), row.mode, row.count, start, row.close,
        MISS_CONNECTIONS if row.miss else CONNECTIONS,
    )  # fmt: skip
    before = asked(stage.origin)
    seconds = max(seconds, row.count // FEEDS_A_SECOND)
    found = run((server.tls_pid if row.tls else None) or server.pid, load, seconds, stage.other_cpus)
    why = fault(row, found, right.size, asked(stage.origin) - before)
    return Measured(row.key, server.name, round(found.us, 2), round(found.rate), found.counted.p99 / 1000, why)


def acquaint(stage: Stage, server: Server, row: Row, until: float) -> None:
    """Request each feed repeatedly as in the measurement, and wait until the server is idle.

    The call ends at `until` (monotonic) in any case. Raises ValueError if the server sends no response.
    """
    rest(server, until)
    done, most = row.count, ROUNDS * row.count
    while done < most and time.monotonic() < until:
        load = Load(server.url(path("1"), row.tls), row.fields(""), row.mode, row.count, done, row.close)
        answered = ask(load, 2, stage.other_cpus).requests
        if not answered:
            raise ValueError(f"{server.name} sends no response")
        done += answered
    rest(server, until)


def rest(server: Server, until: float) -> None:
    """Wait until the server uses hardly any CPU, at most until `until` (monotonic)."""
    while time.monotonic() < until:
        before = cpu_seconds(server.pid)
        time.sleep(1)
        if cpu_seconds(server.pid) - before < AT_REST:
            return


def play(
    stage: Stage,
    servers: list[Server],
    rows: list[Row],
    *,
    rounds: int,
    seconds: int,
    until: float,
    say: Callable[[str], None],
) -> Iterator[Measured]:
    """Yield the results by round, row and server, until all are measured or `until` (monotonic) is reached.

    A server may work for some seconds after its port is open, as feedproxy starts its helper processes. The measurement
    begins when all servers are at rest.
    """
    for server in servers:
        rest(server, until)
    for row in rows:
        if row.count > 1:
            for server in (server for server in servers if server.takes_part(row)):
                started = time.monotonic()
                warm(server, row, until)
                say(f"{server.name} has {row.count} feeds after {time.monotonic() - started:.0f} s")
                acquaint(stage, server, row, until)
                say(f"{server.name} knows them, and rests, after {time.monotonic() - started:.0f} s")
    lost: set[tuple[str, str]] = set()
    for turn, row in itertools.product(range(rounds), rows):
        for server in servers[turn % len(servers) :] + servers[: turn % len(servers)]:
            if (row.key, server.name) in lost or not server.takes_part(row):
                continue
            if time.monotonic() > until:
                say("the time is over: fewer rounds than asked for")
                return
            try:
                measured = measure(stage, server, row, seconds)
            except (Unequal, ValueError, OSError) as error:
                measured = Measured(row.key, server.name, 0, 0, 0, f"{type(error).__name__}: {error}")
            yield measured
            said = measured.fault or f"{measured.us:.1f} us, {measured.rate:.0f}/s"
            say(f"round {turn + 1}, {row.title}, {server.name}: {said}")
            if measured.fault:
                lost.add((row.key, server.name))


def chosen(keys: Iterable[str], quick: bool) -> list[Row]:
    """Return the rows with these keys, or all rows. In a quick run, they have fewer feeds."""
    wanted = set(keys)
    if unknown := wanted - {row.key for row in ROWS}:
        raise ValueError(f"no such row: {', '.join(unknown)}; there are {', '.join(row.key for row in ROWS)}")
    rows = [row for row in ROWS if not wanted or row.key in wanted]
    return [_fewer(row) if quick and row.count > 1 else row for row in rows]


def _fewer(row: Row) -> Row:
    return replace(row, count=1000, title=row.title.replace("10,000", "1,000"))
