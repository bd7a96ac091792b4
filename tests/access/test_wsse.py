"""WSSE UsernameToken: the four forms of the digest, the time window, and nonces that are accepted once."""

import base64
import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from feedproxy.access.wsse import UsernameToken, WsseVerifier, challenge, compose, parse
from feedproxy.access.wsse_nonces import NonceFolder

CREATED = "2003-12-15T14:43:07Z"
NOW = 1_071_499_387.0
"""CREATED as seconds since 1970."""

SENT = (
    'UsernameToken Username="bob", PasswordDigest="quR/EWLAV4xLf9Zqyw4pDmfV9OY=", '
    f'Nonce="d36e316282959a9ed4c89851497a717f", Created="{CREATED}"'
)
"""The example that early Atom texts give; its password is below."""

PASSWORDS = {"bob": "taadtaadpstcsm"}


def token(*, hexadecimal: bool = False, decoded: bool = False, nonce: bytes = b"once", created: str = CREATED) -> str:
    """Return a UsernameToken in one of the forms that existing readers send."""
    sent = base64.b64encode(nonce)
    summed = hashlib.sha1((nonce if decoded else sent) + created.encode() + PASSWORDS["bob"].encode())
    digest = base64.b64encode(summed.hexdigest().encode() if hexadecimal else summed.digest()).decode()
    return f'UsernameToken Username="bob", PasswordDigest="{digest}", Nonce="{sent.decode()}", Created="{created}"'


def proved(value: str, gate: WsseVerifier | None = None, now: float = NOW) -> bool:
    read = parse(value)
    assert read is not None
    return (gate or WsseVerifier()).verify(read, PASSWORDS, now)


def test_wsse_example_of_specification_is_proved() -> None:
    assert proved(SENT)


@pytest.mark.parametrize("hexadecimal", [False, True])
@pytest.mark.parametrize("decoded", [False, True])
def test_wsse_digest_may_be_raw_or_hexadecimal_over_coded_or_decoded_nonce(hexadecimal: bool, decoded: bool) -> None:
    assert proved(token(hexadecimal=hexadecimal, decoded=decoded))


def test_wsse_token_of_another_password_or_user_is_unknown() -> None:
    read = parse(SENT)
    assert read is not None

    assert not WsseVerifier().verify(read, {"bob": "another"}, NOW)
    assert not WsseVerifier().verify(read, {"alice": "taadtaadpstcsm"}, NOW)


@pytest.mark.parametrize(
    ("off", "verdict"),
    [(-300, True), (300, True), (-301, False), (301, False)],
)
def test_wsse_created_may_differ_by_five_minutes(off: float, verdict: bool) -> None:
    assert proved(SENT, now=NOW + off) is verdict


@pytest.mark.parametrize("created", ["", "yesterday", "2003-13-40T00:00:00Z", "1071499387"])
def test_wsse_created_that_is_invalid_is_old(created: str) -> None:
    assert not proved(token(created=created))


def test_wsse_token_is_accepted_once_within_its_lifetime() -> None:
    gate = WsseVerifier()

    assert proved(SENT, gate, NOW - 300)
    assert not proved(SENT, gate, NOW - 300)
    assert not proved(SENT, gate, NOW + 300)


def test_wsse_token_used_at_one_worker_is_refused_by_others_and_after_restart(tmp_path: Path) -> None:
    first, second = (WsseVerifier(shared=NonceFolder(tmp_path / "nonces")) for _ in range(2))

    assert proved(SENT, first, NOW - 300)
    assert not proved(SENT, second, NOW + 300)
    assert proved(token(nonce=b"another"), second, NOW)


def test_wsse_token_used_concurrently_authorizes_once(tmp_path: Path) -> None:
    folders = [NonceFolder(tmp_path / "nonces") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for nonce in (b"a", b"b", b"c"):
            assert sum(pool.map(lambda each, n=nonce: each.claim(n, NOW + 600, NOW), folders)) == 1


def test_nonce_folder_removes_expired_proofs_and_stores_no_names(tmp_path: Path) -> None:
    folder = NonceFolder(tmp_path)
    for nonce in (b"a", b"b"):
        assert folder.claim(nonce, NOW + 600, NOW)

    names = [each.name for each in tmp_path.iterdir()]
    assert len(names) == 3
    assert not any("bob" in each for each in names)
    assert folder.claim(b"a", NOW + 1200, NOW + 601)
    assert len(list(tmp_path.iterdir())) == 2


def test_nonce_folder_that_fails_accepts_tokens(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert proved(SENT, WsseVerifier(shared=NonceFolder(tmp_path / "file" / "nonces")), NOW)


def test_nonce_with_wrong_digest_is_not_consumed() -> None:
    gate = WsseVerifier()
    wrong = UsernameToken("bob", "wrong", "d36e316282959a9ed4c89851497a717f", CREATED)

    assert not gate.verify(wrong, PASSWORDS, NOW)
    assert proved(SENT, gate)


def test_nonces_are_kept_until_they_expire() -> None:
    gate = WsseVerifier(proofs_max=2)

    assert proved(token(nonce=b"1"), gate)
    assert proved(token(nonce=b"2"), gate)
    assert not proved(token(nonce=b"3"), gate)
    later = "2003-12-15T14:53:08Z"
    assert proved(token(nonce=b"3", created=later), gate, NOW + 601)


@pytest.mark.parametrize("value", ["", "Basic abc", "UsernameToken", 'UsernameToken Username="bob"', "x" * 10_000])
def test_wsse_parser_rejects_invalid_tokens(value: str) -> None:
    assert parse(value) is None


def test_composed_wsse_fields_prove_password() -> None:
    fields = dict(compose("bob", PASSWORDS["bob"], NOW))

    assert fields["Authorization"] == 'WSSE profile="UsernameToken"'
    assert proved(fields["X-WSSE"])


def test_wsse_challenge_has_realm_and_profile() -> None:
    assert challenge('a "b"') == 'WSSE realm="a \\"b\\"", profile="UsernameToken"'


def test_wsse_digest_is_not_in_repr() -> None:
    assert "quR/" not in repr(parse(SENT))
