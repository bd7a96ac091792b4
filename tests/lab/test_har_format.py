"""HAR files: round trips, other tools, incomplete files, rotation."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy.io import FlowReader, FlowWriter
from mitmproxy.test import tflow
from msgspec.structs import replace

from feedproxy.commands.replay import read_recording
from feedproxy.errors import UsageError
from feedproxy.http.message import Fields, Request
from feedproxy.lab.record import har_format, har_writer
from feedproxy.lab.record.exchange import Exchange, Recording, Side, content_digest
from feedproxy.lab.record.har_redaction import Redactor
from feedproxy.lab.record.har_writer import HarWriter
from feedproxy.lab.record.recorder import Recorder
from feedproxy.server.mitm.exchanges_from_flows import read_flow_file
from tests.lab.exchanges import AT, an_exchange, dump_recording
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

_latin = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=20)
_lines = st.lists(st.tuples(st.sampled_from(["ETag", "X-A", "Content-Type", "Location"]), _latin), max_size=4)
_contents = st.one_of(st.binary(max_size=60), st.sampled_from([b"<rss/>", "<rss>ä</rss>".encode(), b"\xff\xfe<"]))


@st.composite
def _recordings(draw: st.DrawFn) -> Recording:
    exchanges, contents = [], {}
    for number in range(draw(st.integers(0, 5))):
        content = draw(_contents)
        made = Exchange(
            side=draw(st.sampled_from(Side)),
            at=AT + number + draw(st.integers(0, 999_999)) / 1_000_000,
            request=Request("GET", f"https://example.com/{number}?a=b&c", Fields(draw(_lines))),
            status=draw(st.sampled_from([0, 200, 304, 599])),
            fields=Fields(draw(_lines)),
            reason=draw(_latin),
            digest=content_digest(content),
            size=len(content),
            seconds=draw(st.integers(0, 10_000)) / 1000,
            reader=draw(st.sampled_from(["", "reader-0123456789ab"])),
            connection=draw(st.sampled_from(["", "1"])),
            entrance=draw(st.sampled_from(["", "gateway"])),
            raw=draw(st.booleans()),
            faults=draw(st.sampled_from([(), ("gzip-tag", "reset")])),
            failure=draw(_latin),
        )
        exchanges.append(made)
        if content:
            contents[made.digest] = content
    return Recording(tuple(exchanges), contents, draw(st.sampled_from([0.0, AT + 9.5])))


@given(_recordings())
def test_har_round_trip_preserves_recording(recording: Recording) -> None:
    parsed = har_format.parse(dump_recording(recording))

    assert [replace(exchange, at=0) for exchange in parsed.exchanges] == [
        replace(exchange, at=0) for exchange in recording.exchanges
    ]
    assert [round(exchange.at, 6) for exchange in parsed.exchanges] == [
        round(exchange.at, 6) for exchange in recording.exchanges
    ]
    assert parsed.contents == recording.contents
    assert parsed.until == recording.until
    assert dump_recording(parsed) == dump_recording(recording)


def test_har_entries_have_fields_of_version_1_2() -> None:
    document = json.loads(dump_recording(Recording((an_exchange(answered=[("Location", "/b")], size=3),))))

    log = document["log"]
    assert log["version"] == "1.2"
    assert set(log["creator"]) == {"name", "version"}
    (entry,) = log["entries"]
    assert {"startedDateTime", "time", "request", "response", "cache", "timings"} <= set(entry)
    assert entry["startedDateTime"] == "2026-11-21T12:00:00.250000Z"
    request = {"method", "url", "httpVersion", "cookies", "headers", "queryString", "headersSize", "bodySize"}
    assert request == set(entry["request"])
    answer = {"status", "statusText", "httpVersion", "cookies", "headers", "content", "redirectURL"}
    assert answer <= set(entry["response"])
    assert entry["response"]["redirectURL"] == "/b"
    assert set(entry["timings"]) == {"send", "wait", "receive"}


def test_har_writer_writes_equal_content_once(tmp_path: Path) -> None:
    content = b"<rss>once and for all</rss>"
    made = HarWriter(tmp_path / "week.har")
    for number in range(3):
        made.append(an_exchange(at=AT + number, digest=content_digest(content), size=len(content)), content)
    made.close()

    assert (tmp_path / "week.har").read_bytes().count(b"once and for all") == 1
    found = har_format.read(tmp_path / "week.har")
    assert [found.content(exchange) for exchange in found.exchanges] == [content] * 3


def test_har_is_readable_by_mitmproxy(tmp_path: Path) -> None:
    contents = [b"<rss>plain</rss>", "<rss>ä</rss>".encode("iso-8859-1"), bytes(range(256))]
    exchanges = [
        an_exchange(
            f"https://example.com/{number}", digest=content_digest(content), answered=[("Content-Type", "text/xml")]
        )
        for number, content in enumerate(contents)
    ]
    file = tmp_path / "week.har"
    file.write_bytes(
        dump_recording(Recording(tuple(exchanges), {content_digest(content): content for content in contents}))
    )

    with file.open("rb") as opened:
        flows: list[Any] = list(FlowReader(opened).stream())

    assert [flow.request.url for flow in flows] == [exchange.request.target for exchange in exchanges]
    assert [flow.response.raw_content for flow in flows] == contents


def test_har_that_is_truncated_is_read_to_last_complete_exchange(tmp_path: Path) -> None:
    exchanges = tuple(an_exchange(at=AT + number) for number in range(3))
    document = dump_recording(Recording(exchanges))

    assert har_format.parse(document[:-40]).exchanges == exchanges[:2]
    assert har_format.parse(document[: len(har_format.HEAD)]).exchanges == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", '{"log": {"entries": 3}}'),
        *(f'{{"log": {{"entries": [{entry}]}}}}' for entry in ("{}", "1", '"x"', "null", "[]", '{"request": null}')),
    ],
)
def test_har_that_is_invalid_is_reported_by_file_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"^week\.har: "):
        har_format.parse(text.encode(), "week.har")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("request.url", None, "request.url: expected a string"),
        ("request.url", 5, "request.url: expected a string"),
        ("request.url", "http://[::1", "Invalid IPv6 URL"),
        ("request.url", "http://e.example/\x1b[31m", "request.url: expected no control characters"),
        ("startedDateTime", "0001-01-01T00:00:00Z", "startedDateTime: expected a year from 1970 to 2099"),
        ("request.headers", "x", "request.headers: expected a list"),
        ("request.headers", [{"name": "ETag", "value": []}], "value: expected a string"),
        ("response.headers", [{"name": "ETag"}], "value: expected a string"),
        ("response.status", "ok", "response.status: expected a number"),
        ("response.status", 10**30, "expected a number of three digits"),
        ("response.content", 5, "response.content: expected an object"),
        ("time", float("nan"), "time: expected a number"),
        ("_feedproxy.reader", ["x"], "reader: expected a string"),
        ("_feedproxy.side", "nowhere", "'nowhere' is not a valid Side"),
        ("_feedproxy.faults", {}, "faults: expected a list"),
    ],
)
def test_har_entry_with_wrong_kind_of_value_is_reported_by_member(path: str, value: object, message: str) -> None:
    document = json.loads(dump_recording(Recording((an_exchange(),))))
    *names, last = path.split(".")
    parent = document["log"]["entries"][0]
    for name in names:
        parent = parent[name]
    parent[last] = value

    with pytest.raises(UsageError, match=rf"^week\.har: entry 1 is invalid: .*{re.escape(message)}"):
        har_format.parse(json.dumps(document).encode(), "week.har")


def test_har_with_half_a_surrogate_pair_has_a_replacement_character() -> None:
    document = dump_recording(Recording((an_exchange(asked=(("User-Agent", "Reader"),)),))).replace(
        b'"Reader"', b'"Reader\\ud800"'
    )

    (exchange,) = har_format.parse(document).exchanges

    assert exchange.user_agent == "Reader?"


def test_har_that_is_nested_too_deeply_is_reported() -> None:
    with pytest.raises(UsageError, match="nested too deeply"):
        har_format.parse(b'{"log": ' + b"[" * 100_000)


def test_har_of_browser_has_origin_side() -> None:
    entry = {
        "startedDateTime": "2026-11-21T13:00:00.250+01:00",
        "time": 12.5,
        "request": {
            "method": "GET",
            "url": "https://EXAMPLE.com/feed#top",
            "httpVersion": "h2",
            "headers": [{"name": ":authority", "value": "example.com"}, {"name": "accept", "value": "*/*"}],
        },
        "response": {
            "status": 200,
            "headers": [{"name": "content-type", "value": "text/xml; charset=iso-8859-1"}],
            "content": {"size": 7, "text": "<a>ä</a>"},
        },
    }

    found = har_format.parse(json.dumps({"log": {"entries": [entry]}}).encode())

    (exchange,) = found.exchanges
    assert exchange.side is Side.ORIGIN
    assert exchange.at == AT
    assert exchange.request == Request("GET", "https://example.com/feed", Fields([("accept", "*/*")]))
    assert found.content(exchange) == "<a>ä</a>".encode("iso-8859-1")


@pytest.mark.parametrize(
    ("response", "size"),
    [
        ({"bodySize": 300, "content": {"size": 1000, "text": "<a/>"}}, 300),
        ({"bodySize": -1, "content": {"size": 1000, "compression": 600, "text": "<a/>"}}, 400),
        ({"bodySize": -1, "content": {"size": 1000}}, 1000),
        ({"content": {"text": "<a/>"}}, 4),
        ({"bodySize": 0, "content": {"size": 0}}, 0),
    ],
)
def test_har_of_browser_without_size_on_the_wire_has_the_size_of_the_content(
    response: dict[str, Any], size: int
) -> None:
    entry = {
        "startedDateTime": "2026-11-21T13:00:00Z",
        "request": {"method": "GET", "url": "https://example.com/feed", "headers": []},
        "response": {"status": 200, "headers": [], **response},
    }

    (exchange,) = har_format.parse(json.dumps({"log": {"entries": [entry]}}).encode()).exchanges

    assert exchange.size == size


def _entry(**members: Any) -> dict[str, Any]:
    """Return an entry of another tool."""
    return {
        "startedDateTime": "2026-11-21T13:00:00Z",
        "request": {"method": "GET", "url": "https://example.com/feed", "headers": []},
        "response": {"status": 200, "headers": [], "content": {"text": "<a/>"}},
        **members,
    }


def _har(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"log": {"entries": entries}}).encode()


def _request(url: str) -> dict[str, Any]:
    return {"method": "GET", "url": url, "headers": []}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_har_that_another_tool_saved_is_the_same_recording(separators: tuple[str, str]) -> None:
    recording = Recording((an_exchange(), an_exchange(at=AT + 1)), {}, AT + 86_400)
    saved = json.dumps(json.loads(dump_recording(recording)), separators=separators).encode()

    assert har_format.parse(saved) == recording


@pytest.mark.parametrize(
    ("members", "is_unsent"),
    [
        ({"_fromCache": "disk"}, True),
        ({"_fetchType": "Memory Cache"}, True),
        ({"cache": {"afterRequest": None}}, True),
        ({}, False),
        ({"cache": {}}, False),
        ({"_fetchType": "Network Load"}, False),
        ({"cache": {"afterRequest": {"eTag": "a", "hitCount": 1}}}, False),
        ({"cache": {"beforeRequest": None, "afterRequest": None}}, False),
        ({"response": {"status": 0, "_error": "net::ERR_BLOCKED_BY_CLIENT"}, "serverIPAddress": ""}, True),
        ({"response": {"status": 0, "_error": "net::ERR_EMPTY_RESPONSE"}, "serverIPAddress": "192.0.2.1"}, False),
        ({"response": {"status": 0}}, False),
        ({"serverIPAddress": ""}, False),
    ],
)
def test_har_of_browser_states_which_requests_it_did_not_send(members: dict[str, Any], is_unsent: bool) -> None:
    (exchange,) = har_format.parse(_har(_entry(**members))).exchanges

    assert exchange.is_unsent == is_unsent


@pytest.mark.parametrize("response", [None, {}, {"status": None, "headers": None, "content": None}])
def test_har_entry_without_response_is_a_request_without_answer(response: object) -> None:
    (exchange,) = har_format.parse(_har(_entry(response=response))).exchanges

    assert (exchange.status, exchange.size, exchange.digest) == (0, 0, "")


@pytest.mark.parametrize("url", ["http://example.com:99999/", "http://example.com/a b", "http:///feed", "data:,x"])
def test_har_of_browser_may_have_entries_with_invalid_targets(url: str) -> None:
    recording = har_format.parse(_har(_entry(), _entry(request=_request(url))))

    assert [exchange.request.target for exchange in recording.exchanges] == ["https://example.com/feed"]
    with pytest.raises(UsageError, match=r"^week\.har: entry 1 is invalid: "):
        har_format.parse(_har(_entry(request=_request(url))), "week.har")


@pytest.mark.parametrize("url", ["https://me:secret@example.com/a@b?c=@d", "HTTPS://me@EXAMPLE.com/a@b?c=@d"])
def test_har_of_browser_has_no_user_names(url: str) -> None:
    (exchange,) = har_format.parse(_har(_entry(request=_request(url)))).exchanges

    assert exchange.request.target == "https://example.com/a@b?c=@d"


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_har_of_browser_has_line_breaks_in_fields_and_status_text(line_break: str) -> None:
    """A replay would send them as they are."""
    fields = [{"name": "Vary", "value": f"Accept{line_break}Origin"}]
    response = {"status": 200, "statusText": f"OK{line_break}X: y", "headers": fields}

    (exchange,) = har_format.parse(_har(_entry(response=response))).exchanges

    assert exchange.reason == "OK X: y"
    assert exchange.fields == Fields([("Vary", "Accept"), ("Vary", "Origin")])


def test_har_of_browser_states_connections_unless_it_states_the_port() -> None:
    entries = [_entry(connection=connection) for connection in ("443", "50123", 50124, None)]

    exchanges = har_format.parse(_har(*entries)).exchanges

    assert [exchange.connection for exchange in exchanges] == ["", "50123", "50124", ""]


def test_flow_file_is_read_as_recording(tmp_path: Path) -> None:
    flow = _a_flow()
    flow.response.headers["content-encoding"] = "gzip"
    flow.response.content = b"<rss/>"  # mitmproxy compresses it

    found = _imported(tmp_path, flow)

    for exchange in found.exchanges:
        assert exchange.request.target == "http://example.com/feed"
        assert found.content(exchange) == b"<rss/>"
        assert not exchange.raw


def test_flow_file_has_reader_and_origin_sides(tmp_path: Path) -> None:
    one, parsed, other, answered_by_mitmproxy = (_a_flow() for _ in range(4))
    parsed.client_conn, parsed.server_conn = one.client_conn, one.server_conn
    other.client_conn.peername = ("192.0.2.7", 5555)
    answered_by_mitmproxy.client_conn.peername = ("192.0.2.7", 5556)
    answered_by_mitmproxy.server_conn.timestamp_start = None

    found = _imported(tmp_path, one, parsed, other, answered_by_mitmproxy)

    requests, origins = found.side(Side.READER), found.side(Side.ORIGIN)
    assert [request.reader for request in requests] == ["reader-1", "reader-1", "reader-2", "reader-2"]
    assert requests[0].connection == requests[1].connection != requests[2].connection
    assert {request.entrance for request in requests} == {"proxy"}
    assert len(origins) == 3
    assert {exchange.reader for exchange in origins} == {""}


def test_request_that_was_streamed_in_another_version_has_the_version_of_its_client(tmp_path: Path) -> None:
    flow = _a_flow()
    flow.client_conn.alpn, flow.request.http_version = b"h2", "HTTP/1.1"

    found = _imported(tmp_path, flow)

    assert [exchange.version for exchange in found.side(Side.READER)] == ["HTTP/2.0"]
    assert [exchange.version for exchange in found.side(Side.ORIGIN)] == ["HTTP/1.1"]


def test_flow_file_converted_from_har_has_no_reader(tmp_path: Path) -> None:
    file = tmp_path / "week.har"
    file.write_bytes(dump_recording(Recording((an_exchange("https://example.com/1"),))))
    with file.open("rb") as opened:
        flows: list[Any] = list(FlowReader(opened).stream())

    (exchange,) = _imported(tmp_path, *flows).exchanges

    assert (exchange.side, exchange.reader, exchange.connection) == (Side.ORIGIN, "", "")


@pytest.mark.parametrize("form", ["har", "flows"])
def test_recording_may_be_a_pipe(tmp_path: Path, form: str) -> None:
    if form == "har":
        content = dump_recording(Recording((an_exchange(),)))
    else:
        _imported(tmp_path, _a_flow())
        content = (tmp_path / "week.mitm").read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writer.start()

    assert read_recording(pipe).side(Side.READER)

    writer.join(timeout=10)


def _a_flow() -> Any:
    flow = tflow.tflow(resp=True)
    flow.request.url = "http://example.com/feed"
    return flow


def _imported(folder: Path, *flows: Any) -> Recording:
    """Return the recording that is read from a flow file with these flows."""
    with (folder / "week.mitm").open("wb") as file:
        for flow in flows:
            FlowWriter(file).add(flow)
    with (folder / "week.mitm").open("rb") as file:
        return read_flow_file(file, "week.mitm")


@pytest.mark.parametrize(("length", "size"), [("5000000", 5_000_000), ("-1", 0), ("", 0)])
def test_size_of_content_that_mitmproxy_streamed_is_content_length(tmp_path: Path, length: str, size: int) -> None:
    """Scores would otherwise take the response for an empty one."""
    flow = _a_flow()
    flow.response.raw_content, flow.response.headers["content-length"] = None, length

    assert {exchange.size for exchange in _imported(tmp_path, flow).exchanges} == {size}


def test_har_writer_rotates_full_file_with_complete_contents(tmp_path: Path) -> None:
    content = b"x" * 500
    made = HarWriter(tmp_path / "week.har", limit=2000)
    for number in range(9):
        made.append(an_exchange(at=AT + number, digest=content_digest(content), size=500), content)
    made.close()

    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    found = [har_format.read(file) for file in files]
    assert sum(len(recording.exchanges) for recording in found) == 9
    assert all(recording.content(exchange) == content for recording in found for exchange in recording.exchanges)


def test_har_writer_continues_after_its_file_was_deleted(tmp_path: Path) -> None:
    """The full file is not renamed, because the name may belong to a file of another process."""
    path = tmp_path / "week.har"
    writer = HarWriter(path, limit=1)
    path.unlink()
    other = HarWriter(path)

    writer.append(an_exchange(), None)
    writer.append(an_exchange(at=AT + 1), None)
    other.append(an_exchange(at=AT + 2), None)

    assert har_format.read(path).exchanges == (an_exchange(at=AT + 2),)
    assert len(list(tmp_path.iterdir())) == 3, "the two files that are written, and the second full file"


@pytest.mark.parametrize("rotation", ["rename", "rename-and-create", "delete", "copytruncate"])
def test_recorder_begins_a_complete_file_after_a_rotation_of_logs(
    rotation: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path, rotated = tmp_path / "week.har", tmp_path / "week.har.1"
    recorder = Recorder(HarWriter(path), Redactor(b"key"))
    content = b"<rss>in both files</rss>"
    recorder.record(an_exchange(), content)
    if rotation == "delete":
        path.unlink()
    elif rotation == "copytruncate":
        shutil.copyfile(path, rotated)
        os.truncate(path, 0)
    else:
        path.rename(rotated)
    if rotation == "rename-and-create":
        path.touch(0o640)

    recorder.record(an_exchange(at=AT + 1), content)
    recorder.record(an_exchange(at=AT + 2), content)
    recorder.close()

    found = har_format.read(path)
    assert [exchange.at for exchange in found.exchanges] == [AT + 1, AT + 2]
    assert [found.content(exchange) for exchange in found.exchanges] == [content] * 2
    if rotation != "delete":
        assert [exchange.at for exchange in har_format.read(rotated).exchanges] == [AT]
    assert caplog.messages == [f"recorder: the recording was renamed, deleted or truncated: began {path}"]


def test_recorder_writes_on_to_a_device(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    recorder = Recorder(HarWriter(Path("/dev/null")), Redactor(b"key"))

    recorder.record(an_exchange())
    recorder.record(an_exchange())
    recorder.close()

    assert caplog.messages == []


def test_recorder_stops_once_when_its_folder_was_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recorder = Recorder(HarWriter(folder / "week.har"), Redactor(b"key"))
    shutil.rmtree(folder)

    recorder.record(an_exchange())
    recorder.record(an_exchange())
    recorder.close()

    assert caplog.messages == [
        f"recorder: write failed, recording stopped: {folder / 'week.har'}: No such file or directory"
    ]


def test_recorder_stops_once_when_a_full_file_has_no_successor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recorder = Recorder(HarWriter(folder / "week.har", limit=1), Redactor(b"key"))
    shutil.rmtree(folder)

    recorder.record(an_exchange())
    with (tmp_path / "other").open("wb") as other:  # it gets the descriptor that the recorder closed
        recorder.record(an_exchange())
        recorder.close()
        other.write(b"other")

    assert (tmp_path / "other").read_bytes() == b"other"
    assert caplog.messages == [
        f"recorder: write failed, recording stopped: {folder / 'week.har'}: No such file or directory"
    ]


def test_har_writer_keeps_existing_and_open_files(tmp_path: Path) -> None:
    first = HarWriter(tmp_path / "week.har")
    first.append(an_exchange(), None)
    second = HarWriter(tmp_path / "week.har")
    assert second.path.name == "week-2.har"
    first.close()
    third = HarWriter(tmp_path / "week.har")
    second.close()
    third.close()

    assert len(list(tmp_path.glob("week-2*T*Z.har"))) == 1
    assert sum(len(har_format.read(file).exchanges) for file in tmp_path.glob("week-*T*Z.har")) == 1


WRITES = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from feedproxy.lab.record.har_writer import HarWriter
from tests.lab.exchanges import AT, an_exchange
writer = HarWriter(Path(sys.argv[1]))
number = 0
while True:
    writer.append(an_exchange(at=AT + number, asked=[("X-Padding", "x" * 20000)]), None)
    number += 1
    print(number, flush=True)
"""


def test_har_writer_that_is_killed_leaves_readable_file(tmp_path: Path) -> None:
    file = tmp_path / "week.har"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(file), str(ROOT)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    written = 0
    for line in process.stdout:
        written = int(line)
        if written == 50:
            process.kill()
    process.wait(PATIENCE)
    process.stdout.close()

    assert len(har_format.read(file).exchanges) >= written


def test_har_writer_repeats_content_beyond_digest_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(har_writer, "DIGESTS_MAX", 3)
    made = HarWriter(tmp_path / "week.har")
    contents = [b"content %d" % number for number in (0, 1, 2, 3, 0, 3)]
    for number, content in enumerate(contents):
        made.append(an_exchange(at=AT + number, digest=content_digest(content), size=9), content)
    made.close()

    found = har_format.read(tmp_path / "week.har")
    assert [found.content(exchange) for exchange in found.exchanges] == contents
    assert (tmp_path / "week.har").read_bytes().count(b'"text":"content 0"') == 2
    assert (tmp_path / "week.har").read_bytes().count(b'"text":"content 3"') == 1
