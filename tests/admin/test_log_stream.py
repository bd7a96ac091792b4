"""A log whose reader does not read: no writer waits, and no line is lost below a limit."""

import asyncio
import contextlib
import errno
import io
import logging
import os
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from feedproxy.telemetry import log_stream
from feedproxy.telemetry.log_stream import LineBatch, LineHandler, non_blocking
from feedproxy.telemetry.metrics import Metrics
from tests.waiting import PATIENCE

LINE = "x" * 99 + "\n"


def report(count: int) -> str:
    return f"{count} dropped\n"


class Pipe:
    """A pipe, and the program that reads it."""

    def __init__(self) -> None:
        self.read_end, write_end = os.pipe()
        self.writing: TextIO = os.fdopen(write_end, "w")

        self._parts: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)

    def start_reading(self) -> None:
        self._reader.start()

    def read_all(self) -> str:
        """Close the writing end, and return everything that was written."""
        self.writing.close()
        if self._reader.ident is None:
            self._reader.start()
        self._reader.join()
        return "".join(self._parts)

    def _read(self) -> None:
        while part := os.read(self.read_end, 65_536):
            self._parts.append(part.decode())


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.writing.close()
    os.close(pipe.read_end)


def test_pipe_with_room_takes_lines_at_once_and_in_order(pipe: Pipe) -> None:
    stream = non_blocking(pipe.writing, report)
    for number in range(100):
        stream.write(f"{number}\n")
    assert pipe.read_all() == "".join(f"{number}\n" for number in range(100))


def test_lines_written_while_the_pipe_is_full_arrive_complete_once_it_is_read(pipe: Pipe) -> None:
    stream = non_blocking(pipe.writing, report)
    text = "".join(f"{number:09}\n" for number in range(30_000))  # a pipe has room for a fifth of it
    stream.write(text)
    stream.write("last\n")
    pipe.start_reading()
    stream.close()
    assert pipe.read_all() == f"{text}last\n"


def test_lines_beyond_the_backlog_are_dropped_and_their_number_is_logged(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "BACKLOG_MAX", 100_000)
    handler = LineHandler(pipe.writing)
    handler.set_form("text")
    logging.getLogger().addHandler(handler)
    metrics = Metrics()
    try:
        for _ in range(30):
            handler.stream.write(LINE * 100)
        pipe.start_reading()
        handler.close()
        metrics.families()
        metrics.families()  # counts each line once
    finally:
        logging.getLogger().removeHandler(handler)
    *lines, report = pipe.read_all().splitlines()
    assert f"[warning] log: {3000 - len(lines)} lines dropped while the log was not read" in report
    assert len(lines) >= 1000
    assert metrics.registry.get_sample_value("feedproxy_log_lines_dropped_total") == 3000 - len(lines)
    assert set(lines) == {LINE.strip()}


async def test_batch_writes_the_lines_of_an_interval_together() -> None:
    handler, written = LineHandler(io.StringIO()), asyncio.Queue[list[str]]()
    handler.write_all = lambda name, lines: written.put_nowait(list(lines))  # type: ignore[method-assign]
    logger = logging.Logger("feedproxy.fetch")
    logger.addHandler(handler)
    batch = LineBatch(logger)

    batch.add("one")
    batch.add("two")

    assert written.empty()
    assert await asyncio.wait_for(written.get(), PATIENCE) == ["one", "two"]


def test_number_of_dropped_lines_stands_where_they_are_missing(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "BACKLOG_MAX", 100_000)
    stream = non_blocking(pipe.writing, report)
    monkeypatch.setattr(stream, "_start_thread", lambda: None)
    stream.write("first\n")
    stream.write(LINE * 1500)
    stream.write(LINE * 900)
    stream.write(LINE * 300)
    stream.write("last\n")
    monkeypatch.undo()
    pipe.start_reading()
    stream.close()
    lines = pipe.read_all().splitlines()
    assert [line for line in lines if line != LINE.strip()] == ["first", "1200 dropped", "last"]
    assert len(lines) == 1503


def test_end_of_the_process_does_not_wait_for_the_report_of_dropped_lines(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "BACKLOG_MAX", 100_000)
    handler = LineHandler(pipe.writing)
    handler.set_form("text")
    logging.getLogger().addHandler(handler)
    try:
        for _ in range(30):
            handler.stream.write(LINE * 100)
        thread = handler.stream._thread
        pipe.start_reading()
        with handler.lock or contextlib.nullcontext():  # as logging.shutdown does
            thread.join(30)
            assert not thread.is_alive()
    finally:
        logging.getLogger().removeHandler(handler)
    assert "lines dropped while the log was not read" in pipe.read_all()


def test_line_that_finds_no_thread_is_written_with_the_next_one(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = non_blocking(pipe.writing, report)

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as no_threads:
        no_threads.setattr(threading.Thread, "start", start)
        stream.write(LINE * 2000)
    pipe.start_reading()
    stream.write("last\n")
    stream.close()
    assert pipe.read_all() == LINE * 2000 + "last\n"


def test_backlog_of_a_descriptor_in_non_blocking_mode_is_not_lost(pipe: Pipe) -> None:
    os.set_blocking(pipe.writing.fileno(), False)  # by another program that shares it
    stream = non_blocking(pipe.writing, report)
    stream.write(LINE * 2000)
    pipe.start_reading()
    stream.close()
    assert pipe.read_all() == LINE * 2000


def test_room_that_another_worker_takes_after_the_poll_is_not_waited_for(pipe: Pipe) -> None:
    stream = non_blocking(pipe.writing, report)

    class Poll:
        """It reports room that is gone when the write begins."""

        def poll(self, _: int) -> bool:
            return True

    stream._poll = Poll()
    writing = threading.Thread(target=stream.write, args=(LINE * 2000,), daemon=True)
    writing.start()
    writing.join(30)
    assert not writing.is_alive()
    pipe.start_reading()
    stream.close()
    assert pipe.read_all() == LINE * 2000


def test_pipe_of_an_older_linux_is_written_to_if_it_has_room(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "pwritev", unsupported)
    stream = non_blocking(pipe.writing, report)
    stream.write(LINE * 2000)
    pipe.start_reading()
    stream.close()
    assert pipe.read_all() == LINE * 2000


def test_writes_end_with_a_line_so_that_workers_do_not_mix_their_lines() -> None:
    lines = b"a" * 3000 + b"\n" + b"b" * 3000 + b"\n" + b"c" * 9000 + b"\n"
    ends = [0]
    while ends[-1] < len(lines):
        ends.append(log_stream._end_of_chunk(lines, ends[-1]))
    assert ends == [0, 3001, 6002, 15_003]


def test_file_and_text_in_memory_are_written_directly(tmp_path: object) -> None:
    in_memory = io.StringIO()
    with open(f"{tmp_path}/log", "w") as file:
        assert non_blocking(file, report) is file
    assert non_blocking(in_memory, report) is in_memory
