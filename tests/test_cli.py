"""The command line reports errors in one line and exits with 2."""

import io
import sys

import pytest

from feedproxy import __version__
from feedproxy.cli import main
from feedproxy.commands import addons


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
    try:
        code = main(argv)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1

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
def test_version_has_three_spellings(capsys: pytest.CaptureFixture[str], flag: str) -> None:
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
