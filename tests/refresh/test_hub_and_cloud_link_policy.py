"""Hub and self links that the proxy adds to a publisher's feeds, in the document and in the Link field."""

from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.store.resource import Resource
from tests.stages.notify import TARGET, Stand, stand_at
from tests.stages.origin import a_feed

__all__ = ["stand_at"]

PUBLIC = {"upstream": "http://origin.example/", "public_url": "https://feeds.example/"}
HUB = "https://feeds.example/-/hub"


def held(stand: Stand) -> Resource:
    resource = stand.app.service.store.get(TARGET)
    assert resource is not None
    return resource


def links(stand: Stand) -> list[str]:
    return held(stand).variants[0].fields.get_all("link")


async def test_hub_link_is_added_to_a_publishers_feed_and_kept_after_304(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(announce=("hub",), **PUBLIC)
    stand.origin.publish("/feed.xml", a_feed("one"), link='</style.css>; rel="stylesheet"')
    await stand.read()
    await stand.read()

    body = held(stand).variants[0].content.bodies["identity"]
    assert f'<atom:link rel="hub" href="{HUB}"'.encode() in body
    assert links(stand) == [
        '</style.css>; rel="stylesheet"',
        f'<{HUB}>; rel="hub", <https://feeds.example/feed.xml>; rel="self"',
    ]
    assert stand.origin.requests == 2


@pytest.mark.parametrize(
    "options",
    [
        {**PUBLIC, "announce": ()},
        {**PUBLIC, "announce": ("hub",), "private": True},
        {**PUBLIC, "announce": ("hub",), "readers": ("ann",)},
        {"announce": ("hub",), "public_url": "https://feeds.example/"},
        {"announce": ("hub",), "upstream": "http://origin.example/"},
    ],
)
async def test_hub_link_is_not_added_to_foreign_or_private_feeds(
    stand_at: Callable[..., Any], options: dict[str, Any]
) -> None:
    stand = await stand_at(**options)
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()

    assert b"hub" not in held(stand).variants[0].content.bodies["identity"]
    assert links(stand) == []


async def test_no_transform_feed_stays_unchanged(stand_at: Callable[..., Any]) -> None:
    stand = await stand_at(announce=("hub",), **PUBLIC)
    stand.origin.publish("/feed.xml", a_feed("one"), cache_control="no-transform")
    await stand.read()

    assert held(stand).variants[0].content.bodies["identity"] == a_feed("one")
    assert links(stand) == []
