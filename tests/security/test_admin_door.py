"""The admin listener's door: nothing that passed a feedproxy, and no guessing."""

import aiohttp
import pytest

from feedproxy.access.guess_limit import GUESS_WINDOW, GUESSES_MAX, NETWORKS_MAX, GuessLimit
from feedproxy.admin.auth import AdminAuth
from feedproxy.admin.server import AdminServer
from feedproxy.app import App
from feedproxy.clock import ManualClock

OURS = {"Host": "127.0.0.1:8081"}


@pytest.mark.parametrize("path", ["/", "/api/feeds", "/purge", "/healthz", "/metrics"])
@pytest.mark.parametrize(
    "via", ["1.1 feedproxy-0123abcd", "1.0 first, 1.1 FEEDPROXY-00000000", "1.1 feedproxy-1 (x), 1.1 other"]
)
def test_what_has_passed_a_feedproxy_is_refused(path: str, via: str) -> None:
    refusal = AdminAuth("127.0.0.1").refuse("GET", path, {**OURS, "Via": via})

    assert refusal is not None
    assert refusal.status == 403


def test_every_via_field_counts_not_the_first_alone() -> None:
    from multidict import CIMultiDict

    fields = CIMultiDict([("Host", "127.0.0.1:8081"), ("Via", "1.1 balancer"), ("via", "1.1 feedproxy-00000000")])

    assert AdminAuth("127.0.0.1").refuse("GET", "/", fields) is not None


def test_another_proxy_in_front_is_the_operators_own_affair() -> None:
    assert AdminAuth("127.0.0.1").refuse("GET", "/", {**OURS, "Via": "1.1 balancer"}) is None


def test_guessing_the_token_is_slowed_down_and_only_where_it_comes_from() -> None:
    clock = ManualClock(1_000_000)
    door = AdminAuth("127.0.0.1", "right", clock=clock)

    def status(token: str, peer: str = "192.0.2.1") -> int | None:
        refusal = door.refuse("GET", "/", {**OURS, "Authorization": f"Bearer {token}"}, peer)
        return refusal.status if refusal is not None else None

    assert [status(f"guess {number}") for number in range(GUESSES_MAX)] == [401] * GUESSES_MAX
    assert status("right") == 429, "even the right one tells nothing now"
    assert status("right", "192.0.2.2") is None
    refusal = door.refuse("GET", "/", OURS, "192.0.2.1")
    assert refusal is not None
    assert 0 < refusal.retry_after <= GUESS_WINDOW + 1
    clock.advance(GUESS_WINDOW)
    assert status("right") is None


def test_a_request_without_a_token_is_no_guess() -> None:
    door = AdminAuth("127.0.0.1", "right", clock=ManualClock(0))

    for _ in range(2 * GUESSES_MAX):
        refusal = door.refuse("GET", "/", OURS, "192.0.2.1")
        assert refusal is not None
        assert refusal.status == 401


def test_a_host_with_many_ipv6_addresses_is_one_client() -> None:
    guesses = GuessLimit(ManualClock(0))
    for number in range(GUESSES_MAX):
        guesses.record_wrong(f"2001:db8::{number:x}")

    assert guesses.retry_after("2001:db8::ffff") > 0
    assert guesses.retry_after("2001:db8:0:1::1") <= 0
    assert GuessLimit(ManualClock(0)).retry_after("") <= 0


def test_a_clock_that_is_set_back_makes_nobody_wait_longer() -> None:
    clock = ManualClock(1_000_000)
    guesses = GuessLimit(clock)
    for _ in range(GUESSES_MAX):
        guesses.record_wrong("192.0.2.1")
    clock.advance(-500_000)

    assert guesses.retry_after("192.0.2.1") <= GUESS_WINDOW


def test_networks_are_remembered_within_bounds() -> None:
    guesses = GuessLimit(ManualClock(0))
    for number in range(NETWORKS_MAX + 10):
        guesses.record_wrong(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")

    assert len(guesses._wrong) == NETWORKS_MAX


async def test_the_listener_itself_says_when_to_come_back() -> None:
    app = App(ManualClock(0))
    app.configure({"admin": "127.0.0.1:0", "admin_token": "the token", "store": "memory:"})
    admin = AdminServer(app)
    await admin.start()
    served = admin.url + "/"
    async with aiohttp.ClientSession() as session:
        for _ in range(GUESSES_MAX):
            async with session.get(served, headers={"Authorization": "Bearer guessed"}) as answer:
                assert answer.status == 401
        async with session.get(served, headers={"Authorization": "Bearer the token"}) as answer:
            assert answer.status == 429
            assert int(answer.headers["Retry-After"]) > 0
        async with session.get(served, headers={"Via": "1.1 feedproxy-00000000"}) as answer:
            assert answer.status == 403
    await admin.stop()
    await app.close()
