"""The command line reports errors in one line and exits with 2."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from feedproxy import __version__
from feedproxy.cli import main
from feedproxy.commands import addons
from feedproxy.lab.record.exchange import Recording
from tests.lab.exchanges import an_exchange, dump_recording


def _exit_code(argv: list[str]) -> int:
    try:
        return main(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["serve", "--lisen", "x"], "did you mean --listen?"),
        (["serve", "--list", "127.0.0.1:0"], "unrecognized arguments: --list"),
        (["serv"], "unknown command 'serv' (did you mean serve?)"),
        (["run"], "unknown command 'run' (did you mean serve?)"),
        (["status", "--json"], "did you mean --format json?"),
        (["zzz"], "unknown command 'zzz'; see feedproxy --help"),
        (["refresh", "foo"], "invalid URL 'foo': expected http:// or https:// at its beginning"),
        (["check", "nowhere.xml"], "nowhere.xml: No such file or directory"),
        (["discover", "nowhere.xml"], "nowhere.xml: No such file or directory"),
        (["check", ""], "expected a file or a URL, not an empty text"),
        (["convert", "", "--to", "rss"], "expected a file or a URL, not an empty text"),
        (["serve", "--set", "feed_hint=off"], "feed_hints"),
        (["serve", "--listen", "nowhere"], "listen: nowhere"),
    ],
)
def test_usage_error_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    code = _exit_code(argv)

    told = capsys.readouterr().err
    assert code == 2
    assert words in told
    assert told.count("\n") == 1
    assert told.startswith("feedproxy: ")


@pytest.mark.parametrize("option", ["upstream", "ping_sinks", "purge_sinks", "public_url", "contact_url"])
@pytest.mark.parametrize(
    "value",
    [
        "http://u:hunter2@o.example/",
        "ftp://u:hunter2@o.example/",
        "u:hunter2@o.example",
        "http://u:hunter2 x@o.example",
        "http://u:hunter2/x@o.example",
        "http://u:hunter2:b/x@o.example",
    ],
)
def test_error_about_an_option_does_not_show_a_password(
    capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    assert main(["serve", "--check", "--set", f"{option}={value}"]) == 2

    told = capsys.readouterr().err
    assert option in told
    assert "hunter2" not in told


def test_missing_command_prints_the_list_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    assert "serve" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["help"], ["help", "serve"]])
def test_help_is_a_command(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(argv)

    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(" ".join(["usage: feedproxy", *argv[1:]]))


@pytest.mark.parametrize("flag", ["--version", "-V", "version"])
def test_each_spelling_of_the_flag_prints_the_version(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr().out == f"feedproxy {__version__}\n"


def test_misspelt_option_gets_a_suggestion_of_its_own_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["score", "--fromat", "json", "week.har"])

    assert "did you mean --format?" in capsys.readouterr().err


def test_output_escapes_characters_that_the_encoding_of_the_terminal_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", terminal)

    assert main(["replay", "--list-faults"]) == 0

    terminal.seek(0)
    assert "\\u2026" in terminal.read()


def test_interrupted_command_says_so_and_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(addons, "run", interrupted)

    assert main(["addons"]) == 130
    assert capsys.readouterr().err == "feedproxy: interrupted\n"


@pytest.mark.parametrize(
    "argv",
    [
        ["check", "no\nfile\x1b[31m\u202e\udcff.xml"],
        ["score", "no\nfile\x1b[31m\u202e\udcff.har"],
        ["serve", "--no\nflag\x1b[31m\u202e\udcff"],
        ["replay", ".", "--add", "no\nhint\x1b[31m\u202e\udcff"],
    ],
)
def test_error_escapes_control_characters_of_arguments(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    code = _exit_code(argv)

    told = capsys.readouterr().err
    assert code == 2
    assert told.removesuffix("\n").isprintable()


def _run_program(*argv: str, stdout: int | IO[bytes], **environment: str) -> subprocess.CompletedProcess[bytes]:
    program = [sys.executable, "-m", "feedproxy.cli", *argv]
    # Without PYTHONUNBUFFERED, Python writes short output only at the end.
    environment = {**os.environ, "PYTHONUNBUFFERED": "", **environment}
    return subprocess.run(program, stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False, timeout=60)


@pytest.mark.parametrize("argv", [["version"], ["serve", "--help"], ["options"]])
def test_output_into_a_closed_pipe_ends_with_exit_code_1(argv: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = _run_program(*argv, stdout=writing)
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
@pytest.mark.parametrize("argv", [["version"], ["options"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_a_full_disk_is_reported_in_one_line(argv: list[str], unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = _run_program(*argv, stdout=full, PYTHONUNBUFFERED=unbuffered)

    assert done.returncode == 1
    assert done.stderr == b"feedproxy: cannot write the output: No space left on device\n"


def _printed(argv: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, bytes]:
    """Return the exit code and the output of a command whose standard output Python opened with this PYTHONIOENCODING.

    A process of its own would import the command for half a second.
    """
    name, _, errors = encoding.partition(":")
    output = io.BytesIO()
    stream = io.TextIOWrapper(output, name, errors or "strict")
    with monkeypatch.context() as changed:
        changed.setattr(sys, "stdout", stream)
        code = main(argv)
    return code, output.getvalue()


_TITLE = "Zürich \U0001f4f0"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8:strict"])
def test_json_and_html_are_utf_8_in_every_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    entry = {
        "startedDateTime": "2026-01-07T07:00:00Z",
        "request": {
            "method": "GET",
            "url": "https://example.com/feed.xml",
            "headers": [{"name": "User-Agent", "value": _TITLE}],
        },
        "response": {
            "status": 200,
            "headers": [{"name": "Content-Type", "value": "application/rss+xml"}],
            "content": {"text": "<rss version='2.0'><channel><title>News</title></channel></rss>"},
        },
    }
    recording = tmp_path / "week.har"
    recording.write_text(json.dumps({"log": {"entries": [entry]}}))
    printed = {
        form: _printed(["score", str(recording), "--format", form], encoding, monkeypatch)[1].decode()
        for form in ("json", "html", "junit")
    }

    assert json.loads(printed["json"])["readers"][0]["user_agent"] == _TITLE
    assert _TITLE in printed["html"]
    assert _TITLE in printed["junit"]


@pytest.mark.parametrize("form", ["text", "json", "html", "junit"])
def test_score_escapes_control_characters_of_a_user_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    agent = "python-requests/2 \x1b[31m\u009b31m\u202e"
    recording = tmp_path / "week.har"
    exchange = an_exchange(
        asked=[("User-Agent", agent)], answered=[("Content-Type", "application/rss+xml")], digest="a feed", size=9
    )
    recording.write_bytes(dump_recording(Recording((exchange,), {"a feed": b"<rss version='2.0'><channel/></rss>"})))

    assert main(["score", str(recording), "--format", form]) == 0

    printed = capsys.readouterr().out
    assert not set("\x1b\u009b\u202e") & set(printed)
    if form == "json":
        assert json.loads(printed)["readers"][0]["user_agent"] == agent


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_check_escapes_control_characters_of_a_feed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    feed = tmp_path / "feed.xml"
    feed.write_text(
        "<rss version='2.0'><channel><title>A</title><item><guid>\u009b2J is no address</guid></item></channel></rss>",
        "utf-8",
    )

    main(["check", str(feed), "--format", form])

    assert "\u009b" not in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_file_name_that_is_not_utf_8_is_escaped_in_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    feed = os.fsencode(tmp_path) + b"/\xff.xml"
    try:
        with open(feed, "w") as file:
            file.write("<rss version='2.0'><channel><title>News</title></channel></rss>")
    except OSError:
        pytest.skip("the file system takes only names in UTF-8")

    code, printed = _printed(["check", os.fsdecode(feed), "--format", form], "utf-8:strict", monkeypatch)

    assert (code, capsys.readouterr().err) == (1, "")
    assert b".xml" in printed
