"""The lines of the access log, and the secrets that they must not contain."""

import io
import json
import logging
import re
import sys

import pytest

from feedproxy.http.target_uri.url_redaction import without_secrets
from feedproxy.settings import Settings
from feedproxy.telemetry import log_setup
from feedproxy.telemetry.access_log_format import AccessLine
from feedproxy.telemetry.log_stream import LineHandler


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("/http://name:word@example.com/feed", "/http://example.com/feed"),
        ("/https:/name:word@example.com/feed", "/https:/example.com/feed"),
        ("/?url=https%3A%2F%2Fname%3Aword%40example.com%2F", "/?url=https%3A%2F%2Fexample.com%2F"),
        ("https://example.com/feed?token=1&a=2", "https://example.com/feed?token=…&a=2"),
    ],
)
def test_names_passwords_and_tokens_are_removed_from_refused_requests(asked: str, shown: str) -> None:
    assert without_secrets(asked) == shown


@pytest.mark.parametrize("asked", ["/https://example.com/@user.rss", "https://example.com/?q=a@example.org"])
def test_at_sign_without_user_information_is_kept(asked: str) -> None:
    assert without_secrets(asked) == asked


def test_json_line_has_the_public_and_the_upstream_address() -> None:
    line = AccessLine(
        0, "", "reverse", "GET", "https://feeds.example/a", 200, 0, "", 0, "", "", "http://127.0.0.1:8000/a?key=b"
    )

    assert json.loads(line.as_json())["target"] == "https://feeds.example/a"
    assert json.loads(line.as_json())["upstream"] == "http://127.0.0.1:8000/a?key=…"
    assert "https://feeds.example/a" in line.as_text()


MOVED = "the document says that the feed has moved to https://name:word@example.com/feed?token=abc"
BROKEN = "no address: http://[word"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("reason", [MOVED, BROKEN])
def test_address_in_a_reason_is_shown_without_its_secrets(form: str, reason: str) -> None:
    line = AccessLine(0, "", "gateway", "GET", "https://example.com/feed", 301, 0, "", 0, "", reason).format(form)

    assert "abc" not in line
    assert "word" not in line
    assert reason.split("http", maxsplit=1)[0] in line


@pytest.mark.parametrize("form", ["text", "json", "combined"])
def test_address_in_a_line_of_another_logger_is_shown_without_its_secrets(form: str) -> None:
    written = io.StringIO()
    handler = LineHandler(written)
    handler.set_form(form)
    try:
        raise ValueError(MOVED)
    except ValueError:
        record = logging.LogRecord("other", logging.WARNING, "", 0, "no delta of %s", (MOVED,), sys.exc_info())
    handler.handle(record)
    handler.flush()

    assert "no delta of" in written.getvalue()
    assert "abc" not in written.getvalue()
    assert "word" not in written.getvalue()


def test_combined_lines_are_readable_by_log_analysers_and_contain_no_secret() -> None:
    form = re.compile(
        r"(\S+) - - \[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d \+0000)\] "
        r'"((?:[^"\\]|\\.)*)" (\d+) (\d+) "-" "((?:[^"\\]|\\.)*)"'
    )
    line = AccessLine(
        0, "8000", "gateway", "GET", 'https://e.example/"?token=x', 200, 7, "hit", 0.1, 'a "b" \\ \x1b', "why"
    )

    found = form.fullmatch(line.format("combined"))

    assert found is not None
    assert found.groups() == (
        "8000",
        "01/Jan/1970:00:00:00 +0000",
        'GET https://e.example/\\"?token=… HTTP/1.1',
        "200",
        "7",
        'a \\"b\\" \\\\ \\u001b',
    )


def test_combined_lines_have_no_prefix_and_other_lines_have_one() -> None:
    stream = io.StringIO()
    handler = LineHandler(stream)
    handler.set_form("combined")
    handler.write_all("feedproxy.access", ["one", "two"])
    handler.emit(logging.LogRecord("feedproxy.access", logging.INFO, "", 0, "%s", ("three",), None))
    handler.emit(logging.LogRecord("feedproxy", logging.INFO, "", 0, "other", (), None))
    lines = stream.getvalue().splitlines()
    assert lines[:3] == ["one", "two", "three"]
    assert re.fullmatch(r"\d{4}-\S+ \[info\] other", lines[3])


@pytest.mark.parametrize("form", ["text", "combined"])
def test_lines_of_two_loggers_in_one_second_have_their_own_prefixes(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.0)
    stream = io.StringIO()
    handler = LineHandler(stream)
    handler.set_form(form)

    handler.write_all("feedproxy.telemetry.recent_activity", ["fetch"])
    handler.write_all("feedproxy.access", ["request"])

    assert [" [info] " in f" {line}" for line in stream.getvalue().splitlines()] == [True, False]


@pytest.mark.parametrize("form", ["text", "combined"])
@pytest.mark.parametrize(("level", "said"), [(logging.INFO, "info"), (logging.WARNING, "warning")])
def test_line_that_describes_no_request_begins_with_its_level(form: str, level: int, said: str) -> None:
    stream = io.StringIO()
    handler = LineHandler(stream)
    handler.set_form(form)
    handler.emit(logging.LogRecord("feedproxy.pings", level, "", 0, "a word", (), None))
    assert re.fullmatch(rf"\d{{4}}-\S+ \[{said}\] a word\n", stream.getvalue())


def test_lines_written_together_begin_with_the_time_only() -> None:
    stream = io.StringIO()
    handler = LineHandler(stream)
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    log_setup.log_to(stream)
    added = [each for each in root.handlers if each not in before]
    try:
        handler.setFormatter(added[0].formatter)
        handler.write_all("feedproxy.access", ["one", "two"])
    finally:
        for each in added:
            root.removeHandler(each)
        root.setLevel(level)
    assert [re.fullmatch(r"\S+ (one|two)", line) is not None for line in stream.getvalue().splitlines()] == [True, True]


def test_held_lines_have_the_form_and_level_that_are_set_meanwhile() -> None:
    stream = io.StringIO()
    root, product = logging.getLogger(), logging.getLogger("feedproxy")
    before, levels = list(root.handlers), (root.level, product.level)
    log_setup.log_to(stream)
    try:
        with log_setup.hold_lines():
            product.warning("early")
            product.info("below the level")
            log_setup.set_log(Settings(log_format="json", log_level="warning"))
            assert not stream.getvalue()
    finally:
        root.handlers[:] = before
        root.setLevel(levels[0])
        product.setLevel(levels[1])
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == "early"


def test_warning_of_mitmproxy_about_an_expired_authority_is_not_logged() -> None:
    stream = io.StringIO()
    root, tls = logging.getLogger(), logging.getLogger("mitmproxy.addons.tlsconfig")
    before, level = list(root.handlers), root.level
    log_setup.log_to(stream)
    try:
        tls.warning("The mitmproxy certificate authority has expired!\nPlease delete all files in ~/.mitmproxy.")
        tls.warning("another warning")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert re.fullmatch(r"\S+ \[warning\] another warning\n", stream.getvalue())
