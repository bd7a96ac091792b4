"""Write the pages of docs/reference/ that are made from the code: `make docs`.

A page made by hand beside the code that it describes is wrong after a while. tests/test_reference.py compares.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from inspect import cleandoc, getsource
from pathlib import Path
from typing import Any

from feedproxy.check.run_checks import CHECKS
from feedproxy.findings import Category, Level, Note, as_markdown, notes_of
from feedproxy.lab.replay.faults import GROUPS
from feedproxy.scoring import client_hygiene, conditional_requests, polling_interval, redirects
from feedproxy.scoring.rules import Rule
from feedproxy.settings import Settings, format_value, option_names
from feedproxy.telemetry.metrics import Metrics

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"

NOUNS = {bool: "true or false", int: "whole number", str: "text", tuple: "list of texts"}

OPTIONS_HEAD = """# Options

Made by `make docs` from `feedproxy/settings.py`. An option is a key of the configuration file (`--config`), and
can be given as `--set NAME=VALUE` or in the environment as `FEEDPROXY_NAME`
([how](../how-to/configure-it.md)). Durations and sizes take units: `30m`, `4GiB`. Those marked *rule* can also stand
in a rule of `feeds:`, for the feeds that it matches. Those marked *restart* are read at the start only, all others
with every reload (SIGHUP) too.
mitmproxy's own options are keys too.
"""

METRICS_HEAD = """# Metrics

Made by `make docs` from `feedproxy/telemetry/metrics.py`. Prometheus finds them at `/metrics` on the admin listener.
`outcome` and `detail` are the words of [Cache-Status](cache-status.md). Metrics carry no URLs and no readers.
`conf/grafana.json` is a dashboard of them.
"""

FAULTS_HEAD = """# Faults

Made by `make docs` from `feedproxy/lab/replay/faults/`. A catalogue of origin faults to inject:

    feedproxy replay week.har --fault gzip-tag --fault 500@2h..3h --fault '429@10%'

Several add up, in the order in which they are named; of two that replace the answer the later wins. What stands behind
`@` says [when](../how-to/replay-a-week.md#break-something) a fault is at work. What is left to chance is the same in
every run with the same `--seed`. A recording of the replay (`--record`) tells of each answer which faults had their
hands in it.

Behind feedproxy readers see few of them: `tests/lab/test_faults.py` plays every one, with and without it in front.
"""

FEEDS_HEAD = """# Promises about feeds

Made by `make docs` from `tests/spec/supplement/`. The public tests for HTTP caches have no words for what is peculiar
to feeds: hints, deltas, moves, readers. These promises have. Each row is played on all that answers readers, with a
clock that stands still until it is moved, and an origin in memory:

    make test TEST_ARGS=tests/spec/test_supplement.py

Where seconds count there are rows at the moment, one second before it, and mostly one after. Where the source is
feedproxy there is no text to follow, and the promise is our own.
"""

FINDINGS_HEAD = """# Findings about readers

Made by `make docs` from `feedproxy/scoring/`. What the commands score and lab run and the page /readers
say of a reader. *bad* and *warn* cost marks ([how a grade is reckoned](../explanation/grades.md)), *info* and *good*
do not. Each comes with the requests that show it. In `tests/lab/test_score.py` there is a reader for each that provokes
it and nothing else.
"""

NOTES_HEAD = """# Notes about feeds

Made by `make docs` from `feedproxy/check/`. What [feedproxy check](../how-to/check-your-feed.md) says of a feed, by
what it is about, the gravest first. *bad* and *warn* make it exit with 1, *info* and *good* do not. In `tests/check/`
there is for each an origin or a document that gives it.
"""

CASES_MAX = 23
"""More cases than these are counted, and not listed: they are all pairs of something."""


def options() -> str:
    """The page of options, in the order and under the headings of settings.py."""
    lines = [OPTIONS_HEAD]
    headings = _headings()
    for each in fields(Settings):
        if each.metadata["deprecated"]:
            continue
        if heading := headings.get(each.name):
            lines += [f"## {heading[0].upper()}{heading[1:]}", ""]
        text = f"{each.metadata['text']} {each.metadata['why']}".strip().replace("*", r"\*")
        lines += [f"- `{each.name}` ({_kind(each)})  ", f"  {text}"]
        lines += [""] if _is_last_of_section(each.name, headings) else []
    return "\n".join(lines)


def _is_last_of_section(name: str, headings: Mapping[str, str]) -> bool:
    names = option_names()
    following = names[names.index(name) + 1 :]
    return not following or following[0] in headings


def _kind(each: Field[Any]) -> str:
    choices = [f"`{choice}`" if choice else "empty" for choice in each.metadata["choices"]]
    kind = " or ".join(choices) if choices else NOUNS[type(each.default)]
    marks = [word for word, name in (("*rule*", "per_feed"), ("*restart*", "restart")) if each.metadata[name]]
    kind = {"s": "duration", "ms": "duration", "B": "size"}.get(each.metadata["unit"], kind)
    return f"{kind}, default {', '.join([_written(format_value(each.name, each.default)), *marks])}"


def _written(default: Any) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        return f"`[{', '.join(default)}]`" if default else "empty"
    return f"`{default}`" if default != "" else "empty"


def _headings() -> dict[str, str]:
    """The comments `# -- heading` of settings.py, each by the option that follows it."""
    source = getsource(Settings)
    return {name: heading for heading, name in re.findall(r"^    # -- (.+)\n    (\w+):", source, re.MULTILINE)}


def metrics() -> str:
    """The page of metrics, in alphabetical order."""
    text = Metrics().exposition().decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    texts = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    # What prometheus_client adds about the process differs from system to system.
    ours = [name for name in sorted(kinds) if name.startswith("feedproxy_") and not name.endswith("_created")]
    rows = [f"- `{name}` ({kinds[name]})  \n  {texts[name]}" for name in ours]
    return "\n".join([METRICS_HEAD, *rows, ""])


def feeds() -> str:
    """The page of promises about feeds, by chapter; rows that differ in their case alone are one promise."""
    sys.path.insert(0, str(ROOT))
    from tests.spec.supplement.table import CHAPTERS, PROMISES  # noqa: PLC0415 (tests are no package of ours)

    lines = [FEEDS_HEAD, "| source | promises | rows |", "|---|---|---|"]
    rows = Counter(each.source for each in PROMISES)
    promises = Counter(source for source, _ in {(each.source, each.name) for each in PROMISES})
    lines += [f"| {source} | {promises[source]} | {rows[source]} |" for source in sorted(rows)]
    lines += [f"| together | {promises.total()} | {rows.total()} |", ""]
    for chapter, found in CHAPTERS.items():
        lines += [f"## {chapter}", ""]
        for source, name in dict.fromkeys((each.source, each.name) for each in found):
            alike = [each for each in found if (each.source, each.name) == (source, name)]
            broken = [f"  \n  Not kept yet: {each.case or 'always'}; {each.broken}" for each in alike if each.broken]
            lines.append(f"- {name}.  \n  {source}{_cases([each.case for each in alike])}{''.join(broken)}")
        lines.append("")
    return "\n".join(lines)


def _cases(cases: Sequence[str]) -> str:
    if len(cases) == 1:
        return f" ({cases[0]})".replace("*", r"\*") if cases[0] else ""
    kinds = dict.fromkeys(re.sub(r"(^|, )one second (before|after)$", "", case) for case in cases)
    named = [kind for kind in kinds if kind]
    listed = f": {' · '.join(named)}" if 1 < len(named) <= CASES_MAX else ""
    return f"; {len(cases)} rows{listed}".replace("*", r"\*")


def faults() -> str:
    """The catalogue of faults: each by its name, with what its docstring says."""
    lines = [FAULTS_HEAD]
    for title, group in GROUPS:
        lines += [f"## {title}", ""]
        for each in group:
            value = f"`--fault {each.name}=VALUE` takes another value." if each.default else ""
            when = f"Without `@when` it is at work in `{each.when}`." if each.when else ""
            lines += [f"### {each.name}", "", cleandoc(each.__doc__ or ""), ""]
            lines += [" ".join(filter(None, (value, when))), ""] if value or when else []
    return "\n".join(lines)


def findings() -> str:
    """The findings about readers, by what they are about, and the rules that they break."""
    kinds = [
        kind
        for module in (conditional_requests, polling_interval, redirects, client_hygiene)
        for kind in notes_of(module)
    ]
    lines = [FINDINGS_HEAD, "## Rules", "", "| rule | weight |", "|---|---|"]
    lines += [f"| {rule.requirement} | {rule.weight} |" for rule in Rule]
    return "\n".join([*lines, *_by_category(kinds), ""])


def notes() -> str:
    """The notes about feeds, by what they are about."""
    kinds = [kind for module in CHECKS for kind in notes_of(module)]
    return "\n".join([NOTES_HEAD.rstrip(), *_by_category(kinds), ""])


def _by_category(kinds: Sequence[type[Note]]) -> list[str]:
    lines = []
    for category in Category:
        if found := [kind for kind in kinds if kind.category is category]:
            ranks = {level: rank for rank, level in enumerate(reversed(Level))}
            found.sort(key=lambda kind: ranks[kind.level])
            lines += ["", f"## {category}", "", "\n".join(as_markdown(kind) for kind in found).rstrip()]
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
    """Write every page that is not right already, and say which."""
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
