"""feedproxy demo: a small recorded week, many readers, one table of what was saved."""

import argparse
import asyncio
import json
import sys
from typing import Any

from feedproxy.errors import UsageError

READERS_MAX = 200
DAYS_MAX = 28


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "demo",
        help="play a small week with many readers and show what was saved; needs no network",
        description="Four feeds and their readers, played twice: straight to the origins, and through feedproxy. "
        "Everything stays on this machine, nothing is left behind, and it ends by itself.",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, another week (1)")
    parser.add_argument(
        "--readers", type=int, default=24, metavar="N", help=f"how many readers, 1 to {READERS_MAX} (24)"
    )
    parser.add_argument("--days", type=int, default=7, metavar="N", help=f"how many days, 1 to {DAYS_MAX} (7)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Play, and print the table."""
    for name, most in (("readers", READERS_MAX), ("days", DAYS_MAX)):
        if not 1 <= getattr(args, name) <= most:
            raise UsageError(f"--{name} {getattr(args, name)}: expected a number from 1 to {most}")
    # Only this command and serve pay for importing mitmproxy.
    from feedproxy.demo import savings_table  # noqa: PLC0415
    from feedproxy.demo.play import play  # noqa: PLC0415

    progress = Progress()
    try:
        demo = asyncio.run(play(seed=args.seed, readers=args.readers, days=args.days, progress=progress))
    finally:
        progress.clear()
    for message in demo.errors:
        print(f"feedproxy: {message}", file=sys.stderr)
    print(json.dumps(savings_table.as_json(demo), indent=2) if args.json else savings_table.as_text(demo))
    return 0


class Progress:
    """A line on the terminal that says how far the play is; nothing where there is no terminal."""

    def __init__(self) -> None:
        self._shown = ""
        self._terminal = sys.stderr.isatty()

    def __call__(self, scene: str, done: int, whole: int) -> None:
        """Show the number of finished polls and of all."""
        line = f"{whole:,} polls {scene}: {100 * done // whole} %"
        if self._terminal and line != self._shown:
            self._shown = line
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
