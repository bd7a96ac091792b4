"""A short run of the benchmark: it measures correct responses."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.live.conftest import needs

ROOT = Path(__file__).resolve().parents[2]


@needs("wrk", "openssl")
def test_benchmark_measures_correct_responses_and_leaves_no_process(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    rows = ["304-keep", "12k-keep", "unlike", "miss"]
    command = [sys.executable, "-m", "benchmarks", "--parts", "hits", "--rows", *rows, "--peers", "nginx"]
    command += ["--rounds", "1", "--seconds", "1", "--json", str(out)]

    # A run of hits ends after a twentieth of its second then. For the rest of it, both processors would be busy.
    few = {**os.environ, "BENCH_RESPONSES": "2000"}
    done = subprocess.run(command, cwd=ROOT, env=few, capture_output=True, text=True, timeout=330, check=False)

    assert done.returncode == 0, done.stderr
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    assert [run for run in runs if run["fault"]] == []
    assert {run["row"] for run in runs if run["server"] == "feedproxy"} == set(rows)
    assert all(run["us"] > 0 and run["rate"] > 0 for run in runs)
    assert "| 304 keep-alive |" in done.stdout


def test_small_million_is_simulated_and_every_poll_is_answered(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.million", "--feeds", "400", "--seconds", "1", "--polls", "1"]
    command += ["--folder", str(tmp_path / "million")]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=330, check=False)

    assert done.returncode == 0, done.stderr
    assert "| 400 feeds: start to first hit |" in done.stdout
    assert "| … not answered with 200 | 0 polls |" in done.stdout


def test_scheduled_refreshes_answered_with_304_are_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.revalidations", "--feeds", "20", "--rounds", "1"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=330, check=False)

    assert done.returncode == 0, done.stderr
    assert "answered with 304" in done.stdout
