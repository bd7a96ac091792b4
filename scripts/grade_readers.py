"""Grading of the installed feed readers by the plans in conf/: `python scripts/grade_readers.py [NAME…]`.

The script prints the table of docs/reference/readers.md, and keeps recordings and pages in build/readers/. It names the
readers that are not installed.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "readers"
PLANS = ("usual", "weather")
LASTING = ("liferea",)
"""Readers that keep running. They get an accelerated clock."""
SPEED = 300

SCRIPT = """
import json, os, sys, feedparser
url, state, keeps = sys.argv[1], os.path.join(sys.argv[2], "state"), sys.argv[3] == "kept"
known = json.load(open(state)) if keeps and os.path.exists(state) else {}
found = feedparser.parse(url, **known)
if keeps and found.entries:
    json.dump({name: found.get(name) for name in ("etag", "modified")}, open(state, "w"))
"""

READERS = {
    # Name of the reader: the command for its version, and the command for one poll.
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
        # It polls at its own intervals, by its own clock.
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
        # It is started once, and polls every half hour.
        "export XDG_CONFIG_HOME={home}/.config XDG_DATA_HOME={home}/.data XDG_CACHE_HOME={home}/.cache; "
        'd={home}/.config/liferea; mkdir -p $d; echo \'<opml version="1.0"><body><outline text="lab" title="lab" '
        'type="rss" xmlUrl="{url}" updateInterval="30"/></body></opml>\' > $d/feedlist.opml; '
        "exec dbus-run-session -- xvfb-run -a liferea",
    ),
}


def main(names: list[str], python: str) -> int:
    """Grade the readers, and print the table."""
    OUT.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in READERS if not names or any(each in name for each in names)]
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda name: row(name, python), chosen))
    print("| reader | version | usual days | bytes | bad weather | to mend on usual days | in bad weather, too |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0


def row(name: str, python: str) -> str:
    """Return a row of the table."""
    asked, command = (_filled(each, python) for each in READERS[name])
    found = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, check=False)  # noqa: S603, S607
    number = re.search(r"\d+\.\d[\w.+~-]*", found.stdout + found.stderr)
    if found.returncode or not number:
        return f"| {name} | not installed | | | | | |"
    usual, weather = (_played(name, plan, command) for plan in PLANS)
    if not usual or not weather:
        return f"| {name} | {number[0]} | no poll | | | | |"
    usually = _to_mend(usual)
    also = [each for each in _to_mend(weather) if each not in usually]
    told = (usual["grade"], f"{usual['cost']['bytes'] / 1000:.1f} KB", weather["grade"])
    words = (", ".join(f"`{each}`" for each in ids) or "nothing" for ids in (usually, also))
    return f"| {name} | {number[0]} | {' | '.join(map(str, told))} | {' | '.join(words)} |"


def _played(name: str, plan: str, command: str) -> dict[str, Any]:
    """Return the score of a reader that ran this plan. Its recording and its page are kept."""
    slug = re.sub(r"\W+", "-", f"{name} {plan}").strip("-")
    file, feedproxy = ROOT / "conf" / f"plan-{plan}.yaml", str(Path(sys.executable).with_name("feedproxy"))
    if name in LASTING:
        text = file.read_text(encoding="utf-8")
        file = OUT / f"{slug}.yaml"
        file.write_text(f"{text}\nspeed: {SPEED}\nfaketime: true\n", encoding="utf-8")
    har, told = str(OUT / f"{slug}.har"), OUT / f"{slug}.json"
    words = [feedproxy, "lab", "run", str(file), "--format", "json", "--record", har, "--output", str(told)]
    subprocess.run([*words, "--", "sh", "-c", command], cwd=ROOT, capture_output=True, check=False)  # noqa: S603
    page = str(OUT / f"{slug}.html")
    subprocess.run([feedproxy, "score", har, "--format", "html", "--output", page], check=False)  # noqa: S603
    readers: list[dict[str, Any]] = json.loads(told.read_text(encoding="utf-8"))["readers"]
    return max(readers, key=lambda each: each["cost"]["requests"], default={})


def _to_mend(score: dict[str, Any]) -> list[str]:
    return [each["id"] for each in score["findings"] if each["level"] in ("warn", "bad")]


def _filled(text: str, python: str) -> str:
    return text.replace("$PYTHON", python).replace("$SCRIPT", SCRIPT)


if __name__ == "__main__":
    # Readers written in Python may be installed for another interpreter.
    others = [each for each in sys.argv[1:] if each.startswith("--python=")]
    names = [each for each in sys.argv[1:] if each not in others]
    sys.exit(main(names, others[0].partition("=")[2] if others else sys.executable))
