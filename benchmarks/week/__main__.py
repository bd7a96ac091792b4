"""Play the polling week: `make bench-week`, or python -m benchmarks.week [--profile …] [--readers N] [--seed N] …"""

import argparse
import asyncio
import calendar
import datetime
import json
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.__main__ import machine, versions
from benchmarks.week import table
from benchmarks.week.model import PROFILES, Poll, make_feeds, make_readers, polls_of
from benchmarks.week.origin import Origin
from benchmarks.week.play import Play, System
from benchmarks.week.systems import PROGRAMS, Feedproxy, Nothing, WallClock, feedproxy, installed, peer

START = float(calendar.timegm((2026, 11, 16, 0, 0, 0)))
"""A Monday."""

MINUTES = 12.0
"""The longest that one system may play."""

FEEDS = 200
OPERATOR: dict[str, Any] = {"stale_while_refreshing": 86_400, "reload_interval": 3600}
"""What feedproxy is told beside its defaults: what the peers do by theirs, or by their configuration."""

CURVE: dict[str, dict[str, Any]] = {
    "feedproxy, learned from 15 min": {"learned_lifetime": 900},
    "feedproxy, learned from 90 min": {"learned_lifetime": 5400},
    "feedproxy, by its defaults": {"stale_while_refreshing": 0, "reload_interval": 0},
}
FIXED = (300, 900, 3600)
"""Seconds for which the peers keep everything, on the curve."""


def say(line: str) -> None:
    """Progress."""
    print(line, file=sys.stderr, flush=True)


class Week:
    """One profile's week, and its performances."""

    def __init__(self, profile: str, readers: int, seed: int, days: float, folder: Path) -> None:
        self.profile, self.seed, self.folder = profile, seed, folder
        self.feeds = make_feeds(profile, FEEDS, seed, days)
        self.readers = make_readers(profile, readers, FEEDS, seed)
        polls = [poll for reader in self.readers for poll in polls_of(reader, seed, days)]
        self.polls: list[Poll] = sorted(polls)
        self.now = 0.0
        self.wall = WallClock(folder) if shutil.which("cc") else None
        self.origin = Origin(self.feeds, seed, START, lambda: self.now)

    async def advance(self, at: float) -> None:
        """It is this time now."""
        self.now = at
        if self.wall is not None:
            self.wall.set(START + at)

    @asynccontextmanager
    async def system(self, name: str, fixed: int | None, options: dict[str, Any]) -> AsyncIterator[System]:
        """What is played through."""
        if name == "nothing":
            yield Nothing(self.origin.port)
        elif name in PROGRAMS:
            assert self.wall is not None
            async with peer(name, self.origin, self.wall, self.folder, fixed) as found:
                yield found
        else:
            async with feedproxy(name, self.origin, self.feeds, START, self.folder, {**OPERATOR, **options}) as made:
                yield made

    async def perform(
        self, name: str, *, fixed: int | None = None, options: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """One performance, as figures."""
        label = name if fixed is None else f"{name}, {fixed // 60} min"
        self.origin.reset()
        await self.advance(0.0)
        began = time.monotonic()

        def progress(done: int) -> None:
            if time.monotonic() - began > 60 * MINUTES:
                raise TimeoutError(f"{label}: more than {MINUTES:.0f} minutes; take fewer readers")
            if done % 10_000 == 0:
                say(f"{self.profile}, {label}: {done} of {len(self.polls)}, {time.monotonic() - began:.0f} s")

        async with self.system(name, fixed, options or {}) as system:
            if isinstance(system, Feedproxy):
                # The origin lives by the clock of the one who asks ahead.
                self.origin.now = lambda: system.clock.now() - START
            play = Play(self.origin, self.feeds, self.readers, START)
            try:
                seen = await play.perform(system, self.polls, self.advance, progress)
            finally:
                self.origin.now = lambda: self.now
            figures = {"system": label, "seconds": round(time.monotonic() - began, 1), **seen.summary()}
            tally = self.origin.tally
            figures |= {"origin_requests": tally.requests, "origin_bytes": tally.sent}
            figures["origin_statuses"] = dict(tally.statuses)
            if isinstance(system, Feedproxy):
                figures["scheduled"] = system.metrics.ahead
                figures["scheduled_in_skipped_hours"] = system.metrics.in_skipped_hours
            withheld = sum(count for number, count in tally.by_feed.items() if self.feeds[number].is_withheld)
            figures["origin_requests_withheld"] = withheld
        say(f"{self.profile}, {label}: done in {figures['seconds']} s")
        return figures


async def play(args: argparse.Namespace, profile: str, folder: Path) -> dict[str, Any]:
    """All performances of one profile."""
    week = Week(profile, args.readers, args.seed, args.days, folder)
    await week.origin.open()
    shown: dict[str, Any] = {"polls": len(week.polls), "readers": args.readers, "systems": [], "curve": []}
    try:
        for name in ("nothing", *PROGRAMS, "feedproxy"):
            if name in PROGRAMS and (week.wall is None or not installed(name)):
                say(f"{name} is left out: it is not installed, or no C compiler is")
                continue
            if not args.systems or name in args.systems:
                shown["systems"].append(await week.perform(name))
        if args.curve:
            for name, options in CURVE.items():
                shown["curve"].append(await week.perform(name, options=options))
            for name in PROGRAMS:
                if week.wall is not None and installed(name) and (not args.systems or name in args.systems):
                    for fixed in FIXED:
                        shown["curve"].append(await week.perform(name, fixed=fixed))
    finally:
        await week.origin.close()
    return shown


def main() -> int:
    """Play, show, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.week", description=__doc__)
    parser.add_argument("--profile", choices=PROFILES, action="append", help="one of them; both if none is named")
    parser.add_argument("--readers", type=int, default=60, help="of the 2,000 (60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--systems", nargs="+", help="nothing, nginx, Varnish, Squid, feedproxy; all if none is named")
    parser.add_argument("--curve", action="store_true", help="also feedproxy and the peers with other settings")
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
    for profile in args.profile or list(PROFILES):
        with tempfile.TemporaryDirectory(prefix="feedproxy-week-") as folder:
            Path(folder).chmod(0o755)
            results["profiles"][profile] = asyncio.run(play(args, profile, Path(folder)))
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table.page(results))
    print(f"\nwritten to {args.json}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
