"""feedproxy demo: a simulated week of many readers, and a table of the savings."""

import argparse
import asyncio
import json
from typing import Any

from feedproxy.errors import UsageError
from feedproxy.progress_line import ProgressLine

READERS_MAX = 200
DAYS_MAX = 28


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "demo",
        help="simulate a week with many readers, and show the savings, without a network",
        description="Simulate four feeds and their readers twice: directly, and through feedproxy. All traffic stays "
        "on this machine, and no files remain.",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of the random numbers; another seed gives another week (1)",
    )
    parser.add_argument(
        "--readers", type=int, default=24, metavar="N", help=f"number of readers, 1 to {READERS_MAX} (24)"
    )
    parser.add_argument("--days", type=int, default=7, metavar="N", help=f"number of days, 1 to {DAYS_MAX} (7)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the demo and print the table. Return 0. Raises UsageError for an invalid number."""
    for name, most in (("readers", READERS_MAX), ("days", DAYS_MAX)):
        if not 1 <= getattr(args, name) <= most:
            raise UsageError(f"--{name} {getattr(args, name)}: expected a number from 1 to {most}")
    # Only this command and serve import mitmproxy, which takes time.
    from feedproxy.demo import savings_table  # noqa: PLC0415
    from feedproxy.demo.simulation import play  # noqa: PLC0415
    from feedproxy.telemetry.log_format import print_error  # noqa: PLC0415

    with ProgressLine() as line:

        def report(scene: str, done: int, whole: int) -> None:
            line.show(f"{whole:,} polls {scene}: {100 * done // whole} %")

        demo = asyncio.run(play(seed=args.seed, readers=args.readers, days=args.days, progress=report))
    for message in demo.errors:
        print_error(message)
    print(json.dumps(savings_table.as_json(demo), indent=2) if args.json else savings_table.as_text(demo))
    return 0
