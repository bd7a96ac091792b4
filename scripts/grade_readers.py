"""Grade the readers that are installed here, by the plans in conf/: `python scripts/grade_readers.py [NAME…]`.

Prints the table of docs/reference/readers.md, and keeps recordings and pages in build/readers/. What is not installed
is left out, visibly.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "readers"
PLANS = ("usual", "weather")
SLOW = ("liferea",)
"""They take a quarter of a minute for a poll, and play the first plan only."""

SCRIPT = """
import json, os, sys, feedparser
url, state, keeps = sys.argv[1], os.path.join(sys.argv[2], "state"), sys.argv[3] == "kept"
known = json.load(open(state)) if keeps and os.path.exists(state) else {}
found = feedparser.parse(url, **known)
if keeps and found.entries:
    json.dump({name: found.get(name) for name in ("etag", "modified")}, open(state, "w"))
"""

READERS = {
    # Name: how its version is asked for, and how it polls once.
    "newsboat": (
        "newsboat --version",
        "echo {url} > {home}/urls; newsboat -q -u {home}/urls -c {home}/cache.db -x reload",
    ),
    "rss2email": (
        "r2e --version",
        "r='r2e -c {home}/cfg -d {home}/data'; test -f {home}/cfg || { $r new me@example.org && $r add lab {url}; }; "
        "$r run --no-send",
    ),
    "sfeed (curl)": (
        "dpkg-query -W -f '${Version}' sfeed",
        "mkdir -p {home}/feeds; printf 'sfeedpath=\"%s\"\\nfeeds() { feed lab %s; }\\n' {home}/feeds {url} "
        "> {home}/rc; "
        "sfeed_update {home}/rc",
    ),
    "feedparser, etag and modified kept": (
        "$PYTHON -c 'import feedparser; print(feedparser.__version__)'",
        "$PYTHON -c '$SCRIPT' {url} {home} kept",
    ),
    "feedparser alone": (
        "$PYTHON -c 'import feedparser; print(feedparser.__version__)'",
        "$PYTHON -c '$SCRIPT' {url} {home} plain",
    ),
    "reader": (
        "$PYTHON -c 'import reader; print(reader.__version__)'",
        # It has a pace of its own, by its own clock.
        "now=$(date -u -d @{time} '+@%F %T'); "
        'r() { TZ=UTC faketime -f "$now" $PYTHON -m reader --db {home}/db "$@"; }; '
        "test -f {home}/db || r add {url}; r update",
    ),
    "feed2exec": (
        "$PYTHON -m feed2exec --version",
        "r='$PYTHON -m feed2exec --config {home}/ini --database {home}/db'; "
        "test -f {home}/ini || $r add lab {url} --output feed2exec.plugins.echo; $r fetch",
    ),
    "liferea": (
        "dpkg-query -W -f '${Version}' liferea",
        # It has no way to poll once: it does so when it is started, and is ended after a while.
        'd={home}/.config/liferea; mkdir -p $d; test -f $d/feedlist.opml || echo \'<opml version="1.0"><body><outline '
        'text="lab" title="lab" type="rss" xmlUrl="{url}" updateInterval="30"/></body></opml>\' > $d/feedlist.opml; '
        "now=$(date -u -d @{time} '+@%F %T'); "
        'TZ=UTC timeout 14 dbus-run-session -- xvfb-run -a faketime -f "$now" liferea; true',
    ),
}


def main(names: list[str], python: str) -> int:
    """Run and print."""
    OUT.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in READERS if not names or any(each in name for each in names)]
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda name: row(name, python), chosen))
    print("| reader | version | usual days | bad weather | what is to be mended |\n|---|---|---|---|---|")
    print("\n".join(rows))
    return 0


def row(name: str, python: str) -> str:
    """A line of the table."""
    asked, command = (_filled(each, python) for each in READERS[name])
    found = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, check=False)  # noqa: S603, S607
    number = re.search(r"\d+\.\d[\w.+~-]*", found.stdout + found.stderr)
    if found.returncode or not number:
        return f"| {name} | not installed | | | |"
    grades, ids = [], dict[str, None]()
    for plan in PLANS:
        if name in SLOW and plan != PLANS[0]:
            grades.append("not played")
            continue
        slug = re.sub(r"\W+", "-", f"{name} {plan}").strip("-")
        feedproxy = str(Path(sys.executable).with_name("feedproxy"))
        words = [feedproxy, "lab", "run", f"conf/plan-{plan}.yaml", "--format", "json"]
        words += [
            "--record",
            str(OUT / f"{slug}.har"),
            "--output",
            str(OUT / f"{slug}.json"),
            "--",
            "sh",
            "-c",
            command,
        ]
        subprocess.run(words, cwd=ROOT, capture_output=True, check=False)  # noqa: S603
        readers = json.loads((OUT / f"{slug}.json").read_text(encoding="utf-8"))["readers"]
        grades.append(str(readers[0]["grade"]) if readers else "no poll")
        ids |= {
            f"`{each['id']}`": None for told in readers for each in told["findings"] if each["level"] in ("warn", "bad")
        }
    return f"| {name} | {number[0]} | {' | '.join(grades)} | {', '.join(ids) or 'nothing'} |"


def _filled(text: str, python: str) -> str:
    return text.replace("$PYTHON", python).replace("$SCRIPT", SCRIPT)


if __name__ == "__main__":
    # The readers written in Python may be installed beside another interpreter than this one.
    others = [each for each in sys.argv[1:] if each.startswith("--python=")]
    names = [each for each in sys.argv[1:] if each not in others]
    sys.exit(main(names, others[0].partition("=")[2] if others else sys.executable))
