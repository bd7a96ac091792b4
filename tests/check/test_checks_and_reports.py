"""Checks of whole feeds: every Note is tested, hostile documents, the three report forms, and the command."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from feedproxy import cli
from feedproxy.check import check_report
from feedproxy.check.observations import FeedObservations, ProbeExchange
from feedproxy.check.probe import REQUESTS_MAX
from feedproxy.check.run_checks import CHECKS, check_document, check_feed
from feedproxy.commands.check import check
from feedproxy.http.message import Fields
from feedproxy.notes import Level, notes_of
from feedproxy.settings import Settings
from tests.check import test_document_notes as documents
from tests.check import test_response_notes as answers
from tests.check.publisher import feed, publishing
from tests.upstream.raw import origin, play

LARGE = 100_000
"""Bytes of an answer; larger ones take seconds and are checked as documents only."""
DECODED_LARGE = "many-items.http"
"""An answer in gzip whose content takes seconds, too. tests/feed/test_corpus.py reads it."""
NOW = 1_795_176_000.0
TESTED_ALONE = {
    *("permanent-redirect", "temporary-redirect", "redirect-chain", "redirect-failed", "fetch-failed"),
    *(
        "lifetime-above-change-interval",
        "tls-failed",
        "certificate-expires-soon",
        "http-only",
        "no-redirect-to-https",
        "tls-old",
    ),
    *("response-slow", "redirect-to-http", "self-link-not-requested"),
}
"""Notes with test functions of their own."""


def test_check_cases_cover_every_finding() -> None:
    kinds = [kind for module in CHECKS for kind in notes_of(module) if kind.level is not Level.GOOD]
    tested = {*answers.CASES, *answers.DOCUMENTS, *documents.CASES, *TESTED_ALONE}
    assert {kind.id() for kind in kinds} == tested
    assert len({kind.id() for kind in kinds}) == len(kinds)


def test_check_of_corpus_finds_ill_formed_feeds(corpus: Path) -> None:
    for record in json.loads((corpus / "feeds.json").read_text()):
        found = {note.id() for note in check_document((corpus / record["file"]).read_bytes(), NOW)}
        assert found, record["file"]
        if not found & {"not-a-feed", "html-instead-of-feed"}:
            assert ("well-formed" in found) == record["well_formed"], record["file"]


def test_check_of_hostile_document_yields_notes(corpus: Path) -> None:
    for record in json.loads((corpus / "hostile.json").read_text()):
        for name in record.get("responses", ()):
            raw = (corpus / name).read_bytes()
            head, _, body = raw.partition(b"\r\n\r\n")
            lines = [line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:]]
            fields = Fields((key, value.strip()) for key, colon, value in lines if key and colon)
            target = "https://x.example/feed"
            exchange = ProbeExchange(target, 200, fields, body=body, content=body, at=NOW)
            observations = FeedObservations(target, (exchange,))
            assert check_feed(observations), record["id"]
            assert check_document(body, NOW), record["id"]


async def test_check_of_hostile_origin_yields_notes(corpus: Path) -> None:
    for record in json.loads((corpus / "hostile.json").read_text()):
        for name in record.get("responses", ()):
            raw = (corpus / name).read_bytes()
            if len(raw) > LARGE or name.endswith(DECODED_LARGE):
                continue
            async with origin(play(raw, then="close")) as answering:
                done = await check(answering.url(), Settings(allow_private=True), pause=0)
            assert done.notes, record["id"]
            assert done.requests <= REQUESTS_MAX, record["id"]


# -- reports


class Page(HTMLParser):
    """The tags, links and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def make_report(**changes: str) -> check_report.CheckReport:
    body = feed(NOW, **changes).replace("BASE", "https://x.example").encode()
    return check_report.CheckReport("feed.xml", NOW, check_document(body, NOW))


def test_check_json_has_stable_keys_and_worst_note_first() -> None:
    told = json.loads(check_report.as_json(make_report(self_link="", entries="")))
    assert list(told) == ["source", "checked_at", "requests", "verdict", "counts", "notes"]
    assert told["verdict"] == "warn"
    assert told["counts"] == {"good": 2, "info": 1, "warn": 1, "bad": 0}
    assert [note["level"] for note in told["notes"]] == ["warn", "info", "good", "good"]
    assert set(told["notes"][0]) == {"id", "level", "category", "subject", "summary", "advice", "reference"}


def test_check_text_is_coloured_only_on_request() -> None:
    plain = check_report.as_text(make_report(self_link=""))
    assert "\033" not in plain
    assert "! The feed has no self link." in plain
    assert "✓ Each entry has a unique guid." in plain
    assert "\033[" in check_report.as_text(make_report(self_link=""), coloured=True)


def test_check_html_is_self_contained_without_scripts() -> None:
    entries = "<item><title>E</title><guid>&lt;script&gt;x()&lt;/script&gt;</guid></item>"
    page = Page(check_report.as_html(make_report(entries=entries)))
    assert "script" not in page.tags
    assert page.loads == []
    assert "<script>x()</script>" in page.text


def test_check_reports_redact_token_in_address() -> None:
    secret = "https://x.example/feed?token=s3cr3tw0rd"
    observations = FeedObservations(secret, (ProbeExchange(secret, 500, at=NOW),))
    done = check_report.CheckReport(secret, NOW, check_feed(observations), 1)
    for told in (check_report.as_text(done), check_report.as_json(done), check_report.as_html(done)):
        assert "s3cr3tw0rd" not in told
        assert "x.example/feed" in told


def test_check_text_removes_control_characters() -> None:
    body = feed(NOW, entries="<item><title>E</title><guid>\u009b2J is no address</guid></item>").encode()
    told = check_report.as_text(check_report.CheckReport("feed.xml", NOW, check_document(body, NOW)))
    assert "\u009b" not in told


# -- the command


@pytest.mark.parametrize(("changes", "code"), [({}, 0), ({"entries": ""}, 0), ({"self_link": ""}, 1)])
def test_check_command_exits_1_on_warnings_only(
    changes: dict[str, str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "feed.xml"
    path.write_text(feed(NOW - 400 * 86_400, **changes).replace("BASE", "https://x.example"))
    assert cli.main(["check", str(path)]) == code
    assert "feed.xml" in capsys.readouterr().out


def test_check_command_rejects_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "127.0.0.1:8000/feed.xml"]) == 2
    assert capsys.readouterr().err == (
        "feedproxy: 127.0.0.1:8000/feed.xml: No such file or directory; a URL begins with http:// or https://\n"
    )


@pytest.mark.parametrize("words", [["check"], ["discover"], ["convert", "--to", "json"], ["subscribe"]])
def test_command_names_option_for_private_address(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words, "http://127.0.0.1:8080/feed"]) == 1
    assert "(--allow-private permits it)" in capsys.readouterr().err


async def test_check_command_accepts_address() -> None:
    async with publishing() as publisher:
        done = await check(publisher.address, Settings(allow_private=True), pause=0)
        assert not done.has_findings
        assert done.requests == len(publisher.requests)
