"""A copy from a time with --allow-private does not answer after a restart without it.

Requests for its target get the response of a target that was never stored.
"""

from collections.abc import Callable
from pathlib import Path

from tests.fleet.redis_server import RedisServer, needs_redis
from tests.live.origin import Origin, a_feed
from tests.live.product import Feedproxy, ask
from tests.live.test_office_list import a_file, command, listed
from tests.live.worker_processes import admin

type Start = Callable[..., Feedproxy]

HOSTS = ("127.0.0.1", "localhost")
STORED = ("/feed", "/feed?a=1", "/moved", "/ended")
NEVER = "/never"
COMMON = {"list_readers_min": 1, "relocation_confirmations": 1, "ignore_query": "utm_source"}


def fill(proxy: Feedproxy, origin: Origin) -> None:
    """Let the proxy store feeds, a move and an end."""
    for path in (*STORED, NEVER):
        origin.publish(path, a_feed("secret"), Cache_Control="max-age=86400")
    for host in HOSTS:
        for path in STORED:
            seen = proxy.get(origin.url(path, host=host))
            assert (seen.status, b"secret" in seen.body) == (200, True), seen
        origin.publish("/moved", b"", 301, Location=origin.url("/feed", host=host))
        origin.publish("/ended", b"", 410)
        for path in ("/moved", "/ended"):
            admin(proxy, "POST", f"/refresh?url={origin.url(path, host=host)}")
            origin.publish(path, a_feed("secret"), Cache_Control="max-age=86400")
        assert proxy.get(origin.url("/moved", host=host)).status == 301
        assert proxy.get(origin.url("/ended", host=host)).status == 410
        assert "; hit" in proxy.get(origin.url("/feed", host=host)).cache


def answers(proxy: Feedproxy, url: str) -> list[tuple[int, str, bytes]]:
    """Return the answers through every entrance, with the requested path left out."""
    path = url.partition("/")[2].partition("/")[2].partition("/")[2]
    seen = []
    for method in ("GET", "HEAD"):
        for fields in ({}, {"If_None_Match": "*"}, {"Range": "bytes=0-9"}, {"Cache_Control": "only-if-cached"}):
            seen.append(ask(proxy.gateway(url), method, fields=fields))
            seen.append(ask(url, method, fields=fields, through=proxy.address))
        seen.append(ask(f"{proxy.base}/-/as/json/{url}", method))
        seen.append(ask(proxy.gateway(f"{url}{'&' if '?' in url else '?'}utm_source=x"), method))
    return [(one.status, one.cache, one.body.replace(path.encode(), b"PATH")) for one in seen]


def assert_refused(proxy: Feedproxy, origin: Origin) -> None:
    """Check that requests for stored targets are answered like those for a target that was never stored."""
    requests = len(origin.log)
    for host in HOSTS:
        never = answers(proxy, origin.url(NEVER, host=host))
        assert {status for status, _, _ in never} == {403, 504}
        for path in STORED:
            assert answers(proxy, origin.url(path, host=host)) == never
        admin(proxy, "POST", f"/refresh?url={origin.url('/feed', host=host)}")
    assert b"secret" not in ask(f"{proxy.base}/-/changes.xml").body
    assert listed(proxy) == []
    assert len(origin.log) == requests


def test_copy_of_a_private_address_is_refused_after_a_restart_without_allow_private(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    port, store = origin.http.server_port, tmp_path / "store"
    options = {"store": store, **COMMON}
    permitted = start(**options)
    fill(permitted, origin)
    done = command(permitted, "import", a_file(tmp_path, origin.url("/feed")))
    assert done.returncode == 0, done.stderr
    assert listed(permitted) != []
    assert permitted.terminate() == 0

    strict = start(allow_private=False, allow_ports=port, polling="eager", **options)

    assert_refused(strict, origin)
    # The operator can purge the copies.
    assert admin(strict, "POST", f"/purge?url={origin.url('/moved')}")["purged"] == 1
    purged = admin(strict, "POST", f"/purge?pattern=http://127.0.0.1:{port}/*")
    assert purged["purged"] == len(STORED) - 1
    assert strict.terminate() == 0

    # Addresses that a list of networks permits keep their copies.
    partly = start(allow_private=False, allow_ports=port, allow_networks="127.0.0.0/8", **options)
    assert "; hit" in partly.get(origin.url("/feed", host="localhost")).cache
    assert partly.terminate() == 0
    # A port that is no longer permitted is refused in the same way.
    without_port = start(allow_private=False, allow_networks="127.0.0.0/8", **options)
    assert without_port.get(origin.url("/feed", host="localhost")).status == 403


@needs_redis
def test_copy_of_a_private_address_from_another_machine_is_refused_without_allow_private(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    redis = RedisServer(tmp_path / "redis")

    def machine(name: str, **options: object) -> Feedproxy:
        return start("--store", redis.url, "--set", f"fleet_local={tmp_path / name}", **COMMON, **options)

    try:
        strict = machine("strict", allow_private=False, allow_ports=origin.http.server_port)
        first = machine("first")
        fill(first, origin)
        assert first.terminate() == 0  # Redis now has its copies
        assert "; hit" in machine("second").get(origin.url("/feed")).cache

        assert_refused(strict, origin)
    finally:
        redis.kill()
