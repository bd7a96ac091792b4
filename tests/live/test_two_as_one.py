"""Two workers answer like one: each knows at the next request what the other has learned.

Each scene runs with a proxy of one process and with one of two workers, whose readers alternate between the workers.
The origin behaves the same and must get the same requests.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.live.origin import Authority, Gate, Origin, a_feed, until
from tests.live.product import Feedproxy, Seen
from tests.live.worker_processes import TOLD_BY_PROC, Connection, admin, connections

pytestmark = pytest.mark.skipif(not TOLD_BY_PROC, reason="who serves a connection is told by /proc")

TELLS_TIME = ("age", "date")
"""Fields that depend on the time of the request. They are not compared, because the two proxies are requested one after
the other.
"""

IN_PASSING = re.compile(r"(?<=ttl=)-?\d+|(?<=feedproxy-)[0-9a-f]{8}|(?<=subscribers=)\d+")
"""Parts of other fields that are not compared: remaining seconds, names of installations, and numbers of
subscribers.
"""


@dataclass
class Company:
    """A proxy and its connections. With two workers, neighbouring connections have different workers."""

    proxy: Feedproxy
    lines: list[Connection]
    origin: Origin
    path: str
    asked: int = 0
    published: int = 0
    seen: list[Seen] = field(default_factory=list)

    @property
    def target(self) -> str:
        return self.origin.url(self.path)

    def get(self, method: str = "GET", **fields: str) -> Seen:
        """Send a GET to the next worker."""
        line = self.lines[self.asked % len(self.lines)]
        self.asked += 1
        line.send(self.target, method=method, **fields)
        self.seen.append(line.answer(method))
        return self.seen[-1]

    def by_all(self, times: int = 2, **fields: str) -> None:
        """Send the request to each worker several times, so that the fast path answers the last ones."""
        for _ in range(times * len(self.lines)):
            self.get(**fields)

    def at_once(self, *, under_way: int) -> None:
        """Send requests on all connections while the origin delays its response.

        Return the responses in a fixed order.
        """
        told = {"Content_Type": "application/rss+xml", "Last_Modified": "Fri, 20 Nov 2026 12:00:00 GMT"}
        gate = Gate(lambda handler, _: handler.say(200, a_feed("x"), **told))
        self.origin.stage(self.path, gate)
        for line in self.lines:
            line.send(self.target)
        until(lambda: admin(self.proxy, "GET", "/api/status")["under_way"] == under_way)
        gate.open()
        self.seen += sorted((line.answer() for line in self.lines), key=lambda each: each.cache)
        del self.origin.scenes[self.path]

    def publish(self, *titles: str, **fields: str) -> None:
        self.published += 1
        told: dict[str, Any] = {
            "Cache_Control": "max-age=3600",
            "Last_Modified": f"Fri, 20 Nov 2026 12:{self.published:02}:00 GMT",
        }
        self.origin.publish(self.path, a_feed(*titles), **{**told, **fields})


type Scene = Callable[[Company], None]


def replaced(app: Company) -> None:
    for version in range(4):
        app.publish(f"v{version}")
        app.get(Cache_Control="no-cache", Sec_Fetch_Mode="navigate")
        app.by_all()


def refreshed(app: Company) -> None:
    app.publish("old")
    app.by_all()
    app.publish("new")
    admin(app.proxy, "POST", f"/refresh?url={app.target}")
    app.by_all()


def purged(app: Company) -> None:
    app.publish("one")
    for named in (f"url={app.target}", f"pattern=*{app.path}"):
        app.by_all()
        admin(app.proxy, "POST", f"/purge?{named}")
    app.by_all()


def written_to(app: Company) -> None:
    app.publish("old")
    app.by_all()
    app.publish("new")
    app.get("POST", Content_Length="0")
    app.by_all()


def not_modified(app: Company) -> None:
    app.publish("one", Last_Modified="Fri, 20 Nov 2026 12:00:00 GMT")
    for coding in ("identity", "gzip", "gzip;q=0.4, identity;q=0.5", "identity;q=0"):
        tag = app.get(Accept_Encoding=coding).fields["ETag"]
        app.by_all(If_None_Match=f'W/"other", {tag}', Accept_Encoding=coding)
        app.by_all(1, If_None_Match='"other"', Accept_Encoding=coding)
    app.by_all(If_Modified_Since="Fri, 20 Nov 2026 12:00:00 GMT")
    app.by_all(1, If_Modified_Since="Fri, 20 Nov 2026 11:59:59 GMT")
    app.by_all(1, If_Match='"other"')


def parts_and_heads(app: Company) -> None:
    app.publish("one")
    tag = app.get(Accept_Encoding="identity").fields["ETag"]
    for value in ("bytes=0-9", "bytes=-9", "bytes=9-", "bytes=99999-", "bytes=0-1,4-5", "lines=1-2"):
        app.by_all(1, Range=value, Accept_Encoding="identity")
    app.by_all(1, Range="bytes=0-9", If_Range=tag, Accept_Encoding="identity")
    app.by_all(1, Range="bytes=0-9", If_Range='"other"', Accept_Encoding="identity")
    for _ in range(6):
        app.get("HEAD")


def of_several_kinds(app: Company) -> None:
    for language in ("de", "en", "de", "en"):
        app.publish(language, Vary="Accept-Language", ETag=f'"{language}"')
        app.by_all(Accept_Language=language)


def of_which_only_news_are_wanted(app: Company) -> None:
    app.publish("one")
    tag = app.get().fields["ETag"]
    app.publish("two", "one")
    app.get(Cache_Control="no-cache", Sec_Fetch_Mode="navigate")
    app.by_all(A_IM="feed", If_None_Match=tag)


def not_for_all(app: Company) -> None:
    app.publish("yours", Cache_Control="private")
    app.by_all(1)
    app.publish("all's", Cache_Control="max-age=3600")
    app.by_all()
    app.get(Cache_Control="only-if-cached")


def failed(app: Company) -> None:
    app.publish("good")
    app.by_all(1)
    app.origin.publish(app.path, b"sorry", 500)
    app.get(Cache_Control="no-cache", Sec_Fetch_Mode="navigate")
    app.by_all()


SCENES = (
    replaced,
    refreshed,
    purged,
    written_to,
    not_modified,
    parts_and_heads,
    of_several_kinds,
    of_which_only_news_are_wanted,
    not_for_all,
    failed,
)


@pytest.fixture(scope="module")
def companies(
    origin: Origin, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Company, Company]]:
    """Run a proxy of one process and one of two workers. All scenes share them, each with its own path."""
    told: dict[str, Any] = {"authority": authority.file, "public_url": "http://feeds.example"}
    with ExitStack() as stack:
        one = Feedproxy(tmp_path_factory.mktemp("one"), **told)
        stack.callback(one.terminate)
        two = Feedproxy(tmp_path_factory.mktemp("two"), "--workers", "2", **told)
        stack.callback(two.terminate)
        of_two = stack.enter_context(connections(two, each=2))
        of_one = [Connection(one, "reader/1", find=False) for _ in of_two]
        for each in of_one:
            stack.callback(each.close)
        assert len({each.pid for each in of_two}) == 2
        yield Company(one, of_one, origin, ""), Company(two, of_two, origin, "")


def _play(scene: Scene, company: Company) -> tuple[list[Seen], list[tuple[str, str, str | None]]]:
    app = Company(company.proxy, company.lines, company.origin, f"/{scene.__name__}")
    before = len(app.origin.log)
    scene(app)
    asked = [(each.method, each.path, each.fields.get("If-None-Match")) for each in app.origin.log[before:]]
    return app.seen, asked


def _told(seen: Seen) -> tuple[int, list[tuple[str, str]], bytes]:
    fields = [
        (name.lower(), "" if name.lower() in TELLS_TIME else IN_PASSING.sub("*", value))
        for name, value in seen.fields.items()
    ]
    return seen.status, sorted(fields), seen.body


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_two_workers_answer_like_one_worker(companies: tuple[Company, Company], scene: Scene) -> None:
    one, two = companies

    seen_of_one, asked_by_one = _play(scene, one)
    seen_of_two, asked_by_two = _play(scene, two)

    assert [_told(each) for each in seen_of_two] == [_told(each) for each in seen_of_one]
    assert asked_by_two == asked_by_one, "the origin is asked as often, and the same"


def test_concurrent_requests_at_two_workers_are_answered_like_at_one(companies: tuple[Company, Company]) -> None:
    """Any of them may contact the origin.

    The waiting worker's readers get the stored response, so only the fetching worker reports fwd-status.
    """
    said = []
    for number, company in enumerate(companies, 1):
        app = Company(company.proxy, company.lines, company.origin, "/together")
        app.at_once(under_way=number)
        assert sum("collapsed" not in each.cache for each in app.seen) == 1
        said.append([repr(_told(each)).replace("; fwd-status=200", "") for each in app.seen])

    assert sorted(said[0]) == sorted(said[1])
    assert len(companies[0].origin.asked("/together")) == 2
