"""A check for growth: the resources of a proxy during mixed load for some minutes.

    python -m benchmarks.soak [--minutes 15] [--rate 100] [--feeds 40] [--seed 1]

The load consists of readers of changing feeds, conditional or not, through gateway and explicit proxy; conversions;
malformed and interrupted requests; CONNECT tunnels; intercepted tunnels by HTTP/1.1 and HTTP/2, with reset streams; and
streaming POSTs. The resources of the process and its helper are printed periodically.

The warm-up is two thirds of the time, at most ten minutes, because the caches of conversions and of readers' behaviour
are full after some 60,000 requests. The result is flat if, after the warm-up, the numbers of descriptors and threads
grow by at most `SURPLUS_MAX`, and memory grows by less than `GROWTH_MAX` per minute. The growth of memory is the median
of the slopes between any two samples (Theil and Sen), which hardly changes when a helper process has just been
replaced. The exit code is 0 for a flat result, and 1 otherwise.
"""

import argparse
import contextlib
import itertools
import os
import random
import re
import socket
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import h2.config
import h2.connection
import h2.events
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from h2.errors import ErrorCodes

from benchmarks.load import family, parents, processes
from conformance.process import free_port, started

GROWTH_MAX = 0.5
"""Largest growth of memory of all processes after the warm-up, in MB per minute. The noise of a run of 15 minutes is a
tenth of it."""

SURPLUS_MAX = 12
"""Largest growth of the numbers of descriptors and threads after the warm-up. Both vary with the number of open
connections."""

CHANGE_EVERY = 2.0
"""Seconds between two new items in a feed of the origin."""

READERS = 10
"""Number of User-Agents. With so few, the state of readers and feeds reaches its limits during the warm-up."""

UNKNOWN = 50
"""Number of addresses without a feed. They are few, so that their state reaches its limits during the warm-up, too."""

PATIENCE = 30.0


def a_feed(number: int, version: int) -> bytes:
    """Return a feed of 30 items. Each version has one new item."""
    items = "".join(
        f"<item><title>Item {each} of feed {number}</title><guid isPermaLink='false'>tag:{number}:{each}</guid>"
        f"<link>http://origin.example/{number}/{each}</link><description>{'word ' * 60}{each}</description></item>"
        for each in range(version + 30, version, -1)
    )
    return (
        f"<?xml version='1.0'?><rss version='2.0'><channel><title>Feed {number}</title><link>http://origin.example/"
        f"</link><description>Soak</description>{items}</channel></rss>"
    ).encode()


class Origin(BaseHTTPRequestHandler):
    """An origin with feeds that change by the clock, pages, and an address for POST."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the feed of a number."""
        found = re.search(r"/(\d+)", self.path)
        number = int(found[1]) if found else 0
        version = int((time.time() + number) / CHANGE_EVERY) % 1_000_000
        tag = f'"{number}-{version}"'
        if self.headers.get("If-None-Match") == tag:
            self._answer(304, b"", tag)
        elif number % 50 == 7 and version % 3 == 0:
            self._answer(500, b"broken", tag)
        else:
            self._answer(200, a_feed(number, version), tag)

    def do_POST(self) -> None:
        """Accept the content."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(200, b"thanks", '"post"', kind="text/plain")

    def _answer(self, status: int, body: bytes, tag: str, kind: str = "application/rss+xml") -> None:
        self.send_response(status)
        fields = {"Content-Type": kind, "ETag": tag, "Cache-Control": "max-age=5", "Last-Modified": formatdate()}
        for name, value in fields.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore closed connections."""


def certificate(folder: Path) -> Path:
    """Return a file with a self-signed certificate for `localhost` and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file = folder / "origin.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, form, plain))
    return file


def serve(stack: contextlib.ExitStack, secured: Path | None = None) -> int:
    """Start an origin. Return its port."""
    server = _Server(("127.0.0.1", 0), Origin)
    if secured is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(secured)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stack.callback(server.shutdown)
    return int(server.server_address[1])


@dataclass(frozen=True, slots=True)
class Sample:
    """The resources of the processes: seconds since the start, MB (in total, and of the proxy alone), descriptors,
    threads.

    `mapped` is the MB of files that the proxy has mapped: pages of the store, which the kernel may free at any time.
    """

    at: float
    memory: float
    own: float
    mapped: float
    descriptors: int
    threads: int


def sample(pid: int, began: float) -> Sample:
    """Return the resources of a process and its descendants."""
    memory = own = mapped = descriptors = threads = 0
    for each in family(pid, parents(processes())):
        with contextlib.suppress(OSError, KeyError):  # it has just ended
            status = dict(re.findall(r"^(Rss\w+):\s+(\d+) kB$", Path(f"/proc/{each}/status").read_text(), re.M))
            memory += int(status["RssAnon"])
            if each == pid:
                own, mapped = int(status["RssAnon"]), int(status["RssFile"])
            descriptors += len(os.listdir(f"/proc/{each}/fd"))
            threads += len(os.listdir(f"/proc/{each}/task"))
    return Sample(time.monotonic() - began, memory / 1e3, own / 1e3, mapped / 1e3, descriptors, threads)


def slope(samples: Sequence[Sample]) -> float:
    """Return the growth in MB per minute: the median of the slopes between any two of at least two samples."""
    pairs = itertools.combinations(samples, 2)
    return statistics.median((later.memory - first.memory) / (later.at - first.at) * 60 for first, later in pairs)


def verdict(samples: Sequence[Sample]) -> list[str]:
    """Return the resources that are not flat in the samples after the warm-up."""
    first, last = samples[0], samples[-1]
    grows = []
    if (minute := slope(samples)) > GROWTH_MAX:
        grows.append(f"memory: {minute:.2f} MB a minute")
    if last.descriptors > first.descriptors + SURPLUS_MAX:
        grows.append(f"descriptors: from {first.descriptors} to {last.descriptors}")
    if last.threads > first.threads + SURPLUS_MAX:
        grows.append(f"threads: from {first.threads} to {last.threads}")
    return grows


class Load:
    """The actions of clients. Each method is one kind of action, and does it once."""

    def __init__(self, proxy: int, origin: int, secure: int, feeds: int, context: Callable[[], ssl.SSLContext]) -> None:
        self._proxy = ("127.0.0.1", proxy)
        self._origin, self._secure_origin = origin, secure
        self._feeds = feeds
        self._context = context
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.statuses: Counter[str] = Counter()
        self.kinds: list[tuple[int, Callable[[random.Random], None]]] = [
            (60, self.gateway),
            (10, self.proxied),
            (5, self.converted),
            (5, self.unknown),
            (5, self.malformed),
            (3, self.broken_off),
            (3, self.posted),
            (3, self.tunnel),
            (4, self.intercepted),
            (2, self.intercepted_h2),
        ]

    def once(self, dice: random.Random) -> None:
        """Do one random action. Its probability is proportional to its weight."""
        (kind,) = dice.choices([each for _, each in self.kinds], [weight for weight, _ in self.kinds])
        try:
            kind(dice)
        except (OSError, ValueError, IndexError) as error:
            self.statuses[f"{kind.__name__}: {type(error).__name__}"] += 1

    def _feed(self, dice: random.Random) -> str:
        # Few feeds are read often, and many seldom.
        return f"http://127.0.0.1:{self._origin}/{int(self._feeds * dice.random() ** 2)}.rss"

    def _line(self) -> socket.socket:
        return socket.create_connection(self._proxy, PATIENCE)

    def _ask(self, wire: socket.socket, data: bytes) -> bytes:
        wire.sendall(data)
        head = b""
        while b"\r\n\r\n" not in head:
            if not (piece := wire.recv(65_536)):
                break
            head += piece
        head, _, body = head.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
        status = head[9:12].decode("latin-1")
        missing = 0 if status in ("304", "204") or length is None else int(length[1]) - len(body)
        while missing > 0 and (piece := wire.recv(65_536)):
            missing -= len(piece)
        self.statuses[status or "closed"] += 1
        return head

    def _request(self, dice: random.Random, target: str, method: str = "GET", *fields: str) -> bytes:
        agent = f"User-Agent: Reader-{dice.randrange(READERS)}/1.0"
        coding = dice.choice(["Accept-Encoding: gzip", "Accept-Encoding: br, gzip", "Accept: */*"])
        return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: soak", agent, coding, *fields, "", ""]).encode()

    def gateway(self, dice: random.Random) -> None:
        """Read a feed twice over one connection, the second time with If-None-Match."""
        with self._line() as wire:
            feed = "/" + self._feed(dice)
            head = self._ask(wire, self._request(dice, feed))
            if tag := re.search(rb"(?i)\netag: *([^\r]+)", head):
                self._ask(wire, self._request(dice, feed, "GET", f"If-None-Match: {tag[1].decode()}"))

    def proxied(self, dice: random.Random) -> None:
        """Read a feed in absolute-form, sometimes with no-cache."""
        fields = ["Cache-Control: no-cache"] if dice.random() < 0.1 else []
        with self._line() as wire:
            self._ask(wire, self._request(dice, self._feed(dice), "GET", "Connection: close", *fields))

    def converted(self, dice: random.Random) -> None:
        """Read a feed in another format."""
        with self._line() as wire:
            path = f"/-/as/{dice.choice(['json', 'atom', 'html', 'opml'])}/{self._feed(dice)}"
            self._ask(wire, self._request(dice, path, "GET", "Connection: close"))

    def unknown(self, dice: random.Random) -> None:
        """Request an address that is seldom read, or does not exist."""
        path = dice.choice(
            [f"/http://127.0.0.1:{self._origin}/?{dice.randrange(UNKNOWN)}", "/nothing", "/-/nothing", "/"]
        )
        with self._line() as wire:
            self._ask(wire, self._request(dice, path, "GET", "Connection: close"))

    def malformed(self, dice: random.Random) -> None:
        """Send a malformed request."""
        data = dice.choice(
            [
                b"\x16\x03\x01\x02\x00\x01" + dice.randbytes(200),
                b"GET /" + b"a" * dice.randrange(70_000) + b" HTTP/1.1\r\n\r\n",
                b"BREW /pot HTCPCP/1.0\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: " + dice.randbytes(40) + b"\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz",
                dice.randbytes(300) + b"\r\n\r\n",
            ]
        )
        with self._line() as wire:
            wire.sendall(data)
            wire.shutdown(socket.SHUT_WR)
            while wire.recv(65_536):
                pass
        self.statuses["malformed"] += 1

    def broken_off(self, dice: random.Random) -> None:
        """Close the connection during a request or a response."""
        data = self._request(dice, "/" + self._feed(dice))
        with self._line() as wire:
            wire.sendall(data[: dice.randrange(1, len(data) + 1)])
        self.statuses["broken off"] += 1

    def posted(self, dice: random.Random) -> None:
        """Send a POST through the proxy."""
        size = dice.randrange(20_000)
        with self._line() as wire:
            fields = [f"Content-Length: {size}", "Connection: close"]
            self._ask(wire, self._request(dice, "/" + self._feed(dice), "POST", *fields) + bytes(size))

    def _tunnel(self, host: str, port: int) -> socket.socket:
        wire, authority = self._line(), f"{host}:{port}"
        wire.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        if b" 200 " not in wire.recv(4096):
            wire.close()
            raise ValueError("no tunnel")
        return wire

    def tunnel(self, dice: random.Random) -> None:
        """Send a request through a CONNECT tunnel."""
        with self._tunnel("127.0.0.1", self._origin) as wire:
            for _ in range(dice.randrange(1, 4)):
                self._ask(wire, self._request(dice, "/1.rss"))

    def _secure(self, protocol: str) -> ssl.SSLSocket:
        if protocol not in self._contexts:
            self._contexts[protocol] = self._context()
            self._contexts[protocol].set_alpn_protocols([protocol])
        return self._contexts[protocol].wrap_socket(
            self._tunnel("localhost", self._secure_origin), server_hostname="localhost"
        )

    def intercepted(self, dice: random.Random) -> None:
        """Send a request through an intercepted tunnel."""
        with self._secure("http/1.1") as wire:
            request = self._request(dice, f"/{dice.randrange(self._feeds)}.rss")
            self._ask(wire, request.replace(b"Host: soak", f"Host: localhost:{self._secure_origin}".encode()))

    def intercepted_h2(self, dice: random.Random) -> None:
        """Send requests by HTTP/2 through an intercepted tunnel, and reset some of them."""
        with self._secure("h2") as wire:
            state = h2.connection.H2Connection(h2.config.H2Configuration())
            state.initiate_connection()
            wanted = set()
            for number in range(dice.randrange(1, 8)):
                stream = 2 * number + 1
                path = f"/{dice.randrange(self._feeds)}.rss"
                head = {
                    ":method": "GET",
                    ":scheme": "https",
                    ":authority": f"localhost:{self._secure_origin}",
                    ":path": path,
                }
                state.send_headers(stream, list(head.items()), end_stream=True)
                if dice.random() < 0.3:
                    state.reset_stream(stream, ErrorCodes.CANCEL)
                else:
                    wanted.add(stream)
            wire.sendall(state.data_to_send())
            while wanted:
                if not (data := wire.recv(65_536)):
                    break
                for event in state.receive_data(data):
                    if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                        state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    if isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                        wanted.discard(event.stream_id)
                        self.statuses["h2"] += 1
                wire.sendall(state.data_to_send())


def run(load: Load, rate: float, until: float, seed: int) -> None:
    """Run the load at this total rate, in a few threads, until `until`."""

    def client(number: int, each: float) -> None:
        dice = random.Random(seed * 1000 + number)
        while time.monotonic() < until:
            began = time.monotonic()
            load.once(dice)
            time.sleep(max(0.0, dice.expovariate(each) - (time.monotonic() - began)))

    number = max(4, min(24, int(rate / 8)))
    for each in range(number):
        threading.Thread(target=client, args=(each, rate / number), daemon=True).start()


def main() -> int:
    """Run the check, and print the resources that grew."""
    parser = argparse.ArgumentParser(prog="make soak SOAK_ARGS=…", description="Whether anything grows under load.")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--rate", type=float, default=100.0, help="connections a second")
    parser.add_argument("--feeds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the proxy")
    asked = parser.parse_args()
    seconds = asked.minutes * 60
    warm, every = min(600.0, seconds * 2 / 3), max(1.0, min(30.0, seconds / 30))

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pem = certificate(folder)
        origin, secure = serve(stack), serve(stack, pem)
        port, conf = free_port(), folder / "conf"
        options = [
            *("--listen", f"127.0.0.1:{port}", "--admin", "", "--store", str(folder / "store"), "--allow-private"),
            *("--set", f"confdir={conf}", "--set", "intercept=localhost", "--set", "site_interval=0"),
            *("--set", f"ssl_verify_upstream_trusted_ca={pem}", "--set", "feed_min_interval=5"),
            *("--set", "max_connections_per_address=0", "--set", "memory_max=16777216"),
            *(word for each in asked.set for word in ("--set", each)),
        ]
        command = [sys.executable, "-m", "feedproxy.cli", "serve", *options]
        log = folder / "log"
        server = stack.enter_context(started(command, port, log=log, cwd=folder))

        def context() -> ssl.SSLContext:
            return ssl.create_default_context(cafile=conf / "mitmproxy-ca-cert.pem")

        load = Load(port, origin, secure, asked.feeds, context)
        began = time.monotonic()
        run(load, asked.rate, began + seconds, asked.seed)
        samples = []
        print(
            f"{'minute':>7} {'MB':>8} {'own MB':>8} {'mapped':>8} {'descriptors':>12} {'threads':>8} {'requests':>9}",
            flush=True,
        )
        while (now := time.monotonic() - began) < seconds:
            time.sleep(min(every, max(0.1, seconds - now)))
            each = sample(server.pid, began)
            samples.append(each)
            done = sum(load.statuses.values())
            held = f"{each.memory:8.1f} {each.own:8.1f} {each.mapped:8.1f} {each.descriptors:12} {each.threads:8}"
            print(f"{each.at / 60:7.1f} {held} {done:9}", flush=True)
        later = [each for each in samples if each.at >= warm]
        grows = verdict(later) if len(later) > 1 else ["too short to tell"]
        errors = log.read_text(errors="replace").count("Traceback")
        print(f"\nafter {warm / 60:.1f} minutes: {slope(later):+.2f} MB a minute; limit {GROWTH_MAX}")
        print("answers: " + ", ".join(f"{name} {many}" for name, many in load.statuses.most_common()))
        if errors:
            grows.append(f"{errors} tracebacks in the log")
    print("flat" if not grows else "not flat: " + "; ".join(grows))
    return 1 if grows else 0


if __name__ == "__main__":
    sys.exit(main())
