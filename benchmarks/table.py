"""Ratios, and tables of them: `python -m benchmarks.table build/bench.json --into benchmarks/README.md`."""

import argparse
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import GROUPS, PEERS
from benchmarks.rows import ROWS, Row

OURS = "feedproxy"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def medians(runs: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the median CPU microseconds per request of the valid runs, by row and server."""
    by_place: dict[tuple[str, str], list[float]] = {}
    for each in runs:
        if not each["fault"]:
            by_place.setdefault((each["row"], each["server"]), []).append(each["us"])
    return {place: statistics.median(values) for place, values in by_place.items()}


def ratio(us: Mapping[tuple[str, str], float], row: str, group: str) -> float | None:
    """Return the CPU time of a group's better variant divided by that of feedproxy, or None if either is missing.

    Above 1, feedproxy uses less.
    """
    ours = us.get((row, OURS))
    theirs = [us[row, peer.name] for peer in PEERS if peer.group == group and (row, peer.name) in us]
    return min(theirs) / ours if ours and theirs else None


def cell(measured: float | None, target: float | None) -> str:
    """Return the measured ratio and its target as text. A ratio below its target is bold."""
    if measured is None:
        return "–" if target is None else f"– (≥ {target:g})"
    said = f"{measured:.2f}"
    if target is None:
        return said
    return f"{said} (≥ {target:g})" if measured >= target else f"**{said}** (≥ {target:g})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _titled(titles: Mapping[str, str] | None) -> list[tuple[Row, str]]:
    """Return the rows with their titles in this run, or all rows if `titles` is None."""
    return [(row, titles[row.key] if titles else row.title) for row in ROWS if not titles or row.key in titles]


def ratios(runs: Sequence[Mapping[str, Any]], titles: Mapping[str, str] | None = None) -> str:
    """Return the table of ratios, with the targets in brackets."""
    us = medians(runs)
    body = [
        [title, *(cell(ratio(us, row.key, group), row.targets.get(group)) for group in GROUPS)]
        for row, title in _titled(titles)
    ]
    return markdown(["CPU a request, peer ÷ feedproxy", *GROUPS], body)


def microseconds(runs: Sequence[Mapping[str, Any]], titles: Mapping[str, str] | None = None) -> str:
    """Return the table of CPU microseconds per request, with requests per second."""
    us = medians(runs)
    rates = medians([{**each, "us": each["rate"]} for each in runs])
    names = [OURS, *(peer.name for peer in PEERS)]

    def one(row: Row, name: str) -> str:
        place = row.key, name
        return f"{us[place]:.1f} ({rates[place] / 1000:.1f})" if place in us else "–"

    body = [[title, *(one(row, name) for name in names)] for row, title in _titled(titles)]
    return markdown(["CPU µs a request (thousand requests/s)", *names], body)


def faults(runs: Iterable[Mapping[str, Any]]) -> str:
    """Return the runs that do not count with their reasons, or an empty string."""
    return "\n".join(f"* {each['row']}, {each['server']}: {each['fault']}" for each in runs if each["fault"])


def aims(found: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of all other figures, with their targets."""
    rows = []
    for each in found:
        value, target = each["value"], each["target"]
        wanted = "" if target is None else f"{each['sense']} {_figure(target, each['unit'])}"
        said = "–" if value is None else _figure(value, each["unit"])
        short = value is not None and target is not None and not reached(value, each["sense"], target)
        rows.append([each["what"], f"**{said}**" if short else said, wanted])
    return markdown(["", "measured", "target"], rows) if rows else ""


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}".strip()


def reached(value: float, sense: str, target: float) -> bool:
    """Return whether a value reaches its target. `sense` is ≤ or ≥."""
    return value <= target if sense == "≤" else value >= target


def page(results: Mapping[str, Any]) -> str:
    """Return all results as text, with date and machine."""
    machine, how = results["machine"], results["how"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    about = (
        f"{results['date']}, {machine['cpu']}, {machine['cpus']} CPUs, {machine['memory_gib']} GiB, "
        f"{machine['system']}, Linux {machine['kernel']}, Python {machine['python']}; {versions}. "
        f"At most {how['rounds']} rounds of {how['seconds']} s, interleaved; medians."
    )
    runs, titles = results["runs"], results.get("titles", {})
    parts = [about]
    if runs:
        parts += [ratios(runs, titles), microseconds(runs, titles)]
        parts += ["Not counted:\n\n" + told] if (told := faults(runs)) else []
    parts += [told] if (told := aims(results["aims"])) else []
    parts += [f"The store alone:\n\n```\n{results['store'].strip()}\n```"] if results.get("store") else []
    return "\n\n".join(parts)


def into(text: str, made: str) -> str:
    """Return the page `text` with the results `made` between its two marks. Raises ValueError if a mark is missing."""
    if BEGIN not in text or END not in text:
        raise ValueError(f"no {BEGIN} … {END}")
    return re.sub(f"(?s){re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n\n{made}\n\n{END}", text)


def main() -> None:
    """Print the results of a run, or insert them into a page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table")
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, help="a page with the two marks, such as benchmarks/README.md")
    args = parser.parse_args()
    made = page(json.loads(args.results.read_text(encoding="utf-8")))
    if args.into:
        args.into.write_text(into(args.into.read_text(encoding="utf-8"), made), encoding="utf-8")
    else:
        print(made)


if __name__ == "__main__":
    main()
