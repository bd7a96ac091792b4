"""Differential fuzzing: the fast path and mitmproxy get the same bytes and must give the same responses.

    python -m tests.fuzz.requests --seed 1 --seconds 60
    python -m tests.fuzz.requests --seed 1 --case 1234     one case again, with everything that was sent

Both listeners belong to one service with the same stored feeds, and the clock does not advance. A case contains all
bytes of one connection: well-formed or mutated requests, pipelined and split into pieces. After the last byte the
client closes its sending side. The responses (status, reason, fields, content) and the way the connection ends are
compared. These differences are permitted:

* `Connection: close` and the order of fields: the fast path announces that it closes, mitmproxy only closes.
* The proxy's own address if a request has none (HTTP/1.0 without Host), since each listener has its own port.
* `collapsed` in Cache-Status: both requests are concurrent, and one refresh answers both.
* Bytes lost by a reset: bytes after a request that ends the connection (`Connection: close`, a refused head) may arrive
  at a closed socket. Bytes that arrived before a reset must be the beginning of the other listener's bytes.
"""

import argparse
import asyncio
import calendar
import random
import re
import sys
import time
from dataclasses import dataclass

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields, Request, Response
from tests.stages.front import OnFront
from tests.stages.origin import a_feed

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))
PATIENCE = 20.0

METHODS = [b"GET"] * 8 + [b"HEAD"] * 3 + [b"POST", b"OPTIONS", b"TRACE", b"get", b"G\0T", b"PUT", b""]
VERSIONS = (
    [b"HTTP/1.1"] * 12 + [b"HTTP/1.0"] * 2 + [b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 ", b""]
)
FIELD_LINES = [
    b"User-Agent: Reader/%d",
    b"Accept-Encoding: gzip",
    b"Accept-Encoding: br;q=0.5, gzip",
    b"Accept: text/html",
    b"Accept-Language: de",
    b"If-None-Match: *",
    b'If-None-Match: "x", W/"y"',
    b"If-Modified-Since: Fri, 20 Nov 2026 12:00:00 GMT",
    b"Cache-Control: max-age=0",
    b"Cache-Control: only-if-cached",
    b"Cache-Control: max-stale",
    b"Pragma: no-cache",
    b"Range: bytes=0-%d",
    b"Range: bytes=-5",
    b"If-Range: x",
    b"Connection: keep-alive",
    b"Connection: close",
    b"Connection: X-A, keep-alive",
    b"X-Empty:",
    b"X-Tab:\t a \t",
    b"X-Text: caf\xe9",
    b"Origin: https://a.example",
    b"X-Forwarded-For: 192.0.2.%d",
    b"Via: 1.0 other",
]
ODD_LINES = [
    b"Host: other.example",
    b"X-A : b",
    b" folded",
    b"\tfolded: too",
    b"X-A: b\rX-B: c",
    b"X-A: \0",
    b"X-A: \x7f",
    b"X-A: \x1b[31m",
    b": b",
    b"no colon",
    b"X-Text",
    b"",
    b"Content-Length: 0",
    b"Content-Length: 3",
    b"Content-Length: +3",
    b"Content-Length: 3, 3",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Expect: 100-continue",
    b"Upgrade: h2c",
    b"TE: trailers",
    b"X\xe9: a",
    b"A-IM: feed",
    b"Trailer: X",
]
HOSTS = [b"Host: proxy.example"] * 10 + [b"", b"Host:", b"Host: a..b", b"Host: [::1]:80", b"host: PROXY.example:8080"]
CONTENTS = [b""] * 6 + [
    b"abc",
    b"3\r\nabc\r\n0\r\n\r\n",
    b"3\r\nabc\r\n0\r\nX: y\r\n\r\n",
    b"3;a\nabc\r\n0\r\n\r\n",
    b"\r\n",
]
ENDS = [b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n"]


@dataclass(frozen=True)
class Case:
    """All bytes of one connection."""

    pieces: tuple[bytes, ...]

    @property
    def bytes_said(self) -> bytes:
        return b"".join(self.pieces)


def a_case(seed: int, number: int, targets: list[bytes]) -> Case:
    """Return the case with this number; it depends on the seed only."""
    rng = random.Random(f"{seed}:{number}")
    data = b"".join(_request(rng, targets) for _ in range(rng.choice([1, 1, 1, 2, 3])))
    if rng.random() < 0.15 and data:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice([bytes([rng.randrange(256)]), b"", b"\r\n", b" "]) + data[at + rng.randrange(2) :]
    cuts = sorted(rng.sample(range(1, len(data)), min(rng.choice([0, 0, 1, 3]), len(data) - 1))) if data else []
    return Case(tuple(data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)))


def _request(rng: random.Random, targets: list[bytes]) -> bytes:
    odd = rng.random() < 0.4
    lines = [rng.choice(FIELD_LINES) for _ in range(rng.randrange(5))]
    lines = [line % rng.randrange(10) if b"%d" in line else line for line in lines]
    if odd and rng.random() < 0.7:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(ODD_LINES))
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(HOSTS) if odd else HOSTS[0])
    method, version = (rng.choice(METHODS), rng.choice(VERSIONS)) if odd else (rng.choice(METHODS[:11]), VERSIONS[0])
    start = b"%b %b %b" % (method, rng.choice(targets), version)
    data = b"".join(line + (rng.choice(ENDS) if odd else b"\r\n") for line in [start, *filter(None, lines), b""])
    return rng.choice([b"", b"", b"", b"\r\n"] if odd else [b""]) + data + (rng.choice(CONTENTS) if odd else b"")


async def played(base: str, case: Case) -> bytes:
    """Return all received bytes. The client closes its sending side after the last byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
    said = b""
    try:
        for number, piece in enumerate(case.pieces):
            if number:
                await asyncio.sleep(0.002)
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
        while more := await asyncio.wait_for(reader.read(65_536), PATIENCE):
            said += more
    except TimeoutError:
        said += b"(left open)"
    except OSError:
        said += b"(reset)"
    finally:
        writer.close()
    return said


def compared(said: bytes, base: str) -> bytes:
    """Return the responses without the permitted differences."""
    said = said.replace(base.encode(), b"*").replace(base.partition("//")[2].encode(), b"*")
    heads = re.split(rb"(HTTP/1\.1 [1-5][0-9]{2} [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n)", said)
    return b"".join(_sorted(part) if part.startswith(b"HTTP/1.1 ") else part for part in heads)


def _sorted(head: bytes) -> bytes:
    start, *lines = head[:-4].replace(b"; collapsed", b"").split(b"\r\n")
    kept = sorted(line for line in lines if line.lower() != b"connection: close")
    return b"\r\n".join([start, *kept]) + b"\r\n\r\n"


def is_same(fast: bytes, ordinary: bytes) -> bool:
    """Return True if both responses are equal, except for bytes lost by a reset."""
    shorter, longer = sorted((fast.removesuffix(b"(reset)"), ordinary.removesuffix(b"(reset)")), key=len)
    was_reset = b"(reset)" in fast + ordinary
    return longer.startswith(shorter) if was_reset else longer == shorter


@dataclass
class Difference:
    """Two responses that should be equal."""

    number: int
    case: Case
    fast: bytes
    ordinary: bytes

    def __str__(self) -> str:
        lines = [f"case {self.number}", *(f"  sent {piece!r}" for piece in self.case.pieces)]
        return "\n".join([*lines, f"  fast path: {self.fast!r}", f"  mitmproxy: {self.ordinary!r}"])


async def open_stage() -> tuple[OnFront, list[bytes]]:
    """Open a proxy with stored feeds and return it with the targets that cases request."""
    stage = OnFront(ManualClock(NOON), {"site_interval": 0})
    await stage.open()
    origin = stage.origin
    origin.publish("/feed.rss", a_feed("one", ttl=60))
    origin.publish("/page", b"a page", content_type="text/plain", cache_control="max-age=600", vary="Accept-Language")
    origin.publish("/gone", b"no", status=404, content_type="text/plain", cache_control="max-age=600")
    for method in ("POST", "PUT", "OPTIONS"):
        origin.methods[method] = _thanks
    paths = ["/feed.rss", "/page", "/gone"]
    targets = [f"/{origin.base}{path}".encode() for path in paths]
    targets += [f"{origin.base}{path}".encode() for path in paths]
    for language in (b"", b"Accept-Language: de\r\n"):
        for target in targets:
            await played(stage.base, Case((b"GET %b HTTP/1.1\r\nHost: proxy.example\r\n%b\r\n" % (target, language),)))
    targets += [b"/", b"/robots.txt", b"/-/nothing", b"/-/feeds.opml", b"*", b"/a b", b"/\x01", b"/http://[::1/", b"x"]
    return stage, targets * 2 + targets[:6] * 6


def _thanks(request: Request) -> Response:
    # An error response invalidates no stored response (RFC 9111, section 4.4).
    return Response(403, Fields([("Content-Type", "text/plain")]), request.method.encode())


async def run(seed: int, seconds: float, cases: int = 0, only: int | None = None) -> tuple[int, Difference | None]:
    """Run cases until the time or the number of cases is exhausted. Return their number and the first difference."""
    stage, targets = await open_stage()
    try:
        number, end = only or 0, time.monotonic() + seconds
        while time.monotonic() < end and (not cases or number < cases):
            case = a_case(seed, number, targets)
            fast, ordinary = await asyncio.gather(played(stage.base, case), played(stage.ordinary, case))
            same = is_same(compared(fast, stage.base), compared(ordinary, stage.ordinary))
            if not same or only is not None:
                return number, Difference(number, case, fast, ordinary)
            number += 1
        return number, None
    finally:
        await stage.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Differential fuzzing of the fast path against mitmproxy's path.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--case", type=int, help="play this one alone, and show what was said")
    given = parser.parse_args()
    count, difference = asyncio.run(run(given.seed, given.seconds, only=given.case))
    if difference is not None:
        sys.stdout.write(f"{difference}\n")
        return 0 if given.case is not None else 1
    sys.stdout.write(f"seed {given.seed}: {count} cases, no difference\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
