"""rssCloud and CNWS through real sockets: with Python's XML-RPC, between two feedproxies, and through restarts.

FEEDPROXY_RSSCLOUD_SERVER may name the folder of a built rsscloud-server, which is then tested, too.
"""

import json
import os
import re
import shutil
import socket
import threading
import xmlrpc.client
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from xml.etree import ElementTree as ET
from xmlrpc.server import SimpleXMLRPCServer

import pytest

from conformance.process import free_port
from feedproxy.notify.cnws import cnws_messages
from tests.live.origin import Origin, a_feed, until
from tests.live.product import Feedproxy, Process, ask, clean_environment
from tests.live.test_pings import lists

type Start = Callable[..., Feedproxy]

ADMIN = re.compile(r"the admin listener is at (http://\S+)")
SERVER = os.environ.get("FEEDPROXY_RSSCLOUD_SERVER", "")


class Workstation:
    """Receives notifications by http-post and answers challenges; it can be told to fail."""

    def __init__(self, port: int = 0, body: bytes = b"", address: str = "127.0.0.1") -> None:
        self.told: list[tuple[str, bytes]] = []
        self.status = 200
        workstation = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.say(parse_qs(urlsplit(self.path).query).get("challenge", [""])[0].encode())

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                workstation.told.append((self.path, content))
                self.say(body)

            def say(self, content: bytes) -> None:
                self.send_response(workstation.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Do nothing; `told` has the notifications."""

        self._server = ThreadingHTTPServer((address, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def workstation() -> Iterator[Workstation]:
    made = Workstation()
    yield made
    made.close()


def please_notify(proxy: Feedproxy, *, on_behalf_of: str = "", **given: object) -> ET.Element:
    content = urlencode({"protocol": "http-post", **given}).encode()
    fields = {"X_Forwarded_For": on_behalf_of} if on_behalf_of else {}
    return ET.fromstring(ask(f"{proxy.base}/-/pleaseNotify", "POST", body=content, fields=fields).body)


def active(proxy: Feedproxy, role: str, protocol: str) -> list[dict[str, Any]]:
    """Return the active subscriptions from the admin listener."""
    found = ADMIN.search(proxy.said)
    view = json.loads(ask(f"{found[1]}/api/notifications").body) if found else {"subscriptions": []}
    wanted = {"role": role, "protocol": protocol, "state": "active"}
    return [each for each in view["subscriptions"] if wanted.items() <= each.items()]


def change(proxy: Feedproxy, origin: Origin, path: str, *titles: str) -> None:
    origin.publish(path, a_feed(*titles))
    with xmlrpc.client.ServerProxy(f"{proxy.base}/-/RPC2") as rpc:
        assert rpc.rssCloud.ping(origin.url(path)) is True


def test_pythons_xml_rpc_client_registers_and_its_server_is_notified(start: Start, origin: Origin) -> None:
    proxy, path = start(), "/rpc.xml"
    feed = origin.url(path)
    origin.publish(path, a_feed("one"))
    proxy.get(feed)
    told: list[str] = []
    with SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False) as server:
        server.register_function(lambda url: told.append(url) or True, "river.changed")  # type: ignore[func-returns-value]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with xmlrpc.client.ServerProxy(f"{proxy.base}/-/RPC2") as rpc:
                port = server.server_address[1]
                done = rpc.xmlStorageSystem.rssPleaseNotify("river.changed", port, "/RPC2", "xml-rpc", [feed])
                wrong = rpc.rssCloud.pleaseNotify("other.name", port, "/RPC2", "xml-rpc", [feed], "127.0.0.1")
                with pytest.raises(xmlrpc.client.Fault) as fault:
                    rpc.rssCloud.pleaseNotify("too", "few")
            assert told == [feed]  # the test notification
            change(proxy, origin, path, "two", "one")
            until(lambda: len(told) == 2)
        finally:
            server.shutdown()
            thread.join()

    assert (done, wrong, fault.value.faultCode) == (True, False, 4)
    assert told == [feed, feed]


def test_http_post_subscriber_is_notified_after_failures_and_a_restart(
    start: Start, origin: Origin, workstation: Workstation, tmp_path: Path
) -> None:
    path, store = "/post.xml", tmp_path / "store"
    feed = origin.url(path)
    origin.publish(path, a_feed("one"))
    proxy = start(store=store)
    proxy.get(feed)
    port = workstation.port
    assert please_notify(proxy, port=port, path="/own", url1=feed).get("success") == "true"
    assert please_notify(proxy, port=port, path="/named", url1=feed, domain="localhost").get("success") == "true"
    assert please_notify(proxy, port=free_port(), path="/", url1=feed).get("success") == "false"
    assert [path for path, _ in workstation.told] == ["/own"]

    workstation.status = 500
    change(proxy, origin, path, "two")
    until(lambda: len(workstation.told) == 3)
    proxy.kill()
    workstation.status = 200
    workstation.told.clear()
    again = start(store=store)
    until(lambda: len(workstation.told) >= 2)

    assert sorted(workstation.told) == [(each, urlencode({"url": feed}).encode()) for each in ("/named", "/own")]
    assert b"Traceback" not in again.said.encode()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="elsewhere than on Linux loopback is one address")
def test_callback_behind_a_load_balancer_is_at_the_workstations_address(start: Start, origin: Origin) -> None:
    """Only a trusted proxy may state the client's address, so no client can register another."""
    path, there = "/balanced.xml", Workstation(address="127.0.0.2")
    feed = origin.url(path)
    origin.publish(path, a_feed("one"))
    try:
        for trusted, success in ((["127.0.0.1"], "true"), ([], "false")):
            proxy = start(*(word for each in trusted for word in ("--set", f"trusted_proxies={each}")))
            proxy.get(feed)
            said = please_notify(proxy, on_behalf_of="127.0.0.2", port=there.port, path="/", url1=feed)
            assert said.get("success") == success
    finally:
        there.close()

    assert len(there.told) == 1


def test_unverified_subscriber_is_not_notified(start: Start, origin: Origin, workstation: Workstation) -> None:
    proxy, path = start(), "/unproved.xml"
    feed = origin.url(path)
    origin.publish(path, a_feed("one"))
    proxy.get(feed)
    workstation.status = 404
    assert please_notify(proxy, port=workstation.port, path="/x", url1=feed).get("success") == "false"
    content = cnws_messages.write_subscribe(feed, "http://user:secret@127.0.0.1/")
    assert b"<status>false</status>" in ask(f"{proxy.base}/-/cnws", "POST", body=content).body
    workstation.status = 200
    workstation.told.clear()
    assert please_notify(proxy, port=workstation.port, path="/proved", url1=feed).get("success") == "true"

    change(proxy, origin, path, "two")
    until(lambda: len(workstation.told) == 2)

    assert {path for path, _ in workstation.told} == {"/proved"}


def test_cnws_subscriber_is_notified_and_removed_after_answering_false(start: Start, origin: Origin) -> None:
    proxy, path = start(ping_interval=0), "/cnws.xml"
    feed = origin.url(path)
    origin.publish(path, a_feed("one"))
    proxy.get(feed)
    wants, refuses = (
        Workstation(body=cnws_messages.write_result(True)),
        Workstation(body=cnws_messages.write_result(False)),
    )
    try:
        for each in (wants, refuses):
            content = cnws_messages.write_subscribe(feed, f"http://127.0.0.1:{each.port}/")
            answer = ask(f"{proxy.base}/-/cnws", "POST", body=content)
            assert (answer.status, b"<title>News</title>" in answer.body) == (200, True)
        change(proxy, origin, path, "two", "one")
        until(lambda: wants.told and refuses.told)
        change(proxy, origin, path, "three", "two", "one")
        until(lambda: len(wants.told) == 2)
    finally:
        wants.close()
        refuses.close()

    assert len(refuses.told) == 1
    assert b"<title>two</title>\n<description>About two</description>" in wants.told[0][1]


class Pair:
    """A publisher's feedproxy, and an office's feedproxy that reads it. Each can be killed and started again."""

    def __init__(self, start: Start, origin: Origin, folder: Path) -> None:
        self._start, self._folder = start, folder
        self._upstream = origin.url("").rstrip("/")
        self.ports = {"hub": free_port(), "office": free_port()}

    def hub(self, **options: object) -> Feedproxy:
        return self._open("hub", "--upstream", self._upstream, **options)

    def feed_list(self, **options: object) -> Feedproxy:
        return self._open("office", list_readers_min=1, **options)

    def address(self, who: str, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.ports[who]}{path}"

    def _open(self, who: str, *arguments: str, **options: object) -> Feedproxy:
        listen = ("--listen", f"127.0.0.1:{self.ports[who]}", "--public-url", self.address(who))
        return self._start(*arguments, *listen, store=self._folder / who, ping_interval=0, **options)


def test_feedproxy_notifies_another_by_rsscloud_across_restarts(start: Start, origin: Origin, tmp_path: Path) -> None:
    pair, path = Pair(start, origin, tmp_path), "/cloudy.xml"
    feed = pair.address("hub", path)
    origin.publish(path, a_feed("one"))

    def ping() -> None:
        assert ask(pair.address("hub", "/-/ping"), "POST", body=urlencode({"url": feed}).encode()).status == 200

    hub = pair.hub(announce="cloud")
    office = pair.feed_list()
    assert b"<cloud domain=" in office.get(feed).body
    until(lambda: active(hub, "tell", "rsscloud"))
    origin.publish(path, a_feed("two", "one"))
    ping()
    until(lambda: len(lists(office)) == 1)
    assert b"two" in office.get(feed).body

    hub.kill()
    hub = pair.hub(announce="cloud")
    origin.publish(path, a_feed("three", "two"))
    ping()
    until(lambda: len(lists(office)) == 2)

    office.kill()
    office = pair.feed_list()
    office.get(feed)  # readers are saved every few minutes only
    origin.publish(path, a_feed("four", "three"))
    ping()
    until(lambda: len(lists(office)) == 3)
    assert b"four" in office.get(feed).body


def test_feedproxy_notifies_another_by_cnws(start: Start, origin: Origin, tmp_path: Path) -> None:
    pair, path = Pair(start, origin, tmp_path), "/old.xml"
    feed = pair.address("hub", path)
    origin.publish(path, a_feed("one"))
    hub = pair.hub()
    office = pair.feed_list(cnws_subscribe=pair.address("hub", "/-/cnws"))
    office.get(feed)
    until(lambda: active(hub, "tell", "cnws"))

    origin.publish(path, a_feed("two", "one"))
    ask(pair.address("hub", "/-/ping"), "POST", body=urlencode({"url": feed}).encode())

    until(lambda: len(lists(office)) == 1)


def test_all_workers_accept_subscriptions_and_one_delivers(
    start: Start, origin: Origin, workstation: Workstation
) -> None:
    proxy, path = start("--workers", "2", ping_interval=0), "/shared.xml"
    feed = origin.url(path)
    origin.publish(path, a_feed("one"))
    proxy.get(feed)
    # Each registers on its own connection, which the kernel assigns to a worker.
    for number in range(16):
        done = until(lambda number=number: _taken(proxy, workstation, feed, number))  # type: ignore[misc]
        assert done
    workstation.told.clear()

    for count, title in enumerate(("two", "three"), 1):
        change(proxy, origin, path, title)
        until(lambda count=count: len(workstation.told) >= 16 * count)  # type: ignore[misc]

    assert set(Counter(path for path, _ in workstation.told).values()) == {2}
    assert len(workstation.told) == 32


def _taken(proxy: Feedproxy, workstation: Workstation, feed: str, number: int) -> bool:
    said = please_notify(proxy, port=workstation.port, path=f"/{number}", url1=feed)
    return said.get("success") == "true"


# -- an rssCloud server of another project


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[str]:
    node = shutil.which("node")
    if not SERVER or node is None:
        pytest.skip("no rsscloud-server: FEEDPROXY_RSSCLOUD_SERVER names the folder of a built one")
    port, allowed = free_port(), "127.0.0.0/8,::1/128"
    environment = clean_environment(
        PORT=str(port),
        DOMAIN="127.0.0.1",
        WEBSUB_CALLBACK_ALLOW_CIDRS=allowed,
        WEBSUB_FETCH_ALLOW_CIDRS=allowed,
        DATA_FILE_PATH=str(tmp_path / "cloud.json"),
        STATS_FILE_PATH=str(tmp_path / "stats.json"),
    )
    process = Process([node, str(Path(SERVER) / "app.js")], tmp_path / "cloud", environment)
    until(lambda: _listens(port), why=process.said)
    yield f"http://127.0.0.1:{port}"
    process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("protocol", "path", "procedure"),
    [("http-post", "/pleaseNotify", ""), ("xml-rpc", "/RPC2", "rssCloud.pleaseNotify")],
)
def test_office_registers_with_rsscloud_server_and_is_notified(
    start: Start, origin: Origin, tmp_path: Path, cloud: str, protocol: str, path: str, procedure: str
) -> None:
    pair, feed_path = Pair(start, origin, tmp_path), f"/for-{protocol}.xml"
    feed, where = origin.url(feed_path), urlsplit(cloud)
    element = (
        f'<cloud domain="{where.hostname}" port="{where.port}" path="{path}" registerProcedure="{procedure}"'
        f' protocol="{protocol}"/>'
    )
    origin.publish(feed_path, a_feed("one", extra=element))
    office = pair.feed_list()
    office.get(feed)
    until(lambda: active(office, "hear", "rsscloud"))

    origin.publish(feed_path, a_feed("two", "one", extra=element))
    answer = ask(
        f"{cloud}/ping",
        "POST",
        fields={"Content_Type": "application/x-www-form-urlencoded"},
        body=urlencode({"url": feed}).encode(),
    )
    assert answer.status == 200, answer.body
    until(lambda: len(lists(office)) == 1)
    assert b"two" in office.get(feed).body
