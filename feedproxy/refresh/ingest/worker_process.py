"""The processes beside the proxy that read, convert and compress feeds: what runs in them, and what goes over.

One process, the template, is started with the interpreter; it imports what jobs need and waits. For each worker that
worker_pool.py asks for it forks itself, which takes some milliseconds and shares its memory. A worker does one job
after another: they come over a socket of its own, and results go back over it.

A worker is bounded by the system: memory, processor time per job, open files, no files written, no processes started,
no core dumped. Template and workers end when the proxy ends, also by SIGKILL (PR_SET_PDEATHSIG, and the end of their
sockets). A signal to the whole group is not for them: what the proxy drains it still needs.
"""

import array
import contextlib
import ctypes
import gc
import importlib
import io
import os
import pickle
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.settings import Settings

NICENESS = 10
"""Readers come first, also where they and this share a CPU."""

NICENESS_SLOW = 19
"""Of a worker whose job takes long: jobs that take a moment come before it."""

NUMBER_SIZE = 8
"""Bytes before each message, which tell its length; and of a number."""

START_WORKER, KILL_WORKER = b"S", b"K"
"""What the template is asked for: a worker of this number, whose socket comes along; the end of such a worker."""

OUT_OF_BAND_MIN = 16 * 1024
"""Bytes of a byte string that is sent beside the pickle, as it is: in it, it would be copied four times."""

PARTS_MAX = 1024

type Parts = list[bytes]
"""A pickle, and behind it the long byte strings that it names by their number."""

PRELOADED_MODULES = (
    "feedproxy.http.compression_dictionary",
    "feedproxy.refresh.ingest.ingest",
    "feedproxy.refresh.policy.push",
    "feedproxy.proxy.autodiscovery",
    "feedproxy.proxy.representations.conversion_cache",
    "feedproxy.proxy.representations.deltas",
)
"""Modules whose functions are jobs: the template imports them once, before the first fork."""

_FILES_MAX = 64
"""Open files of a worker: a module that is imported late needs one at a time."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


@dataclass(frozen=True, slots=True)
class Limits:
    """What one job may take."""

    quick: Seconds = 0.5
    """So long a job may hold up those behind it; then others are done beside it."""
    cpu: Seconds = 10
    """Processor time. The largest feed of the corpus takes a tenth of a second."""
    wall: Seconds = 30
    """Time in all, for a worker that hangs, or is kept from the processor."""
    memory: int = 768 * 1024 * 1024
    """Bytes of address space beyond what the template has: fifteen times `decoded_max`."""


def main(descriptor: int, parent: int, cpu: Seconds, memory: int) -> None:
    """Be the template, until nobody asks any more."""
    _die_with(parent)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    for module in PRELOADED_MODULES:
        importlib.import_module(module)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)  # not before: feeds wait for the first worker
    gc.collect()
    gc.freeze()
    workers: dict[int, int] = {}
    with socket.socket(fileno=descriptor) as control:
        while True:
            message, descriptors = _receive(control)
            if not message:
                break
            number = int.from_bytes(message[1:], "big")
            if message[:1] == START_WORKER and descriptors:
                workers[number] = _fork_worker(control, descriptors[0], cpu, memory)
                os.close(descriptors[0])
            elif message[:1] == KILL_WORKER and number in workers:
                _kill(workers.pop(number))
    for pid in workers.values():
        _kill(pid)


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    descriptors = array.array("i")
    message, ancillary, _, _ = control.recvmsg(1 + NUMBER_SIZE, socket.CMSG_LEN(descriptors.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return message, list(descriptors)


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _fork_worker(control: socket.socket, descriptor: int, cpu: Seconds, memory: int) -> int:
    """The pid of a new worker."""
    template = os.getpid()
    if pid := os.fork():
        return pid
    code = 1
    try:
        control.close()
        _die_with(template)
        _limit_resources(memory)
        _run_worker(descriptor, cpu)
        code = 0
    finally:
        os._exit(code)  # nothing of the template's is to be tidied up here


def _die_with(parent: int) -> None:
    """End with this process, however it ends. Where the system cannot do that, the end of the socket does it."""
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)  # it ended before that


def _limit_resources(memory: int) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: _FILES_MAX,
    }
    if (size := _address_space()) is not None:
        limits[resource.RLIMIT_AS] = size + memory
        limits[resource.RLIMIT_NPROC] = 0
    for limit, most in limits.items():
        with contextlib.suppress(OSError, ValueError):  # a lower one is set already
            resource.setrlimit(limit, (most, most))


def _address_space() -> int | None:
    """Bytes of address space of this process; None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None


def _extend_cpu_limit(cpu: Seconds) -> None:
    """Allow this process so much more processor time; beyond it the system ends it (SIGXCPU)."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (int(_cpu_time() + cpu) + 1, hard))


def _cpu_time() -> Seconds:
    """Processor time of this process."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def _run_worker(descriptor: int, cpu: Seconds) -> None:
    """Say this worker's pid, and do what is asked for, until nobody asks any more."""
    with socket.socket(fileno=descriptor) as sock, sock.makefile("rb") as jobs:
        sock.sendall(os.getpid().to_bytes(NUMBER_SIZE, "big"))
        while len(count := jobs.read(NUMBER_SIZE)) == NUMBER_SIZE:
            _extend_cpu_limit(cpu)
            lengths = decode_numbers(jobs.read(NUMBER_SIZE * int.from_bytes(count, "big")))
            result = run_job([jobs.read(length) for length in lengths])
            sock.sendall(encode_numbers([int(_cpu_time() * 1_000_000)]))
            for piece in frame(result):
                sock.sendall(piece)


def run_job(job: Parts) -> Parts:
    """Its result, or the exception that it ended with."""
    try:
        work: Callable[[], Any] = _JobUnpickler(job).load()
        return dump_message((work(), None))
    except Exception as error:
        try:
            return dump_message((None, error))
        except Exception:
            return dump_message((None, RuntimeError(repr(error)[:1000])))


class _Pickler(pickle.Pickler):
    """Settings are the same for many jobs, and are a hundred values: each set of them is taken apart once."""

    def __init__(self, parts: Parts) -> None:
        self._buffer = io.BytesIO()
        super().__init__(self._buffer, pickle.HIGHEST_PROTOCOL)
        self._parts = parts
        self._numbers: dict[int, int] = {}

    def persistent_id(self, value: Any) -> int | None:
        if type(value) is not bytes or len(value) < OUT_OF_BAND_MIN:
            return None
        if (number := self._numbers.get(id(value))) is None:
            if len(self._parts) == PARTS_MAX:
                return None
            number = self._numbers[id(value)] = len(self._parts)
            self._parts.append(value)
        return number

    def reducer_override(self, value: Any) -> Any:
        return (_unpickle_settings, (_pickle_settings(value),)) if type(value) is Settings else NotImplemented

    def dumped(self, value: Any) -> bytes:
        self.dump(value)
        return self._buffer.getvalue()


def dump_message(value: Any) -> Parts:
    """A job, or what comes of it."""
    parts = [b""]
    parts[0] = _Pickler(parts).dumped(value)
    return parts


class _JobUnpickler(pickle.Unpickler):
    """Reads a pickle and the parts behind it."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(io.BytesIO(parts[0]))
        self._parts = parts

    def persistent_load(self, number: Any) -> bytes:
        if type(number) is not int or not 0 < number < len(self._parts):
            raise pickle.UnpicklingError("there is no such part")
        return self._parts[number]


class _Unpickler(_JobUnpickler):
    """Takes values of feedproxy's own classes, and exceptions, and calls nothing else.

    A worker that a document has taken over may answer whatever it likes. pickle calls what a message names; here
    that is a class of values at worst.
    """

    def find_class(self, module: str, name: str) -> Any:
        found: Any = None
        if module == "builtins" and name in ("frozenset", "set", "bytearray", "complex"):
            return super().find_class(module, name)
        if module in ("builtins", "json.decoder") or module.startswith("feedproxy."):
            found = super().find_class(module, name) if module in sys.modules else None
        is_error = isinstance(found, type) and issubclass(found, Exception)
        is_value = isinstance(found, type) and module.startswith("feedproxy.") and _is_value(found)
        if not is_error and not is_value:
            raise pickle.UnpicklingError(f"{module}.{name} is no value of ours")
        # A pickle can give state to a class as to an object, which would change it for the whole process. A class with
        # `__setstate__` refuses that; of another only the maker is given away.
        return found if hasattr(found, "__setstate__") else _constructor(found)


def _constructor(kind: type) -> Callable[..., object]:
    def make(*values: object) -> object:
        return kind(*values)

    return make


def _is_value(kind: type) -> bool:
    return (
        hasattr(kind, "__dataclass_fields__")
        or hasattr(kind, "__members__")
        or kind.__module__.startswith(_VALUE_PACKAGES)
    )


_VALUE_PACKAGES = ("feedproxy.http.", "feedproxy.cache.", "feedproxy.feed.")
"""Packages whose classes do nothing but hold values and compute: they open nothing, and start nothing."""


def load_result(message: Parts) -> tuple[Any, Exception | None]:
    """Result and error of a job. Raises pickle.UnpicklingError, and others, for what is none."""
    result, error = _Unpickler(message).load()
    if error is not None and not isinstance(error, Exception):
        raise pickle.UnpicklingError("the error is none")
    return result, error


@lru_cache(64)
def _pickle_settings(settings: Settings) -> bytes:
    return pickle.dumps(settings, pickle.HIGHEST_PROTOCOL)


@lru_cache(64)
def _unpickle_settings(packed_settings: bytes) -> Settings:
    found: Settings = pickle.loads(packed_settings)  # noqa: S301 (our own parent's)
    return found


def frame(message: Parts) -> Parts:
    """A message with the number of its parts and their lengths before it."""
    return [encode_numbers([len(message), *map(len, message)]), *message]


def encode_numbers(values: Iterable[int]) -> bytes:
    """Numbers as they go over a socket."""
    return b"".join(value.to_bytes(NUMBER_SIZE, "big") for value in values)


def decode_numbers(data: bytes) -> list[int]:
    """Numbers as they come over a socket."""
    return [int.from_bytes(data[at : at + NUMBER_SIZE], "big") for at in range(0, len(data), NUMBER_SIZE)]


def template_command(descriptor: int, limits: Limits) -> list[str]:
    """How the template is started: with the interpreter and the import path of this process, and nothing else of it."""
    given = f"{descriptor}, {os.getpid()}, {limits.cpu!r}, {limits.memory}"
    run = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main({given})"
    return [sys.executable, "-P", "-c", run]
