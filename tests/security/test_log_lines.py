"""Each log entry is one line, and contains no control characters for the terminal or program that shows it."""

import io
import json
import logging
import sys

import pytest

from feedproxy.telemetry.access_log_format import AccessLine
from feedproxy.telemetry.log_format import JsonLines, LineFormatter, printable
from feedproxy.upstream.response_head_parser import parse_head
from feedproxy.upstream.upstream_errors import MalformedResponse
from tests.security.conftest import bases
from tests.security.wire import exchange, status_of
from tests.stages.front import OnFront

CONTROLS = [
    *range(32),
    *range(0x7F, 0xA0),
    0x61C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    0xFEFF,
]
PLACES = ["method", "target", "agent", "reason", "upstream", "reader", "cache"]


def a_line(place: str, text: str) -> AccessLine:
    values = dict.fromkeys(PLACES, "x") | {place: f"a{text}b"}
    return AccessLine(0.0, status=400, size=0, seconds=0.1, entrance="gateway", **values)


@pytest.mark.parametrize("place", PLACES)
def test_control_characters_are_escaped_in_every_member_of_a_line(place: str) -> None:
    for code in CONTROLS:
        line = a_line(place, chr(code))
        text, said = line.as_text(), line.as_json()
        assert chr(code) not in text
        assert chr(code) not in said
        if place not in ("target", "upstream"):  # searched for spellings of secrets
            assert any(f"a{chr(code)}b" == each for each in json.loads(said).values()), "JSON gives it back"


@pytest.mark.parametrize("text", ["Leser/1.0 (naïve; 日本語; 🎉)", "non-breaking\u00a0space", "C:\\path", ""])
def test_characters_that_are_no_control_characters_stay_unchanged(text: str) -> None:
    assert printable(text) == text


def logged(formatter: logging.Formatter, message: str, error: Exception | None = None) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    info = None
    if error is not None:
        try:
            raise error
        except type(error):
            info = sys.exc_info()
    handler.emit(logging.LogRecord("mitmproxy", logging.ERROR, "", 0, "%s", (message,), info))
    return stream.getvalue()


def test_entry_of_another_logger_is_one_line() -> None:
    said = logged(LineFormatter("%(message)s"), "client says \x1b]0;x\x07\r\n2026 forged line\x85\u2028")
    assert said == "[error] client says \\u001b]0;x\\u0007\\u000d\\u000a2026 forged line\\u0085\\u2028\n"


def test_text_of_an_exception_creates_no_line() -> None:
    said = logged(LineFormatter("%(message)s"), "it failed", ValueError("x\n2026 forged\x1b[31m"))
    first, *rest = said.splitlines()
    assert first == "[error] it failed"
    assert all(line.startswith("  ") for line in rest)
    assert "\x1b" not in said


def test_entry_of_another_logger_is_escaped_in_json() -> None:
    said = logged(JsonLines(), "a\x1b\x85\u2028b", ValueError("x\ny"))
    assert printable(said.rstrip("\n")) == said.rstrip("\n")
    assert json.loads(said)["message"].startswith("a\x1b\x85\u2028b\nTraceback")


@pytest.mark.parametrize("form", ["text", "json", "combined"])
def test_members_of_a_line_contain_no_secret_of_an_address(form: str) -> None:
    for place in ("target", "agent", "reason", "upstream"):
        line = a_line(place, " https://example.com/feed?token=sesame https://example.com/?u=x%3Fkey%3Dsesame ")
        assert "sesame" not in line.format(form), place


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization : Bearer sesame",
        b"GET / HTTP/1.1\r\nHost: a\r\nCookie sesame",
        b"GET / HTTP/1.1\r\nHost: a\r\nCookie: a=sesame\x01",
        b"CONNECT user:sesame@example.com:443 HTTP/1.1\r\nHost: a",
        b"GET http://user:sesame@example.com/ HTTP/1.1\r\nHost: a",
        b"GET http://example.com:x/?token=sesame HTTP/1.1\r\nHost: a",
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_refused_request_is_logged_without_its_secret(
    stage: OnFront, caplog: pytest.LogCaptureFixture, line: bytes
) -> None:
    caplog.set_level(logging.INFO)

    for base in bases(stage).values():
        assert status_of(await exchange(base, line + b"\r\n\r\n")) == 400

    assert "answered 400" in caplog.text
    assert "sesame" not in caplog.text


@pytest.mark.parametrize("line", [b"Set-Cookie sesame", b"Set-Cookie=a=sesame", b"X-\x80: sesame"])
def test_invalid_response_is_described_without_its_secret(line: bytes) -> None:
    with pytest.raises(MalformedResponse) as refused:
        parse_head(b"HTTP/1.1 200 OK\r\nX-A: b\r\n%b\r\n\r\n" % line)

    assert str(refused.value) == "invalid field line 2: expected a name, a colon and a value"
