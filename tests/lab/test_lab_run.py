"""`feedproxy lab run`: a reader's command runs against a plan and is scored."""

import asyncio
import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from feedproxy import cli
from feedproxy.errors import UsageError
from feedproxy.lab.generated_feed import generate_feed
from feedproxy.lab.plan import Plan, read_plan
from feedproxy.lab.record import har_format
from feedproxy.lab.record.exchange import Recording
from feedproxy.lab.record.har_writer import HarWriter
from feedproxy.lab.replay.replay_listener import ReplayListener
from feedproxy.lab.run import run
from tests.lab.exchanges import dump_recording
from tests.live.conftest import needs
from tests.waiting import PATIENCE

CONF = Path(__file__).resolve().parents[2] / "conf"

READER = """
import gzip, http.client, json, pathlib, sys, urllib.parse
url, home, keeps = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3] == "keeps"
state = home / "state.json"
known = json.loads(state.read_text()) if state.exists() and keeps else {}
split = urllib.parse.urlsplit(url)
connection = http.client.HTTPConnection(split.netloc, timeout=20)
fields = {"User-Agent": "Test/1 (+https://example.com/test)", "Accept-Encoding": "gzip", **known}
connection.request("GET", split.path, headers=fields)
answer = connection.getresponse()
answer.read()
if answer.status == 200:
    got = {"If-None-Match": answer.getheader("ETag"), "If-Modified-Since": answer.getheader("Last-Modified")}
    state.write_text(json.dumps({name: value for name, value in got.items() if value}))
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text("days: 0.5\nevery: 2h\npass:\n  grade: 90\n  without: [unconditional-repeat]\n")
    return file


def _run(plan: Path, *arguments: str, options: tuple[str, ...] = ()) -> int:
    return cli.main(["lab", "run", str(plan), *options, "--", sys.executable, "-c", READER, *arguments])


def test_lab_run_of_correct_reader_passes_and_is_recorded(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run(plan, "{url}", "{home}", "keeps", options=("--format", "json", "--record", str(tmp_path / "run.har")))

    (reader,) = json.loads(capsys.readouterr().out)["readers"]
    assert (code, reader["grade"]) == (0, 100)
    recording = har_format.read(tmp_path / "run.har")
    assert [exchange.status for exchange in recording.exchanges] == [200, 304, 200, 304, 200, 304]
    gaps = {recording.exchanges[at + 1].at - recording.exchanges[at].at for at in range(5)}
    assert all(6900 <= gap <= 7500 for gap in gaps), "an hour of the plan is an hour of the clock"
    assert "/lab-" in recording.exchanges[0].request.target


def test_lab_run_of_unconditional_reader_fails_plan(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = _run(plan, "{url}", "{home}", "forgets")

    output = capsys.readouterr()
    assert code == 1
    assert "unconditional-repeat" in output.out
    assert "missed: Test/1 (+https://example.com/test): unconditional-repeat" in output.err


def test_lab_run_junit_has_failure_per_broken_rule(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(plan, "{url}", "{home}", "forgets", options=("--format", "junit"))

    root = ElementTree.fromstring(capsys.readouterr().out.encode())
    broken = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert "ETag and Last-Modified are returned unchanged" in broken


@pytest.mark.parametrize("dashes", [(), ("--",)])
@pytest.mark.parametrize("before", [(), ("--format", "json")])
def test_lab_run_leaves_options_after_the_command_to_the_command(
    plan: Path, tmp_path: Path, before: tuple[str, ...], dashes: tuple[str, ...]
) -> None:
    said = tmp_path / "said"
    script = f"import pathlib, sys; pathlib.Path({str(said)!r}).write_text(' '.join(sys.argv[1:]))"

    cli.main(["lab", "run", str(plan), *before, *dashes, sys.executable, "-c", script, "--once", "--output", "f", "--"])

    assert said.read_text() == "--once --output f --"


def test_lab_run_records_no_secrets_of_the_reader(plan: Path, tmp_path: Path) -> None:
    recorded = tmp_path / "run.har"
    fetch = (
        "import sys, urllib.request as r; "
        "r.urlopen(r.Request(sys.argv[1], headers={'Authorization': 'Basic aHVudGVy', 'Cookie': 'sid=hunter'})).read()"
    )

    cli.main(["lab", "run", str(plan), "--record", str(recorded), "--", sys.executable, "-c", fetch, "{url}"])

    text = recorded.read_text()
    assert "hunter" not in text
    assert "aHVudGVy" not in text
    assert "redacted" in text
    assert recorded.stat().st_mode & 0o777 == 0o600


def test_lab_run_shows_the_address_of_the_feed(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(plan, "{url}", "{home}", "keeps")

    assert re.search(
        r"127\.0\.0\.1: 6 requests.*\n +http://127\.0\.0\.1:\d+/lab-\d+/feed\.xml", capsys.readouterr().out
    )


def test_lab_run_of_silent_reader_fails_plan(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "run", str(plan), "--", "true"]) == 1
    assert "never requested" in capsys.readouterr().err


def test_lab_run_names_missing_command_in_one_line(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "run", str(plan), "--", "no-such-reader", "{url}"]) == 2
    assert capsys.readouterr().err == "feedproxy: no-such-reader: No such file or directory\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("days: 1\ndayz: 2", "2: unknown key dayz; did you mean days?"),
        ("days: soon", "1: days: expected a number from 0.001 to 366"),
        ("days: true", "1: days: expected a number from 0.001 to 366"),
        ("days: -1", "1: days: expected a number from 0.001 to 366"),
        ("days: 1\ndays: 2", "2: duplicate key 'days'"),
        ("days: [1", "1: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("days: 1\n\nevery: 0", "3: every: expected a duration of at least 1 s and at most 366d"),
        ("days: 1\nevery: 2s", "2: every: the command would be started more than 10000 times"),
        ("jitter: -5", "1: jitter: expected a duration of at least 0 s and at most 366d"),
        ("every: 10m\njitter: 11m", "2: jitter: expected at most the value of every, 600 s"),
        ("days: 10\nchange: 60", "2: change: the generated feed would have more than 5000 versions"),
        ("timeout: .inf", "1: timeout: expected a duration of at least 1 s and at most 366d"),
        ("faketime: 1", "1: faketime: expected true or false"),
        ("seed: [1]", "1: seed: expected one value"),
        ("pass: {grade: 101}", "1: grade: expected a whole number from 0 to 100"),
        ("pass:\n  without:\n    - gone-ignored\n    - no-compresion", "4: without no-compresion: unknown finding; "),
        ("fault:\n  - 410@1d\n  - nosuch@1h", "3: fault nosuch: unknown fault; see feedproxy replay --list-faults"),
        ("fault: 500@1x", "1: fault 500@1x: invalid time '1x'"),
        ("add: ttl=soon", "1: add ttl=soon: expected ttl=MINUTES"),
        ("strip: no field", "1: strip no field: expected a field such as ETag"),
        ("at: yesterday", "1: at: invalid time 'yesterday'"),
        ("- a", "1: expected keys such as days, every, fault, pass"),
    ],
)
def test_plan_with_invalid_value_is_rejected_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)

    with pytest.raises(UsageError) as refused:
        read_plan(file)

    assert str(refused.value).startswith(f"{file}:{message}")


def test_plan_that_is_missing_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "run", "/nowhere/plan.yaml", "--", "true"]) == 2
    assert capsys.readouterr().err == "feedproxy: /nowhere/plan.yaml: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("option", ["--record", "--output"])
def test_lab_run_rejects_unwritable_file_before_start(
    plan: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    started, file = tmp_path / "started", "/nowhere/file"

    assert cli.main(["lab", "run", str(plan), option, file, "--", "touch", str(started)]) == 2

    assert capsys.readouterr().err == f"feedproxy: {file}: No such file or directory\n"
    assert not started.exists()


@pytest.mark.parametrize("file", sorted(CONF.glob("plan-*.yaml")), ids=lambda file: file.stem)
def test_plan_examples_are_valid(file: Path) -> None:
    plan = read_plan(file)

    assert generate_feed(plan.days, plan.change).first == plan.start(generate_feed(plan.days, plan.change))
    assert len(sorted(CONF.glob("plan-*.yaml"))) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_command_deletes_its_folder_and_keeps_the_recording(
    plan: Path, tmp_path: Path, number: signal.Signals
) -> None:
    script = (
        "import os, sys, time, urllib.request; urllib.request.urlopen(sys.argv[2]).read();"
        "print(os.getpid(), sys.argv[1], flush=True); time.sleep(3600)"
    )
    reader, recorded = [sys.executable, "-c", script, "{home}", "{url}"], tmp_path / "run.har"
    options = ["--verbose", "--record", str(recorded)]
    command = [sys.executable, "-m", "feedproxy.cli", "lab", "run", str(plan), *options, "--", *reader]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as lab:
        assert lab.stdout is not None
        pid, home = lab.stdout.readline().split()
        lab.send_signal(number)
        output, errors = lab.communicate(timeout=PATIENCE)

    message = f"feedproxy: lab run: interrupted by {number.name} at poll 1; {recorded} has the requests until then\n"
    assert (lab.returncode, output, errors) == (128 + number, "", message)
    assert [exchange.status for exchange in har_format.parse(recorded.read_bytes(), "run.har").exchanges] == [200]
    assert not Path(home).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


@pytest.mark.parametrize(("method", "code"), [("start", 128 + signal.SIGTERM), ("close", 1)])
def test_signal_keeps_the_recording_while_the_listener_starts_or_closes(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, code: int
) -> None:
    original, recorded = getattr(ReplayListener, method), tmp_path / "run.har"

    async def interrupted(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
        await original(*arguments)

    monkeypatch.setattr(ReplayListener, method, interrupted)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)

    assert _run(plan, "{url}", "{home}", "forgets", options=("--record", str(recorded))) == code
    assert bool(har_format.parse(recorded.read_bytes(), "run.har").exchanges) == (method == "close")
    assert not list(tmp_path.glob("feedproxy-lab-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_the_recording_is_written_loses_nothing(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    original, recorded = HarWriter.close, tmp_path / "run.har"

    def interrupted(writer: HarWriter, until: float = 0.0) -> None:
        assert callable(signal.getsignal(number)), "the default action would end the tests"
        os.kill(os.getpid(), number)
        original(writer, until)

    monkeypatch.setattr(HarWriter, "close", interrupted)

    assert _run(plan, "{url}", "{home}", "keeps", options=("--record", str(recorded))) == 0
    assert len(har_format.read(recorded).exchanges) == 6


def test_lab_run_leaves_sigint_ignored(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = ReplayListener.start

    async def interrupted(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.01)
        await original(*arguments)

    monkeypatch.setattr(ReplayListener, "start", interrupted)
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert _run(plan, "{url}", "{home}", "keeps") == 0
    finally:
        signal.signal(signal.SIGINT, former)


def test_signal_kills_the_processes_of_a_command_that_was_already_told_to_end(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("days: 0.5\nevery: 2h\ntimeout: 1\n")
    script = (
        "import os, signal, time; signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True));"
        "print(os.getpid(), flush=True)\nwhile True: time.sleep(60)"
    )
    reader = ["sh", "-c", '"$0" -c "$1" & wait', sys.executable, script]
    command = [sys.executable, "-m", "feedproxy.cli", "lab", "run", str(plan), "--verbose", "--", *reader]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab:
        assert lab.stdout is not None
        pid = int(lab.stdout.readline())
        assert lab.stdout.readline() == "told\n"
        lab.send_signal(signal.SIGTERM)
        lab.wait(timeout=PATIENCE)
        try:
            lab.communicate(timeout=5)  # until the last process closes its standard output
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_score_command_writes_every_format(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = tmp_path / "run.har"
    _run(plan, "{url}", "{home}", "keeps", options=("--record", str(recorded)))
    capsys.readouterr()

    for form, sign in (("text", "100 of 100"), ("json", '"grade": 100'), ("junit", "<testsuites"), ("html", "<svg")):
        assert cli.main(["score", str(recorded), "--format", form]) == 0
        assert sign in capsys.readouterr().out
    assert cli.main(["score", str(recorded), "--min", "100", "--output", str(tmp_path / "out")]) == 0
    assert "100 of 100" in (tmp_path / "out").read_text()


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--min", "1"), 1), (("--format", "json", "--min", "1"), 1)])
def test_score_of_recording_without_reader_misses_every_minimum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: int
) -> None:
    file = tmp_path / "week.har"
    file.write_bytes(dump_recording(Recording(())))

    assert cli.main(["score", str(file), *options]) == code

    assert "no reader requested a feed" in capsys.readouterr().err


# -- continuous readers

LASTING = """
import http.client, sys, time, urllib.parse
url, polls, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
split = urllib.parse.urlsplit(url)
known = {}
for poll in range(polls):
    time.sleep(pause if poll else 0)
    connection = http.client.HTTPConnection(split.netloc)
    fields = {"User-Agent": "Lasting/1 (+https://example.com/lasting)", "Accept-Encoding": "gzip", **known}
    connection.request("GET", split.path, headers=fields)
    answer = connection.getresponse()
    answer.read()
    if answer.status == 200:
        known = {"If-None-Match": answer.getheader("ETag"), "If-Modified-Since": answer.getheader("Last-Modified")}
"""


def _last(file: Path, *arguments: str, options: tuple[str, ...] = ()) -> int:
    return cli.main(["lab", "run", str(file), *options, "--", sys.executable, "-c", LASTING, "{url}", *arguments])


def test_lab_run_of_continuous_reader_speeds_up_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, recorded = tmp_path / "plan.yaml", tmp_path / "run.har"
    # It ends by itself, so that it does not matter how busy the machine is: the plan's time would be a minute.
    plan.write_text("days: 60\nspeed: 86400\nchange: 1h\n")

    code = _last(plan, "4", "0.05", options=("--format", "json", "--record", str(recorded)))

    (reader,) = json.loads(capsys.readouterr().out)["readers"]
    found = har_format.read(recorded)
    assert (code, reader["cost"]["requests"]) == (0, 4)
    gaps = [after.at - before.at for before, after in zip(found.exchanges, found.exchanges[1:], strict=False)]
    assert all(gap >= 0.05 * 86_400 for gap in gaps), "a twentieth of a second is more than an hour there"
    assert {finding["id"] for finding in reader["findings"] if finding["level"] in ("warn", "bad")} <= {
        "polled-on-the-hour"
    }
    assert found.until >= found.exchanges[-1].at


def test_lab_run_ends_continuous_reader_at_end_of_plan(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    plan = Plan(days=1, speed=43_200)

    done = asyncio.run(
        run(plan, generate_feed(plan.days, plan.change), ["sh", "-c", f"echo $$ > {pid}; exec sleep 600"])
    )

    assert (done.starts, done.failed) == (1, 0), "to be ended is no failure of one that is meant to last"
    if pid.exists():  # it may have been ended before it came to that
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


LOCKING = (
    "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, 2); print(flush=True); time.sleep(600)"
)
LEAVING = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {LOCKING!r}, sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
"""


def test_lab_run_ends_processes_that_the_reader_leaves_behind(tmp_path: Path) -> None:
    lock, plan = tmp_path / "lock", Plan(days=0.04, every=3600)

    done = asyncio.run(run(plan, generate_feed(plan.days, plan.change), [sys.executable, "-c", LEAVING, str(lock)]))

    assert (done.starts, done.failed) == (1, 0)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_lab_run_ignores_processes_that_it_may_not_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    plan = Plan(days=0.04, every=3600)

    done = asyncio.run(run(plan, generate_feed(plan.days, plan.change), ["true"]))

    assert (done.starts, done.failed) == (1, 0)


@needs("faketime")
def test_lab_run_with_faketime_sets_clock_of_reader(tmp_path: Path) -> None:
    plan, recorded = tmp_path / "plan.yaml", tmp_path / "run.har"
    plan.write_text("days: 60\nspeed: 3600\nfaketime: true\n")

    # It sleeps for an hour by its own clock between its polls, which is a second of the machine's.
    code = _last(plan, "3", "3600", options=("--record", str(recorded)))

    exchanges = har_format.read(recorded).exchanges
    assert code == 0
    assert len(exchanges) == 3
    assert exchanges[2].at - exchanges[0].at >= 2 * 3500
