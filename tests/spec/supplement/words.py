"""The complete member of feedproxy in Cache-Status (RFC 9211), for each kind of response."""

import gzip
from collections.abc import Iterator, Mapping

from feedproxy.errors import Forbidden
from feedproxy.upstream.upstream_errors import FetchTimeout, MalformedResponse, Unreachable
from tests.spec.supplement.hints import hours, sy
from tests.spec.supplement.promise import (
    BAD_UPDATES,
    LIMITS,
    PEACE,
    RFC_5861_ERROR,
    RFC_5861_MEANWHILE,
    RFC_9110_LOOP,
    RFC_9110_PAUSE,
    RFC_9111_REQUEST,
    RFC_9211,
    Ask,
    Break,
    Expect,
    Invalidate,
    Promise,
    Publish,
    Rule,
    Situation,
    Step,
    Wait,
)
from tests.stages.origin import a_feed

MINUTE = {"Cache-Control": "max-age=60"}
GOOD = Publish(a_feed("good"), MINUTE)
NEWS = Publish(a_feed("news"), MINUTE)
COPY: tuple[Step, ...] = (GOOD, Ask())
STALE: tuple[Step, ...] = (*COPY, Wait(600))
TTL = -540
"""The `ttl` in Cache-Status of a copy that is ten minutes old and has a lifetime of one minute."""
FINISHED = b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "expired": true, "items": [{"id": "1"}]}'
HTML = b"<html><body>Welcome</body></html>"
CDF = (
    b'<?xml version="1.0"?><CHANNEL HREF="http://origin.example/"><TITLE>News</TITLE>'
    b'<SCHEDULE><INTERVALTIME HOUR="2"/></SCHEDULE>'
    b'<ITEM HREF="http://origin.example/1"><TITLE>One</TITLE></ITEM></CHANNEL>'
)
ATOM = b"<feed xmlns='http://www.w3.org/2005/Atom'><title>News</title><id>x</id></feed>"


def row(
    name: str,
    steps: tuple[Step, ...],
    cache: str,
    status: int = 200,
    *,
    ask: Ask | None = None,
    asked: int | None = None,
    settings: Mapping[str, object] | None = None,
    source: str = RFC_9211,
    case: str = "",
) -> Promise:
    return Promise(
        name, source, Situation(steps, settings or {}), ask or Ask(), Expect(status, cache=cache, asked=asked), case
    )


def language(wanted: str) -> Ask:
    return Ask({"Accept-Language": wanted})


VARYING = Publish(a_feed(), {"Cache-Control": "max-age=60", "Vary": "Accept-Language"})


def stored() -> Iterator[Promise]:
    """Yield promises about stored copies, and about fetches without a usable copy."""
    yield row("A hit states its remaining lifetime", COPY, "hit; ttl=60", asked=0)
    yield row("A hit states its remaining lifetime", (*COPY, Wait(59)), "hit; ttl=1", asked=0, case="at its end")
    hit = Ask({"If-None-Match": '"{old}"'})
    kept: tuple[Step, ...] = (GOOD, Ask(remember="old"))
    yield row("A 304 from the copy is a hit", kept, "hit; ttl=60", 304, ask=hit, asked=0)
    yield row("A range of the copy is a hit", COPY, "hit; ttl=60", 206, ask=Ask({"Range": "bytes=0-3"}), asked=0)
    yield row("HEAD from the copy is a hit", COPY, "hit; ttl=60", ask=Ask(method="HEAD"), asked=0)
    yield row(
        "A new target is a miss of the URI, and is stored", (GOOD,), "fwd=uri-miss; fwd-status=200; stored; ttl=60"
    )
    yield row(
        "For a response that must not be stored, Cache-Status has no parameter stored",
        (Publish(a_feed(), {"Cache-Control": "no-store"}),),
        "fwd=uri-miss; fwd-status=200",
    )
    yield row(
        "A new target to which the origin answers 404 is a miss of the URI", (), "fwd=uri-miss; fwd-status=404", 404
    )
    yield row(
        "A variant that is not stored is a miss by Vary",
        (VARYING, language("de")),
        "fwd=vary-miss; fwd-status=200; stored; ttl=60",
        ask=language("fr"),
        asked=1,
    )
    yield row("A stored variant is a hit", (VARYING, language("de")), "hit; ttl=60", ask=language("de"))
    yield row("A stale response is confirmed by a 304", STALE, "fwd=stale; fwd-status=304; stored; ttl=60", asked=1)
    yield row(
        "A stale response is replaced by a 200", (*STALE, NEWS), "fwd=stale; fwd-status=200; stored; ttl=60", asked=1
    )
    yield row(
        "A 304 confirms a stale response and the client's own copy",
        (*kept, Wait(600)),
        "fwd=stale; fwd-status=304; stored; ttl=60",
        304,
        ask=hit,
        asked=1,
    )
    yield row(
        "An invalidated copy is stale",
        (Publish(a_feed(), {"Cache-Control": "max-age=6000"}), Ask(), Wait(600), Invalidate()),
        "fwd=stale; fwd-status=304; stored; ttl=6000",
        asked=1,
    )
    fresh: tuple[Step, ...] = (Publish(a_feed(), {"Cache-Control": "max-age=6000"}), Ask(), Wait(600))
    for control in ("no-cache", "max-age=0", "max-age=599", "min-fresh=5401"):
        yield row(
            "A request for a newer response than the stored one causes a request to the origin",
            fresh,
            "fwd=request; fwd-status=304; stored; ttl=6000",
            ask=Ask({"Cache-Control": control, "Sec-Fetch-Mode": "navigate"}),
            source=RFC_9111_REQUEST,
            asked=1,
            case=control,
        )
    for control in ("no-cache", "max-age=0"):
        yield row(
            "A client that is not a browser gets a copy fetched in the last 15 minutes in spite of no-cache",
            fresh,
            "hit; ttl=5400",
            ask=Ask({"Cache-Control": control}),
            source=RFC_9111_REQUEST,
            asked=0,
            case=control,
        )
    for control in ("max-age=601", "min-fresh=5400", "only-if-cached"):
        yield row(
            "A request with max-age, min-fresh or only-if-cached that the copy satisfies gets the copy",
            fresh,
            "hit; ttl=5400",
            ask=Ask({"Cache-Control": control}),
            source=RFC_9111_REQUEST,
            asked=0,
            case=control,
        )
    yield row(
        "A request during a request to the origin is collapsed",
        (GOOD,),
        "fwd=uri-miss; fwd-status=200; stored; collapsed; ttl=60",
        ask=Ask(times=2),
        asked=1,
        case="cold",
    )
    yield row(
        "A request during a request to the origin is collapsed",
        STALE,
        "fwd=stale; fwd-status=304; stored; collapsed; ttl=60",
        ask=Ask(times=20),
        asked=1,
        case="stale",
    )


def held() -> Iterator[Promise]:
    name = "A held copy names its hint"
    for detail, body in (
        ("ttl-hint", a_feed(ttl=60)),
        ("sy-hint", a_feed(extra=sy("hourly"))),
        ("cdf-hint", CDF),
        ("finished", FINISHED),
        ("skip-hours", a_feed(extra=hours(12))),
        ("skip-days", a_feed(extra="<skipDays><day>Friday</day></skipDays>")),
    ):
        steps: tuple[Step, ...] = (Publish(body, MINUTE), Ask(), Wait(600))
        yield row(name, steps, f"hit; ttl={TTL}; detail={detail}", asked=0, case=detail)
    lenient: tuple[Step, ...] = (
        Publish(a_feed("good"), {"Cache-Control": "max-age=60, stale-while-revalidate=600"}),
        Ask(),
    )
    name = "A copy is served during its validation, for as long as stale-while-revalidate says"
    detail = "detail=stale-while-revalidate"
    for seconds in (61, 660):
        yield row(
            name,
            (*lenient, Wait(seconds)),
            f"hit; ttl={60 - seconds}; {detail}",
            source=RFC_5861_MEANWHILE,
            case=f"{seconds - 60} s stale",
        )
    again = "fwd=stale; fwd-status=304; stored; ttl=60"
    yield row(name, (*lenient, Wait(661)), again, source=RFC_5861_MEANWHILE, case="601 s stale")
    for seconds in (540, 541, 6000):
        yield row(
            "A request that accepts stale responses gets one",
            STALE,
            f"hit; ttl={TTL}; detail=max-stale",
            ask=Ask({"Cache-Control": f"max-stale={seconds}"}),
            source=RFC_9111_REQUEST,
            asked=0,
            case=f"max-stale={seconds}",
        )
    yield row(
        "A request that accepts stale responses gets none that is staler than it accepts",
        STALE,
        again,
        ask=Ask({"Cache-Control": "max-stale=539"}),
        source=RFC_9111_REQUEST,
        asked=1,
        case="max-stale=539",
    )


def spared() -> Iterator[Promise]:
    """Yield promises about copies served without contacting the origin, whose Cache-Status states the reason."""
    seconds: tuple[Step, ...] = (Publish(a_feed(), {"Cache-Control": "max-age=1"}), Ask())
    name = "Within the minimum interval the copy answers; after it the origin is asked"
    yield row(
        name,
        (*seconds, Wait(59)),
        "hit; ttl=-58; detail=floor",
        asked=0,
        source=PEACE,
        case="one second before its end",
    )
    yield row(
        name, (*seconds, Wait(60)), "fwd=stale; fwd-status=304; stored; ttl=1", asked=1, source=PEACE, case="at its end"
    )
    name = "Within the interval of the site the copy answers"
    other: tuple[Step, ...] = (
        Publish(a_feed("other"), MINUTE, path="/other.rss"),
        Ask(path="/other.rss"),
        *STALE,
        Ask(path="/other.rss"),
    )
    site = {"site_interval": 30}
    yield row(
        name, other, f"hit; ttl={TTL}; detail=site-interval", asked=0, settings=site, source=PEACE, case="at once"
    )
    for wait, cache, asked, case in (
        (29, f"hit; ttl={TTL - 29}; detail=site-interval", 0, "one second before its turn"),
        (30, "fwd=stale; fwd-status=304; stored; ttl=60", 1, "at its turn"),
    ):
        yield row(name, (*other, Wait(wait)), cache, asked=asked, settings=site, source=PEACE, case=case)
    pause: tuple[Step, ...] = (*STALE, Break((503, b"", {"Retry-After": "600"})), Ask(), Break(None))
    name = "Until Retry-After has passed the copy answers"
    for wait, cache, asked, case in (
        (599, f"hit; ttl={TTL - 599}; detail=retry-after", 0, "one second before its end"),
        (600, "fwd=stale; fwd-status=304; stored; ttl=60", 1, "at its end"),
    ):
        yield row(name, (*pause, Wait(wait)), cache, asked=asked, source=RFC_9110_PAUSE, case=case)
    failed: tuple[Step, ...] = (*STALE, Break(500), Ask(), Break(None))
    name = "For one to two minutes after a failure, the origin is not asked"
    yield row(name, (*failed, Wait(59)), f"hit; ttl={TTL - 59}; detail=back-off", asked=0, source=PEACE, case="59 s")
    yield row(
        name, (*failed, Wait(120)), "fwd=stale; fwd-status=304; stored; ttl=60", asked=1, source=PEACE, case="120 s"
    )


BAD: tuple[tuple[str, int | None, Break], ...] = (
    ("unreachable", None, Break(Unreachable("no route"))),
    ("timeout", None, Break(FetchTimeout("too slow"))),
    ("broken-message", None, Break(MalformedResponse("half of it"))),
    ("error-status", 500, Break(500)),
    ("error-status", 503, Break(503)),
    ("error-status", 408, Break(408)),
    ("rate-limited", 429, Break(429)),
    ("refused", 403, Break(403)),
    ("refused", 404, Break(404)),
    ("refused", 400, Break(400)),
    ("challenge", 403, Break((403, HTML, {"cf-mitigated": "challenge"}))),
    ("html-where-feed", 200, Break((200, HTML, {}))),
    ("empty", 200, Break((200, b"", {}))),
    ("empty", 204, Break(204)),
    ("truncated", 206, Break((206, b"<rss", {"Content-Range": "bytes 0-3/900"}))),
    ("ill-formed", 200, Break((200, b"<rss version='2.0'><channel><title>x</title>", {}))),
    ("undecodable", 200, Break((200, b"\x1f\x8b broken", {"Content-Encoding": "gzip"}))),
    ("too-large", 200, Break((200, gzip.compress(b"<rss>" + b" " * 200_000), {"Content-Encoding": "gzip"}))),
    ("new-shape", 200, Break((200, ATOM, {"Content-Type": "application/atom+xml"}))),
    ("redirect-loop", 302, Break((302, b"", {"Location": "/feed.rss"}))),
    ("bad-target", 302, Break((302, b"", {"Location": "javascript:alert(1)"}))),
)


def kept() -> Iterator[Promise]:
    """Yield promises about copies served instead of a bad response, whose Cache-Status states the fault."""
    for detail, status, broken in BAD:
        answered = f"fwd-status={status}; " if status else ""
        yield row(
            "If a copy answers in place of a bad update, Cache-Status names the fault of the update",
            (*STALE, broken),
            f"fwd=stale; {answered}ttl={TTL}; detail={detail}",
            source=BAD_UPDATES,
            asked=1,
            settings={"buffer_max": 20_000},
            case=f"{detail}, {status}" if status else detail,
        )
    yield row(
        "If the host name of a stored copy now resolves to a forbidden address, the copy answers as a hit",
        (*STALE, Break(Forbidden("not here"))),
        f"hit; ttl={TTL}; detail=forbidden-address",
        source=BAD_UPDATES,
    )
    said = Publish(
        b"<html>hello</html>", {"Content-Type": "text/html", "Cache-Control": "max-age=60, stale-if-error=600"}
    )
    page: tuple[Step, ...] = (said, Ask())
    name = "A stored response that is not a feed replaces an error for as long as stale-if-error says"
    detail = "fwd=stale; fwd-status=500; ttl={}; detail=stale-if-error"
    for wait, status, cache in ((61, 200, detail.format(-1)), (660, 200, detail.format(-600))):
        steps = (*page, Wait(wait), Break(500))
        yield row(name, steps, cache, status, source=RFC_5861_ERROR, case=f"{wait - 60} s stale")
    steps = (*page, Wait(661), Break(500))
    yield row(name, steps, "fwd=stale; fwd-status=500", 500, source=RFC_5861_ERROR, case="601 s stale")


def errors() -> Iterator[Promise]:
    """Yield promises about responses that are no feeds, to which only HTTP's rules apply."""
    page = Publish(HTML, {"Content-Type": "text/html", "Cache-Control": "max-age=60"})
    yield row(
        "An error for a page without stale-if-error is passed on, and the stored response stays",
        (page, Ask(), Wait(600), Break(503), Ask(), Break(None)),
        "fwd=stale; fwd-status=304; stored; ttl=60",
    )
    kept = (500, b"broken", {"Cache-Control": "max-age=60"})
    yield row(
        "An error with a lifetime is stored, and never replaces another response",
        (Break(kept),),
        "fwd=uri-miss; fwd-status=500; stored; ttl=60",
        500,
        case="cold",
    )
    yield row(
        "An error with a lifetime is stored, and never replaces another response",
        (Break(kept), Ask()),
        "hit; ttl=60",
        500,
        case="asked for again",
        asked=0,
    )
    yield row(
        "An error with a lifetime is stored, and never replaces another response",
        (page, Ask(), Wait(600), Break(kept)),
        "fwd=stale; fwd-status=500; stored; ttl=60",
        500,
        case="stale",
    )


def own() -> Iterator[Promise]:
    """Yield promises about responses of feedproxy itself, which are not stored."""
    yield row(
        "A move by a rule has only the parameter detail in Cache-Status",
        (*COPY, Rule({"moved_to": "http://a.example/"})),
        "detail=moved",
        301,
        asked=0,
    )
    yield row(
        "An end by a rule has only the parameter detail in Cache-Status",
        (*COPY, Rule({"gone": True})),
        "detail=gone",
        410,
        asked=0,
    )
    document = b"<redirect><newLocation>http://origin.example/new.rss</newLocation></redirect>"
    yield row(
        "After a move that the origin has just announced, Cache-Status states that the origin was asked",
        (Publish(document),),
        "fwd=uri-miss; fwd-status=200; detail=moved",
        301,
    )
    yield row(
        "A remembered move has only the parameter detail in Cache-Status",
        (Publish(document), Ask()),
        "detail=moved",
        301,
        asked=0,
    )
    ended = Publish(b"<redirect><newLocation/></redirect>")
    yield row(
        "After an end that the origin has just announced, Cache-Status states that the origin was asked",
        (ended,),
        "fwd=uri-miss; fwd-status=200; detail=gone",
        410,
    )
    yield row(
        "A remembered end has only the parameter detail in Cache-Status", (ended, Ask()), "detail=gone", 410, asked=0
    )
    yield row(
        "A forbidden address is never contacted",
        (Break(Forbidden("not here")),),
        "detail=forbidden-address",
        403,
    )
    yield row(
        "only-if-cached without a stored response causes no request to the origin",
        (GOOD,),
        "detail=only-if-cached",
        504,
        ask=Ask({"Cache-Control": "only-if-cached"}),
        source=RFC_9111_REQUEST,
        asked=0,
    )
    yield row(
        "A request that has passed this proxy before is a loop",
        (GOOD,),
        "detail=loop",
        508,
        ask=Ask({"Via": "1.1 other, 1.1 feedproxy-00000000"}),
        source=RFC_9110_LOOP,
        asked=0,
    )
    for detail, status, error in (
        ("unreachable", 502, Unreachable("no route")),
        ("timeout", 504, FetchTimeout("too slow")),
        ("broken-message", 502, MalformedResponse("half of it")),
    ):
        name = "Without an answer of the origin and without a copy, there is no fwd-status"
        yield row(name, (Break(error),), f"fwd=uri-miss; detail={detail}", status, asked=1, case=detail)
    yield row(
        "Without a copy, an origin's 429 becomes a 503 of feedproxy",
        (Break((429, b"", {"Retry-After": "600"})),),
        "fwd=uri-miss; fwd-status=429; detail=rate-limited",
        503,
        source=PEACE,
    )
    yield row(
        "Without a copy, clients get a 503 with Retry-After until the origin's Retry-After has passed",
        (Break((429, b"", {"Retry-After": "600"})), Ask(), Wait(599)),
        "detail=retry-after",
        503,
        source=RFC_9110_PAUSE,
        asked=0,
    )
    big = Publish(b"x" * 200_000, {"Content-Type": "application/octet-stream"})
    # 299 is how the stage says that the request streams through, past the service.
    streams = "fwd=uri-miss; fwd-status=200; detail=oversized"
    yield row("A response above the size limit is streamed", (big,), streams, 299, source=LIMITS)
    name = "For a day after a response above the size limit, requests for its target are streamed at once"
    day = 86_400
    yield row(
        name,
        (big, Ask(), Wait(day - 1)),
        "fwd=bypass; detail=oversized",
        299,
        asked=0,
        source=LIMITS,
        case="one second before",
    )
    yield row(name, (big, Ask(), Wait(day)), streams, 299, asked=1, source=LIMITS, case="at its end")


PROMISES = (*stored(), *held(), *spared(), *kept(), *errors(), *own())
