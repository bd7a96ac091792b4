"""feedproxy purge: remove feeds from a running proxy's cache."""

import argparse
from typing import Any

from feedproxy.admin import admin_client


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "purge",
        help="remove feeds from a running proxy's cache",
        description="Remove a feed from a running proxy's cache, or all feeds that match a pattern.",
    )
    parser.add_argument("what", metavar="URL|PATTERN", help="an address, or a pattern with asterisks")
    admin_client.add_options(parser)
    parser.set_defaults(run=purge)


def purge(args: argparse.Namespace) -> int:
    """Purge matching feeds. Return 0, even if no feed matches. Raises UsageError if no proxy is running."""
    result = admin_client.ask(args, "POST", "purge", admin_client.address_or_pattern(args.what))
    lines = [f"{target}  purged" for target in result["targets"]]
    if result["purged"] != len(result["targets"]):
        lines.append(f"and others: {result['purged']} purged")
    admin_client.print_result(args, result, lines if result["purged"] else [*lines, "not in cache"])
    return 0
