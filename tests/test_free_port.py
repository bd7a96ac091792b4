"""Ports for servers of tests and benchmarks that cannot choose one themselves."""

import subprocess
import sys
from pathlib import Path

import pytest

from conformance import process

ROOT = Path(__file__).resolve().parents[1]
TRY = "import sys; from conformance import process; sys.exit(process._reserve(int(sys.argv[1])))"
"""A program that exits with 1 if it can reserve the port."""


def exit_code(port: int) -> int:
    return subprocess.run([sys.executable, "-c", TRY, str(port)], cwd=ROOT, check=False).returncode


def test_port_is_given_to_one_process_only() -> None:
    port = process.free_port()

    assert exit_code(port) == 0


def test_ports_of_one_process_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    reserved, other = process.free_port(), process.free_port()
    monkeypatch.setattr(process, "_reserved", {reserved})
    monkeypatch.setattr(process, "OUTSIDE", (reserved, other))

    assert process.free_port() == other
