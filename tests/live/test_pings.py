"""Pings through real sockets from clients of other projects, and outgoing pings through failures and kills."""

import contextlib
import sqlite3
import subprocess
import threading
import xmlrpc.client
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.dom import minidom
from xmlrpc.server import SimpleXMLRPCServer

import pytest

from conformance.process import free_port
from tests.live.conftest import needs
from tests.live.origin import Origin, a_feed, until
from tests.live.product import COMMAND, Feedproxy, Process, ask
from tests.waiting import PATIENCE

type Start = Callable[..., Feedproxy]


class Sink(SimpleXMLRPCServer):
    """Python's XML-RPC server as a ping sink; it can be told to fail."""

    def __init__(self, port: int = 0) -> None:
        self.heard: list[tuple[str, tuple[str, ...]]] = []
        super().__init__(("127.0.0.1", port), logRequests=False)
        self.register_function(lambda *told: self._hear("ping", told), "weblogUpdates.ping")
        self.register_function(lambda *told: self._hear("extendedPing", told), "weblogUpdates.extendedPing")
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/RPC2"

    def _hear(self, method: str, told: tuple[str, ...]) -> dict[str, object]:
        self.heard.append((method, told))
        return {"flError": False, "message": "Thanks", "legal": "some words"}

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


def lists(proxy: Feedproxy, path: str = "changes.xml") -> list[dict[str, str]]:
    document = minidom.parseString(ask(f"{proxy.base}/-/{path}").body)
    return [dict(each.attributes.items()) for each in document.getElementsByTagName("weblog")]


def test_ping_of_pythons_client_is_accepted_and_the_change_listed(start: Start, origin: Origin) -> None:
    proxy, path = start("--set", "list_readers_min=1"), "/pinged.xml"
    feed = origin.url(path)
    origin.publish(path, a_feed("one"))
    assert proxy.get(feed).status == 200
    origin.publish(path, a_feed("two", "one"))

    with xmlrpc.client.ServerProxy(f"{proxy.base}/-/RPC2") as rpc:
        simple = rpc.weblogUpdates.ping("News", feed)
        extended = rpc.weblogUpdates.extendedPing("News", "http://example.com/", "", feed, "rss|news")
        with pytest.raises(xmlrpc.client.Fault) as fault:
            rpc.weblogUpdates.pong()
    until(lambda: lists(proxy))

    assert simple == extended == {"flerror": False, "message": "Thanks for the ping."}
    assert fault.value.faultCode == -32601
    (entry,) = lists(proxy)
    assert (entry["name"], entry["url"], entry["rssUrl"]) == ("News", "http://example.com/", feed)
    assert lists(proxy, "shortChanges.xml") == [entry]
    assert b"two" in proxy.get(feed).body
    assert len(origin.asked(path)) == 2


@needs("curl")
def test_curl_pings_by_get_and_polls_the_list_with_conditions(start: Start, origin: Origin, tmp_path: Path) -> None:
    proxy, path = start("--set", "list_readers_min=1"), "/curled.xml"
    origin.publish(path, a_feed("one"))
    proxy.get(origin.url(path))
    origin.publish(path, a_feed("two"))

    def curl(*arguments: str) -> str:
        command = ["curl", "-sS", "--noproxy", "*", "-w", "\n%{http_code} %{content_type}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout

    page = curl(
        "-G",
        "--data-urlencode",
        "name=News & more",
        "--data-urlencode",
        "url=http://example.com/",
        f"{proxy.base}/-/pingSiteForm",
    )
    wrong = curl("-G", f"{proxy.base}/-/pingSiteForm")
    until(lambda: lists(proxy))
    tag = tmp_path / "tag"
    first = curl("--etag-save", str(tag), f"{proxy.base}/-/changes.xml")
    second = curl("--etag-compare", str(tag), f"{proxy.base}/-/changes.xml")

    assert "Thanks for the ping" in page
    assert page.endswith("200 text/html; charset=utf-8")
    assert wrong.endswith("400 text/html; charset=utf-8")
    assert first.endswith("200 application/xml; charset=utf-8")
    assert "\n304" in second
    assert "\n405" in curl(f"{proxy.base}/-/RPC2")
    assert "\n404" in curl(f"{proxy.base}/-/changes/2007/01/01/01.xml")


def is_noted(store: Path, target: str) -> bool:
    """Return True if the first fetch is on disk, so that a later one counts as a change."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{store}/notify/ledger.sqlite3?mode=ro", uri=True)) as ledger:
            return bool(ledger.execute("SELECT 1 FROM known WHERE target = ?", (target,)).fetchall())
    except sqlite3.OperationalError:  # missing or being created
        return False


def test_accepted_ping_is_processed_after_a_kill(start: Start, origin: Origin, tmp_path: Path) -> None:
    path, store, floor = "/killed.xml", tmp_path / "store", 12
    origin.publish(path, a_feed("one"))
    proxy = start(store=store, feed_min_interval=floor, list_readers_min=1)
    proxy.get(origin.url(path))
    origin.publish(path, a_feed("two"))
    until(lambda: is_noted(store, origin.url(path)))  # writes to disk are delayed
    assert ask(f"{proxy.base}/-/pingSiteForm?name=n&url={origin.url(path)}").status == 200
    proxy.kill()
    assert len(origin.asked(path)) == 1

    again = start(store=store, feed_min_interval=floor, list_readers_min=1)

    until(lambda: len(origin.asked(path)) == 2)
    again.get(origin.url(path))  # readers are saved every few minutes only
    until(lambda: lists(again))


def test_sinks_are_pinged_in_all_three_forms(start: Start, origin: Origin, sink: Sink) -> None:
    path, feed = "/own.xml", "https://feeds.example/own.xml"
    origin.publish(path, a_feed("one"))
    template = origin.url("/sink") + "?n={name}&u={url}&f={feed}"
    called = "/sink?n=News&u=http%3A%2F%2Fexample.com%2F&f=https%3A%2F%2Ffeeds.example%2Fown.xml"
    proxy = start(
        *("--upstream", origin.url("").rstrip("/"), "--public-url", "https://feeds.example/"),
        *(
            "--set",
            f"ping_sinks={sink.url}",
            "--set",
            f"ping_sinks=extended:{sink.url}",
            "--set",
            f"ping_sinks={template}",
        ),
    )
    ask(f"{proxy.base}{path}")
    origin.publish(path, a_feed("two"))

    ask(f"{proxy.base}/-/pingSiteForm?name=n&url=https://feeds.example{path}")
    until(lambda: len(sink.heard) == 2)
    until(lambda: any(each.path == called for each in origin.log))

    assert sorted(sink.heard) == [
        ("extendedPing", ("News", "http://example.com/", "http://example.com/", feed)),
        ("ping", ("News", "http://example.com/")),
    ]
    (entry,) = lists(proxy)
    assert entry["rssUrl"] == feed


def test_unreachable_sink_is_pinged_after_the_proxy_was_killed(start: Start, origin: Origin, tmp_path: Path) -> None:
    path, store = "/later.xml", tmp_path / "store"
    origin.publish(path, a_feed("one"))
    port = free_port()
    options = ("--upstream", origin.url("").rstrip("/"), "--public-url", "https://feeds.example/")
    sinks = ("--set", f"ping_sinks=http://127.0.0.1:{port}/RPC2")
    proxy = start(*options, *sinks, store=store)
    ask(f"{proxy.base}{path}")
    origin.publish(path, a_feed("two"))
    ask(f"{proxy.base}/-/pingSiteForm?name=n&url=https://feeds.example{path}")
    until(lambda: lists(proxy))
    proxy.kill()

    sink = Sink(port)
    try:
        start(*options, *sinks, store=store)
        until(lambda: sink.heard)
    finally:
        sink.close()

    assert sink.heard == [("ping", ("News", "http://example.com/"))]


def test_ping_command_pings_sinks_and_reports_failures(sink: Sink, tmp_path: Path) -> None:
    def told(*arguments: str) -> tuple[int, str]:
        process = Process([*COMMAND, "ping", "https://example.com/", "--name", "News", *arguments], tmp_path)
        return process.wait(), process.rest()

    code, said = told("--sink", sink.url, "--sink", f"extended:{sink.url}", "--feed", "https://example.com/feed")
    silent, said_then = told("--sink", "http://127.0.0.1:9/RPC2")

    assert (code, said.count("told")) == (0, 2)
    assert sorted(sink.heard) == [
        ("extendedPing", ("News", "https://example.com/", "https://example.com/", "https://example.com/feed")),
        ("ping", ("News", "https://example.com/")),
    ]
    assert silent == 1
    assert "not told" in said_then
