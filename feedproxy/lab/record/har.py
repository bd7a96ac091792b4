"""HAR 1.2, written and read: the form that browsers' tools and mitmproxy open.

A content stands in the entry that had it first, as base64 unless it is ASCII, so that every tool finds the bytes
that came. Later entries name it by its digest (`_feedproxy.digest`). HAR has no place for who asked, on which
side, and what a replay did to an answer: that is `_feedproxy`, too. An entry without it, from any other tool, is an
exchange with an origin.

Contents are decoded, as HAR has them, and the fields tell how they were coded. Only where Content-Encoding is not
true are they the body as it came (`_feedproxy.raw`).
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urldefrag, urlsplit

from feedproxy import __version__
from feedproxy.clock import Instant
from feedproxy.errors import BadTarget, UsageError
from feedproxy.feed.charset import declared_encoding
from feedproxy.http import uri
from feedproxy.http.field_values import parse_parameters
from feedproxy.http.message import HOP_BY_HOP, Fields, Request
from feedproxy.lab.record.exchange import Exchange, Recording, Side, digest_of

OWN_KEY = "_feedproxy"

HEAD = (
    '{"log":{"version":"1.2","creator":{"name":"feedproxy","version":' + json.dumps(__version__) + '},"entries":[\n'
).encode()
TAIL = b"\n]}}\n"
"""Of a file that may yet grow."""
SEPARATOR = b",\n"
"""One entry a line: what remains of a file that broke off can be read by lines."""

_UNTIL = re.compile(rb'\A\],"_feedproxy":\{"until":"([0-9T:.Z-]{1,40})"\}\}\}')
_BEGINS = b'{"log":{"version":"1.2","creator":{"name":"feedproxy",'


def closing_tail(until: Instant) -> bytes:
    """What stands behind the last entry of a file that is done, in the place of TAIL."""
    return f'\n],"{OWN_KEY}":{{"until":"{_iso(until)}"}}}}}}\n'.encode()


def entry_line(exchange: Exchange, content: bytes | None) -> bytes:
    """An exchange as a line of JSON; `content` is None where it stands elsewhere, or nowhere."""
    return json.dumps(entry(exchange, content), ensure_ascii=True, separators=(",", ":")).encode()


def dump_recording(recording: Recording) -> bytes:
    """A whole HAR document."""
    told: set[str] = set()
    lines = []
    for exchange in recording.exchanges:
        new = exchange.digest in recording.contents and exchange.digest not in told
        told.add(exchange.digest)
        lines.append(entry_line(exchange, recording.contents[exchange.digest] if new else None))
    return HEAD + SEPARATOR.join(lines) + (closing_tail(recording.until) if recording.until else TAIL)


def entry(exchange: Exchange, content: bytes | None) -> dict[str, Any]:
    """An exchange as HAR's `entries` have it."""
    request, fields = exchange.request, exchange.fields
    milliseconds = round(exchange.seconds * 1000, 3)
    made: dict[str, Any] = {
        "startedDateTime": _iso(exchange.at),
        "time": milliseconds,
        "request": {
            "method": request.method,
            "url": request.target,
            "httpVersion": exchange.version,
            "cookies": [],
            "headers": _lines(request.fields),
            "queryString": [
                {"name": name, "value": value}
                for name, value in parse_qsl(urlsplit(request.target).query, keep_blank_values=True)
            ],
            "headersSize": -1,
            "bodySize": 0,
        },
        "response": {
            "status": exchange.status,
            "statusText": exchange.reason,
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _lines(fields),
            "content": _content(exchange, content),
            "redirectURL": fields.get("location") or "",
            "headersSize": -1,
            "bodySize": exchange.size,
        },
        "cache": {},
        "timings": {"send": 0, "wait": milliseconds, "receive": 0},
    }
    if exchange.connection:
        made["connection"] = exchange.connection
    if exchange.failure:
        made["response"]["_error"] = exchange.failure
    made[OWN_KEY] = _own(exchange)
    return made


def _own(exchange: Exchange) -> dict[str, Any]:
    own = {
        "side": str(exchange.side),
        "digest": exchange.digest,
        "raw": exchange.raw,
        "reader": exchange.reader,
        "entrance": exchange.entrance,
        "public": exchange.public,
        "faults": list(exchange.faults),
    }
    return {name: value for name, value in own.items() if value}


def _content(exchange: Exchange, content: bytes | None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "size": exchange.size if content is None else len(content),
        "mimeType": exchange.fields.get("content-type") or "",
    }
    if content is None:
        return made
    if content.isascii():
        return {**made, "text": content.decode("ascii")}
    return {**made, "text": base64.b64encode(content).decode("ascii"), "encoding": "base64"}


def _lines(fields: Fields) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in fields]


def _iso(instant: Instant) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# -- reading


def read(path: Path) -> Recording:
    """The recording in a file; of one of ours that broke off, all that is whole. Raises UsageError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    return parse(data, str(path))


def parse(data: bytes, name: str = "the recording") -> Recording:
    """The recording in these bytes. Raises UsageError, which begins with `name`."""
    if data.startswith(_BEGINS):
        return replace(_recording(_entries_by_line(data), name), until=_until(data))
    try:
        entries = json.loads(data)["log"]["entries"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{name}: no HAR file: {error}") from error
    if not isinstance(entries, list):
        raise UsageError(f"{name}: no HAR file: its entries are no list")
    return _recording(entries, name)


def _entries_by_line(data: bytes) -> Iterable[Mapping[str, Any]]:
    for line in data.split(b"\n")[1:]:
        if not line.startswith(b"{"):
            return
        try:
            yield json.loads(line.removesuffix(b","))
        except ValueError:
            return  # the last line of a file that broke off


def _until(data: bytes) -> Instant:
    """When a file of ours was closed; 0 where it was not."""
    found = _UNTIL.match(data[data.rfind(b"\n]") + 1 :])
    try:
        return datetime.fromisoformat(found[1].decode()).timestamp() if found else 0.0
    except ValueError:
        return 0.0


def _recording(entries: Iterable[Mapping[str, Any]], name: str) -> Recording:
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}
    for number, each in enumerate(entries):
        try:
            exchange, content = _exchange(each)
        except (KeyError, TypeError, ValueError, AttributeError, BadTarget) as error:
            if OWN_KEY not in each and not str(each.get("request", {}).get("url", "http")).startswith("http"):
                continue  # browsers record data: and extensions' own, too
            raise UsageError(f"{name}: entry {number} cannot be read: {error}") from error
        exchanges.append(exchange)
        if content:
            contents[exchange.digest] = content
    return Recording(tuple(sorted(exchanges, key=lambda exchange: exchange.at)), contents)


def _exchange(found: Mapping[str, Any]) -> tuple[Exchange, bytes]:
    asked, answered, own = found["request"], found["response"], found.get(OWN_KEY) or {}
    fields = _fields(answered["headers"])
    content = _bytes(answered.get("content") or {}, fields)
    started = datetime.fromisoformat(found["startedDateTime"])
    target = asked["url"] if own else uri.normalise(urldefrag(asked["url"])[0])
    exchange = Exchange(
        side=Side(own.get("side", Side.ORIGIN)),
        at=started.timestamp(),
        request=Request(asked["method"], target, _fields(asked["headers"])),
        status=int(answered["status"]),
        fields=fields,
        reason=answered.get("statusText") or "",
        digest=own.get("digest", "") if own else digest_of(content),
        size=max(0, int(answered.get("bodySize") or 0)),
        seconds=max(0.0, float(found.get("time") or 0)) / 1000,
        reader=own.get("reader", ""),
        connection=str(found.get("connection") or ""),
        version=asked.get("httpVersion") or "HTTP/1.1",
        entrance=own.get("entrance", ""),
        public=own.get("public", ""),
        raw=bool(own.get("raw")),
        faults=tuple(own.get("faults", ())),
        failure=answered.get("_error") or "",
    )
    return exchange, content


def _fields(lines: Iterable[Any]) -> Fields:
    named = ((each["name"], each["value"]) for each in lines)
    # Browsers write HTTP/2's pseudo-fields (`:authority`) among the others.
    return Fields((name, value) for name, value in named if not name.startswith(":") and name.lower() not in HOP_BY_HOP)


def _bytes(content: Mapping[str, Any], fields: Fields) -> bytes:
    text = content.get("text") or ""
    if content.get("encoding") == "base64":
        try:
            return base64.b64decode(text, validate=False)
        except binascii.Error as error:
            raise ValueError(f"its content is no base64: {error}") from error
    if text.isascii():
        return str(text).encode("ascii")
    _, parameters = parse_parameters(fields.get("content-type") or "")
    beginning = str(text[:200]).encode("ascii", "replace")
    for charset in (parameters.get("charset"), declared_encoding(beginning), "utf-8"):
        try:
            return str(text).encode(charset or "utf-8")
        except (LookupError, UnicodeError):
            continue
    return str(text).encode("utf-8", "surrogatepass")
