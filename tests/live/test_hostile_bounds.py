"""Limits on the machine's resources that hold for every hostile case, whatever the reader gets.

The limits are promises of the cases: 64 MB above idle and 2 s of CPU time of a process that has served before. The
kernel's peak counts, not the final value.
"""

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from tests.conftest import CORPUS
from tests.live.hostile import NOON, Play, decoded, read_index
from tests.live.product import Feedproxy
from tests.live.servers import whole_proxy

BOUNDED = "memory < 64 MB above idle, CPU < 2 s, other requests go on being answered"
CLOSED = "no connection to 127.0.0.1:9, no open of the named file"
MEMORY = 64 * 1024 * 1024
CPU = 2.0
OTHERS = 5

CASES = read_index(CORPUS) if (CORPUS / "hostile.json").is_file() else []
ABSENT = pytest.param("", marks=pytest.mark.skip("no corpus: ../shared/corpus is not there"))


def with_promise(promise: str) -> list[Any]:
    return [each["id"] for each in CASES if promise in (each.get("must") or ())] or [ABSENT]


def test_every_promise_of_the_corpus_is_known(corpus: Path) -> None:
    promises = {promise for case in read_index(corpus) for promise in case.get("must") or ()}

    assert promises <= {BOUNDED, CLOSED}


class Meter:
    """Resources that a process has used, as the kernel counts them."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        if not self._folder.is_dir():
            pytest.skip("no /proc on this system")
        self.idle = int((self._folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        # proc(5): "5" resets the peak resident set size to the current one.
        (self._folder / "clear_refs").write_text("5")
        self._began = self._cpu()

    def _cpu(self) -> float:
        after_name = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def cpu(self) -> float:
        """CPU seconds since the meter was set."""
        return self._cpu() - self._began

    @property
    def above_idle(self) -> int:
        """Bytes of the peak above the initial use."""
        lines = (self._folder / "status").read_text().splitlines()
        peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
        return peak - self.idle


@pytest.mark.parametrize("name", with_promise(BOUNDED))
def test_attack_costs_little_and_delays_no_other_client(
    name: str, hostile_origin: tuple[ModuleType, int], tmp_path: Path
) -> None:
    origin = f"http://127.0.0.1:{hostile_origin[1]}"
    proxy = Feedproxy(tmp_path)
    try:
        for coding in ("gzip", "br", "zstd", "identity"):
            assert proxy.get(f"{origin}/good/500-after-good", accept_encoding=coding).status == 200
        meter = Meter(proxy.process.pid)
        answers = []
        attack = threading.Thread(
            target=lambda: answers.append(proxy.get(f"{origin}/case/{name}", accept_encoding="gzip, br"))
        )
        attack.start()
        others = [proxy.get(f"{origin}/good/500-after-good") for _ in range(OTHERS)]
        attack.join()

        assert [each.status for each in others] == [200] * OTHERS
        assert answers[0].status in (200, 502)
        assert meter.cpu < CPU
        assert meter.above_idle < MEMORY

        plain = proxy.get(f"{origin}/case/{name}")
        assert plain.status in (200, 502)
        assert meter.cpu < 2 * CPU
        assert meter.above_idle < MEMORY
    finally:
        assert proxy.terminate() == 0, proxy.said
    assert "Traceback" not in proxy.said


IN_OPEN, IN_NONBLOCK = 0x20, 0x800


@contextmanager
def watched(path: Path) -> Iterator[list[int]]:
    """Record the openings of this file by any process during the block, by inotify(7)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        pytest.skip("no inotify on this system")
    descriptor = libc.inotify_init1(IN_NONBLOCK)
    assert libc.inotify_add_watch(descriptor, os.fsencode(path), IN_OPEN) >= 0
    events: list[int] = []
    try:
        yield events
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        events.extend(mask for _, mask, _, _ in struct.iter_unpack("iIII", data))
    finally:
        os.close(descriptor)


def test_watch_detects_an_opened_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()

    with watched(path) as events:
        path.read_bytes()

    assert events == [IN_OPEN]


@pytest.mark.parametrize("name", with_promise(CLOSED))
async def test_external_entity_is_neither_opened_nor_fetched(
    name: str,
    hostile_origin: tuple[ModuleType, int],
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, port = hostile_origin
    secret = tmp_path / "secret"
    secret.write_text("what nobody may see")
    asked_once = module.raw(module.CASES[name])[0]
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        head, _, body = asked_once.partition(b"\r\n\r\n")
        body = body.replace(b"/etc/passwd", bytes(secret)).replace(
            b"127.0.0.1:9", b"127.0.0.1:%d" % other.getsockname()[1]
        )
        assert body != asked_once.partition(b"\r\n\r\n")[2], "an entity that leads nowhere proves nothing"
        head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length"))
        answer = head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        monkeypatch.setattr(module, "raw", lambda _: [answer])
        module.STATE.clear()
        module.LOG.clear()

        with watched(secret) as opened:
            async with whole_proxy(ManualClock(NOON), port, allow_private=True) as whole:
                play = Play(module.CASES[name], module, whole, corpus)
                seen = await play.get()
                packed = await play.get(accept_encoding="gzip")
                kept = repr(play.resource)

        assert (seen.status, seen.body) == (200, body)
        assert decoded(packed.body, packed.coding) == body
        assert secret.read_text() not in kept
        assert opened == []
        with pytest.raises(BlockingIOError):
            other.accept()
