"""Parser and writer of HAR 1.2.

If several entries have equal content, the first contains the content, and the others name its digest
(`_feedproxy.digest`). Contents are decoded, as HAR requires, unless their Content-Encoding is wrong (`_feedproxy.raw`).
An entry without the object `_feedproxy` comes from another tool, and counts as an exchange with an origin.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urldefrag, urlsplit

from msgspec.structs import replace

from feedproxy import __version__
from feedproxy.clock import Instant
from feedproxy.errors import BadTarget, UsageError
from feedproxy.feed.encoding_detection import declared_encoding
from feedproxy.http import uri
from feedproxy.http.field_values import charset_of
from feedproxy.http.hop_by_hop import HOP_BY_HOP
from feedproxy.http.message import Fields, Request
from feedproxy.lab.record.exchange import Exchange, Recording, Side, content_digest

OWN_KEY = "_feedproxy"

_YEARS = range(1970, 2100)
"""Years of valid times. 1970 is valid, because a clock that was not set usually states it."""

HEAD = (
    '{"log":{"version":"1.2","creator":{"name":"feedproxy","version":' + json.dumps(__version__) + '},"entries":[\n'
).encode()
TAIL = b"\n]}}\n"
"""Closing brackets at the end of an unfinished file. The next entry replaces these brackets."""
SEPARATOR = b",\n"
"""Separator of entries. Each entry is one line, so that an unfinished file can be read by lines."""

_END_PATTERN = re.compile(rb'\A\],"_feedproxy":\{"until":"([0-9T:.Z-]{1,40})"\}\}\}')
_LINE_BREAKS = re.compile(r"[\r\n]+")
_USER_INFORMATION = re.compile(r"\A([a-z]+://)[^/?]*@", re.IGNORECASE)
_OWN_PREFIX = b'{"log":{"version":"1.2","creator":{"name":"feedproxy",'


def closing_tail(until: Instant) -> bytes:
    """Return the end of a finished file, which replaces TAIL. `until` is the end of the recording."""
    return f'\n],"{OWN_KEY}":{{"until":"{_format_instant(until)}"}}}}}}\n'.encode()


def entry_line(exchange: Exchange, content: bytes | None) -> bytes:
    """Return an exchange as an item of HAR's list `entries`, in one line of JSON. `content` is None if an earlier entry
    contains the content, or no content was stored."""
    request, fields = exchange.request, exchange.fields
    milliseconds = round(exchange.seconds * 1000, 3)
    document: dict[str, Any] = {
        "startedDateTime": _format_instant(exchange.at),
        "time": milliseconds,
        "request": {
            "method": request.method,
            "url": request.target,
            "httpVersion": exchange.version,
            "cookies": [],
            "headers": _header_list(request.fields),
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
            "headers": _header_list(fields),
            "content": _content_object(exchange, content),
            "redirectURL": fields.get("location") or "",
            "headersSize": -1,
            "bodySize": exchange.size,
        },
        "cache": {},
        "timings": {"send": 0, "wait": milliseconds, "receive": 0},
    }
    if exchange.connection:
        document["connection"] = exchange.connection
    if exchange.failure:
        document["response"]["_error"] = exchange.failure
    document[OWN_KEY] = _extension(exchange)
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def _extension(exchange: Exchange) -> dict[str, Any]:
    extension = {
        "side": str(exchange.side),
        "digest": exchange.digest,
        "raw": exchange.raw,
        "reader": exchange.reader,
        "entrance": exchange.entrance,
        "public": exchange.public,
        "faults": list(exchange.faults),
    }
    return {name: value for name, value in extension.items() if value}


def _content_object(exchange: Exchange, content: bytes | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "size": exchange.size if content is None else len(content),
        "mimeType": exchange.fields.get("content-type") or "",
    }
    if content is None:
        return document
    if content.isascii():
        return {**document, "text": content.decode("ascii")}
    return {**document, "text": base64.b64encode(content).decode("ascii"), "encoding": "base64"}


def _header_list(fields: Fields) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in fields]


def _format_instant(instant: Instant) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# -- reading


def read(path: Path) -> Recording:
    """Return the recording in a file. For an unfinished file, it has all complete entries. Raises UsageError if the
    file is no valid HAR file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    return parse(data, str(path))


def parse(data: bytes, name: str = "the recording") -> Recording:
    """Return the recording in `data`. If it is invalid, raises UsageError with a message that begins with `name`."""
    # Another tool may have saved the file with other line breaks.
    if data.startswith(_OWN_PREFIX) and data[: data.find(b"\n") + 1].endswith(b'"entries":[\n'):
        return replace(_build_recording(_entries_by_line(data), name), until=_parse_end(data))
    try:
        document = json.loads(data)
        entries = _member(document, "log.entries", list)
        until = _parse_instant(_member(document, f"log.{OWN_KEY}.until", str, ""))
    except RecursionError as error:
        raise UsageError(f"{name}: not a HAR file: its JSON is nested too deeply") from error
    except ValueError as error:
        raise UsageError(f"{name}: not a HAR file: {error}") from error
    return replace(_build_recording(entries, name), until=until)


def _entries_by_line(data: bytes) -> Iterable[Mapping[str, Any]]:
    for line in data.split(b"\n")[1:]:
        if not line.startswith(b"{"):
            return
        try:
            yield json.loads(line.removesuffix(b","))
        except (ValueError, RecursionError):
            return  # the last line of an incomplete file


def _parse_end(data: bytes) -> Instant:
    """Return the time when the recording ended, or 0 for an unfinished file."""
    match = _END_PATTERN.match(data[data.rfind(b"\n]") + 1 :])
    return _parse_instant(match[1].decode()) if match else 0.0


def _parse_instant(text: str) -> Instant:
    """Return the Unix time of an ISO 8601 time, or 0 if it is invalid."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _build_recording(entries: Iterable[Mapping[str, Any]], name: str) -> Recording:
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}
    invalid_target = ""
    for number, har_entry in enumerate(entries, start=1):
        try:
            exchange, content = _parse_exchange(har_entry)
        except (ValueError, OverflowError, BadTarget) as error:
            problem = f"{name}: entry {number} is invalid: {error}"
            if isinstance(error, BadTarget) or _has_other_scheme(har_entry):
                invalid_target = invalid_target or problem
                continue
            raise UsageError(problem) from error
        exchanges.append(exchange)
        if content:
            contents[exchange.digest] = content
    if invalid_target and not exchanges:
        raise UsageError(invalid_target)
    return Recording(tuple(sorted(exchanges, key=lambda exchange: exchange.at)), contents)


def _has_other_scheme(har_entry: Any) -> bool:
    """Return True if another tool made the entry, for a URL that is neither http nor https, such as `data:`."""
    if not isinstance(har_entry, Mapping) or OWN_KEY in har_entry:
        return False
    request = har_entry.get("request")
    url = request.get("url") if isinstance(request, Mapping) else None
    return isinstance(url, str) and not url.startswith("http")


def _parse_exchange(entry: Any) -> tuple[Exchange, bytes]:
    """Return the exchange of an entry, and its content. Raises ValueError, OverflowError or BadTarget for an invalid
    entry."""
    extension = _member(entry, OWN_KEY, dict, {})
    fields = _parse_fields(entry, "response.headers")
    content = _content_bytes(_member(entry, "response.content", dict, {}), fields)
    started, url = datetime.fromisoformat(_member(entry, "startedDateTime", str)), _member(entry, "request.url", str)
    if started.year not in _YEARS:
        raise ValueError(f"startedDateTime: expected a year from {_YEARS[0]} to {_YEARS[-1]}")
    urlsplit(url)  # an invalid URL raises ValueError
    if not url.isprintable():
        raise ValueError("request.url: expected no control characters")  # a terminal would obey them
    # Addresses in other tools' files may contain a user name and a password.
    target = url if extension else uri.normalise(_USER_INFORMATION.sub(r"\1", urldefrag(url)[0]))
    exchange = Exchange(
        side=Side(_member(extension, "side", str, str(Side.ORIGIN))),
        at=started.timestamp(),
        request=Request(
            _member(entry, "request.method", str),
            target,
            _parse_fields(entry, "request.headers"),
        ),
        status=max(0, int(_member(entry, "response.status", float, 0.0))),
        fields=fields,
        reason=_LINE_BREAKS.sub(" ", _member(entry, "response.statusText", str, "")),
        digest=_member(extension, "digest", str, "") if extension else content_digest(content),
        size=_body_size(_member(entry, "response", dict, {}), content),
        seconds=max(0.0, _member(entry, "time", float, 0.0)) / 1000,
        reader=_member(extension, "reader", str, ""),
        connection=str(entry.get("connection") or "") if extension else _connection(entry, target),
        version=_member(entry, "request.httpVersion", str, "") or "HTTP/1.1",
        entrance=_member(extension, "entrance", str, ""),
        public=_member(extension, "public", str, ""),
        raw=_member(extension, "raw", bool, False),
        faults=tuple(map(str, _member(extension, "faults", list, []))),
        failure=_member(entry, "response._error", str, ""),
        is_unsent=not extension and (_is_cached(entry) or _is_blocked(entry)),
    )
    if exchange.status > 999:
        raise ValueError(f"response.status: {exchange.status:.4g}: expected a number of three digits")
    return exchange, content


def _connection(entry: Any, target: str) -> str:
    """Return the identifier of the connection in another tool's entry, or "" if it is unknown. A number equal to the
    server's port, which Firefox states, identifies no connection."""
    connection = str(entry.get("connection") or "")
    return "" if connection == str(uri.split_host_port(target)[1]) else connection


def _is_cached(entry: Any) -> bool:
    """Return True if a browser answered from its own cache and sent no request.

    Chrome states this in `_fromCache`, and Safari in `_fetchType`. Firefox sets `cache.afterRequest` to null and leaves
    out `cache.beforeRequest`. If both members are present, null means that the cache stored no answer (HAR 1.2).
    """
    cache = _member(entry, "cache", dict, {})
    return (
        bool(entry.get("_fromCache"))
        or str(entry.get("_fetchType")).endswith("Cache")
        or ("beforeRequest" not in cache and cache.get("afterRequest", ...) is None)
    )


def _is_blocked(entry: Any) -> bool:
    """Return True if a browser blocked a request, or if the request failed before there was a connection. Chrome then
    states status 0 and an empty address of the server. Other tools state no address of the server."""
    return not _member(entry, "response.status", float, 0.0) and entry.get("serverIPAddress") == ""


def _body_size(response: Any, content: bytes) -> int:
    """Return the size of a response's content on the wire, in bytes. If HAR states that the size is unknown (-1),
    return the size of the decoded content, minus the bytes that compression saved."""
    if (size := _member(response, "bodySize", float, -1.0)) >= 0:
        return int(size)
    decoded = _member(response, "content.size", float, 0.0) or len(content)
    return max(0, int(decoded - _member(response, "content.compression", float, 0.0)))


_KINDS = {str: "a string", float: "a number", bool: "true or false", list: "a list", dict: "an object"}
_REQUIRED: Any = object()


def _member(document: Any, path: str, kind: type, default: Any = _REQUIRED) -> Any:
    """Return the member of a JSON document at a path such as `request.url`. If it is missing or null, return `default`.
    Raises ValueError if it is not of the type `kind`, or if it is missing and there is no `default`."""
    value = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None and default is not _REQUIRED:
        return default
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{path}: expected {_KINDS[kind]}")
    # JSON can contain half of a surrogate pair, which no output can.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _parse_fields(entry: Any, path: str) -> Fields:
    lines = _member(entry, path, list, [])
    # Tools that use the protocol of Chrome's developer tools join equal fields by line feeds.
    pairs = (
        (_member(line, "name", str), value)
        for line in lines
        for value in _LINE_BREAKS.split(_member(line, "value", str))
    )
    # Browsers write the pseudo-fields of HTTP/2, such as `:authority`, among the other fields.
    return Fields((name, value) for name, value in pairs if not name.startswith(":") and name.lower() not in HOP_BY_HOP)


def _content_bytes(content: Mapping[str, Any], fields: Fields) -> bytes:
    text: str = _member(content, "text", str, "")
    if content.get("encoding") == "base64":
        try:
            return base64.b64decode(text, validate=False)
        except binascii.Error as error:
            raise ValueError(f"response.content.text: invalid base64: {error}") from error
    if text.isascii():
        return text.encode("ascii")
    beginning = text[:200].encode("ascii", "replace")
    for charset in (charset_of(fields.get("content-type")), declared_encoding(beginning)):
        try:
            return text.encode(charset or "utf-8")
        except (LookupError, UnicodeError):
            continue
    return text.encode()
