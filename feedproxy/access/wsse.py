"""WSSE UsernameToken: early Atom's proof of a password that is not sent (seed 003, 11.1.8).

`digest = base64(sha1(nonce + created + password))`. "The specification was cloudy as to whether a binary or ASCII
hexadecimal representation of the SHA1 sum was to be used". Clients also differ in whether the nonce is hashed as sent
or decoded. All four forms are accepted.

A proof is valid once, and only near the time it was made. It is remembered by its SHA-1 sum, because one sum can be
sent in many spellings: raw or hexadecimal, the nonce encoded once more or in non-canonical base64, characters moved
between nonce and Created, another user with the same password. A new sum needs the password. The server must know the
plain password, so it is for WSSE alone and differs from that for Basic.
"""

import base64
import binascii
import contextlib
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from feedproxy.access.nonces import NonceFolder
from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import format_rfc3339
from feedproxy.http.field_values import quote

TOKEN_LIFETIME: Seconds = 300
"""Seconds that Created may differ from now, both ways: "the server must check that the date is recent"."""

PROOFS_MAX = 100_000
"""Unexpired proofs that are remembered; with more, new ones are refused."""

FIELD_MAX = 2_048

_PARAMETER = re.compile(r'(?<![A-Za-z])([A-Za-z]++)\s*+=\s*+"((?:[^"\\]|\\.)*+)"')


class TokenVerdict(StrEnum):
    """The result of verifying a token."""

    PROVED = "proved"
    UNKNOWN = "unknown user or wrong digest"
    OLD = "made too long ago, or by a clock that is wrong"
    REPLAYED = "seen before"
    BUSY = "too many tokens at once"


@dataclass(frozen=True, slots=True)
class UsernameToken:
    """The value of X-WSSE; `digest` and `nonce` are as sent."""

    user: str
    digest: str = field(repr=False)
    nonce: str = field(repr=False)
    created: str


def parse(value: str) -> UsernameToken | None:
    """Return the token of a field X-WSSE; None for other and malformed values."""
    kind, _, rest = value.strip().partition(" ")
    if kind.lower() != "usernametoken" or len(value) > FIELD_MAX:
        return None
    found = {name.lower(): re.sub(r"\\(.)", r"\1", text) for name, text in _PARAMETER.findall(rest)}
    try:
        return UsernameToken(found["username"], found["passworddigest"], found["nonce"], found["created"])
    except KeyError:
        return None


def created_at(token: UsernameToken) -> Instant | None:
    """Return the token's time of creation; a time without zone is UTC."""
    try:
        moment = datetime.fromisoformat(token.created.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def digests(nonce: str, created: str, password: str) -> list[str]:
    """Return the accepted digests: raw or hexadecimal, nonce as sent or decoded."""
    return [text for _, text in _sums(nonce, created, password)]


def _sums(nonce: str, created: str, password: str) -> list[tuple[bytes, str]]:
    """Return the accepted digests, each with its SHA-1 sum."""
    nonces = [nonce.encode()]
    with contextlib.suppress(binascii.Error, ValueError):
        decoded = base64.b64decode(nonce, validate=True)
        # RFC 4648, section 3.5: of spellings that decode to the same bytes only the canonical one is accepted.
        if base64.b64encode(decoded).decode("ascii") == nonce:
            nonces.append(decoded)
    made = []
    for nonce_bytes in nonces:
        summed = hashlib.sha1(nonce_bytes + created.encode() + password.encode(), usedforsecurity=False)
        made.append((summed.digest(), base64.b64encode(summed.digest()).decode("ascii")))
        made.append((summed.digest(), base64.b64encode(summed.hexdigest().encode("ascii")).decode("ascii")))
    return made


class WsseVerifier:
    """Verifies tokens, each of them once."""

    def __init__(
        self, *, window: Seconds = TOKEN_LIFETIME, proofs_max: int = PROOFS_MAX, shared: NonceFolder | None = None
    ) -> None:
        """`shared` holds the proofs that other processes have accepted."""
        self._window = window
        self._shared = shared
        self._proofs_max = proofs_max
        self._seen: OrderedDict[bytes, Instant] = OrderedDict()

    def verify(self, token: UsernameToken, passwords: Mapping[str, str], now: Instant) -> TokenVerdict:
        """Verify a token and record its proof, so that it is not accepted again."""
        password = passwords.get(token.user)
        # A user that does not exist takes as long as one that does.
        made = _sums(token.nonce, token.created, password if password is not None else secrets.token_hex(8))
        matches = [summed for summed, text in made if hmac.compare_digest(text.encode(), token.digest.encode())]
        if password is None or not matches:
            return TokenVerdict.UNKNOWN
        created = created_at(token)
        if created is None or abs(now - created) > self._window:
            return TokenVerdict.OLD
        summed = matches[0]
        if summed in self._seen:
            return TokenVerdict.REPLAYED
        # Only when full: after a clock is set back, expired proofs would be accepted again.
        if len(self._seen) >= self._proofs_max:
            self._forget_expired(now)
        if len(self._seen) >= self._proofs_max:
            return TokenVerdict.BUSY
        # Created may be ahead of now by the window; the proof is valid for the window after that.
        self._seen[summed] = until = now + 2 * self._window
        if self._shared is not None and not self._shared.claim(summed, until, now):
            return TokenVerdict.REPLAYED
        return TokenVerdict.PROVED

    def _forget_expired(self, now: Instant) -> None:
        while self._seen:
            summed, until = next(iter(self._seen.items()))
            if until >= now:
                return
            del self._seen[summed]


def challenge(realm: str) -> str:
    """Return the value of WWW-Authenticate."""
    return f'WSSE realm={quote(realm)}, profile="UsernameToken"'


def compose(user: str, password: str, now: Instant, nonce: str = "") -> tuple[tuple[str, str], ...]:
    """Return the two fields that prove this password to an origin: raw digest, nonce as sent."""
    nonce = nonce or secrets.token_hex(16)
    created = format_rfc3339(now)
    digest = digests(nonce, created, password)[0]
    token = f'UsernameToken Username={quote(user)}, PasswordDigest="{digest}", Nonce="{nonce}", Created="{created}"'
    return ("Authorization", 'WSSE profile="UsernameToken"'), ("X-WSSE", token)
