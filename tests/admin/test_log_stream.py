"""A log whose reader does not read: no writer waits, and no line is lost below a limit."""

import io
import logging
import os
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from feedproxy.telemetry import log_stream
from feedproxy.telemetry.log_format import LineHandler
from feedproxy.telemetry.log_stream import non_blocking

LINE = "x" * 99 + "\n"


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
    stream = non_blocking(pipe.writing)
    for number in range(100):
        stream.write(f"{number}\n")
    assert pipe.read_all() == "".join(f"{number}\n" for number in range(100))


def test_lines_for_a_pipe_that_is_not_read_arrive_complete_when_it_is_read(pipe: Pipe) -> None:
    stream = non_blocking(pipe.writing)
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
    try:
        for _ in range(30):
            handler.stream.write(LINE * 100)
        pipe.start_reading()
        handler.close()
    finally:
        logging.getLogger().removeHandler(handler)
    *lines, report = pipe.read_all().splitlines()
    assert f"[warning] log: {3000 - len(lines)} lines dropped while the log was not read" in report
    assert len(lines) >= 1000
    assert set(lines) == {LINE.strip()}


def test_writes_end_with_a_line_so_that_workers_do_not_mix_their_lines() -> None:
    lines = b"a" * 3000 + b"\n" + b"b" * 3000 + b"\n" + b"c" * 9000 + b"\n"
    ends = [0]
    while ends[-1] < len(lines):
        ends.append(log_stream._end_of_chunk(lines, ends[-1]))
    assert ends == [0, 3001, 6002, 15_003]


def test_file_and_text_in_memory_are_written_directly(tmp_path: object) -> None:
    in_memory = io.StringIO()
    with open(f"{tmp_path}/log", "w") as file:
        assert non_blocking(file) is file
    assert non_blocking(in_memory) is in_memory
