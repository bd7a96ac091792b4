"""WebSub with a hub and a subscriber of another project (Flask-WebSub): discovery, verification, signatures, and the
end.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from conformance.process import free_port
from tests.live.origin import Origin, a_feed, until
from tests.live.product import Feedproxy, Process, ask, clean_environment
from tests.live.test_websub import FORM, active, office_of, publish, publisher_of

type Start = Callable[..., Feedproxy]

pytestmark = pytest.mark.timeout(500)
"""The first test also installs the library, and on a busy machine the two servers start slowly."""

LISTENS = re.compile(r"^\{.*listens")

# Its hub uses Celery for its work. Here, a thread runs each task. It reports requests as JSON lines.
PARTY = """
import json, logging, sys, threading, time
from types import SimpleNamespace
import flask
from flask_websub.hub import Hub, SQLite3HubStorage
from flask_websub.subscriber import SQLite3SubscriberStorage, SQLite3TempSubscriberStorage, Subscriber, discover

def say(what, **data):
    print(json.dumps({"what": what, **data}), flush=True)

class Tasks:
    def task(self, bind=False, **_):
        def made(work):
            def run(tries, args):
                def again(countdown):
                    time.sleep(1)
                    run(tries + 1, args)
                one = SimpleNamespace(retry=again, request=SimpleNamespace(retries=tries))
                work(*((one,) if bind else ()), *args)
            def delay(*args):
                threading.Thread(target=run, args=(0, args), daemon=True).start()
            return SimpleNamespace(delay=delay)
        return made

port = int(sys.argv[1])
app = flask.Flask("party")
app.config.update(SERVER_NAME=f"127.0.0.1:{port}", PUBLISH_SUPPORTED=True)
hub = Hub(SQLite3HubStorage("hub.sqlite3"), Tasks(), SIGNATURE_ALGORITHM=sys.argv[2])
app.register_blueprint(hub.build_blueprint("/hub"))
subscriber = Subscriber(SQLite3SubscriberStorage("all.sqlite3"), SQLite3TempSubscriberStorage("asked.sqlite3"))
app.register_blueprint(subscriber.build_blueprint("/callbacks"))
subscriber.add_success_handler(lambda topic, callback, mode: say(mode, topic=topic))
subscriber.add_error_handler(lambda topic, callback, reason: say("denied", topic=topic, reason=reason))
subscriber.add_listener(lambda topic, callback, body: say("content", topic=topic, body=body.decode()))

@app.route("/follow")
def follow():
    return subscriber.subscribe(**discover(flask.request.args["topic"]))

@app.route("/leave")
def leave():
    subscriber.unsubscribe(flask.request.args["callback"])
    return "asked"

logging.getLogger("werkzeug").setLevel(logging.ERROR)
say("listens")
app.run(port=port, threaded=True)
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install Flask-WebSub from PyPI into its own folder."""
    folder = tmp_path_factory.mktemp("flask-websub")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--target", str(folder)]
    try:
        done = subprocess.run(
            [*command, "flask-websub==0.4.1"], capture_output=True, text=True, timeout=90, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("pip took more than a minute and a half")
    if done.returncode:
        pytest.skip(f"pip could not install flask-websub: {done.stderr.strip()[-200:]}")
    (folder / "party.py").write_text(PARTY, encoding="utf-8")
    return folder


class Party(Process):
    """The hub and the subscriber, at `base`."""

    def __init__(self, library: Path, folder: Path, method: str = "sha512") -> None:
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(library)!r}); import party"]
        super().__init__([*command, str(port), method], folder, clean_environment(HOME=str(folder)))
        self.line(LISTENS, deadline=120)
        until(self._is_up, deadline=120)

    def _is_up(self) -> bool:
        try:
            return ask(f"{self.base}/").status == 404
        except OSError:
            return False

    def hears(self, what: str) -> dict[str, str]:
        """Return the next report of this kind."""
        said: dict[str, str] = json.loads(self.line(re.compile(r"^\{.*"), deadline=120)[0])
        assert said["what"] == what, said
        return said


@pytest.fixture
def party(library: Path, tmp_path: Path) -> Iterator[Party]:
    made = Party(library, tmp_path / "party")
    yield made
    made.kill()


def test_foreign_hub_accepts_verifies_and_sends_valid_pushes(start: Start, origin: Origin, party: Party) -> None:
    path = "/flask-hub.xml"
    topic = origin.url(path)
    links = f'<{party.base}/hub>; rel="hub", <{topic}>; rel="self"'
    origin.publish(path, a_feed("one", "zero"), Link=links)
    office = office_of(start)
    office.get(topic)
    until(lambda: active(office, "hear"), deadline=120)

    origin.publish(path, a_feed("two", "one", "zero"), Link=links)
    told = urlencode({"hub.mode": "publish", "hub.topic": topic}).encode()
    assert ask(f"{party.base}/hub", "POST", fields=FORM, body=told).status == 202

    until(lambda: b"two" in office.get(topic).body, deadline=120)
    until(lambda: active(office, "hear")[0]["words"] == "pushed, with the content", deadline=120)
    agents = [each.agent for each in origin.asked(path)]
    assert [each.startswith("feedproxy/") for each in agents] == [True, False]


def test_foreign_subscriber_discovers_subscribes_and_unsubscribes(start: Start, origin: Origin, party: Party) -> None:
    path = "/flask-subscriber.xml"
    origin.publish(path, a_feed("one"))
    publisher = publisher_of(start, origin)
    feed = f"{publisher.base}{path}"
    ask(feed)

    callback = ask(f"{party.base}/follow?{urlencode({'topic': feed})}").body.decode()
    assert party.hears("subscribe")["topic"] == feed
    until(lambda: active(publisher, "tell"), deadline=120)
    publish(publisher, origin, path, "two", "one")
    got = party.hears("content")
    assert ask(f"{party.base}/leave?{urlencode({'callback': callback})}").status == 200

    assert got["topic"] == feed
    assert got["body"].encode() == ask(feed).body
    assert party.hears("unsubscribe")["topic"] == feed
    until(lambda: not active(publisher, "tell"), deadline=120)
