"""Write the pages of docs/reference/ that are made from the code: `make docs`.

A page made by hand beside the code that it describes is wrong after a while. tests/test_reference.py compares.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from inspect import getsource
from pathlib import Path
from typing import Any

from feedproxy.report.metrics import Metrics
from feedproxy.settings import Settings, option_names

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"

NOUNS = {bool: "true or false", int: "whole number", str: "text", tuple: "list of texts"}

OPTIONS_HEAD = """# Options

Made by `make docs` from `feedproxy/settings.py`. An option is a key of the configuration file (`--config`), and
can be given as `--set NAME=VALUE`. Durations are seconds, sizes bytes. Those marked *rule* can also stand in a
rule of `feeds:`, for the feeds that it matches. `conf/office.yaml` says of each why one would change it.
mitmproxy's own options are keys too.
"""

METRICS_HEAD = """# Metrics

Made by `make docs` from `feedproxy/report/metrics.py`. Prometheus finds them at `/metrics` on the admin listener.
`outcome` and `detail` are the words of [Cache-Status](cache-status.md). Metrics carry no URLs and no readers.
`conf/grafana.json` is a dashboard of them.
"""


def options() -> str:
    """The page of options, in the order and under the headings of settings.py."""
    lines = [OPTIONS_HEAD]
    headings = _headings()
    for each in fields(Settings):
        if heading := headings.get(each.name):
            lines += [f"## {heading[0].upper()}{heading[1:]}", ""]
        text = each.metadata["text"].replace("*", r"\*")
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
    rule = ", *rule*" if each.metadata["per_feed"] else ""
    return f"{kind}, default {_written(each.default)}{rule}"


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


PAGES: Mapping[str, Callable[[], str]] = {"options.md": options, "metrics.md": metrics}


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
