"""Access control through every entrance, and what the origin receives of it."""

import base64
from pathlib import Path

import bcrypt
import pytest

from feedproxy.access import wsse
from feedproxy.access.secret_tokens import issue, revoke
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import Entrance
from feedproxy.request.feed_id import surrogate_key
from tests.stages.addons import OnAddons
from tests.stages.play import UPSTREAM, Seen

HASHED = {name: bcrypt.hashpw(f"{name}'s".encode(), bcrypt.gensalt(4)).decode() for name in ("bob", "carol")}


def a_feed(title: str = "News") -> bytes:
    return f"<rss version='2.0'><channel><title>{title}</title></channel></rss>".encode()


def says(name: str, password: str = "") -> str:
    """Basic credentials."""
    return "Basic " + base64.b64encode(f"{name}:{password or name + "'s"}".encode()).decode()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The operator's files."""
    (tmp_path / "users").write_text("".join(f"{name}:{hashed}\n" for name, hashed in HASHED.items()))
    (tmp_path / "wsse").write_text("bob:another one\n")
    (tmp_path / "tokens").write_text("")
    return {
        "users_file": str(tmp_path / "users"),
        "wsse_file": str(tmp_path / "wsse"),
        "tokens_file": str(tmp_path / "tokens"),
    }


async def test_access_rule_admits_named_readers_and_withholds_their_passwords_from_the_origin(door, files):
    proxy, origin, _ = await door(**files)
    origin.publish("/private.rss", a_feed(), cache_control="max-age=600")
    proxy.rule("/private.rss", readers=("bob",))

    asked = (await proxy.get("/private.rss")).expect(401, cache="detail=access")
    seen = (await proxy.get("/private.rss", authorization=says("bob"))).expect(200, cache="stored")
    (await proxy.get("/private.rss", authorization=says("bob"))).expect(200, cache="hit")
    (await proxy.get("/private.rss", authorization=says("carol"))).expect(403, cache="detail=access")
    (await proxy.get("/private.rss", authorization=says("bob", "wrong"))).expect(401)
    (await proxy.get("/private.rss")).expect(401)

    assert seen.plain.startswith(b"<rss")
    assert [value for name, value in asked.fields if name.lower() == "www-authenticate"] == [
        'Basic realm="feedproxy", charset="UTF-8"',
        'WSSE realm="feedproxy", profile="UsernameToken"',
    ]
    assert all("authorization" not in request.fields for request in origin.log)
    assert origin.requests == 1


@pytest.mark.parametrize("method", ["HEAD", "POST", "DELETE", "OPTIONS"])
async def test_access_rule_applies_to_every_method(door, files, method):
    proxy, origin, _ = await door(**files)
    origin.publish("/private.rss", a_feed())
    proxy.rule("/private.rss", readers=("*",))

    (await proxy.send(method, "/private.rss", body=b"x" if method == "POST" else b"")).expect(401)

    assert origin.requests == 0


async def test_access_rule_applies_in_reverse_mode(door, files):
    proxy, origin, _ = await door(upstream=UPSTREAM, **files)
    origin.publish("/private.rss", a_feed(), cache_control="max-age=600")
    proxy.rule("/private.rss", readers=("*",))

    (await proxy.get("/private.rss")).expect(401)
    (await proxy.get("/private.rss", authorization=says("carol"))).expect(200)


async def test_access_rule_in_explicit_proxy_answers_407_and_removes_proxy_authorization(door, files):
    proxy, origin, _ = await door(**files)
    origin.publish("/private.rss", a_feed())
    proxy.rule("/private.rss", readers=("*",))

    asked = await proxy.send("GET", "/private.rss", entrance=Entrance.PROXY, authorization=says("bob"))
    let_in = await proxy.send("GET", "/private.rss", entrance=Entrance.PROXY, proxy_authorization=says("bob"))

    asked.expect(407, cache="detail=access")
    assert asked.fields.get("proxy-authenticate") == 'Basic realm="feedproxy", charset="UTF-8"'
    let_in.expect(200)
    assert all("proxy-authorization" not in request.fields for request in origin.log)


async def test_access_rule_leaves_authorization_for_other_feeds_unchanged(door, files):
    proxy, origin, _ = await door(**files)
    origin.publish("/theirs.rss", a_feed())
    proxy.rule("/private.rss", readers=("*",))

    (await proxy.get("/theirs.rss", authorization=says("bob", "told to them"))).expect(200)

    assert origin.log[-1].fields.get("authorization") == says("bob", "told to them")


async def test_wsse_token_is_accepted_once(door, files):
    proxy, origin, clock = await door(**files)
    origin.publish("/private.rss", a_feed(), cache_control="max-age=600")
    proxy.rule("/private.rss", readers=("bob",))
    fields = {name.lower().replace("-", "_"): value for name, value in wsse.compose("bob", "another one", clock.now())}

    (await proxy.get("/private.rss", **fields)).expect(200)
    (await proxy.get("/private.rss", **fields)).expect(401)

    assert all("x-wsse" not in request.fields for request in origin.log)


@pytest.mark.parametrize("said", ["", "public, max-age=600", "s-maxage=600", "must-revalidate, max-age=600"])
@pytest.mark.parametrize("where", [{}, {"upstream": UPSTREAM, "state_freshness": True}])
async def test_access_rule_marks_responses_private_for_downstream_caches(door, files, said, where):
    proxy, origin, clock = await door(**files, **where)
    hinted = a_feed().replace(b"<title>", b"<ttl>60</ttl><title>")
    origin.publish("/private.rss", hinted, **({"cache_control": said} if said else {}))
    proxy.rule("/private.rss", readers=("bob",))
    _, token = issue(Path(files["tokens_file"]), "bob", origin.url("/private.rss"))
    clock.advance(1)
    feed = "private.rss" if where else origin.url("/private.rss")

    for _ in range(2):
        for seen in (
            await proxy.get("/private.rss", authorization=says("bob")),
            await proxy.ask(f"/-/with/{token}/{feed}"),
            await proxy.ask(f"/-/with/{token}/-/as/json/{feed}"),
        ):
            words = (seen.expect(200).fields.combined("cache-control") or "").split(", ")
            assert "private" in words
            assert not {"public", "s-maxage=600"} & set(words)
            assert "cdn-cache-control" not in seen.fields
            assert "surrogate-key" not in seen.fields


TARGETED = ("CDN-Cache-Control", "ExampleCDN-Cache-Control", "Surrogate-Control", "Edge-Control", "X-Accel-Expires")


@pytest.mark.parametrize("name", TARGETED)
@pytest.mark.parametrize("where", [{}, {"upstream": UPSTREAM}])
async def test_access_rule_removes_fields_that_let_a_server_in_front_store_the_response(door, files, name, where):
    proxy, origin, _ = await door(**files, **where)
    origin.publish("/private.rss", a_feed(), **{name.replace("-", "_"): "max-age=600"})
    proxy.rule("/private.rss", readers=("bob",))

    for _ in range(2):
        seen = (await proxy.get("/private.rss", authorization=says("bob"))).expect(200)
        assert name not in seen.fields


# -- secret addresses


@pytest.mark.parametrize("conversion", ["", "-/as/html/"])
async def test_secret_address_is_not_sent_to_other_sites_as_referrer(door, files, conversion):
    proxy, origin, clock = await door(**files)
    origin.publish("/private.rss", a_feed(), referrer_policy="unsafe-url")
    proxy.rule("/private.rss", readers=("bob",))
    _, token = issue(Path(files["tokens_file"]), "bob", origin.url("/private.rss"))
    clock.advance(1)

    seen = (await proxy.ask(f"/-/with/{token}/{conversion}{origin.url('/private.rss')}")).expect(200)

    assert seen.fields.get_all("referrer-policy") == ["no-referrer"]


async def test_secret_address_admits_its_reader_until_the_token_is_revoked(door, files):
    proxy, origin, clock = await door(**files)
    origin.publish("/private.rss", a_feed(), cache_control="max-age=600")
    proxy.rule("/private.rss", readers=("bob",))
    tokens = Path(files["tokens_file"])
    issued, token = issue(tokens, "bob", origin.url("/private.rss"))
    clock.advance(1)
    address = f"/-/with/{token}/{origin.url('/private.rss')}"

    (await proxy.ask(address)).expect(200)
    (await proxy.ask(address, if_none_match='"x"')).expect(200, cache="hit")
    (await proxy.ask(address.replace("private", "other"))).expect(404)
    (await proxy.ask(address.replace(token, "guessed"))).expect(404)
    revoke(tokens, [issued.id])
    clock.advance(1)
    (await proxy.ask(address)).expect(404)


async def test_secret_address_redirects_with_its_token(door, files):
    proxy, origin, clock = await door(**files)
    origin.publish("/feed.rss", a_feed())
    _, token = issue(Path(files["tokens_file"]), "bob", origin.url("/*"))
    clock.advance(1)
    proxy.rule("/feed.rss", readers=("bob",))
    proxy.rule("/old.rss", moved_to=origin.url("/feed.rss"))

    seen = (await proxy.ask(f"/-/with/{token}/{origin.url('/old.rss')}")).expect(301)

    assert seen.location.endswith(f"/-/with/{token}/{origin.url('/feed.rss')}")


@pytest.mark.parametrize("where", [{}, {"upstream": UPSTREAM}])
async def test_secret_address_serves_every_format_of_its_feed_and_no_other_feed(door, files, where):
    proxy, origin, clock = await door(**files, **where)
    origin.publish("/private.rss", a_feed("Hidden"), cache_control="max-age=600")
    origin.publish("/other.rss", a_feed("Others"))
    proxy.rule("/private.rss", readers=("bob",))
    tokens = Path(files["tokens_file"])
    issued, token = issue(tokens, "bob", origin.url("/private.rss"))
    clock.advance(1)
    feed = "private.rss" if where else origin.url("/private.rss")

    for name in ("json", "html", "atom", "opml"):
        seen = (await proxy.ask(f"/-/with/{token}/-/as/{name}/{feed}")).expect(200)
        assert b"Hidden" in seen.plain
        assert token.encode() not in seen.plain
        assert not any(token in value for _, value in seen.fields)
    again = await proxy.ask(f"/-/with/{token}/-/as/json/{feed}", if_none_match=seen.fields.get("etag") or "")
    again.expect(200, cache="hit")
    (await proxy.ask(f"/-/as/json/{feed}")).expect(401)
    (await proxy.ask(f"/-/with/{token}/-/as/json/{feed.replace('private', 'other')}")).expect(404)
    (await proxy.ask(f"/-/with/guessed/-/as/json/{feed}")).expect(404)
    revoke(tokens, [issued.id])
    clock.advance(1)
    (await proxy.ask(f"/-/with/{token}/-/as/json/{feed}")).expect(404)


async def test_secret_address_redirects_a_conversion_of_a_moved_feed_with_its_token(door, files):
    proxy, origin, clock = await door(**files)
    _, token = issue(Path(files["tokens_file"]), "bob", origin.url("/*"))
    clock.advance(1)
    proxy.rule("/old.rss", moved_to=origin.url("/feed.rss"))

    seen = (await proxy.ask(f"/-/with/{token}/-/as/json/{origin.url('/old.rss')}")).expect(301)

    assert seen.location.endswith(f"/-/with/{token}/-/as/json/{origin.url('/feed.rss')}")


# -- the wallet


@pytest.fixture
def wallet(tmp_path: Path, files: dict[str, str]) -> dict[str, str]:
    """A credential for bob, and one for every authenticated user."""
    (tmp_path / "wallet").write_text(
        '- {match: "*/paid.rss", user: bob, query: {key: bobs}}\n'
        '- {match: "*/team.rss", user: "*", basic: {user: team, password: secret}}\n'
        '- {match: "*/paid/*", user: bob, query: {key: bobs}}\n'
    )
    return {**files, "wallet": str(tmp_path / "wallet")}


async def test_wallet_response_is_reused_for_the_same_credential_only(door, wallet):
    proxy, origin, _ = await door(**wallet)
    origin.publish("/paid.rss?key=bobs", a_feed("for bob"), cache_control="max-age=600")
    origin.publish("/paid.rss", a_feed("for all"), cache_control="max-age=600")
    proxy.rule("/paid.rss", readers=("*",))

    for _ in range(2):
        assert b"for bob" in (await proxy.get("/paid.rss", authorization=says("bob"))).plain
        assert b"for all" in (await proxy.get("/paid.rss", authorization=says("carol"))).plain

    assert [request.target.partition("?")[2] for request in origin.log] == ["key=bobs", ""]


async def test_wallet_response_is_shared_by_users_of_one_credential(door, wallet):
    proxy, origin, _ = await door(**wallet)
    origin.publish("/team.rss", a_feed(), cache_control="max-age=600")
    proxy.rule("/team.rss", readers=("*",))

    (await proxy.get("/team.rss", authorization=says("bob"))).expect(200, cache="stored")
    (await proxy.get("/team.rss", authorization=says("carol"))).expect(200, cache="hit")

    assert [request.fields.get("authorization") for request in origin.log] == [says("team", "secret")]


async def test_wallet_credential_is_not_sent_after_a_redirect_to_another_path(door, wallet):
    proxy, origin, _ = await door(**wallet)
    origin.publish("/team.rss", b"", status=302, location="/elsewhere.rss")
    origin.publish("/elsewhere.rss", a_feed())
    proxy.rule("/team.rss", readers=("*",))

    (await proxy.get("/team.rss", authorization=says("bob"))).expect(200)

    assert [request.fields.get("authorization") for request in origin.log] == [says("team", "secret"), None]


async def test_wallet_credential_is_absent_from_response_and_stored_targets(door, wallet):
    proxy, origin, _ = await door(**wallet)
    origin.publish("/paid.rss?key=bobs", a_feed(), cache_control="max-age=600")
    proxy.rule("/paid.rss", readers=("*",))

    seen = await proxy.get("/paid.rss", authorization=says("bob"))

    assert "wallet" not in str(seen.fields)
    assert b"bobs" not in seen.plain
    assert b"wallet" not in seen.plain
    (stored,) = [each for each in proxy.service.store.targets() if "paid" in each]
    assert "bobs" not in stored


async def test_limit_of_a_wallet_credential_pauses_no_other_feed_of_the_site(door, wallet):
    proxy, origin, clock = await door(**wallet)
    proxy.rule("/team.rss", readers=("*",))
    for path in ("/team.rss", "/feed.rss"):
        origin.publish(path, a_feed(), cache_control="max-age=60")
        (await proxy.get(path, authorization=says("bob"))).expect(200)
    (await proxy.get("/feed.rss")).expect(200)
    clock.advance(minutes=10)

    origin.speak(lambda _: Response(429, Fields([("Retry-After", "1200")])))
    await proxy.get("/team.rss", authorization=says("bob"))
    origin.recover()
    requests = origin.requests
    clock.advance(minutes=1)

    (await proxy.get("/feed.rss")).expect(200)
    assert origin.requests == requests + 1


async def test_wallet_response_is_purged_and_refreshed_by_the_address_of_its_feed(door, wallet):
    proxy, origin, clock = await door(**wallet)
    proxy.rule("/team.rss", readers=("*",))
    target = origin.url("/team.rss")

    async def read() -> bytes:
        seen: Seen = await proxy.get("/team.rss", authorization=says("bob"))
        return seen.expect(200).plain

    for title in ("one", "two"):
        origin.publish("/team.rss", a_feed(title), cache_control="max-age=6000")
        await proxy.service.admin.purge(target)
        assert title.encode() in await read()
    clock.advance(minutes=10)
    origin.publish("/team.rss", a_feed("three"), cache_control="max-age=6000")
    report = await proxy.service.admin.refresh(target)

    assert (report.target, report.outcome) == (target, "updated")
    assert b"three" in await read()
    assert await proxy.service.admin.purge(target) == [target]
    assert list(proxy.service.store.targets()) == []
    assert all(request.fields.get("authorization") for request in origin.log)


async def test_response_fetched_with_wallet_credential_is_purged_by_pattern_for_its_feed(door, wallet):
    proxy, origin, _ = await door(**wallet)
    proxy.rule("/team.rss", readers=("*",))
    origin.publish("/team.rss", a_feed("one"), cache_control="max-age=6000")
    (await proxy.get("/team.rss", authorization=says("bob"))).expect(200)

    assert await proxy.service.admin.purge(pattern="*/team.rss") == [origin.url("/team.rss")]

    assert list(proxy.service.store.targets()) == []


async def test_wallet_response_has_the_surrogate_key_that_a_purge_of_its_feed_names(door, tmp_path):
    (tmp_path / "wallet").write_text('- {match: "*/team.rss", anybody: true, basic: {user: team, password: secret}}\n')
    proxy, origin, _ = await door(wallet=str(tmp_path / "wallet"), upstream=UPSTREAM, state_freshness=True)
    origin.publish("/team.rss", a_feed("one"), cache_control="max-age=6000")
    purged: list[str] = []
    proxy.service.events.copies_invalidated.subscribe(purged.extend)

    seen = (await proxy.ask("/team.rss")).expect(200)
    await proxy.service.admin.purge(origin.url("/team.rss"))

    assert origin.heard.get("authorization")
    assert seen.fields.get("surrogate-key") == surrogate_key(purged[0])


async def test_unsafe_request_to_a_feed_invalidates_its_response_fetched_with_the_wallet(door, wallet):
    proxy, origin, _ = await door(**wallet)
    proxy.rule("/team.rss", readers=("*",))
    origin.methods["POST"] = lambda _: Response(200)
    origin.publish("/team.rss", a_feed("old"), cache_control="max-age=6000")
    await proxy.get("/team.rss", authorization=says("bob"))

    origin.publish("/team.rss", a_feed("new"), cache_control="max-age=6000")
    (await proxy.send("POST", "/team.rss", authorization=says("bob"), body=b"x")).expect(200)

    assert b"new" in (await proxy.get("/team.rss", authorization=says("bob"))).expect(200).plain


async def test_wallet_response_does_not_answer_equivalent_addresses_of_other_clients(door, wallet):
    """No-Vary-Search makes the addresses equivalent, and no rule restricts the readers."""
    proxy, origin, clock = await door(**wallet)
    _, token = issue(Path(wallet["tokens_file"]), "bob", origin.url("/paid/*"))
    clock.advance(1)

    def answer(request: Request) -> Response:
        fields = {"Content-Type": "application/rss+xml", "Cache-Control": "max-age=600", "No-Vary-Search": "params"}
        return Response(200, Fields(fields.items()), a_feed("bobs" if "key=bobs" in request.target else "all"))

    origin.speak(answer)
    seen = (await proxy.ask(f"/-/with/{token}/{origin.url('/paid/feed?page=1')}")).expect(200)
    assert b"bobs" in seen.plain

    assert b"all" in (await proxy.get("/paid/feed?page=2")).expect(200).plain


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
async def test_wallet_credential_is_sent_for_large_content_and_not_for_post(door, wallet, method):
    proxy, origin, _ = await door(**wallet, buffer_max=100_000)
    proxy.rule("/team.rss", readers=("*",))
    large = b"x" * 200_000
    origin.methods["POST"] = lambda _: Response(200)
    origin.publish("/team.rss", large, content_type="audio/mpeg")

    for _ in range(2):
        seen = (await proxy.send(method, "/team.rss", authorization=says("bob"))).expect(200)
        assert seen.body == (large if method == "GET" else b"")
        assert "private" in (seen.fields.get("cache-control") or "")

    credential = None if method == "POST" else says("team", "secret")
    assert {request.fields.get("authorization") for request in origin.log} == {credential}


@pytest.mark.parametrize("is_known", [False, True])
async def test_wallet_credential_that_the_origin_refuses_is_sent_once_in_the_minimum_interval(door, wallet, is_known):
    proxy, origin, clock = await door(**wallet, site_interval=0)
    proxy.rule("/team.rss", readers=("*",))
    origin.publish("/team.rss", a_feed(), cache_control="max-age=60")
    if is_known:
        await proxy.get("/team.rss", authorization=says("bob"))
        clock.advance(minutes=10)
    origin.break_down(401)
    asked = origin.requests

    (await proxy.get("/team.rss", authorization=says("bob"))).expect(401)
    for reader in ("bob", "carol", "bob"):
        (await proxy.get("/team.rss", authorization=says(reader))).expect(503, cache="detail=back-off")
    assert origin.requests == asked + 1

    origin.recover()
    clock.advance(minutes=10)
    (await proxy.get("/team.rss", authorization=says("carol"))).expect(200)


@pytest.mark.parametrize("size", [2_000, 200_000])
async def test_wallet_credential_that_is_refused_for_other_content_is_not_repeated(door, wallet, size):
    """A refusal that is streamed, because the content was large, leads to one more request, and then to a delay."""
    proxy, origin, clock = await door(**wallet, buffer_max=100_000)
    streams = size > 100_000 and not isinstance(proxy.stage, OnAddons)
    proxy.rule("/team.rss", readers=("*",))
    origin.publish("/team.rss", b"x" * size, content_type="audio/mpeg")
    await proxy.get("/team.rss", authorization=says("bob"))
    origin.break_down(401)
    asked = origin.requests

    for _ in range(2 if streams else 1):
        (await proxy.get("/team.rss", authorization=says("bob"))).expect(401)
    for reader in ("bob", "carol", "bob"):
        (await proxy.get("/team.rss", authorization=says(reader))).expect(503, cache="detail=back-off")
    assert origin.requests == asked + (2 if streams else 1)

    origin.recover()
    clock.advance(minutes=10)
    (await proxy.get("/team.rss", authorization=says("carol"))).expect(200)


async def test_wallet_query_parameter_is_absent_from_addresses_that_the_origin_sends(door, wallet):
    proxy, origin, _ = await door(**wallet)
    proxy.rule("/paid.rss", readers=("*",))
    page = origin.url("/paid.rss?key=bobs")
    origin.publish("/paid.rss?key=bobs", a_feed(), link=f"<{page}&page=2>; rel=next", content_location=page)

    seen = (await proxy.get("/paid.rss", authorization=says("bob"))).expect(200)

    assert "bobs" not in str(seen.fields)
    assert f"<{origin.url('/paid.rss')}?page=2>" in str(seen.fields)


@pytest.mark.parametrize("status", [301, 302])
@pytest.mark.parametrize(
    ("location", "public"),
    [("/new?key=bobs", "/new"), ("?a=1&key=bobs", "/paid.rss?a=1"), ("/login?next=%2Fpaid.rss%3Fkey%3Dbobs", "/login")],
)
async def test_wallet_query_parameter_is_absent_from_redirects(door, wallet, status, location, public):
    proxy, origin, clock = await door(**wallet)
    proxy.rule("/paid.rss", readers=("*",))
    origin.publish("/paid.rss?key=bobs", b"<a href='?key=bobs'>moved</a>", status=status, location=location)
    for path in (location, public):
        origin.publish(path, b"<html></html>", content_type="text/html")

    for _ in range(3):
        seen = (await proxy.get("/paid.rss", authorization=says("bob"))).expect(status)
        assert seen.location.endswith(origin.url(public))
        assert b"bobs" not in seen.body
        clock.advance(hours=2)


async def test_wallet_query_parameter_is_absent_from_the_new_address_of_a_moved_feed(door, wallet):
    proxy, origin, clock = await door(**wallet)
    proxy.rule("/paid/*", readers=("*",))
    origin.publish("/paid/old.rss?key=bobs", b"", status=301, location="/paid/new.rss?key=bobs")
    origin.publish("/paid/new.rss?key=bobs", a_feed("for bob"), cache_control="max-age=60")

    assert b"for bob" in (await proxy.get("/paid/old.rss", authorization=says("bob"))).expect(200).plain
    clock.advance(hours=2)
    await proxy.get("/paid/old.rss", authorization=says("bob"))

    told = (await proxy.get("/paid/old.rss", authorization=says("bob"))).expect(301, cache="detail=moved")
    assert told.location.endswith(origin.url("/paid/new.rss"))


# -- the log


@pytest.mark.parametrize(
    ("rule", "cache_control", "fields", "names"),
    [
        ({}, "max-age=60", {}, True),
        ({}, "max-age=60", {"authorization": "Basic eDp5"}, False),
        ({"private": True}, "max-age=60", {}, False),
        ({}, "private, max-age=60", {}, False),
        ({}, "no-store", {}, False),
    ],
)
async def test_log_names_a_feed_that_is_not_public_by_its_host_alone(door, caplog, rule, cache_control, fields, names):
    caplog.set_level("INFO", "feedproxy")
    proxy, origin, _ = await door(log_format="text", feed_min_interval=0, site_interval=0)
    if rule:
        proxy.rule("/members.rss", **rule)
    origin.publish("/members.rss", a_feed(), cache_control=cache_control)

    for _ in range(2):
        await proxy.get("/members.rss", **fields)
    if not fields:  # what it gives without credentials is public
        await proxy.service.admin.refresh(origin.url("/members.rss"))

    lines = [line for line in caplog.text.splitlines() if " GET " in line or "fetch " in line]
    assert len(lines) >= 2
    assert all(("members.rss" in line) is names for line in lines[1:]), lines
