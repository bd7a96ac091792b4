"""Results of the demo as a table and as JSON. Every figure is counted in the run itself."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.demo.play import Demo, Result
from feedproxy.demo.publishers import START


@dataclass(frozen=True, slots=True)
class Figures:
    """One performance in numbers."""

    requests: int
    """At the origins, as the next three."""
    conditional: int
    not_modified: int
    skipped_hours: int
    origin_bytes: int
    reader_bytes: int
    reader_not_modified: int
    behind: int
    """Polls after which the reader missed an item that was out already …"""
    behind_by_hint: int
    """… of which so many came while the feed's own ttl, sy:* or skipHours let the copy answer …"""
    behind_median: Seconds
    behind_most: Seconds
    """… and since when it was out."""
    failed: int
    """Answers that were neither 200 nor 304, or whose bytes were never published."""
    usual: Seconds
    """The median of the time that an answer took, on this machine …"""
    slowest: Seconds
    """… and the most."""


def figures(result: Result) -> Figures:
    """The sums over all origins and readers."""
    seen, tallies = result.seen, result.tallies.values()
    good = seen.statuses[200] + seen.statuses[304]
    return Figures(
        requests=sum(each.requests for each in tallies),
        conditional=sum(each.conditional for each in tallies),
        not_modified=sum(each.not_modified for each in tallies),
        skipped_hours=sum(each.skipped for each in tallies),
        origin_bytes=sum(each.sent for each in tallies),
        reader_bytes=seen.received,
        reader_not_modified=seen.statuses[304],
        behind=len(seen.behind),
        behind_by_hint=seen.behind_by_hint,
        behind_median=median(seen.behind) if seen.behind else 0.0,
        behind_most=max(seen.behind, default=0.0),
        failed=seen.statuses.total() - good + seen.foreign,
        usual=median(seen.took),
        slowest=max(seen.took),
    )


def as_text(demo: Demo) -> str:
    """The table, and what the origins saw as User-Agent."""
    without, through = figures(demo.without), figures(demo.with_feedproxy)

    def row(label: str, show: Callable[[Figures], str], saved: str = "") -> str:
        return f"{label:<34}{show(without):>20}{show(through):>20}{saved:>10}".rstrip()

    def share(count: int, of: int) -> str:
        return f"{count:,} ({_percent(count, of)})"

    lines = [
        _heading(demo),
        "",
        f"{'':<34}{'straight':>20}{'through feedproxy':>20}{'saved':>10}",
        row("requests at the origins", lambda its: f"{its.requests:,}", _saved(without.requests, through.requests)),
        row("  with a validator", lambda its: share(its.conditional, its.requests)),
        row("  answered 304", lambda its: share(its.not_modified, its.requests)),
        row("  in hours the feed skips", lambda its: f"{its.skipped_hours:,}"),
        row(
            "sent by the origins",
            lambda its: _bytes(its.origin_bytes),
            _saved(without.origin_bytes, through.origin_bytes),
        ),
        row(
            "received by the readers",
            lambda its: _bytes(its.reader_bytes),
            _saved(without.reader_bytes, through.reader_bytes),
        ),
        row("  polls answered 304", lambda its: share(its.reader_not_modified, demo.polls)),
        row("  polls that missed a new item", lambda its: share(its.behind, demo.polls)),
        row("    within its ttl, sy or skipHours", lambda its: share(its.behind_by_hint, demo.polls)),
        row("    out since (median, at most)", _since),
        row("  answers that failed", lambda its: f"{its.failed:,}"),
        row("answers took (median, slowest)", lambda its: f"{its.usual * 1000:.1f}, {its.slowest * 1000:.1f} ms"),
        "",
        f"Straight, the origins saw {_counted(len(_agents(demo.without)), 'User-Agent')}. "
        "Through feedproxy, each saw at last:",
        *(f"  {name:<8}{tally.last_agent or 'nobody'}" for name, tally in demo.with_feedproxy.tallies.items()),
        "",
        f"Played in {demo.took:.0f} s.",
    ]
    return "\n".join(lines)


def as_json(demo: Demo) -> dict[str, Any]:
    """The same; bytes, seconds."""
    return {
        "seed": demo.seed,
        "readers": demo.readers,
        "days": demo.days,
        "polls": demo.polls,
        "polls_planned": demo.planned,
        "without": _result(demo.without),
        "with": _result(demo.with_feedproxy),
        "seconds": round(demo.took, 3),
        "errors": list(demo.errors),
    }


def _result(result: Result) -> dict[str, Any]:
    its = figures(result)
    return {
        "origin": {
            "requests": its.requests,
            "conditional": its.conditional,
            "not_modified": its.not_modified,
            "in_skipped_hours": its.skipped_hours,
            "bytes": its.origin_bytes,
        },
        "readers": {
            "bytes": its.reader_bytes,
            "statuses": {str(status): count for status, count in sorted(result.seen.statuses.items())},
            "missed_a_new_item": its.behind,
            "missed_within_hints": its.behind_by_hint,
            "out_since_median": round(its.behind_median, 3),
            "out_since_at_most": round(its.behind_most, 3),
            "failed": its.failed,
            "usual": round(its.usual, 6),
            "slowest": round(its.slowest, 6),
        },
        "feeds": {
            name: {
                "requests": tally.requests,
                "not_modified": tally.not_modified,
                "in_skipped_hours": tally.skipped,
                "bytes": tally.sent,
                "user_agents": dict(tally.agents),
                "last_user_agent": tally.last_agent,
            }
            for name, tally in result.tallies.items()
        },
    }


def _heading(demo: Demo) -> str:
    begin = datetime.fromtimestamp(START, UTC)
    thinned = f" (thinned out evenly from {demo.planned:,})" if demo.planned > demo.polls else ""
    return (
        f"{_counted(demo.days, 'day')} from {begin:%A}, {begin.day} {begin:%B %Y, %H:%M} GMT: "
        f"{len(demo.without.tallies)} feeds, {_counted(demo.readers, 'reader')},\n"
        f"{demo.polls:,} polls{thinned}, played twice over real connections, by a clock of their own."
    )


def _since(its: Figures) -> str:
    return f"{its.behind_median / 60:.0f}, {its.behind_most / 60:.0f} min" if its.behind else "-"


def _agents(result: Result) -> set[str]:
    return {agent for tally in result.tallies.values() for agent in tally.agents}


def _counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _saved(without: int, through: int) -> str:
    return _percent(without - through, without)


def _bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"
