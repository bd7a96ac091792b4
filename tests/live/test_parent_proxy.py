"""Feedproxy behind Squid: fetches, streams and tunnels go through Squid, and its refusals are reported."""

import json
import os
import pwd
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.process import free_port
from tests.live.conftest import needs
from tests.live.origin import Origin, a_feed, until
from tests.live.product import Feedproxy, Process, ask, clean_environment, read_answer
from tests.waiting import PATIENCE

pytestmark = needs("squid")

HOST, REFUSED = "feedproxy-test.example.com", "feedproxy-refused.example.com"
"""Names that only Squid knows."""

USER, PASSWORD = "feedproxy", "s3cret-of-the-parent"

HELPER = """#!/bin/sh
while read -r user password; do
  if [ "$user $password" = "{user} {password}" ]; then echo OK; else echo ERR; fi
done
"""

CONFIGURATION = """
http_port 127.0.0.1:{port}
cache_effective_user {account}
auth_param basic program /bin/sh {folder}/helper
auth_param basic children 1
acl known proxy_auth REQUIRED
acl refused dstdomain {refused}
http_access deny refused
http_access allow known
http_access deny all
hosts_file {folder}/hosts
cache deny all
cache_mem 8 MB
access_log stdio:{folder}/access.log
cache_log {folder}/cache.log
pid_filename none
coredump_dir {folder}
pinger_enable off
shutdown_lifetime 0 seconds
"""


class Squid:
    """A Squid that requires a user name and resolves hosts from a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "hosts").write_text(f"127.0.0.1 {HOST} {REFUSED}\n")
        (folder / "helper").write_text(HELPER.format(user=USER, password=PASSWORD))
        account = "nobody"  # Squid does not run as root
        if os.geteuid() == 0:
            os.chown(folder, pwd.getpwnam(account).pw_uid, -1)
        text = CONFIGURATION.format(port=self.port, folder=folder, account=account, refused=REFUSED)
        (folder / "squid.conf").write_text(text)
        command = ["squid", "-N", "-n", f"parent{self.port}", "-f", str(folder / "squid.conf")]
        self.process = Process(command, folder / "work", clean_environment())

    def up(self) -> None:
        """Wait until it accepts connections."""
        until(self._accepts)

    def _accepts(self) -> bool:
        assert self.process.process.poll() is None, (self.process.said, self.said("cache.log"))
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def said(self, name: str = "access.log") -> str:
        """Return the content of one of its logs."""
        file = self.folder / name
        return file.read_text(errors="replace") if file.exists() else ""


@pytest.fixture(scope="module")
def squid() -> Iterator[Squid]:
    # Not below pytest's own folder, which accounts other than root cannot enter.
    with tempfile.TemporaryDirectory() as folder:
        made = Squid(Path(folder))
        try:
            made.up()
            yield made
        finally:
            made.process.kill()


@pytest.fixture(scope="module")
def behind(squid: Squid, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feedproxy]:
    address = f"http://{USER}:{PASSWORD}@127.0.0.1:{squid.port}"
    made = Feedproxy(tmp_path_factory.mktemp("behind"), upstream_proxy=address)
    yield made
    assert made.terminate() == 0, made.said
    assert "Traceback" not in made.said, made.said
    assert PASSWORD not in made.said


def url(origin: Origin, path: str, host: str = HOST) -> str:
    return origin.url(path).replace("localhost", host).replace("127.0.0.1", host)


def test_feed_is_fetched_and_stored_behind_squid(squid: Squid, behind: Feedproxy, origin: Origin) -> None:
    origin.publish("/behind.rss", a_feed("one"), Cache_Control="max-age=600")

    first, second = (behind.get(url(origin, "/behind.rss")) for _ in range(2))

    assert (first.status, second.status) == (200, 200)
    assert "hit" in second.cache
    (asked,) = [each for each in origin.log if each.path == "/behind.rss"]
    assert "squid" in asked.fields["Via"]
    assert "Proxy-Authorization" not in asked.fields
    assert f"GET {url(origin, '/behind.rss')} {USER} " in squid.said()


def test_post_is_streamed_through_squid(squid: Squid, behind: Feedproxy, origin: Origin) -> None:
    origin.publish("/form", b"thanks")

    seen = ask(url(origin, "/form"), "POST", body=b"x" * 100_000, through=behind.address)

    (asked,) = [each for each in origin.log if each.path == "/form"]
    assert (asked.method, asked.size) == ("POST", 100_000)
    assert "squid" in asked.fields["Via"]
    assert "Proxy-Authorization" not in asked.fields
    assert seen.status == 200


def test_tunnel_goes_through_squid(squid: Squid, behind: Feedproxy, origin: Origin) -> None:
    origin.publish("/inside", b"inside")
    where = url(origin, "/inside").split("/")[2]

    with socket.create_connection(behind.address, timeout=PATIENCE) as wire:
        wire.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
        assert b" 200 " in wire.recv(4096).split(b"\r\n")[0]
        wire.sendall(f"GET /inside HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n".encode())
        assert read_answer(wire).body == b"inside"
    until(lambda: f"CONNECT {where} {USER} " in squid.said())


def test_refusal_of_squid_is_reported(squid: Squid, behind: Feedproxy, origin: Origin) -> None:
    seen = behind.get(f"https://{REFUSED}/feed.rss")

    assert seen.status == 502
    assert "detail=parent-proxy" in seen.cache
    assert f"http://127.0.0.1:{squid.port} (upstream_proxy) answered 403 to CONNECT".encode() in seen.body


def test_wrong_password_is_reported_with_the_options_name(squid: Squid, tmp_path: Path, origin: Origin) -> None:
    made = Feedproxy(tmp_path, upstream_proxy=f"http://{USER}:wrong@127.0.0.1:{squid.port}")
    try:
        for target in (url(origin, "/feed.rss"), f"https://{HOST}/feed.rss"):
            seen = made.get(target)
            assert seen.status == 503
            assert b"(upstream_proxy) refuses its user name and password (407)" in seen.body
        streamed = ask(url(origin, "/form"), "POST", body=b"x", through=made.address)
        assert (streamed.status, streamed.cache) == (502, "feedproxy; fwd=method; detail=parent-proxy")
        assert json.loads(streamed.body)["detail"].startswith("The parent proxy (upstream_proxy) refuses")
    finally:
        assert made.terminate() == 0
