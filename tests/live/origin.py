"""An origin on loopback with http and https: it publishes, delays and truncates pages, and records its requests."""

import hashlib
import ipaddress
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.waiting import NEVER, PATIENCE


def a_feed(*titles: str, extra: str = "", padding: int = 0) -> bytes:
    """Return an RSS 2.0 feed with these items and a comment of `padding` bytes."""
    items = "".join(
        f"<item><title>{each}</title><link>http://example.com/{each}</link><guid isPermaLink='false'>tag:{each}</guid>"
        f"<pubDate>Fri, 20 Nov 2026 12:00:00 GMT</pubDate><description>About {each}</description></item>"
        for each in titles
    )
    return (
        "<?xml version='1.0' encoding='utf-8'?>\n<rss version='2.0'><channel><title>News</title>"
        f"<link>http://example.com/</link><description>All the news</description>{extra}{items}</channel></rss>\n"
        + (f"<!--{'x' * padding}-->" if padding else "")
    ).encode()


@dataclass(frozen=True)
class Asked:
    """A request as the origin received it. `size` and `digest` are those of its content."""

    method: str
    path: str
    fields: Message
    secure: bool
    size: int
    digest: str

    @property
    def agent(self) -> str:
        return self.fields.get("User-Agent", "")


@dataclass
class Page:
    """The content at a path."""

    body: bytes
    status: int = 200
    fields: dict[str, str] = field(default_factory=dict)


type Scene = Callable[["Handler", Asked], None]
"""Something else than a page: writes its answer by itself."""


class Origin:
    """Serves pages with entity tags and records requests."""

    def __init__(self, authority: "Authority") -> None:
        self.pages: dict[str, Page] = {}
        self.scenes: dict[str, Scene] = {}
        self.log: list[Asked] = []
        self.changed = threading.Condition()
        self.http = _Server(self, None)
        self.https = _Server(self, authority.server_context())

    def publish(self, path: str, body: bytes, status: int = 200, **fields: str) -> None:
        """Publish a page. Names of fields have underscores instead of hyphens."""
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        named.setdefault("Content-Type", "application/rss+xml")
        if status == 200:
            named.setdefault("ETag", f'"{hashlib.sha256(body).hexdigest()[:12]}"')
        self.pages[path] = Page(body, status, named)

    def stage(self, path: str, scene: Scene) -> None:
        """Answer requests for a path by this function."""
        self.scenes[path] = scene

    def url(self, path: str, *, secure: bool = False, host: str = "127.0.0.1") -> str:
        """Return the address of a path."""
        server = self.https if secure else self.http
        return f"{'https' if secure else 'http'}://{host}:{server.server_port}{path}"

    def asked(self, path: str, *, method: str | None = None) -> list[Asked]:
        """Return the requests for a path, in order."""
        return [each for each in list(self.log) if each.path == path and method in (None, each.method)]

    def note(self, asked: Asked) -> None:
        with self.changed:
            self.log.append(asked)
            self.changed.notify_all()

    def wait_for(self, path: str, count: int = 1, *, deadline: float = PATIENCE) -> list[Asked]:
        """Wait until this number of requests for the path was received."""
        with self.changed:
            came = self.changed.wait_for(lambda: len(self.asked(path)) >= count, deadline)
        assert came, f"{path} was asked for {len(self.asked(path))} times only: {self.log}"
        return self.asked(path)

    def close(self) -> None:
        for server in (self.http, self.https):
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, origin: Origin, context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = origin
        self.context = context
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        # In the connection's own thread, so that a silent client delays no other.
        if self.context is not None:
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except OSError:
                return
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: clients abort connections on purpose."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _answer(self) -> None:
        origin = self.server.origin
        content = hashlib.sha256()
        size = 0
        for piece in self._content():
            content.update(piece)
            size += len(piece)
        asked = Asked(self.command, self.path, self.headers, self.server.context is not None, size, content.hexdigest())
        origin.note(asked)
        if scene := origin.scenes.get(self.path):
            scene(self, asked)
            return
        page = origin.pages.get(self.path, Page(b"not here", 404, {"Content-Type": "text/plain"}))
        if page.status == 200 and self._is_current(page.fields.get("ETag")):
            self.say(304, b"", ETag=page.fields["ETag"])
            return
        self.say(page.status, page.body, **page.fields)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = _answer

    def say(self, status: int, body: bytes, **fields: str) -> None:
        """Send a complete response. Names of fields have underscores instead of hyphens."""
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)

    def _is_current(self, tag: str | None) -> bool:
        tags = [each.strip() for each in self.headers.get("If-None-Match", "").split(",")]
        return tag is not None and (tag in tags or f"W/{tag}" in tags)

    def _content(self) -> Iterator[bytes]:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return
        left = int(self.headers.get("Content-Length", "0"))
        while left and (piece := self.rfile.read(min(left, 65_536))):
            left -= len(piece)
            yield piece

    def log_message(self, *_: Any) -> None:
        """Do nothing; requests are recorded in `origin.log`."""


class Authority:
    """A certificate authority for the tests with one certificate for loopback."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "authority.pem"
        self.certificate = folder / "origin.pem"
        key, own = ec.generate_private_key(ec.SECP256R1()), _name("Tests of feedproxy")
        now = datetime.now(UTC)

        def build(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
            made = x509.CertificateBuilder().subject_name(subject).issuer_name(own).public_key(public)
            made = made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
            made = made.not_valid_after(now + timedelta(days=30))
            identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
            return made.add_extension(identifier, critical=False)

        root = build(own, key.public_key()).add_extension(x509.BasicConstraints(True, 0), critical=True)
        root = root.add_extension(_usage(signs_certificates=True), critical=True)
        root = root.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        self.file.write_bytes(root.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

        leaf_key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        leaf = build(_name("localhost"), leaf_key.public_key())
        leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=False)
        leaf = leaf.add_extension(_usage(signs_certificates=False), critical=True)
        self.certificate.write_bytes(
            leaf.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            + leaf_key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    def server_context(self) -> ssl.SSLContext:
        """Return a server's TLS context with the certificate for loopback."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


class Gate:
    """Holds every request until it is opened, then answers by the next function."""

    def __init__(self, then: Scene) -> None:
        self._open = threading.Event()
        self._then = then

    def __call__(self, handler: Handler, asked: Asked) -> None:
        self._open.wait(NEVER)
        self._then(handler, asked)

    def open(self) -> None:
        self._open.set()


def until[T](what: Callable[[], T | None], *, deadline: float = PATIENCE, why: str = "") -> T:
    """Return the first true value of `what`, called repeatedly until the deadline."""
    end = time.monotonic() + deadline
    while not (found := what()):
        assert time.monotonic() < end, why or f"{what} never came true"
        time.sleep(0.02)
    return found


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Origin, Authority]]:
    """Run an origin with its authority."""
    authority = Authority(folder)
    origin = Origin(authority)
    try:
        yield origin, authority
    finally:
        origin.close()
