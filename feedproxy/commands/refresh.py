"""feedproxy refresh: let a running proxy fetch a feed now."""

import argparse
from typing import Any

from feedproxy.admin import admin_client


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "refresh",
        help="let a running proxy fetch a feed now",
        description="Let a running proxy fetch a feed from its origin now, or as soon as feed_min_interval permits.",
    )
    parser.add_argument("what", metavar="URL|PATTERN", help="an address, or a pattern with asterisks")
    admin_client.add_options(parser)
    parser.set_defaults(run=refresh)


def refresh(args: argparse.Namespace) -> int:
    """Refresh feeds. Return 1 if no feed matches or a refresh fails, otherwise 0. Raises UsageError if no proxy is
    running."""
    parameters = admin_client.address_or_pattern(args.what)
    result = admin_client.ask(args, "POST", "refresh", parameters)
    feeds = result["refreshed"] if "pattern" in parameters else [result]
    lines = [f"{feed['target']}  {feed['outcome']}  {feed['words'] or feed['sentence']}".rstrip() for feed in feeds]
    if "pattern" in parameters and not result["matched"]:
        lines.append("no cached feed matches that pattern")
    admin_client.print_result(args, result, lines)
    return 0 if result["ok"] and result.get("matched") != 0 else 1
