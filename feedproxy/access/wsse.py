"""WSSE UsernameToken, from the early days of Atom: a proof that the client knows a password, without sending it.

The client sends `digest = base64(sha1(nonce + created + password))`. Some clients use the raw SHA-1 sum, others the
hexadecimal sum. Some use the nonce as sent, others the decoded nonce. All four forms are accepted. A proof is valid
once, and only near the time at which it was made.
"""

import base64
import contextlib
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from feedproxy.access.wsse_nonces import NonceFolder
from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import format_rfc3339
from feedproxy.http.field_values import quote

TOKEN_LIFETIME: Seconds = 300
"""Maximum difference between Created and the current time, in seconds, in both directions."""

PROOFS_MAX = 100_000
"""At most this many unexpired proofs are remembered. At the limit, new proofs are refused."""

FIELD_MAX = 2_048
"""A value of X-WSSE of more than this many characters is not parsed."""

_PARAMETER = re.compile(r'(?<![A-Za-z])([A-Za-z]++)\s*+=\s*+"((?:[^"\\]|\\.)*+)"')


@dataclass(frozen=True, slots=True)
class UsernameToken:
    """The value of X-WSSE. `digest` and `nonce` are as sent."""

    user: str
    digest: str = field(repr=False)
    nonce: str = field(repr=False)
    created: str


def parse(value: str) -> UsernameToken | None:
    """Return the token in a value of X-WSSE, or None if the value is malformed or has another kind of token."""
    kind, _, parameters = value.strip().partition(" ")
    if kind.lower() != "usernametoken" or len(value) > FIELD_MAX:
        return None
    values = {name.lower(): re.sub(r"\\(.)", r"\1", text) for name, text in _PARAMETER.findall(parameters)}
    try:
        return UsernameToken(values["username"], values["passworddigest"], values["nonce"], values["created"])
    except KeyError:
        return None


def created_at(token: UsernameToken) -> Instant | None:
    """Return the time in Created, or None if Created is invalid. A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(token.created.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _sums(nonce: str, created: str, password: str) -> list[tuple[bytes, str]]:
    """Return the accepted digests, each after the SHA-1 sum that it encodes. The digests are those of the raw and the
    hexadecimal sum, with the nonce as sent and, if it is Base64, decoded. `created` is the text of Created."""
    nonces = [nonce.encode()]
    with contextlib.suppress(ValueError):
        decoded = base64.b64decode(nonce, validate=True)
        # Of the spellings that decode to the same bytes, only the canonical spelling is accepted (RFC 4648, section
        # 3.5).
        if base64.b64encode(decoded).decode("ascii") == nonce:
            nonces.append(decoded)
    sums = []
    for nonce_bytes in nonces:
        summed = hashlib.sha1(nonce_bytes + created.encode() + password.encode(), usedforsecurity=False)
        sums.append((summed.digest(), base64.b64encode(summed.digest()).decode("ascii")))
        sums.append((summed.digest(), base64.b64encode(summed.hexdigest().encode("ascii")).decode("ascii")))
    return sums


class WsseVerifier:
    """Verifier of WSSE tokens. Each token is accepted once."""

    def __init__(self, *, proofs_max: int = PROOFS_MAX, shared: NonceFolder | None = None) -> None:
        """Create a verifier that remembers at most `proofs_max` unexpired proofs. `shared` contains the proofs that all
        processes have accepted. It is None for a single process."""
        self._shared = shared
        self._proofs_max = proofs_max
        self._used_proofs: OrderedDict[bytes, Instant] = OrderedDict()

    def verify(self, token: UsernameToken, passwords: Mapping[str, str], now: Instant) -> bool:
        """Return True if the token proves its user's password, is recent, and was not used before. `passwords` contains
        the plain passwords by user. An accepted token is recorded, and is not accepted again."""
        password = passwords.get(token.user)
        # The check takes the same time for unknown users as for known users.
        accepted_sums = _sums(token.nonce, token.created, password if password is not None else secrets.token_hex(8))
        matches = [
            summed for summed, text in accepted_sums if hmac.compare_digest(text.encode(), token.digest.encode())
        ]
        if password is None or not matches:
            return False
        created = created_at(token)
        if created is None or abs(now - created) > TOKEN_LIFETIME:
            return False
        summed = matches[0]
        if summed in self._used_proofs:
            return False
        # Expired proofs are removed only when the table is full, because they would be accepted again after the clock
        # was set back.
        if len(self._used_proofs) >= self._proofs_max:
            self._forget_expired(now)
        if len(self._used_proofs) >= self._proofs_max:
            return False
        # Created may be up to TOKEN_LIFETIME ahead of the current time, and the token is valid for TOKEN_LIFETIME after
        # Created.
        self._used_proofs[summed] = until = now + 2 * TOKEN_LIFETIME
        return self._shared is None or self._shared.claim(summed, until, now)

    def _forget_expired(self, now: Instant) -> None:
        while self._used_proofs:
            summed, until = next(iter(self._used_proofs.items()))
            if until >= now:
                return
            del self._used_proofs[summed]


def challenge(realm: str) -> str:
    """Return the value of WWW-Authenticate that asks a client for a WSSE token."""
    return f'WSSE realm={quote(realm)}, profile="UsernameToken"'


def compose(user: str, password: str, now: Instant) -> tuple[tuple[str, str], ...]:
    """Return the two fields that prove this password to an origin. The digest is computed from the text of the nonce as
    sent."""
    nonce = secrets.token_hex(16)
    created = format_rfc3339(now)
    _, digest = _sums(nonce, created, password)[0]
    token = f'UsernameToken Username={quote(user)}, PasswordDigest="{digest}", Nonce="{nonce}", Created="{created}"'
    return ("Authorization", 'WSSE profile="UsernameToken"'), ("X-WSSE", token)
