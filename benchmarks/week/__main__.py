"""Play the polling week: `make bench-week`, or python -m benchmarks.week [--profile …] [--readers N] [--seed N] …"""

import argparse
import calendar
import datetime
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.__main__ import machine, versions
from benchmarks.week import frontier, table
from benchmarks.week.history import History
from benchmarks.week.model import PROFILES, Feed, Poll, make_feeds, make_readers, polls_of
from benchmarks.week.origin import Publishers, Tally
from benchmarks.week.page import Page
from benchmarks.week.play import Play, Revisions, System, said
from benchmarks.week.systems import PROGRAMS, Feedproxy, Nothing, clock_of, feedproxy, installed, peer

START = float(calendar.timegm((2026, 11, 16, 0, 0, 0)))
"""The instant at which the week begins: a Monday."""

MINUTES = 12.0
"""Default of the time limit for one system, in minutes."""

FEEDS = 200
OPERATOR: dict[str, Any] = {"stale_while_refreshing": 86_400, "reload_interval": 86_400}
"""Options with which feedproxy differs from its defaults, so that it behaves like the peers."""


def say(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


class Week:
    """The week of one profile, and the runs of systems in this week. The caller must call `close`."""

    def __init__(
        self, profile: str, readers: int, seed: int, days: float, folder: Path, minutes: float = MINUTES
    ) -> None:
        self.profile, self.seed, self.folder, self.minutes = profile, seed, folder, minutes
        self.feeds = make_feeds(profile, FEEDS, seed, days)
        self.readers = make_readers(profile, readers, FEEDS, seed)
        self.polls = sorted((poll for reader in self.readers for poll in polls_of(reader, seed, days)), key=_when)
        self.histories = [History(feed, seed, START) for feed in self.feeds]
        self.revisions: Revisions = {}
        self.page = Page(folder / "page")
        self.clock = clock_of(self.page, folder)
        self.origin = Publishers(self.feeds, seed, START, self.page)

    def close(self) -> None:
        """End the origin's process."""
        self.origin.close()

    def system(self, name: str, fixed: int | None, options: dict[str, Any]) -> AbstractContextManager[System]:
        """Return the system with this name, in a context that starts and ends it. `fixed` is the peers' lifetime in
        seconds, or None.
        """
        port = self.origin.port
        if name == "nothing":
            return nullcontext(Nothing(port, self.page, START))
        if name in PROGRAMS:
            assert self.clock is not None
            return peer(name, port, self.clock, self.page, START, self.folder, fixed)
        return feedproxy(name, port, self.feeds, self.page, START, self.folder, {**OPERATOR, **options})

    def perform(self, name: str, *, fixed: int | None = None, options: dict[str, Any] | None = None) -> dict[str, Any]:
        """Play the week through one system. Return the figures."""
        label = name if fixed is None else f"{name}, {fixed // 60} min"
        self.origin.reset()
        self.page.now = START
        began = self._told = time.monotonic()

        def progress(done: int) -> None:
            if time.monotonic() - began > 60 * self.minutes:
                raise TimeoutError(f"{label}: more than {self.minutes:.0f} minutes; take fewer readers")
            if time.monotonic() > self._told + 30:
                self._told = time.monotonic()
                say(f"{self.profile}, {label}: {done} of {len(self.polls)}, {time.monotonic() - began:.0f} s")

        with self.system(name, fixed, options or {}) as system:
            seen = Play(self.histories, self.feeds, self.readers, START, self.revisions).perform(
                system, self.polls, progress
            )
            figures = {"system": label, "seconds": round(time.monotonic() - began, 1), **seen.summary()}
            figures |= counted(self.origin.tally(), self.feeds)
            if isinstance(system, Feedproxy):
                asked = system.host.asked()
                figures |= {"scheduled": asked.ahead, "scheduled_in_skipped_hours": asked.in_skipped_hours}
        say(f"{self.profile}, {label}: done in {figures['seconds']} s")
        return figures


def _when(poll: Poll) -> float:
    return poll.at


def counted(tally: Tally, feeds: Sequence[Feed]) -> dict[str, Any]:
    """Return the counts of the origin, in total and by the kind of lifetime that a feed states (`said`)."""
    of: dict[str, list[int]] = {}
    for feed in feeds:
        row = of.setdefault(said(feed), [0, 0, 0])
        for index, counts in enumerate((tally.by_feed, tally.wholes_by_feed, tally.sent_by_feed)):
            row[index] += counts[feed.number]
    return {
        "origin_requests": tally.requests,
        "origin_bytes": tally.sent,
        "origin_statuses": dict(tally.statuses),
        "origin_429": tally.statuses[429],
        "origin_requests_withheld": of.get("withheld", [0])[0],
        "origin_by_kind": {
            kind: dict(zip(("requests", "wholes", "bytes"), row, strict=True)) for kind, row in of.items()
        },
    }


def play(args: argparse.Namespace, profile: str, folder: Path, results: dict[str, Any]) -> None:
    """Play one profile through all systems. The results so far are written to the file after each run."""
    shown: dict[str, Any] = {"readers": args.readers, "systems": [], "frontier": [], "oracle": 0, "oracle_kept": 0}
    results["profiles"][profile] = shown
    wanted = args.systems or ("nothing", *PROGRAMS, "feedproxy")

    def note(place: str, figures: dict[str, Any]) -> None:
        shown[place].append(figures)
        args.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    with closing(Week(profile, args.readers, args.seed, args.days, folder, args.minutes)) as week:
        shown["polls"] = len(week.polls)
        peers = [each for each in PROGRAMS if week.clock is not None and installed(each) and each in wanted]
        for name in sorted({*PROGRAMS} & {*wanted} - {*peers}):
            say(f"{name} is left out: it, or a C compiler, is not installed")
        for name in ("nothing", *peers, "feedproxy"):
            if name in wanted:
                note("systems", week.perform(name))
        if not args.frontier:
            return
        world = week.feeds, week.histories, week.polls
        shown["oracle"] = frontier.oracle(*world, lambda feed: feed.is_silent)
        shown["oracle_kept"] = frontier.oracle(*world, lambda feed: not feed.is_withheld)
        if "feedproxy" in wanted:
            shown["frontier"].append({**shown["systems"][-1], "system": f"{frontier.OURS}, default"})
            for price in frontier.PRICES_WITH_HINTS:
                named = {"system": f"{frontier.OURS}, {price}"}
                note("frontier", week.perform("feedproxy", options={"polling": price}) | named)
            for price in frontier.PRICES:
                named = {"system": f"{frontier.WITHOUT_HINTS}, {price}"}
                note("frontier", week.perform("feedproxy", options={"polling": price, "feed_hints": "off"}) | named)
        for name in peers:
            for lifetime in frontier.LIFETIMES:
                note("frontier", week.perform(name, fixed=lifetime))


def main() -> int:
    """Play the profiles, write the results to the file, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.week", description=__doc__)
    parser.add_argument("--profile", choices=PROFILES, action="append", help="play this profile only; may be repeated")
    parser.add_argument("--readers", type=int, default=60, help="number of readers, at most 2000 (60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--systems", nargs="+", help="systems to play: nothing, nginx, Varnish, Squid, feedproxy (all)")
    parser.add_argument("--frontier", action="store_true", help="also play feedproxy and the peers with other settings")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time limit for one system, in minutes (12)")
    parser.add_argument("--json", type=Path, default=Path("build/bench-week.json"), metavar="FILE")
    args = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    results: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(),
        "seed": args.seed,
        "days": args.days,
        "profiles": {},
    }
    args.json.parent.mkdir(parents=True, exist_ok=True)
    for profile in args.profile or list(PROFILES):
        with tempfile.TemporaryDirectory(prefix="feedproxy-week-") as folder:
            Path(folder).chmod(0o755)
            play(args, profile, Path(folder), results)
    for profile, shown in results["profiles"].items():
        if shown["frontier"]:
            file = args.json.with_name(f"{args.json.stem}-{profile}.svg")
            file.write_text(frontier.plot(table.title(profile, shown, results), shown["frontier"], shown["oracle"]))
    print(table.page(results))
    print(f"\nwritten to {args.json}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
