"""Results of the demo as a table and as JSON. Every figure is counted in the run itself."""

from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import Any

from msgspec import Struct

from feedproxy.clock import Seconds
from feedproxy.demo.publishers import START
from feedproxy.demo.simulation import Demo, Result
from feedproxy.durations_and_sizes import count_noun


class Figures(Struct, frozen=True):
    """The figures of one run."""

    requests: int
    """Number of requests that the origins received.

    The next three attributes count parts of these requests.
    """
    conditional: int
    not_modified: int
    skipped_hours: int
    origin_bytes: int
    reader_bytes: int
    reader_not_modified: int
    delays: int
    """Number of polls after which the reader lacked a published item: delayed polls."""
    delays_by_hint: int
    """Number of the delayed polls that the feed's hints explain: by ttl, sy:* or skipHours."""
    delay_median: Seconds
    """Median delay in seconds. The delay of a poll is the age of the oldest item that the reader still lacks."""
    delay_max: Seconds
    failed: int
    """Number of answers with another status than 200 or 304, or with content that was never published."""
    response_median: Seconds
    """Median of the real time that an answer took, in seconds."""
    response_max: Seconds


def sum_figures(result: Result) -> Figures:
    """Return the figures of a run, as sums over all origins and readers."""
    reader_tally, tallies = result.reader_tally, result.tallies.values()
    good = reader_tally.statuses[200] + reader_tally.statuses[304]
    return Figures(
        requests=sum(tally.requests for tally in tallies),
        conditional=sum(tally.conditional for tally in tallies),
        not_modified=sum(tally.not_modified for tally in tallies),
        skipped_hours=sum(tally.skipped for tally in tallies),
        origin_bytes=sum(tally.sent for tally in tallies),
        reader_bytes=reader_tally.received,
        reader_not_modified=reader_tally.statuses[304],
        delays=len(reader_tally.delays),
        delays_by_hint=reader_tally.delays_by_hint,
        delay_median=median(reader_tally.delays) if reader_tally.delays else 0.0,
        delay_max=max(reader_tally.delays, default=0.0),
        failed=reader_tally.statuses.total() - good + reader_tally.unpublished,
        response_median=median(reader_tally.durations),
        response_max=max(reader_tally.durations),
    )


def as_text(demo: Demo) -> str:
    """Return the table, and the User-Agents that the origins received."""
    direct, through = sum_figures(demo.direct), sum_figures(demo.with_feedproxy)

    def row(label: str, show: Callable[[Figures], str], saved: str = "") -> str:
        return f"{label:<34}{show(direct):>20}{show(through):>20}{saved:>10}".rstrip()

    def share(count: int, of: int) -> str:
        return f"{count:,} ({_format_percent(count, of)})"

    lines = [
        _format_heading(demo),
        "",
        f"{'':<34}{'direct':>20}{'through feedproxy':>20}{'saved':>10}",
        row(
            "requests at the origins",
            lambda column: f"{column.requests:,}",
            _format_saving(direct.requests, through.requests),
        ),
        row("  with a validator", lambda column: share(column.conditional, column.requests)),
        row("  answered 304", lambda column: share(column.not_modified, column.requests)),
        row("  in hours the feed skips", lambda column: f"{column.skipped_hours:,}"),
        row(
            "sent by the origins",
            lambda column: _format_bytes(column.origin_bytes),
            _format_saving(direct.origin_bytes, through.origin_bytes),
        ),
        row(
            "received by the readers",
            lambda column: _format_bytes(column.reader_bytes),
            _format_saving(direct.reader_bytes, through.reader_bytes),
        ),
        row("  polls answered 304", lambda column: share(column.reader_not_modified, demo.polls)),
        row("  polls that missed a new item", lambda column: share(column.delays, demo.polls)),
        row("    within its ttl, sy or skipHours", lambda column: share(column.delays_by_hint, demo.polls)),
        row("    age of that item (median, max)", _format_delays),
        row("  failed answers", lambda column: f"{column.failed:,}"),
        row(
            "time per answer (median, max)",
            lambda column: f"{column.response_median * 1000:.1f}, {column.response_max * 1000:.1f} ms",
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


def _result_view(result: Result) -> dict[str, Any]:
    column = sum_figures(result)
    return {
        "origin": {
            "requests": column.requests,
            "conditional": column.conditional,
            "not_modified": column.not_modified,
            "in_skipped_hours": column.skipped_hours,
            "bytes": column.origin_bytes,
        },
        "readers": {
            "bytes": column.reader_bytes,
            "statuses": {str(status): count for status, count in sorted(result.reader_tally.statuses.items())},
            "missed_a_new_item": column.delays,
            "missed_within_hints": column.delays_by_hint,
            "out_since_median": round(column.delay_median, 3),
            "out_since_at_most": round(column.delay_max, 3),
            "failed": column.failed,
            "usual": round(column.response_median, 6),
            "slowest": round(column.response_max, 6),
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


def _format_delays(column: Figures) -> str:
    return f"{column.delay_median / 60:.0f}, {column.delay_max / 60:.0f} min" if column.delays else "-"


def _user_agents(result: Result) -> set[str]:
    return {agent for tally in result.tallies.values() for agent in tally.agents}


def _format_percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _format_saving(direct: int, through: int) -> str:
    return _format_percent(direct - through, direct)


def _format_bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"
