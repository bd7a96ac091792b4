"""Moves and endings of feeds, as HTTP statuses and as XML documents, from the origin and to the client."""

from collections.abc import Iterator

from feedproxy.request.context import Entrance
from tests.spec.supplement.promise import (
    GONE,
    MOVES,
    REDIRECT,
    Ask,
    Expect,
    Promise,
    Publish,
    Rule,
    Situation,
    Step,
    Wait,
)
from tests.stages.origin import a_feed

XML = {"Content-Type": "application/xml"}
NEW = Publish(a_feed("moved"), {"Cache-Control": "max-age=60"}, path="/new.rss")
COPY: tuple[Step, ...] = (Publish(a_feed("good"), {"Cache-Control": "max-age=60"}), Ask(), Wait(600))
INSIDE = "http://proxy.example/http://origin.example/new.rss"
DIRECT = "http://origin.example/new.rss"
TOLD = {Entrance.GATEWAY: INSIDE, Entrance.PROXY: DIRECT}
HOUR = 3600
WEEK = 7 * 86_400

HEAD = b'<?xml version="1.0"?>\n'
REDIRECTS = {
    "as in the text": HEAD + b"<redirect>\n   <newLocation>http://origin.example/new.rss</newLocation>\n</redirect>",
    "without a declaration": b"<redirect><newLocation>http://origin.example/new.rss</newLocation></redirect>",
    "white space around it": b"<redirect><newLocation>\n http://origin.example/new.rss \n</newLocation></redirect>",
    "CDATA": b"<redirect><newLocation><![CDATA[http://origin.example/new.rss]]></newLocation></redirect>",
    "relative": b"<redirect><newLocation>/new.rss</newLocation></redirect>",
    "capitals and default port": b"<redirect><newLocation>HTTP://Origin.Example:80/new.rss</newLocation></redirect>",
}
ENDS = {
    "an empty element": HEAD + b"<redirect>\n   <newLocation/>\n</redirect>\n",
    "start tag and end tag": b"<redirect><newLocation></newLocation></redirect>",
    "white space alone": b"<redirect><newLocation> \n </newLocation></redirect>",
}
NEITHER = {
    "the ill-formed sample of RSS Feed State": HEAD
    + b"<redirect>\n   <newLocation>http://origin.example/new.rss<newLocation>\n</redirect>",
    "a scheme that is not fetched": b"<redirect><newLocation>javascript:alert(1)</newLocation></redirect>",
    "to itself": b"<redirect><newLocation>http://origin.example/feed.rss</newLocation></redirect>",
}


def documents() -> Iterator[Promise]:
    """Yield promises about XML documents from the origin."""
    for warm, before in (("no copy held", ()), ("a copy held", COPY)):
        for entrance, location in TOLD.items():
            for how, body in REDIRECTS.items():
                yield Promise(
                    "After a redirect document, clients get a 301 at once, with an address at their own entrance",
                    REDIRECT,
                    Situation((*before, Publish(body, XML))),
                    Ask(entrance=entrance),
                    Expect(301, says=("detail=moved", "fwd-status=200"), fields={"Location": location}, asked=1),
                    f"{how}, {entrance.name.lower()}, {warm}",
                )
        for how, body in ENDS.items():
            yield Promise(
                "A redirect document with an empty newLocation ends the feed at once",
                GONE,
                Situation((*before, Publish(body, XML))),
                Ask(),
                Expect(410, says=("detail=gone", "fwd-status=200"), fields={"Location": None}, asked=1),
                f"{how}, {warm}",
            )
    for media_type in ("text/xml", "application/rss+xml", "text/html", "application/octet-stream"):
        yield Promise(
            "A redirect document is recognized by its content, with any media type",
            REDIRECT,
            Situation((Publish(REDIRECTS["as in the text"], {"Content-Type": media_type}),)),
            Ask(),
            Expect(301, says=("detail=moved",), fields={"Location": INSIDE}),
            media_type,
        )
    for how, body in NEITHER.items():
        yield Promise(
            "An invalid redirect document, or one without a usable target, has no effect",
            REDIRECT,
            Situation((*COPY, Publish(body, XML))),
            Ask(),
            Expect(200, fields={"Location": None}, has=(b"good",)),
            how,
        )
    for source, name, body, status in (
        (REDIRECT, "For a week after a redirect document, the origin is not asked", REDIRECTS["as in the text"], 301),
        (
            GONE,
            "For a week after a document that ends the feed, the origin is not asked",
            ENDS["an empty element"],
            410,
        ),
    ):
        before = (Publish(body, XML), Ask())
        detail = "detail=moved" if status == 301 else "detail=gone"
        quiet, due = Expect(status, cache=detail, asked=0), Expect(status, says=(detail,), asked=1)
        yield Promise(name, source, Situation((*before, Wait(WEEK - 1))), Ask(), quiet, "one second before its end")
        yield Promise(name, source, Situation((*before, Wait(WEEK))), Ask(), due, "at its end")
        back: tuple[Step, ...] = (*before, Publish(a_feed("back")), Wait(WEEK))
        returned = Expect(200, says=("fwd-status=200",), has=(b"back",), asked=1)
        yield Promise(
            "A feed that was moved or ended by a document can come back",
            source,
            Situation(back),
            Ask(),
            returned,
            str(status),
        )


def statuses() -> Iterator[Promise]:
    """Yield promises about HTTP statuses, which take effect when they were received twice, an hour apart."""
    for status in (301, 308):
        moved: tuple[Step, ...] = (Publish(b"", {"Location": "/new.rss"}, status=status), NEW)
        name = "Clients get a permanent redirect after it was seen twice, an hour apart; before that they get the feed"
        got = Expect(200, fields={"Location": None}, has=(b"moved",))
        told = Expect(301, says=("detail=moved",), fields={"Location": INSIDE})
        yield Promise(name, MOVES, Situation(moved), Ask(), got, f"{status}, seen once")
        for seconds, expect, case in (
            (HOUR - 1, got, "and again one second before the hour is over"),
            (HOUR, told, "and again as the hour is over"),
            (HOUR + 1, told, "and again one second later"),
        ):
            yield Promise(name, MOVES, Situation((*moved, Ask(), Wait(seconds))), Ask(), expect, f"{status}, {case}")
    for status in (302, 303, 307):
        steps: tuple[Step, ...] = (Publish(b"", {"Location": "/new.rss"}, status=status), NEW)
        again: tuple[Step, ...] = (Ask(), Wait(2 * HOUR)) * 3
        yield Promise(
            "A temporary redirect is followed; clients get the feed",
            MOVES,
            Situation((*steps, *again)),
            Ask(),
            Expect(200, fields={"Location": None}, has=(b"moved",)),
            str(status),
        )
    gone: tuple[Step, ...] = (*COPY, Publish(b"", status=410, validators=False), Ask())
    name = "Clients get a 410 at once; the origin is asked again until the 410 was seen twice, an hour apart"
    asked = Expect(410, says=("detail=gone", "fwd-status=410"), asked=1)
    yield Promise(name, MOVES, Situation(gone[:-1]), Ask(), asked, "seen once")
    yield Promise(name, MOVES, Situation((*gone, Wait(HOUR))), Ask(), asked, "as the hour is over")
    twice: tuple[Step, ...] = (*gone, Wait(HOUR), Ask())
    name = "For a week after a confirmed 410, the origin is not asked"
    quiet = Expect(410, cache="detail=gone", asked=0)
    yield Promise(name, MOVES, Situation((*twice, Wait(WEEK - 1))), Ask(), quiet, "one second before its end")
    yield Promise(name, MOVES, Situation((*twice, Wait(WEEK))), Ask(), asked, "at its end")


def rules() -> Iterator[Promise]:
    """Yield promises about moves and endings by a rule of the operator."""
    moved, gone = {"moved_to": DIRECT}, {"gone": True}
    for entrance, location in TOLD.items():
        for method in ("GET", "HEAD"):
            ask, case = Ask(entrance=entrance, method=method), f"{entrance.name.lower()}, {method}"
            yield Promise(
                "A rule moves a feed with a 301, without a request to the origin",
                MOVES,
                Situation((*COPY, Rule(moved))),
                ask,
                Expect(301, cache="detail=moved", fields={"Location": location}, asked=0),
                case,
            )
            document = f"<newLocation>{location}</newLocation>".encode()
            yield Promise(
                "A rule can move a feed with a document, for readers that do not support 301",
                REDIRECT,
                Situation((*COPY, Rule({**moved, "announce_as": "xml"}))),
                ask,
                Expect(
                    200,
                    cache="detail=moved",
                    fields={"Content-Type": "application/xml", "Location": None},
                    has=(b"<redirect>", document) if method == "GET" else (),
                    asked=0,
                ),
                case,
            )
            yield Promise(
                "A rule ends a feed with a 410, without a request to the origin",
                MOVES,
                Situation((*COPY, Rule(gone))),
                ask,
                Expect(410, cache="detail=gone", asked=0),
                case,
            )
            yield Promise(
                "A rule can end a feed with a document, for readers that do not support 410",
                GONE,
                Situation((*COPY, Rule({**gone, "announce_as": "xml"}))),
                ask,
                Expect(
                    200,
                    cache="detail=gone",
                    fields={"Content-Type": "application/xml"},
                    has=(b"<newLocation/>",) if method == "GET" else (),
                    asked=0,
                ),
                case,
            )


PROMISES = (*documents(), *statuses(), *rules())
