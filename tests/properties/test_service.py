"""Properties of the service for any sequence of events at readers, origins and clocks."""

import asyncio
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from feedproxy.clock import Instant, ManualClock
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import Entrance
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.play import OnService, Proxy, Seen
from tests.waiting import PATIENCE

NOON = 1_795_176_000.0
FLOOR = 60
PATHS = ("/feed.rss", "/page")
PERSONAL = ("no-store", "private", "private, max-age=600")
SHAREABLE = ("", "max-age=30", "max-age=600", "public, max-age=60", "max-age=60, stale-while-revalidate=60")
STRICT = ("no-cache", "max-age=60, must-revalidate", "s-maxage=120", "max-age=0, no-cache")
SELF_LINK = re.compile(rb"<atom:link [^>]*/>")
MARK = re.compile(rb"v(\d+)-(\w+)\.")


@dataclass(frozen=True)
class Publish:
    """The origin publishes a new version at this path."""

    path: str
    cache_control: str
    vary: bool
    tag: bool
    date: bool
    age: int


@dataclass(frozen=True)
class Fail:
    """The origin fails at this path until the next version. `status` 0 means no response."""

    path: str
    status: int


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    seconds: int


@dataclass(frozen=True)
class Ask:
    """A reader's request. `holds` is the index of the earlier response from which its condition comes."""

    path: str
    method: str
    entrance: Entrance
    condition: str
    holds: int
    fields: tuple[tuple[str, str], ...]


type Step = Publish | Fail | Wait | Ask

paths = st.sampled_from(PATHS)
publishing = st.builds(
    Publish,
    paths,
    st.sampled_from((*SHAREABLE, *SHAREABLE, *STRICT, *PERSONAL)),
    vary=st.booleans(),
    tag=st.booleans(),
    date=st.booleans(),
    age=st.sampled_from((0, 0, 20, 700)),
)
waiting = st.builds(Wait, st.sampled_from((0, 1, 5, 29, 31, 59, 61, 300, 601, 3_700, 90_000)))
asking = st.builds(
    Ask,
    paths,
    st.sampled_from(("GET", "GET", "GET", "HEAD")),
    st.sampled_from((Entrance.GATEWAY, Entrance.GATEWAY, Entrance.PROXY)),
    st.sampled_from(("", "", "if-none-match", "if-modified-since", "range")),
    st.integers(0, 3),
    st.lists(
        st.sampled_from(
            [
                ("Accept-Language", "de"),
                ("Accept-Language", "en"),
                ("Accept-Encoding", "gzip"),
                ("Accept-Encoding", "br;q=0.5, zstd"),
                ("Authorization", "Basic YQ=="),
                ("Cache-Control", "no-cache"),
                ("Cache-Control", "max-age=10"),
                ("Cache-Control", "max-stale=100"),
                ("Cache-Control", "only-if-cached"),
                ("User-Agent", "reader/1"),
                ("User-Agent", "Feedly/1.0 (3 subscribers)"),
            ]
        ),
        max_size=3,
        unique_by=lambda line: line[0],
    ).map(tuple),
)
failing = st.builds(Fail, paths, st.sampled_from((0, 500, 503, 404, 429)))
steps = st.lists(st.one_of(asking, asking, asking, waiting, publishing, failing), min_size=4, max_size=25)


@dataclass
class Page:
    """The content at a path, as the model knows it."""

    about: Publish
    serial: int
    since: Instant
    failing: int | None = None


@dataclass
class World:
    """The origin, and the facts about all its responses."""

    clock: ManualClock
    serials: Iterator[int] = field(default_factory=itertools.count)
    pages: dict[str, Page] = field(default_factory=dict)
    good: dict[str, Instant] = field(default_factory=dict)
    """By mark: the instant at which the origin last sent or confirmed the content with this mark."""
    personal: set[str] = field(default_factory=set)
    """Marks of contents that were meant for one request only."""
    shown: set[str] = field(default_factory=set)
    asked: dict[str, list[Instant]] = field(default_factory=lambda: {path: [] for path in PATHS})
    """By path: the instants at which the origin received requests."""
    servable: dict[str, bool] = field(default_factory=dict)
    """By path: True if the last successful response may be reused for every client, even when it is stale."""

    def publish(self, about: Publish) -> None:
        self.clock.advance(2)  # each version has its own second, so that dates distinguish them
        self.pages[about.path] = Page(about, next(self.serials), self.clock.now())

    def answer(self, request: Request) -> Response:
        now = self.clock.now()
        path = "/" + request.target.split("/", 3)[3]
        self.asked[path].append(now)
        page = self.pages[path]
        if page.failing is not None:
            if page.failing == 0:
                raise Unreachable("no route")
            return Response(page.failing, Fields([("Date", format_http_date(now))]), b"failing")
        about = page.about
        explicit = "public" in about.cache_control or "must-revalidate" in about.cache_control
        authorized = "authorization" in request.fields
        personal = about.cache_control in PERSONAL or (
            authorized and not explicit and "s-maxage" not in about.cache_control
        )
        serial = next(self.serials) if personal else page.serial
        language = (request.fields.get("accept-language") or "none") if about.vary else "all"
        mark = f"v{serial}-{language}"
        lines = [("Date", format_http_date(now)), ("Age", str(about.age))]
        lines.append(("Content-Type", "application/rss+xml" if path == "/feed.rss" else "text/plain"))
        if about.cache_control:
            lines.append(("Cache-Control", about.cache_control))
        if about.vary:
            lines.append(("Vary", "Accept-Language"))
        if about.tag:
            lines.append(("ETag", f'"{mark}"'))
        if about.date and not personal:
            lines.append(("Last-Modified", format_http_date(page.since)))
        fields = Fields(lines)
        if personal:
            self.personal.add(mark)
        self.good[mark] = now - about.age
        if request.method == "GET":
            self.servable[path] = about.cache_control in SHAREABLE and not about.vary and not authorized
        if self._held(request, fields):
            return Response(304, fields.without("content-type"))
        return Response(200, fields, b"" if request.method == "HEAD" else body_of(path, mark))

    def _held(self, request: Request, fields: Fields) -> bool:
        if (tag := request.fields.get("if-none-match")) is not None:
            return tag == fields.get("etag")
        since = request.fields.get("if-modified-since")
        return since is not None and since == fields.get("last-modified")


def body_of(path: str, mark: str) -> bytes:
    """Return a content that contains its mark at the beginning, at the end and between."""
    if path == "/page":
        return (f"{mark}. " * 100).encode()
    items = "".join(f"<item><guid>{number}/{mark}.</guid></item>" for number in range(40))
    return f"<rss version='2.0'><channel><title>{mark}.</title>{items}</channel></rss>".encode()


def marks(content: bytes) -> set[str]:
    return {f"v{serial.decode()}-{language.decode()}" for serial, language in MARK.findall(content)}


def language_of(seen: Seen) -> str:
    return min(marks(seen.plain)).partition("-")[2]


def accepted(step: Ask) -> str:
    return dict(step.fields).get("Accept-Language", "none")


class Watch:
    """Executes the steps and checks every response."""

    def __init__(self, proxy: Proxy, world: World) -> None:
        self.proxy = proxy
        self.world = world
        self.seen: dict[str, list[Seen]] = {path: [] for path in PATHS}
        self.whole: dict[tuple[str, str], bytes] = {}

    async def play(self, step: Step) -> None:
        match step:
            case Publish():
                self.world.publish(step)
            case Fail(path, status):
                self.world.pages[path].failing = status
            case Wait(seconds):
                self.world.clock.advance(seconds)
            case Ask():
                await self._ask(step)

    async def _ask(self, step: Ask) -> None:
        world, now = self.world, self.world.clock.now()
        held = self._held(step)
        asked = tuple(world.asked[step.path])
        servable = world.servable.get(step.path, False)
        fields = dict(step.fields)
        condition = self._condition(step, held)
        seen = await self._send(step, fields | condition)
        self._the_floor_holds(step, asked, now, servable)
        if seen.status == 200 and step.method == "GET":
            self._looks_right(step, seen, now)
            self.seen[step.path].append(seen)
        if seen.status == 206:
            self._is_a_part(seen)
        if seen.status == 304 and held is not None:
            again = await self._send(step, fields, method="GET")
            if again.status == 200 and not marks(again.plain) & world.personal:
                assert again.plain == held.plain, "304 for what the reader does not hold"
        await self.proxy.settled()

    def _held(self, step: Ask) -> Seen | None:
        before = self.seen[step.path]
        if step.condition == "if-modified-since":  # a date does not distinguish languages
            before = [seen for seen in before if language_of(seen) in ("all", accepted(step))]
        return before[-1 - step.holds] if step.holds < len(before) else None

    def _condition(self, step: Ask, held: Seen | None) -> dict[str, str]:
        if step.condition == "range":
            return {"Range": "bytes=10-99"}
        if held is None:
            return {}
        value = held.fields.get({"if-none-match": "etag", "if-modified-since": "last-modified"}.get(step.condition, ""))
        return {step.condition: value} if value else {}

    async def _send(self, step: Ask, fields: dict[str, str], method: str = "") -> Seen:
        given: dict[str, Any] = {name.replace("-", "_"): value for name, value in fields.items()}
        return await self.proxy.send(method or step.method, step.path, entrance=step.entrance, **given)

    def _looks_right(self, step: Ask, seen: Seen, now: Instant) -> None:
        world, borne = self.world, marks(seen.plain)
        assert len(borne) == 1, f"a body that mixes versions: {borne}"
        (mark,) = borne
        assert SELF_LINK.sub(b"", seen.plain) == body_of(step.path, mark)
        assert int(seen.fields.get("age") or 0) >= int(now - world.good[mark]), "younger than it is"
        assert not (mark in world.personal and mark in world.shown), "given to two what was meant for one"
        world.shown.add(mark)
        assert language_of(seen) in ("all", accepted(step)), "another reader's variant"
        if seen.tag:
            key = (step.path, seen.tag)
            assert self.whole.setdefault(key, seen.body) == seen.body or seen.tag.startswith("W/"), (
                "two bodies, one tag"
            )

    def _is_a_part(self, seen: Seen) -> None:
        whole = [body for (_, tag), body in self.whole.items() if tag == seen.tag]
        assert not whole or seen.body in {each[10:100] for each in whole}

    def _the_floor_holds(self, step: Ask, asked: tuple[Instant, ...], now: Instant, servable: bool) -> None:
        if step.path == "/feed.rss" and servable and asked and now - asked[-1] < FLOOR:
            assert tuple(self.world.asked[step.path]) == asked, "asked again within the floor"


@settings(max_examples=60, deadline=None)
@given(steps)
def test_responses_are_correct_after_any_sequence_of_events(played: list[Step]) -> None:
    async def run() -> None:
        clock = ManualClock(NOON)
        stage = OnService(clock, {"site_interval": 0, "feed_min_interval": FLOOR})
        await stage.open()
        world = World(clock)
        world.publish(Publish("/feed.rss", "max-age=30", vary=False, tag=True, date=False, age=0))
        world.publish(Publish("/page", "max-age=600", vary=True, tag=True, date=True, age=0))
        stage.origin.speak(world.answer)
        watch = Watch(Proxy(stage), world)
        try:
            for step in played:
                await watch.play(step)
        finally:
            await stage.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
