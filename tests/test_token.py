"""`feedproxy token`: an address is shown once, listed without its secret, and revoked."""

from pathlib import Path

import pytest

from feedproxy.cli import main


def test_secret_address_is_shown_once_and_can_be_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--file", str(tmp_path / "tokens")]

    assert main(["token", "add", "bob", "https://example.com/feed.xml", "--at", "https://proxy.example/", *file]) == 0
    name, address = capsys.readouterr().out.split()
    secret = address.split("/")[5]
    assert address == f"https://proxy.example/-/with/{secret}/https://example.com/feed.xml"
    assert len(secret) >= 24

    assert main(["token", "list", *file]) == 0
    listed = capsys.readouterr().out
    assert listed.split() == [name, "bob", "https://example.com/feed.xml"]
    assert main(["token", "revoke", name, *file]) == 0
    assert main(["token", "revoke", name, *file]) == 1
    assert capsys.readouterr().out.split() == [name, "bob", "https://example.com/feed.xml", "revoked"]


def test_revoking_an_unknown_token_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens"

    assert main(["token", "revoke", "bob", "carol", "--file", str(file)]) == 1

    assert capsys.readouterr().err == f"feedproxy: {file} has no token of bob, carol\n"


def test_token_list_without_a_token_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens"

    assert main(["token", "list", "--file", str(file)]) == 0

    assert capsys.readouterr().err == f"feedproxy: {file} has no token\n"


@pytest.mark.parametrize("action", [["revoke", "bob"], ["add", "bob", "https://example.com/feed.xml"]])
def test_misspelt_path_creates_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str], action: list[str]) -> None:
    file = tmp_path / "misspelt" / "tokens"

    assert main(["token", *action, "--file", str(file)]) == 2

    assert capsys.readouterr().err == f"feedproxy: {file}: No such file or directory\n"
    assert not file.parent.exists()


@pytest.mark.parametrize("address", ["ftp://proxy.example/", "proxy.example"])
def test_address_of_the_proxy_is_checked_before_a_token_is_issued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    file = tmp_path / "tokens"

    assert main(["token", "add", "bob", "https://example.com/f", "--at", address, "--file", str(file)]) == 2

    assert f"--at {address}: " in capsys.readouterr().err
    assert not file.exists()


def test_missing_file_of_tokens_is_an_error_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token"]) == 2
    assert "--file FILE" in capsys.readouterr().err


def test_configuration_provides_the_file_of_tokens_and_the_public_url(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "feedproxy.yaml"
    config.write_text(
        f"tokens_file: {tmp_path / 'tokens'}\nupstream: http://127.0.0.1:8000\npublic_url: https://feeds.example/\n"
    )

    assert main(["token", "add", "bob", "https://feeds.example/feed.xml", "--config", str(config)]) == 0

    address = capsys.readouterr().out.split()[1]
    assert address.startswith("https://feeds.example/-/with/")
    assert address.endswith("/feed.xml")


@pytest.mark.parametrize(
    ("user", "readers", "warned"),
    [("alcie", "[alice]", True), ("alice", "[alice, bob]", False), ("alcie", "['*']", False), ("alcie", "[]", False)],
)
def test_user_that_no_readers_option_names_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], user: str, readers: str, warned: bool
) -> None:
    config = tmp_path / "feedproxy.yaml"
    config.write_text(
        f"tokens_file: {tmp_path / 'tokens'}\nfeeds:\n  - match: https://example.com/*\n    readers: {readers}\n"
    )

    assert main(["token", "add", user, "https://example.com/feed.xml", "--config", str(config)]) == 0

    message = f"feedproxy: warning: no option readers names the user {user}\n"
    assert capsys.readouterr().err == (message if warned else "")
