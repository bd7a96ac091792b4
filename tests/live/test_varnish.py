"""Varnish in front of feedproxy in front of an origin: conf/varnish.vcl with other addresses."""

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conformance.process import free_port
from tests.live.conftest import needs
from tests.live.origin import Origin, a_feed, until
from tests.live.product import ROOT, Feedproxy, Process, Seen, ask, clean_environment, run
from tests.live.test_clouds import ADMIN
from tests.waiting import PATIENCE

type Start = Callable[..., Feedproxy]

pytestmark = needs("varnishd", "varnishadm")

VCL = ROOT / "conf" / "varnish.vcl"
SHOWN = "sub vcl_deliver { set resp.http.X-TTL = obj.ttl; set resp.http.X-Hits = obj.hits; }\n"
"""A part of vcl_deliver that shows the remaining lifetime of Varnish's copy, and the number of hits on it."""


@dataclass
class Varnish:
    """A Varnish on a port known in advance, with `begin` and `end`."""

    folder: Path
    backend: tuple[str, int]
    port: int = field(default_factory=free_port)
    process: Process | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> None:
        text = VCL.read_text(encoding="utf-8").replace('"8080"', f'"{self.backend[1]}"')
        vcl = self.folder / "test.vcl"
        vcl.write_text(text.replace("sub vcl_recv {", f"{SHOWN}\nsub vcl_recv {{", 1), encoding="utf-8")
        work = self.folder / f"work-{time.monotonic_ns()}"
        command = ["varnishd", "-F", "-j", "none", "-a", f"127.0.0.1:{self.port}", "-f", str(vcl), "-n", str(work)]
        command += [
            "-s",
            "malloc,16m",
            "-p",
            "thread_pools=1",
            "-p",
            "thread_pool_min=5",
            "-p",
            "http_gzip_support=off",
            # Without the compiler's optimizations, a start takes half of the time.
            "-p",
            "cc_command=exec cc -O0 -pthread -fpic -shared -Wl,-x -o %o %s",
        ]
        self.process = Process(command, self.folder, clean_environment(HOME=str(self.folder)))
        self._work = work
        until(self._is_up, why=self.process.said)

    def _is_up(self) -> bool:
        """Return True if it listens and finds feedproxy healthy."""
        assert self.process is not None
        assert self.process.process.poll() is None, self.process.said
        asked = ["varnishadm", "-n", str(self._work), "-t", "5", "backend.list"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=PATIENCE)
        return told.returncode == 0 and "healthy" in told.stdout

    def end(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process = None

    def get(self, path: str, **fields: str) -> Seen:
        return ask(self.base + path, fields=fields)

    def ttl(self, path: str) -> float:
        return float(self.get(path).fields["X-TTL"])


@dataclass
class Row:
    """Readers, Varnish, feedproxy and the origin in a chain."""

    varnish: Varnish
    proxy: Feedproxy
    admin: str

    def refresh(self, url: str) -> None:
        assert ask(f"{self.admin}/refresh?url={url}", "POST").status == 200


@pytest.fixture
def a_row(start: Start, origin: Origin, tmp_path: Path) -> Iterator[Callable[..., Row]]:
    made: list[Varnish] = []

    def begin(*, runs: bool = True, sink: str = "", **options: object) -> Row:
        folder = tmp_path / f"varnish-{len(made)}"
        folder.mkdir()
        port = free_port()
        proxy = start(
            *("--upstream", origin.url("")),
            # After feedproxy has ended, no other program gets its port.
            *("--listen", f"127.0.0.1:{free_port()}"),
            allow_private=False,
            purge_sinks=sink or f"http://127.0.0.1:{port}/",
            trusted_proxies="127.0.0.1",
            **{"state_freshness": True, **options},
        )
        made.append(Varnish(folder, proxy.address, port))
        if runs:
            made[-1].begin()
        return Row(made[-1], proxy, until(lambda: ADMIN.search(proxy.said))[1])

    yield begin
    for each in made:
        each.end()


def test_command_on_the_page_finds_the_configuration(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "behind-a-cdn.md").read_text(encoding="utf-8")
    (command,) = [line.strip() for line in page.splitlines() if line.startswith("    varnishd ")]
    options = command.partition(" -a ")[0]

    compiled = run(["sh", "-c", f"cd {ROOT} && {options} -C -n {tmp_path / 'work'}"], tmp_path)

    assert compiled.returncode == 0, compiled.stderr


def test_changed_feed_is_served_by_varnish_at_once(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row()
    forms = ("/news.rss", "/-/as/json/news.rss")
    origin.publish("/news.rss", a_feed("one", extra="<ttl>60</ttl>"))
    for path in (*forms, *forms):
        assert b"About one" in row.varnish.get(path).body
    assert int(row.varnish.get("/news.rss").fields["X-Hits"]) >= 2
    assert len(origin.asked("/news.rss")) == 1

    origin.publish("/news.rss", a_feed("two", "one", extra="<ttl>60</ttl>"))
    assert b"About two" not in row.varnish.get("/news.rss").body
    row.refresh(origin.url("/news.rss"))

    for path in forms:
        until(lambda path=path: b"About two" in row.varnish.get(path).body)  # type: ignore[misc]


def test_ping_updates_readers_behind_varnish(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row(public_url="http://feeds.example/")
    origin.publish("/blog.rss", a_feed("one", extra="<ttl>60</ttl>"))
    assert b"About one" in row.varnish.get("/blog.rss").body
    origin.publish("/blog.rss", a_feed("two", extra="<ttl>60</ttl>"))

    call = (
        "<methodCall><methodName>weblogUpdates.extendedPing</methodName><params>"
        + "".join(f"<param><value>{each}</value></param>" for each in ("Blog", *("http://feeds.example/blog.rss",) * 3))
        + "</params></methodCall>"
    )
    told = ask(f"{row.varnish.base}/-/RPC2", "POST", fields={"content_type": "text/xml"}, body=call.encode())

    assert b"<boolean>0</boolean>" in told.body, told.body
    until(lambda: b"About two" in row.varnish.get("/blog.rss").body)


def test_purge_by_the_operator_is_forwarded_to_varnish(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row()
    origin.publish("/purged.rss", a_feed("one", extra="<ttl>60</ttl>"))
    row.varnish.get("/purged.rss")
    assert int(row.varnish.get("/purged.rss").fields["X-Hits"]) == 1

    assert ask(f"{row.admin}/purge?url={origin.url('/purged.rss')}", "POST").status == 200

    until(lambda: row.varnish.get("/purged.rss") and len(origin.asked("/purged.rss")) == 2)


def test_purge_of_one_feed_keeps_the_others(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row()
    for name in ("a", "b"):
        origin.publish(f"/{name}.rss", a_feed("one", extra="<ttl>60</ttl>"))
        row.varnish.get(f"/{name}.rss")
    origin.publish("/a.rss", a_feed("two", extra="<ttl>60</ttl>"))
    row.refresh(origin.url("/a.rss"))
    until(lambda: b"About two" in row.varnish.get("/a.rss").body)

    assert int(row.varnish.get("/b.rss").fields["X-Hits"]) >= 1


def test_varnish_keeps_a_feed_as_long_as_its_schedule_states(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row()
    origin.publish("/ttl.rss", a_feed("one", extra="<ttl>90</ttl>"))
    now = datetime.now(UTC).hour
    # All hours are skipped except the one six hours from now, so the feed is skipped for five to six hours.
    hours = "".join(f"<hour>{each}</hour>" for each in range(24) if each != (now + 6) % 24)
    origin.publish("/sleeps.rss", a_feed("one", extra=f"<skipHours>{hours}</skipHours>"), Cache_Control="max-age=60")
    origin.publish("/http.rss", a_feed("one"), Cache_Control="max-age=600")

    assert 90 * 60 - 120 <= row.varnish.ttl("/ttl.rss") <= 90 * 60
    assert 4 * 3600 <= row.varnish.ttl("/sleeps.rss") <= 6 * 3600 + 60
    assert 480 <= row.varnish.ttl("/http.rss") <= 600


def test_unshared_response_is_not_stored_by_varnish(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row()
    for said in ("private", "no-store", "no-cache"):
        path = f"/{said}.rss"
        origin.publish(path, a_feed("one", extra="<ttl>60</ttl>"), Cache_Control=said)
        asked = ask(row.proxy.base + path)
        assert "CDN-Cache-Control" not in asked.fields
        row.varnish.get(path)
        assert row.varnish.get(path).fields["X-Hits"] == "0"


def test_readers_get_neither_surrogate_key_nor_surrogate_control(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row()
    origin.publish("/plain.rss", a_feed("one", extra="<ttl>60</ttl>"), Surrogate_Key="blog")

    inside, outside = ask(row.proxy.base + "/plain.rss").fields, row.varnish.get("/plain.rss").fields

    assert re.fullmatch(r"blog feed-[0-9a-f]{16}", inside["Surrogate-Key"])
    assert inside["CDN-Cache-Control"].startswith("max-age=")
    assert "Surrogate-Key" not in outside
    assert "CDN-Cache-Control" not in outside


def test_purge_by_another_client_is_refused(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row()

    def purge(address: str, key: str) -> int:
        with socket.create_connection(("127.0.0.1", row.varnish.port), 30, (address, 0)) as wire:
            lines = f"PURGE / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 127.0.0.1\r\nSurrogate-Key: {key}\r\n\r\n"
            wire.sendall(lines.encode())
            return int(wire.recv(1000).split()[1])

    assert purge("127.0.0.7", "feed-0123456789abcdef") == 403
    assert purge("127.0.0.1", ".*") == 400
    assert purge("127.0.0.1", "feed-0123456789abcdef") == 200


def failing(row: Row) -> bytes:
    """Return the failed deliveries that the operator sees."""
    told = ask(f"{row.admin}/api/notifications").body
    return told if b"cannot be reached" in told else b""


def test_unreachable_varnish_is_purged_later_without_other_failures(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row(runs=False)
    origin.publish("/away.rss", a_feed("one", extra="<ttl>60</ttl>"))
    ask(row.proxy.base + "/away.rss")
    origin.publish("/away.rss", a_feed("two", extra="<ttl>60</ttl>"))
    row.refresh(origin.url("/away.rss"))

    assert b"About two" in ask(row.proxy.base + "/away.rss").body
    assert b"purge" in until(lambda: failing(row))

    row.varnish.begin()
    until(lambda: not failing(row))
    assert "Traceback" not in row.proxy.said


def test_varnish_serves_stored_feeds_while_feedproxy_is_down(a_row: Callable[..., Row], origin: Origin) -> None:
    row = a_row()
    origin.publish("/kept.rss", a_feed("one"), Cache_Control="max-age=1")
    assert row.varnish.get("/kept.rss").status == 200

    row.proxy.terminate()

    # It is stale after a second. Until the probe fails, each fetch of Varnish fails.
    until(lambda: row.varnish.get("/kept.rss").fields.get("X-TTL", "").startswith("-"))
    assert b"About one" in row.varnish.get("/kept.rss").body
