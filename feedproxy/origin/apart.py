"""The process beside the proxy that reads and compresses feeds: jobs come over a socket, one after another.

It is started by workshop.py and ends when the socket does, that is, also when the proxy is no more. A signal to the
whole group is not for it: what the proxy drains it still needs.
"""

import gc
import importlib
import io
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from feedproxy.settings import Settings

NICE = 10
"""Readers come first, also where they and this share a CPU."""

LENGTH = 8
"""Bytes before each message, which tell its length."""

READY = b"\0" * LENGTH
"""Said once, when the first job can be begun."""


def main(descriptor: int) -> None:
    """Do what is asked for, until nobody asks any more."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    os.nice(NICE)
    importlib.import_module("feedproxy.origin.prepare")
    gc.freeze()
    with socket.socket(fileno=descriptor) as sock, sock.makefile("rb") as jobs:
        sock.sendall(READY)
        while len(length := jobs.read(LENGTH)) == LENGTH:
            job = jobs.read(int.from_bytes(length, "big"))
            sock.sendall(framed(_done(job)))


def _done(job: bytes) -> bytes:
    """Its result, or the exception that it ended with, pickled."""
    try:
        work: Callable[[], Any] = pickle.loads(job)  # noqa: S301 (our own parent's)
        return pickle.dumps((work(), None), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        try:
            return pickle.dumps((None, error), pickle.HIGHEST_PROTOCOL)
        except Exception:
            return pickle.dumps((None, RuntimeError(repr(error))), pickle.HIGHEST_PROTOCOL)


class _Pickler(pickle.Pickler):
    """Settings are the same for many jobs, and are a hundred values: each set of them is taken apart once."""

    def reducer_override(self, value: Any) -> Any:
        return (_settings, (_packed_settings(value),)) if type(value) is Settings else NotImplemented


def packed(work: Callable[[], Any]) -> bytes:
    """A job as bytes."""
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(work)
    return buffer.getvalue()


@lru_cache(64)
def _packed_settings(settings: Settings) -> bytes:
    return pickle.dumps(settings, pickle.HIGHEST_PROTOCOL)


@lru_cache(64)
def _settings(packed_settings: bytes) -> Settings:
    found: Settings = pickle.loads(packed_settings)  # noqa: S301 (our own parent's)
    return found


def framed(message: bytes) -> bytes:
    """A message with its length before it."""
    return len(message).to_bytes(LENGTH, "big") + message


def command(descriptor: int) -> list[str]:
    """How it is started: with the interpreter and the import path of this process, and nothing of its main module."""
    run = f"import sys; sys.path[:] = {sys.path!r}; from feedproxy.origin.apart import main; main({descriptor})"
    return [sys.executable, "-P", "-c", run]
