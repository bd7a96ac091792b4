"""The cost of a request with one process, and with two on the same port. Neither servers nor load are bound to a CPU.

Each of two workers gets as many connections as a single worker. With half the connections, each iteration of a worker's
event loop would find half as many requests, and the cost of the iterations would appear as the cost of a second worker.
nginx is measured in the same way, to show how much of the difference the machine causes.
"""

import itertools
import statistics
from dataclasses import replace

from benchmarks.aim import Aim
from benchmarks.client import verify
from benchmarks.feed import path
from benchmarks.load import CONNECTIONS, Load, run
from benchmarks.peers import NGINX, Server, Stage
from benchmarks.rows import ROWS, Row

MANY = (1, 2)
_rows = [row for row in ROWS if row.key in {"304-keep", "304-close"}]


def play(stage: Stage, rounds: int, seconds: int) -> list[Aim]:
    """Return for each row the cost with two workers divided by the cost with one."""
    found = []
    kinds = {"": [stage.feedproxy("--workers", str(many), name=f"feedproxy {many}", free=True) for many in MANY]}
    if NGINX.path:
        kinds["nginx, "] = [stage.peer(replace(NGINX, name=f"nginx {many}"), workers=many, free=True) for many in MANY]
    for row in _rows:
        us: dict[str, list[float]] = {}
        for _, servers in itertools.product(range(rounds), kinds.values()):
            for many, server in zip(MANY, servers, strict=True):
                us.setdefault(server.name, []).append(_measured(server, row, many, seconds))
        for kind, servers in kinds.items():
            one, two = (statistics.median(us[server.name]) for server in servers)
            found.append(_told(row, two / one, kind))
    return found


def _measured(server: Server, row: Row, many: int, seconds: int) -> float:
    tag, _ = verify(server, row)
    load = Load(server.url(path("1")), row.fields(tag), close=row.close, connections=CONNECTIONS * many)
    return run(server.pid, load, seconds).us


def _told(row: Row, value: float, kind: str) -> Aim:
    told = f"{kind}{row.title}: CPU a request with two workers ÷ with one"
    return Aim(told, value, "", "≤", None if kind else 1.15)
