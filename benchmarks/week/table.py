"""The tables of the polling week: python -m benchmarks.week.table FILE.json … [--into benchmarks/week/results.txt]

The systems of one play may be in several files, if `--systems` selected some of them for each run.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.week import frontier
from benchmarks.week.frontier import PEERS

type Figures = dict[str, Any]


def title(profile: str, shown: dict[str, Any], results: dict[str, Any]) -> str:
    """Return the profile, and the numbers that describe the play, in one line."""
    return (
        f"{profile}: {shown['polls']:,} polls of {shown['readers']} readers, "
        f"{results['days']:g} days, seed {results['seed']}"
    )


def page(results: dict[str, Any]) -> str:
    """Return all tables of one play."""
    parts: list[str] = []
    for profile, shown in results["profiles"].items():
        parts.append(f"### {title(profile, shown, results)}\n")
        if shown["frontier"]:
            parts.append("Mean staleness at equal requests, for the feeds without hint or lifetime:\n")
            parts.append(frontier.table(shown["frontier"], shown["oracle"], frontier.of_silent))
            parts.append("Mean staleness at equal requests, for all feeds that HTTP permits a cache to store:\n")
            parts.append(frontier.table(shown["frontier"], shown["oracle_kept"], frontier.of_kept))
            parts.append("All settings that were played, in the order of their requests:\n")
            parts.append(frontier.settings(shown["frontier"]))
            parts.append("All figures of the systems as they are [configured](#configuration-of-the-systems):\n")
        parts.append(_table(shown["systems"]))
        if aims := _aims(shown["systems"]):
            parts.append(aims)
        parts.append(_kinds(shown["systems"]))
        parts.append(_waits(shown["systems"]))
    return "\n".join(parts)


ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("requests to the origin", lambda each: f"{each['origin_requests']:,}"),
    ("of these for feeds with no-cache or no-store", lambda each: f"{each['origin_requests_withheld']:,}"),
    ("MB from the origin", lambda each: f"{each['origin_bytes'] / 1e6:,.1f}"),
    ("MB to readers", lambda each: f"{each['reader_bytes'] / 1e6:,.1f}"),
    ("MB to readers that send A-IM", lambda each: f"{each['delta_reader_bytes'] / 1e6:,.2f}"),
    ("polls answered 304", lambda each: _share(each, 304)),
    ("polls answered 226", lambda each: _share(each, 226)),
    ("staleness, mean", lambda each: f"{each['stale_mean']:,.0f} s"),
    ("staleness, 95th percentile", lambda each: f"{each['stale_p95']:,.0f} s"),
    ("staleness, mean, without hint or lifetime", lambda each: f"{each.get('silent_stale_mean', 0):,.0f} s"),
    ("polls that waited for the origin", lambda each: _percent(1 - each["not_waited_share"])),
    ("polls that waited, though a copy may answer", lambda each: _percent(1 - each["not_waited_share_where_allowed"])),
    ("429 answers of the origin", lambda each: f"{each['origin_429']:,}"),
    ("429 answers passed on to readers", lambda each: f"{each['passed_429']:,}"),
    ("scheduled requests", lambda each: f"{each['scheduled']:,}" if "scheduled" in each else "–"),
    (
        "of these in skipped hours",
        lambda each: f"{each['scheduled_in_skipped_hours']:,}" if "scheduled" in each else "–",
    ),
)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _share(each: Figures, status: int) -> str:
    # In JSON, the statuses are texts.
    count = each["statuses"].get(status, each["statuses"].get(str(status), 0))
    return f"{100 * count / each['polls']:.1f} %"


def _names(systems: Sequence[Figures]) -> str:
    """Return the names of the systems as cells of a table's head."""
    return " | ".join("no cache" if each["system"] == "nothing" else each["system"] for each in systems)


def _table(systems: Sequence[Figures]) -> str:
    lines = [f"| | {_names(systems)} |", "|---|" + "---:|" * len(systems)]
    lines += [f"| {title} | " + " | ".join(show(each) for each in systems) + " |" for title, show in ROWS]
    return "\n".join(lines) + "\n"


def _aims(systems: Sequence[Figures]) -> str:
    peers = [each for each in systems if each["system"] in PEERS]
    ours = next((each for each in systems if each["system"] == "feedproxy"), None)
    if ours is None or not peers:
        return ""

    def ratio(key: str) -> float:
        return ours[key] / max(1, min(each[key] for each in peers))  # type: ignore[no-any-return]

    rows = (
        ("requests to the origin", ratio("origin_requests"), "≤ 0.5"),
        ("bytes from the origin", ratio("origin_bytes"), "≤ 0.5"),
        ("bytes to readers", ratio("reader_bytes"), "≤ 0.6"),
        ("bytes to readers that send A-IM", ratio("delta_reader_bytes"), "≤ 0.25"),
    )
    lines = ["| feedproxy ÷ the best peer of the row | ratio | aim |", "|---|---:|---:|"]
    lines += [f"| {title} | {value:.2f} | {aim} |" for title, value, aim in rows]
    return "\n".join(lines) + "\n"


def _waits(systems: Sequence[Figures]) -> str:
    """Return the table of the reasons why readers waited."""
    kinds = list(systems[0]["waits"])
    lines = [f"| polls that waited for the origin, by reason | {_names(systems)} |"]
    lines.append("|---|" + "---:|" * len(systems))
    lines += [f"| {kind} | " + " | ".join(f"{each['waits'][kind]:,}" for each in systems) + " |" for kind in kinds]
    return "\n".join(lines) + "\n"


def _kinds(systems: Sequence[Figures]) -> str:
    """Return the table of requests and bytes by the kind of lifetime that a feed states."""
    kinds = list(systems[0]["origin_by_kind"])
    lines = [f"| requests to the origin (MB from it), by what the feed states | {_names(systems)} |"]
    lines.append("|---|" + "---:|" * len(systems))
    for kind in kinds:
        cells = [each["origin_by_kind"][kind] for each in systems]
        told = " | ".join(f"{cell['requests']:,} ({cell['bytes'] / 1e6:,.1f})" for cell in cells)
        lines.append(f"| {KINDS[kind]} | {told} |")
    return "\n".join(lines) + "\n"


KINDS = {
    "silent": "no hint or lifetime",
    "max-age": "max-age",
    "ttl": "ttl",
    "sy": "sy:*",
    "withheld": "no-cache, no-store",
}


BLOCK = re.compile(r"(?<=<!-- week: begin -->\n).*?(?=<!-- week: end -->)", re.DOTALL)


def dated(results: Figures) -> str:
    """Return all tables of one play, with the day and the machine."""
    machine, versions = (
        results["machine"],
        ", ".join(f"{name} {number}" for name, number in results["versions"].items()),
    )
    where = f"{machine['cpus']} CPUs ({machine['cpu']}), Linux {machine['kernel']}, Python {machine['python']}"
    return f"{results['date']}, {where}; {versions}.\n\n{page(results)}"


SYSTEMS = ("nothing", *PEERS, "feedproxy")


def merged(results: Sequence[Figures]) -> list[Figures]:
    """Return the results, with all systems of the same play in one result."""
    found: dict[tuple[Any, ...], Figures] = {}
    for each in results:
        key = tuple((name, shown["polls"]) for name, shown in each["profiles"].items()), each["seed"], each["days"]
        if key not in found:
            found[key] = each
            continue
        for name, shown in found[key]["profiles"].items():
            for place in ("systems", "frontier"):
                shown[place] += each["profiles"][name][place]
            shown["systems"].sort(key=lambda figures: SYSTEMS.index(figures["system"]))
    return list(found.values())


def main() -> None:
    """Print the tables, or insert them into a page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.week.table", description=__doc__)
    parser.add_argument("json", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--into", type=Path, metavar="PAGE")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write frontier-PROFILE.svg of each profile")
    args = parser.parse_args()
    plays = merged([json.loads(each.read_text(encoding="utf-8")) for each in args.json])
    if args.plots is not None:
        for results in plays:
            for profile, shown in results["profiles"].items():
                drawn = frontier.plot(title(profile, shown, results), shown["frontier"], shown["oracle"])
                (args.plots / f"frontier-{profile}.svg").write_text(drawn, encoding="utf-8")
    told = "\n".join(dated(results) for results in plays)
    if args.into is None:
        print(told)
        return
    text = args.into.read_text(encoding="utf-8")
    args.into.write_text(BLOCK.sub(lambda _: f"\n{told}\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
