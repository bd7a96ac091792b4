"""Single requests, which check that a server's response is right before it is measured."""

import gzip
import http.client
import ssl
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import feed
from benchmarks.peers import Server
from benchmarks.rows import Row


class Unequal(Exception):
    """Error for a response that differs from the response that all servers must give."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its status, its fields with lower-case names, its content as sent, and its size in bytes on the
    wire."""

    status: int
    fields: Mapping[str, str]
    content: bytes
    size: int


@contextmanager
def connected(port: int, tls: bool = False) -> Iterator[http.client.HTTPConnection]:
    """Yield a connection to this port on loopback."""
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        made: http.client.HTTPConnection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    else:
        made = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        yield made
    finally:
        made.close()


def get(connection: http.client.HTTPConnection, path: str, fields: Mapping[str, str]) -> Answer:
    """Return the response to a GET. Raises OSError, HTTPException."""
    connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
    for name, value in fields.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    lines = [f"{name}: {value}\r\n" for name, value in answer.getheaders()]
    head = len(f"HTTP/1.1 {answer.status} {answer.reason}\r\n\r\n") + sum(map(len, lines))
    named = {name.lower(): value for name, value in answer.getheaders()}
    return Answer(answer.status, named, content, head + len(content))


def asked(origin: int) -> int:
    """Return the number of requests for feeds that the origin at the port `origin` has received."""
    with connected(origin) as connection:
        return int(get(connection, "/asked", {}).content)


def verify(server: Server, row: Row, name: str = "1") -> tuple[str, Answer]:
    """Return the entity tag of this server's copy, and its response to this row's request. Raises Unequal."""
    port = server.tls_port if row.tls else server.port
    assert port is not None
    with connected(port, row.tls) as connection:
        plain = {each: value for each, value in row.fields("").items() if each != "If-None-Match"}
        whole = get(connection, feed.path(name), plain)
        coding = whole.fields.get("content-encoding", "identity")
        expected = "gzip" if row.gzip else "identity"
        if whole.status != 200 or coding != expected:
            raise Unequal(f"{server.name}, {row.title}: {whole.status} {coding}, not 200 {expected}")
        content = gzip.decompress(whole.content) if coding == "gzip" else whole.content
        if content != feed.feed(name):
            raise Unequal(f"{server.name}, {row.title}: another content ({len(content)} bytes decoded)")
        tag = whole.fields.get("etag", "")
        if not server.caches:
            return tag, whole
        known = get(connection, feed.path(name), {**plain, "If-None-Match": tag})
        if not tag or known.status != 304 or known.fields.get("etag", tag) != tag:
            raise Unequal(f"{server.name}, {row.title}: {known.status} to its own tag {tag!r}, not 304")
    return tag, known if row.not_modified else whole


def warm(server: Server, row: Row, until: float, at_once: int = 8) -> None:
    """Make the server fetch all feeds of this row before `until` (monotonic). Raises Unequal."""

    def some(first: int) -> None:
        with connected(server.port) as connection:
            for number in range(first, row.count + 1, at_once):
                if time.monotonic() > until:
                    raise Unequal(f"{server.name} has fetched {number} of {row.count} feeds within the time limit")
                answer = get(connection, feed.path(str(number)), row.fields(""))
                if answer.status != 200:
                    raise Unequal(f"{server.name}: {answer.status} for feed {number}")

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(some, range(1, at_once + 1)))
