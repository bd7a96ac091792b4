"""Shared configuration of all tests: settings of property tests, and the corpus of real and hostile feeds."""

import contextlib
import functools
import gc
import importlib
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.logging import caplog_records_key
from hypothesis import HealthCheck, settings
from hypothesis.internal import charmap, intervalsets
from hypothesis.internal.conjecture import providers
from pytest_asyncio import plugin as asyncio_plugin

from feedproxy.process import option_sources
from feedproxy.telemetry.log_stream import LineHandler
from feedproxy.workers.available_memory import available_memory
from tests import cheap_mitmproxy, cheap_notification_database, local_names, short_reports

CORPUS = Path(__file__).resolve().parents[1].parent / "shared" / "corpus"

# Each run uses the same examples, so a failure is due to the change.
# `--hypothesis-profile explore` generates others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("same")

# Hypothesis also tries the constants of all modules that the process has imported. Which modules these are depends on
# the number of processes and on the tests before, and so would the examples. In a fresh clone, each process would parse
# all modules for three seconds.
_constants_of_modules = providers._get_local_constants
providers._get_local_constants = lambda: (
    _constants_of_modules() if settings.get_current_profile_name() == "explore" else providers._local_constants
)

# UTF-8 encodes all characters but surrogates. To find that out, Hypothesis would encode each character, which takes two
# seconds in each process of a fresh clone.
_UTF_8 = intervalsets.IntervalSet([(0, 0xD7FF), (0xE000, 0x10FFFF)]), intervalsets.IntervalSet()
_intervals_from_codec = charmap.intervals_from_codec
charmap.intervals_from_codec = functools.cache(
    lambda codec: _UTF_8 if codec == "utf-8" else _intervals_from_codec(codec)
)


def _as_asynchronous(kind: type[pytest.Function], function: pytest.Function) -> pytest.Function:
    """Make this item one of the plugin's kind. Its items have the attributes of all others."""
    setattr(function, "__class__", kind)  # noqa: B010 -- mypy permits no assignment
    return function


# pytest-asyncio makes a second item for each asynchronous test, which takes half a second in each process.
setattr(asyncio_plugin.PytestAsyncioFunction, "_from_function", classmethod(_as_asynchronous))  # noqa: B010

# A shell starts programs in the background with SIGINT ignored, and programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MEMORY = Path("/dev/shm")
MEMORY_MIN = 2 * 1024**3
"""Free bytes in memory with which the temporary folders of tests are in memory."""


def _can_keep_folders_in_memory() -> bool:
    if not os.access(MEMORY, os.W_OK):
        return False
    system = os.statvfs(MEMORY)
    return not system.f_flag & os.ST_NOEXEC and system.f_bavail * system.f_frsize >= MEMORY_MIN


# SQLite syncs every file of each store, which on a disk takes a fifth of the processor time of tests with stores.
if _can_keep_folders_in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# The limits of this process's memory stay the same. Each proxy would read them from four files.
setattr(option_sources, "available_memory", functools.cache(available_memory))  # noqa: B010 -- it is not exported there

local_names.look_up_local_names_only()
cheap_mitmproxy.cheapen_options_and_keys()
cheap_mitmproxy.ignore_commands()
cheap_notification_database.cheapen_databases_in_memory()


LONG = frozenset(
    {
        "check/test_checks_and_reports.py",
        "feed/convert/test_matrix.py",
        "feed/test_corpus.py",
        "feed/test_delta.py",
        "properties/test_ranges.py",
        "properties/test_rfc9111_model.py",
        "properties/test_store_codec.py",
        "subscribers/test_subscriber_counts.py",
        "test_benchmarks.py",
        "test_demo.py",
        "test_polling_simulation.py",
        "test_week.py",
    }
)
"""Files with a test that takes more than 3 seconds of processor time, besides live tests."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let half of the processes begin with a part of the live tests each, and the last process with other long tests.

    The last tests are short then. Live tests wait for programs most of their time. Meanwhile the other half of the
    processes, one for each processor, use the processors fully.
    """
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    if count == 1:
        return
    root = f"{Path(__file__).parent}{os.sep}"
    live: list[pytest.Item] = []
    long: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        name = str(item.path).removeprefix(root)
        (live if name.startswith(f"live{os.sep}") else long if name in LONG else others).append(item)
    ordered: list[pytest.Item] = []
    shares = count // 2
    for number in range(count):
        # xdist gives each process an equal part of what remains.
        size = (len(items) - len(ordered)) // (count - number)
        first = live[len(live) * number // shares : len(live) * (number + 1) // shares] if number < shares else []
        if number == count - 1:
            first = long
        rest = max(0, size - len(first))
        ordered += first + others[:rest]
        others = others[rest:]
    items[:] = ordered + others


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return twice the number of processors, because the tests wait for programs half of their time."""
    count = getattr(os, "process_cpu_count", os.cpu_count)  # the former is new in Python 3.13
    return 2 * (count() or 1)


def pytest_collection(session: pytest.Session) -> None:
    """Let each process import its own part of the test modules before it collects all.

    In a fresh clone, each module is compiled by one process then, and read by the others. If all processes began with
    the same module, each would compile all modules.
    """
    config = session.config
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    if count == 1:
        return
    short_reports.shorten(config)
    number = int(getattr(config, "workerinput")["workerid"].removeprefix("gw"))  # noqa: B009 -- xdist adds it
    chosen = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    root = Path(__file__).parent
    paths = sorted(path for path in root.rglob("test_*.py") if any(path.is_relative_to(each) for each in chosen))
    for path in paths[number::count]:
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        # The collection imports the module again, and reports the error or the skip.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


@pytest.hookimpl(tryfirst=True)
def pytest_report_from_serializable(data: object) -> pytest.TestReport | None:
    """Let the process that prints the results read short reports."""
    return short_reports.restore(data)


# Millions of objects describe the tests and live as long as the process. The collector ignores frozen objects.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the corpus beside the project's folder, or skip the test visibly if it is missing."""
    if not (CORPUS / "feeds.json").is_file():
        pytest.skip("no corpus: ../shared/corpus is not there")
    return CORPUS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test if mitmproxy logged an exception, which it catches while it handles an event.

    Remove the log handlers that the test has added, because they write to a stream that pytest closes.

    A fixture of all tests would take a fifth of a millisecond for each test.
    """
    records = item.stash.get(caplog_records_key, {})
    crashes = [each.getMessage() for phase in records.values() for each in phase if "has crashed" in each.getMessage()]
    yield
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, LineHandler):
            root.removeHandler(handler)
    assert not crashes
