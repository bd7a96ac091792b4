"""Data from one client does not affect responses to others: unusual fields, credentials, and responses to these."""

import asyncio
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import Entrance
from tests.scenarios.conftest import NOON
from tests.stages.origin import Origin, a_feed
from tests.stages.play import UPSTREAM, OnService, Proxy

EVIL = "evil-1"

ODD = (
    *(
        "X_Forwarded_Host",
        "X-Forwarded",
        "X-Forwarded-Host",
        "X_Original_URL",
        "X-HTTP-Host-Override",
        "X-Original-URI",
    ),
    *("X-Original-Path", "X-Url-Scheme", "X-Scheme", "Base-Url", "Max-Forwards", "Prefer", "Accept", "Accept-Language"),
    *(
        "X-Oversize",
        "X-Anything",
        "Via",
        "Pragma",
        "Cache-Control",
        "Referer",
        "Origin",
        "DNT",
        "Save-Data",
        "TE",
        "From",
    ),
    *("Sec-Fetch-Mode", "Content-Type", "X-Middleware-Subrequest", "X-Host", "Forwarded", "Client-IP", "X-Real-IP"),
    *(
        "If-Match",
        "If-Unmodified-Since",
        "If-Range",
        "Expect",
        "X-Api-Key",
        "X-Method-Override",
        "Upgrade",
        "Traceparent",
    ),
)

RELOAD = {"Cache-Control": "no-cache", "Sec-Fetch-Mode": "navigate"}
"""What a browser says when a person reloads."""

CREDENTIALS = {"plain": {}, "authorization": {"Authorization": "Basic eDp5"}, "cookie": {"Cookie": "session=1"}}


class Stand:
    """The service before an origin whose responses the test determines."""

    def __init__(self, entrance: Entrance, **settings: Any) -> None:
        self.clock = ManualClock(NOON)
        upstream = {"upstream": UPSTREAM} if entrance is Entrance.REVERSE else {}
        self.stage = OnService(self.clock, {"site_interval": 0, **upstream, **settings})
        self.proxy = Proxy(self.stage)
        self.entrance = entrance

    @property
    def origin(self) -> Origin:
        return self.stage.origin

    async def __aenter__(self) -> "Stand":
        await self.stage.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stage.close()

    async def get(self, path: str = "/feed.rss", method: str = "GET", **more: str) -> tuple[int, bytes]:
        return await self.ask(more, path, method)

    async def ask(self, fields: dict[str, str], path: str = "/feed.rss", method: str = "GET") -> tuple[int, bytes]:
        seen = await self.stage.send(method, path, Fields(fields.items()), entrance=self.entrance, address="192.0.2.1")
        return seen.status, seen.plain

    async def settled(self) -> None:
        await self.proxy.settled()


entrances = pytest.mark.parametrize("entrance", list(Entrance))
whose = pytest.mark.parametrize("who", list(CREDENTIALS))


def reflecting(body: str, media_type: str) -> object:
    """Publish an origin whose content repeats the request's fields. It ignores conditions."""

    def answer(request: Request) -> Response:
        said = " ".join(f"{name}={value}" for name, value in request.fields if name.lower() != "if-none-match")
        lines = [("Content-Type", media_type), ("Cache-Control", "public, max-age=600, s-maxage=600")]
        content = a_feed(said.replace("<", "").replace("&", "")) if "rss" in media_type else f"{body} {said}".encode()
        return Response(200, Fields(lines), content)

    return answer


@entrances
@whose
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("media_type", ["application/rss+xml", "text/plain"])
async def test_shared_copy_contains_no_data_of_a_client(
    entrance: Entrance, who: str, known: bool, media_type: str
) -> None:
    async with Stand(entrance) as stand:
        stand.origin.speak(reflecting("", media_type))  # type: ignore[arg-type]
        together = dict.fromkeys(ODD, EVIL)
        each = [{name: EVIL} for name in ODD] if who == "plain" and not known and "rss" in media_type else []
        for number, odd in enumerate([together, *each]):
            path = f"/{number}/feed"
            if known:
                await stand.get(path)
                stand.clock.advance(minutes=20)
            await stand.ask({**CREDENTIALS[who], **odd, "User-Agent": "x/1"}, path)
            if len(odd) > 1:
                await stand.ask({**CREDENTIALS[who], **odd, "User-Agent": "x/1", **RELOAD}, path)
            await stand.settled()

            for fields in ({}, {"User-Agent": "y/2"}, {"Accept": "application/rss+xml"}):
                status, body = await stand.ask(fields, path)
                assert status == 200
                assert EVIL.encode() not in body, list(odd)
                assert b"Basic eDp5" not in body
                assert b"session=1" not in body


@entrances
async def test_vary_on_one_field_adds_no_other_field_to_the_shared_copy(entrance: Entrance) -> None:
    def answer(request: Request) -> Response:
        lines = [("Content-Type", "text/html"), ("Cache-Control", "public, max-age=600"), ("Vary", "Accept-Language")]
        return Response(200, Fields(lines), (request.fields.get("x-odd") or "page").encode())

    async with Stand(entrance) as stand:
        stand.origin.speak(answer)
        await stand.ask({"Accept": "text/html", "Accept-Language": "de", "X-Odd": EVIL})

        assert await stand.ask({"Accept-Language": "de"}) == (200, b"page")
        assert await stand.ask({}) == (200, b"page")


@entrances
@pytest.mark.parametrize("control", ["public, max-age=600", "s-maxage=600", "max-age=600, must-revalidate"])
async def test_response_to_credentials_is_for_their_user_whatever_it_permits(entrance: Entrance, control: str) -> None:
    def answer(request: Request) -> Response:
        lines = [("Content-Type", "text/html"), ("Cache-Control", control)]
        return Response(200, Fields(lines), (request.fields.get("authorization") or "all").encode())

    async with Stand(entrance) as stand:
        stand.origin.speak(answer)
        for _ in range(2):
            assert (await stand.get(Authorization="Basic eDp5"))[1] == b"Basic eDp5"
        assert stand.origin.requests == 1

        assert (await stand.get())[1] == b"all"


@entrances
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
async def test_shared_fields_are_forwarded_and_the_response_is_shared(entrance: Entrance, known: bool) -> None:
    media_type = "application/rss+xml" if known else "text/plain"

    async with Stand(entrance, shared_fields=("Tenant", "authorization")) as stand:
        stand.origin.speak(reflecting("", media_type))  # type: ignore[arg-type]
        if known:
            await stand.get()
            stand.clock.advance(minutes=20)
        body = (await stand.ask({"Tenant": "blue"}))[1]
        assert b"Tenant=blue" in body
        assert (await stand.ask({"Tenant": "red"}))[1] == body
        assert (await stand.ask({}))[1] == body


async def test_response_to_shared_authorization_is_shared_only_if_the_origin_permits_it() -> None:
    """RFC 9111, section 3.5."""

    def answer(request: Request) -> Response:
        control = "max-age=600, public" if "open" in request.target else "max-age=600"
        lines = [("Content-Type", "text/plain"), ("Cache-Control", control)]
        return Response(200, Fields(lines), (request.fields.get("authorization") or "all").encode())

    async with Stand(Entrance.REVERSE, shared_fields=("Authorization",)) as stand:
        stand.origin.speak(answer)
        for path, body in (("/open", b"Basic eDp5"), ("/closed", b"all")):
            await stand.get(path, Authorization="Basic eDp5")
            assert (await stand.get(path))[1] == body


async def test_user_agent_that_a_feed_repeats_reaches_no_other_client() -> None:
    """The explicit proxy fetches unknown targets with the client's own User-Agent."""
    async with Stand(Entrance.PROXY) as stand:
        stand.origin.speak(reflecting("", "application/rss+xml"))  # type: ignore[arg-type]
        agent = f'{EVIL}"&#60;script&#62;'
        assert EVIL.encode() in (await stand.ask({"User-Agent": agent}))[1]
        await stand.settled()

        assert EVIL.encode() not in (await stand.ask({"User-Agent": "y/2"}))[1]
        assert stand.origin.requests == 2


async def test_page_stored_for_a_user_agent_answers_it_with_a_cookie() -> None:
    async with Stand(Entrance.PROXY) as stand:
        stand.origin.publish("/page", b"page", content_type="text/plain", cache_control="max-age=600")
        await stand.get("/page", **{"User-Agent": "y/2"})
        assert (await stand.get("/page", **{"User-Agent": "y/2", "Cookie": "a=b"}))[1] == b"page"
        assert stand.origin.requests == 1


async def test_redirect_for_one_user_agent_is_followed_for_others() -> None:
    def answer(request: Request) -> Response:
        if request.fields.get("user-agent") == EVIL:
            return Response(302, Fields([("Location", "/page")]))
        if request.target.endswith("/feed.rss"):
            return Response(302, Fields([("Location", "/real")]))
        if request.target.endswith("/page"):
            return Response(200, Fields([("Content-Type", "text/plain")]), b"page")
        return Response(200, Fields([("Content-Type", "application/rss+xml")]), a_feed("good"))

    async with Stand(Entrance.PROXY) as stand:
        stand.origin.speak(answer)
        assert (await stand.ask({"User-Agent": EVIL}))[0] == 302

        assert (await stand.ask({"User-Agent": "y/2"}))[0] == 200


@pytest.mark.parametrize(
    "name", ["Authorization", "X-Authorization", "Cookie", "Cookie2", "X-Api-Key", "X-WSSE", "X-Auth-Token"]
)
async def test_credentials_are_not_sent_to_another_origin(name: str) -> None:
    """A redirect to another origin removes credentials (RFC 9110, section 15.4)."""
    seen: list[tuple[str, bool]] = []

    def answer(request: Request) -> Response:
        seen.append((request.target, name.lower() in request.fields))
        if request.target.endswith("/feed.rss"):
            return Response(302, Fields([("Location", "http://elsewhere.example/real")]))
        return Response(200, Fields([("Content-Type", "application/rss+xml")]), a_feed("good"))

    async with Stand(Entrance.PROXY) as stand:
        stand.origin.speak(answer)
        await stand.ask({name: "secret-1"})

    assert [had for _, had in seen[:2]] == [True, False]


REFUSALS = (301, 302, 400, 401, 403, 404, 410, 416, 429, 431, 500)


@entrances
@pytest.mark.parametrize(
    "fields", [{"X-Odd": EVIL}, {"Authorization": "Basic eDp5"}, {"Cookie": "a=b"}, {"Range": "bytes=9-"}]
)
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
async def test_response_provoked_by_one_client_is_not_served_to_others(
    entrance: Entrance, fields: dict[str, str], known: bool
) -> None:
    name = next(iter(fields))

    async with Stand(entrance) as stand:
        for status in REFUSALS:
            path = f"/{status}/feed"

            def fussy(request: Request, status: int = status) -> Response:
                lines = [("Cache-Control", "public, max-age=600"), ("Retry-After", "9000"), ("Location", "/elsewhere")]
                if name.lower() in request.fields and "elsewhere" not in request.target:
                    return Response(status, Fields(lines), b"no")
                feed = [("Content-Type", "application/rss+xml"), ("Cache-Control", "max-age=60")]
                return Response(200, Fields(feed), a_feed("elsewhere" if "elsewhere" in request.target else "good"))

            stand.origin.speak(fussy)
            if known:
                await stand.get(path)
                stand.clock.advance(minutes=20)
            for _ in range(3):
                await stand.ask(fields, path)
                await stand.settled()
                stand.clock.advance(hours=2)

            found, body = await stand.get(path)
            assert (found, b"good" in body) == (200, True), (status, found)
            resource = stand.stage.service.store.get(stand.origin.url(path))
            assert resource is not None
            assert resource.failures.count == 0
            assert resource.relocation is None


async def test_challenge_for_clients_without_credentials_blocks_no_authorized_reader() -> None:
    def guarded(request: Request) -> Response:
        if request.fields.get("authorization") == "Basic eDp5":
            lines = [("Content-Type", "application/rss+xml"), ("Cache-Control", "private, max-age=60")]
            return Response(200, Fields(lines), a_feed("members"))
        return Response(401, Fields([("WWW-Authenticate", "Basic realm=x"), ("Cache-Control", "max-age=600")]), b"who?")

    async with Stand(Entrance.GATEWAY) as stand:
        stand.origin.speak(guarded)
        for _ in range(3):
            assert (await stand.get(Authorization="Basic eDp5"))[0] == 200
            assert (await stand.get())[0] == 401
            assert (await stand.get(Authorization="Basic wrong"))[0] == 401
            stand.clock.advance(seconds=5)


async def test_feed_that_becomes_restricted_requires_the_password() -> None:
    async with Stand(Entrance.GATEWAY) as stand:
        stand.origin.publish("/feed.rss", a_feed("public"), cache_control="max-age=60")
        await stand.get()
        stand.clock.advance(minutes=20)

        def guarded(request: Request) -> Response:
            said = "authorization" in request.fields
            return Response(200 if said else 401, Fields([("Content-Type", "application/rss+xml")]), a_feed("members"))

        stand.origin.speak(guarded)

        for _ in range(3):
            assert (await stand.get())[0] == 401
            assert (await stand.get(Authorization="Basic eDp5"))[0] == 200


async def test_requests_with_credentials_do_not_delay_the_refresh_of_the_shared_copy() -> None:
    """The minimum interval between two fetches belongs to the copy. Each such request would restart it."""
    async with Stand(Entrance.GATEWAY) as stand:
        stand.origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=60")
        await stand.get()
        stand.origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=60")
        for _ in range(20):
            stand.clock.advance(seconds=45)
            await stand.get(Authorization="Basic eDp5", **RELOAD)
            await stand.settled()

        assert b"new" in (await stand.get())[1]


async def test_response_to_credentials_is_no_change_of_the_feed() -> None:
    async with Stand(Entrance.GATEWAY) as stand:
        told: list[str] = []
        stand.stage.service.events.feed_changed.subscribe(lambda event: told.append(event.resource.target))
        stand.origin.publish("/feed.rss", a_feed("all"), cache_control="max-age=60")
        await stand.get()
        told.clear()
        good = stand.origin.pages["/feed.rss"]

        def personal(request: Request) -> Response:
            body = a_feed("for one") if "authorization" in request.fields else good.body
            return Response(
                200, Fields([("Content-Type", "application/rss+xml"), ("Cache-Control", "public, max-age=60")]), body
            )

        stand.origin.speak(personal)
        stand.clock.advance(minutes=20)
        assert b"for one" in (await stand.get(Authorization="Basic eDp5"))[1]
        await stand.settled()

        assert told == []
        assert b"for one" not in (await stand.get())[1]


async def test_client_with_credentials_joins_no_refresh_of_others() -> None:
    async with Stand(Entrance.GATEWAY) as stand:
        stand.origin.speak(reflecting("", "application/rss+xml"))  # type: ignore[arg-type]
        stand.origin.gate = asyncio.Event()
        clients = [{"Authorization": "Basic eDp5"}, {}, {"Authorization": "Basic other"}, {}]
        waiting = [asyncio.ensure_future(stand.ask(fields)) for fields in clients]
        await stand.origin.asked(3)
        stand.origin.gate.set()
        mine, plain, yours, again = [body for _, body in await asyncio.gather(*waiting)]

    assert b"eDp5" in mine
    assert b"Basic other" in yours
    assert plain == again
    assert b"Basic" not in plain


async def test_unusual_fields_evict_no_variant_of_others() -> None:
    async with Stand(Entrance.PROXY) as stand:
        stand.origin.publish("/page", b"page", content_type="text/plain", cache_control="max-age=600")
        await stand.ask({"User-Agent": "a"}, "/page")
        for number in range(40):
            await stand.ask({"User-Agent": "b", "X-Odd": str(number), "Cache-Control": "no-cache"}, "/page")
        asked = stand.origin.requests

        assert (await stand.ask({"User-Agent": "a", "X-Odd": "39"}, "/page"))[0] == 200
        resource = stand.stage.service.store.get(stand.origin.url("/page"))
        assert resource is not None
        assert len(resource.responses) <= 24
        assert stand.origin.requests <= asked + 1


async def test_requested_language_is_forwarded_to_an_origin_with_several() -> None:
    """A field named by Vary is forwarded. A failure that it provokes does not count for the feed."""

    def speaking(request: Request) -> Response:
        said = request.fields.get("accept-language") or "none"
        lines = [("Content-Type", "application/rss+xml"), ("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")]
        return Response(500 if said == "zz" else 200, Fields(lines), a_feed(f"in {said}"))

    async with Stand(Entrance.GATEWAY) as stand:
        stand.origin.speak(speaking)
        assert b"in de" in (await stand.ask({"Accept-Language": "de"}))[1]
        assert b"in none" in (await stand.get())[1]
        for _ in range(5):
            stand.clock.advance(minutes=20)
            await stand.ask({"Accept-Language": "zz"})
            await stand.settled()
        resource = stand.stage.service.store.get(stand.origin.url("/feed.rss"))

        assert resource is not None
        assert resource.failures.count == 0
        assert (await stand.get())[0] == 200
