"""Run the suite: `python -m conformance`, or with `check` or `page`."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from conformance import outcome, page, passed, report, suite
from conformance.caches import FEEDPROXY, OTHERS, PROXY, REVERSE, ROOT, Cache, feedproxy
from conformance.process import DidNotStart

# A missing program is not a failure: with this exit code, a test that runs this module is skipped, as in automake.
SKIPPED = 77
RESULTS = Path(__file__).with_name("results")
AGAIN = 4
"""Number of times that an apparently lost test is repeated."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("act", nargs="?", choices=("run", "check", "page"), default="run")
    parser.add_argument("--suite", type=Path, metavar="DIR", help="a checkout of cache-tests; else the release on npm")
    parser.add_argument("--entrance", choices=(REVERSE, PROXY), default=REVERSE)
    parser.add_argument("--only", metavar="CACHE", action="append", help="leave out the others; may be repeated")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="of feedproxy; more are a row of their own")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of feedproxy; the same")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go (build/conformance/)")
    parser.add_argument("--record", action="store_true", help="keep the results: passed.txt, results/ and the page")
    args = parser.parse_args(arguments)
    if args.act == "page":
        page.write(RESULTS)
        return 0
    try:
        found = suite.in_folder(args.suite) if args.suite else suite.from_npm()
        mine = feedproxy(args.workers, args.set)
        return _check(found, mine, args.entrance) if args.act == "check" else _run(found, mine, args)
    except suite.Missing as missing:
        print(f"conformance: {missing}", file=sys.stderr)
        return SKIPPED


def _run(found: suite.Suite, mine: Cache, args: argparse.Namespace) -> int:
    wanted = {each.lower() for each in args.only or ()}
    runs = {}
    for cache in (mine, *OTHERS):
        if (wanted and cache.program_name.lower() not in wanted) or args.entrance not in cache.entrances:
            continue
        if cache.path is None:
            print(f"{cache.name}: not installed", flush=True)
            continue
        started = time.monotonic()
        try:
            runs[cache.name] = (cache.version_text(), _results(found, cache, args.entrance))
        except DidNotStart as failure:
            print(f"{cache.name}: {failure}", file=sys.stderr, flush=True)
            continue
        print(f"{cache.name}: {time.monotonic() - started:.0f} s", flush=True)
    if not runs:
        return 1
    made = report.make(found.name, args.entrance, time.strftime("%Y-%m-%d", time.gmtime()), runs)
    name = f"{found.name}-{args.entrance}.json"
    _write(args.json or ROOT / "build" / "conformance" / name, report.dump(made))
    print(f"\n{found.name}, {args.entrance}\n")
    print(report.plain(made.by_kind()), report.plain(made.by_chapter()), sep="\n\n")
    if args.record:
        kept = RESULTS / name
        if kept.is_file():
            made = report.renewed(report.load(kept.read_text(encoding="utf-8")), made)
        _write(kept, report.dump(made))
        if FEEDPROXY.name in runs:
            passed.record(found.name, args.entrance, runs[FEEDPROXY.name][1].passed())
        page.write(RESULTS)
    return 0


def _check(found: suite.Suite, mine: Cache, entrance: str) -> int:
    """Check whether feedproxy fails a test that passed before. Return the exit code.

    Such a test is repeated alone, because a busy machine may only have been late.
    """
    before = passed.read().get(passed.heading(found.name, entrance))
    if before is None:
        raise suite.Missing(f"passed.txt has no entry for {found.name} {entrance}")
    results = _results(found, mine, entrance)
    lost = sorted(before - results.passed())
    for name in sorted(results.passed() - before):
        print(f"passes now: {name} (make conformance CONFORMANCE_ARGS=--record)")
    for _ in range(AGAIN):
        if not lost:
            break
        print("trying again:", *lost)
        results = _results(found, mine, entrance, lost)
        lost = sorted(set(lost) - results.passed())
    for name in lost:
        print(f"LOST: {name}: {results.messages.get(name, 'no such test')}")
    print(f"{len(before) - len(lost)} of {len(before)} tests that passed before do ({found.name}, {entrance})")
    return 1 if lost else 0


def _results(found: suite.Suite, cache: Cache, entrance: str, only: Sequence[str] | None = None) -> outcome.Results:
    with (
        _scratch() as scratch,
        suite.origin_of(found, scratch) as origin,
        cache.running(scratch, origin, entrance) as url,
    ):
        direct = f"http://127.0.0.1:{origin}"
        base, proxy = (url, None) if entrance == REVERSE else (direct, url)
        return outcome.read(suite.run(found, scratch, base=base, proxy=proxy, only=only))


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        # A peer that changes to another user must be able to reach its own folder.
        Path(folder).chmod(0o755)
        yield Path(folder)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
