"""Real readers through the gateway and the explicit proxy: they get news, and the origin gets few requests."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.clients import READERS, Reader
from tests.live.origin import Authority, Origin, a_feed
from tests.live.product import Feedproxy

NEWS = ["one", "three", "two"]


@dataclass(frozen=True)
class Way:
    """The path from a reader to a feed."""

    name: str
    gateway: bool
    secure: bool = False
    host: str = "127.0.0.1"

    @property
    def tunnelled(self) -> bool:
        return not self.gateway and self.secure and self.host != "localhost"


GATEWAY = Way("gateway", True)
PROXY = Way("proxy", False)
TUNNEL = Way("proxy-https-tunnelled", False, True)
CACHED = (
    GATEWAY,
    Way("gateway-https", True, True),
    PROXY,
    Way("proxy-https-intercepted", False, True, "localhost"),
)

type Open = Callable[[type[Reader], Way], tuple[Reader, Callable[[str], str]]]


@pytest.fixture
def come(proxy: Feedproxy, origin: Origin, authority: Authority, tmp_path: Path) -> Open:
    """Return a reader set up for a path, and the address to subscribe to."""

    def set_up(kind: type[Reader], way: Way) -> tuple[Reader, Callable[[str], str]]:
        trusted = tmp_path / "trusted.pem"
        trusted.write_bytes(authority.file.read_bytes() + proxy.authority.read_bytes())
        reader = kind(tmp_path / "home", "" if way.gateway else proxy.base, trusted)

        def address(path: str) -> str:
            target = origin.url(path, secure=way.secure, host=way.host)
            return proxy.gateway(target) if way.gateway else target

        return reader, address

    return set_up


@pytest.mark.parametrize("way", CACHED, ids=lambda way: way.name)
@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.__name__.lower())
def test_second_poll_of_a_reader_causes_no_origin_request(
    come: Open, origin: Origin, kind: type[Reader], way: Way
) -> None:
    path = f"/{kind.__name__}/{way.name}.rss"
    origin.publish(path, a_feed(*NEWS))
    reader, address = come(kind, way)

    first = reader.read(address(path))
    second = reader.read(address(path))

    assert first == second == NEWS
    assert len(origin.asked(path)) == 1


@pytest.mark.parametrize("way", [GATEWAY, PROXY], ids=lambda way: way.name)
@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.__name__.lower())
def test_validation_of_a_copy_costs_a_304_in_the_name_of_all_subscribers(
    come: Open, origin: Origin, kind: type[Reader], way: Way
) -> None:
    path = f"/{kind.__name__}/{way.name}/no-cache.rss"
    origin.publish(path, a_feed(*NEWS), Cache_Control="no-cache")
    reader, address = come(kind, way)

    first = reader.read(address(path))
    second = reader.read(address(path))

    assert first == second == NEWS
    before, after = origin.asked(path)
    assert after.fields["If-None-Match"] == origin.pages[path].fields["ETag"]
    assert after.agent.startswith("feedproxy/")
    assert "(1 subscriber; feed-id=" in after.agent
    if way.gateway:
        assert before.agent == after.agent
    else:  # before the target was known as a feed, the reader's own User-Agent was sent
        assert re.search(kind.agent, before.agent)


@pytest.mark.parametrize("way", [GATEWAY, PROXY], ids=lambda way: way.name)
@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.__name__.lower())
def test_new_item_reaches_the_reader_at_its_next_poll(come: Open, origin: Origin, kind: type[Reader], way: Way) -> None:
    path = f"/{kind.__name__}/{way.name}/news.rss"
    origin.publish(path, a_feed("one"), Cache_Control="no-cache")
    reader, address = come(kind, way)
    assert reader.read(address(path)) == ["one"]

    origin.publish(path, a_feed("two", "one"), Cache_Control="no-cache")

    assert reader.read(address(path)) == ["one", "two"]


@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.__name__.lower())
def test_tunnel_is_not_decrypted(come: Open, origin: Origin, kind: type[Reader]) -> None:
    path = f"/{kind.__name__}/tunnel.rss"
    origin.publish(path, a_feed(*NEWS))
    reader, address = come(kind, TUNNEL)

    assert reader.read(address(path)) == NEWS

    (asked,) = origin.asked(path)
    assert asked.secure
    assert re.search(kind.agent, asked.agent)
    assert "Via" not in asked.fields


@pytest.mark.parametrize("way", [GATEWAY, PROXY], ids=lambda way: way.name)
@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.__name__.lower())
def test_failing_origin_is_unnoticed_by_readers(come: Open, origin: Origin, kind: type[Reader], way: Way) -> None:
    path = f"/{kind.__name__}/{way.name}/broken.rss"
    origin.publish(path, a_feed(*NEWS), Cache_Control="max-age=0")
    reader, address = come(kind, way)
    assert reader.read(address(path)) == NEWS

    origin.publish(path, b"<html>Please try again later</html>", 503, Content_Type="text/html")

    assert reader.read(address(path)) == NEWS
    assert len(origin.asked(path)) == 2
