"""Runs of a reader's command against a replay, over the virtual days of a plan.

If the command is started for each poll, as by cron, the clock advances between the starts. If it keeps running, the
clock runs faster than real time. Each run serves the feed at a new address, so that no reader has a copy yet.
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
from feedproxy.lab.record.recorder import Recorder, with_digest
from feedproxy.lab.replay.replay_listener import ReplayListener
from feedproxy.lab.replay.replay_source import ReplayOptions, feed_table, make_replay
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline
from feedproxy.scoring.grade import ReaderScore

SHUTDOWN_GRACE: Seconds = 5
"""The command has this many seconds to exit after SIGTERM. It then gets SIGKILL."""

GROUP_CHECK_INTERVAL: Seconds = 0.02
"""Seconds between two checks whether the command's processes have ended."""

type Progress = Callable[[int, int], None]
"""Callback for the number of finished polls and the number of all polls."""


@dataclass(slots=True)
class RunResult:
    """The recording of a run, and the number of starts of the command."""

    recording: Recording = field(default_factory=lambda: Recording(()))
    starts: int = 0
    failed: int = 0
    """Number of starts that timed out, or ended with an exit code other than 0."""
    first_failure: str = ""
    is_interrupted: bool = False
    """True if the run was cancelled. The recording then ends at the cancellation."""


async def run(
    plan: Plan,
    world: ReplayWorld,
    command: Sequence[str],
    *,
    verbose: bool = False,
    progress: Progress = lambda *_: None,
    recorder: Recorder | None = None,
) -> RunResult:
    """Run the plan and return its result. If the task is cancelled, return the result of the requests until then.
    `recorder` records the requests and is closed at the end.

    In the command, `{url}`, `{host}`, `{port}`, `{home}`, `{poll}` and `{time}` are replaced by the values of the run.
    Raises UsageError if the command cannot be started, or if the source lacks the plan's feed.
    """
    start = plan.start(world)
    known_as, feed = _select_feed(plan, world)
    # A longer name would count as a secret of the address, and reports would hide it.
    name = f"lab-{secrets.randbelow(10**6):06}"
    path = f"/{name}/{urlsplit(plan.url).path.rsplit('/', 1)[-1] or 'feed.xml'}"
    # A recorded redirect leads to the other feeds of the recording.
    played_world, names = ReplayWorld(world.targets, {path: feed}), {path: known_as} if "://" in known_as else {}
    replay = make_replay(played_world, ReplayOptions(plan.strip, plan.add, plan.fault, plan.seed), start, names=names)
    clock: Clock = AcceleratedClock(start, plan.speed) if plan.speed else ManualClock(start)
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}

    def record(exchange: Exchange, body: bytes) -> None:
        recorded, content = with_digest(exchange, body)
        exchanges.append(recorded)
        if recorded.digest:
            contents[recorded.digest] = content
        if recorder is not None:
            recorder.record(exchange, body)

    listener = ReplayListener(replay, clock, observe=record)
    home = Path(tempfile.mkdtemp(prefix="feedproxy-lab-"))
    result = RunResult()
    try:
        await listener.start("127.0.0.1", 0)
        runner = _CommandRunner(plan, command, f"{listener.url}{path}", home, verbose)
        if isinstance(clock, ManualClock):
            await _run_poll_by_poll(runner, clock, start, progress, result)
        else:
            await runner.run_once(1, start, plan.days * 86_400 / plan.speed, result, keeps_running=True)
    except asyncio.CancelledError:
        result.is_interrupted = True
    finally:
        with contextlib.suppress(asyncio.CancelledError):  # the polls have ended, so the recording is complete
            await asyncio.shield(listener.close())
        shutil.rmtree(home, ignore_errors=True)
        if recorder is not None:
            recorder.close(clock.now())
    # The recording ends with the plan, because the time without requests after a 410 counts.
    result.recording = Recording(tuple(exchanges), contents, clock.now())
    return result


async def _run_poll_by_poll(
    runner: "_CommandRunner", clock: ManualClock, start: Instant, progress: Progress, result: RunResult
) -> None:
    plan = runner.plan
    random = Random(plan.seed)  # noqa: S311 -- a run must be reproducible
    count = max(1, int(plan.days * 86_400 // plan.every))
    # Polls at minute 0 lower the grade. Therefore only a plan without jitter starts at the full hour.
    minute = random.uniform(60, min(plan.every, 3540)) if plan.jitter and plan.every > 60 else 0.0
    for number in range(count):
        at = start + minute + number * plan.every + random.uniform(0, plan.jitter)
        clock.advance(max(0.0, at - clock.now()))
        await runner.run_once(number + 1, clock.now(), plan.timeout, result)
        progress(number + 1, count)
    clock.advance(max(0.0, start + plan.days * 86_400 - clock.now()))


class _CommandRunner:
    def __init__(self, plan: Plan, command: Sequence[str], url: str, home: Path, verbose: bool) -> None:
        self.plan = plan
        self._command = command
        self._url = url
        self._home = home
        self._verbose = verbose
        self._faketime = shutil.which("faketime") if plan.faketime else ""
        if self._faketime is None:
            raise UsageError("faketime: true needs the program faketime (Debian: apt-get install faketime)")

    async def run_once(
        self, number: int, now: Instant, timeout: Seconds, result: RunResult, *, keeps_running: bool = False
    ) -> None:
        """Start the command and wait at most `timeout` seconds for its exit. A timeout is a failure, unless the command
        should keep running (`keeps_running`). Raises UsageError if the command cannot be started."""
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
        result.starts += 1
        failure = ""
        try:
            code = await asyncio.wait_for(process.wait(), timeout)
            failure = f"poll {number}: exit code {code}" if code else ""
        except TimeoutError:
            failure = "" if keeps_running else f"poll {number}: it took longer than {timeout:g} s"
        finally:
            await _terminate(process)
        if failure:
            result.failed += 1
            result.first_failure = result.first_failure or failure

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
        arguments = [_fill(finding, values) for finding in self._command]
        if self._faketime:
            rate = f" x{self.plan.speed:g}" if self.plan.speed else ""
            moment = datetime.fromtimestamp(now, UTC).strftime("@%Y-%m-%d %H:%M:%S")
            arguments = [self._faketime, "-f", f"{moment}{rate}", *arguments]
        return arguments

    def _environment(self, now: Instant) -> Mapping[str, str]:
        environment = {**os.environ, "FEED_URL": self._url, "LAB_HOME": str(self._home), "LAB_TIME": str(int(now))}
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            environment.pop(name, None)  # requests must go to the replay, not through a proxy
        if self.plan.own_home:
            environment["HOME"] = str(self._home)
            for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
                environment.pop(name, None)
        if self._faketime:
            environment["TZ"] = "UTC"
        return environment


async def _terminate(process: asyncio.subprocess.Process) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + SHUTDOWN_GRACE
    # No process of the group remains, or on macOS only processes that have ended.
    has_ended = contextlib.suppress(ProcessLookupError, PermissionError)
    try:
        with has_ended:
            os.killpg(process.pid, signal.SIGTERM)
            while loop.time() < end:
                await asyncio.sleep(GROUP_CHECK_INTERVAL)
                os.killpg(process.pid, 0)
    finally:  # also if the run is cancelled in the meantime
        with has_ended:
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _fill(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _select_feed(plan: Plan, world: ReplayWorld) -> tuple[str, Timeline]:
    """Return the address or path of the plan's feed, and its timeline. Raises UsageError for an unknown feed."""
    if plan.url:
        timeline = world.find(plan.url) or world.paths.get(plan.url)
        if timeline is None:
            addresses = ", ".join(name for name, _ in feed_table(world))
            raise UsageError(f"url: {plan.url} is not in the source; expected one of {addresses[:300]}")
        return plan.url, timeline
    return next(feed_table(world))


def unmet_demands(plan: Plan, run: RunResult, scores: Sequence[ReaderScore]) -> list[str]:
    """Return the requirements of the plan that the run did not meet, as texts."""
    unmet = []
    if not scores:
        unmet.append("the reader never requested the feed, or got no answer that is a feed")
    for score in scores:
        name, findings = score.user_agent or "(no User-Agent)", {finding.note.id() for finding in score.findings}
        if score.grade < plan.grade:
            unmet.append(f"{name}: grade {score.grade}, expected {plan.grade} or more")
        unmet += [f"{name}: {finding}" for finding in plan.without if finding in findings]
    if run.starts and run.failed == run.starts:
        unmet.append(f"the command failed each time ({run.first_failure})")
    return unmet
