"""Generator of the pages in docs/reference/ that are made from the code: `make docs`.

tests/test_reference.py compares the pages with the code.
"""

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from inspect import cleandoc, getsource
from pathlib import Path
from typing import Any

from feedproxy.check.run_checks import CHECKS
from feedproxy.lab.replay.faults import GROUPS
from feedproxy.notes import Category, Level, Note, notes_of, paragraphs
from feedproxy.scoring import (
    client_hygiene_rules,
    conditional_request_rules,
    polling_interval_rules,
    redirect_and_gone_rules,
)
from feedproxy.scoring.rule_weights import ReaderRule
from feedproxy.settings import Settings, format_value, option_names
from feedproxy.telemetry.metrics import Metrics
from feedproxy.telemetry.metrics_aggregation import exposition

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"

NOUNS = {bool: "true or false", int: "whole number", str: "text", tuple: "list of texts"}

OPTIONS_HEAD = """# Options

You can set an option in the configuration file (`--config`), by `--set NAME=VALUE`, or by the environment variable
`FEEDPROXY_NAME` ([how to configure feedproxy](../how-to/configure-it.md)). You can set options of mitmproxy in the same
way. Durations and sizes may have units: `30m`, `4GiB`.

A rule under `feeds:` may set the options marked *rule* for the feeds that the rule matches. feedproxy reads the options
marked *restart* only at the start, and all others also at a reload (SIGHUP).

This page is made by `make docs` from `feedproxy/settings.py`.
"""

METRICS_HEAD = """# Metrics

Prometheus reads these metrics at `/metrics` on the admin listener. The values of the labels `outcome` and `detail` are
the terms of [Cache-Status](cache-status.md). Metrics contain no URLs, and nothing about single readers.
`conf/grafana.json` is a dashboard for Grafana.

This page is made by `make docs` from `feedproxy/telemetry/metrics.py`.
"""

FAULTS_HEAD = """# Faults

A fault is a failure or an unusual behaviour of an origin. A [replay](../how-to/replay-a-week.md) can inject the faults
on this page, to test how a feed reader reacts to them:

    feedproxy replay week.har --fault gzip-tag --fault 500@2h..3h --fault '429@10%'

Some faults have a value, which you can set with `NAME=VALUE`. The part after `@` states
[when](../how-to/replay-a-week.md#inject-faults) a fault applies. If you give several faults, they are applied in the
order of the command line. If two of them replace the whole response, the later one takes effect. With the same
`--seed`, random choices are the same in every run. A recording of the replay (`--record`) names the faults in each
response.

A reader that polls through feedproxy does not notice most of these faults. `tests/lab/test_faults.py` tests each
fault, with and without feedproxy.

This page is made by `make docs` from `feedproxy/lab/replay/faults/`.
"""

FEEDS_HEAD = """# Promises about feeds

This page lists what feedproxy promises about hints, deltas, moves and readers. The [public tests of HTTP
caches](conformance.md) do not test these promises. Each promise has one or more test cases (*rows*). The tests run each
case at every layer of feedproxy that answers clients, with a clock that the test sets, and an origin in memory:

    make test TEST_ARGS=tests/spec/test_supplement.py

A copy is *held* if it is stale by HTTP, and answers nevertheless because the feed's hints permit it
([freshness](../explanation/freshness.md)). If a promise has a time limit, its tests send requests one second before
the limit, at the limit, and usually one second after it. Below each promise is its source: the specification that
requires it, or *feedproxy* if no specification does.

This page is made by `make docs` from `tests/spec/supplement/`.
"""

FINDINGS_HEAD = """# Findings about readers

The commands `score` and `lab run` and the page `/readers` report these findings about a reader. Each finding has a
level. Findings of the levels *bad* and *warn* lower the [grade](../explanation/grades.md). Findings of the levels
*info* and *good* do not. A report shows each finding with the requests that caused it. `tests/lab/test_score.py` has,
for each finding, a reader that causes only this finding.

The text between ⟨ and ⟩ is an example: a report has its own value there, such as the number of requests (⟨3 requests⟩).

This page is made by `make docs` from `feedproxy/scoring/`.
"""

NOTES_HEAD = """# Notes about feeds

The command [feedproxy check](../how-to/check-your-feed.md) reports these notes about a feed. Each note has a level:
*bad*, *warn*, *info* or *good*. A note of the level *good* needs no action. Within a subject, the worst notes come
first. If there is a note of the level *bad* or *warn*, the exit code of the command is 1, otherwise 0. `tests/check/`
has an origin or a document that causes each note.

The text between ⟨ and ⟩ describes a value, which a report has in its place.

This page is made by `make docs` from `feedproxy/check/`.
"""

VALUES: Mapping[str, str] = {
    "agent": "User-Agent",
    "charset": "encoding",
    "coding": "content coding",
    "count": "number",
    "days": "number",
    "detail": "details",
    "difference": "duration",
    "direction": "fast or slow",
    "document_encoding": "another encoding",
    "expected": "expected value",
    "field": "name of the field",
    "first": "first value",
    "hours": "number",
    "href": "address",
    "interval": "duration",
    "items": "number of items",
    "kind": "kind of document",
    "lifetime": "duration",
    "location": "address",
    "message": "message of the parser",
    "name": "name of the field or element",
    "names": "list of names",
    "new": "number",
    "proper": "correct media type",
    "second": "second value",
    "seconds": "number",
    "share": "number",
    "subscribers": "number",
    "sy": "duration",
    "text": "date",
    "times": "3 requests",
    "total": "total number",
    "ttl": "number",
    "type": "media type",
    "vendor": "name of the protection service",
    "wait": "duration",
    "when": "date",
}
"""Values in the texts of notes and findings: how the pages show them."""

CASES_MAX = 12
"""Largest number of cases that a page lists. Further ones are only counted."""


def options() -> str:
    """Return the page of options, in the order and under the headings of settings.py."""
    lines = [OPTIONS_HEAD]
    headings = _headings()
    for option in fields(Settings):
        if option.metadata["deprecated"]:
            continue
        if heading := headings.get(option.name):
            lines += [f"## {heading[0].upper()}{heading[1:]}", ""]
        text = f"{option.metadata['text']} {option.metadata['why']}".strip()
        text = re.sub(r"(`[^`]*`)|\*", lambda found: found[1] or r"\*", text)
        lines += [f"- `{option.name}` ({_kind(option)})  ", f"  {text}"]
        lines += [""] if _is_last_of_section(option.name, headings) else []
    return "\n".join(lines)


def _is_last_of_section(name: str, headings: Mapping[str, str]) -> bool:
    names = option_names()
    following = names[names.index(name) + 1 :]
    return not following or following[0] in headings


def _kind(option: Field[Any]) -> str:
    choices = [f"`{choice}`" if choice else "empty" for choice in option.metadata["choices"]]
    kind = " or ".join(choices) if choices else NOUNS[type(option.default)]
    marks = [mark for mark, name in (("*rule*", "per_feed"), ("*restart*", "restart")) if option.metadata[name]]
    kind = {"s": "duration", "ms": "duration", "B": "size"}.get(option.metadata["unit"], kind)
    return f"{kind}, default {', '.join([_format_default(format_value(option.name, option.default)), *marks])}"


def _format_default(default: Any) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        return f"`[{', '.join(default)}]`" if default else "empty"
    return f"`{default}`" if default != "" else "empty"


def _headings() -> dict[str, str]:
    """Return the comments `# -- heading` of settings.py, by the option that follows each."""
    source = getsource(Settings)
    return {name: heading for heading, name in re.findall(r"^    # -- (.+)\n    (\w+):", source, re.MULTILINE)}


def metrics() -> str:
    """Return the page of metrics, in alphabetical order."""
    text = exposition(Metrics().families()).decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    texts = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    # The process metrics of prometheus_client differ between systems.
    names = [name for name in sorted(kinds) if name.startswith("feedproxy_") and not name.endswith("_created")]
    rows = [f"- `{name}` ({kinds[name]})  \n  {texts[name]}" for name in names]
    return "\n".join([METRICS_HEAD, *rows, ""])


def feeds() -> str:
    """Return the page of promises by chapter; rows that differ only in their case are one promise."""
    sys.path.insert(0, str(ROOT))
    from tests.spec.supplement.table import CHAPTERS, PROMISES  # noqa: PLC0415 (tests are not installed)

    lines = [FEEDS_HEAD, "| source | promises | rows |", "|---|---|---|"]
    rows = Counter(promise.source for promise in PROMISES)
    promises = Counter(source for source, _ in {(promise.source, promise.name) for promise in PROMISES})
    lines += [f"| {source} | {promises[source]} | {rows[source]} |" for source in sorted(rows)]
    lines += [f"| together | {promises.total()} | {rows.total()} |", ""]
    for chapter, found in CHAPTERS.items():
        lines += [f"## {chapter}", ""]
        for source, name in dict.fromkeys((row.source, row.name) for row in found):
            same = [row for row in found if (row.source, row.name) == (source, name)]
            broken = [f"  \n  Not kept yet: {row.case or 'always'}; {row.broken}" for row in same if row.broken]
            lines.append(f"- {name}.  \n  {source}{_cases([row.case for row in same])}{''.join(broken)}")
        lines.append("")
    return "\n".join(lines)


def _cases(cases: Sequence[str]) -> str:
    if len(cases) == 1:
        return f" ({cases[0]})".replace("*", r"\*") if cases[0] else ""
    kinds = dict.fromkeys(re.sub(r"(^|, )one second (before|after)$", "", case) for case in cases)
    names = [kind for kind in kinds if kind]
    listing = f": {' · '.join(names)}" if 1 < len(names) <= CASES_MAX else ""
    return f"; {len(cases)} rows{listing}".replace("*", r"\*")


def faults() -> str:
    """Return the page of faults, each with its docstring."""
    lines = [FAULTS_HEAD]
    for title, group in GROUPS:
        lines += [f"## {title}", ""]
        for fault in group:
            value = (
                f"`--fault {fault.name}=VALUE` sets the value. The default is `{fault.default}`."
                if fault.default
                else ""
            )
            when = f"Without a part after `@`, the fault applies in `{fault.when}`." if fault.when else ""
            lines += [f"### {fault.name}", "", cleandoc(fault.__doc__ or ""), ""]
            lines += [" ".join(filter(None, (value, when))), ""] if value or when else []
    return "\n".join(lines)


def findings() -> str:
    """Return the page of rules and findings about readers, by category."""
    kinds = [
        kind
        for module in (conditional_request_rules, polling_interval_rules, redirect_and_gone_rules, client_hygiene_rules)
        for kind in notes_of(module)
    ]
    lines = [FINDINGS_HEAD, "## Rules", "", "| rule | weight |", "|---|---|"]
    lines += [f"| {rule.requirement} | {rule.weight} |" for rule in ReaderRule]
    return "\n".join([*lines, *_by_category(kinds), ""])


def notes() -> str:
    """Return the page of notes about feeds, by category."""
    kinds = [kind for module in CHECKS for kind in notes_of(module)]
    return "\n".join([NOTES_HEAD.rstrip(), *_by_category(kinds), ""]).replace("\n\nNo action is needed.\n", "\n")


def as_markdown(kind: type[Note], descriptions: Mapping[str, str] = {}) -> str:
    """Return a Note for a reference page. Values in its texts are replaced by descriptions, or by their names."""
    summary, advice = (
        re.sub(r"%\((\w+)\)[sd]", lambda value: f"⟨{descriptions.get(value[1], value[1])}⟩", text).replace("%%", "%")
        for text in (kind.summary, kind.advice)
    )
    advice = (
        textwrap.fill(paragraphs(advice), 118, break_on_hyphens=False) if "\n\n" not in advice else paragraphs(advice)
    )
    return f"### {kind.id()}\n\n*{kind.level}*: {summary}\n\n{advice}\n\nSource: {kind.reference}.\n"


def _by_category(kinds: Sequence[type[Note]]) -> list[str]:
    lines = []
    for category in Category:
        if found := [kind for kind in kinds if kind.category is category]:
            ranks = {level: rank for rank, level in enumerate(reversed(Level))}
            found.sort(key=lambda kind: ranks[kind.level])
            lines += ["", f"## {category}", "", "\n".join(as_markdown(kind, VALUES) for kind in found).rstrip()]
    return lines


PAGES: Mapping[str, Callable[[], str]] = {
    "options.md": options,
    "metrics.md": metrics,
    "faults.md": faults,
    "findings.md": findings,
    "notes.md": notes,
    "conformance-feeds.md": feeds,
}


def main() -> int:
    """Write every page that has changed, and print its name."""
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
