"""feedproxy score: grade the behaviour of readers in a recording."""

import argparse
from pathlib import Path
from typing import Any

from feedproxy.errors import UsageError

FORMATS = ("text", "json", "junit", "html")


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "score",
        help="grade the behaviour of readers in a recording",
        description="Grade every reader in a recording (HAR, or a flow file of mitmproxy's): its faults, what it does "
        "well, the requests that show it, and a grade. With --min, the exit code is 1 if a reader has a lower grade, "
        "or if there is no reader.",
    )
    parser.add_argument("file", metavar="FILE.har", nargs="+", help="a recording; several are merged")
    parser.add_argument("--format", choices=FORMATS, default="text", help="output format (default: text)")
    parser.add_argument("--output", metavar="FILE", default="", help="write the output to this file")
    parser.add_argument("--min", metavar="GRADE", type=int, default=0, help="the minimum grade for every reader (0)")
    parser.add_argument(
        "--side", choices=("reader", "origin"), default=None, help="grade the readers of the proxy, or the proxy itself"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Grade the readers and print the scores. Return 1 if a grade is below --min, or if there is --min but no reader,
    otherwise 0. Raises UsageError if --min is invalid, a recording cannot be read, or the output cannot be written."""
    from feedproxy.commands.replay import read_recording  # noqa: PLC0415 -- only this command pays for the lab
    from feedproxy.lab.record.exchange import Side, merge_recordings  # noqa: PLC0415
    from feedproxy.lab.recording_scores import grade_recording  # noqa: PLC0415
    from feedproxy.telemetry.log_format import print_error  # noqa: PLC0415

    if not 0 <= args.min <= 100:
        raise UsageError(f"--min {args.min}: expected a grade from 0 to 100")
    recording = merge_recordings(read_recording(Path(file)) for file in args.file)
    graded = grade_recording(recording, Side(args.side) if args.side else None)
    print_scores(graded, args.format, args.output)
    failing_scores = [score for score in graded.scores if score.grade < args.min]
    if not graded.scores:
        print_error("no reader requested a feed in this recording")
    # Without a reader, a minimum grade is not reached: a test that expects one must not pass by mistake.
    return 1 if failing_scores or (args.min and not graded.scores) else 0


def print_scores(graded: Any, form: str, output: str, failures: tuple[str, ...] = ()) -> None:
    """Print scores in the format `form`, or write them to the file `output`. `failures` are the unmet requirements of a
    test plan, which only the format `junit` reports. Raises UsageError if writing fails."""
    from feedproxy.lab import score_page  # noqa: PLC0415
    from feedproxy.scoring import score_report  # noqa: PLC0415
    from feedproxy.telemetry.log_format import printable_lines  # noqa: PLC0415

    match form:
        case "json":
            text = score_report.as_json(graded.scores)
        case "junit":
            text = score_report.as_junit(graded.scores, failures)
        case "html":
            text = score_page.render_html(graded)
        case _:
            text = score_report.as_text(graded.scores)
    text = printable_lines(text)
    if not output:
        print(text)
        return
    try:
        Path(output).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror or error}") from error
