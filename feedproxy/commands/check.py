"""feedproxy check: checks of a feed for its publisher, at an address or in a file."""

import argparse
import asyncio
import os
import sys
from typing import Any

from feedproxy.admin import admin_client
from feedproxy.progress_line import ProgressLine
from feedproxy.settings import Settings

FORMATS = ("text", "json", "html")


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "check",
        help="show what a feed does well, and what its publisher could improve",
        description="Check a feed as readers and caches see it: its transfer, conditional requests, the document, and "
        "whether a click subscribes. For a file, only the document is checked. The exit code is 1 if "
        "there are warnings or faults.",
    )
    parser.add_argument("source", metavar="URL|FILE", help="a feed's address, or a saved feed")
    parser.add_argument("--format", choices=FORMATS, default="text", help="output format (default: text)")
    parser.add_argument("--allow-private", action="store_true", help="permit private addresses")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the checks and print the Notes. Return 1 if a Note is a warning or worse, otherwise 0. Raises FeedproxyError
    if the feed cannot be fetched."""
    from feedproxy.check import check_report  # noqa: PLC0415 -- only this command pays for the templates
    from feedproxy.telemetry.log_format import printable_lines  # noqa: PLC0415

    done = asyncio.run(check(args.source, admin_client.request_settings(args.allow_private)))
    match args.format:
        case "json":
            print(printable_lines(check_report.as_json(done)))
        case "html":
            print(check_report.as_html(done), end="")
        case _:
            print(check_report.as_text(done, coloured=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    return 1 if done.has_findings else 0


async def check(source: str, settings: Settings, **options: Any) -> Any:
    """Return the report about an address or a file. `options` are arguments of `probe_feed`. Raises BadTarget or
    Forbidden for an address that must not be requested, TooLarge for a large file, and UsageError for an unreadable
    file."""
    from feedproxy.check import run_checks  # noqa: PLC0415
    from feedproxy.check.check_report import CheckReport  # noqa: PLC0415
    from feedproxy.check.probe import probe_feed  # noqa: PLC0415
    from feedproxy.clock import SystemClock  # noqa: PLC0415
    from feedproxy.usm.address_or_file import from_file, parse_source, private_address_hint  # noqa: PLC0415

    now = SystemClock().now()
    address = parse_source(source)
    if address is None:
        body = from_file(source, settings.decoded_max)
        return CheckReport(source, now, run_checks.check_document(body, now, source))
    with ProgressLine() as line, private_address_hint(source, settings):
        observations = await probe_feed(
            address, settings, report_progress=lambda request: line.show(f"requesting {request} …"), **options
        )
    return CheckReport(source, now, run_checks.check_feed(observations), observations.requests)
