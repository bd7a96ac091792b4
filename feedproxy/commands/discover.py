"""feedproxy discover: the address to subscribe to, of a feed or of a page."""

import argparse
import asyncio
import sys
from typing import Any

from feedproxy.client import admin_client
from feedproxy.client.feed_discovery import discover as find
from feedproxy.client.feed_discovery import verification_failure
from feedproxy.feed.discovery import DiscoveredFeed
from feedproxy.settings import Settings


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "discover",
        help="the address to subscribe to, of a feed or of a page",
        description="Print where to subscribe, one address a line, the best first: what a feed says of itself (its "
        "self link), else what its page names; of a page the feeds that it names. 1 where there is none.",
    )
    parser.add_argument("source", metavar="URL|FILE", help="an address, or a saved feed or page")
    parser.add_argument(
        "--verify", action="store_true", help="only feeds that name a page which names them (feed, page, feed)"
    )
    parser.add_argument("--allow-private", action="store_true", help="let addresses be private ones")
    parser.set_defaults(run=discover, parser=parser)


def discover(args: argparse.Namespace) -> int:
    """Print them; 1 where one is not proved. Raises FeedproxyError where there is none, or no way to it."""
    return asyncio.run(_discover(args.source, admin_client.request_settings(args.allow_private), verify=args.verify))


async def _discover(source: str, settings: Settings, *, verify: bool) -> int:
    found = await find(source, settings)
    doubts = await _doubts(found.feeds, settings) if verify else [""] * len(found.feeds)
    for feed, why in zip(found.feeds, doubts, strict=True):
        if why:
            print(f"feedproxy: {feed.address} is not verified: {why}", file=sys.stderr)
        else:
            print(feed.address)
    return 1 if any(doubts) else 0


async def _doubts(feeds: tuple[DiscoveredFeed, ...], settings: Settings) -> list[str]:
    # One after the other: they are mostly of one site.
    return [await verification_failure(feed.address, settings) for feed in feeds]
