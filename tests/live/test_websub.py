"""WebSub through real sockets: a publisher's hub, an office that subscribes, and a subscriber of another project."""

import hashlib
import hmac
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.process import free_port
from tests.live.conftest import needs
from tests.live.origin import Origin, a_feed, until
from tests.live.product import Feedproxy, Process, ask

type Start = Callable[..., Feedproxy]

ADMIN = re.compile(r"the admin listener is at (http://\S+)")
FORM = {"content_type": "application/x-www-form-urlencoded"}

# The subscriber computes the secret from its own secret and the topic, but expects its own. The test corrects that.
SUBSCRIBER = """
const {createHmac} = require('node:crypto')
const subscriber = require('pubsubhubbub').createServer({callbackUrl: process.argv[2], secret: 'of mine'})
const say = (what, data) => console.log(JSON.stringify({what, ...data}))
subscriber.on('subscribe', ({topic, lease}) => {
  subscriber.secret = createHmac('sha1', 'of mine').update(topic).digest('hex')
  say('subscribe', {topic, lease})
})
subscriber.on('unsubscribe', ({topic}) => say('unsubscribe', {topic}))
subscriber.on('denied', ({topic}) => say('denied', {topic}))
subscriber.on('error', error => say('error', {words: String(error)}))
subscriber.on('feed', ({topic, hub, feed, headers}) =>
  say('feed', {topic, hub, feed: feed.toString(), type: headers['content-type']}))
subscriber.on('listen', () => subscriber.subscribe(process.argv[4], process.argv[3]))
subscriber.listen(Number(new URL(process.argv[2]).port), '127.0.0.1')
"""


def publisher_of(start: Start, origin: Origin, port: int = 0, **more: Any) -> Feedproxy:
    port = port or free_port()
    arguments = ("--upstream", origin.url("").rstrip("/"), "--public-url", f"http://127.0.0.1:{port}/")
    return start(*arguments, "--listen", f"127.0.0.1:{port}", **{"announce": "hub", **more})


def office_of(start: Start, port: int = 0, **more: Any) -> Feedproxy:
    port = port or free_port()
    return start("--public-url", f"http://127.0.0.1:{port}/", "--listen", f"127.0.0.1:{port}", **more)


def active(proxy: Feedproxy, role: str) -> list[dict[str, Any]]:
    """Return the active subscriptions from the admin listener."""
    found = ADMIN.search(proxy.said)
    assert found is not None
    view = json.loads(ask(f"{found[1]}/api/notifications").body)
    wanted = {"role": role, "protocol": "websub", "state": "active"}
    return [each for each in view["subscriptions"] if wanted.items() <= each.items()]


def publish(proxy: Feedproxy, origin: Origin, path: str, *titles: str) -> None:
    """Publish a change at the origin and notify its hub."""
    origin.publish(path, a_feed(*titles))
    told = ask(f"{proxy.base}/-/hub", "POST", fields=FORM, body=f"hub.mode=publish&hub.url={proxy.base}{path}".encode())
    assert told.status == 204


def test_feedproxy_subscribes_at_another_and_gets_the_feed_pushed(start: Start, origin: Origin) -> None:
    path = "/websub.xml"
    origin.publish(path, a_feed("one", "zero"))
    publisher, office = publisher_of(start, origin), office_of(start)
    feed = f"{publisher.base}{path}"
    first = office.get(feed)
    links = first.fields["Link"]
    assert f'<{publisher.base}/-/hub>; rel="hub"' in links
    assert f'<{feed}>; rel="self"' in links
    assert f'rel="hub" href="{publisher.base}/-/hub"'.encode() in first.body
    until(lambda: active(office, "hear"))
    (told,) = active(publisher, "tell")
    assert told["signed"] is True

    publish(publisher, origin, path, "two", "one", "zero")
    until(lambda: b"two" in office.get(feed).body)

    until(lambda: active(office, "hear")[0]["words"] == "pushed, with the content")
    assert len(origin.asked(path)) == 2
    assert office.get(feed).cache.startswith("feedproxy; hit")
    until(lambda: active(publisher, "tell")[0]["last_success"])
    secrets = [each for each in (publisher.said + office.said).split() if "hub.secret" in each or "X-Hub" in each]
    assert secrets == []


def test_kills_of_both_sides_lose_no_change(start: Start, origin: Origin, tmp_path: Path) -> None:
    path, near, far = "/killed-websub.xml", free_port(), free_port()
    stores = {name: tmp_path / name for name in ("publisher", "office")}
    origin.publish(path, a_feed("one", "zero"))
    publisher = publisher_of(start, origin, near, store=stores["publisher"])
    office = office_of(start, far, store=stores["office"])
    feed = f"{publisher.base}{path}"
    office.get(feed)
    until(lambda: active(office, "hear"))

    office.kill()
    publish(publisher, origin, path, "two", "one", "zero")
    until(lambda: len(origin.asked(path)) == 2)
    publisher.kill()  # in any state: fetch, store, record, first delivery
    # The office first: each failed delivery doubles the publisher's pause.
    office = office_of(start, far, store=stores["office"])
    publisher = publisher_of(start, origin, near, store=stores["publisher"])

    until(lambda: b"two" in office.get(feed).body)
    until(lambda: [each for each in active(office, "hear") if each["words"] == "pushed, with the content"])


@pytest.fixture(scope="session")
def subscriber(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a subscriber from npm and a program that prints its requests."""
    folder = tmp_path_factory.mktemp("subscriber")
    npm = shutil.which("npm") or "npm"
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    command = [npm, "install", "pubsubhubbub@1.0.2", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm took more than a minute")
    if done.returncode:
        pytest.skip(f"npm could not install pubsubhubbub: {done.stderr.strip()[-200:]}")
    (folder / "subscriber.js").write_text(SUBSCRIBER, encoding="utf-8")
    return folder


@needs("node", "npm")
@pytest.mark.parametrize("method", ["sha1", "sha256", "sha512"])
def test_foreign_subscriber_verifies_and_accepts_the_signature(
    start: Start, origin: Origin, subscriber: Path, method: str
) -> None:
    path = f"/others-{method}.xml"
    origin.publish(path, a_feed("one"))
    publisher = publisher_of(start, origin, websub_signature=method)
    feed = f"{publisher.base}{path}"
    ask(feed)
    command = ["node", "subscriber.js", f"http://127.0.0.1:{free_port()}/cb", f"{publisher.base}/-/hub", feed]
    listening = Process(command, subscriber)
    try:
        asked = json.loads(listening.line(re.compile(r".*"))[0])
        until(lambda: active(publisher, "tell"))
        publish(publisher, origin, path, "two", "one")
        got = json.loads(listening.line(re.compile(r".*"))[0])
    finally:
        listening.kill()

    assert (asked["what"], asked["topic"]) == ("subscribe", feed)
    assert (got["what"], got["topic"], got["hub"]) == ("feed", feed, f"{publisher.base}/-/hub")
    assert got["type"] == "application/rss+xml"
    assert got["feed"].encode() == ask(feed).body


def test_callback_refuses_unknown_requests_as_specified(start: Start, origin: Origin) -> None:
    """The requests go to a callback that was never registered, through every entrance."""
    office = office_of(start)
    forged = hmac.new(b"x", b"<rss/>", hashlib.sha256).hexdigest()

    verified = ask(f"{office.base}/-/push/websub/1.guess?hub.mode=subscribe&hub.topic=x&hub.challenge=abc")
    pushed = ask(
        f"{office.base}/-/push/websub/1.guess", "POST", body=b"<rss/>", fields={"x_hub_signature": f"sha256={forged}"}
    )
    asked = ask(f"{office.base}/-/hub", "POST", fields=FORM, body=b"hub.mode=subscribe&hub.callback=http://a.example/")

    assert (verified.status, b"abc" in verified.body) == (404, False)
    assert pushed.status == 410
    assert (asked.status, asked.fields["Content-Type"]) == (400, "text/plain; charset=utf-8")
    assert ask(f"{office.base}/-/hub").status == 405
