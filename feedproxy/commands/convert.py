"""feedproxy convert: write a feed in another format."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from feedproxy.admin import admin_client
from feedproxy.errors import NotAFeed, TooLarge, UsageError
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.markup import is_web
from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.read.element_precedence import ITEMS_MAX
from feedproxy.feed.convert.read.from_document import read, with_source_address
from feedproxy.http.date import parse_http_date
from feedproxy.refresh.standalone_fetch import Document, fetch_document, follow_saved_redirect
from feedproxy.settings import Settings
from feedproxy.telemetry.log_format import print_error
from feedproxy.usm.address_or_file import from_file, parse_source, private_address_hint


def register(subparsers: Any) -> None:
    """Declare the command."""
    formats = "\n".join(f"  {feed_format.name:<8}{feed_format.title}" for feed_format in FORMATS.values())
    parser = subparsers.add_parser(
        "convert",
        help="write a feed in another format",
        description="Write a feed of any format to standard output in another format.",
        epilog=f"formats:\n{formats}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="FILE|URL|-", help="a file, an address, or - for standard input")
    parser.add_argument(
        "--to", metavar="FORMAT", required=True, choices=tuple(FORMATS), help="the format, one of those below"
    )
    parser.add_argument(
        "--base", metavar="URL", default="", help="the address of a file's feed, to which its links are relative"
    )
    parser.add_argument("--allow-private", action="store_true", help="permit a private address as URL")
    parser.set_defaults(run=convert)


def convert(args: argparse.Namespace) -> int:
    """Convert the feed and write it. Return 0. Raises FeedproxyError if the source is no readable feed, and UsageError
    if --base is no address."""
    if args.base and not is_web(args.base):
        raise UsageError(f"--base {args.base}: expected an absolute http or https URL")
    address = None if args.source == "-" else parse_source(args.source)
    settings = admin_client.request_settings(args.allow_private)
    if address is not None:
        with private_address_hint(address, settings):
            feed = _to_feed(asyncio.run(fetch_document(address, settings)))
    else:
        feed = _read_local(args.source, args.base, settings)
    if args.to == "opml" and not feed.address:
        print_error("warning: the feed does not state its address, which OPML requires: state it with --base URL")
    if len(feed.items) >= ITEMS_MAX:
        print_error(f"warning: at most {ITEMS_MAX} items of a feed are converted")
    written = FORMATS[args.to].render(feed)
    sys.stdout.buffer.write(written)
    if sys.stdout.isatty() and not written.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    return 0


def _to_feed(obtained: Document) -> Feed:
    last_modified = obtained.fields.get("last-modified")
    modified = parse_http_date(last_modified) if last_modified else None
    content_type = obtained.fields.get("content-type")
    return _model(obtained.body, obtained.address, content_type, base=obtained.address, modified=modified)


def _read_local(source: str, base: str, settings: Settings) -> Feed:
    limit = settings.decoded_max
    body = from_file(source, limit) if source != "-" else sys.stdin.buffer.read(limit + 1)
    if len(body) > limit:
        raise TooLarge(f"standard input is larger than {limit} bytes")
    if moved_document := asyncio.run(
        follow_saved_redirect(body, "standard input" if source == "-" else source, settings)
    ):
        return _to_feed(moved_document)
    return _model(body, source, None, base=base, modified=None if source == "-" else _modification_time(source))


def _modification_time(source: str) -> float | None:
    try:
        return Path(source).stat().st_mtime
    except OSError:
        return None


def _model(body: bytes, source: str, content_type: str | None, *, base: str, modified: float | None) -> Feed:
    feed = read(body, content_type, address=base)
    if feed is None:
        raise NotAFeed(f"{'standard input' if source == '-' else source} is not a feed and cannot be converted")
    return with_source_address(feed, base, modified=None if modified is None else int(modified))
