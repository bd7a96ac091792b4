"""Deltas: a client that has an earlier version and sends `A-IM: feed` gets the new entries as a 226, which no cache
takes for the whole feed.
"""

from collections.abc import Iterator

from tests.spec.supplement.codings import CODINGS
from tests.spec.supplement.promise import (
    DELTAS,
    RFC_3229,
    RFC_3229_CACHES,
    RFC_3229_FIELDS,
    Ask,
    Expect,
    Promise,
    Publish,
    Situation,
    Step,
    Wait,
)
from tests.stages.origin import a_feed

OLD = tuple(f"old-{number}" for number in range(60))


def situation(control: str = "max-age=60", settings: dict[str, object] | None = None) -> Situation:
    """Return a situation in which a reader has the feed in every coding, and the origin has published a newer
    version.
    """
    fields = {"Cache-Control": control} if control else {}
    readers: tuple[Step, ...] = tuple(Ask({"Accept-Encoding": coding}, remember=coding) for coding in CODINGS)
    return Situation(
        (Publish(a_feed(*OLD), fields), *readers, Publish(a_feed("news", *OLD), fields), Wait(4_000)), settings or {}
    )


def asking(held: str, coding: str = "identity", a_im: str = "feed", method: str = "GET") -> Ask:
    return Ask({"A-IM": a_im, "If-None-Match": f'"{{{held}}}"', "Accept-Encoding": coding}, method=method)


def delta(held: str = "identity", **fields: str | None) -> Expect:
    named = {"IM": "feed", "Delta-Base": f'"{{{held}}}"', **fields}
    return Expect(226, says=("fwd=stale", "fwd-status=200", "stored"), fields=named, has=(b"news",), lacks=(b"old-",))


def pairs() -> Iterator[Promise]:
    for held in CODINGS:
        for asked in CODINGS:
            # A document of one item does not pay to be coded in every coding; where it is, the field says so.
            yield Promise(
                "A 226 names the manipulation and, as its base, the tag that the client sent",
                RFC_3229_FIELDS,
                situation(),
                asking(held, asked),
                delta(held),
                f"{asked} asked, tag of {held} held",
            )


def accepted() -> Iterator[Promise]:
    for value in ("feed", "FEED", "feed;q=0.1", "vcdiff, feed", "diffe, gzip, feed;q=0.5", " feed , "):
        yield Promise(
            "A client that accepts the manipulation feed, among others, gets a 226",
            RFC_3229,
            situation(),
            asking("identity", a_im=value),
            delta(),
            value.strip(),
        )
    for value in ("", "vcdiff", "feed;q=0", "feeds", "*", "identity, feed;q=0.5"):
        yield Promise(
            "A client that does not accept the manipulation feed, or prefers another, gets the whole feed",
            RFC_3229,
            situation(),
            asking("identity", a_im=value),
            Expect(
                200,
                says=("fwd-status=200",),
                fields={"IM": None, "Delta-Base": None},
                has=(b"news", b"old-59"),
                asked=1,
            ),
            value or "nothing",
        )


CONTROLS = {
    "": "no-store, im",
    "max-age=60": "max-age=60, no-store, im",
    "public, max-age=60": "public, max-age=60, no-store, im",
}


def caches() -> Iterator[Promise]:
    for control, told in CONTROLS.items():
        yield Promise(
            "A 226 has no-store and im, beside the origin's directives",
            RFC_3229_CACHES,
            situation(control),
            asking("identity"),
            delta("identity", **{"Cache-Control": told}),
            control or "nothing",
        )
    for name in ("CDN-Cache-Control", "Surrogate-Control"):
        yield Promise(
            "A 226 has no targeted field that lets a cache store it",
            RFC_3229_CACHES,
            Situation(
                (
                    Publish(a_feed(*OLD), {"Cache-Control": "max-age=60", name: "max-age=60"}),
                    Ask(remember="identity"),
                    Publish(a_feed("news", *OLD), {"Cache-Control": "max-age=60", name: "max-age=60"}),
                    Wait(600),
                )
            ),
            asking("identity"),
            delta("identity", **{"Cache-Control": "max-age=60, no-store, im", name: None}),
            name,
        )


def others() -> Iterator[Promise]:
    yield Promise(
        "HEAD gets the fields of the 226 that GET would get",
        RFC_3229,
        situation(),
        asking("identity", method="HEAD"),
        Expect(226, fields={"IM": "feed", "Delta-Base": '"{identity}"'}),
    )
    yield Promise(
        "A 226 made from the copy causes no request to the origin",
        RFC_3229,
        Situation((*situation().steps, Ask())),
        asking("identity"),
        Expect(226, says=("hit",), fields={"IM": "feed"}, has=(b"news",), lacks=(b"old-",), asked=0),
    )
    yield Promise(
        "The tag of a 226 works as the base of the next request",
        RFC_3229_FIELDS,
        Situation((*situation().steps, Ask(asking("identity").fields, remember="delta"))),
        asking("delta"),
        Expect(304, says=("hit",), fields={"IM": None, "Delta-Base": None}, asked=0),
    )
    yield Promise(
        "The tag of a 226 is that of the whole current feed",
        RFC_3229_FIELDS,
        Situation((*situation().steps, Ask(remember="whole"))),
        asking("identity"),
        Expect(226, fields={"ETag": '"{whole}"', "Delta-Base": '"{identity}"'}),
    )
    yield Promise(
        "A client with the current version gets 304 instead of an empty delta",
        RFC_3229,
        Situation((*situation().steps, Ask(remember="whole"))),
        asking("whole"),
        Expect(304, fields={"IM": None}, asked=0),
    )
    yield Promise(
        "A client with an unknown base gets the whole feed",
        RFC_3229,
        situation(),
        Ask({"A-IM": "feed", "If-None-Match": '"unknown"'}),
        Expect(200, fields={"IM": None, "Delta-Base": None}, has=(b"news", b"old-59")),
    )
    yield Promise(
        "Requests to the origin have no A-IM",
        RFC_3229,
        situation(),
        asking("identity"),
        Expect(226, unheard=("a-im",)),
    )
    yield Promise(
        "If deltas are switched off, clients get the whole feed",
        DELTAS,
        situation(settings={"deltas": False}),
        asking("identity"),
        Expect(200, fields={"IM": None}, has=(b"old-59",)),
    )


PROMISES = (*pairs(), *accepted(), *caches(), *others())
