"""RSS Feed State, Pinging and Retrieving Pings: a test for each of its sentences that binds a server.

The texts of the messages are made here, in the form of the samples.
"""

import xmlrpc.client
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from feedproxy.errors import BadTarget
from feedproxy.feed.opml import Subscription, SubscriptionList
from feedproxy.http.message import Fields, Request, Response
from feedproxy.notify.changes.change_lists import ChangeLists
from feedproxy.notify.changes.change_log import RETENTION
from feedproxy.notify.pings.receiver import PingReceiver
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.endpoint_registry import Call
from tests.stages.notify import NOON, TARGET, Stand
from tests.stages.origin import a_feed

SITE = "http://example.com/"
"""The page to which the feed of these tests links."""


class Door:
    """The endpoints, called without a network."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.ear = PingReceiver(stand.notifications)
        self.lists = ChangeLists(stand.notifications)
        stand.notifications.xmlrpc.add("weblogUpdates.ping", self.ear.simple)
        stand.notifications.xmlrpc.add("weblogUpdates.extendedPing", self.ear.extended)

    def call(self, path: str, query: str = "", content: bytes = b"", address: str = "192.0.2.1", **fields: str) -> Call:
        named = Fields((name.replace("_", "-"), value) for name, value in fields.items())
        visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", address)
        return Call(Request("GET", f"/-/{path}", named), visit, path, query, content)

    async def get_ping(self, query: str, **more: Any) -> Response:
        return await self.ear.page(self.call("pingSiteForm", query, **more))

    async def rpc(self, content: bytes, **more: Any) -> Any:
        """Return the value of an XML-RPC response. Raises the fault, if any."""
        answer = await self.stand.notifications.xmlrpc.answer(self.call("RPC2", content=content, **more))
        assert answer.status == 200
        assert (answer.fields.combined("Content-Type") or "").startswith("text/xml")
        (value,), _ = xmlrpc.client.loads(answer.body.decode())
        return value

    async def ping(self, *parameters: Any, method: str = "weblogUpdates.ping", **more: Any) -> Any:
        return await self.rpc(xmlrpc.client.dumps(parameters, method).encode(), **more)


@pytest.fixture
async def door(stand: Stand) -> Door:
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    stand.clock.advance(3600)
    return Door(stand)


def fetches(door: Door) -> int:
    return door.stand.origin.requests - 1


# -- HTTP Ping


async def test_get_ping_that_succeeds_is_answered_200_with_an_html_page(door: Door) -> None:
    """ "the response should have the HTTP 200 status code and the content should be an HTML human readable page" """
    answer = await door.get_ping("name=The+Blog&url=http%3A%2F%2Fexample.com%2F")
    await door.stand.settled()

    assert answer.status == 200
    assert (answer.fields.combined("Content-Type") or "").startswith("text/html")
    assert b"Thanks for the ping" in answer.body
    assert fetches(door) == 1


@pytest.mark.parametrize(
    "query", ["", "name=x", "name=x&url=", "name=x&url=nonsense", "url=ftp://a/", "url=javascript:1"]
)
async def test_get_ping_that_fails_is_answered_400_with_an_html_page_stating_the_reason(door: Door, query: str) -> None:
    """ "the appropriate non-HTTP 200 status code and … an HTML human readable page informing the user why" """
    answer = await door.get_ping(query)

    assert answer.status == 400
    assert (answer.fields.combined("Content-Type") or "").startswith("text/html")
    assert b"<p>" in answer.body


async def test_get_ping_parameters_are_uri_encoded(door: Door) -> None:
    answer = await door.get_ping("name=Caf%C3%A9+%26+%3Cb%3E&url=http%3A%2F%2Fexample.com%2F")

    assert "Café &amp; &lt;b&gt;" in answer.body.decode()


async def test_ping_may_identify_a_feed_by_its_gateway_url(door: Door) -> None:
    address = f"http://proxy.example/{TARGET}"
    await door.get_ping(f"name=x&url={quote(address, safe='')}")
    await door.stand.settled()
    assert fetches(door) == 1

    door.stand.clock.advance(3600)
    await door.ping("x", SITE + "other", SITE + "other", address, method="weblogUpdates.extendedPing")
    await door.stand.settled()
    assert fetches(door) == 2


async def test_get_ping_page_shows_the_url_of_a_site_without_a_name(door: Door) -> None:
    answer = await door.get_ping("url=http%3A%2F%2Fexample.com%2F")

    assert b" http://example.com/ has changed" in answer.body


# -- XML-RPC Ping


@pytest.mark.parametrize("url", [SITE, TARGET])
async def test_simple_ping_url_is_the_home_page_or_the_feed(door: Door, url: str) -> None:
    """ "The url can either be the HTML homepage of the site or the RSS feed for the site." """
    told = await door.ping("The Blog", url)
    await door.stand.settled()

    assert told["flerror"] is False
    assert fetches(door) == 1


@pytest.mark.parametrize("declared", ["", '<?xml version="1.0"?>', '<?xml version="1.0" encoding="iso-8859-1"?>'])
async def test_xml_rpc_ping_may_state_its_encoding_in_content_type(door: Door, declared: str) -> None:
    call = declared + xmlrpc.client.dumps(("Café", SITE), "weblogUpdates.ping").partition("?>")[2]

    told = await door.rpc(call.encode("iso-8859-1"), content_type="text/xml; charset=ISO-8859-1")
    await door.stand.settled()

    assert told["flerror"] is False
    assert fetches(door) == 1


@pytest.mark.parametrize("charset", ["utf-16", "utf-8"])
async def test_xml_rpc_ping_in_utf_16_may_have_a_charset(door: Door, charset: str) -> None:
    call = xmlrpc.client.dumps(("Café", SITE), "weblogUpdates.ping").partition("?>")[2]

    told = await door.rpc(
        f'<?xml version="1.0" encoding="utf-16"?>{call}'.encode("utf-16"), content_type=f"text/xml; charset={charset}"
    )

    assert told["flerror"] is False


async def test_xml_rpc_value_without_a_type_is_a_string(door: Door) -> None:
    """As the sample has it: `<value>The RSS Blog</value>`, with white space between the elements."""
    told = await door.rpc(
        b"""<?xml version="1.0"?>
        <methodCall>
         <methodName>weblogUpdates.ping</methodName>
         <params>
          <param>
           <value>The Blog</value>
          </param>
          <param>
           <value>http://example.com/</value>
          </param>
         </params>
        </methodCall>"""
    )

    assert told["flerror"] is False


@pytest.mark.parametrize("tags", [(), ("rss|opml",)])
async def test_extended_ping_has_four_or_five_parameters_and_the_fourth_is_the_feed(
    door: Door, tags: tuple[str, ...]
) -> None:
    """ "The fourth parameter the url of the RSS feed." """
    told = await door.ping(
        "The Blog",
        "http://elsewhere.example/",
        "http://elsewhere.example/page",
        TARGET,
        *tags,
        method="weblogUpdates.extendedPing",
    )
    await door.stand.settled()

    assert told["flerror"] is False
    assert fetches(door) == 1


async def test_extended_ping_accepts_an_empty_changed_page(door: Door) -> None:
    told = await door.ping("The Blog", SITE, "", TARGET, method="weblogUpdates.extendedPing")

    assert told["flerror"] is False


async def test_xml_rpc_response_is_a_struct_of_flerror_and_message(door: Door) -> None:
    """ "The response is a struct with two named parameters, flerror and message. The flerror is a boolean." """
    told = await door.ping("The Blog", SITE)

    assert set(told) == {"flerror", "message"}
    assert told["flerror"] is False
    assert told["message"]


@pytest.mark.parametrize(
    "url", ["", "nonsense", "file:///etc/passwd", "http://user:word@example.com/", "http://" + "a" * 3000]
)
async def test_ping_that_is_rejected_returns_flerror_with_the_reason(door: Door, url: str) -> None:
    """ "otherwise it is 1 (true). The message describes the success or failure … in human readable language" """
    told = await door.ping("The Blog", url)

    assert told["flerror"] is True
    assert len(told["message"]) > 10


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", -32700),
        (b"hello", -32700),
        (b"<methodCall><methodName>weblogUpdates.ping</methodName>", -32700),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><methodCall><methodName>a</methodName><params/></methodCall>', -32700),
        (b'<!DOCTYPE x SYSTEM "http://192.0.2.1/x"><methodCall><methodName>a</methodName></methodCall>', -32700),
        (b"<methodCall><params/></methodCall>", -32700),
        (b"<methodCall><methodName>a</methodName><params><param><value><int>x</int></value></param></params>", -32700),
        (xmlrpc.client.dumps((), "weblogUpdates.pong").encode(), -32601),
        (xmlrpc.client.dumps((), "weblogupdates.ping").encode(), -32601),
        (xmlrpc.client.dumps((), "weblogUpdates.ping").encode(), -32602),
        (xmlrpc.client.dumps(("a",), "weblogUpdates.ping").encode(), -32602),
        (xmlrpc.client.dumps((1, 2), "weblogUpdates.ping").encode(), -32602),
        (xmlrpc.client.dumps(tuple("abcde"), "weblogUpdates.ping").encode(), -32602),
        (xmlrpc.client.dumps(("a", SITE, ""), "weblogUpdates.extendedPing").encode(), -32602),
        (xmlrpc.client.dumps(("a", {"b": 1}), "weblogUpdates.ping").encode(), -32602),
    ],
)  # fmt: skip
async def test_xml_rpc_call_that_is_invalid_returns_a_fault(door: Door, content: bytes, code: int) -> None:
    with pytest.raises(xmlrpc.client.Fault) as raised:
        await door.rpc(content)

    assert raised.value.faultCode == code
    assert fetches(door) == 0


async def test_xml_rpc_entities_are_never_expanded(door: Door) -> None:
    bomb = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
    content = f'<!DOCTYPE x [<!ENTITY l0 "lol">{bomb}]><methodCall><methodName>&l9;</methodName></methodCall>'

    with pytest.raises(xmlrpc.client.Fault):
        await door.rpc(content.encode())


# -- what a ping does, and what it cannot do


async def test_pings_in_any_number_cause_one_fetch(door: Door) -> None:
    for number in range(20):
        await door.ping("The Blog", SITE, address=f"192.0.2.{number + 1}")
    await door.stand.settled()

    assert fetches(door) == 1


async def test_ping_after_a_fetch_causes_one_fetch_after_the_interval(door: Door) -> None:
    await door.ping("The Blog", SITE)
    await door.stand.settled()
    for _ in range(5):
        await door.ping("The Blog", SITE)
    await door.stand.pass_time(29)
    assert fetches(door) == 1

    await door.stand.pass_time(1)
    await door.stand.pass_time(3600)

    assert fetches(door) == 2


async def test_ping_within_the_minimum_interval_is_accepted_and_deferred(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(feed_min_interval=60)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    door = Door(stand)

    told = await door.ping("The Blog", SITE)
    await stand.settled()
    assert told["flerror"] is False
    assert fetches(door) == 0
    await stand.pass_time(60)

    assert fetches(door) == 1


async def test_ping_accepted_before_a_restart_is_processed_after_it(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(folder="store", feed_min_interval=60)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    await Door(stand).ping("The Blog", SITE)
    await stand.app.close()

    again = await stand_at(folder="store", feed_min_interval=60, origin=stand.origin, clock=stand.clock)
    await again.pass_time(60)

    assert stand.origin.requests == 2


async def test_ping_rate_per_address_is_limited_per_minute(
    stand_at: Callable[..., Any],
) -> None:
    stand = await stand_at(source_limit=3)
    door = Door(stand)

    told = [await door.ping("The Blog", SITE) for _ in range(4)]
    page = await door.get_ping("name=x&url=http://example.com/")
    other = await door.ping("The Blog", SITE, address="192.0.2.9")
    await stand.pass_time(20)
    later = await door.ping("The Blog", SITE)

    assert [each["flerror"] for each in told] == [False, False, False, True]
    assert (page.status, page.fields.combined("Retry-After")) == (429, "60")
    assert other["flerror"] is False
    assert later["flerror"] is False


async def test_ping_rate_treats_an_ipv6_network_as_one_address(stand_at: Callable[..., Any]) -> None:
    door = Door(await stand_at(source_limit=3))

    told = [await door.ping("The Blog", SITE, address=f"2001:db8::{number:x}") for number in range(4)]

    assert [each["flerror"] for each in told] == [False, False, False, True]


async def test_ping_of_an_unknown_site_is_answered_alike_recorded_and_not_fetched(door: Door) -> None:
    known = await door.ping("The Blog", SITE)
    told = await door.ping("A stranger", "http://stranger.example/")
    await door.stand.settled()

    assert told == known
    assert [each.url for each in await door.stand.notifications.refresh_requests.unknown_sites()] == [
        "http://stranger.example/"
    ]
    assert [request.target for request in door.stand.origin.log] == [TARGET, TARGET]


async def test_ping_of_an_unknown_site_is_fetched_with_ping_unknown_fetch(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(ping_unknown="fetch")
    stand.origin.publish("/feed.xml", a_feed("one"))

    await Door(stand).ping("A stranger", "http://origin.example/feed.xml")
    await stand.settled()

    assert stand.app.service.admin.is_feed(TARGET)


async def test_ping_of_an_unknown_page_discovers_its_feed(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(ping_unknown="fetch")
    page = '<html><head><link rel="alternate" type="application/rss+xml" href="{}"></head></html>'
    stand.origin.publish("/feed.xml", a_feed("one"))
    stand.origin.publish("/blog", page.format("/feed.xml").encode(), content_type="text/html")
    stand.origin.publish("/a", page.format("/b").encode(), content_type="text/html")
    stand.origin.publish("/b", page.format("/c").encode(), content_type="text/html")

    await Door(stand).ping("A stranger", "http://origin.example/blog")
    await Door(stand).ping("Pages that lead on and on", "http://origin.example/a")
    await stand.settled()
    stand.clock.advance(minutes=1)
    await stand.settled()

    assert stand.app.service.admin.is_feed(TARGET)
    assert "http://origin.example/c" not in [request.target for request in stand.origin.log]


async def test_ping_of_an_unknown_site_is_not_recorded_with_ping_unknown_ignore(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(ping_unknown="ignore")

    await Door(stand).ping("A stranger", "http://stranger.example/")

    assert await stand.notifications.refresh_requests.unknown_sites() == []


async def test_ping_records_at_most_1000_unknown_sites(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(source_limit=0)
    for number in range(1010):
        await stand.notifications.refresh_requests.record_unknown_site(f"http://stranger{number}.example/", "")

    assert len(await stand.notifications.refresh_requests.unknown_sites(5000)) == 1000


async def test_ping_of_a_site_refreshes_every_known_feed_of_it(stand: Stand) -> None:
    for path in ("/a.xml", "/blog/b.xml"):
        stand.origin.publish(path, a_feed("one").replace(b"http://example.com/", b""))
        await stand.read(stand.origin.url(path))
    door = Door(stand)

    await door.ping("The Site", "https://origin.example")
    await stand.settled()
    assert fetches(door) == 3
    await stand.pass_time(3600)
    await door.ping("A part of it", "http://origin.example/blog/")
    await stand.settled()

    assert stand.origin.log[-1].target.endswith("/blog/b.xml")
    assert fetches(door) == 4


async def test_ping_of_a_purged_feed_is_treated_as_unknown(door: Door) -> None:
    await door.stand.app.service.admin.purge(TARGET)

    await door.ping("The Blog", SITE)
    await door.ping("The Blog", TARGET)
    await door.stand.settled()

    assert fetches(door) == 0


# -- Retrieving Pings


async def changed(door: Door, *titles: str) -> None:
    door.stand.origin.publish("/feed.xml", a_feed(*titles))
    await door.stand.read()


async def test_changes_list_has_name_url_and_when_of_recent_changes(door: Door) -> None:
    """ "three attributes; name, url and when … the when attribute is the number of minutes since the ping" """
    await changed(door, "two")
    await door.stand.pass_time(7 * 60)

    answer = await door.lists.long(door.call("changes.xml"))

    assert answer.status == 200
    assert (answer.fields.combined("Content-Type") or "").startswith("application/xml")
    assert (
        answer.body.decode()
        == """<?xml version="1.0" encoding="utf-8"?>
<weblogUpdates version="2" updated="Fri, 29 May 2026 13:07:00 GMT" count="1">
 <weblog name="News" url="http://example.com/" rssUrl="http://origin.example/feed.xml" when="7"/>
</weblogUpdates>
"""
    )


async def test_changes_list_counts_when_in_seconds_on_request(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at()
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    door = Door(stand)
    await changed(door, "two")
    await stand.pass_time(120)

    assert b'when="120"' in (await door.lists.long(door.call("changes.xml", "when=seconds"))).body
    assert b'when="2"' in (await door.lists.long(door.call("changes.xml", "when=minutes"))).body
    with pytest.raises(BadTarget, match="expected minutes or seconds"):
        await door.lists.long(door.call("changes.xml", "when=hours"))


async def test_changes_list_excludes_feeds_below_list_readers_min(stand_at: Callable[..., Any]) -> None:
    """An address that one reader alone knows may be that reader's secret (option list_readers_min)."""
    stand = await stand_at()
    door = Door(stand)
    for readers, listed in ((2, 0), (3, 1)):
        for title in ("one", "two"):
            stand.origin.publish("/feed.xml", a_feed(title, str(readers)))
            await stand.read(readers=readers)
        body = (await door.lists.long(door.call("changes.xml"))).body
        assert (b"feed.xml" in body) is bool(listed)


async def test_changes_list_includes_imported_feeds(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at()
    door = Door(stand)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.app.feed_list.import_list(SubscriptionList("", (Subscription(TARGET),)))
    await stand.read(readers=0)
    stand.origin.publish("/feed.xml", a_feed("two"))
    await stand.read(readers=0)

    assert b"feed.xml" in (await door.lists.long(door.call("changes.xml"))).body


async def test_changes_list_excludes_a_feed_made_private_by_its_origin(door: Door) -> None:
    await changed(door, "two")
    assert (await door.lists.long(door.call("changes.xml"))).body.count(b"<weblog ") == 1

    door.stand.origin.publish("/feed.xml", a_feed("three"), cache_control="private")
    await door.stand.read()

    assert (await door.lists.long(door.call("changes.xml"))).body.count(b"<weblog ") == 0


async def test_changes_list_covers_three_hours_and_the_short_list_five_minutes(door: Door) -> None:
    """ "The first contains all the recent pings in the last hours and the second … in the last 5 minutes." """

    async def shown(read: Any, path: str) -> int:
        answer: Response = await read(door.call(path))
        return answer.body.count(b"<weblog ")

    await changed(door, "two")
    assert await shown(door.lists.short, "shortChanges.xml") == 1
    await door.stand.pass_time(301)
    assert await shown(door.lists.short, "shortChanges.xml") == 0
    assert await shown(door.lists.long, "changes.xml") == 1
    await door.stand.pass_time(3 * 3600 - 302)
    assert await shown(door.lists.long, "changes.xml") == 1
    await door.stand.pass_time(2)

    assert await shown(door.lists.long, "changes.xml") == 0


async def test_changes_list_shows_changes_at_once_newest_first(door: Door) -> None:
    await changed(door, "two")
    await door.stand.pass_time(10)
    before = (await door.lists.short(door.call("shortChanges.xml"))).body
    door.stand.origin.publish("/other.xml", a_feed("one").replace(b"News", b"Other"))
    await door.stand.read(door.stand.origin.url("/other.xml"))
    door.stand.origin.publish("/other.xml", a_feed("two").replace(b"News", b"Other"))
    await door.stand.read(door.stand.origin.url("/other.xml"))

    after = (await door.lists.short(door.call("shortChanges.xml"))).body

    assert before != after
    assert after.index(b'name="Other"') < after.index(b'name="News"')


async def test_changes_archive_names_the_first_hour_01_and_the_last_24(door: Door) -> None:
    """ "All pings received in the first hour of January 1st 2007 would be archived in the file …/2007/01/01/01.xml" """
    await door.stand.pass_time(11 * 3600)  # the first hour of the next day
    await changed(door, "two")
    await door.stand.pass_time(600)

    first = await door.lists.archive(door.call("changes/2026/05/30/01.xml"))
    last = await door.lists.archive(door.call("changes/2026/05/29/24.xml"))

    assert first.body.count(b"<weblog ") == 1
    assert b'updated="Sat, 30 May 2026 01:00:00 GMT"' in first.body
    assert b'when="60"' in first.body
    assert last.body.count(b"<weblog ") == 0
    assert b'updated="Sat, 30 May 2026 00:00:00 GMT"' in last.body


@pytest.mark.parametrize(
    "path",
    ["2026/05/29/00.xml", "2026/05/29/25.xml", "2026/02/30/01.xml", "2027/01/01/01.xml", "2026/5/29/1.xml", "x", ""],
)
async def test_changes_archive_returns_not_found_for_invalid_or_future_hours(door: Door, path: str) -> None:
    from feedproxy.errors import NotFound

    with pytest.raises(NotFound):
        await door.lists.archive(door.call(f"changes/{path}"))


async def test_changes_log_is_bounded(door: Door) -> None:
    await changed(door, "two")
    await door.stand.pass_time(RETENTION + 3600)

    assert await door.stand.notifications.changes.between(0, NOON + 2 * RETENTION, 10) == []


async def test_changes_list_supports_conditional_requests(door: Door) -> None:
    await changed(door, "two")
    answer = await door.lists.long(door.call("changes.xml"))

    by_tag = await door.lists.long(door.call("changes.xml", If_None_Match=answer.fields.combined("ETag") or ""))
    by_date = await door.lists.long(
        door.call("changes.xml", If_Modified_Since=answer.fields.combined("Last-Modified") or "")
    )
    await door.stand.pass_time(120)
    later = await door.lists.long(door.call("changes.xml", If_None_Match=answer.fields.combined("ETag") or ""))

    assert (by_tag.status, by_tag.body) == (304, b"")
    assert by_tag.fields.combined("ETag") == answer.fields.combined("ETag")
    assert by_date.status == 304
    assert later.status == 200


async def test_changes_list_survives_a_restart(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(folder="store")
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    await changed(Door(stand), "two")
    await stand.app.close()

    again = Door(await stand_at(folder="store", origin=stand.origin, clock=stand.clock))

    assert (await again.lists.long(again.call("changes.xml"))).body.count(b"<weblog ") == 1


async def test_changes_list_never_contains_a_private_feed(stand_at: Callable[..., Any]) -> None:
    secret = "/feed.xml?token=0123456789abcdef"
    stand = await stand_at()
    stand.origin.publish(secret, a_feed("one"))
    await stand.read(stand.origin.url(secret))
    stand.origin.publish(secret, a_feed("two"))
    await stand.read(stand.origin.url(secret))
    door = Door(stand)

    assert b"<weblog " not in (await door.lists.long(door.call("changes.xml"))).body


async def test_changes_list_excludes_a_feed_made_private_by_a_rule(door: Door) -> None:
    from feedproxy.feed_rules import Rule, Rules
    from feedproxy.http.target_uri.target_pattern import TargetPattern

    await changed(door, "two")
    door.stand.app.set_rules(Rules([Rule(TargetPattern("origin.example/*"), {"private": True})]))

    assert b"<weblog " not in (await door.lists.long(door.call("changes.xml"))).body


async def test_changes_list_escapes_text_of_publishers(door: Door) -> None:
    await changed(door, "two")
    door.stand.origin.publish("/feed.xml", a_feed("three").replace(b"News", b"A&amp;B &lt;\"'&gt;"))
    await door.stand.read()
    from xml.dom import minidom

    document = minidom.parseString((await door.lists.long(door.call("changes.xml"))).body)

    assert document.getElementsByTagName("weblog")[0].getAttribute("name").startswith("A&B <\"'>")
