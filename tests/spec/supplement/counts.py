"""The number of readers that the origin receives in the User-Agent of feedproxy's requests."""

from collections.abc import Iterator

from tests.spec.supplement.promise import COUNTS, Ask, Expect, Promise, Publish, Situation, Step, Wait
from tests.stages.origin import a_feed

FEEDLY = "Feedly/1.0 (+http://www.feedly.com/fetcher.html; {} subscribers; like FeedFetcher-Google)"
NEWSBLUR = "NewsBlur Feed Fetcher - {} subscribers - http://www.newsblur.com/site/1/x"
ID = r"feed-id=[0-9a-f]+"
FEED = Publish(a_feed(), {"Cache-Control": "max-age=600"})
STALE = Wait(601)
DAY = 86_400


def ua(text: str, **more: str) -> Ask:
    return Ask({"User-Agent": text, **more})


def told(number: int, contact: str = "") -> Expect:
    count = "1 subscriber" if number == 1 else f"{number} subscribers"
    return Expect(told=rf"feedproxy/0 \({contact}{count}; {ID}\)", asked=1)


CROWDS: tuple[tuple[str, tuple[str, ...], str, int], ...] = (
    ("one reader, in the singular", (), "reader/1", 1),
    ("a reader who has asked before", ("reader/1", "reader/1"), "reader/1", 1),
    ("two readers", ("other/2",), "reader/1", 2),
    ("ten readers", tuple(f"reader/{number}" for number in range(2, 11)), "reader/1", 10),
    ("a fetcher with 1 subscriber", (), FEEDLY.format(1), 1),
    ("a fetcher with 40", (), FEEDLY.format(40), 40),
    ("a fetcher with 40, and a reader", (FEEDLY.format(40),), "reader/1", 41),
    ("two fetchers", (FEEDLY.format(40),), NEWSBLUR.format(7), 47),
    ("two fetchers, and two readers", (FEEDLY.format(40), NEWSBLUR.format(7), "other/2"), "reader/1", 49),
    ("one fetcher twice, the larger claim counts", (FEEDLY.format(12), FEEDLY.format(40)), FEEDLY.format(12), 40),
    ("a fetcher that claims 0 subscribers", (FEEDLY.format(0),), "reader/1", 1),
    ("another feedproxy", ("feedproxy/0 (17 subscribers; feed-id=abcdef)",), "reader/1", 18),
    (
        "two feedproxies",
        ("feedproxy/0 (17 subscribers; feed-id=abcdef)",),
        "feedproxy/0 (5 subscribers; feed-id=123456)",
        22,
    ),
    ("a claim ten times the last one is believed", (FEEDLY.format(5),), FEEDLY.format(50), 50),
    ("a claim more than ten times the last one is held back", (FEEDLY.format(5),), FEEDLY.format(51), 5),
    ("a first claim of ten thousand is believed", (), FEEDLY.format(10_000), 10_000),
    ("a first claim above ten thousand counts as one until it is confirmed", (), FEEDLY.format(10_001), 1),
    ("a claim above a million counts as a million", (FEEDLY.format(10_000),), FEEDLY.format(100_001), 10_000),
)


def crowds() -> Iterator[Promise]:
    for case, before, last, number in CROWDS:
        steps: tuple[Step, ...] = (FEED, *map(ua, before), *((STALE,) if before else ()))
        yield Promise(
            "The origin gets the number of readers, including the one that causes the request",
            COUNTS,
            Situation(steps),
            ua(last),
            told(number),
            case,
        )


def window() -> Iterator[Promise]:
    name = "A reader counts for a day after its last request"
    for seconds, number, case in ((DAY - 1, 2, "one second before"), (DAY + 1, 1, "one second after")):
        for kind, first, plus in (("a reader", "other/2", 1), ("a fetcher with 40", FEEDLY.format(40), 40)):
            yield Promise(
                name,
                COUNTS,
                Situation((FEED, ua(first), Wait(seconds))),
                ua("reader/1"),
                told(1 + plus if number == 2 else 1),
                f"{kind}, {case}",
            )
    half = Wait(DAY / 2 + 1)
    yield Promise(
        name,
        COUNTS,
        Situation((FEED, ua("other/2"), half, ua("other/2"), half)),
        ua("reader/1"),
        told(2),
        "another request",
    )


def ways() -> Iterator[Promise]:
    """Yield promises that a reader is counted with every kind of response."""
    answered: tuple[tuple[str, tuple[Step, ...]], ...] = (
        ("from the copy", (ua("reader/1"), ua("other/2"))),
        ("by a 304", (Ask({"User-Agent": "reader/1"}, remember="old"), ua("other/2", **{"If-None-Match": '"{old}"'}))),
        ("by HEAD", (ua("reader/1"), Ask({"User-Agent": "other/2"}, method="HEAD"))),
        ("from another address", (ua("reader/1"), Ask({"User-Agent": "reader/1"}, address="192.0.2.2"))),
        (
            "with a range",
            (ua("reader/1"), ua("other/2", Range="bytes=0-9")),
        ),
    )
    for case, steps in answered:
        yield Promise(
            "A reader counts with every kind of answer",
            COUNTS,
            Situation((FEED, *steps, STALE)),
            ua("reader/1"),
            told(2),
            case,
        )
    yield Promise(
        "The User-Agent contains the operator's contact address",
        COUNTS,
        Situation((FEED,), {"contact_url": "https://example.com/about"}),
        ua("reader/1"),
        told(1, r"\+https://example\.com/about; "),
    )
    yield Promise(
        "The origin gets no reader's own User-Agent, address or reading list",
        COUNTS,
        Situation((FEED,)),
        ua("reader/1", Referer="https://example.com/mine", Cookie="who=me", **{"X-Forwarded-For": "192.0.2.1"}),
        Expect(
            told=rf"feedproxy/0 \(1 subscriber; {ID}\)",
            unheard=("referer", "cookie", "x-forwarded-for", "forwarded", "from"),
        ),
    )


PROMISES = (*crowds(), *window(), *ways())
