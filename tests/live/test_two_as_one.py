"""Two workers answer as one does, field by field: whatever one of them was told, the other knows at the next request.

Each scene is played to a proxy of one process and to one of two, whose readers change from worker to worker with every
request. The origin plays the same to both, and has to be asked the same.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.live.origin import Authority, Gate, Origin, a_feed, until
from tests.live.product import Feedproxy, Seen
from tests.live.worker_processes import TOLD_BY_PROC, Connection, admin, connections

pytestmark = pytest.mark.skipif(not TOLD_BY_PROC, reason="who serves a connection is told by /proc")

TELLS_TIME = ("age", "date")
"""Fields that say when, and not what: the two proxies are asked one after the other."""

IN_PASSING = re.compile(r"(?<=ttl=)-?\d+|(?<=feedproxy-)[0-9a-f]{8}|(?<=subscribers=)\d+")
"""In the others: seconds that are left, and the name of an installation."""


@dataclass
class Company:
    """A proxy, and connections to it of which no two neighbours have the same worker where there are two."""

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
        """Ask, of the next worker."""
        line = self.lines[self.asked % len(self.lines)]
        self.asked += 1
        line.send(self.target, method=method, **fields)
        self.seen.append(line.answer(method))
        return self.seen[-1]

    def by_all(self, times: int = 2, **fields: str) -> None:
        """Ask so often of each worker: the last answers come by heart."""
        for _ in range(times * len(self.lines)):
            self.get(**fields)

    def at_once(self, *, under_way: int) -> None:
        """Ask on all connections while the origin hesitates; what comes is put in an order."""
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
        told = {"Cache_Control": "max-age=3600", "Last_Modified": f"Fri, 20 Nov 2026 12:{self.published:02}:00 GMT"}
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
    """A proxy of one process and one of two; all scenes share them, each with a path of its own."""
    told = {"authority": authority.file, "public_url": "http://feeds.example"}
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
def test_two_workers_answer_as_one_does(companies: tuple[Company, Company], scene: Scene) -> None:
    one, two = companies

    seen_of_one, asked_by_one = _play(scene, one)
    seen_of_two, asked_by_two = _play(scene, two)

    assert [_told(each) for each in seen_of_two] == [_told(each) for each in seen_of_one]
    assert asked_by_two == asked_by_one, "the origin is asked as often, and the same"


def test_who_comes_together_is_answered_together(companies: tuple[Company, Company]) -> None:
    """Who asked the origin is another one each time. One thing differs: who waited at the other worker is answered from
    the store, and what the status was (fwd-status) is said by the worker that asked alone."""
    said = []
    for number, company in enumerate(companies, 1):
        app = Company(company.proxy, company.lines, company.origin, "/together")
        app.at_once(under_way=number)
        assert sum("collapsed" not in each.cache for each in app.seen) == 1
        said.append([repr(_told(each)).replace("; fwd-status=200", "") for each in app.seen])

    assert sorted(said[0]) == sorted(said[1])
    assert len(companies[0].origin.asked("/together")) == 2
