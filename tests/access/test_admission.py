"""Admission of readers: passwords, WSSE, secret addresses, and limits on guessing."""

import base64
from pathlib import Path

import argon2
import bcrypt
import pytest

from feedproxy.access import wsse
from feedproxy.access.authorization import AccessControl
from feedproxy.access.basic import parse
from feedproxy.access.failed_login_limit import GUESSES_MAX
from feedproxy.access.passwords import PasswordFile, parse_users, verify_hash
from feedproxy.clock import ManualClock
from feedproxy.errors import UsageError
from feedproxy.http.message import Fields
from feedproxy.settings import Settings
from tests.access.denials import denial, user_of

NOW = 1_800_000_000.0
HASHED = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(4)).decode()


def basic(user: str, password: str, field: str = "Authorization") -> Fields:
    """Return a request's fields with Basic credentials."""
    return Fields([(field, "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())])


def write(path: Path, text: str) -> None:
    """Replace a file as an operator's editor does."""
    path.write_text(text)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text(f"# readers\nbob:{HASHED}\n\n")
    return path


@pytest.fixture
def admission(passwords: Path, tmp_path: Path, clock: ManualClock) -> AccessControl:
    secrets = tmp_path / "secrets"
    secrets.write_text("carol:feed me\n")
    settings = Settings(users_file=str(passwords), wsse_file=str(secrets), realm="feeds")
    return AccessControl(settings, clock, b"")


async def test_feed_without_readers_option_is_open_to_all_clients(admission: AccessControl) -> None:
    assert await user_of(admission.authorize((), Fields(), "192.0.2.1")) == ""


async def test_request_without_credentials_gets_all_challenges(admission: AccessControl) -> None:
    asked = await denial(admission.authorize(("*",), Fields(), "192.0.2.1"))

    assert (asked.status_hint, str(asked)) == (401, "Authentication required.")
    assert asked.fields == (
        ("WWW-Authenticate", 'Basic realm="feeds", charset="UTF-8"'),
        ("WWW-Authenticate", 'WSSE realm="feeds", profile="UsernameToken"'),
    )


async def test_401_has_a_challenge_without_files_of_users(clock: ManualClock) -> None:
    admission = AccessControl(Settings(), clock, b"")

    asked = await denial(admission.authorize(("*",), Fields(), "192.0.2.1"))

    assert [name for name, _ in asked.fields] == ["WWW-Authenticate"]


async def test_request_to_explicit_proxy_gets_407_and_proxy_fields(admission: AccessControl) -> None:
    asked = await denial(admission.authorize(("*",), basic("bob", "open sesame"), "192.0.2.1", proxy=True))
    told = basic("bob", "open sesame", "Proxy-Authorization")

    assert (asked.status_hint, asked.fields[0][0]) == (407, "Proxy-Authenticate")
    assert await user_of(admission.authorize(("*",), told, "192.0.2.1", proxy=True)) == "bob"


async def test_password_that_is_right_authorizes_and_wrong_one_is_challenged(admission: AccessControl) -> None:
    assert await user_of(admission.authorize(("bob",), basic("bob", "open sesame"), "192.0.2.1")) == "bob"
    for wrong in (basic("bob", "sesame"), basic("eve", "open sesame")):
        asked = await denial(admission.authorize(("bob",), wrong, "192.0.2.1"))
        assert str(asked) == "The credentials are wrong."


async def test_password_verified_for_one_user_is_invalid_for_others(admission: AccessControl) -> None:
    await admission.authorize(("*",), basic("bob", "open sesame"), "192.0.2.1")

    assert (await denial(admission.authorize(("*",), basic("bo", "b:open sesame"), "192.0.2.1"))).status_hint == 401


async def test_user_not_among_readers_is_refused_without_challenge(admission: AccessControl) -> None:
    refused = await denial(admission.authorize(("carol",), basic("bob", "open sesame"), "192.0.2.1"))

    assert refused.status_hint == 403


async def test_wsse_token_authorizes_once(admission: AccessControl) -> None:
    fields = Fields(wsse.compose("carol", "feed me", NOW))

    assert await user_of(admission.authorize(("carol",), fields, "192.0.2.1")) == "carol"
    assert (await denial(admission.authorize(("carol",), fields, "192.0.2.1"))).status_hint == 401


async def test_guessing_client_is_refused_for_a_while_and_others_are_not(
    admission: AccessControl, clock: ManualClock
) -> None:
    for number in range(GUESSES_MAX):
        await denial(admission.authorize(("*",), basic("bob", str(number)), "192.0.2.1"))

    refused = await denial(admission.authorize(("*",), basic("bob", "open sesame"), "192.0.2.1"))

    assert (refused.status_hint, refused.fields) == (429, (("Retry-After", "301"),))
    assert await user_of(admission.authorize(("*",), basic("bob", "open sesame"), "192.0.2.2")) == "bob"
    clock.advance(301)
    assert await user_of(admission.authorize(("*",), basic("bob", "open sesame"), "192.0.2.1")) == "bob"


async def test_missing_credentials_are_not_counted_as_guess(admission: AccessControl) -> None:
    for _ in range(2 * GUESSES_MAX):
        await denial(admission.authorize(("*",), Fields(), "192.0.2.1"))

    assert await user_of(admission.authorize(("*",), basic("bob", "open sesame"), "192.0.2.1")) == "bob"


async def test_removed_user_is_refused_although_password_was_verified(passwords: Path, clock: ManualClock) -> None:
    users = PasswordFile(str(passwords), clock)
    given = parse(basic("bob", "open sesame").get("authorization") or "")
    assert given is not None
    assert await users.verify(given)

    write(passwords, "")
    clock.advance(1)

    assert not await users.verify(given)


async def test_password_file_broken_at_reload_keeps_its_users(
    passwords: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    users = PasswordFile(str(passwords), clock)
    given = parse(basic("bob", "open sesame").get("authorization") or "")
    assert given is not None

    write(passwords, "bob:plain text\n")
    clock.advance(1)

    assert await users.verify(given)
    assert "users:1" in caplog.text
    assert "plain text" not in caplog.text


def test_password_hash_may_be_argon2() -> None:
    hashed = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("open sesame")

    assert verify_hash(hashed, "open sesame")
    assert not verify_hash(hashed, "close sesame")


def test_password_longer_than_bcrypt_considers_is_refused() -> None:
    hashed = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()

    assert verify_hash(hashed, "x" * 72)
    assert not verify_hash(hashed, "x" * 73)


@pytest.mark.parametrize("line", ["bob", ":x", "bob:{SHA}abc", "bob:$apr1$abc", f"bob:{HASHED}\nbob:{HASHED}"])
def test_password_file_with_invalid_line_is_reported_with_its_place(line: str) -> None:
    with pytest.raises(UsageError, match=r"users:[12]: "):
        parse_users(line, "users")


@pytest.mark.parametrize("value", ["", "Basic", "Basic !", "Bearer abc", "Basic " + base64.b64encode(b"bob").decode()])
def test_basic_parser_rejects_invalid_credentials(value: str) -> None:
    assert parse(value) is None


def test_password_may_contain_colons_and_is_never_shown() -> None:
    given = parse(basic("bob", "a:b:ü").get("authorization") or "")

    assert given is not None
    assert (given.user, given.password) == ("bob", "a:b:ü")
    assert "a:b" not in repr(given)
