"""Guessing of passwords: response times reveal no name, and each client is limited whatever addresses it uses."""

import asyncio
import base64
import threading
from collections import Counter
from pathlib import Path

import argon2
import bcrypt
import pytest

from feedproxy.access import passwords as users_module
from feedproxy.access.authorization import AccessControl
from feedproxy.access.basic import BasicCredentials
from feedproxy.access.failed_login_limit import GUESSES_MAX
from feedproxy.access.passwords import PasswordFile, verify_hash
from feedproxy.clock import ManualClock
from feedproxy.errors import AccessDenied
from feedproxy.http.message import Fields
from feedproxy.notify.client_rate_limit import RateLimiter
from feedproxy.settings import Settings
from tests.access.denials import denial, user_of
from tests.waiting import PATIENCE

NOW = 1_800_000_000.0
CHEAP = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(4)).decode()
DEARER = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(6)).decode()
ARGON = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("open sesame")


def basic(user: str, password: str) -> Fields:
    return Fields([("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def file_of(folder: Path, *hashes: str) -> str:
    path = folder / "users"
    path.write_text("".join(f"user{number}:{hashed}\n" for number, hashed in enumerate(hashes)))
    return str(path)


def admission(path: str, clock: ManualClock) -> AccessControl:
    return AccessControl(Settings(users_file=path), clock, b"")


def kind_of(hashed: str) -> str:
    """Return algorithm and cost of a hash, which determine the time of a check."""
    return hashed[:7] if hashed.startswith("$2") else hashed.rpartition("$")[0].rpartition("$")[0]


@pytest.mark.parametrize(
    "hashes", [(CHEAP,), (DEARER,), (ARGON,), (CHEAP, DEARER, ARGON), (CHEAP, CHEAP, CHEAP, ARGON)]
)
async def test_unknown_user_is_checked_with_the_costs_of_the_file(
    hashes: tuple[str, ...], clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def accept(hashed: str, _: object) -> bool:
        checked.append(hashed)
        return True

    monkeypatch.setattr(users_module, "verify_hash", accept)
    users = PasswordFile(file_of(tmp_path, *hashes), clock)

    answers = [await users.verify(BasicCredentials(f"nobody{number}", "open sesame")) for number in range(200)]

    assert not any(answers)
    # Unknown names are distributed over the hashes like known ones, so the time of a response reveals nothing.
    found, expected = Counter(map(kind_of, checked)), Counter(map(kind_of, hashes))
    assert found.keys() == expected.keys()
    for kind, number in expected.items():
        assert abs(found[kind] / 200 - number / len(hashes)) < 0.2


async def test_unknown_user_is_checked_against_the_same_hash_each_time(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def refuse(hashed: str, _: object) -> bool:
        checked.append(hashed)
        return False

    monkeypatch.setattr(users_module, "verify_hash", refuse)
    users = PasswordFile(file_of(tmp_path, CHEAP, DEARER, ARGON), clock)

    for number in range(20):
        await users.verify(BasicCredentials("nobody", f"guess {number}"))

    assert len(set(checked)) == 1


async def test_unknown_user_with_the_password_of_another_is_never_accepted(clock: ManualClock, tmp_path: Path) -> None:
    users = PasswordFile(file_of(tmp_path, CHEAP), clock)

    assert [await users.verify(BasicCredentials("nobody", "open sesame")) for _ in range(2)] == [False, False]
    assert await PasswordFile(file_of(tmp_path), clock).verify(BasicCredentials("nobody", "open sesame")) is False


async def test_password_changed_during_its_check_is_not_remembered(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, file_changed = threading.Event(), threading.Event()

    def verify_slowly(hashed: str, password: str) -> bool:
        begun.set()
        return file_changed.wait(PATIENCE) and verify_hash(hashed, password)

    monkeypatch.setattr(users_module, "verify_hash", verify_slowly)
    users = PasswordFile(file_of(tmp_path, CHEAP), clock)
    former = BasicCredentials("user0", "open sesame")
    checking = asyncio.create_task(users.verify(former))
    await asyncio.to_thread(begun.wait, PATIENCE)
    file_of(tmp_path, bcrypt.hashpw(b"another", bcrypt.gensalt(4)).decode(), CHEAP)
    clock.advance(2)
    other = asyncio.create_task(users.verify(BasicCredentials("user0", "another")))
    await asyncio.sleep(0)
    file_changed.set()

    assert (await checking, await other) == (True, True)
    assert not await users.verify(former)


async def test_guesses_from_one_ipv6_network_count_as_one_client(clock: ManualClock, tmp_path: Path) -> None:
    asked = admission(file_of(tmp_path, CHEAP), clock)
    for number in range(GUESSES_MAX):
        wrong = asked.authorize(("*",), basic("user0", str(number)), f"2001:db8:0:1::{number:x}")
        assert (await denial(wrong)).status_hint == 401

    refused = await denial(asked.authorize(("*",), basic("user0", "open sesame"), "2001:db8:0:1:ffff:ffff:ffff:ffff"))

    assert refused.status_hint == 429
    assert await user_of(asked.authorize(("*",), basic("user0", "open sesame"), "2001:db8:0:2::1")) == "user0"


async def test_ipv4_address_and_its_ipv6_form_count_as_one_client(clock: ManualClock, tmp_path: Path) -> None:
    asked = admission(file_of(tmp_path, CHEAP), clock)
    for number in range(GUESSES_MAX):
        address = ("192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201")[number % 3]
        await denial(asked.authorize(("*",), basic("user0", str(number)), address))

    assert (await denial(asked.authorize(("*",), basic("user0", "open sesame"), "192.0.2.1"))).status_hint == 429
    assert await user_of(asked.authorize(("*",), basic("user0", "open sesame"), "192.0.2.2")) == "user0"


async def test_concurrent_guesses_are_answered_up_to_the_limit(clock: ManualClock, tmp_path: Path) -> None:
    asked = admission(file_of(tmp_path, CHEAP), clock)
    passwords = [*(str(number) for number in range(GUESSES_MAX + 10)), "open sesame"]

    answers = await asyncio.gather(
        *(
            asked.authorize(("*",), basic("user0", each), "192.0.2.1")
            for each in passwords[: users_module.CHECKS_WAITING_MAX]
        ),
        return_exceptions=True,
    )

    assert all(isinstance(each, AccessDenied) for each in answers)


async def test_password_guesses_counted_by_a_clock_that_was_ahead_block_no_reader(
    clock: ManualClock, tmp_path: Path
) -> None:
    asked = admission(file_of(tmp_path, CHEAP), clock)
    clock.advance(365 * 86_400)
    for number in range(GUESSES_MAX):
        await denial(asked.authorize(("*",), basic("user0", str(number)), "192.0.2.1"))
    clock.advance(-365 * 86_400)

    assert await user_of(asked.authorize(("*",), basic("user0", "open sesame"), "192.0.2.1")) == "user0"


def test_pings_from_one_ipv6_network_count_as_one_source() -> None:
    sources = RateLimiter()

    assert [sources.allow(f"2001:db8::{number:x}", NOW, 2) for number in range(3)] == [True, True, False]
    assert sources.allow("2001:db8:0:1::1", NOW, 2)
