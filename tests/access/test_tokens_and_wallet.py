"""Secret tokens that can be revoked, and credentials of users for origins."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from feedproxy import option_files
from feedproxy.access.origin_credentials import OriginCredentials, parse_wallet
from feedproxy.access.secret_tokens import TokenFile, issue, list_tokens, revoke
from feedproxy.clock import ManualClock
from feedproxy.errors import UsageError
from feedproxy.http.message import Fields, Request
from feedproxy.http.target_uri.url_redaction import without_secrets
from feedproxy.upstream.upstream_errors import FetchError

NOW = 1_800_000_000.0
SEED = bytes(32)
FEED = "https://paid.example/feed"

WALLET = """\
- match: https://paid.example/*
  user: "*"
  basic: {user: us, password: "every:one"}
- match: https://paid.example/feed
  user: bob
  query: {token: "b&b"}
- match: https://open.example/*
  anybody: true
  bearer: abc
"""


def test_secret_token_is_valid_for_its_pattern_and_not_stored(tmp_path: Path) -> None:
    path, clock = tmp_path / "tokens", ManualClock(NOW)

    _, secret = issue(path, "bob", "https://example.com/*")
    tokens = TokenFile(str(path), clock)

    assert tokens.user_of(secret, "https://example.com/feed") == "bob"
    assert tokens.user_of(secret, "https://example.org/feed") is None
    assert tokens.user_of(secret + "x", "https://example.com/feed") is None
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_revoked_token_is_refused_within_a_second(tmp_path: Path) -> None:
    path, clock = tmp_path / "tokens", ManualClock(NOW)
    token, secret = issue(path, "bob", "example.com")
    _, other = issue(path, "bob", "example.com")
    tokens = TokenFile(str(path), clock)

    assert [each.id for each in revoke(path, [token.id])] == [token.id]
    clock.advance(1)

    assert tokens.user_of(secret, "https://example.com/feed") is None
    assert tokens.user_of(other, "https://example.com/feed") == "bob"
    assert revoke(path, ["nobody"]) == []
    assert len(list_tokens(path)) == 1


def test_revoked_token_is_refused_after_its_file_becomes_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, path = ManualClock(NOW), tmp_path / "tokens"
    token, secret = issue(path, "bob", "https://x.example/*")
    tokens = TokenFile(str(path), clock)
    revoke(path, [token.id])
    with monkeypatch.context() as unreadable:
        unreadable.setattr(option_files, "read", refuse_to_read)
        clock.advance(2)
        assert tokens.user_of(secret, "https://x.example/feed") == "bob"

    path.chmod(0o640)
    clock.advance(2)
    assert tokens.user_of(secret, "https://x.example/feed") is None


def refuse_to_read(path: Path) -> bytes:
    raise PermissionError(13, "Permission denied")


def test_file_of_tokens_keeps_its_mode_owner_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path := tmp_path / "tokens").touch(0o640)
    path.chmod(0o640)
    (link := tmp_path / "link").symlink_to(path)
    issue(link, "bob", "https://x.example/*")
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640

    owners = []
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)  # as if another user ran the command
    monkeypatch.setattr(os, "fchown", lambda handle, *owner: owners.append(owner))
    revoke(path, ["bob"])
    assert owners == [(path.stat().st_uid, path.stat().st_gid)]

    monkeypatch.setattr(os, "replace", lambda *_: path.rmdir())  # fails
    with pytest.raises(UsageError):
        issue(path, "bob", "https://x.example/*")
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_commands_that_write_the_file_of_tokens_at_once_lose_no_change(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    users = [f"user{number}" for number in range(16)]
    for user in users:
        issue(file, user, "https://example.com/*")
    start = threading.Barrier(2 * len(users))

    def renew(user: str) -> None:
        start.wait()
        issue(file, f"{user}-new", "https://example.com/*")

    def withdraw(user: str) -> None:
        start.wait()
        revoke(file, [user])

    with ThreadPoolExecutor(2 * len(users)) as threads:
        for change in (renew, withdraw):
            for user in users:
                threads.submit(change, user)

    assert sorted(token.user for token in list_tokens(file)) == sorted(f"{user}-new" for user in users)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]


def test_file_of_tokens_that_becomes_a_pipe_keeps_its_tokens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "tokens", ManualClock(NOW)
    _, secret = issue(path, "bob", "https://example.com/*")
    tokens = TokenFile(str(path), clock)
    path.unlink()
    os.mkfifo(path)

    clock.advance(1)

    assert tokens.user_of(secret, "https://example.com/feed") == "bob"
    assert "it is a pipe" in caplog.text
    with pytest.raises(UsageError, match="it is a pipe: expected a file"):
        TokenFile(str(path), clock)


def test_secret_token_is_redacted_from_addresses(tmp_path: Path) -> None:
    for _ in range(50):
        _, secret = issue(tmp_path / "tokens", "bob", "example.com")

        assert secret not in without_secrets(f"/-/with/{secret}/https://example.com/feed.xml")


@pytest.mark.parametrize(
    ("user", "pattern"), [("", "example.com"), ("a b", "example.com"), ("bob", "ftp://x/"), ("bob", "a b")]
)
def test_secret_token_needs_user_and_pattern(tmp_path: Path, user: str, pattern: str) -> None:
    with pytest.raises(UsageError):
        issue(tmp_path / "tokens", user, pattern)
    assert list_tokens(tmp_path / "tokens") == []


@pytest.fixture
def wallet(tmp_path: Path) -> OriginCredentials:
    path = tmp_path / "wallet.yaml"
    path.write_text(WALLET)
    return OriginCredentials(str(path), ManualClock(NOW), SEED)


def sent(wallet: OriginCredentials, target: str, user: str) -> Request | None:
    """Return the request that the origin receives when this user requests the target."""
    key = wallet.key_for(target, user)
    request = Request("GET", key, Fields([("Authorization", "mine")]))
    return wallet.with_credentials(request) if key != target else None


def test_wallet_entry_for_a_user_precedes_an_entry_for_all_users(wallet: OriginCredentials) -> None:
    own, common = sent(wallet, FEED, "bob"), sent(wallet, FEED, "carol")

    assert own is not None
    assert common is not None
    assert (own.target, own.fields.get("authorization")) == (FEED + "?token=b%26b", None)
    assert (common.target, common.fields.get("authorization")) == (FEED, "Basic dXM6ZXZlcnk6b25l")


def test_wallet_sends_only_credentials_for_anybody_if_the_client_is_not_signed_in(wallet: OriginCredentials) -> None:
    assert sent(wallet, FEED, "") is None
    given = sent(wallet, "https://open.example/feed", "")
    assert given is not None
    assert given.fields.get("authorization") == "Bearer abc"


def test_cache_keys_differ_by_credential_and_password(
    wallet: OriginCredentials,
) -> None:
    changed = parse_wallet(WALLET.replace("every:one", "two"), "wallet", seed=SEED)[0]
    elsewhere = parse_wallet(WALLET, "wallet", seed=bytes([1]) * 32)[0]
    own, common = wallet.key_for(FEED, "bob"), wallet.key_for(FEED, "carol")

    assert len({own, common, changed.cache_key(FEED), elsewhere.cache_key(FEED), FEED}) == 5
    assert {*wallet.keys_for(FEED)} == {own, common}
    with pytest.raises(FetchError):
        wallet.with_credentials(Request("GET", changed.cache_key(FEED)))


def test_key_of_a_credential_for_other_targets_adds_no_credential(wallet: OriginCredentials) -> None:
    other = "https://elsewhere.example/"
    credential = wallet.key_for(FEED, "carol").removeprefix(FEED)

    assert wallet.with_credentials(Request("GET", other + credential)) == Request("GET", other)


def test_wallet_without_entries_is_empty() -> None:
    assert parse_wallet("# no entries yet\n", "wallet", seed=SEED) == ()


def test_invalid_yaml_in_wallet_is_reported_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"^wallet:3: invalid YAML$"):
        parse_wallet("- match: x\n  user: bob\n]", "wallet", seed=SEED)


@pytest.mark.parametrize(
    "text",
    [
        "match: x",
        "- [hush]",
        "- match: https://a.example/*\n  user: 5\n  bearer: hush",
        "- match: https://a.example/*\n  basic: {user: u, password: hush}",
        "- match: https://a.example/*\n  user: bob\n  anybody: true\n  bearer: hush",
        "- match: https://a.example/*\n  user: bob\n  basic: {user: u}",
        "- match: https://a.example/*\n  user: bob",
        "- match: ftp://a.example/*\n  user: bob\n  bearer: hush",
        '- match: https://a.example/*\n  user: bob\n  bearer: "hush\\n"',
        "- match: https://a.example/*\n  user: bob\n  bearer: hush\n  colour: red",
        "- {",
    ],
)
def test_invalid_wallet_is_reported_with_its_place_and_without_secrets(text: str) -> None:
    with pytest.raises(UsageError, match="wallet") as told:
        parse_wallet(text, "wallet", seed=SEED)

    assert "hush" not in str(told.value)
    assert "unknown: h" not in str(told.value)
    assert "hush" not in repr(parse_wallet(WALLET.replace("abc", "hush"), "wallet", seed=SEED))
