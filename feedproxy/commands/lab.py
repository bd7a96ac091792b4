"""feedproxy lab run: run a reader's command against a replay over virtual days, and print its score."""

import argparse
import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from feedproxy.commands.replay import make_recorder
from feedproxy.commands.score import FORMATS, print_scores
from feedproxy.errors import UsageError
from feedproxy.progress_line import ProgressLine


def register(subparsers: Any) -> None:
    """Declare the command."""
    lab = subparsers.add_parser("lab", help="simulate days for a feed reader, and grade the reader")
    actions = lab.add_subparsers(title="actions", metavar="ACTION", required=True)
    parser = actions.add_parser(
        "run",
        help="run a plan with a reader's own command",
        description="Start a replay at a new address and run the command against it over the plan's virtual days, "
        "either for each poll or once. In the command, {url} is replaced by the feed's address; {host}, "
        "{port}, {home}, {poll} and {time} are replaced, too. Print the score. The exit code is 1 if the "
        "reader does not meet the plan's requirements.",
    )
    parser.add_argument("plan", metavar="PLAN.yaml", help="the plan; examples are in conf/")
    # argparse.PARSER: the first word that is no option of this command, and all words after it.
    parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.PARSER, help="the reader's command, with its own options; last"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="output format of the score (text)")
    parser.add_argument("--output", metavar="FILE", default="", help="write the score to this file")
    parser.add_argument("--record", metavar="FILE.har", default="", help="record requests and answers in this file")
    parser.add_argument("--verbose", action="store_true", help="show the output of the command")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the plan and print the score. Return 1 if the run misses a requirement of the plan, otherwise 0.

    After SIGINT or SIGTERM, write the recording without a score, and return 128 plus the number of the signal.
    Raises UsageError if the plan is invalid, the command cannot be started, or the folder of the output
    file does not exist.
    """
    from feedproxy.lab import plan, run  # noqa: PLC0415
    from feedproxy.lab.record.har_redaction import ADDRESSES  # noqa: PLC0415
    from feedproxy.lab.recording_scores import grade_recording  # noqa: PLC0415 -- only this command pays for the lab
    from feedproxy.telemetry.log_format import print_error  # noqa: PLC0415

    # argparse removes the `--` before the command only if no option precedes it.
    command = args.command[1:] if args.command[0] == "--" else args.command
    test_plan = plan.read_plan(Path(args.plan))
    if args.output and not Path(args.output).parent.is_dir():  # fail before the run instead of after it
        raise UsageError(f"{args.output}: No such file or directory")
    world = _world(args.plan, test_plan)
    # The only network address in the lab is the loopback address.
    recorder = make_recorder(args.record, test_plan.seed, keep=(ADDRESSES,)) if args.record else None
    with ProgressLine() as line:

        def report(done: int, whole: int) -> None:
            line.show(f"poll {done} of {whole}")

        lab_run = run.run(test_plan, world, command, verbose=args.verbose, progress=report, recorder=recorder)
        done, received = asyncio.run(_until_signal(lab_run))
    if done.is_interrupted and received is not None:
        recorded = f"; {args.record} has the requests until then" if args.record else ""
        print_error(f"lab run: interrupted by {received.name} at poll {done.starts}{recorded}")
        return 128 + received
    graded = grade_recording(done.recording, one_reader=True)
    unmet = run.unmet_demands(test_plan, done, graded.scores)
    print_scores(graded, args.format, args.output, tuple(unmet))
    if done.failed:
        hint = "" if args.verbose else "; --verbose shows the output of the command"
        print_error(f"{done.failed} of {done.starts} starts failed: {done.first_failure}{hint}")
    for demand in unmet:
        print_error(f"missed: {demand}")
    return 1 if unmet else 0


async def _until_signal[T](lab_run: Coroutine[Any, Any, T]) -> tuple[T, signal.Signals | None]:
    """Return the result of the run, and the signal that interrupted the run, or None if no signal came.

    The first SIGINT or SIGTERM cancels the run, so that the command ends, its folder is deleted and the recording is
    written. A SIGINT that was ignored at the start stays ignored, as in a shell's background jobs.
    """
    task, loop = asyncio.ensure_future(lab_run), asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def interrupt(number: signal.Signals) -> None:
        if not received:
            received.append(number)
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, interrupt, number)
    result = await task
    return result, received[0] if received else None


def _world(file: str, test_plan: Any) -> Any:
    from feedproxy.commands.replay import read_recording  # noqa: PLC0415
    from feedproxy.lab.generated_feed import generate_feed  # noqa: PLC0415
    from feedproxy.lab.replay.replay_source import open_source  # noqa: PLC0415

    return (
        open_source(Path(file).parent / test_plan.source, read_recording)
        if test_plan.source
        else generate_feed(test_plan.days, test_plan.change)
    )
