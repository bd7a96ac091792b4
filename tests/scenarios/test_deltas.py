"""Deltas (RFC 3229, `A-IM: feed`): only new and changed entries are sent."""

import asyncio
import re

import pytest

from feedproxy.feed.parse.channel_parser import read
from feedproxy.refresh.policy.versions_for_deltas import VERSIONS_MAX
from feedproxy.store.resource_codec import dump, load
from tests.stages.origin import a_feed
from tests.stages.play import Seen

CODINGS = ("identity", "gzip", "br", "zstd")
OLD = tuple(f"old-{number}" for number in range(60))
"""Enough items for every coding to pay."""
PATH = "/feed.rss"
TITLE = re.compile(rb"<title>([\w-]+)</title>")
JAN_1, FEB_1 = "Thu, 01 Jan 2026 00:00:00 GMT", "Sun, 01 Feb 2026 00:00:00 GMT"


def titles(seen: Seen) -> list[str]:
    """The items' titles; the channel's is News."""
    return [title.decode() for title in TITLE.findall(seen.plain) if title != b"News"]


def words(seen: Seen, name: str) -> list[str]:
    return [word.strip().lower() for word in (seen.fields.combined(name) or "").split(",")]


def publish(origin, *items: str, extra: str = "", path: str = PATH, **fields: str) -> None:
    origin.publish(path, a_feed(*items, extra=extra), cache_control="max-age=60", **fields)


async def a_reader(stage, *, accept_encoding: str = "identity", last_modified: str | None = None, **settings):
    """A stage whose origin has news since the reader got the feed: `first` is what the reader got."""
    proxy, origin, clock = await stage(**settings)
    publish(origin, *OLD, **({"last_modified": last_modified} if last_modified else {}))
    first = await proxy.get(PATH, accept_encoding=accept_encoding)
    publish(origin, "news", *OLD, **({"last_modified": FEB_1} if last_modified else {}))
    clock.advance(minutes=10)
    return proxy, origin, clock, first


# -- what is in it


async def test_delta_has_new_and_changed_entries_only(stage):
    proxy, origin, clock = await stage()
    publish(origin, *OLD)
    first = await proxy.get(PATH)
    changed = a_feed("news", *OLD).replace(b"<guid>tag:old-7</guid>", b"<guid>tag:old-7</guid><author>a</author>")
    origin.publish(PATH, changed, cache_control="max-age=60")
    clock.advance(minutes=10)

    seen = await proxy.get(PATH, a_im="feed", if_none_match=first.tag)

    seen.expect(226, cache="fwd=stale; fwd-status=200; stored")
    assert titles(seen) == ["news", "old-7"]


async def test_delta_is_a_complete_document_with_its_channel(stage):
    proxy, _, _, first = await a_reader(stage)

    seen = (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(226)

    whole, cut = read((await proxy.get(PATH)).body, None), read(seen.body, None)
    assert whole is not None
    assert cut is not None
    assert cut.well_formed
    assert cut.items == 1
    assert (cut.kind, cut.title, cut.link, cut.self_links) == (whole.kind, whole.title, whole.link, whole.self_links)
    assert seen.fields.get("content-type") == "application/rss+xml"


async def test_delta_from_the_same_base_is_reused_for_a_second_reader(stage):
    proxy, origin, _, first = await a_reader(stage)
    one = await proxy.get(PATH, a_im="feed", if_none_match=first.tag)

    other = await proxy.get(PATH, a_im="feed", if_none_match=first.tag)

    other.expect(226, cache="hit", body=one.body)
    assert origin.requests == 2


async def test_delta_is_sent_to_concurrent_readers_after_one_request(stage):
    proxy, origin, _, first = await a_reader(stage)

    seen = await asyncio.gather(*(proxy.get(PATH, a_im="feed", if_none_match=first.tag) for _ in range(20)))

    assert {each.status for each in seen} == {226}
    assert len({each.body for each in seen}) == 1
    assert origin.requests == 2


async def test_delta_of_atom_and_json_keeps_the_format(stage):
    proxy, origin, clock = await stage()
    atom = "<feed xmlns='http://www.w3.org/2005/Atom'><title>News</title>{}</feed>"
    entry = "<entry><id>tag:{0}</id><title>{0}</title></entry>"
    json = '{{"version": "https://jsonfeed.org/version/1.1", "title": "News", "items": [{}]}}'
    for path, form, one, comma in (("/a.atom", atom, entry, ""), ("/j.json", json, '{{"id": "tag:{0}"}}', ", ")):
        origin.publish(path, form.format(comma.join(map(one.format, OLD))).encode(), cache_control="max-age=60")
        first = await proxy.get(path)
        news = comma.join(map(one.format, ("news", *OLD)))
        origin.publish(path, form.format(news).encode(), cache_control="max-age=60")
        clock.advance(minutes=10)

        seen = (await proxy.get(path, a_im="feed", if_none_match=first.tag)).expect(226)

        assert b"tag:news" in seen.body
        assert b"tag:old" not in seen.body
        assert seen.fields.get("content-type") == first.fields.get("content-type")


# -- from where it is reckoned


async def test_delta_base_is_recognized_by_its_etag_in_any_coding(stage):
    proxy, origin, clock = await stage()
    publish(origin, *OLD)
    tags = [(await proxy.get(PATH, accept_encoding=coding)).tag for coding in CODINGS]
    publish(origin, "news", *OLD)
    clock.advance(minutes=10)

    for tag in (*tags, f"W/{tags[0]}", tags[1].replace("-gzip", ";gzip")):
        seen = (await proxy.get(PATH, a_im="feed", if_none_match=tag)).expect(226)
        assert titles(seen) == ["news"]


@pytest.mark.parametrize("given", [None, JAN_1])
async def test_delta_base_is_recognized_by_its_last_modified(stage, given):
    proxy, _, _, first = await a_reader(stage, last_modified=given)

    seen = (await proxy.get(PATH, a_im="feed", if_modified_since=first.fields.get("last-modified"))).expect(226)

    assert titles(seen) == ["news"]
    assert "delta-base" not in seen.fields
    assert "if-modified-since" in words(seen, "vary")


async def test_delta_base_with_unknown_date_gets_the_whole_feed(stage):
    proxy, _, _, _ = await a_reader(stage, last_modified=JAN_1)

    for date in ("Fri, 02 Jan 2026 00:00:00 GMT", "Wed, 31 Dec 2025 00:00:00 GMT", "yesterday"):
        (await proxy.get(PATH, a_im="feed", if_modified_since=date)).expect(200)


async def test_delta_base_with_a_date_of_two_versions_contains_their_common_items(stage):
    proxy, origin, clock = await stage()
    for newest in ((), ("second",)):
        publish(origin, *newest, *OLD, last_modified=JAN_1)
        await proxy.get(PATH)
        clock.advance(minutes=10)
    publish(origin, "third", "second", *OLD, last_modified=FEB_1)

    seen = (await proxy.get(PATH, a_im="feed", if_modified_since=JAN_1)).expect(226)

    assert titles(seen) == ["third", "second"]


@pytest.mark.parametrize("tag", ['"another"', "*", '"theirs-1"', ","])
async def test_delta_base_with_unknown_etag_gets_the_whole_feed(stage, tag):
    proxy, _, _, _ = await a_reader(stage)

    seen = await proxy.get(PATH, a_im="feed", if_none_match=tag)

    assert seen.status == (304 if tag == "*" else 200)
    assert "im" not in seen.fields


async def test_delta_without_a_validator_gets_the_whole_feed(stage):
    proxy, _, _, _ = await a_reader(stage)

    assert titles((await proxy.get(PATH, a_im="feed")).expect(200)) == ["news", *OLD]


async def test_delta_with_the_current_validator_gets_304(stage):
    proxy, _, _, _ = await a_reader(stage)
    current = await proxy.get(PATH)

    (await proxy.get(PATH, a_im="feed", if_none_match=current.tag)).expect(304, body=b"")
    date = current.fields.get("last-modified")
    (await proxy.get(PATH, a_im="feed", if_modified_since=date)).expect(304, body=b"")


async def test_delta_with_the_current_etag_among_others_gets_304(stage):
    proxy, _, _, first = await a_reader(stage)
    current = await proxy.get(PATH)

    (await proxy.get(PATH, a_im="feed", if_none_match=f"{first.tag}, {current.tag}")).expect(304)


async def test_delta_base_two_versions_old_gets_items_of_both_versions(stage):
    proxy, origin, clock, first = await a_reader(stage)
    second = await proxy.get(PATH)
    publish(origin, "late", "news", *OLD)
    clock.advance(minutes=10)

    behind = (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(226)
    near = (await proxy.get(PATH, a_im="feed", if_none_match=second.tag)).expect(226)

    assert titles(behind) == ["late", "news"]
    assert titles(near) == ["late"]


async def test_delta_base_is_the_newest_of_several_etags_and_is_named(stage):
    proxy, origin, clock, first = await a_reader(stage)
    second = await proxy.get(PATH)
    publish(origin, "late", "news", *OLD)
    clock.advance(minutes=10)

    for offered in (f'"x", {first.tag}, {second.tag}', f"{second.tag}, {first.tag}"):
        seen = (await proxy.get(PATH, a_im="feed", if_none_match=offered)).expect(226)
        assert seen.fields.get("delta-base") == second.tag
        assert titles(seen) == ["late"]


async def test_delta_base_may_be_the_etag_of_a_delta(stage):
    proxy, origin, clock, first = await a_reader(stage)
    delta = (await proxy.get(PATH, a_im="feed", if_none_match=first.tag, accept_encoding="gzip")).expect(226)

    (await proxy.get(PATH, a_im="feed", if_none_match=delta.tag)).expect(304)
    publish(origin, "late", "news", *OLD)
    clock.advance(minutes=10)
    after = (await proxy.get(PATH, a_im="feed", if_none_match=delta.tag)).expect(226)

    assert titles(after) == ["late"]


async def test_delta_base_may_be_the_date_of_a_delta(stage):
    proxy, origin, clock, first = await a_reader(stage)
    date = first.fields.get("last-modified")
    delta = (await proxy.get(PATH, a_im="feed", if_modified_since=date)).expect(226)
    publish(origin, "late", "news", *OLD)
    clock.advance(minutes=10)

    after = await proxy.get(PATH, a_im="feed", if_modified_since=delta.fields.get("last-modified"))

    assert titles(after.expect(226)) == ["late"]


async def test_delta_base_of_a_restored_version_is_recognized_by_both_dates(stage):
    proxy, origin, clock, first = await a_reader(stage)
    await proxy.get(PATH)
    publish(origin, *OLD)
    clock.advance(minutes=10)
    again = await proxy.get(PATH)
    publish(origin, "late", *OLD)
    clock.advance(minutes=10)

    assert again.tag == first.tag
    for each in (first, again):
        date = each.fields.get("last-modified")
        assert titles((await proxy.get(PATH, a_im="feed", if_modified_since=date)).expect(226)) == ["late"]


async def test_delta_base_is_recognized_after_a_restart(stage):
    proxy, _, _, first = await a_reader(stage)
    store = proxy.service.store
    target = next(iter(store.targets()))
    await store.put(load(dump(store.get(target))))

    seen = (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(226)

    assert titles(seen) == ["news"]


async def test_delta_bases_are_limited_and_older_ones_get_the_whole_feed(stage):
    proxy, origin, clock = await stage()
    tags = []
    for number in range(VERSIONS_MAX + 2):  # the current one is not among them
        publish(origin, *(f"new-{each}" for each in reversed(range(number))), *OLD)
        tags.append((await proxy.get(PATH)).tag)
        clock.advance(minutes=10)

    (await proxy.get(PATH, a_im="feed", if_none_match=tags[0])).expect(200)
    seen = (await proxy.get(PATH, a_im="feed", if_none_match=tags[1])).expect(226)

    assert len(titles(seen)) == VERSIONS_MAX
    target = next(iter(proxy.service.store.targets()))
    assert len(proxy.service.store.get(target).delta_bases) == VERSIONS_MAX


async def test_delta_base_is_unknown_after_a_purge(stage):
    proxy, _, _, first = await a_reader(stage)
    await proxy.get(PATH)
    await proxy.service.admin.purge(pattern="*")

    (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(200)


# -- what is said of it


async def test_delta_is_marked_no_store_with_im_and_vary(stage):
    proxy, _, _, first = await a_reader(stage)

    seen = (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(226)

    assert words(seen, "cache-control") == ["max-age=60", "no-store", "im"]
    assert {"a-im", "if-none-match"} <= set(words(seen, "vary"))
    assert seen.fields.get_all("im") == ["feed"]
    assert seen.fields.get("delta-base") == first.tag
    assert seen.fields.get("age") == "0"


@pytest.mark.parametrize("coding", CODINGS)
async def test_delta_has_the_requested_coding_and_the_etag_of_the_whole_feed(stage, coding):
    proxy, _, _, first = await a_reader(stage)

    seen = await proxy.get(PATH, a_im="feed", if_none_match=first.tag, accept_encoding=coding)
    whole = await proxy.get(PATH, accept_encoding=coding)

    seen.expect(226)
    assert seen.fields.get("content-encoding") == (None if coding == "identity" else coding)
    assert seen.fields.get("content-length") == str(len(seen.body))
    assert titles(seen) == ["news"]
    assert seen.tag == whole.tag
    assert seen.fields.get("last-modified") == whole.fields.get("last-modified")
    assert "accept-encoding" in words(seen, "vary")
    assert len(seen.body) < len(whole.body)


async def test_delta_for_head_has_the_fields_of_get(stage):
    proxy, _, _, first = await a_reader(stage)
    await proxy.get(PATH)

    got = await proxy.get(PATH, a_im="feed", if_none_match=first.tag)
    told = await proxy.head(PATH, a_im="feed", if_none_match=first.tag)

    told.expect(226, cache="hit", body=b"")
    for name in ("etag", "im", "delta-base", "vary", "cache-control", "content-length"):
        assert told.fields.get(name) == got.fields.get(name), name


async def test_delta_request_field_is_not_sent_to_the_origin(stage):
    proxy, origin, _, first = await a_reader(stage)

    await proxy.get(PATH, a_im="feed", if_none_match=first.tag)

    assert not [request for request in origin.log if "a-im" in request.fields]


async def test_delta_is_not_reused_for_a_request_without_a_im(stage):
    proxy, _, _, first = await a_reader(stage)
    (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(226)

    whole = (await proxy.get(PATH, if_none_match=first.tag)).expect(200, cache="hit")

    assert titles(whole) == ["news", *OLD]
    assert not {"im", "delta-base"} & {name.lower() for name, _ in whole.fields}
    assert words(whole, "cache-control") == ["max-age=60"]


@pytest.mark.parametrize("wish", ["feed;q=0", "vcdiff", "feed;q=0.2, identity"])
async def test_delta_is_not_sent_if_a_im_does_not_prefer_feed(stage, wish):
    proxy, _, _, first = await a_reader(stage)

    (await proxy.get(PATH, a_im=wish, if_none_match=first.tag)).expect(200)


# -- where there is none


async def test_delta_with_only_new_items_is_replaced_by_the_whole_feed(stage):
    proxy, origin, clock, first = await a_reader(stage)
    publish(origin, *(f"entirely other {number}" for number in range(len(OLD))))
    clock.advance(minutes=10)

    (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(200)


async def test_delta_of_a_channel_change_has_no_items(stage):
    proxy, origin, clock = await stage()
    publish(origin, *OLD)
    first = await proxy.get(PATH)
    publish(origin, *OLD, extra="<description>Now with words</description>")
    clock.advance(minutes=10)

    seen = (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(226)

    assert titles(seen) == []
    assert b"Now with words" in seen.body


async def test_delta_omits_removed_entries(stage):
    proxy, origin, clock = await stage()
    publish(origin, *OLD)
    first = await proxy.get(PATH)
    publish(origin, *OLD[:-1])
    clock.advance(minutes=10)

    assert titles((await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(226)) == []


RDF = """\
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="c"><title>{}</title><items><rdf:Seq>{}</rdf:Seq></items></channel>{}</rdf:RDF>"""


def rdf(title: str, *names: str) -> bytes:
    members = "".join(f'<rdf:li rdf:resource="{name}"/>' for name in names)
    return RDF.format(title, members, "".join(f'<item rdf:about="{name}"/>' for name in names)).encode()


async def test_delta_of_rss_1_0_without_items_is_replaced_by_the_whole_feed(stage):
    proxy, origin, clock = await stage()
    seen: list[Seen] = []
    for feed in (rdf("one", *OLD), rdf("two", *OLD), rdf("two", "news", *OLD)):
        origin.publish("/feed.rdf", feed, cache_control="max-age=60")
        held = {"if_none_match": seen[-1].tag} if seen else {}
        seen.append(await proxy.get("/feed.rdf", a_im="feed", **held))
        clock.advance(minutes=10)

    assert [each.status for each in seen] == [200, 200, 226]


async def test_delta_is_not_sent_for_a_no_transform_feed(stage):
    proxy, origin, clock = await stage()
    tags = []
    for items in (OLD, ("news", *OLD)):
        origin.publish(PATH, a_feed(*items), cache_control="max-age=60, no-transform", validators=False)
        tags.append((await proxy.get(PATH)).tag)
        clock.advance(minutes=10)

    (await proxy.get(PATH, a_im="feed", if_none_match=tags[0])).expect(200)


async def test_delta_is_not_sent_for_a_response_that_is_not_stored(stage):
    proxy, origin, clock, first = await a_reader(stage)
    origin.publish(PATH, a_feed("secret", *OLD), cache_control="private")
    clock.advance(minutes=10)

    (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(200)


async def test_delta_is_not_sent_for_a_page(stage):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"<html>" + b"x" * 999, content_type="text/html", cache_control="max-age=60", etag='"1"')
    await proxy.get("/page")
    origin.publish("/page", b"<html>" + b"y" * 999, content_type="text/html", cache_control="max-age=60", etag='"2"')
    clock.advance(minutes=10)

    (await proxy.get("/page", a_im="feed", if_none_match='"1"')).expect(200)


async def test_delta_is_not_sent_if_deltas_are_disabled(stage):
    proxy, _, _, first = await a_reader(stage, deltas=False)

    (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(200)


async def test_delta_is_not_sent_if_a_rule_disables_deltas_for_the_feed(stage):
    proxy, _, _, first = await a_reader(stage)
    proxy.rule(PATH, deltas=False)

    (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(200)


async def test_delta_is_sent_from_a_stale_copy_after_a_failure(stage):
    proxy, origin, clock, first = await a_reader(stage)
    await proxy.get(PATH)
    origin.break_down(500)
    clock.advance(minutes=10)

    seen = await proxy.get(PATH, a_im="feed", if_none_match=first.tag)

    assert titles(seen.expect(226)) == ["news"]


# -- what changes in nothing but its date


BUILT = "<lastBuildDate>Fri, 20 Nov 2026 1{}:00:00 GMT</lastBuildDate>"


async def test_unchanged_version_with_new_build_date_gets_304(stage):
    proxy, origin, clock = await stage()
    publish(origin, *OLD, extra=BUILT.format(1), last_modified=JAN_1)
    first = await proxy.get(PATH)
    publish(origin, *OLD, extra=BUILT.format(2), last_modified=FEB_1)
    clock.advance(minutes=10)

    seen = await proxy.get(PATH, if_none_match=first.tag)

    seen.expect(304, cache="fwd=stale; fwd-status=200; stored", age=0)
    (await proxy.get(PATH, if_modified_since=JAN_1)).expect(304, cache="hit")
    (await proxy.get(PATH, a_im="feed", if_none_match=first.tag)).expect(304)
    assert (await proxy.get(PATH)).body == first.body
    assert origin.requests == 2


async def test_unchanged_version_is_validated_with_the_new_validators_of_the_origin(stage):
    proxy, origin, clock = await stage()
    for number, date in ((1, JAN_1), (2, FEB_1)):
        publish(origin, *OLD, extra=BUILT.format(number), last_modified=date, etag=f'"build-{number}"')
        await proxy.get(PATH)
        clock.advance(minutes=10)

    (await proxy.get(PATH)).expect(200, cache="fwd=stale; fwd-status=304")

    assert origin.heard.get("if-none-match") == '"build-2"'
    assert origin.heard.get("if-modified-since") == FEB_1


async def test_unchanged_version_gets_the_fields_of_the_new_response(stage):
    proxy, origin, clock = await stage()
    publish(origin, *OLD, extra=BUILT.format(1), x_build="1")
    await proxy.get(PATH)
    origin.publish(PATH, a_feed(*OLD, extra=BUILT.format(2)), cache_control="max-age=600", x_build="2")
    clock.advance(minutes=10)

    seen = await proxy.get(PATH)

    assert seen.fields.get("x-build") == "2"
    assert words(seen, "cache-control") == ["max-age=600"]


@pytest.mark.parametrize(
    "extra",
    [
        "<ttl>60</ttl>",
        "<description>new</description>",
        "<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='hub' href='https://hub.example.com/'/>",
        "<item><guid>new</guid></item>",
    ],
)
async def test_changed_element_beside_the_build_date_makes_a_new_version(stage, extra):
    proxy, origin, clock = await stage()
    publish(origin, *OLD, extra=BUILT.format(1))
    first = await proxy.get(PATH)
    publish(origin, *OLD, extra=BUILT.format(2) + extra)
    clock.advance(minutes=10)

    seen = (await proxy.get(PATH, if_none_match=first.tag)).expect(200)

    assert extra.partition("'")[0].encode() in seen.body
    assert b"12:00:00" in seen.body


async def test_changed_media_type_makes_a_new_version(stage):
    proxy, origin, clock = await stage(feed_usm=False)
    publish(origin, *OLD, extra=BUILT.format(1), content_type="text/xml")
    await proxy.get(PATH)
    publish(origin, *OLD, extra=BUILT.format(2), content_type="application/rss+xml")
    clock.advance(minutes=10)

    seen = await proxy.get(PATH)

    assert seen.fields.get("content-type") == "application/rss+xml"
    assert b"12:00:00" in seen.body


async def test_changed_option_applies_at_the_next_response_of_an_unchanged_version(stage):
    proxy, origin, clock = await stage()
    publish(origin, *OLD, extra=BUILT.format(1))
    assert b"atom:link" in (await proxy.get(PATH)).body
    proxy.rule(PATH, self_link="off")
    publish(origin, *OLD, extra=BUILT.format(2))
    clock.advance(minutes=10)

    assert b"atom:link" not in (await proxy.get(PATH)).body


async def test_changed_language_makes_a_new_version(stage):
    proxy, origin, clock = await stage()
    for language in ("en", "de"):
        publish(origin, language, *OLD, extra=BUILT.format(1), vary="Accept-Language")
        await proxy.get(PATH, accept_language=language)
    clock.advance(minutes=10)
    publish(origin, "de", *OLD, extra=BUILT.format(2), vary="Accept-Language")

    seen = await proxy.get(PATH, accept_language="en")  # the page is German now, whoever asks

    assert "de" in titles(seen)


async def test_unchanged_version_with_no_transform_gets_the_bytes_of_the_origin(stage):
    proxy, origin, clock = await stage()
    for number in (1, 2):
        control = "max-age=60, no-transform" if number == 2 else "max-age=60"
        origin.publish(PATH, a_feed(*OLD, extra=BUILT.format(number)), cache_control=control)
        seen = await proxy.get(PATH)
        clock.advance(minutes=10)

    assert seen.body == a_feed(*OLD, extra=BUILT.format(2))


async def test_unchanged_version_is_replaced_if_keep_unchanged_is_off(stage):
    proxy, origin, clock = await stage(keep_unchanged=False)
    publish(origin, *OLD, extra=BUILT.format(1))
    first = await proxy.get(PATH)
    publish(origin, *OLD, extra=BUILT.format(2))
    clock.advance(minutes=10)

    seen = (await proxy.get(PATH, if_none_match=first.tag)).expect(200)

    assert BUILT.format(2).encode() in seen.body


@pytest.mark.parametrize("agent", ["feedparser/6.0.11 +https://github.com/kurtmckee/feedparser/", "rss2email/3.14"])
async def test_delta_is_not_sent_to_programs_that_cannot_read_it(stage, agent):
    proxy, _, _, first = await a_reader(stage)

    seen = await proxy.get(PATH, if_none_match=first.tag, a_im="feed", user_agent=agent)

    assert titles(seen.expect(200)) == ["news", *OLD]
