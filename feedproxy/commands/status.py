"""feedproxy status: print the state of a running proxy and of its feeds."""

import argparse
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from feedproxy.admin import admin_client
from feedproxy.web.display_formats import plural, size

COLUMNS = ("STATE", "SUBSCRIBERS", "NEXT FETCH (UTC)", "FEED", "WHY")
NARROWEST = 40
"""Minimum width of the last column, in characters. If a line has less space left, the column is on the next line."""


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "status",
        help="print the state of a running proxy",
        description="Print the state of a running proxy and of its feeds.",
    )
    parser.add_argument(
        "search", nargs="?", default="", metavar="TEXT", help="only feeds with this text in title or address"
    )
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="number of feeds shown (50, at most 1000)")
    admin_client.add_options(parser)
    parser.set_defaults(run=status)


def status(args: argparse.Namespace) -> int:
    """Print the status of a running proxy. Return 0. Raises UsageError if no proxy is running."""
    totals = admin_client.ask(args, "GET", "status")
    query = {"q": args.search, "per_page": str(max(1, args.limit)), "sort": "state"}
    feeds = admin_client.ask(args, "GET", "feeds", query)
    lines = [*summary(totals)]
    if feeds["feeds"]:
        width = shutil.get_terminal_size((120, 24)).columns
        lines += ["", *table([line(row) for row in feeds["feeds"]], width)]
    failed = [feed for feed in totals["never_worked"] if args.search.casefold() in feed["target"].casefold()]
    if args.search and not feeds["feeds"] and not failed:
        lines += ["", f"no feed has '{args.search}' in its title or address"]
    if failed:
        lines += ["", "never worked:"]
        for feed in failed[: max(1, args.limit)]:
            tries = "1 try" if feed["tries"] == 1 else f"{feed['tries']} tries"
            lines.append(f"  {feed['target']}  {feed['status'] or 'no answer'}, {tries}: {feed['reason']}")
    if feeds["total"] > len(feeds["feeds"]):
        lines.append(f"… and {feeds['total'] - len(feeds['feeds'])} more (--limit)")
    admin_client.print_result(args, {**totals, "list": feeds["feeds"]}, lines)
    return 0


def summary(totals: Any) -> Iterator[str]:
    """Yield the lines above the table: health, and totals of requests, subscribers and feeds."""
    requests = totals["requests"]
    condition = "shutting down" if totals["draining"] else "ready" if totals["ready"] else "not listening"
    yield f"feedproxy {totals['version']}, {condition}, since {totals['started']}"
    yield f"health:      {totals['headline']}"
    for finding in totals["findings"]:
        yield f"             {finding['words']} {finding['advice']}"
    today = totals["today"]
    saved = f"{today['spared']} of {today['requests']} requests and {size(today['bytes_spared'])} saved"
    yield f"today:       {saved} (since midnight UTC)"
    share = "" if requests["hit_share"] is None else f", {100 * requests['hit_share']:.1f} % from the cache"
    saved = plural(requests["saved"], "origin request", "origin requests")
    for_targets = requests["hits"] + requests["forwarded"]
    others = requests["answered"] - for_targets
    others_text = f"; {others} more were pages, tunnels or refusals" if others else ""
    yield f"requests:    {for_targets}{share}; {saved} saved (since the start){others_text}"
    failures, under_way = requests["origin_failures"], totals["under_way"]
    passed_text = f"; {requests['passed']} more passed through" if requests["passed"] else ""
    yield f"to origins:  {requests['origin_requests']}, {failures} failed, {under_way} under way{passed_text}"
    subscriptions = plural(totals["subscribers"], "subscription", "subscriptions")
    yield f"subscribers: {subscriptions} to {plural(totals['feeds_read'], 'feed', 'feeds')}"
    states = ", ".join(f"{count} {state}" for state, count in totals["states"].items() if count)
    yield f"feeds:       {totals['feeds']}" + (f" ({states})" if states else "")


def line(row: Any) -> tuple[str, ...]:
    """Return the cells of one feed's row."""
    at = row["next_fetch"]["at"]
    fetch = at.replace("T", " ").replace("Z", "") if at else "paused" if row["paused"] else "on the next request"
    # If a feed needs no attention, show the reason for its next fetch.
    reason = row["next_fetch"]["words"] if at and row["state"] in ("fresh", "held") else row["reason"]
    return row["state"], str(row["subscribers"]), fetch, f"{row['title'][:40]}  {row['target']}", reason


def table(rows: Sequence[tuple[str, ...]], width: int) -> Iterator[str]:
    """Yield the lines of the table for a terminal with `width` characters a line."""
    widths = [max(len(row[column]) for row in [COLUMNS, *rows]) for column in range(3)]
    widths.append(min(max(len(row[3]) for row in [COLUMNS, *rows]), 80))
    beside = sum(widths) + 2 * len(widths) + NARROWEST <= width
    for number, row in enumerate([COLUMNS, *rows]):
        cells = [row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].ljust(widths[2])]
        if beside:
            yield "  ".join([*cells, row[3].ljust(widths[3]), row[4]]).rstrip()
        else:
            yield "  ".join([*cells, row[3]]).rstrip()
            if number:
                yield f"    {row[4]}"
