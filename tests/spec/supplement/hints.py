"""Lifetimes by ttl, skipHours, skipDays and sy:*, exact to the second, also across midnight, weekends, ends of months
and years, and leap days. HTTP states a lifetime of one second, so the hint alone decides: up to its end a stored copy
is a hit with the hint's detail, and one second later the origin is contacted.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tests.spec.supplement.promise import (
    HINTS,
    RFC_9111_AGE,
    SKIP_DAYS,
    SKIP_HOURS,
    SYNDICATION,
    TTL,
    Ask,
    At,
    Expect,
    Promise,
    Publish,
    Situation,
    Step,
)
from tests.stages.origin import a_feed

SECOND = {"Cache-Control": "max-age=1"}
SY = 'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"'
YEARS: dict[str, object] = {"hint_max": 400 * 86_400}
"""Settings for schedules that exceed the default of `hint_max`."""


def ttl(minutes: str) -> str:
    return f"<ttl>{minutes}</ttl>"


def hours(*numbers: int) -> str:
    return "<skipHours>" + "".join(f"<hour>{number}</hour>" for number in numbers) + "</skipHours>"


def days(*names: str) -> str:
    return "<skipDays>" + "".join(f"<day>{name}</day>" for name in names) + "</skipDays>"


def sy(period: str, frequency: int | None = None, base: str = "") -> str:
    parts = [f"<sy:updatePeriod {SY}>{period}</sy:updatePeriod>"]
    parts += [f"<sy:updateFrequency {SY}>{frequency}</sy:updateFrequency>"] if frequency else []
    parts += [f"<sy:updateBase {SY}>{base}</sy:updateBase>"] if base else []
    return "".join(parts)


def shifted(moment: str, **by: float) -> str:
    return (datetime.fromisoformat(moment) + timedelta(**by)).isoformat()


def seconds(start: str, end: str) -> int:
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def at(
    name: str,
    source: str,
    case: str,
    feed: str,
    got: str,
    moment: str,
    offset: int,
    expect: Expect,
    *,
    control: Mapping[str, str] = SECOND,
    settings: Mapping[str, object] | None = None,
    request: Mapping[str, str] | None = None,
) -> Promise:
    """Return the promise about a feed that is fetched at `got` and requested `offset` seconds from `moment`."""
    asking = Ask(request or {})
    steps: tuple[Step, ...] = (Publish(a_feed(extra=feed), control), asking, At(moment, offset))
    where = {-1: "one second before", 0: "", 1: "one second after"}[offset]
    case = ", ".join(part for part in (case, where) if part)
    return Promise(name, source, Situation(steps, settings or {}, got), asking, expect, case)


ASKED = Expect(says=("fwd=stale", "fwd-status=304", "stored"), asked=1)


def held(age: int, detail: str) -> Expect:
    return Expect(cache=f"hit; ttl={1 - age}; detail={detail}", fields={"Age": str(age)}, asked=0)


def until(
    name: str, source: str, detail: str, case: str, feed: str, got: str, end: str, **settings: object
) -> Iterator[Promise]:
    """Yield the promises that a copy is used until `end`, and not a second longer."""
    age = seconds(got, end) - 1
    yield at(name, source, case, feed, got, end, -1, held(age, detail), settings=settings)
    for offset in (0, 1):
        yield at(name, source, case, feed, got, end, offset, ASKED, settings=settings)


LASTS = "A copy is held until the ttl has passed; then the origin is asked"
TTLS = (
    ("60 minutes", "60", "2026-11-20T12:00:00", "2026-11-20T13:00:00"),
    ("two minutes", "2", "2026-11-20T12:00:00", "2026-11-20T12:02:00"),
    ("over midnight", "60", "2026-11-20T23:30:00", "2026-11-21T00:30:00"),
    ("from Saturday to Sunday", "90", "2026-11-21T23:00:00", "2026-11-22T00:30:00"),
    ("over the end of a month", "60", "2027-01-31T23:30:00", "2027-02-01T00:30:00"),
    ("from 28 February to 1 March", "60", "2027-02-28T23:30:00", "2027-03-01T00:30:00"),
    ("from 28 February to the leap day", "60", "2028-02-28T23:30:00", "2028-02-29T00:30:00"),
    ("within the leap day", "1439", "2028-02-29T00:00:00", "2028-02-29T23:59:00"),
    ("from the leap day to 1 March", "60", "2028-02-29T23:30:00", "2028-03-01T00:30:00"),
    ("over the end of a year", "60", "2026-12-31T23:30:00", "2027-01-01T00:30:00"),
    ("a whole day, the most that a hint counts for", "1440", "2028-02-28T12:00:00", "2028-02-29T12:00:00"),
    ("two days count for one", "2880", "2026-12-31T12:00:00", "2027-01-01T12:00:00"),
    ("a million minutes count for one day", "1000000", "2028-02-29T00:00:00", "2028-03-01T00:00:00"),
)


def ttls() -> Iterator[Promise]:
    for case, minutes, got, end in TTLS:
        yield from until(LASTS, TTL, "ttl-hint", case, ttl(minutes), got, end)


STRETCHES = (
    (SKIP_HOURS, "hour 13", hours(13), "2026-11-20T13:00:00", "2026-11-20T14:00:00"),
    (SKIP_HOURS, "hour 0", hours(0), "2026-11-21T00:00:00", "2026-11-21T01:00:00"),
    (SKIP_HOURS, "hour 23", hours(23), "2026-11-20T23:00:00", "2026-11-21T00:00:00"),
    (SKIP_HOURS, "hours 23 and 0", hours(23, 0), "2026-11-20T23:00:00", "2026-11-21T01:00:00"),
    (SKIP_HOURS, "hours 0 and 23, in this order", hours(0, 23), "2026-11-20T23:00:00", "2026-11-21T01:00:00"),
    (SKIP_HOURS, "hour 24, which is midnight", hours(24), "2026-11-21T00:00:00", "2026-11-21T01:00:00"),
    (SKIP_HOURS, "from Saturday to Sunday", hours(23, 0), "2026-11-21T23:00:00", "2026-11-22T01:00:00"),
    (SKIP_HOURS, "from Sunday to Monday", hours(22, 23, 0, 1), "2026-11-22T22:00:00", "2026-11-23T02:00:00"),
    (SKIP_HOURS, "over the end of January", hours(22, 23, 0, 1), "2027-01-31T22:00:00", "2027-02-01T02:00:00"),
    (SKIP_HOURS, "from 30 April to 1 May", hours(23, 0), "2027-04-30T23:00:00", "2027-05-01T01:00:00"),
    (SKIP_HOURS, "from 28 February to 1 March", hours(23, 0), "2027-02-28T23:00:00", "2027-03-01T01:00:00"),
    (SKIP_HOURS, "into the leap day", hours(23, 0), "2028-02-28T23:00:00", "2028-02-29T01:00:00"),
    (SKIP_HOURS, "out of the leap day", hours(23, 0), "2028-02-29T23:00:00", "2028-03-01T01:00:00"),
    (SKIP_HOURS, "over the end of a year", hours(23, 0), "2026-12-31T23:00:00", "2027-01-01T01:00:00"),
    (SKIP_HOURS, "over the end of a leap year", hours(23, 0), "2028-12-31T23:00:00", "2029-01-01T01:00:00"),
    (SKIP_HOURS, "all hours but one", hours(*range(1, 24)), "2026-11-20T01:00:00", "2026-11-21T00:00:00"),
    (SKIP_DAYS, "Saturday", days("Saturday"), "2026-11-21T00:00:00", "2026-11-22T00:00:00"),
    (SKIP_DAYS, "Sunday", days("Sunday"), "2026-11-22T00:00:00", "2026-11-23T00:00:00"),
    (SKIP_DAYS, "Saturday to Monday", days("Saturday", "Sunday"), "2026-11-21T00:00:00", "2026-11-23T00:00:00"),
    (SKIP_DAYS, "Sunday and Monday", days("Monday", "Sunday"), "2026-11-22T00:00:00", "2026-11-24T00:00:00"),
    (SKIP_DAYS, "a Sunday that ends January", days("Sunday"), "2027-01-31T00:00:00", "2027-02-01T00:00:00"),
    (SKIP_DAYS, "a Sunday that is 28 February", days("Sunday"), "2027-02-28T00:00:00", "2027-03-01T00:00:00"),
    (SKIP_DAYS, "the day before the leap day", days("Monday"), "2028-02-28T00:00:00", "2028-02-29T00:00:00"),
    (SKIP_DAYS, "the leap day, a Tuesday", days("Tuesday"), "2028-02-29T00:00:00", "2028-03-01T00:00:00"),
    (SKIP_DAYS, "around the leap day", days("Tuesday", "Wednesday"), "2028-02-29T00:00:00", "2028-03-02T00:00:00"),
    (SKIP_DAYS, "a Sunday that ends a year", days("Sunday"), "2028-12-31T00:00:00", "2029-01-01T00:00:00"),
    (
        SKIP_DAYS,
        "New Year's Eve and New Year's Day",
        days("Thursday", "Friday"),
        "2026-12-31T00:00:00",
        "2027-01-02T00:00:00",
    ),
    (
        SKIP_DAYS,
        "hour 23 of Friday, and the weekend",
        days("Saturday", "Sunday") + hours(23),
        "2026-11-20T23:00:00",
        "2026-11-23T00:00:00",
    ),
    (
        SKIP_HOURS,
        "the weekend, and hour 0 of Monday",
        days("Saturday", "Sunday") + hours(0),
        "2026-11-21T00:00:00",
        "2026-11-23T01:00:00",
    ),
    (
        SKIP_DAYS,
        "five days count for three",
        days("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
        "2026-11-23T00:00:00",
        "2026-11-26T00:00:00",
    ),
)


def stretches() -> Iterator[Promise]:
    """Yield promises about skipped hours and days. The copy is fetched two hours before they begin."""
    for source, case, feed, begin, end in STRETCHES:
        detail = "skip-hours" if source == SKIP_HOURS else "skip-days"
        what = "hour" if source == SKIP_HOURS else "day"
        got = shifted(begin, hours=-2)
        if case == "all hours but one":
            got = shifted(begin, minutes=-30)
        name = f"The origin is asked until a skipped {what} begins; from then on the copy is held"
        yield at(name, source, case, feed, got, begin, -1, ASKED)
        for offset in (0, 1):
            age = seconds(got, begin) + offset
            yield at(name, source, case, feed, got, begin, offset, held(age, detail))
        name = f"A copy is held until the last second of a skipped {what}"
        yield from until(name, source, detail, case, feed, got, end)


NEXT = "A copy is held until the next update in the schedule of the syndication module"
UPDATES: tuple[tuple[str, str, str, str, dict[str, object]], ...] = (
    ("hourly, without a base", sy("hourly"), "2026-11-20T12:10:00", "2026-11-20T13:10:00", {}),
    ("twice an hour", sy("hourly", 2), "2026-11-20T12:10:00", "2026-11-20T12:40:00", {}),
    (
        "twice an hour, from a base",
        sy("hourly", 2, "2000-01-01T12:00+00:00"),
        "2026-11-20T12:10:00",
        "2026-11-20T12:30:00",
        {},
    ),
    (
        "hourly over midnight, from a base",
        sy("hourly", 1, "2000-01-01T12:00+00:00"),
        "2026-11-20T23:10:00",
        "2026-11-21T00:00:00",
        {},
    ),
    (
        "a base in another time zone",
        sy("daily", 1, "2000-01-01T00:00+02:00"),
        "2026-11-20T12:00:00",
        "2026-11-20T22:00:00",
        {},
    ),
    (
        "daily, over the end of a year",
        sy("daily", 1, "2000-01-01T00:00+00:00"),
        "2026-12-31T12:00:00",
        "2027-01-01T00:00:00",
        {},
    ),
    (
        "daily, into the leap day",
        sy("daily", 1, "2000-01-01T00:00+00:00"),
        "2028-02-28T12:00:00",
        "2028-02-29T00:00:00",
        {},
    ),
    (
        "daily, out of the leap day",
        sy("daily", 1, "2000-01-01T00:00+00:00"),
        "2028-02-29T12:00:00",
        "2028-03-01T00:00:00",
        {},
    ),
    (
        "daily, from 28 February",
        sy("daily", 1, "2000-01-01T00:00+00:00"),
        "2027-02-28T12:00:00",
        "2027-03-01T00:00:00",
        {},
    ),
    (
        "daily, from a base to come",
        sy("daily", 1, "2030-01-01T18:00+00:00"),
        "2026-11-20T12:00:00",
        "2026-11-20T18:00:00",
        {},
    ),
    (
        "weekly, from a base",
        sy("weekly", 1, "2000-01-01T00:00+00:00"),
        "2026-11-17T00:00:00",
        "2026-11-21T00:00:00",
        YEARS,
    ),
    (
        "seven times a week",
        sy("weekly", 7, "2000-01-01T00:00+00:00"),
        "2026-11-20T12:00:00",
        "2026-11-21T00:00:00",
        {},
    ),
    (
        "monthly, from the 1st, in a leap year",
        sy("monthly", 1, "2000-01-01T00:00+00:00"),
        "2028-02-10T00:00:00",
        "2028-03-01T00:00:00",
        YEARS,
    ),
    (
        "monthly, from the 31st, in February",
        sy("monthly", 1, "2000-01-31T00:00+00:00"),
        "2027-02-10T00:00:00",
        "2027-02-28T00:00:00",
        YEARS,
    ),
    (
        "monthly, from the 31st, on the leap day",
        sy("monthly", 1, "2000-01-31T00:00+00:00"),
        "2028-02-10T00:00:00",
        "2028-02-29T00:00:00",
        YEARS,
    ),
    (
        "monthly, from the 31st, in April",
        sy("monthly", 1, "2000-01-31T00:00+00:00"),
        "2027-04-10T00:00:00",
        "2027-04-30T00:00:00",
        YEARS,
    ),
    (
        "monthly, over the end of a year",
        sy("monthly", 1, "2000-01-15T00:00+00:00"),
        "2026-12-20T00:00:00",
        "2027-01-15T00:00:00",
        YEARS,
    ),
    (
        "yearly, from a leap day",
        sy("yearly", 1, "2000-02-29T00:00+00:00"),
        "2027-01-10T00:00:00",
        "2027-02-28T00:00:00",
        YEARS,
    ),
    (
        "yearly, from a leap day, in a leap year",
        sy("yearly", 1, "2000-02-29T00:00+00:00"),
        "2028-01-10T00:00:00",
        "2028-02-29T00:00:00",
        YEARS,
    ),
    (
        "yearly, from New Year",
        sy("yearly", 1, "2000-01-01T00:00+00:00"),
        "2028-12-10T00:00:00",
        "2029-01-01T00:00:00",
        YEARS,
    ),
    ("monthly counts for one day at most", sy("monthly"), "2026-11-20T12:00:00", "2026-11-21T12:00:00", {}),
)


def updates() -> Iterator[Promise]:
    for case, feed, got, end, settings in UPDATES:
        yield from until(NEXT, SYNDICATION, "sy-hint", case, feed, got, end, **settings)


MIXED = (
    ("a ttl that ends in a skipped hour", "skip-hours", ttl("90") + hours(13), "2026-11-20T14:00:00"),
    ("a ttl that ends after a skipped hour", "ttl-hint", ttl("150") + hours(13), "2026-11-20T14:30:00"),
    ("a ttl that ends as a skipped hour ends", "ttl-hint", ttl("120") + hours(13), "2026-11-20T14:00:00"),
    ("a ttl that ends as a skipped hour begins", "skip-hours", ttl("60") + hours(13), "2026-11-20T14:00:00"),
    ("a ttl that ends in a skipped day", "skip-days", ttl("1000") + days("Saturday"), "2026-11-22T00:00:00"),
    ("a ttl longer than the schedule", "ttl-hint", ttl("90") + sy("hourly"), "2026-11-20T13:30:00"),
    ("a schedule longer than the ttl", "sy-hint", ttl("30") + sy("hourly"), "2026-11-20T13:00:00"),
    ("an update in a skipped hour", "skip-hours", sy("hourly") + hours(13), "2026-11-20T14:00:00"),
)


def mixed() -> Iterator[Promise]:
    name = "Of several hints the latest end counts; an end in a skipped time moves to the end of that time"
    for case, detail, feed, end in MIXED:
        yield from until(name, HINTS, detail, case, feed, "2026-11-20T12:00:00", end)


def silent() -> Iterator[Promise]:
    """Yield promises about responses without an HTTP lifetime: the hint is the lifetime."""
    name = "Without an HTTP lifetime, the ttl is the lifetime"
    got, end = "2028-02-28T23:30:00", "2028-02-29T00:30:00"
    fresh = Expect(cache="hit; ttl=1", asked=0)
    yield at(name, TTL, "", ttl("60"), got, end, -1, fresh, control={})
    yield at(name, TTL, "", ttl("60"), got, end, 0, ASKED, control={})
    yield at(name, TTL, "", ttl("60"), got, end, 1, ASKED, control={})
    name = "Without an HTTP lifetime, a copy also stays fresh in skipped hours and days"
    for source, case, feed, start, over in (
        (SKIP_HOURS, "hours", hours(23, 0), "2028-02-29T23:30:00", "2028-03-01T01:00:00"),
        (SKIP_DAYS, "a day", days("Sunday"), "2028-12-31T23:00:00", "2029-01-01T00:00:00"),
    ):
        yield at(name, source, case, feed, start, over, -1, fresh, control={})
        # A stretch that is over gives no lifetime: that by default has passed as well.
        yield at(name, source, case, feed, start, over, 1, ASKED, control={}, settings={"default_lifetime": 600})


FORBIDDEN = {
    "no-cache": "fwd=stale",
    "max-age=1, must-revalidate": "fwd=stale",
    "max-age=1, proxy-revalidate": "fwd=stale",
    "s-maxage=1": "fwd=stale",
    "private, max-age=1": "fwd=uri-miss",
    "no-store": "fwd=uri-miss",
}


def never() -> Iterator[Promise]:
    got, moment = "2026-11-20T12:00:00", "2026-11-20T13:30:00"
    for control, fwd in FORBIDDEN.items():
        for what, feed in (("ttl", ttl("600")), ("skipHours", hours(13))):
            yield at(
                f"{what} holds no copy that HTTP forbids using stale",
                RFC_9111_AGE,
                control,
                feed,
                got,
                moment,
                0,
                Expect(says=(fwd,), asked=1),
                control={"Cache-Control": control},
            )
    yield at(
        "A response to a request with credentials is not held, even if the origin permits sharing it",
        RFC_9111_AGE,
        "",
        ttl("600"),
        got,
        moment,
        0,
        Expect(says=("fwd=stale",), asked=1),
        control={"Cache-Control": "public, max-age=1"},
        request={"Authorization": "Basic dTpw"},
    )


WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NONSENSE: tuple[tuple[str, str, dict[str, str]], ...] = (
    (TTL, "ttl", {value or "empty": ttl(value) for value in ("0", "-1", "often", "", "1e3")}),
    (
        SKIP_HOURS,
        "skipHours",
        {
            "all hours": hours(*range(24)),
            "hours 1 to 24": hours(*range(1, 25)),
            "hour 25": hours(25),
            "hour -1": hours(-1),
            "empty": "<skipHours/>",
        },
    ),
    (SKIP_DAYS, "skipDays", {"all days": days(*WEEK), "Freitag": days("Freitag"), "empty": "<skipDays/>"}),
    (SYNDICATION, "sy:updatePeriod", {period or "empty": sy(period) for period in ("minutely", "never", "")}),
)


def nonsense() -> Iterator[Promise]:
    got, moment = "2026-11-20T12:00:00", "2026-11-20T13:30:00"
    for source, what, feeds in NONSENSE:
        for case, feed in feeds.items():
            yield at(f"An invalid {what} holds no copy", source, case, feed, got, moment, 0, ASKED)


def insisting() -> Iterator[Promise]:
    """Yield promises about requests that refuse stale responses: a hint only permits to serve a copy that is stale by
    HTTP.
    """
    got, moment = "2026-11-20T12:00:00", "2026-11-20T13:30:00"
    for control in ("no-cache", "max-age=0", "max-age=600", "min-fresh=1"):
        yield at(
            "A request that refuses stale responses gets no held copy",
            RFC_9111_AGE,
            control,
            ttl("600"),
            got,
            moment,
            0,
            Expect(says=("fwd-status=304",), asked=1),
            request={"Cache-Control": control},
        )


PROMISES = (
    *ttls(),
    *stretches(),
    *updates(),
    *mixed(),
    *silent(),
    *never(),
    *nonsense(),
    *insisting(),
)
