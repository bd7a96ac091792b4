"""`feedproxy serve --record`: the file has all exchanges after the process has ended in any way."""

import json
from collections.abc import Callable
from pathlib import Path

from feedproxy.lab.record import har_format
from feedproxy.lab.record.exchange import Side
from tests.live.origin import Origin, a_feed
from tests.live.product import COMMAND, Feedproxy, Process, ask

type Start = Callable[..., Feedproxy]

TOKEN = "hunter2hunter2"


def test_record_after_sigterm_has_both_sides_and_no_secret(start: Start, origin: Origin, tmp_path: Path) -> None:
    file = tmp_path / "week.har"
    feedproxy = start("--record", str(file), trusted_proxies="127.0.0.1", negotiate=True)
    origin.publish("/recorded", a_feed("one"))
    origin.publish(f"/private?token={TOKEN}", a_feed(f"secret-{TOKEN}"))
    moved = f'<a href="/private?token={TOKEN}">moved</a>'.encode()
    origin.publish("/short", moved, 302, Location=f"/private?token={TOKEN}")

    for number in range(3):
        feedproxy.get(origin.url("/recorded"), user_agent=f"reader/{number}", x_forwarded_for=f"192.0.2.{number}")
    feedproxy.get(origin.url(f"/private?token={TOKEN}"), cookie=f"a={TOKEN}", authorization=f"Bearer {TOKEN}")
    for _ in range(2):
        assert TOKEN.encode() in feedproxy.get(origin.url("/short")).body
    converted = feedproxy.get(origin.url("/short"), accept="application/feed+json").body
    assert converted.startswith(b"{")
    assert TOKEN.encode() in converted
    ask(feedproxy.gateway(origin.url("/recorded")), "POST", body=TOKEN.encode())
    assert feedproxy.terminate() == 0

    data, found = file.read_bytes(), har_format.read(file)
    assert json.loads(data)["log"]["version"] == "1.2"
    assert found.until >= found.exchanges[-1].at, "it is told when recording ended"
    assert TOKEN.encode() not in data
    assert b"192.0.2." not in data
    public = [each for each in found.exchanges if each.request.target == origin.url("/recorded")]
    asked = [each for each in public if each.side is Side.READER and each.request.method == "GET"]
    assert [each.user_agent for each in asked] == ["reader/0", "reader/1", "reader/2"]
    assert len({each.reader for each in asked}) == 3
    assert len({each.digest for each in asked}) == 1
    fetched = [each for each in public if each.side is Side.ORIGIN and each.request.method == "GET"]
    assert [found.content(each) for each in fetched] == [a_feed("one")]
    posted = [each.side for each in public if each.request.method == "POST"]
    assert sorted(posted) == [Side.ORIGIN, Side.READER]
    assert len([each for each in found.exchanges if "/redacted-" in each.request.target]) == 2 + 4


def test_record_after_sigkill_has_every_response(start: Start, origin: Origin, tmp_path: Path) -> None:
    file = tmp_path / "week.har"
    feedproxy = start("--record", str(file))
    origin.publish("/killed", a_feed("one"))
    for _ in range(20):
        feedproxy.get(origin.url("/killed"))

    feedproxy.kill()

    assert len(har_format.read(file).side(Side.READER)) == 20


def test_unwritable_record_file_ends_the_process_with_one_line(tmp_path: Path) -> None:
    ports = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "memory:")
    file = tmp_path / "no" / "week.har"
    feedproxy = Process([*COMMAND, "serve", *ports, "--record", str(file)], tmp_path / "feedproxy")

    assert feedproxy.wait() == 2
    assert feedproxy.said == f"feedproxy: record: {file}: No such file or directory\n"


def test_each_worker_writes_its_own_record_file(start: Start, origin: Origin, tmp_path: Path) -> None:
    origin.publish("/workers", a_feed("one"))
    feedproxy = start("--record", str(tmp_path / "week.har"), workers=2)
    for _ in range(12):
        feedproxy.get(origin.url("/workers"))
    assert feedproxy.terminate() == 0

    files = sorted(tmp_path.glob("*.har"))
    assert [each.name for each in files] == ["week-2.har", "week.har"]
    assert sum(len(har_format.read(each).side(Side.READER)) for each in files) == 12


def test_record_in_reverse_mode_has_the_public_address(start: Start, origin: Origin, tmp_path: Path) -> None:
    file, public = tmp_path / "week.har", "https://feeds.example"
    origin.publish("/behind/old", b"", 301, Location=origin.url("/behind/new"))
    origin.publish("/behind/new", a_feed("one"))
    feedproxy = start("--upstream", origin.url("/behind"), "--record", str(file), public_url=public)

    ask(f"{feedproxy.base}/old?token={TOKEN}")
    ask(f"{feedproxy.base}/old")
    assert feedproxy.terminate() == 0

    secret, plain = har_format.read(file).side(Side.READER)
    assert (plain.request.target, plain.public) == (origin.url("/behind/old"), f"{public}/old")
    assert plain.entrance == "reverse"
    assert secret.public.startswith(f"{public}/old?token=redacted-")
    assert TOKEN.encode() not in file.read_bytes()
