"""An origin that offers its feed as a dictionary sends the next version as a difference (RFC 9842)."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from feedproxy.http.coding.compression_dictionary import HEADER_BYTES, encode, parse_available_dictionary
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.store.resource_codec import dump, load
from tests.stages.origin import a_feed
from tests.stages.play import Seen

PATH = "/feed.rss"
ON = {"compression_dictionaries": "always", "self_link": "off"}
OLD = tuple(hashlib.sha256(b"%d" % number).hexdigest() for number in range(60))

type Spoil = Callable[[Response], Response]


@dataclass
class Publisher:
    """An origin with dictionaries: each version that it has sent is one."""

    origin: Any
    offer: str = f'match="{PATH}"'
    fields: dict[str, str] = field(default_factory=dict)
    spoil: Spoil = lambda response: response
    """Alters responses in `dcz`."""
    body: bytes = b""
    versions: dict[bytes, bytes] = field(default_factory=dict)

    def publish(self, *titles: str) -> None:
        self.body = a_feed(*titles, *OLD)
        self.versions[hashlib.sha256(self.body).digest()] = self.body

    def answer(self, request: Request) -> Response:
        named = request.fields.get("available-dictionary")
        dictionary = self.versions.get(parse_available_dictionary(named or "") or b"")
        tag = f'"{hashlib.sha256(self.body).hexdigest()[:8]}"'
        lines = {
            "Date": format_http_date(self.origin.clock.now()),
            "Content-Type": "application/rss+xml",
            "ETag": tag,
            "Cache-Control": "max-age=60",
            "Vary": "Accept-Encoding, Available-Dictionary",
            **self.fields,
        }
        if self.offer:
            lines["Use-As-Dictionary"] = self.offer
        if request.fields.get("if-none-match") == tag:
            return Response(304, Fields(lines.items()))
        if dictionary is None or "dcz" not in (request.fields.get("accept-encoding") or ""):
            return Response(200, Fields(lines.items()), self.body)
        lines["Content-Encoding"] = "dcz"
        return self.spoil(Response(200, Fields(lines.items()), encode(self.body, dictionary)))


async def a_publisher(stage: Any, *, settings: dict[str, Any] = ON, **given: Any) -> tuple[Any, Publisher, Any]:
    """A stage whose publisher has news since the proxy fetched the feed."""
    proxy, origin, clock = await stage(**settings)
    publisher = Publisher(origin, **given)
    origin.speak(publisher.answer)
    publisher.publish()
    (await proxy.get(PATH)).expect(200)
    publisher.publish("news")
    clock.advance(minutes=10)
    return proxy, publisher, clock


def name_of(content: bytes) -> str:
    return f":{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def named(publisher: Publisher) -> list[str | None]:
    """Available-Dictionary of each request that the origin received."""
    return [request.fields.get("available-dictionary") for request in publisher.origin.log]


def is_current(seen: Seen, publisher: Publisher) -> bool:
    return seen.status == 200 and seen.plain == publisher.body


async def test_refresh_names_the_stored_version_and_stores_the_decoded_content(stage):
    proxy, publisher, clock = await a_publisher(stage)
    first = publisher.body.replace(b"<item><title>news</title><guid>tag:news</guid></item>", b"")

    seen = await proxy.get(PATH)

    assert is_current(seen, publisher)
    assert "content-encoding" not in seen.fields
    assert named(publisher) == [None, name_of(first)]
    codings = [request.fields.get("accept-encoding") for request in publisher.origin.log]
    assert codings == ["gzip, br, zstd", "gzip, br, zstd, dcz"]
    assert "dictionary-id" not in publisher.origin.heard
    publisher.publish("more", "news")
    clock.advance(minutes=10)
    assert is_current(await proxy.get(PATH), publisher)
    assert named(publisher)[2] is not None


async def test_dictionary_that_is_current_is_confirmed_with_304(stage):
    proxy, publisher, clock = await a_publisher(stage)
    await proxy.get(PATH)
    clock.advance(minutes=10)

    (await proxy.get(PATH)).expect(200, cache="fwd=stale; fwd-status=304")

    publisher.publish("more")
    clock.advance(minutes=10)
    assert is_current(await proxy.get(PATH), publisher)
    assert len(named(publisher)) == 4


async def test_dictionary_id_of_the_origin_is_returned(stage):
    # "it MUST be sent to the server in a "Dictionary-ID" request header" -- RFC 9842, section 2.1.3
    proxy, publisher, _ = await a_publisher(stage, offer=f'match="{PATH}", id="v\\"1"')

    await proxy.get(PATH)

    assert publisher.origin.heard.get("dictionary-id") == '"v\\"1"'


@pytest.mark.parametrize(
    "offer",
    ["", f'match="{PATH}x"', 'match="/(.*)"', f'match="{PATH}", type=trained', f'match="http://other.example{PATH}"',
     f"match={PATH}", f'match="{PATH}", id=5', 'match="/:name"'],
)  # fmt: skip
async def test_dictionary_without_a_usable_offer_is_not_named(stage, offer: str):
    proxy, publisher, _ = await a_publisher(stage, offer=offer)

    assert is_current(await proxy.get(PATH), publisher)

    assert named(publisher) == [None, None]
    # "the client MUST NOT send its dictionary-aware content-encodings" -- RFC 9842, section 6.1
    assert publisher.origin.heard.get("accept-encoding") == "gzip, br, zstd"


@pytest.mark.parametrize(
    "fields",
    [{"Cache-Control": "max-age=60, private"}, {"Cache-Control": "max-age=60, no-transform"},
     {"Cache-Control": "max-age=60, must-revalidate"}, {"Cache-Control": "s-maxage=60"}],
    ids=lambda fields: fields["Cache-Control"],
)  # fmt: skip
async def test_dictionary_that_is_private_or_must_not_be_stale_is_not_named(stage, fields: dict[str, str]):
    # "the dictionary resource MUST be either fresh … or allowed to be served stale" -- RFC 9842, section 2.2.1
    proxy, publisher, _ = await a_publisher(stage, fields=fields)

    assert is_current(await proxy.get(PATH), publisher)

    assert set(named(publisher)) == {None}


@pytest.mark.parametrize(
    "settings", [{**ON, "compression_dictionaries": "off"}, {**ON, "self_link": "add"}, {**ON, "private": True}]
)
async def test_dictionary_that_is_edited_private_or_disabled_is_not_named(stage, settings: dict[str, Any]):
    proxy, publisher, _ = await a_publisher(stage, settings=settings)

    (await proxy.get(PATH)).expect(200)

    assert set(named(publisher)) == {None}


@pytest.mark.parametrize("fields", [{"authorization": "Basic YTpi"}, {"x_api_key": "abc"}, {"cookie": "id=5"}])
async def test_dictionary_is_not_named_in_a_request_with_credentials(stage, fields: dict[str, str]):
    proxy, publisher, _ = await a_publisher(stage)

    await proxy.get(PATH, cache_control="no-cache", **fields)

    with_credentials = [
        request for request in publisher.origin.log if any(name.replace("_", "-") in request.fields for name in fields)
    ]
    assert all("available-dictionary" not in request.fields for request in with_credentials)


async def test_dictionary_is_named_in_secure_contexts_only(stage):
    # "compression dictionary transport MUST only be used in secure contexts (HTTPS)" -- RFC 9842, section 8
    proxy, publisher, _ = await a_publisher(stage, settings={"self_link": "off"})

    assert is_current(await proxy.get(PATH), publisher)

    on_loopback = publisher.origin.base.startswith("http://127.")
    assert (named(publisher)[1] is not None) == on_loopback


def other_dictionary(response: Response) -> Response:
    return Response(200, response.fields, response.body[:8] + bytes(32) + response.body[HEADER_BYTES:])


def truncated(response: Response) -> Response:
    return Response(200, response.fields, response.body[:-3])


def damaged(response: Response) -> Response:
    return Response(200, response.fields, response.body[:HEADER_BYTES] + b"\x28\xb5\x2f\xfd" + bytes(30))


def not_coded(response: Response) -> Response:
    return Response(200, response.fields, a_feed("plain"))


def coded_twice(response: Response) -> Response:
    return Response(200, response.fields.with_field("Content-Encoding", "dcz, dcz"), response.body)


def bomb(response: Response) -> Response:
    dictionary = a_feed(*OLD)
    return Response(200, response.fields, encode(bytes(60_000_000), dictionary))


@pytest.mark.parametrize("spoil", [other_dictionary, truncated, damaged, not_coded, coded_twice, bomb])
async def test_dcz_that_cannot_be_decoded_causes_one_fetch_of_the_whole_feed(stage, spoil: Spoil):
    proxy, publisher, clock = await a_publisher(stage, spoil=spoil)

    seen = await proxy.get(PATH)

    assert is_current(seen, publisher)
    first, second, third = named(publisher)
    assert (first, third) == (None, None)
    assert second is not None
    assert publisher.origin.heard.get("accept-encoding") == "gzip, br, zstd"
    (await proxy.get(PATH)).expect(200, cache="hit")
    # The refresh behind a failure names no dictionary.
    publisher.publish("more")
    clock.advance(minutes=10)
    assert is_current(await proxy.get(PATH), publisher)
    assert named(publisher)[3:] == [None]


async def test_dcz_that_cannot_be_decoded_keeps_the_copy_if_the_second_fetch_fails(stage):
    proxy, publisher, _ = await a_publisher(stage, spoil=truncated)
    old = a_feed(*OLD)

    def answer(request: Request) -> Response:
        return publisher.answer(request) if "available-dictionary" in request.fields else Response(500)

    publisher.origin.speak(answer)

    seen = await proxy.get(PATH)

    assert seen.plain == old
    assert len(named(publisher)) == 3


async def test_dcz_of_an_error_page_is_decoded(stage):
    proxy, _, _ = await a_publisher(stage, spoil=lambda response: Response(404, response.fields, response.body))

    seen = await proxy.get(PATH)

    assert "dcz" not in (seen.fields.get("content-encoding") or "")
    assert b"<rss" in seen.plain


async def test_dictionary_is_not_named_after_a_redirect(stage):
    proxy, publisher, _ = await a_publisher(stage)
    moved = publisher.origin.url("/moved.rss")

    def answer(request: Request) -> Response:
        if request.target == moved:
            return publisher.answer(request)
        return Response(302, Fields([("Location", moved)]))

    publisher.origin.speak(answer)

    assert is_current(await proxy.get(PATH), publisher)

    assert [name is None for name in named(publisher)] == [True, False, True]
    assert publisher.origin.heard.get("accept-encoding") == "gzip, br, zstd"


async def test_stored_form_keeps_is_dictionary(stage):
    proxy, publisher, _ = await a_publisher(stage)
    stored = proxy.stage.service.store.get(publisher.origin.url(PATH))

    assert load(dump(stored)).variants[0].content.is_dictionary
    assert b"is_dictionary" in dump(stored)


async def test_stored_form_omits_is_dictionary_without_an_offer(stage):
    proxy, origin, _ = await stage(**ON)
    origin.publish(PATH, a_feed("one"))
    await proxy.get(PATH)

    assert b"is_dictionary" not in dump(proxy.stage.service.store.get(origin.url(PATH)))


async def test_dictionary_above_the_size_limit_is_not_named(stage, monkeypatch):
    monkeypatch.setattr("feedproxy.refresh.dcz_from_origins.CONTENT_BYTES_MAX", 100)
    proxy, publisher, _ = await a_publisher(stage)

    assert is_current(await proxy.get(PATH), publisher)

    assert named(publisher) == [None, None]
