"""feedproxy discover: print the address for subscriptions to a feed or to the feeds of a page."""

import argparse
import asyncio
from typing import Any

from feedproxy.admin import admin_client
from feedproxy.settings import Settings
from feedproxy.telemetry.log_format import print_error, printable
from feedproxy.usm.address_discovery import discover as find
from feedproxy.usm.address_discovery import verification_failure
from feedproxy.usm.address_or_file import private_address_hint


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "discover",
        help="print the address for subscriptions to a feed or page",
        description="Print the addresses for subscriptions, one a line, the best first. A feed's addresses are "
        "its self link, or the feeds that its page names; a page's addresses are the feeds that it names. Exits with 1 "
        "if there is none.",
    )
    parser.add_argument("source", metavar="URL|FILE", help="an address, or a saved feed or page")
    parser.add_argument("--verify", action="store_true", help="only feeds that name a page and are named by that page")
    parser.add_argument("--allow-private", action="store_true", help="permit private addresses")
    parser.set_defaults(run=discover)


def discover(args: argparse.Namespace) -> int:
    """Print the addresses of the feeds that are found. Return 0. Raises FeedproxyError if no feed is found.

    With --verify, print an error in place of an address that is not verified to belong to its page. If there is such an
    address, return 1.
    """
    return asyncio.run(_discover(args.source, admin_client.request_settings(args.allow_private), verify=args.verify))


async def _discover(source: str, settings: Settings, *, verify: bool) -> int:
    with private_address_hint(source, settings):
        result = await find(source, settings)
    code = 0
    for feed in result.feeds:
        # The pages are requested one after another, because they usually belong to one site.
        if verify and (doubt := await verification_failure(feed.address, settings)):
            print_error(f"{feed.address} is not verified: {doubt}")
            code = 1
        else:
            print(printable(feed.address))
    return code
