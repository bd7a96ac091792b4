"""feedproxy opml: import or export the subscription list of a running proxy."""

import argparse
import asyncio
import sys
from typing import Any

from feedproxy.admin import admin_client
from feedproxy.durations_and_sizes import count_noun
from feedproxy.errors import InvalidFeedList
from feedproxy.feed import opml as lists
from feedproxy.refresh.standalone_fetch import fetch_document
from feedproxy.usm.address_or_file import from_file, parse_source, private_address_hint


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "opml",
        help="import a subscription list into a running proxy, or export its list",
        description="The proxy's list of feeds, as OPML.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    importing = actions.add_parser(
        "import",
        help="add the feeds of a list to the proxy's list, /-/feeds.opml; the proxy fetches them in the background",
    )
    importing.add_argument("source", metavar="FILE|URL", help="OPML: a file, an address, or - for standard input")
    importing.add_argument("--name", metavar="TITLE", default="", help="the title of the proxy's list from now on")
    importing.add_argument("--replace", action="store_true", help="replace the feeds that were imported before")
    importing.add_argument(
        "--intercept",
        action="store_true",
        help="decrypt the TLS of its hosts in the explicit proxy, so that their feeds are cached",
    )
    importing.add_argument("--allow-private", action="store_true", help="permit a private address as URL")
    admin_client.add_options(importing)
    importing.set_defaults(run=import_list)
    exporting = actions.add_parser("export", help="print the public list, with the feeds' own addresses")
    admin_client.add_options(exporting)
    exporting.set_defaults(run=export_list)


def import_list(args: argparse.Namespace) -> int:
    """Import a list into a running proxy. Return 0. Raises FeedproxyError for an invalid list, and UsageError if no
    proxy runs."""
    address = parse_source(args.source)
    if args.source == "-":
        body = sys.stdin.buffer.read(lists.CONTENT_MAX + 1)
    elif address is not None:
        settings = admin_client.request_settings(args.allow_private, args.config)
        with private_address_hint(address, settings):
            body = asyncio.run(fetch_document(address, settings)).body
    else:
        body = from_file(args.source, lists.CONTENT_MAX)
    if lists.read(body) is None:
        raise InvalidFeedList(f"{args.source} is not a subscription list: expected OPML")
    parameters = {"name": args.name, "replace": "1" if args.replace else "", "intercept": "1" if args.intercept else ""}
    result = admin_client.ask(args, "POST", "opml", {key: value for key, value in parameters.items() if value}, body)
    added = count_noun(result["added"], "feed")
    lines = [f"{added} added, {result['known']} known, {result['passed_over']} skipped; {result['feeds']} in all"]
    lines += [f"decrypted from now on: {host}" for host in result["intercepted"]]
    admin_client.print_result(args, result, lines)
    return 0


def export_list(args: argparse.Namespace) -> int:
    """Export the list. Return 0. Raises UsageError if no proxy is running."""
    result = admin_client.ask(args, "GET", "opml")
    admin_client.print_result(args, result, [result["document"].rstrip("\n")])
    if args.format == "text":
        listed, known = result["document"].count("xmlUrl="), admin_client.ask(args, "GET", "status")["feeds"]
        if listed < known:
            reason = "the list contains the imported feeds, and public feeds with at least list_readers_min readers"
            print(f"{listed} of {known} feeds exported: {reason}", file=sys.stderr)
    return 0
