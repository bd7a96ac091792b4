"""The proxy's own listeners are no targets, through any entrance, in any spelling, with any option."""

import socket
from collections.abc import Callable, Iterator

import pytest

from feedproxy.errors import Forbidden
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.own_listeners import OwnListeners, is_of_this_machine
from feedproxy.upstream.special_networks import Address
from feedproxy.upstream.upstream_errors import Unreachable
from tests.live.conftest import (  # noqa: F401 -- fixtures
    authority,
    made,
    origin,
    start,
)
from tests.live.origin import Origin, a_feed
from tests.live.product import Feedproxy, ask, raw
from tests.upstream.test_address_policy import FORMS, answering

type Start = Callable[..., Feedproxy]

EVERYTHING = ["0.0.0.0/0", "::/0"]
PORT = 8081


def a_policy(**options: object) -> AddressPolicy:
    """Return a policy that permits every address, with a port that belongs to the proxy."""
    listeners = OwnListeners()
    listeners.add(PORT, for_readers=False)
    return AddressPolicy(True, EVERYTHING, ["1-65535"], listeners=listeners, **options)  # type: ignore[arg-type]


def own_addresses() -> list[str]:
    """Return this machine's addresses according to its name and its routes."""
    found = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            found.add(probe.getsockname()[0])
        except OSError:
            pass  # without a route, only loopback exists
    return sorted(str(each).partition("%")[0] for each in found)


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.9.8.7", "::1", "0.0.0.0", "::", *FORMS])
async def test_no_spelling_of_this_machine_leads_to_an_own_port(ip: str) -> None:
    host = f"[{ip}]" if ":" in ip else ip
    with pytest.raises(Forbidden, match="listener of this proxy"):
        await a_policy().resolve(host, PORT)
    assert await a_policy().resolve(host, PORT + 1)


async def test_no_interface_address_leads_to_an_own_port() -> None:
    for ip in own_addresses():
        with pytest.raises(Forbidden, match="listener of this proxy"):
            await a_policy(lookup=answering(ip)).resolve("this.example", PORT)
        assert await a_policy(lookup=answering(ip)).resolve("this.example", PORT + 1)


async def test_name_with_one_own_address_among_others_is_refused() -> None:
    with pytest.raises(Forbidden, match="listener"):
        await a_policy(lookup=answering("192.0.2.7", "127.0.0.1")).resolve("mixed.example", PORT)


@pytest.mark.parametrize("ip", ["192.0.2.7", "64:ff9b::c000:207"])
async def test_same_port_of_another_machine_is_permitted(ip: str) -> None:
    host = f"[{ip}]" if ":" in ip else ip
    assert await a_policy().resolve(host, PORT) == [ip]


async def test_own_listener_and_unknown_name_get_the_same_error_if_private_addresses_are_refused() -> None:
    listeners = OwnListeners()
    listeners.add(PORT, for_readers=True)
    policy = AddressPolicy(ports=["1-65535"], lookup=answering("127.0.0.1"), listeners=listeners)

    with pytest.raises(Unreachable, match="cannot be resolved"):
        await policy.resolve("this.example", PORT)


def test_address_that_cannot_be_checked_counts_as_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import ipaddress

    def no_descriptors(*_: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    somewhere: Address = ipaddress.ip_address("192.0.2.7")
    assert not is_of_this_machine(somewhere)
    monkeypatch.setattr(socket, "socket", no_descriptors)
    assert is_of_this_machine(somewhere)


# -- the product


WAYS = {"fast path": ((), True), "mitmproxy": ((), False), "two workers": (("--workers", "2"), True)}
ALLOWED = [f"allow_networks={each}" for each in EVERYTHING] + ["allow_ports=1-65535", "connect_ports=1-65535"]


@pytest.fixture(params=list(WAYS))
def open_to_all(request: pytest.FixtureRequest, start: Start) -> Iterator[Feedproxy]:  # noqa: F811
    """Open a proxy that may connect to every address and port."""
    arguments, fast = WAYS[request.param]
    proxy = start(*arguments, *(word for each in ALLOWED for word in ("--set", each)), fast_path=fast)
    yield proxy
    assert "Traceback" not in proxy.said


def admin_port(proxy: Feedproxy) -> int:
    found = proxy.said.partition("the admin listener is at http://127.0.0.1:")[2]
    return int(found.split()[0])


def test_own_listeners_are_unreachable_through_every_entrance(open_to_all: Feedproxy, origin: Origin) -> None:  # noqa: F811
    proxy = open_to_all
    ports = {"admin": admin_port(proxy), "readers": proxy.address[1]}
    hosts = ["127.0.0.1", "127.0.0.2", "localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"]
    hosts += ["0.0.0.0", "[::]", *own_addresses()[:1]]
    for name, port in ports.items():
        for host in hosts:
            place = f"{host}:{port}"
            for path in ("/api/feeds", "/-/feeds.opml"):
                seen = ask(f"{proxy.base}/http://{place}{path}")
                assert seen.status == 403, (name, host, seen)
            assert ask(f"{proxy.base}/-/as/json/http://{place}/api/feeds").status == 403
            assert ask(f"{proxy.base}/http://{place}/purge?pattern=*", method="POST").status == 403
            tunnel = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()
            assert raw(proxy.address, tunnel, "CONNECT").status == 403, (name, host)
            path = f"/to/{name}/{hosts.index(host)}"
            origin.publish(path, b"", 302, Location=f"http://{place}/api/feeds")
            led = ask(proxy.gateway(origin.url(path)))
            assert led.status == 302, (name, host, led)
            assert b'"feeds"' not in led.body
        absolute = ask(f"http://127.0.0.1:{port}/api/feeds", through=proxy.address)
        assert absolute.status == (403 if name == "admin" else 404), (name, absolute)


def test_absolute_form_with_the_own_authority_is_the_gateway(
    open_to_all: Feedproxy,
    origin: Origin,  # noqa: F811
) -> None:
    """Programs send this if they use the proxy as http_proxy and subscribe to a gateway address."""
    proxy = open_to_all
    origin.publish("/by/own.rss", a_feed("one"), Cache_Control="max-age=600")
    port = proxy.address[1]
    for _ in range(2):
        for host in ("127.0.0.1", "localhost", "LocalHost", "[::ffff:127.0.0.1]"):
            base = f"http://{host}:{port}"
            page = ask(f"{base}/", through=proxy.address)
            assert page.status == 200, (host, page)
            assert page.fields["Content-Security-Policy"].startswith(("sandbox", "default-src"))
            feed = ask(f"{base}/{origin.url('/by/own.rss')}", through=proxy.address)
            assert (feed.status, feed.fields["Content-Security-Policy"]) == (200, "sandbox")
            assert ask(f"{base}/-/feeds.opml", through=proxy.address).status == 200
            assert ask(f"{base}/-/nothing", through=proxy.address).status == 404
            assert ask(f"{base}/nonsense", through=proxy.address).status == 404


def test_absolute_form_with_the_own_authority_is_the_origin_in_reverse_mode(start: Start, origin: Origin) -> None:  # noqa: F811
    origin.publish("/feed.rss", a_feed("one"))
    proxy = start(upstream=origin.url("/"))

    for host in ("127.0.0.1", "localhost.", "0.0.0.0", "[::ffff:127.0.0.1]"):
        assert ask(f"http://{host}:{proxy.address[1]}/feed.rss", through=proxy.address).status == 200, host
    assert ask(f"http://other.invalid:{proxy.address[1]}/feed.rss", through=proxy.address).status == 400


def test_public_url_is_an_own_authority(start: Start, origin: Origin) -> None:  # noqa: F811
    origin.publish("/by/public.rss", a_feed("one"))
    proxy = start(public_url="http://feeds.example/")

    through = {"through": proxy.address}
    assert ask(f"http://feeds.example/{origin.url('/by/public.rss')}", **through).status == 200  # type: ignore[arg-type]
    assert ask("http://feeds.example/-/feeds.opml", **through).status == 200  # type: ignore[arg-type]
    assert ask("http://other.invalid/-/feeds.opml", **through).status == 502  # type: ignore[arg-type]
