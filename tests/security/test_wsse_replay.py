"""Recorded WSSE tokens are refused a second time: in any spelling, for any user, and at any worker."""

import base64
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from feedproxy.access.wsse import UsernameToken, WsseVerifier
from feedproxy.access.wsse_nonces import NonceFolder

CREATED = "2027-01-15T08:00:00Z"
NOW = 1_800_000_000.0
"""CREATED as seconds since 1970."""

PASSWORDS = {"bob": "feed me", "carol": "feed me", "dave": "other"}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def made(nonce: bytes, *, decoded: bool, hexadecimal: bool, created: str = CREATED) -> UsernameToken:
    """Return a token as a reader sends it, with the nonce in base64."""
    sent = encoded(nonce)
    summed = hashlib.sha1((nonce if decoded else sent.encode()) + created.encode() + b"feed me")
    digest = summed.hexdigest().encode() if hexadecimal else summed.digest()
    return UsernameToken("bob", encoded(digest), sent, created)


def _sums(token: UsernameToken) -> Iterator[str]:
    """Return both spellings of the digest."""
    raw = base64.b64decode(token.digest)
    summed = raw if len(raw) == 20 else bytes.fromhex(raw.decode())
    yield encoded(summed)
    yield encoded(summed.hex().encode())


def _noncanonical(text: str) -> Iterator[str]:
    """Return other base64 texts that lenient decoders convert to the same bytes."""
    bare = text.rstrip("=")
    unused = {0: 0, 1: 2, 2: 4}[len(text) - len(bare)]
    last = ALPHABET.index(bare[-1]) & ~((1 << unused) - 1)
    yield from (bare[:-1] + ALPHABET[last | spare] + text[len(bare) :] for spare in range(1 << unused))
    yield from (bare, text + "=", text + "==", text + "\n", " " + text, text + " ", text[:2] + "\r\n" + text[2:])


def _nonces(text: str) -> Iterator[str]:
    """Return spellings of a nonce, some of which give the same digest."""
    yield text
    yield encoded(text.encode())
    yield encoded(encoded(text.encode()).encode())
    yield from _noncanonical(text)
    yield from _noncanonical(encoded(text.encode()))
    yield text.swapcase()


def _shifted(token: UsernameToken) -> Iterator[UsernameToken]:
    """Return the characters of nonce and Created split at other places, which gives the same digest."""
    for nonce in {token.nonce, base64.b64decode(token.nonce).decode("latin-1")}:
        whole = nonce + token.created
        for cut in range(len(whole) + 1):
            yield replace(token, nonce=whole[:cut], created=whole[cut:])
            yield replace(token, nonce=encoded(whole[:cut].encode("latin-1")), created=whole[cut:])
    yield replace(token, nonce=token.nonce[:-1], created=token.nonce[-1] + token.created)
    yield replace(token, created=" " + token.created)
    yield replace(token, created=token.created + " ")


def spellings(token: UsernameToken) -> list[UsernameToken]:
    """Return all tokens that can be derived from a recorded token without its password."""
    found = [*_shifted(token)]
    found += [replace(token, nonce=nonce) for nonce in _nonces(token.nonce)]
    found += [
        replace(each, digest=digest, user=user)
        for each, digest, user in product(found, _sums(token), ("bob", "carol", "dave", "BOB", "bob "))
    ]
    return found


@pytest.mark.parametrize("hexadecimal", [False, True])
@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize(
    "nonce",
    [b"0123456789abcdef", b"0123456789abcde", b"0123456789abcd", b"nonce with blank ", b"1", bytes(range(200, 216))],
)
def test_replayed_wsse_token_is_refused_in_every_spelling(nonce: bytes, decoded: bool, hexadecimal: bool) -> None:
    overheard, gate = made(nonce, decoded=decoded, hexadecimal=hexadecimal), WsseVerifier()
    assert gate.verify(overheard, PASSWORDS, NOW)

    again = [each for each in spellings(overheard) if gate.verify(each, PASSWORDS, NOW + 1)]

    assert again == []


@pytest.mark.parametrize(
    "respell", [lambda token: token, lambda token: replace(token, nonce=encoded(token.nonce.encode()))]
)
def test_replayed_wsse_token_is_refused_at_other_workers_and_after_a_restart(
    respell: Callable[[UsernameToken], UsernameToken], tmp_path: Path
) -> None:
    first, second = (WsseVerifier(shared=NonceFolder(tmp_path / "nonces")) for _ in range(2))
    overheard = made(b"0123456789abcdef", decoded=False, hexadecimal=False)
    respelled = [respell(overheard), replace(respell(overheard), user="carol")]
    assert all(WsseVerifier().verify(token, PASSWORDS, NOW + 1) for token in respelled)
    assert first.verify(overheard, PASSWORDS, NOW)

    assert not any(second.verify(token, PASSWORDS, NOW + 1) for token in respelled)


def test_used_token_stays_used_while_a_clock_is_ahead_and_after_it_is_set_back() -> None:
    gate = WsseVerifier()
    overheard = made(b"0123456789abcdef", decoded=True, hexadecimal=False)
    assert gate.verify(overheard, PASSWORDS, NOW)

    ahead = made(b"another", decoded=True, hexadecimal=False, created="2027-02-15T08:00:00Z")
    assert gate.verify(ahead, PASSWORDS, NOW + 31 * 86_400)

    assert not gate.verify(overheard, PASSWORDS, NOW + 1)


@pytest.mark.parametrize("number", range(1, 16))
def test_nonce_in_noncanonical_base64_is_not_decoded(number: int) -> None:
    nonce = b"0123456789abcdef"
    other = encoded(nonce)[:-3] + ALPHABET[(ALPHABET.index(encoded(nonce)[-3]) & ~15) | number] + "=="
    assert base64.b64decode(other) == nonce

    sent = replace(made(nonce, decoded=True, hexadecimal=False), nonce=other)

    assert not WsseVerifier().verify(sent, PASSWORDS, NOW)
