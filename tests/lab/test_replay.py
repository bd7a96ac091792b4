"""Replays: the recorded version of an instant, by the rules of HTTP, deterministic."""

import gzip
import json
import os
import signal
import tarfile
from pathlib import Path
from typing import Any

import feedparser
import pytest

from feedproxy import cli
from feedproxy.commands import replay as command
from feedproxy.errors import UsageError
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request
from feedproxy.lab.record.exchange import Recording, Side, content_digest
from feedproxy.lab.replay import timeline, version_folder
from feedproxy.lab.replay.replay_origin import ReplayOrigin
from feedproxy.lab.replay.replay_response import ReplayResponse
from feedproxy.lab.replay.replay_source import ReplayOptions, make_replay, open_source
from feedproxy.lab.replay.time_arguments import parse_instant, parse_length
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline, Version
from tests.lab.exchanges import AT, an_exchange
from tests.lab.stage import on_stage

URL = "http://example.com/feed"
RSS = (
    b"<?xml version='1.0'?><rss version='2.0'><channel><title>A</title>%s<item><title>1</title></item></channel></rss>"
)
HOUR = 3600


def a_version(number: int, **given: object) -> Version:
    since = AT + number * HOUR
    values = {
        "since": since,
        "fields": Fields([("Content-Type", "application/rss+xml"), ("Cache-Control", "max-age=600")]),
        "content": RSS % b"" + b"<!--%d-->" % number + b" " * 300,
        "tag": f'"{number}"',
        "modified": format_http_date(since),
        **given,
    }
    return Version(**values)  # type: ignore[arg-type]


def a_world(*versions: Version, url: str = URL) -> ReplayWorld:
    return ReplayWorld({url: Timeline(versions or (a_version(0), a_version(1), a_version(2)))})


def ask(
    replay: ReplayOrigin,
    at: float = 0,
    *,
    target: str = URL,
    method: str = "GET",
    host: str = "example.com",
    **fields: str,
) -> ReplayResponse:
    """Send a request `at` hours after the beginning; field names have underscores for hyphens."""
    lines = [("Host", host), *((name.replace("_", "-"), value) for name, value in fields.items())]
    return replay.answer(replay.to_replay_request(Request(method, target, Fields(lines)), AT + at * HOUR))


def test_replay_serves_every_version_of_corpus_byte_for_byte(corpus: Path) -> None:
    world = version_folder.read(corpus / "history")
    replay = ReplayOrigin(world)
    served = 0
    for told in sorted((corpus / "history").glob("*.json")):
        name = told.name.removesuffix(".json")
        versions = json.loads(told.read_bytes())["versions"]
        with tarfile.open(told.with_name(f"{name}.tar.xz")) as opened:
            bodies = [file.read() for member in opened if (file := opened.extractfile(member)) is not None]
        ends = [float(version["time"]) for version in versions[1:]] + [float(versions[-1]["time"]) + 9e6]
        for version, body, end in zip(versions, bodies, ends, strict=True):
            since = float(version["time"])
            for at in sorted({since, (since + end) / 2, max(since, end - 1)} - {end}):
                asked = replay.to_replay_request(Request("GET", f"/{name}", Fields([("Host", "example.com")])), at)
                reply = replay.answer(asked)
                assert (reply.status, reply.body) == (200, body), (name, version["n"], at)
                held = Fields([("Host", "example.com"), ("If-None-Match", reply.fields.get("etag") or "")])
                again = replay.answer(replay.to_replay_request(Request("GET", f"/{name}", held), at))
                assert again.status == 304, (name, version["n"], at)
            served += since < end
    assert served > 900


@pytest.mark.parametrize(("hours", "number"), [(0, 0), (0.99, 0), (1, 1), (1.5, 1), (2, 2), (2000, 2)])
def test_replay_serves_version_of_requested_instant(hours: float, number: int) -> None:
    reply = ask(ReplayOrigin(a_world()), hours)

    assert reply.body == a_version(number).content
    assert reply.fields.get("etag") == f'"{number}"'
    assert reply.fields.get("last-modified") == format_http_date(AT + number * HOUR)
    assert reply.fields.get("date") == format_http_date(AT + hours * HOUR)
    assert reply.fields.get("cache-control") == "max-age=600"


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (URL, "anything"),
        ("/feed", "example.com"),
        ("/http://example.com/feed", "127.0.0.1:8080"),
        ("/https:/example.com/feed", "127.0.0.1:8080"),
    ],
)
def test_replay_accepts_host_absolute_and_gateway_form(target: str, host: str) -> None:
    assert ask(ReplayOrigin(a_world()), target=target, host=host).status == 200


def test_replay_answers_504_for_unknown_and_future_targets() -> None:
    replay = ReplayOrigin(a_world())

    assert ask(replay, target="http://example.com/other").status == 504
    assert ask(replay, target="http://example.org/feed").status == 504
    assert ask(replay, -1).status == 504


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"If_None_Match": '"1"'}, 304),
        ({"If_None_Match": 'W/"1"'}, 304),
        ({"If_None_Match": '"x", "1"'}, 304),
        ({"If_None_Match": "*"}, 304),
        ({"If_None_Match": '"0"'}, 200),
        ({"If_None_Match": '"1-gzip"'}, 200),
        ({"If_None_Match": "1"}, 200),
        ({"If_Modified_Since": format_http_date(AT + HOUR)}, 304),
        ({"If_Modified_Since": format_http_date(AT + HOUR + 60)}, 304),
        ({"If_Modified_Since": format_http_date(AT)}, 200),
        ({"If_Modified_Since": "yesterday"}, 200),
        ({"If_None_Match": '"0"', "If_Modified_Since": format_http_date(AT + HOUR)}, 200),
        ({"If_None_Match": "1", "If_Modified_Since": format_http_date(AT + HOUR)}, 200),
        ({"If_Match": '"0"'}, 412),
    ],
)
def test_replay_evaluates_conditions_against_current_version(fields: dict[str, str], status: int) -> None:
    reply = ask(ReplayOrigin(a_world()), 1.5, **fields)

    assert reply.status == status
    if status == 304:
        assert reply.body == b""
        assert reply.fields.get("etag") == '"1"'
        assert reply.fields.get("cache-control") == "max-age=600"
        assert "content-type" not in reply.fields


def test_replay_answers_head_and_rejects_post() -> None:
    assert ask(ReplayOrigin(a_world()), method="HEAD").status == 200
    assert ask(ReplayOrigin(a_world()), method="POST").status == 405


def test_replay_keeps_distance_of_expires() -> None:
    reply = ask(ReplayOrigin(a_world(a_version(0, expires_in=900))), 5)
    assert reply.fields.get("expires") == format_http_date(AT + 5 * HOUR + 900)


def test_replay_negotiates_recorded_coding() -> None:
    replay = ReplayOrigin(a_world(a_version(0, coded=("gzip",))))

    packed, plain = ask(replay, Accept_Encoding="gzip"), ask(replay)

    assert packed.fields.get("content-encoding") == "gzip"
    assert gzip.decompress(packed.body) == plain.body == a_version(0).content
    assert packed.fields.get("etag") == '"0"'
    assert plain.fields.get("etag") == 'W/"0"'
    assert packed.fields.get("vary") == "Accept-Encoding"


def test_endless_fault_keeps_recorded_wrong_content_encoding() -> None:
    world = a_world(a_version(0, coded=("gzip",), raw=True))
    reply = ask(make_replay(world, ReplayOptions(faults=["endless"]), AT))
    assert reply.fields.get("content-encoding") == "gzip"
    assert (reply.body, reply.blanks) == (a_version(0).content, 64_000_000)


# -- recordings


def _recorded(*answers: tuple[float, int, bytes, dict[str, str]], side: Side = Side.ORIGIN) -> ReplayWorld:
    exchanges, contents = [], {}
    for at, status, content, fields in answers:
        digest = content_digest(content)
        contents[digest] = content
        exchanges.append(
            an_exchange(
                URL,
                side=side,
                at=AT + at * HOUR,
                status=status,
                digest=digest,
                size=len(content),
                answered=fields.items(),
            )
        )
    return timeline.world_of(Recording(tuple(exchanges), contents))


def test_recording_errors_and_redirects_last_until_next_success() -> None:
    world = _recorded(
        (0, 200, b"one", {"ETag": '"1"'}),
        (1, 304, b"", {"ETag": '"1"'}),
        (2, 500, b"oops", {}),
        (3, 304, b"", {"ETag": '"1"'}),
        (4, 301, b"", {"Location": "/new"}),
        (5, 200, b"two", {"ETag": '"2"'}),
    )
    replay = ReplayOrigin(world)

    assert [ask(replay, at).status for at in (0, 1.5, 2.5, 3.5, 4.5, 5.5)] == [200, 200, 500, 200, 301, 200]
    assert ask(replay, 3.5).body == b"one"
    assert ask(replay, 4.5).fields.get("location") == "/new"
    assert ask(replay, 3.5, If_None_Match='"1"').status == 304


def test_recording_version_begins_at_last_modified_between_requests() -> None:
    world = _recorded(
        (0, 200, b"one", {"Last-Modified": format_http_date(AT - 9 * HOUR)}),
        (4, 200, b"two", {"Last-Modified": format_http_date(AT + HOUR)}),
    )
    assert ask(ReplayOrigin(world), 0.5).body == b"one"
    assert ask(ReplayOrigin(world), 1.5).body == b"two"


def test_recording_without_content_yields_no_version() -> None:
    without_content = an_exchange(URL, side=Side.ORIGIN, size=3, digest="0" * 64)
    assert not timeline.world_of(Recording((without_content,)))
    assert not _recorded((0, 226, b"delta", {}), (1, 206, b"part", {}), (2, 304, b"", {}), (3, 101, b"", {}))


def test_recording_of_readers_is_replayed_without_proxy_fields() -> None:
    world = _recorded((0, 200, b"one", {"Via": "1.1 x", "Age": "5", "Cache-Status": "x; hit"}), side=Side.READER)
    fields = ask(ReplayOrigin(world)).fields

    assert not {"via", "age", "cache-status"} & {name.lower() for name, _ in fields}


# -- hints


def _with(world: ReplayWorld | None = None, **options: list[str]) -> ReplayOrigin:
    return make_replay(world or a_world(), ReplayOptions(**options), AT)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ETag", "Last-Modified", "Cache-Control", "Content-Type"])
def test_hint_edit_strips_field(name: str) -> None:
    assert name.lower() not in {line.lower() for line, _ in ask(_with(strip=[name.lower()])).fields}


def test_hint_edit_adds_and_removes_feed_hints() -> None:
    body = ask(_with(add=["ttl=60", "skipHours=22,23", "skipDays=Sunday", "sy=hourly/2"])).body

    assert b"<ttl>60</ttl>" in body
    assert b"<skipHours><hour>22</hour><hour>23</hour></skipHours>" in body
    assert b"<skipDays><day>Sunday</day></skipDays>" in body
    read = feedparser.parse(body)
    assert not read.bozo
    assert (read.feed.ttl, read.feed.sy_updateperiod, read.feed.sy_updatefrequency) == ("60", "hourly", "2")
    said = RSS % b"\n <ttl>5</ttl>\n <skipHours><hour>3</hour></skipHours>"
    assert ask(_with(a_world(a_version(0, content=said)), strip=["ttl", "skipHours"])).body == RSS % b""
    assert ask(_with(a_world(a_version(0, content=said)), add=["ttl=7"])).body.count(b"<ttl>") == 1


def test_hint_edit_adds_directives_and_fields() -> None:
    fields = ask(_with(add=["max-age=60", "must-revalidate", "X-A: b", 'ETag: "new"'])).fields

    assert fields.get("cache-control") == "max-age=60, must-revalidate"
    assert fields.get("x-a") == "b"
    assert ask(_with(add=['ETag: "new"']), If_None_Match='"new"').status == 304
    assert ask(_with(add=["gzip"]), Accept_Encoding="gzip").fields.get("content-encoding") == "gzip"


@pytest.mark.parametrize(
    "options",
    [
        {"add": ["ttl"]},
        {"add": ["ttl=x"]},
        {"add": ["ttl=0"]},
        {"add": ["skipHours=22,24"]},
        {"add": ["skipDays=Samstag"]},
        {"add": ["sy=sometimes"]},
        {"add": ["max-age=soon"]},
        {"add": ["Content-Length: 5"]},
        {"strip": ["no field"]},
        {"faults": ["gzip-tagg"]},
        {"faults": ["gzip-tag=1"]},
        {"faults": ["clock-skew=soon"]},
        {"faults": ["500@later"]},
        {"faults": ["500@2h..1h"]},
        {"faults": ["500@0%"]},
        {"faults": ["500@200%"]},
        {"faults": ["500@#0"]},
        {"faults": ["500@#5..2"]},
        {"faults": ["500@2h,3h"]},
        {"faults": ["500@10%,2h..3h,20%"]},
        {"faults": ["500@#1,#3"]},
        {"faults": ["redirect-chain=200"]},
        {"faults": ["retry-after-negative=5"]},
        {"faults": ["challenge=9999"]},
    ],
)
def test_replay_option_that_is_invalid_is_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^--(add|strip|fault) "):
        _with(**options)


# -- time and determinism


def test_instants_and_durations_of_a_replay_are_parsed() -> None:
    assert parse_length("1h30m") == 5400
    assert parse_length("2d") == 172_800
    assert parse_instant("2026-11-21T12:00:00Z", 0) == parse_instant("2026-11-21 12:00", 0) == AT - 0.25
    assert parse_instant("@5", 0) == 5
    assert parse_instant("+1h", 10) == 3610
    for wrong in ("soon", "@x", "+x", "", "@nan", "@1e20", "-5"):
        with pytest.raises(UsageError):
            parse_instant(wrong, 0)


def test_replay_with_same_seed_is_deterministic() -> None:
    def run(seed: str) -> list[ReplayResponse]:
        faults = ["changing-tag@50%", "429@20%", "truncated-gzip@2h..3h", "slow-body@10%"]
        replay = make_replay(a_world(), ReplayOptions(faults=faults, seed=seed), AT)
        return [ask(replay, number / 10, Accept_Encoding="gzip") for number in range(60)]

    assert run("1") == run("1")
    assert run("1") != run("2")


def test_archive_versions_begin_at_file_times(tmp_path: Path) -> None:
    import io

    with tarfile.open(tmp_path / "feed.xml.tar.xz", "w:xz") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"{number}.xml")
            member.size, member.mtime = 5, int(AT) + number * HOUR
            archive.addfile(member, io.BytesIO(b"<rss%d" % number))

    for source in (tmp_path, tmp_path / "feed.xml.tar.xz"):
        replay = ReplayOrigin(open_source(source))
        assert ask(replay, 1.5, target="/feed.xml").body == b"<rss1"


@pytest.mark.parametrize("told", ["[", '{"versions": [{"member": "a", "time": 1}]}', '{"versions": []}'])
def test_version_folder_with_invalid_file_is_reported_by_name(told: str, tmp_path: Path) -> None:
    (tmp_path / "feed.json").write_text(told)
    with pytest.raises(UsageError, match=r"feed\.json: "):
        open_source(tmp_path)


def _archive(path: Path, *, size: int = 5, modified: int = int(AT), kind: bytes = tarfile.REGTYPE) -> Path:
    import io

    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("0.xml")
        member.size, member.mtime, member.type, member.linkname = size, modified, kind, "/etc/passwd"
        archive.addfile(member, io.BytesIO(bytes(size)))
    return path


@pytest.mark.parametrize("modified", [-5, 10**15])
def test_version_with_invalid_time_is_reported(tmp_path: Path, modified: int) -> None:
    with pytest.raises(UsageError, match=r"feed\.tar\.gz: 0\.xml: .*: expected a time in Unix seconds"):
        open_source(_archive(tmp_path / "feed.tar.gz", modified=modified))


def test_version_that_would_fill_the_memory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_folder, "VERSION_BYTES_MAX", 1000)

    with pytest.raises(UsageError, match=r"0\.xml: larger than 1000 bytes"):
        open_source(_archive(tmp_path / "feed.tar.gz", size=1001))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_an_archive_are_no_versions(tmp_path: Path, kind: bytes) -> None:
    _archive(tmp_path / "feed.tar.gz", size=0, kind=kind)

    with pytest.raises(UsageError, match="neither dated versions"):
        open_source(tmp_path)


@pytest.mark.parametrize("kept", [0, 30, -20])
def test_damaged_archive_is_reported_in_one_line(tmp_path: Path, kept: int) -> None:
    file = _archive(tmp_path / "feed.tar.gz", size=50_000)
    file.write_bytes(file.read_bytes()[:kept] + bytes(7 * (kept == 0)))

    with pytest.raises(UsageError) as refused:
        open_source(file)

    assert str(refused.value).startswith(f"{file}: ")
    assert "\n" not in str(refused.value)


def test_version_folder_that_is_empty_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither dated versions"):
        open_source(tmp_path)


# -- limits and redirects


async def test_replay_rejects_tunnel_with_reason() -> None:
    async with on_stage() as stage:
        got = await stage.get("example.com:443", method="CONNECT")

    assert got.status == 405
    assert got.fields.get("allow") == "GET, HEAD"
    assert b"opens no tunnel" in got.body


async def test_replay_answers_unreadable_request_line_in_plain_words() -> None:
    async with on_stage() as stage:
        got = await stage.get("/feed with spaces")

    assert (got.status, got.body) == (400, b"illegal request line\n")


@pytest.mark.parametrize(
    ("target", "host", "location"),
    [
        ("/http://example.com/feed", "127.0.0.1:8080", "http://127.0.0.1:8080/https://other.example/new"),
        (URL, "example.com", "https://other.example/new"),
        ("/feed", "example.com", "https://other.example/new"),
        ("/lab/feed.xml", "127.0.0.1:8080", "http://127.0.0.1:8080/https://other.example/new"),
    ],
)
def test_replay_redirect_leads_gateway_client_to_replay(target: str, host: str, location: str) -> None:
    moved = a_version(0, status=301, content=b"", fields=Fields([("Location", "https://other.example/new")]))
    known = ReplayWorld({URL: Timeline([moved])}, {"/lab/feed.xml": Timeline([moved])})
    replay = ReplayOrigin(known, names={"/lab/feed.xml": URL})

    assert ask(replay, target=target, host=host).fields.get("location") == location


def test_replay_redirect_is_resolved_against_recorded_address() -> None:
    moved = a_version(0, status=302, content=b"", fields=Fields([("Location", "/new")]))

    reply = ask(ReplayOrigin(a_world(moved)), target="/http://example.com/feed", host="127.0.0.1:8080")

    assert reply.fields.get("location") == "http://127.0.0.1:8080/http://example.com/new"


def test_replay_ends_cleanly_on_signal_after_announcement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tarfile.open(tmp_path / "feed.tar.gz", "w:gz") as archive:
        (tmp_path / "0000.xml").write_bytes(RSS % b"")
        archive.add(tmp_path / "0000.xml", "0000.xml")
    (tmp_path / "0000.xml").unlink()

    def said(line: str, **_: object) -> None:
        if line.startswith("feedproxy listens on "):
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(command, "print", said, raising=False)
    assert cli.main(["replay", str(tmp_path), "--step", "--listen", "127.0.0.1:0", "--admin", ""]) == 0
