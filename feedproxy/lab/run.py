"""A reader's own command against a replay, over a plan's virtual days.

A reader that is started for each poll, as cron does it, sees a clock that stands still while it runs and has moved on
when it is started again. One that goes on running sees a clock that runs fast. Either way the feed's address is unique
to the run, so that nothing else is taken for the reader, and each run begins without a memory of the one before.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from feedproxy.clock import AcceleratedClock, Clock, Instant, ManualClock, Seconds
from feedproxy.errors import UsageError
from feedproxy.lab.plan import Plan
from feedproxy.lab.record.exchange import Exchange, Recording
from feedproxy.lab.record.recorder import with_digest
from feedproxy.lab.replay.replay_listener import ReplayListener
from feedproxy.lab.replay.replay_source import ReplayOptions, feed_table, make_replay
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline

GRACE: Seconds = 5
"""What a command has, after SIGTERM, until SIGKILL."""

type Progress = Callable[[int, int], None]
"""Is told how many polls of how many are done."""


@dataclass(slots=True)
class RunResult:
    """What came of it."""

    recording: Recording = field(default_factory=lambda: Recording(()))
    starts: int = 0
    failed: int = 0
    """Starts that ended with another exit code than 0, or were cut short."""
    first_failure: str = ""


class _ExchangeLog:
    """What was asked and answered, in order."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.contents: dict[str, bytes] = {}

    def note(self, exchange: Exchange, body: bytes) -> None:
        told, content = with_digest(exchange, body)
        self.exchanges.append(told)
        if told.digest:
            self.contents[told.digest] = content


async def run(
    plan: Plan,
    world: ReplayWorld,
    command: Sequence[str],
    *,
    verbose: bool = False,
    progress: Progress = lambda *_: None,
) -> RunResult:
    """Play the plan. In the command `{url}`, `{host}`, `{port}`, `{home}`, `{poll}` and `{time}` are replaced.

    Raises UsageError where the command cannot be started, or the plan asks for what is not there.
    """
    start = plan.start(world)
    known_as, feed = _feed_of(plan, world)
    name = f"lab-{secrets.token_hex(5)}"
    path = f"/{name}/{urlsplit(plan.url).path.rsplit('/', 1)[-1] or 'feed.xml'}"
    # A redirect of the recording leads on to what else is in it.
    known, names = ReplayWorld(world.targets, {path: feed}), {path: known_as} if "://" in known_as else {}
    replay = make_replay(known, ReplayOptions(plan.strip, plan.add, plan.fault, plan.seed), start, names=names)
    clock: Clock = AcceleratedClock(start, plan.speed) if plan.speed else ManualClock(start)
    notebook = _ExchangeLog()
    listener = ReplayListener(replay, clock, observe=notebook.note)
    await listener.start("127.0.0.1", 0)
    home = Path(tempfile.mkdtemp(prefix="feedproxy-lab-"))
    try:
        stage = _CommandRunner(plan, command, f"{listener.url}{path}", home, verbose)
        if isinstance(clock, ManualClock):
            done = await _run_poll_by_poll(stage, clock, start, progress)
        else:
            done = await _run_continuously(stage, start)
    finally:
        await listener.close()
        shutil.rmtree(home, ignore_errors=True)
    # The time is over, whoever asked last: a feed that has ended was left in peace till now.
    done.recording = Recording(tuple(notebook.exchanges), notebook.contents, clock.now())
    return done


async def _run_poll_by_poll(
    stage: "_CommandRunner", clock: ManualClock, start: Instant, progress: Progress
) -> RunResult:
    plan, done = stage.plan, RunResult()
    random = Random(plan.seed)  # noqa: S311 -- to be the same each time
    count = max(1, int(plan.days * 86_400 // plan.every))
    # Nobody's minute is the full hour, unless the plan says so: that would be held against the reader.
    minute = random.uniform(60, min(plan.every, 3540)) if plan.jitter and plan.every > 60 else 0.0
    for number in range(count):
        at = start + minute + number * plan.every + random.uniform(0, plan.jitter)
        clock.advance(max(0.0, at - clock.now()))
        await stage.once(number + 1, clock.now(), plan.timeout, done)
        progress(number + 1, count)
    clock.advance(max(0.0, start + plan.days * 86_400 - clock.now()))
    return done


async def _run_continuously(stage: "_CommandRunner", start: Instant) -> RunResult:
    done = RunResult()
    await stage.once(1, start, stage.plan.days * 86_400 / stage.plan.speed, done, lasts=True)
    return done


class _CommandRunner:
    """How the command is started."""

    def __init__(self, plan: Plan, command: Sequence[str], url: str, home: Path, verbose: bool) -> None:
        self.plan = plan
        self._command = command
        self._url = url
        self._home = home
        self._verbose = verbose
        self._faketime = shutil.which("faketime") if plan.faketime else ""
        if self._faketime is None:
            raise UsageError("the plan wants faketime, which is not installed (Debian: apt-get install faketime)")

    async def once(self, number: int, now: Instant, timeout: Seconds, done: RunResult, *, lasts: bool = False) -> None:
        """Start the command and wait for its end; one that `lasts` is told to end when the time is over."""
        arguments = self._arguments(number, now)
        sink = None if self._verbose else asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                env=self._environment(now),
                cwd=None,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"{arguments[0]}: {error.strerror or error}") from error
        done.starts += 1
        try:
            code = await asyncio.wait_for(process.wait(), timeout)
            failure = f"poll {number}: exit code {code}" if code else ""
        except TimeoutError:
            await _end(process)
            failure = "" if lasts else f"poll {number}: it took longer than {timeout:g} s"
        except asyncio.CancelledError:
            await _end(process)
            raise
        if failure:
            done.failed += 1
            done.first_failure = done.first_failure or failure

    def _arguments(self, number: int, now: Instant) -> list[str]:
        split = urlsplit(self._url)
        values = {
            "{url}": self._url,
            "{host}": str(split.hostname),
            "{port}": str(split.port),
            "{home}": str(self._home),
            "{poll}": str(number),
            "{time}": str(int(now)),
        }
        filled = [_fill(each, values) for each in self._command]
        if self._faketime:
            rate = f" x{self.plan.speed:g}" if self.plan.speed else ""
            moment = datetime.fromtimestamp(now, UTC).strftime("@%Y-%m-%d %H:%M:%S")
            filled = [self._faketime, "-f", f"{moment}{rate}", *filled]
        return filled

    def _environment(self, now: Instant) -> Mapping[str, str]:
        given = {**os.environ, "FEED_URL": self._url, "LAB_HOME": str(self._home), "LAB_TIME": str(int(now))}
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            given.pop(name, None)  # the lab is asked, and nobody else
        if self.plan.own_home:
            given["HOME"] = str(self._home)
            for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
                given.pop(name, None)
        if self._faketime:
            given["TZ"] = "UTC"
        return given


async def _end(process: asyncio.subprocess.Process) -> None:
    """The command, and whatever it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
            return


def _fill(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _feed_of(plan: Plan, world: ReplayWorld) -> tuple[str, Timeline]:
    """The feed that is played, by its address or path."""
    if plan.url:
        found = world.find(plan.url) or world.paths.get(plan.url)
        if found is None:
            known = ", ".join(name for name, _ in feed_table(world))
            raise UsageError(f"url: {plan.url} is not in the source; there is {known[:300]}")
        return plan.url, found
    return next(feed_table(world))


def failures(plan: Plan, run: RunResult, grades: Sequence[tuple[str, int, frozenset[str]]]) -> list[str]:
    """What the plan demands and the run has not shown; `grades` are readers' names, grades and findings."""
    missed = []
    if not grades:
        missed.append("the reader asked for the feed not once, or got no answer that is a feed")
    for name, grade, found in grades:
        if grade < plan.grade:
            missed.append(f"{name}: {grade} of 100, and {plan.grade} were asked for")
        missed += [f"{name}: {each}" for each in plan.without if each in found]
    if run.starts and run.failed == run.starts:
        missed.append(f"the command failed each time ({run.first_failure})")
    return missed
