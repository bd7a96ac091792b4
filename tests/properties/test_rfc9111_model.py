"""The cache compared with a model of RFC 9111: the cache sends no response that the model forbids, after any events."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from feedproxy.clock import ManualClock
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import Entrance
from feedproxy.upstream.upstream_errors import Unreachable
from tests.properties.model import Exchange, Model, Use, Verdict, age_said, instant, members
from tests.stages.play import HERE, OnService, Seen
from tests.waiting import PATIENCE

NOON = 1_795_176_000.0
PATHS = ("/a", "/b")
MARK = re.compile(rb"v\d+\.[\w.-]+;")
VARIED = ("Accept-Language", "X-Colour")
LONG_AGO = 100_000
EXAMPLES = 50
"""Number of sequences, of up to 25 steps, for each kind of cache. The fault below that is found last needs 40."""
NOTHING = ("Cache-Control", "")


@dataclass(frozen=True)
class Page:
    """The origin's response at a path.

    `skew` is the advance of the origin's clock, `delay` the response time, in seconds.
    """

    status: int
    cache_control: str
    expires: int | str | None
    skew: int
    age: str
    tag: str
    modified: int | None
    vary: str
    delay: float
    targeted: str = ""
    """CDN-Cache-Control."""


@dataclass(frozen=True)
class Ask:
    """A reader's request. Its condition comes from an earlier response."""

    path: str
    method: str
    language: str
    colour: str
    authorized: bool
    wants: tuple[str, str]
    condition: str
    holds: int

    @property
    def fields(self) -> Fields:
        lines = [("Accept-Language", self.language), ("X-Colour", self.colour), self.wants]
        lines += [("Authorization", "Basic YQ==")] * self.authorized
        return Fields(line for line in lines if line[1])


lifetimes = st.sampled_from(["0", "10", "60", "600", "3600", "60, max-age=600", "x"])
pauses = st.sampled_from([0, 0, 0.5, 1, 9, 30, 59, 60, 61, 300, 600, 3_600, LONG_AGO])
spans = st.sampled_from(["10", "600", "100000"])
pieces = st.one_of(
    st.sampled_from(
        ["no-cache", "no-store", "private", "public", "must-revalidate", "proxy-revalidate", "immutable", "Public"]
    ),
    st.builds("max-age={}".format, lifetimes),
    st.builds("s-maxage={}".format, st.sampled_from(["0", "10", "600"])),
    st.builds("stale-while-revalidate={}".format, spans),
    st.builds("stale-if-error={}".format, spans),
    st.sampled_from(['private="x-secret"', 'no-cache="x-secret"', "no-store, must-understand"]),
)
cache_controls = st.one_of(
    st.sampled_from(["", "max-age=60", "max-age=600", "max-age=60, stale-while-revalidate=600"]),
    st.lists(pieces, min_size=1, max_size=3).map(", ".join),
)
pages = st.builds(
    Page,
    status=st.sampled_from([200, 200, 200, 200, 200, 404, 410, 301, 500, 503]),
    cache_control=cache_controls,
    expires=st.sampled_from([None, None, None, 60, 600, 3600, -10, "0"]),
    skew=st.sampled_from([0, 0, 0, -100, 50]),
    age=st.sampled_from(["", "", "0", "20", "300", "300, 0", "0, 300", "300;x=1", "abc", "-300", "300.0"]),
    tag=st.sampled_from(["", '"{}"', '"{}"', 'W/"{}"']),
    modified=st.sampled_from([None, 0, LONG_AGO]),
    vary=st.sampled_from(["", "", "", "Accept-Language", "Accept-Language, X-Colour", "x-colour", "*"]),
    delay=st.sampled_from([0, 0, 0, 3, 0.5]),
    targeted=st.sampled_from(
        [
            *[""] * 6,
            *("max-age=600", "max-age=10", "no-store", "private", "no-cache", "s-maxage=600, must-revalidate"),
            *("max-age=0, max-age=600", "Max-Age=600", "max-age=600,", 'max-age=600, private="x-secret"', "public"),
        ]
    ),
)
asks = st.builds(
    Ask,
    path=st.sampled_from((*PATHS[:1], *PATHS)),
    method=st.sampled_from(["GET", "GET", "GET", "GET", "HEAD"]),
    language=st.sampled_from(["", "de", "en"]),
    colour=st.sampled_from(["", "", "red"]),
    authorized=st.sampled_from([False, False, False, True]),
    wants=st.sampled_from(
        [
            *[NOTHING] * 9,
            ("Cache-Control", "no-cache"),
            ("Pragma", "no-cache"),
            ("Cache-Control", "no-store"),
            ("Cache-Control", "max-age=0"),
            ("Cache-Control", "max-age=30"),
            ("Cache-Control", "max-age=500"),
            ("Cache-Control", "min-fresh=30"),
            ("Cache-Control", "max-stale"),
            ("Cache-Control", "max-stale=100"),
            ("Cache-Control", "only-if-cached"),
            ("Cache-Control", "max-stale, only-if-cached"),
        ]
    ),
    condition=st.sampled_from(["", "", "", "if-none-match", "if-modified-since"]),
    holds=st.integers(0, 3),
)


class CacheBesideModel(RuleBasedStateMachine):
    """Simulates the origin and its readers, and checks every response of the cache by the model."""

    options: ClassVar[dict[str, Any]] = {}
    media_type = "text/plain"
    left_out: ClassVar[tuple[int, ...]] = ()
    """Statuses that the origin does not use."""
    asks_for_everybody = False
    """True if the cache may omit a reader's fields from its request when no stored Vary names them."""
    targeted = False
    """True if CDN-Cache-Control applies to this cache."""
    tally: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(NOON)
        self.stage = OnService(self.clock, {"feed_min_interval": 0, "site_interval": 0, **self.options})
        self.stage.origin.speak(self._answer)
        self.model = Model(self.heuristic)
        self.pages: dict[str, tuple[int, float, Page]] = {}
        self.versions = 0
        self.numbers = 0
        self.down = False
        self.failed: dict[str, bool] = dict.fromkeys(PATHS, False)
        """By path: True if the last attempt to contact the origin has failed."""
        self.heard: list[Exchange] = []
        """Exchanges with the origin since the current request, until its response."""
        self.heard_later: list[Exchange] = []
        """Exchanges of the background refreshes after the response."""
        self.seen: dict[str, list[tuple[bytes, Seen]]] = {path: [] for path in PATHS}
        self._run(self.stage.open())

    def _run(self, act: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(act, PATIENCE))

    def teardown(self) -> None:
        self._run(self.stage.close())
        self.loop.close()

    @staticmethod
    def heuristic(old: Exchange) -> float:
        """Return a tenth of the time since Last-Modified, or 0 without it."""
        modified = instant(old.fields.get("last-modified"))
        return 0 if modified is None else max(0.0, (old.date - modified) / 10)

    # -- events

    @initialize(a=pages, b=pages)
    def begin(self, a: Page, b: Page) -> None:
        for path, page in zip(PATHS, (a, b), strict=True):
            self._publish(path, page)

    @rule(path=st.sampled_from(PATHS), page=pages)
    def the_origin_changes(self, path: str, page: Page) -> None:
        self._publish(path, page)

    @rule(path=st.sampled_from(PATHS), cache_control=cache_controls)
    def the_origin_says_something_else_of_the_same(self, path: str, cache_control: str) -> None:
        version, since, page = self.pages[path]
        self.pages[path] = version, since, replace(page, cache_control=cache_control)

    @rule(seconds=pauses)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(down=st.booleans())
    def the_origin_breaks_down_or_recovers(self, down: bool) -> None:
        self.down = down

    @rule(path=st.sampled_from(PATHS), status=st.sampled_from([200, 204, 303, 400, 503]))
    def something_is_posted(self, path: str, status: int) -> None:
        target = self.stage.origin.url(path)
        asked = Request("POST", target)
        self._run(self.stage.service.admin.invalidate_after_write(asked, Response(status)))
        if status < 400:
            self.model.changed(target)

    @rule(ask=asks)
    def somebody_asks(self, ask: Ask) -> None:
        self._ask(ask)

    @rule(ask=asks, seconds=pauses)
    def somebody_comes_back(self, ask: Ask, seconds: float) -> None:
        self._ask(ask)
        self.clock.advance(seconds)
        self._ask(ask)

    @rule(ask=asks, seconds=pauses, other=asks)
    def another_reader_polls_the_same(self, ask: Ask, seconds: float, other: Ask) -> None:
        self._ask(replace(ask, wants=NOTHING))
        self.clock.advance(seconds)
        self._ask(replace(other, path=ask.path, language=ask.language))

    @rule(path=st.sampled_from(PATHS), page=pages, ask=asks, seconds=pauses, other=asks)
    def something_new_is_read(self, path: str, page: Page, ask: Ask, seconds: float, other: Ask) -> None:
        self._publish(path, page)
        self._ask(replace(ask, path=path, wants=NOTHING))
        self.clock.advance(seconds)
        self._ask(replace(other, path=path, colour=ask.colour))

    @rule(path=st.sampled_from(PATHS), before=pages, ask=asks, seconds=pauses, after=pages)
    def a_head_comes_between(self, path: str, before: Page, ask: Ask, seconds: float, after: Page) -> None:
        get = replace(ask, path=path, method="GET", wants=NOTHING)
        self._publish(path, before)
        self._ask(get)
        self.clock.advance(seconds)
        self._publish(path, after)
        self._ask(replace(get, method="HEAD"))
        self._ask(get)

    # -- the origin

    def _publish(self, path: str, page: Page) -> None:
        self.clock.advance(2)  # each version has its own second, so that dates distinguish them
        self.versions += 1
        if page.status in self.left_out:
            page = replace(page, status=200)
        self.pages[path] = self.versions, self.clock.now(), page

    def _answer(self, request: Request) -> Response:
        path = "/" + request.target.split("/", 3)[3]
        if path not in self.pages:  # the target of a redirect
            return Response(404, Fields([("Cache-Control", "no-store"), ("Content-Type", "text/plain")]), b"nothing")
        if self.down:
            self.failed[path] = True
            raise Unreachable("no route")
        _, since, page = self.pages[path]
        asked = self.clock.now()
        self.clock.advance(page.delay)
        now = self.clock.now()
        # The pause after a feed's failure is not ended by responses for one reader.
        self.failed[path] = page.status >= 500 or (
            self.asks_for_everybody and (self.failed[path] or page.status >= 400)
        )
        self.numbers += 1
        mark = self._mark(path, request.fields)
        lines = [
            ("Date", format_http_date(now + page.skew)),
            ("X-Number", str(self.numbers)),
            ("Content-Type", self.media_type),
        ]
        if page.cache_control:
            lines.append(("Cache-Control", page.cache_control))
        if page.expires is not None:
            said = page.expires
            lines.append(("Expires", said if isinstance(said, str) else format_http_date(now + page.skew + said)))
        lines += [("Age", page.age)] * bool(page.age)
        lines += [("CDN-Cache-Control", page.targeted)] * bool(page.targeted)
        lines.append(("X-Secret", "one's own"))
        if page.tag:
            lines.append(("ETag", page.tag.format(mark.decode().rstrip(";"))))
        if page.modified is not None:
            lines.append(("Last-Modified", format_http_date(since + page.skew - page.modified)))
        if page.vary:
            lines.append(("Vary", page.vary))
        if page.status == 301:
            lines.append(("Location", self.stage.origin.url("/elsewhere")))
        fields, status, body = Fields(lines), page.status, self.body(mark)
        if status == 200 and holds(request.fields, fields):
            status, body, fields = 304, b"", fields.without("content-type")
        body = b"" if request.method == "HEAD" else body
        exchange = Exchange(self.numbers, request, status, fields, body, asked, now, targeted=self.targeted)
        self.heard.append(exchange)
        self.model.hear(exchange)
        return Response(status, fields, body)

    def _mark(self, path: str, fields: Fields) -> bytes:
        """Return the name of the current content for a reader with these fields."""
        version, _, page = self.pages[path]
        named = members(page.vary.lower())
        chosen = [fields.get(name) or "none" for name in VARIED if name.lower() in named or "*" in named]
        return ".".join([f"v{version}", path[1:], str(page.status), *chosen]).encode() + b";"

    def body(self, mark: bytes) -> bytes:
        return mark * 40

    # -- the reader

    def _send(self, path: str, method: str, fields: Fields) -> tuple[Seen, bool]:
        """Return the response, and whether the last attempt to reach the origin before it has failed."""

        async def act() -> tuple[Seen, bool]:
            seen = await self.stage.send(method, path, fields, entrance=Entrance.PROXY, address=HERE)
            failed, until_response = self.failed[path], len(self.heard)
            while self.stage.service.admin.active_refreshes:  # noqa: ASYNC110 -- no event to wait for
                await asyncio.sleep(0)
            self.heard, self.heard_later = self.heard[:until_response], self.heard[until_response:]
            return seen, failed

        return self._run(act())

    def _ask(self, ask: Ask) -> None:
        fields, held = ask.fields, b""
        if ask.condition and ask.holds < len(self.seen[ask.path]):
            held, before = self.seen[ask.path][-1 - ask.holds]
            name = "etag" if ask.condition == "if-none-match" else "last-modified"
            value = before.fields.get(name) or (before.fields.get("date") if name == "last-modified" else None)
            fields = fields.with_added(ask.condition, value) if value else fields
        request = Request(ask.method, self.stage.origin.url(ask.path), fields)
        now, self.heard = self.clock.now(), []
        # Background requests come after the response, so the model decides with the earlier state.
        judged = list(self.model.judged(request, now))
        seen, failed = self._send(ask.path, ask.method, fields)

        context = Context(ask, fields, seen, judged, self.heard, self.heard_later)
        self._look(request, seen, held, now, judged, context, failed=failed)
        if self.heard:
            self.model.kept(self.heard[-1], stored="stored" in [word.strip() for word in seen.cache.split(";")])
        for exchange in self.heard_later:
            self.model.kept(exchange, stored=False)  # the response does not tell
        if seen.status == 200 and ask.method == "GET":
            self.seen[ask.path].append((the_mark(seen.body), seen))

    def _look(
        self,
        request: Request,
        seen: Seen,
        held: bytes,
        now: float,
        judged: list[tuple[Exchange, Verdict]],
        context: "Context",
        *,
        failed: bool,
    ) -> None:
        if self.asks_for_everybody and seen.status == 304 and "if-none-match" not in request.fields:
            # The cache adds Last-Modified to feeds without one.
            dated = instant(seen.fields.get("last-modified"))
            since = instant(request.fields.get("if-modified-since"))
            if dated is not None and since is not None and dated <= since:
                return
        number = int(seen.fields.get("x-number") or 0)
        only_if_cached = "only-if-cached" in (request.fields.get("cache-control") or "")
        if number in {exchange.number for exchange in self.heard}:
            assert not only_if_cached, f"asked, though only a stored one was wanted\n{context}"
            self._is_the_origins_answer(request, seen, held, number, context)
            return
        permitted = [
            old for old, verdict in judged if verdict.use is Use.FREELY or (verdict.use is Use.CUT_OFF and failed)
        ]
        if seen.status == 304:
            confirmed = [old for old in permitted if number in (0, old.number)]
            current = [exchange for exchange in self.heard if exchange.status in (200, 304)][-1:]
            assert any(is_unchanged(request.fields, old, held) for old in confirmed) or any(
                is_unchanged(request.fields, new, held, mark=self._there_for(request, new)) for new in current
            ), f"304 for what the reader does not hold\n{context}"
            self.tally["304"] += 1
            return
        if not number:
            before = [old for old in self.model.history if old.request.target == request.target]
            has_content = any(exchange.status == 200 for exchange in self.heard)
            if seen.status == 410 and 410 in {old.status for old in before} and not has_content:
                return  # the proxy writes its own page for a feed that ended
            assert seen.status in (502, 503, 504), f"an answer that nobody gave\n{context}"
            assert failed or only_if_cached, f"an error of which nobody knows\n{context}"
            return
        named = [old for old in permitted if old.number == number]
        assert named, f"must not be used\n{context}"
        self.tally["hit"] += 1
        assert any(self._is_it(seen, old, request) for old in named), f"not what was stored\n{context}"
        waited = self.clock.now() - now  # for an origin that failed at last
        ages = [int(old.age(now)) for old in named]
        said = int(seen.fields.get("age") or -1)
        assert any(age <= said <= age + 1 + waited for age in ages), f"Age is {said}, not {ages}\n{context}"

    def _is_the_origins_answer(
        self, request: Request, seen: Seen, held: bytes, number: int, context: "Context"
    ) -> None:
        exchange = next(each for each in self.heard if each.number == number)
        path = "/" + request.target.rsplit("/", 1)[1]
        mark = self._there_for(request, exchange)
        self.tally["asked"] += 1
        if seen.status == 304:
            assert is_unchanged(request.fields, exchange, held, mark=mark), f"304 for what is not held\n{context}"
            return
        assert seen.status == self.pages[path][2].status, f"another status than the origin's\n{context}"
        if request.method == "GET":
            assert the_mark(seen.body) == mark, f"not what stands there now: {mark!r}\n{context}"
        assert int(seen.fields.get("age") or 0) >= age_said(exchange.fields), f"made younger\n{context}"
        if exchange.status == 304:
            self.tally["freshened"] += 1

    def _there_for(self, request: Request, exchange: Exchange) -> bytes:
        path = "/" + request.target.rsplit("/", 1)[1]
        return self._mark(path, (exchange.request if self.asks_for_everybody else request).fields)

    def _is_it(self, seen: Seen, old: Exchange, request: Request) -> bool:
        """Return True if this is the recorded response: status, content and all fields that caches interpret."""
        names = ["date", "cache-control", "expires", "location", *self.kept_fields]
        return (
            seen.status == old.status
            and all(seen.fields.combined(name) == old.fields.combined(name) for name in names)
            and not any(name in seen.fields for name in old.withheld_names)
            and set(members(old.fields.combined("vary"))) <= set(members(seen.fields.combined("vary")))
            and (request.method == "HEAD" or the_mark(seen.body) == the_mark(old.body))
        )

    kept_fields: ClassVar[tuple[str, ...]] = ("etag", "last-modified", "content-type")


class FeedsBesideModel(CacheBesideModel):
    """Simulates an origin with feeds. Feed hints and special rules for feeds are off."""

    options: ClassVar[dict[str, Any]] = {"feed_hints": "off", "on_bad_update": "pass", "reload_interval": 0}
    media_type = "application/rss+xml"
    left_out = (301,)  # moved feeds are followed
    asks_for_everybody = True
    kept_fields: ClassVar[tuple[str, ...]] = ()
    tally: ClassVar[Counter[str]] = Counter()

    @staticmethod
    def heuristic(old: Exchange) -> float:
        """Return the longest heuristic lifetime, a day (`lifetime_max`)."""
        return 86_400

    def body(self, mark: bytes) -> bytes:
        head = b"<rss version='2.0'><channel><title>"
        return head + mark + b"</title><item><guid>" + mark + b"</guid></item></channel></rss>"


class TargetedBesideModel(CacheBesideModel):
    """Simulates a cache that acts for its origins and has its own targeted field (RFC 9213)."""

    options: ClassVar[dict[str, Any]] = {"targeted_fields": "always"}
    targeted = True
    tally: ClassVar[Counter[str]] = Counter()


@dataclass(frozen=True, slots=True)
class Context:
    """A request, its response, and what the model knows, as the text of a failed assertion."""

    ask: Ask
    fields: Fields
    seen: Seen
    judged: list[tuple[Exchange, Verdict]]
    heard: list[Exchange]
    heard_later: list[Exchange]

    def __str__(self) -> str:
        asked = f"{self.ask.method} {self.ask.path} {list(self.fields)}"
        got = f"{self.seen.status} {list(self.seen.fields)} {self.seen.body[:40]!r}"
        judged = (f"the model: {told(old)}, {verdict.use.value}: {verdict.why}" for old, verdict in self.judged)
        heard = (f"heard since: {told(old)}" for old in self.heard)
        later = (f"heard after the response: {told(old)}" for old in self.heard_later)
        return "\n".join([f"{asked}, got {got}", *judged, *heard, *later])


def told(old: Exchange) -> str:
    """Return an exchange as one line."""
    asked = f"{old.request.method} {old.request.target} {list(old.request.fields)}"
    return f"number {old.number} at {old.received - NOON}: {asked} -> {old.status} {list(old.fields)} {old.body[:40]!r}"


def the_mark(body: bytes) -> bytes:
    """Return the name of a content. Raises AssertionError if the content mixes two."""
    marks = set(MARK.findall(body))
    assert len(marks) <= 1, f"a content that mixes {marks}"
    return marks.pop() if marks else b""


def holds(asked: Fields, current: Fields) -> bool:
    """Return True if the origin must answer 304 (RFC 9110, section 13)."""
    if (tags := asked.combined("if-none-match")) is not None:
        tag = current.get("etag") or "none"
        return tag.removeprefix("W/") in [each.removeprefix("W/") for each in members(tags)]
    since, modified = instant(asked.get("if-modified-since")), instant(current.get("last-modified"))
    return since is not None and modified is not None and modified <= since


def is_unchanged(asked: Fields, old: Exchange, held: bytes, *, mark: bytes = b"") -> bool:
    """Return True if a reader with this content may get 304 for that response."""
    if "if-none-match" in asked:
        return held == (mark or the_mark(old.body))
    since = instant(asked.get("if-modified-since"))
    modified = instant(old.fields.get("last-modified"))
    newest = old.date if modified is None else modified
    return since is not None and (held == (mark or the_mark(old.body)) or newest <= since)


def play(machine: type[CacheBesideModel], *, examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("machine", [CacheBesideModel, FeedsBesideModel, TargetedBesideModel])
def test_no_response_is_forbidden_by_rfc_9111(machine: type[CacheBesideModel]) -> None:
    play(machine, examples=EXAMPLES)
    assert machine.tally["hit"] > EXAMPLES


PAGE = Page(200, "max-age=600", None, skew=0, age="", tag='"{}"', modified=None, vary="", delay=0)
ASK = Ask("/a", "GET", language="", colour="", authorized=False, wants=NOTHING, condition="", holds=0)


def keyed_response_is_older_than_the_shared_one(machine: CacheBesideModel) -> None:
    machine.begin(replace(PAGE, cache_control="s-maxage=600"), PAGE)
    machine.somebody_asks(replace(ASK, authorized=True))
    machine._publish("/a", replace(PAGE, skew=50))
    machine.somebody_asks(ASK)
    machine.somebody_asks(replace(ASK, authorized=True))


def keyed_and_shared_response_have_the_same_date(machine: CacheBesideModel) -> None:
    machine.begin(PAGE, PAGE)
    machine.somebody_asks(replace(ASK, language="de"))
    machine.somebody_asks(ASK)
    machine.somebody_asks(replace(ASK, language="de"))


def shared_copy_is_refreshed_after_a_304_for_credentials(machine: CacheBesideModel) -> None:
    machine.begin(replace(PAGE, status=410, vary="Accept-Language", cache_control="max-age=60"), PAGE)
    machine.somebody_asks(replace(ASK, language="de"))
    machine.time_passes(60)
    machine._publish("/a", replace(PAGE, vary="Accept-Language", cache_control="max-age=60"))
    machine.somebody_asks(replace(ASK, language="de"))
    machine.somebody_comes_back(replace(ASK, authorized=True, condition="if-none-match"), 60)


def head_for_another_key_shows_other_validators(machine: CacheBesideModel) -> None:
    machine.begin(PAGE, PAGE)
    machine.somebody_asks(replace(ASK, language="de"))
    for method in ("GET", "HEAD"):
        machine._publish("/a", replace(PAGE, vary="X-Colour", cache_control="max-age=0"))
        machine.somebody_asks(replace(ASK, colour="red", method=method))
    machine.somebody_asks(replace(ASK, language="de"))


def newer_error_is_for_clients_without_credentials(machine: CacheBesideModel) -> None:
    machine.begin(replace(PAGE, vary="Accept-Language"), PAGE)
    machine.somebody_asks(replace(ASK, language="de"))
    machine._publish("/a", replace(PAGE, status=404, vary="X-Colour"))
    machine.somebody_asks(ASK)
    machine.somebody_asks(replace(ASK, language="de", authorized=True))


def stale_response_has_expired_before_its_date(machine: CacheBesideModel) -> None:
    machine.begin(replace(PAGE, cache_control="stale-while-revalidate=600", expires=-10), PAGE)
    machine.somebody_comes_back(ASK, 595)


@pytest.mark.parametrize("machine", [CacheBesideModel, FeedsBesideModel, TargetedBesideModel])
@pytest.mark.parametrize(
    "sequence",
    [
        keyed_response_is_older_than_the_shared_one,
        keyed_and_shared_response_have_the_same_date,
        shared_copy_is_refreshed_after_a_304_for_credentials,
        head_for_another_key_shows_other_validators,
        newer_error_is_for_clients_without_credentials,
        stale_response_has_expired_before_its_date,
    ],
)
def test_no_response_of_this_sequence_is_forbidden(
    machine: type[CacheBesideModel], sequence: Callable[[CacheBesideModel], None]
) -> None:
    played = machine()
    try:
        sequence(played)
    finally:
        played.teardown()


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "another's variant": ("feedproxy.cache.vary.selects", lambda *_, **__: True),
    "nothing is invalidated": ("feedproxy.cache.invalidation.invalidated_by", lambda *_: ()),
    "nothing grows old": ("feedproxy.cache.freshness.Freshness.is_fresh", lambda *_: True),
    "the age on arrival is forgotten": ("feedproxy.cache.freshness.age_value", lambda *_: 0.0),
    "everything may be stale": ("feedproxy.cache.serving_stale.prohibits_stale_use", lambda *_: False),
    "no field is withheld": ("feedproxy.cache.storing.without_withheld_fields", lambda fields, **_: fields),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_injected_fault_is_detected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        play(CacheBesideModel, examples=EXAMPLES)
