"""feedproxy undo: let a running proxy forget that a feed has moved or ended."""

import argparse
from typing import Any

from feedproxy.admin import admin_client


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "undo",
        help="let a running proxy forget a move or an end",
        description="Let a running proxy forget that a feed has moved or ended, as its origin reported.",
    )
    parser.add_argument("url", metavar="URL", help="the feed's old address")
    admin_client.add_options(parser)
    parser.set_defaults(run=undo)


def undo(args: argparse.Namespace) -> int:
    """Delete the record that a feed has moved or ended. Return 1 if there is no such record, otherwise 0. Raises
    UsageError if no proxy is running."""
    result = admin_client.ask(args, "POST", "undo", admin_client.address_or_pattern(args.url))
    outcome = "forgotten" if result["undone"] else "no move or end was stored"
    admin_client.print_result(args, result, [f"{result['target']}  {outcome}"])
    return 0 if result["undone"] else 1
