"""The command `feedproxy convert`."""

import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from feedproxy.cli import main
from feedproxy.commands import convert
from feedproxy.feed.convert.read import from_document
from tests.stages.origin import a_feed

DOCUMENTS = {
    "/feed": a_feed("one"),
    "/xml": b"<redirect><newLocation>/feed</newLocation></redirect>",
    "/xml-to-301": b"<redirect><newLocation>/moved</newLocation></redirect>",
    "/gone": b"<redirect><newLocation/></redirect>",
    "/circle": b"<redirect><newLocation>/circle</newLocation></redirect>",
}


@pytest.fixture
def feed_file(tmp_path: Path) -> Path:
    path = tmp_path / "feed.xml"
    path.write_bytes(a_feed("one"))
    return path


@pytest.fixture
def server() -> Iterator[str]:
    """Run an origin on loopback: /feed is a feed, /moved redirects to it, and /page is no feed."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(301)
                self.send_header("Location", "/feed")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = DOCUMENTS.get(self.path, b"<!doctype html><p>no")
            self.send_response(200 if self.path in (*DOCUMENTS, "/page") else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


def test_file_is_converted_to_another_format(feed_file: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["convert", str(feed_file), "--to", "json"]) == 0

    assert json.loads(capsysbinary.readouterr().out)["items"][0]["title"] == "one"


def test_dash_means_standard_input(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(a_feed("one"))))

    assert main(["convert", "-", "--to", "atom", "--base", "https://example.com/feed"]) == 0

    assert b'rel="self" href="https://example.com/feed"' in capsysbinary.readouterr().out


@pytest.mark.parametrize("path", ["/feed", "/moved"])
def test_convert_fetches_an_address(server: str, path: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["convert", server + path, "--to", "json", "--allow-private"]) == 0

    assert json.loads(capsysbinary.readouterr().out)["feed_url"] == server + path


def test_private_address_is_not_fetched_by_default(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", f"{server}/feed", "--to", "rss"]) == 1

    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("path", "words"), [("/page", "is not a feed"), ("/nowhere", "answers 404")])
def test_document_that_is_no_feed_is_reported_in_one_line(
    server: str, path: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", server + path, "--to", "rss", "--allow-private"]) == 1

    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


def test_missing_file_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "nowhere.xml", "--to", "rss"]) == 2

    assert capsys.readouterr().err == "feedproxy: nowhere.xml: No such file or directory\n"


def test_unknown_format_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["convert", "feed.xml", "--to", "storable"])

    assert ended.value.code == 2
    assert "'storable'" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/moved", "/xml", "/xml-to-301"])
def test_discover_prints_the_new_address_of_a_moved_feed(
    server: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["discover", server + path, "--allow-private"]) == 0

    assert capsys.readouterr().out == f"{server}/feed\n"


@pytest.mark.parametrize("saved", [True, False])
def test_xml_redirect_is_followed_saved_or_fetched(
    server: str, saved: bool, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    source = server + "/xml"
    if saved:
        source = str(tmp_path / "feed.rss")
        Path(source).write_text(f"<redirect><newLocation>{server}/xml-to-301</newLocation></redirect>")

    assert main(["convert", source, "--to", "json", "--allow-private"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["items"][0]["title"] == "one"

    assert main(["discover", source, "--allow-private"]) == 0
    assert capsysbinary.readouterr().out.decode() == f"{server}/feed\n"


@pytest.mark.parametrize(("path", "said"), [("/gone", "has ended"), ("/circle", "circle")])
@pytest.mark.parametrize("command", [["discover"], ["convert", "--to", "json"]])
def test_xml_redirect_without_a_usable_target_is_an_error_with_its_reason(
    server: str, path: str, said: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, server + path, "--allow-private"]) == 1

    assert said in capsys.readouterr().err


@pytest.mark.parametrize("base", ["a.example/feed", "/feed", "ftp://a.example/feed", "http://[", "http:feed"])
def test_base_that_is_no_address_is_refused(feed_file: Path, base: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(feed_file), "--to", "atom", "--base", base]) == 2

    written = capsys.readouterr()
    assert not written.out
    assert written.err == f"feedproxy: --base {base}: expected an absolute http or https URL\n"


def test_opml_of_a_feed_without_a_known_address_warns(feed_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(feed_file), "--to", "opml"]) == 0
    assert "state it with --base URL" in capsys.readouterr().err

    assert main(["convert", str(feed_file), "--to", "opml", "--base", "https://a.example/feed"]) == 0
    written = capsys.readouterr()
    assert 'xmlUrl="https://a.example/feed"' in written.out
    assert not written.err


def test_conversion_of_more_items_than_are_read_warns(
    feed_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_document, "ITEMS_MAX", 2)
    monkeypatch.setattr(convert, "ITEMS_MAX", 2)
    feed_file.write_bytes(a_feed("one", "two", "three"))

    assert main(["convert", str(feed_file), "--to", "json"]) == 0

    out, err = capsys.readouterr()
    assert [item["title"] for item in json.loads(out)["items"]] == ["one", "two"]
    assert err == "feedproxy: warning: at most 2 items of a feed are converted\n"
