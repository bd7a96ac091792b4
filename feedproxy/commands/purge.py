"""feedproxy purge: let a running proxy forget what it holds."""

import argparse
import json
from typing import Any

from feedproxy.report import client


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "purge",
        help="let a running proxy forget copies",
        description="Let a running proxy forget the copy of a feed, or of all that match a pattern.",
    )
    parser.add_argument("what", metavar="URL|PATTERN", help="an address, or a pattern with asterisks")
    client.add_options(parser)
    parser.set_defaults(run=purge, parser=parser)


def purge(args: argparse.Namespace) -> int:
    """Ask for it; that nothing of it was held is no failure. Raises UsageError where no proxy can be reached."""
    told = client.ask(args, "POST", "purge", {"pattern" if "*" in args.what else "url": args.what})
    if args.format == "json":
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        for target in told["targets"]:
            print(f"{target}  forgotten")
        if told["purged"] != len(told["targets"]):
            print(f"and others: {told['purged']} forgotten")
        if not told["purged"]:
            print("nothing of that was held")
    return 0
