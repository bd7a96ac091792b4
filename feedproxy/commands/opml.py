"""feedproxy opml: the subscription list of a running proxy, in and out."""

import argparse
import asyncio
import json
import sys
from typing import Any

from feedproxy.admin.feed_list_import import CONTENT_MAX, InvalidFeedList
from feedproxy.client import admin_client
from feedproxy.client.feed_discovery import from_file, parse_source
from feedproxy.feed import opml as lists
from feedproxy.refresh.fetch_once import fetch_document
from feedproxy.settings import Settings


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "opml",
        help="import a subscription list into a running proxy, or export its own",
        description="The office's list of feeds, as OPML.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    importing = actions.add_parser(
        "import", help="add a list to the office's: its feeds are fetched politely, and stand in /-/feeds.opml"
    )
    importing.add_argument("source", metavar="FILE|URL", help="OPML, in a file, at an address, or - for standard input")
    importing.add_argument("--name", metavar="TITLE", default="", help="what the office's list is called from now on")
    importing.add_argument("--replace", action="store_true", help="put it in the place of what was imported before")
    importing.add_argument(
        "--intercept", action="store_true", help="decrypt the TLS of its hosts in the explicit proxy, so that it caches"
    )
    importing.add_argument("--allow-private", action="store_true", help="let URL be at a private address")
    admin_client.add_options(importing)
    importing.set_defaults(run=import_list, parser=importing)
    exporting = actions.add_parser("export", help="print the public list, feeds under their own addresses")
    admin_client.add_options(exporting)
    exporting.set_defaults(run=export_list, parser=exporting)


def import_list(args: argparse.Namespace) -> int:
    """Import. Raises FeedproxyError where there is no list, UsageError where no proxy can be reached."""
    address = parse_source(args.source)
    if args.source == "-":
        body = sys.stdin.buffer.read(CONTENT_MAX + 1)
    elif address is not None:
        body = asyncio.run(fetch_document(address, Settings(allow_private=args.allow_private))).body
    else:
        body = from_file(args.source, CONTENT_MAX)
    if lists.read(body) is None:
        raise InvalidFeedList(f"{args.source} is no subscription list: OPML is expected")
    parameters = {"name": args.name, "replace": "1" if args.replace else "", "intercept": "1" if args.intercept else ""}
    result = admin_client.ask(args, "POST", "opml", {key: value for key, value in parameters.items() if value}, body)
    if args.format == "json":
        print(json.dumps(result, ensure_ascii=False, indent=1))
        return 0
    added = f"{result['added']} feed{'' if result['added'] == 1 else 's'} added"
    print(f"{added}, {result['known']} known, {result['passed_over']} passed over; {result['feeds']} in all")
    for host in result["intercepted"]:
        print(f"decrypted from now on: {host}")
    return 0


def export_list(args: argparse.Namespace) -> int:
    """Export. Raises UsageError where no proxy can be reached."""
    result = admin_client.ask(args, "GET", "opml")
    print(
        json.dumps(result, ensure_ascii=False, indent=1) if args.format == "json" else result["document"].rstrip("\n")
    )
    return 0
