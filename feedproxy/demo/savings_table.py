"""Results of the demo as a table and as JSON. Every figure is counted in the run itself."""

from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import Any

from feedproxy.demo.publishers import START
from feedproxy.demo.simulation import Demo, Result
from feedproxy.durations_and_sizes import count_noun

type Counts = dict[str, Any]
"""Counts of one side of a run: of its origins, or of its readers. Sizes are in bytes, and times in seconds."""


def as_text(demo: Demo) -> str:
    """Return the table, and the User-Agents that the origins received."""
    direct, through = _result_view(demo.direct), _result_view(demo.with_feedproxy)

    def row(label: str, side: str, show: Callable[[Counts], str], saved: str = "") -> str:
        return f"{label:<34}{show(direct[side]):>20}{show(through[side]):>20}{saved:>10}".rstrip()

    def count(label: str, side: str, name: str, saved: str = "") -> str:
        return row(label, side, lambda counts: f"{counts[name]:,}", saved)

    def size(label: str, side: str) -> str:
        return row(label, side, lambda counts: _format_bytes(counts["bytes"]), saving(side, "bytes"))

    def saving(side: str, name: str) -> str:
        return _format_percent(direct[side][name] - through[side][name], direct[side][name])

    def share(part: int, whole: int) -> str:
        return f"{part:,} ({_format_percent(part, whole)})"

    lines = [
        _format_heading(demo),
        "",
        f"{'':<34}{'direct':>20}{'through feedproxy':>20}{'saved':>10}",
        count("requests at the origins", "origin", "requests", saving("origin", "requests")),
        row("  with a validator", "origin", lambda origin: share(origin["conditional"], origin["requests"])),
        row("  answered 304", "origin", lambda origin: share(origin["not_modified"], origin["requests"])),
        count("  in hours the feed skips", "origin", "in_skipped_hours"),
        size("sent by the origins", "origin"),
        size("received by the readers", "readers"),
        row("  polls answered 304", "readers", lambda readers: share(readers["statuses"].get("304", 0), demo.polls)),
        row(
            "  polls that missed a new item", "readers", lambda readers: share(readers["missed_a_new_item"], demo.polls)
        ),
        row(
            "    within its ttl, sy or skipHours",
            "readers",
            lambda readers: share(readers["missed_within_hints"], demo.polls),
        ),
        row("    age of that item (median, max)", "readers", _format_delays),
        count("  failed answers", "readers", "failed"),
        row(
            "time per answer (median, max)",
            "readers",
            lambda readers: f"{readers['usual'] * 1000:.1f}, {readers['slowest'] * 1000:.1f} ms",
        ),
        "",
        f"In the direct run, the origins received {count_noun(len(_user_agents(demo.direct)), 'User-Agent')}. "
        "Through feedproxy, the last one for each feed was:",
        *(f"  {name:<8}{tally.last_agent or 'none'}" for name, tally in demo.with_feedproxy.tallies.items()),
        "",
        f"Duration: {demo.duration:.0f} s.",
    ]
    return "\n".join(lines)


def as_json(demo: Demo) -> dict[str, Any]:
    """Return the figures as an object that can be written as JSON, in bytes and seconds."""
    return {
        "seed": demo.seed,
        "readers": demo.readers,
        "days": demo.days,
        "polls": demo.polls,
        "polls_planned": demo.planned,
        "without": _result_view(demo.direct),
        "with": _result_view(demo.with_feedproxy),
        "seconds": round(demo.duration, 3),
        "errors": list(demo.errors),
    }


def _result_view(result: Result) -> dict[str, Counts]:
    """Return the figures of a run, as sums over all origins and readers, and for each feed."""
    readers, tallies = result.reader_tally, result.tallies.values()
    answered = readers.statuses[200] + readers.statuses[304]
    return {
        "origin": {
            "requests": sum(tally.requests for tally in tallies),
            "conditional": sum(tally.conditional for tally in tallies),
            "not_modified": sum(tally.not_modified for tally in tallies),
            "in_skipped_hours": sum(tally.skipped for tally in tallies),
            "bytes": sum(tally.sent for tally in tallies),
        },
        "readers": {
            "bytes": readers.received,
            "statuses": {str(status): count for status, count in sorted(readers.statuses.items())},
            # Polls after which the reader lacked a published item, and those of them that the feed's hints explain.
            "missed_a_new_item": len(readers.delays),
            "missed_within_hints": readers.delays_by_hint,
            # The age of the oldest item that the reader lacked.
            "out_since_median": round(median(readers.delays), 3) if readers.delays else 0.0,
            "out_since_at_most": round(max(readers.delays, default=0.0), 3),
            # Answers with another status than 200 or 304, or with content that was never published.
            "failed": readers.statuses.total() - answered + readers.unpublished,
            # Real time that an answer took.
            "usual": round(median(readers.durations), 6),
            "slowest": round(max(readers.durations), 6),
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


def _format_heading(demo: Demo) -> str:
    begin = datetime.fromtimestamp(START, UTC)
    thinned = f" (thinned out evenly from {demo.planned:,})" if demo.planned > demo.polls else ""
    return (
        f"{count_noun(demo.days, 'day')} from {begin:%A}, {begin.day} {begin:%B %Y, %H:%M} GMT: "
        f"{len(demo.direct.tallies)} feeds, {count_noun(demo.readers, 'reader')},\n"
        f"{demo.polls:,} polls{thinned}, sent twice over real connections, with a virtual clock."
    )


def _format_delays(readers: Counts) -> str:
    if not readers["missed_a_new_item"]:
        return "-"
    return f"{readers['out_since_median'] / 60:.0f}, {readers['out_since_at_most'] / 60:.0f} min"


def _user_agents(result: Result) -> set[str]:
    return {agent for tally in result.tallies.values() for agent in tally.agents}


def _format_percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _format_bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"
