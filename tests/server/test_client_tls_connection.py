"""TLS connections of a publisher's readers are served like those without TLS."""

import asyncio
import contextlib
import datetime
import errno
import fcntl
import os
import socket
import ssl
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from feedproxy.errors import UsageError
from feedproxy.http.message import Fields, Response
from feedproxy.process.mitmproxy_master import build_master
from feedproxy.process.option_sources import ServePlan
from feedproxy.process.reload import reload
from feedproxy.server.fastpath.client_connection import ClientConnection
from feedproxy.server.fastpath.client_tls_connection import (
    BATCHES_PER_WRITE,
    ENCRYPT_BATCH,
    ReloadingCertificate,
    TlsConnection,
    set_low_water_mark,
)
from feedproxy.server.fastpath.sockets import start_listening
from tests.server.conftest import Front, Line, Opened, until
from tests.waiting import PATIENCE


def make_certificate(folder: Path, name: str = "localhost") -> tuple[str, str]:
    """Write a self-signed certificate and its key, and return their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return str(folder / "cert.pem"), str(folder / "key.pem")


def trusting(certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def secured(front: Opened, folder: Path) -> tuple[Front, ssl.SSLContext]:
    certificate, key = make_certificate(folder)
    return await front(tls_certificate=certificate, tls_key=key), trusting(certificate)


async def line_to(proxy: Front, context: ssl.SSLContext) -> Line:
    port = int(proxy.stage.base.rpartition(":")[2])
    made = Line(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost"))
    proxy.lines.append(made)
    return made


async def handshake(client: ssl.SSLObject, raw: Line, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
    """Do the handshake on this connection, except for the client's last message, which stays in `outgoing`."""
    while True:
        try:
            client.do_handshake()
            return
        except ssl.SSLWantReadError:
            await raw.say(outgoing.read())
            incoming.write(await asyncio.wait_for(raw.reader.read(65_536), PATIENCE))


async def test_hits_and_misses_are_answered_under_tls(front: Opened, tmp_path: Path) -> None:
    proxy, context = await secured(front, tmp_path)
    line = await line_to(proxy, context)

    answers = [await line.ask(proxy.get()) for _ in range(6)]

    assert [each.status for each in answers] == [200] * 6
    assert [("hit" in each.cache) for each in answers] == [False, *[True] * 5]
    assert proxy.service_calls == 2
    assert line.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


async def test_connection_handed_over_stays_under_tls_and_has_scheme_https(front: Opened, tmp_path: Path) -> None:
    proxy, context = await secured(front, tmp_path)
    proxy.origin.methods["POST"] = lambda request: Response(
        200, Fields([("Content-Length", "7"), ("Location", "/there")]), b"thanks!"
    )
    line = await line_to(proxy, context)
    large = b"x" * 300_000

    await line.ask(proxy.get())
    posted = await line.ask(proxy.get("/p", f"Content-Length: {len(large)}", method="POST") + large)
    after = await line.ask(proxy.get())

    assert (posted.status, posted.body) == (200, b"thanks!")
    assert posted.fields["location"].startswith("https://proxy.example/http://")
    assert after.status == 200


async def test_tls_session_is_resumed(front: Opened, tmp_path: Path) -> None:
    proxy, context = await secured(front, tmp_path)
    first = await line_to(proxy, context)
    await first.ask(proxy.get())
    known = first.writer.get_extra_info("ssl_object").session

    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost", session=known)
    raw = await proxy.line()
    await handshake(client, raw, incoming, outgoing)
    assert client.session_reused


async def test_session_of_another_worker_is_not_resumed_and_the_handshake_succeeds(
    front: Opened, tmp_path: Path
) -> None:
    certificate, key = make_certificate(tmp_path)
    context = trusting(certificate)
    first = await line_to(await front(tls_certificate=certificate, tls_key=key), context)
    other = await front(tls_certificate=certificate, tls_key=key)
    await first.ask(other.get("/-/health"))
    known = first.writer.get_extra_info("ssl_object").session

    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost", session=known)
    await handshake(client, await other.line(), incoming, outgoing)

    assert known.has_ticket
    assert not client.session_reused


@pytest.mark.parametrize("head_timeout", [15, 0])
async def test_end_of_the_handshake_is_answered_before_the_first_request(
    front: Opened, tmp_path: Path, head_timeout: int
) -> None:
    """A client whose system delays small packets (Nagle's algorithm) sends no request before that."""
    certificate, key = make_certificate(tmp_path)
    proxy = await front(tls_certificate=certificate, tls_key=key, head_timeout=head_timeout)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting(certificate).wrap_bio(incoming, outgoing, server_hostname="localhost")
    raw = await proxy.line()
    await handshake(client, raw, incoming, outgoing)
    assert client.version() == "TLSv1.3"

    await raw.say(outgoing.read())

    incoming.write(await asyncio.wait_for(raw.reader.read(65_536), PATIENCE))
    with pytest.raises(ssl.SSLWantReadError):
        client.read()  # and not the end of the connection, which an idle connection reaches in time


async def client_before_finished(proxy: Front, certificate: str) -> tuple[Line, ssl.SSLObject, list[ssl.MemoryBIO]]:
    """Return a connection, its client with the end of the handshake unsent, and the client's input and output."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting(certificate).wrap_bio(incoming, outgoing, server_hostname="localhost")
    raw = await proxy.line()
    await handshake(client, raw, incoming, outgoing)
    proxy.listener._timer.cancel()  # no deadline is checked meanwhile
    return raw, client, [incoming, outgoing]


async def decrypted(client: ssl.SSLObject, raw: Line, incoming: ssl.MemoryBIO) -> bytes:
    """Return the next decrypted bytes that the client receives."""
    while True:
        with contextlib.suppress(ssl.SSLWantReadError):
            return client.read()
        incoming.write(await asyncio.wait_for(raw.reader.read(65_536), PATIENCE))


def waiting_bytes(connection: ClientConnection) -> int:
    """Return the number of bytes in the kernel's buffer of a connection that are not read yet."""
    return int.from_bytes(fcntl.ioctl(connection.fd, termios.FIONREAD, bytes(4)), sys.byteorder)


async def test_end_of_the_handshake_is_read_together_with_the_first_request(front: Opened, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    proxy = await front(tls_certificate=certificate, tls_key=key)
    raw, client, (incoming, outgoing) = await client_before_finished(proxy, certificate)
    (connection,) = proxy.listener._connections.values()

    await raw.say(finished := outgoing.read())
    await until(lambda: waiting_bytes(connection) == len(finished))
    assert connection.handshake_pending
    client.write(proxy.get("/feed.rss", "Connection: close"))
    await raw.say(outgoing.read())

    assert (await decrypted(client, raw, incoming)).startswith(b"HTTP/1.1 200 ")


async def test_short_rest_of_the_first_request_is_read(front: Opened, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    proxy = await front(tls_certificate=certificate, tls_key=key)
    raw, client, (incoming, outgoing) = await client_before_finished(proxy, certificate)
    (connection,) = proxy.listener._connections.values()
    request = proxy.get()

    client.write(request[:-1])
    await raw.say(outgoing.read())
    await until(lambda: connection.unparsed == request[:-1])
    client.write(request[-1:])
    await raw.say(outgoing.read())

    assert (await decrypted(client, raw, incoming)).startswith(b"HTTP/1.1 ")


async def test_short_request_after_the_first_one_is_read(front: Opened, tmp_path: Path) -> None:
    proxy, context = await secured(front, tmp_path)
    line = await line_to(proxy, context)
    await line.ask(proxy.get())

    assert (await line.ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")).status


def test_socket_of_a_worker_with_tls_reports_any_input_after_it_listens_again() -> None:
    with socket.socket() as listen_socket:
        listen_socket.bind(("127.0.0.1", 0))
        set_low_water_mark(listen_socket)

        start_listening(listen_socket)

        assert listen_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


def test_socket_without_a_changeable_low_water_mark_listens() -> None:
    class Unchangeable(socket.socket):
        def setsockopt(self, level: int, option: int, *value: Any) -> None:
            if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT):
                raise OSError(errno.ENOPROTOOPT, "Protocol not available")
            super().setsockopt(level, option, *value)

    with Unchangeable() as listen_socket:
        listen_socket.bind(("127.0.0.1", 0))

        start_listening(listen_socket)

        socket.create_connection(listen_socket.getsockname()).close()


async def test_incomplete_handshake_times_out_earlier_than_an_idle_connection(front: Opened, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    proxy = await front(tls_certificate=certificate, tls_key=key, head_timeout=15)
    outgoing = ssl.MemoryBIO()
    client = trusting(certificate).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    begun, done = await proxy.line(), await line_to(proxy, trusting(certificate))
    await begun.say(outgoing.read())
    await until(lambda: [each.handshake_pending for each in proxy.listener._connections.values()].count(True) == 1)
    await until(lambda: len(proxy.listener._connections) == 2 and len(proxy.listener._deadlines) == 1)

    proxy.listener.tick(asyncio.get_running_loop().time() + 16)

    assert [each.handshake_pending for each in proxy.listener._connections.values()] == [False]
    assert (await done.ask(proxy.get())).status == 200


async def test_client_without_tls_is_disconnected(front: Opened, tmp_path: Path) -> None:
    proxy, context = await secured(front, tmp_path)
    plain = await proxy.line()

    await plain.say(proxy.get())

    assert await plain.ended()
    assert (await (await line_to(proxy, context)).ask(proxy.get())).status == 200


async def test_listener_serves_if_the_system_refuses_the_low_water_mark(
    front: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = socket.socket.setsockopt

    def refuse(changed: socket.socket, level: int, option: int, *value: Any) -> None:
        if (level, option) in ((socket.SOL_SOCKET, socket.SO_RCVLOWAT), (socket.IPPROTO_TCP, socket.TCP_QUICKACK)):
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")
        change(changed, level, option, *value)

    monkeypatch.setattr(socket.socket, "setsockopt", refuse, raising=False)
    proxy, context = await secured(front, tmp_path)
    line = await line_to(proxy, context)

    assert [(await line.ask(proxy.get())).status for _ in range(3)] == [200] * 3
    posted = await line.ask(proxy.get("/-/pingSiteForm", "Content-Length: 0", method="POST"))
    assert posted.status == 405


@pytest.mark.parametrize("is_valid", [True, False])
async def test_reload_loads_the_certificate_at_once(
    front: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_valid: bool
) -> None:
    caplog.set_level("INFO", "feedproxy")
    proxy, former = await secured(front, tmp_path)
    if is_valid:
        make_certificate(tmp_path)
    else:
        (tmp_path / "cert.pem").write_text("broken")

    files = {"tls_certificate": str(tmp_path / "cert.pem"), "tls_key": str(tmp_path / "key.pem")}
    await reload(proxy.stage._master, proxy.stage.app, ServePlan(options=files))

    context = trusting(str(tmp_path / "cert.pem")) if is_valid else former
    assert (await (await line_to(proxy, context)).ask(proxy.get())).status == 200
    line = "listener: certificate loaded: " if is_valid else "keeping the previous one: tls_certificate: "
    assert caplog.text.count(f"{line}{tmp_path / 'cert.pem'}") == 1


def test_renewed_certificate_is_loaded(tmp_path: Path) -> None:
    files = make_certificate(tmp_path)
    held = ReloadingCertificate(*files)
    make_certificate(tmp_path, "other.example")
    for each in files:
        os.utime(each, (1, 1))

    assert held.has_changed
    held.reload()
    assert not held.has_changed

    (tmp_path / "key.pem").write_text("broken")
    with pytest.raises(UsageError, match=r"cert\.pem: .*(PEM|key)"):
        held.reload()
    assert not held.has_changed, "a bad file is not loaded again and again"


def test_connections_have_the_previous_certificate_until_the_key_is_renewed(tmp_path: Path) -> None:
    files = make_certificate(tmp_path)
    held, client = ReloadingCertificate(*files), trusting(files[0])
    assert can_connect(held, client)

    former_key = Path(files[1]).read_bytes()
    make_certificate(tmp_path)
    key = Path(files[1]).read_bytes()
    Path(files[1]).write_bytes(former_key)
    with pytest.raises(UsageError, match="key"):
        held.reload()
    assert can_connect(held, client)

    Path(files[1]).write_bytes(key)
    held.reload()
    assert can_connect(held, trusting(files[0]))


def can_connect(held: ReloadingCertificate, client: ssl.SSLContext) -> bool:
    """Return whether a handshake in memory is completed."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        held.context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
            ends.remove(end)
    return not ends


async def test_invalid_certificate_is_reported_at_start(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    given = {"tls_certificate": str(tmp_path / "cert.pem"), "admin": "", "store": "memory:"}

    with pytest.raises(UsageError, match=r"^tls_certificate: .*cert\.pem: expected a certificate, .* in PEM form$"):
        build_master(ServePlan(options=given))


async def test_key_of_another_certificate_is_reported_at_start(tmp_path: Path) -> None:
    certificate, _ = make_certificate(tmp_path)
    (other := tmp_path / "other").mkdir()
    _, key = make_certificate(other)
    given = {"tls_certificate": certificate, "tls_key": key, "admin": "", "store": "memory:"}

    with pytest.raises(UsageError, match=r"^tls_certificate: .*cert\.pem: its key belongs to another certificate$"):
        build_master(ServePlan(options=given))


async def test_tls_without_the_fast_path_is_refused(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    given = {"tls_certificate": certificate, "tls_key": key, "fast_path": False, "admin": "", "store": "memory:"}

    with pytest.raises(UsageError, match=r"^tls_certificate: .* needs the fast path"):
        build_master(ServePlan(options=given))


async def test_slow_reader_of_a_large_response_makes_the_proxy_encrypt_one_batch(front: Opened, tmp_path: Path) -> None:
    """All readers share the plain response; encrypted bytes belong to one connection."""
    proxy, context = await secured(front, tmp_path)
    content = os.urandom(5_000_000)
    proxy.origin.publish("/large", content, content_type="application/octet-stream", cache_control="max-age=60")
    request = proxy.get("/large", "Connection: close")
    await (await line_to(proxy, context)).ask(request)
    line = await line_to(proxy, context)
    line.writer.transport.pause_reading()  # type: ignore[attr-defined]

    await line.say(request)
    await until(lambda: any(each.unsent for each in proxy.listener._connections.values()))
    (reader,) = proxy.listener._connections.values()
    held = sum(len(each) for each in reader.unsent)
    line.writer.transport.resume_reading()  # type: ignore[attr-defined]
    answer = await line.hear()

    assert held < 2 * ENCRYPT_BATCH
    assert answer.body == content
    assert await line.ended()


async def test_idle_connection_keeps_no_part_of_a_large_response(front: Opened, tmp_path: Path) -> None:
    proxy, context = await secured(front, tmp_path)
    body = bytes(4 * ENCRYPT_BATCH)
    proxy.origin.publish("/large", body, content_type="text/plain", cache_control="max-age=60")
    line = await line_to(proxy, context)

    assert (await line.ask(proxy.get("/large"))).body == body

    (connection,) = proxy.listener._connections.values()
    assert isinstance(connection, TlsConnection)
    assert connection._unencrypted.obj == b""
    assert not connection.unsent


def test_fast_reader_of_a_large_response_leaves_time_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = make_certificate(tmp_path)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting(certificate).wrap_bio(incoming, outgoing, server_hostname="localhost")

    def taken(_: int, data: bytes | memoryview) -> int:
        incoming.write(data)
        return len(data)

    def given(_: int, most: int) -> bytes:
        return outgoing.read(most)

    monkeypatch.setattr(os, "write", taken)
    monkeypatch.setattr(os, "read", given)
    client_socket = socket.socket()
    context = ReloadingCertificate(certificate, key).context
    reader = TlsConnection(client_socket.fileno(), "192.0.2.1", "192.0.2.1", None, context)
    for _ in range(2):
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        reader.read()
    content = os.urandom(3 * BATCHES_PER_WRITE * ENCRYPT_BATCH + 1)

    turns, got = [reader.write(b"head", content)], b""
    while not turns[-1]:
        assert reader.unsent
        turns.append(reader.send_unsent())
    with contextlib.suppress(ssl.SSLWantReadError):
        while piece := client.read(1 << 20):
            got += piece
    client_socket.close()

    assert len(turns) == 4
    assert got == b"head" + content
