"""Outcomes for unusual lifetimes: HTTP's directives, and feed hints."""

import re
from urllib.parse import quote
from xml.etree import ElementTree

from tests.live.hostile import DAY, DEFAULT, FLOOR, HOUR, MINUTE, MOST, Play
from tests.live.outcomes.common import Outcome, a_feed, is_the_feed

# -- freshness


async def expires(play: Play) -> None:
    """Assert a stale response for a past or invalid date, and the stated lifetime for a date in a hundred years."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert seen.ttl is not None
    far = "2126" in play.only.value("expires")
    assert (seen.ttl > DAY) if far else (seen.ttl <= 0)
    play.clock.advance(FLOOR)
    again, asked = await play.get_again()
    assert asked == (not far)
    assert again.hit == far


LIFETIMES = {
    "max-age=-5": 0,
    'max-age="60"': 60,
    "max-age=1.5": 0,
    "max-age=60, max-age=0": 0,
    "max-age": 0,
    "max-age=60 ,, foo=bar;baz": 60,
}
"""Lifetime in seconds by Cache-Control value. Invalid values are stale, and the shorter of two values applies (RFC
9111, section 4.2.1).
"""


async def conservative_lifetime(play: Play) -> None:
    """Assert the seconds in the table. A number that is too large for it counts as the largest."""
    said = play.only.value("cache-control")
    lifetime = LIFETIMES.get(said, 2**31)
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert seen.ttl == lifetime
    play.clock.advance(FLOOR)
    _, asked = await play.get_again()
    assert asked == (lifetime < FLOOR)


async def not_stored(play: Play) -> None:
    """Assert that nothing is stored, and that each request reaches the origin."""
    for _ in range(2):
        seen, asked = await play.get_again()
        assert asked
        is_the_feed(seen, play.only.body)
        assert not seen.stored
    assert play.resource is None or not play.resource.variants


async def validated_each_time(play: Play) -> None:
    """Assert that the copy is used after validation only, even within the minimum interval."""
    is_the_feed(await play.get(), play.only.body)
    for _ in range(2):
        seen, asked = await play.get_again()
        assert asked
        assert not seen.hit


async def by_our_own_agent(play: Play) -> None:
    """Assert one variant in the gateway, because the origin saw only the proxy's User-Agent.

    Readers whose own User-Agent was forwarded share a variant with equal ones only.
    """
    await play.get(user_agent="one/1")
    seen, asked = await play.get_again(user_agent="two/2")
    assert (seen.hit, asked) == (True, False)
    agents = [each.fields.get("user-agent") or "" for each in play.asked]
    assert all(agent.startswith("feedproxy/") for agent in agents)

    await play.whole.app.service.admin.purge(play.target)
    for agent in ("one/1", "two/2"):
        before = len(play.asked)
        seen = await play.through_proxy(user_agent=agent)
        is_the_feed(seen, play.only.body)
        assert len(play.asked) > before, "what was fetched under another's name is another variant"


async def cookie_for_one(play: Play) -> None:
    """Assert that a response with a cookie is shared with no client in the gateway, and kept for its client in the
    proxy.
    """
    assert "set-cookie" not in (await play.get()).fields
    await play.whole.app.service.admin.purge(play.target)
    first, second = await play.through_proxy(), await play.through_proxy()
    assert first.fields.get("set-cookie") == play.only.value("set-cookie")
    assert second.hit
    assert "set-cookie" not in second.fields


async def for_the_authorized(play: Play) -> None:
    """Assert that max-age alone does not permit a shared cache to store the response (RFC 9111, section 3.5)."""
    seen = await play.get(authorization="Basic b25lOm9uZQ==")
    is_the_feed(seen, play.only.body)
    assert not seen.stored
    again, asked = await play.get_again()
    assert (again.hit, asked) == (False, True)
    assert "authorization" not in play.asked[-1].fields


# -- hints


async def ttl(play: Play) -> None:
    """Assert a ttl that is a positive whole number of minutes, at most a day. Otherwise the default applies."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    written = re.search(rb"<ttl>(.*?)</ttl>", play.only.body, re.DOTALL)
    assert written is not None
    value = written[1].removeprefix(b"<![CDATA[").removesuffix(b"]]>").decode().strip()
    lifetimes: set[float] = {DEFAULT}  # "Value ignored (falls back to HTTP or the default)"
    if re.fullmatch(r"[+]?[0-9.]+", value) and float(value) > 0:
        # "Capped to the configured maximum, or read leniently"
        exact = min(float(value) * MINUTE, MOST)
        lifetimes = {exact} if value.isdecimal() else {DEFAULT, exact, int(float(value)) * MINUTE}
    assert seen.ttl in lifetimes, (value, seen.ttl)
    play.clock.advance(MOST + FLOOR)
    _, asked = await play.get_again()
    assert asked


async def no_ttl(play: Play) -> None:
    """Assert that ttl has no effect at a wrong place."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert seen.ttl == DEFAULT


async def held_by_ttl(play: Play) -> None:
    """Assert that the copy is held and labelled (see DEVIATIONS). By option it is kept no longer than HTTP permits."""
    await play.get()
    play.clock.advance(FLOOR)
    seen, asked = await play.get_again()
    assert (asked, seen.hit, seen.detail) == (False, True, "ttl-hint")
    assert seen.age == FLOOR
    assert seen.ttl == 60 - FLOOR
    play.clock.advance(MOST)
    _, asked = await play.get_again()
    assert asked, "ttl ends, too"


async def never_frozen(play: Play) -> None:
    """Assert that a schedule that skips all hours or all days has no effect."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert seen.ttl == DEFAULT
    play.clock.advance(DEFAULT + 1)
    _, asked = await play.get_again()
    assert asked


async def valid_hours_count(play: Play) -> None:
    """Assert that valid hours are skipped and invalid ones ignored."""
    values = {int(value) for value in re.findall(rb"<hour>(\d+)</hour>", play.only.body)}
    hours = {value % 24 for value in values if value <= 24}
    assert 0 < len(hours) < 24
    await play.get()
    skipped = min(hour for hour in hours if hour < 12)
    play.clock.advance((12 + skipped) * HOUR + 10 * MINUTE)
    seen, asked = await play.get_again()
    assert (asked, seen.hit) == (False, True), seen.cache
    after = next(hour for hour in range(skipped + 1, 24) if hour not in hours)
    play.clock.advance((after - skipped) * HOUR)
    _, asked = await play.get_again()
    assert asked


async def bounded_period(play: Play) -> None:
    """Assert a fetch after the minimum interval and within the longest period that a hint may state."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert seen.ttl is not None
    assert 0 <= seen.ttl <= MOST
    play.clock.advance(FLOOR - 2)
    _, asked = await play.get_again()
    assert not asked
    play.clock.advance(MOST + FLOOR)
    _, asked = await play.get_again()
    assert asked


async def cloud_untouched(play: Play) -> None:
    """Assert an unchanged feed, and no connection to the named host."""
    await a_feed(play)
    play.clock.advance(HOUR)
    await play.get()
    assert set(play.whole.names.asked) == {"origin.test"}
    assert {each.target for each in play.asked} == {f"/case/{play.id}"}


async def escaped_link(play: Play) -> None:
    """Assert that markup in an address is escaped and the feed is well-formed."""
    address = f'{play.target}?"><script>alert(1)</script>'
    raw = await play.get(address)
    assert raw.status in (200, 400)
    assert b"<script>" not in raw.body
    seen = await play.get(f"{play.target}?{quote(address.partition('?')[2])}&a='b'")
    link = is_the_feed(seen, play.only.body)
    assert "<script" not in link
    found = ElementTree.fromstring(seen.body).find("channel/{http://www.w3.org/2005/Atom}link")
    assert found is not None
    assert found.get("href") == f"{play.target}?%22%3E%3Cscript%3Ealert%281%29%3C/script%3E&a='b'"


OUTCOMES: tuple[tuple[str, Outcome], ...] = (
    (r"expires-\d+", expires),
    (r"cache-control-[56]", not_stored),
    (r"cache-control-8", validated_each_time),
    (r"cache-control-\d+", conservative_lifetime),
    (r"vary-star", validated_each_time),
    (r"vary-user-agent", by_our_own_agent),
    (r"set-cookie", cookie_for_one),
    (r"authorization", for_the_authorized),
    (r"ttl-\d+|ttl-in-cdata", ttl),
    (r"ttl-in-item|ttl-commented", no_ttl),
    (r"ttl-vs-no-store", not_stored),
    (r"ttl-vs-max-age", held_by_ttl),
    (r"skiphours-(all|1-24)|skipdays-all", never_frozen),
    (r"skiphours-500", valid_hours_count),
    (r"sy-\d+", bounded_period),
    (r"cloud-\d+", cloud_untouched),
    (r"self-link-injection", escaped_link),
)
"""By the case's id, whole; the first that fits. The numbers in an id say which of many values: any of them."""
