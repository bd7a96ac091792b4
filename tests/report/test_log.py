"""What the line of a request shows, and what it must not."""

import io
import json
import logging
import re

import pytest

from feedproxy import serve
from feedproxy.http.discretion import without_secrets
from feedproxy.report.log import Line, LineHandler


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("/http://name:word@example.com/feed", "/http://example.com/feed"),
        ("/https:/name:word@example.com/feed", "/https:/example.com/feed"),
        ("/?url=https%3A%2F%2Fname%3Aword%40example.com%2F", "/?url=https%3A%2F%2Fexample.com%2F"),
        ("https://example.com/feed?token=1&a=2", "https://example.com/feed?token=…&a=2"),
    ],
)
def test_names_passwords_and_tokens_are_left_out_of_refused_requests_too(asked: str, shown: str) -> None:
    assert without_secrets(asked) == shown


@pytest.mark.parametrize("asked", ["/https://example.com/@user.rss", "https://example.com/?q=a@example.org"])
def test_an_at_sign_that_names_nobody_stays(asked: str) -> None:
    assert without_secrets(asked) == asked


def test_where_readers_know_another_address_than_we_ask_both_are_told_to_programs() -> None:
    line = Line(
        0, "", "reverse", "GET", "https://feeds.example/a", 200, 0, "", 0, "", "", "http://127.0.0.1:8000/a?key=b"
    )

    assert json.loads(line.as_json())["target"] == "https://feeds.example/a"
    assert json.loads(line.as_json())["upstream"] == "http://127.0.0.1:8000/a?key=…"
    assert "https://feeds.example/a" in line.as_text()


def test_lines_written_together_have_the_time_before_them_and_nothing_else() -> None:
    stream = io.StringIO()
    handler = LineHandler(stream)
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    serve.log_to(stream)
    added = [each for each in root.handlers if each not in before]
    try:
        handler.setFormatter(added[0].formatter)
        handler.write_all("feedproxy.access", ["one", "two"])
    finally:
        for each in added:
            root.removeHandler(each)
        root.setLevel(level)
    assert [re.fullmatch(r"\S+ (one|two)", line) is not None for line in stream.getvalue().splitlines()] == [True, True]
