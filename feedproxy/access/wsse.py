"""WSSE UsernameToken, early Atom's way to prove a password without sending it (seed 003, 11.1.8).

`digest = base64(sha1(nonce + created + password))`. "The specification was cloudy as to whether a binary or ASCII
hexadecimal representation of the SHA1 sum was to be used", and readers differ as well in whether the nonce goes into
the sum as it was sent or decoded. All four are taken. A proof is good once, and only near the moment it was made. It is
remembered by its sum: one sum can be sent in many spellings (raw or hexadecimal, the nonce encoded once more or in
non-canonical base64, characters moved between nonce and Created, the name of another user with the same password), and
only the holder of the password can make another sum. The server must know the plain password; it is a password for
WSSE alone, never the one that Basic asks for.
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
from feedproxy.http.field_values import quote

TOKEN_LIFETIME: Seconds = 300
"""How far a digest's moment may lie from now, both ways: "the server must check that the date is recent"."""

PROOFS_MAX = 100_000
"""Proofs remembered at once. Where more are in use, new ones are refused until old ones have run out."""

FIELD_MAX = 2_048

_PARAMETER = re.compile(r'(?<![A-Za-z])([A-Za-z]++)\s*+=\s*+"((?:[^"\\]|\\.)*+)"')


class TokenVerdict(StrEnum):
    """What became of a token: proved, or why not."""

    PROVED = "proved"
    UNKNOWN = "unknown user or wrong digest"
    OLD = "made too long ago, or by a clock that is wrong"
    REPLAYED = "seen before"
    BUSY = "too many tokens at once"


@dataclass(frozen=True, slots=True)
class UsernameToken:
    """What X-WSSE holds. `digest` and `nonce` are as they were sent."""

    user: str
    digest: str = field(repr=False)
    nonce: str = field(repr=False)
    created: str


def parse(value: str) -> UsernameToken | None:
    """The token in a field X-WSSE; None for what is none."""
    kind, _, rest = value.strip().partition(" ")
    if kind.lower() != "usernametoken" or len(value) > FIELD_MAX:
        return None
    found = {name.lower(): re.sub(r"\\(.)", r"\1", text) for name, text in _PARAMETER.findall(rest)}
    try:
        return UsernameToken(found["username"], found["passworddigest"], found["nonce"], found["created"])
    except KeyError:
        return None


def created_at(token: UsernameToken) -> Instant | None:
    """The moment a token says it was made at; a time without zone is UTC."""
    try:
        moment = datetime.fromisoformat(token.created.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def digests(nonce: str, created: str, password: str) -> list[str]:
    """Every digest that readers in the wild make of this: raw or hexadecimal, nonce as sent or decoded."""
    return [text for _, text in _sums(nonce, created, password)]


def _sums(nonce: str, created: str, password: str) -> list[tuple[bytes, str]]:
    """Every digest, each with the sum it spells."""
    nonces = [nonce.encode()]
    with contextlib.suppress(binascii.Error, ValueError):
        decoded = base64.b64decode(nonce, validate=True)
        # RFC 4648, section 3.5: of several spellings that decode to the same bytes only the canonical one is taken.
        if base64.b64encode(decoded).decode("ascii") == nonce:
            nonces.append(decoded)
    made = []
    for each in nonces:
        summed = hashlib.sha1(each + created.encode() + password.encode(), usedforsecurity=False)
        made.append((summed.digest(), base64.b64encode(summed.digest()).decode("ascii")))
        made.append((summed.digest(), base64.b64encode(summed.hexdigest().encode("ascii")).decode("ascii")))
    return made


class WsseVerifier:
    """Proves tokens, each of them once."""

    def __init__(
        self, *, window: Seconds = TOKEN_LIFETIME, proofs_max: int = PROOFS_MAX, shared: NonceFolder | None = None
    ) -> None:
        """`shared` is where other processes look, too."""
        self._window = window
        self._shared = shared
        self._proofs_max = proofs_max
        self._seen: OrderedDict[bytes, Instant] = OrderedDict()

    def verify(self, token: UsernameToken, passwords: Mapping[str, str], now: Instant) -> TokenVerdict:
        """Whether this token proves its user; if so, it will not do so again."""
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
        # Only for want of room: after a clock that ran ahead is set back, old proofs are near again.
        if len(self._seen) >= self._proofs_max:
            self._forget_expired(now)
        if len(self._seen) >= self._proofs_max:
            return TokenVerdict.BUSY
        # Its moment may lie ahead by as much as the window: it is good until the window has passed after that.
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
    """The value of WWW-Authenticate."""
    return f'WSSE realm={quote(realm)}, profile="UsernameToken"'


def compose(user: str, password: str, now: Instant, nonce: str = "") -> tuple[tuple[str, str], ...]:
    """The two fields that prove this password to an origin, now: raw digest, nonce as sent."""
    nonce = nonce or secrets.token_hex(16)
    created = datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = digests(nonce, created, password)[0]
    token = f'UsernameToken Username={quote(user)}, PasswordDigest="{digest}", Nonce="{nonce}", Created="{created}"'
    return ("Authorization", 'WSSE profile="UsernameToken"'), ("X-WSSE", token)
