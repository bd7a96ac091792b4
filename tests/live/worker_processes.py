"""Connections of readers to several workers, with the worker of each, and the admin listener."""

import json
import os
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.live.origin import until
from tests.live.product import Feedproxy, Seen, read_answer
from tests.waiting import PATIENCE

ADMIN = re.compile(r"the admin listener is at (http://\S+)")

TOLD_BY_PROC = Path("/proc/self/net/tcp").exists()
"""True if the system can tell which process serves a connection."""


class Connection:
    """One connection of a reader, and its worker."""

    def __init__(self, proxy: Feedproxy, agent: str, *, find: bool = True) -> None:
        self._proxy = proxy
        self._agent = agent
        self.wire = socket.create_connection(proxy.address, timeout=PATIENCE)
        self.send("")  # a silent connection may be accepted late
        self.answer()
        self.pid = self._find() if find else 0

    def get(self, target: str, **fields: str) -> Seen:
        self.send(target, **fields)
        return self.answer()

    def send(self, target: str, *, method: str = "GET", **fields: str) -> None:
        lines = {"Host": self._proxy.base.removeprefix("http://"), "User-Agent": self._agent} | {
            name.replace("_", "-"): value for name, value in fields.items()
        }
        path = "/" + target
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.wire.sendall(head.encode() + b"\r\n")

    def answer(self, method: str = "GET") -> Seen:
        return read_answer(self.wire, method)

    def close(self) -> None:
        self.wire.close()

    def _find(self) -> int:
        """Return the worker that has accepted the connection."""
        ours = f"0100007F:{self.wire.getsockname()[1]:04X}"
        for pid in workers(self._proxy):
            inodes = {
                line.split()[9]
                for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
                if line.split()[2] == ours
            }
            if any(f"socket:[{inode}]" in open_files(pid) for inode in inodes):
                return pid
        return 0


def open_files(pid: int) -> set[str]:
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(os.readlink(each))
        except OSError:
            continue
    return found


def workers(proxy: Feedproxy) -> list[int]:
    return [int(each) for each in Path(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read_text().split()]


@contextmanager
def connections(proxy: Feedproxy, *, each: int = 3, agent: str = "reader/1") -> Iterator[list[Connection]]:
    """Open connections, at least this number to each worker, alternating between workers."""
    with ExitStack() as stack:
        made: dict[int, list[Connection]] = {pid: [] for pid in workers(proxy)}
        for _ in range(200):
            connection = Connection(proxy, agent)
            stack.callback(connection.close)
            made[connection.pid].append(connection)
            if all(len(of_one) >= each for of_one in made.values()):
                break
        yield [
            connection for row in zip(*(of_one[:each] for of_one in made.values()), strict=True) for connection in row
        ]


def admin(proxy: Feedproxy, method: str, path: str) -> Any:
    base = until(lambda: ADMIN.findall(proxy.said))[-1]
    request = urllib.request.Request(f"{base}{path}", method=method, headers={"Accept": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
        data = answer.read()
    return json.loads(data) if "json" in answer.headers["Content-Type"] else data.decode()
