"""`feedproxy replay` as a process: real clients, a controlled clock, and the same bytes in every run."""

import json
import re
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import feedparser
import pytest

from feedproxy.lab.record import har_format
from tests.lab.stage import a_feed
from tests.live.conftest import needs
from tests.live.product import COMMAND, LISTENS, Process, Seen, ask, run
from tests.waiting import PATIENCE

ADMIN = re.compile(r"admin listener is at (http://\S+)")
START = 1_795_262_400
FEED = "http://news.example/feed.xml"


class Replay(Process):
    """`feedproxy replay` on free ports."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [*COMMAND, "replay", *arguments, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        super().__init__(command, folder)
        self.base = self.line(LISTENS)[1]
        self.address = (urlsplit(self.base).hostname or "", urlsplit(self.base).port or 0)
        found = ADMIN.search(self.said)
        assert found, self.said
        self.admin = found[1]

    def advance(self, seconds: float) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.admin}/advance?seconds={seconds}", data=b"", timeout=PATIENCE) as answer:
            return json.load(answer)

    def get(self, target: str = FEED, **fields: str) -> Seen:
        """Send a GET in the gateway's form."""
        return ask(f"{self.base}/{target}", fields=fields)


type Start = Callable[..., Replay]


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Start]:
    """Start a replay with these arguments."""
    started: list[Replay] = []

    def begin(*arguments: str) -> Replay:
        started.append(Replay(tmp_path / f"replay-{len(started)}", *arguments))
        return started[-1]

    yield begin
    for each in started:
        assert each.terminate() == 0, each.said
        assert "Traceback" not in each.said, each.said


@pytest.fixture
def week(tmp_path: Path) -> Path:
    """Create a folder with a feed that has a new item every hour of a week."""
    folder = tmp_path / "week"
    folder.mkdir()
    with tarfile.open(folder / "feed.xml.tar.gz", "w:gz") as archive:
        for number in range(168):
            content = a_feed(number)
            member = tarfile.TarInfo(f"{number:04}.xml")
            member.size, member.mtime = len(content), START + number * 3600
            archive.addfile(member, BytesIO(content))
    return folder


def test_history_of_the_corpus_is_served_byte_for_byte_at_each_step(corpus: Path, replay: Start) -> None:
    name = "sympy_planet.sympy.org__opml.xml"
    versions = json.loads((corpus / "history" / f"{name}.json").read_bytes())["versions"]
    with tarfile.open(corpus / "history" / f"{name}.tar.xz") as opened:
        bodies = [file.read() for each in opened if (file := opened.extractfile(each)) is not None]
    origin = replay(str(corpus / "history"), "--step", "--at", f"@{versions[0]['time']}")
    now = versions[0]["time"]

    for version, body in zip(versions, bodies, strict=True):
        origin.advance(version["time"] - now)
        now = version["time"]
        got = ask(f"{origin.base}/{name}", through=origin.address)
        assert got.body == body
        tag = got.fields["ETag"]
        assert ask(f"{origin.base}/{name}", fields={"if_none_match": tag}).status == 304
    assert ask(f"{origin.base}/nothing").status == 504


def test_error_about_a_step_beyond_the_end_of_the_clock_states_the_largest_step(week: Path, replay: Start) -> None:
    end = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp())
    origin = replay(str(week), "--step", "--at", f"@{end - 90}")

    with pytest.raises(urllib.error.HTTPError) as refused:
        origin.advance(91)

    assert json.load(refused.value)["title"] == "seconds: '91': expected a number from 0 to 90"
    assert origin.advance(90)["now"] == end


@needs("curl")
def test_curl_validates_with_the_received_validators(week: Path, replay: Start, tmp_path: Path) -> None:
    origin = replay(str(week), "--step")
    tags, out = tmp_path / "tag", tmp_path / "out"

    def curl() -> str:
        given = ["--etag-save", str(tags), *(["--etag-compare", str(tags)] if tags.exists() else [])]
        command = [
            "curl",
            "-sS",
            "-x",
            origin.base,
            *given,
            "-o",
            str(out),
            "-w",
            "%{http_code}",
            FEED,
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout

    assert curl() == "200"
    assert out.read_bytes() == a_feed(0)
    assert curl() == "304"
    origin.advance(3600)
    assert curl() == "200"
    assert out.read_bytes() == a_feed(1)


def test_feedparser_reads_the_feed_and_gets_304_without_news(week: Path, replay: Start) -> None:
    origin = replay(str(week), "--step", "--at", "+2h")
    url = f"{origin.base}/{FEED}"

    first = feedparser.parse(url)
    second = feedparser.parse(url, etag=first.etag, modified=first.modified)
    origin.advance(3600)
    third = feedparser.parse(url, etag=first.etag, modified=first.modified)

    assert (first.status, second.status, third.status) == (200, 304, 200)
    assert [len(each.entries) for each in (first, second, third)] == [3, 0, 4]


def test_requests_are_recorded_at_virtual_instants_with_their_faults(week: Path, replay: Start, tmp_path: Path) -> None:
    file = tmp_path / "asked.har"
    origin = replay(str(week), "--step", "--record", str(file), "--fault", "429@#2")
    origin.get(user_agent="reader/1")
    origin.advance(7200)
    origin.get(user_agent="reader/1")
    origin.terminate()

    asked = har_format.read(file).exchanges
    assert [(each.at, each.status, each.faults) for each in asked] == [
        (START, 200, ()),
        (START + 7200, 429, ("429",)),
    ]
    assert {each.request.target for each in asked} == {FEED}
    assert asked[0].reader.startswith("reader-")


def test_answer_to_head_is_recorded_without_content(week: Path, replay: Start, tmp_path: Path) -> None:
    file = tmp_path / "asked.har"
    origin = replay(str(week), "--step", "--record", str(file))
    ask(f"{origin.base}/{FEED}", "HEAD")
    origin.terminate()

    (asked,) = har_format.read(file).exchanges
    assert (asked.request.method, asked.status, asked.digest, asked.size) == ("HEAD", 200, "", 0)


def test_recording_of_serve_is_replayed(week: Path, replay: Start, tmp_path: Path) -> None:
    file = tmp_path / "week.har"
    first = replay(str(week), "--step", "--proxy", "--record", str(file))
    for _ in range(5):
        first.get()
        first.advance(7200)
    first.terminate()

    second = replay(str(file), "--step")
    bodies = []
    for _ in range(5):
        bodies.append(second.get().body)
        second.advance(7200)
    assert bodies == [a_feed(number) for number in (0, 2, 4, 6, 8)]


def test_each_request_can_advance_the_clock(week: Path, replay: Start) -> None:
    origin = replay(str(week), "--step", "--per-request", "3600")
    assert [origin.get().body for _ in range(3)] == [a_feed(0), a_feed(1), a_feed(2)]


def test_clock_that_runs_by_itself_cannot_be_advanced(week: Path, replay: Start) -> None:
    origin = replay(str(week), "--speed", "1000000")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        origin.advance(5)
    assert json.load(urllib.request.urlopen(f"{origin.admin}/", timeout=PATIENCE))["now"] > START


FAULTS = ("changing-tag@30%", "429@#2..,10%", "truncated-gzip@1d..2d", "redirect-302@20%", "500@3d..3d1h")


def _a_week(folder: Path, start: Start, *arguments: str) -> list[bytes]:
    """Poll every three hours of a week and return all bytes of the responses, with masked ports."""
    played = start(str(folder), "--step", *(each for fault in FAULTS for each in ("--fault", fault)), *arguments)
    answers = []
    for _ in range(56):
        got = played.get(accept_encoding="gzip")
        answer = f"{got.status}\n{got.fields}".encode() + got.body
        answers.append(answer.replace(played.base.encode(), b"BASE"))
        played.advance(3 * 3600)
    return answers


@pytest.mark.parametrize("arguments", [(), ("--proxy",)], ids=["bare", "proxy"])
def test_recordings_of_two_equal_days_are_identical(
    week: Path, replay: Start, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    files = []
    for number in range(2):
        file = tmp_path / f"{number}.har"
        played = replay(str(week), "--step", "--fault", "changing-tag@30%", "--record", str(file), *arguments)
        for _ in range(8):
            played.get(accept_encoding="gzip", user_agent="Reader/1", cookie="a=b")
            played.advance(3 * 3600)
        played.terminate()
        files.append(file.read_bytes().replace(played.base.removeprefix("http://").encode(), b"HOST:PORT"))

    assert files[0] == files[1]
    assert len(har_format.parse(files[0]).exchanges) >= 8


@pytest.mark.parametrize("arguments", [(), ("--proxy",)], ids=["bare", "proxy"])
def test_two_equal_weeks_are_identical(week: Path, replay: Start, arguments: tuple[str, ...]) -> None:
    first, second = (_a_week(week, replay, *arguments) for _ in range(2))

    assert first == second
    statuses = {int(each.split(b"\n")[0]) for each in first}
    assert statuses == ({200} if arguments else {200, 302, 429, 500})


def test_replay_behind_the_whole_proxy_reaches_no_other_host(week: Path, replay: Start, tmp_path: Path) -> None:
    played = replay(str(week), "--step", "--proxy")

    assert played.get().status == 200
    assert played.get("http://127.0.0.1:9/feed").status == 504
    assert ask(f"{played.base}/{FEED}", "POST", body=b"x").status == 403


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected FILE.har"),
        (("nowhere.har",), "nowhere.har: No such file"),
        ((".",), "neither dated versions"),
        ((".", "--step", "--speed", "2"), "not allowed with"),
        ((".", "--speed", "0"), "--speed 0"),
        ((".", "--set", "a=b"), "--set requires --proxy"),
        ((".", "--per-request", "5"), "--per-request requires --step"),
    ],
)
def test_usage_error_is_reported_in_one_line(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = run([*COMMAND, "replay", *arguments], tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
