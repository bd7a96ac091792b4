"""Access to the admin listener: no request from another feedproxy, and no guessing of the token."""

import aiohttp
import pytest

from feedproxy.access.failed_login_limit import GUESS_WINDOW, GUESSES_MAX, NETWORKS_MAX, FailedLoginLimit
from feedproxy.admin.admin_authorization import AdminAuthorization
from feedproxy.admin.routes import start_admin_listener
from feedproxy.app import App
from feedproxy.clock import ManualClock

OURS = {"Host": "127.0.0.1:8081"}


@pytest.mark.parametrize("path", ["/", "/api/feeds", "/purge", "/healthz", "/metrics"])
@pytest.mark.parametrize(
    "via", ["1.1 feedproxy-0123abcd", "1.0 first, 1.1 FEEDPROXY-00000000", "1.1 feedproxy-1 (x), 1.1 other"]
)
def test_request_that_passed_a_feedproxy_is_refused(path: str, via: str) -> None:
    refusal = AdminAuthorization("127.0.0.1").refuse("GET", path, {**OURS, "Via": via})

    assert refusal is not None
    assert refusal.status == 403


def test_every_via_field_is_checked() -> None:
    from multidict import CIMultiDict

    fields = CIMultiDict([("Host", "127.0.0.1:8081"), ("Via", "1.1 balancer"), ("via", "1.1 feedproxy-00000000")])

    assert AdminAuthorization("127.0.0.1").refuse("GET", "/", fields) is not None


def test_request_through_another_proxy_is_accepted() -> None:
    assert AdminAuthorization("127.0.0.1").refuse("GET", "/", {**OURS, "Via": "1.1 balancer"}) is None


def test_token_guesses_are_limited_for_their_network_only() -> None:
    clock = ManualClock(1_000_000)
    authorization = AdminAuthorization("127.0.0.1", "right", clock=clock)

    def status(token: str, peer: str = "192.0.2.1") -> int | None:
        refusal = authorization.refuse("GET", "/", {**OURS, "Authorization": f"Bearer {token}"}, peer)
        return refusal.status if refusal is not None else None

    assert [status(f"guess {number}") for number in range(GUESSES_MAX)] == [401] * GUESSES_MAX
    assert status("right") == 429, "even the right one tells nothing now"
    assert status("right", "192.0.2.2") is None
    refusal = authorization.refuse("GET", "/", OURS, "192.0.2.1")
    assert refusal is not None
    assert 0 < refusal.retry_after <= GUESS_WINDOW + 1
    clock.advance(GUESS_WINDOW)
    assert status("right") is None


def test_request_without_a_token_is_not_a_guess() -> None:
    authorization = AdminAuthorization("127.0.0.1", "right", clock=ManualClock(0))

    for _ in range(2 * GUESSES_MAX):
        refusal = authorization.refuse("GET", "/", OURS, "192.0.2.1")
        assert refusal is not None
        assert refusal.status == 401


def test_host_with_many_ipv6_addresses_is_one_client() -> None:
    guesses = FailedLoginLimit(ManualClock(0))
    for number in range(GUESSES_MAX):
        guesses.record_wrong(f"2001:db8::{number:x}")

    assert guesses.retry_after("2001:db8::ffff") > 0
    assert guesses.retry_after("2001:db8:0:1::1") <= 0
    assert FailedLoginLimit(ManualClock(0)).retry_after("") <= 0


def test_clock_set_back_prolongs_no_waiting_time() -> None:
    clock = ManualClock(1_000_000)
    guesses = FailedLoginLimit(clock)
    for _ in range(GUESSES_MAX):
        guesses.record_wrong("192.0.2.1")
    clock.advance(-500_000)

    assert guesses.retry_after("192.0.2.1") <= GUESS_WINDOW


def test_number_of_remembered_networks_is_limited() -> None:
    guesses = FailedLoginLimit(ManualClock(0))
    for number in range(NETWORKS_MAX + 10):
        guesses.record_wrong(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")

    assert len(guesses._wrong) == NETWORKS_MAX


async def test_response_to_a_guess_has_retry_after() -> None:
    app = App(ManualClock(0))
    app.configure({"admin": "127.0.0.1:0", "admin_token": "the token", "store": "memory:"})
    admin = await start_admin_listener(app)
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
