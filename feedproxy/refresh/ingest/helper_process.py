"""The helper processes that parse, convert and compress feeds, and the template process from which they are forked.

A helper runs one job after another, and gets the jobs over its own socket. docs/decisions/feed-processes.md lists the
limits of a helper. Template and helpers exit with the proxy, even if the proxy gets SIGKILL.
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
from enum import EnumType
from functools import lru_cache
from typing import Any

from msgspec import Struct

from feedproxy import oom_score
from feedproxy.clock import Seconds
from feedproxy.settings import Settings
from feedproxy.upstream.local_resource_exhaustion import address_space

NICENESS = 10
"""Niceness of a helper, so that the proxy runs first on a shared CPU."""

NICENESS_SLOW = 19
"""Niceness of a helper in the slow lane, so that quick jobs run first."""

NUMBER_SIZE = 8
"""Size of each number before a message (the number of its parts, and their lengths), in bytes."""

START_HELPER, KILL_HELPER = b"S", b"K"
"""Commands to the template process to start or kill a helper. The number of the helper follows."""

OUT_OF_BAND_MIN = 16 * 1024
"""A byte string of at least this many bytes is sent beside the pickle instead of in it."""

PARTS_MAX = 1024
"""Maximum number of parts (byte strings) in a message between a worker and its helper process."""

type Parts = list[bytes]
"""A pickle, and the long byte strings to which the pickle refers by number."""

PRELOADED_MODULES = (
    "feedproxy.http.coding.compression_dictionary",
    "feedproxy.refresh.ingest.ingest",
    "feedproxy.refresh.policy.pushed_content",
    "feedproxy.proxy.page_to_feed_redirect",
    "feedproxy.proxy.representations.conversion_cache",
    "feedproxy.proxy.representations.delta_responses",
)
"""Modules that the template process imports before the first fork."""

_FILES_MAX = 64
"""Maximum number of open files of a helper."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


class Limits(Struct, frozen=True):
    """The limits of one job."""

    quick: Seconds = 0.5
    """Seconds after which a running job moves to the slow lane."""
    cpu: Seconds = 10
    """Maximum processor time of a job, in seconds. The largest feed of the test corpus takes a tenth of this time."""
    wall: Seconds = 30
    """Maximum elapsed time of a job, in seconds."""
    memory: int = 768 * 1024 * 1024
    """Maximum address space of a helper in addition to that of the template process, in bytes: fifteen times
    `decoded_max`."""


def main(descriptor: int, parent: int, cpu: Seconds, memory: int) -> None:
    """Run the template process until its socket is closed. `descriptor` is the socket to the proxy, and `parent` the
    proxy's process id. `cpu` and `memory` limit each job (`Limits`)."""
    _exit_with(parent)
    oom_score.raise_oom_score(oom_score.HELPER)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    for module in PRELOADED_MODULES:
        importlib.import_module(module)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)  # after the imports: at low priority, they would delay the first helper
    gc.collect()
    gc.freeze()
    helpers: dict[int, int] = {}
    with socket.socket(fileno=descriptor) as control:
        while True:
            message, descriptors = _receive(control)
            if not message:
                break
            number = int.from_bytes(message[1:], "big")
            if message[:1] == START_HELPER and descriptors:
                helpers[number] = _fork_helper(control, descriptors[0], cpu, memory)
                os.close(descriptors[0])
            elif message[:1] == KILL_HELPER and number in helpers:
                _kill(helpers.pop(number))
    for pid in helpers.values():
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


def _fork_helper(control: socket.socket, descriptor: int, cpu: Seconds, memory: int) -> int:
    """Fork the template process, and return the process id of the new helper. `control` is the template's socket, and
    `descriptor` the helper's socket."""
    template = os.getpid()
    if pid := os.fork():
        return pid
    code = 1
    try:
        control.close()
        _exit_with(template)
        _limit_resources(memory)
        _run_helper(descriptor, cpu)
        code = 0
    finally:
        os._exit(code)  # skips the clean-up of the template


def _exit_with(parent: int) -> None:
    """Make this process exit when its parent exits. `parent` is the process id of the parent."""
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)  # the parent exited before the call


def _limit_resources(memory: int) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: _FILES_MAX,
    }
    if (size := address_space()) is not None:
        limits[resource.RLIMIT_AS] = size + memory
        limits[resource.RLIMIT_NPROC] = 0
    for limit, maximum in limits.items():
        with contextlib.suppress(OSError, ValueError):  # a lower limit is set already
            resource.setrlimit(limit, (maximum, maximum))


def _cpu_time() -> Seconds:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _run_helper(descriptor: int, cpu: Seconds) -> None:
    """Send the process id of this helper, then run jobs until its socket is closed."""
    with socket.socket(fileno=descriptor) as sock, sock.makefile("rb") as jobs:
        sock.sendall(os.getpid().to_bytes(NUMBER_SIZE, "big"))
        while len(count := jobs.read(NUMBER_SIZE)) == NUMBER_SIZE:
            # The system ends this process (SIGXCPU) if the job takes more than `cpu` seconds of processor time.
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_CPU, (int(_cpu_time() + cpu) + 1, hard))
            lengths = decode_numbers(jobs.read(NUMBER_SIZE * int.from_bytes(count, "big")))
            result = run_job([jobs.read(length) for length in lengths])
            sock.sendall(encode_numbers([int(_cpu_time() * 1_000_000)]))
            for piece in frame(result):
                sock.sendall(piece)


def run_job(job: Parts) -> Parts:
    """Run a job, and return the message with its result or exception."""
    try:
        work: Callable[[], Any] = _JobUnpickler(job).load()
        return dump_message((work(), None))
    except Exception as error:
        try:
            return dump_message((None, error))
        except Exception:
            return dump_message((None, RuntimeError(repr(error)[:1000])))


class _Pickler(pickle.Pickler):
    """Pickler that moves long byte strings out of the pickle into `parts`. Settings are inserted as a cached pickle,
    because many jobs have the same settings."""

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

    def dump_to_bytes(self, value: Any) -> bytes:
        self.dump(value)
        return self._buffer.getvalue()


def dump_message(value: Any) -> Parts:
    """Return a job or a result as a message."""
    parts = [b""]
    parts[0] = _Pickler(parts).dump_to_bytes(value)
    return parts


class _JobUnpickler(pickle.Unpickler):
    """Unpickler that reads long byte strings from the other parts of a message (`Parts`)."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(io.BytesIO(parts[0]))
        self._parts = parts

    def persistent_load(self, number: Any) -> bytes:
        if type(number) is not int or not 0 < number < len(self._parts):
            raise pickle.UnpicklingError("invalid part number")
        return self._parts[number]


class _Unpickler(_JobUnpickler):
    """Unpickler that accepts only feedproxy's own value classes, exceptions, and a few built-in types.

    Unpickling calls the functions that a message names. A document that exploits a defect of a parser could make its
    helper send a message that names harmful functions.
    """

    def find_class(self, module: str, name: str) -> Any:
        cls: Any = None
        if module == "builtins" and name in ("frozenset", "set", "bytearray", "complex"):
            return super().find_class(module, name)
        if module in ("builtins", "json.decoder") or module.startswith("feedproxy."):
            cls = super().find_class(module, name) if module in sys.modules else None
        is_error = isinstance(cls, type) and issubclass(cls, Exception)
        is_value = isinstance(cls, type) and module.startswith("feedproxy.") and _is_value(cls)
        is_enumeration = isinstance(cls, EnumType)
        if not is_error and not is_value:
            raise pickle.UnpicklingError(f"{module}.{name} is not a permitted class")
        # A pickle can set the state of a class, or of a member of an enumeration, which would change them for the
        # whole process. Classes with `__setstate__` refuse that. For other classes, only a constructor is returned.
        if is_enumeration:
            cls.__setstate__ = _refuse_state
        return cls if hasattr(cls, "__setstate__") else _constructor(cls)


def _constructor(cls: type) -> Callable[..., object]:
    def make(*values: object) -> object:
        return cls(*values)

    return make


def _refuse_state(*_arguments: object) -> None:
    raise pickle.UnpicklingError("an enumeration takes no state")


def _is_value(cls: type) -> bool:
    return (
        hasattr(cls, "__dataclass_fields__")
        or issubclass(cls, Struct)
        or hasattr(cls, "__members__")
        or cls.__module__.startswith(_VALUE_PACKAGES)
    )


_VALUE_PACKAGES = (
    "feedproxy.http.",
    "feedproxy.cache.",
    "feedproxy.feed.",
    "feedproxy.store.versions_for_dictionaries",
)
"""Packages and modules of value classes, which open no files and start no processes."""


def load_result(message: Parts) -> tuple[Any, Exception | None]:
    """Return the result of a job and None, or, if the job raised an exception, None and this exception. Invalid
    messages raise pickle.UnpicklingError or any other exception."""
    result, error = _Unpickler(message).load()
    if error is not None and not isinstance(error, Exception):
        raise pickle.UnpicklingError("invalid error: expected an exception")
    return result, error


@lru_cache(64)
def _pickle_settings(settings: Settings) -> bytes:
    return pickle.dumps(settings, pickle.HIGHEST_PROTOCOL)


@lru_cache(64)
def _unpickle_settings(packed_settings: bytes) -> Settings:
    settings: Settings = pickle.loads(packed_settings)  # noqa: S301 -- from the parent process
    return settings


def frame(message: Parts) -> Parts:
    """Return a message preceded by the number of its parts and their lengths."""
    return [encode_numbers([len(message), *map(len, message)]), *message]


def encode_numbers(values: Iterable[int]) -> bytes:
    """Return the numbers as bytes, NUMBER_SIZE for each."""
    return b"".join(value.to_bytes(NUMBER_SIZE, "big") for value in values)


def decode_numbers(data: bytes) -> list[int]:
    """Return the numbers from which `encode_numbers` made these bytes."""
    return [int.from_bytes(data[at : at + NUMBER_SIZE], "big") for at in range(0, len(data), NUMBER_SIZE)]


def template_command(descriptor: int, limits: Limits) -> list[str]:
    """Return the command that starts the template process."""
    arguments = f"{descriptor}, {os.getpid()}, {limits.cpu!r}, {limits.memory}"
    # Ctrl-C in a terminal sends SIGINT to this process, too, which the proxy ends.
    ignore = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    script = f"{ignore}; sys.path[:] = {sys.path!r}; from {__name__} import main; main({arguments})"
    return [sys.executable, "-P", "-c", script]
