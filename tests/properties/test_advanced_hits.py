"""A hit that is advanced by seconds is equal to a hit that is computed anew, at every instant."""

import calendar
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind, Period, Schedule
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields
from feedproxy.proxy.repeated_hit import HitState, ReusableHit, recompute_hit
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))
TARGET = "https://example.com/feed"

instants = st.one_of(
    st.integers(0, 90_000).map(float),
    st.floats(0, 90_000),
    # shortly before and after the end of a second
    st.builds(lambda second, off: second + off, st.integers(0, 90_000), st.sampled_from([-1e-3, -1e-6, 1e-7, 1e-3])),
)
schedules = st.builds(
    Schedule,
    ttl=st.none() | st.integers(1, 1440),
    skip_hours=st.frozensets(st.integers(0, 23), max_size=6),
    skip_days=st.frozensets(st.integers(0, 6), max_size=2),
    period=st.none() | st.sampled_from(Period),
    frequency=st.integers(1, 4),
    base=st.none() | st.just(NOON - 86_400 * 30),
)


@st.composite
def repeats(draw: st.DrawFn) -> ReusableHit:
    """Generate a reusable hit of any feed or page."""
    received = NOON + draw(st.sampled_from([0.0, 0.25, 0.9999995]) | st.floats(0, 1))
    lines = []
    if draw(st.booleans()):
        lines.append(("Date", format_http_date(NOON - draw(st.integers(0, 100)))))
    if draw(st.booleans()):
        lines.append(("Age", str(draw(st.integers(0, 3600)))))
    control = draw(st.sampled_from(["", "max-age=600", "s-maxage=60", "max-age=0", "max-age=86400, must-revalidate"]))
    if control:
        lines.append(("Cache-Control", control))
    if draw(st.booleans()):
        lines.append(("Last-Modified", format_http_date(NOON - draw(st.integers(1, 1_000_000)))))
    feed = draw(st.booleans())
    content = Content(Bodies({"identity": b"<rss/>"}), feed=feed)
    stored = StoredResponse(TARGET, 200, Fields(lines), content, received - draw(st.floats(0, 2)), received)
    channel = Channel(Kind.RSS, "2.0", well_formed=True, schedule=draw(schedules)) if feed else None
    pushed = draw(st.booleans())
    resource = Resource(
        TARGET,
        (stored,),
        channel,
        changes=tuple(NOON - each for each in draw(st.lists(st.integers(1, 500_000), max_size=4))),
        last_push=NOON - 10 if pushed else 0.0,
        push_lease_expires=NOON + draw(st.integers(0, 90_000)) if pushed else 0.0,
    )
    settings = replace(Settings(), feed_hints=draw(st.sampled_from(["enforce", "heuristic", "off"])))
    asked = draw(st.sampled_from(["", "max-age=100", "min-fresh=30", "max-stale=1000", "no-cache"]))
    directives = CacheControl.from_request(Fields([("Cache-Control", asked)] if asked else []))
    details = [None, "ttl-hint", "sy-hint", "skip-hours", "skip-days", "push"]
    states = draw(st.booleans())
    return ReusableHit(
        resource, stored, settings, directives, draw(st.sampled_from(details)), frozenset(), feed, states
    )


def told(moment: HitState | None) -> object:
    """Return all that clients can observe of a hit, and the instant until which it is valid."""
    if moment is None:
        return None
    return moment.fields(), moment.terms


@given(repeats(), st.lists(instants, min_size=2, max_size=12))
def test_advanced_hit_equals_recomputed_hit_at_every_second(given_: ReusableHit, offsets: list[float]) -> None:
    earlier: HitState | None = None
    for now in sorted(NOON + 1 + offset for offset in offsets):
        recomputed = recompute_hit(given_, now)
        if earlier is not None and earlier.advance(now):
            assert told(earlier) == told(recomputed)
        else:
            earlier = recomputed or earlier


@given(repeats(), instants, st.floats(0, 1))
def test_hit_does_not_change_before_its_stated_end(given_: ReusableHit, offset: float, share: float) -> None:
    moment = recompute_hit(given_, NOON + 1 + offset)
    if moment is None:
        return

    values, until = moment.fields()

    later = recompute_hit(given_, moment.computed_at + share * (until - moment.computed_at))

    assert later is not None
    assert later.fields()[0][:3] == values[:3]


def test_hit_of_a_fresh_feed_is_advanced_until_its_lifetime_ends() -> None:
    stored = StoredResponse(
        TARGET,
        200,
        Fields([("Cache-Control", "max-age=600")]),
        Content(Bodies({"identity": b"x"}), feed=True),
        NOON,
        NOON,
    )
    resource = Resource(TARGET, (stored,), Channel(Kind.RSS, "2.0", well_formed=True))
    repeat = ReusableHit(
        resource, stored, Settings(), CacheControl(), None, frozenset(), counted=True, states_freshness=False
    )

    first = recompute_hit(repeat, NOON + 0.5)

    assert first is not None
    assert first.advance(NOON + 599.9)
    assert not first.advance(NOON + 600)
