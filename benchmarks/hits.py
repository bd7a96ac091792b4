"""The table of hits (and misses): every server asked in every way, side by side, round by round.

A run counts only if all that was answered was right: the answer was seen before, each of wrk's has its length, there
were no errors, and the origin was not asked (or, for misses, was asked for each).
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
"""How often each of many feeds is asked for before anything is timed; the first time it is fetched."""

FEEDS_A_SECOND = 2500
"""A run over many feeds takes a second for so many at least: what is slow asks for each more than once in it, too."""

AT_REST = 0.05
"""Part of a CPU that a server takes when nobody asks and what it does with new feeds is done."""

_new = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, of which server and row; `fault` says why it does not count."""

    row: str
    server: str
    us: float
    rate: float
    p99_ms: float
    fault: str = ""


def fault(row: Row, run: Run, size: int, origin_asked: int) -> str:
    """Why this run does not count; empty if it does. `size`: bytes of the right answer, as it was seen before."""
    counted = run.counted
    if sum(counted.errors.values()) > counted.requests * 0.001:
        # wrk has a read error, too, where a connection ends that the answer did not say would (RFC 9112, section 9.6).
        kinds = ", ".join(f"{many} {kind}" for kind, many in counted.errors.items())
        return f"errors in {counted.requests} requests: {kinds}"
    mean = counted.bytes / counted.requests
    # Age, dates and the numbers of feeds have lengths of their own; what a run's end cuts off is counted, too.
    slack = 40 + size * CONNECTIONS / counted.requests
    if abs(mean - size) > slack:
        return f"{mean:.0f} bytes an answer, not {size}"
    if row.miss and origin_asked < counted.requests * 0.99:
        return f"only {origin_asked} of {counted.requests} misses reached the origin"
    if not row.miss and origin_asked:
        return f"{origin_asked} hits were none: the origin was asked"
    return ""


def begin(stage: Stage, say: Callable[[str], None], groups: Iterable[str], tls: bool) -> list[Server]:
    """feedproxy, and what is installed of these groups of peers, running."""
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
    """One run. Raises Unequal, ValueError, OSError."""
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
    """Ask for every feed again and again, as it will be asked for, and wait until the server has nothing more to do.

    It ends with that time (monotonic), whatever has been reached. Raises ValueError where nothing is answered.
    """
    rest(server, until)
    done, most = row.count, ROUNDS * row.count
    while done < most and time.monotonic() < until:
        load = Load(server.url(path("1"), row.tls), row.fields(""), row.mode, row.count, done, row.close)
        answered = ask(load, 2, stage.other_cpus).requests
        if not answered:
            raise ValueError(f"{server.name} answers nothing")
        done += answered
    rest(server, until)


def rest(server: Server, until: float) -> None:
    """Wait until it takes next to no CPU, or for that time (monotonic)."""
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
    """Round by round, row by row, server by server, until all is done or the time (monotonic) is over."""
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
    """These rows, or all; in a hurry there are fewer feeds."""
    wanted = set(keys)
    if unknown := wanted - {row.key for row in ROWS}:
        raise ValueError(f"no such row: {', '.join(unknown)}; there are {', '.join(row.key for row in ROWS)}")
    rows = [row for row in ROWS if not wanted or row.key in wanted]
    return [_fewer(row) if quick and row.count > 1 else row for row in rows]


def _fewer(row: Row) -> Row:
    return replace(row, count=1000, title=row.title.replace("10,000", "1,000"))
