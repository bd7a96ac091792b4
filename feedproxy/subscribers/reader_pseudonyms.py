"""Pseudonyms of readers. They distinguish readers without storing their identity.

A pseudonym is a keyed hash of the User-Agent and the user name or, without authentication, the network address. The key
is derived from a secret and changes with every period. With the secret, every IP address can be tested against a
pseudonym. A `Pseudonym` also contains the pseudonym of the previous period, so that a reader does not count twice when
the key changes. A period must be at least as long as the time for which a reader counts after a request.
"""

import hashlib
from typing import NamedTuple

from feedproxy.client_network import client_network
from feedproxy.clock import Instant, Seconds
from feedproxy.http.user_agent import product

PERIOD: Seconds = 30 * 86_400
"""The long-term pseudonym of a reader is valid for this many seconds (readers_for_public_lists.py)."""

SECRET_MIN = 16
"""Minimum length of the secret, in bytes. 128 bits resist exhaustive search."""

MEMO_TIME: Seconds = 60
"""Pseudonyms are cached for at most this many seconds."""
KNOWN_MAX = 8192
"""At most this many pseudonyms are cached."""

INPUT_LENGTH_MAX = 512
"""The pseudonym is not cached for a User-Agent of more than this many characters. Known readers send fewer than 400."""


class Pseudonym(NamedTuple):
    """A reader's pseudonyms for the current and the previous period, as numbers of 60 bits. The probability of a
    collision among a million readers is 1 in 2 million."""

    current: int
    previous: int
    long_term: int = 0
    """The pseudonym for the current PERIOD, or 0 if unknown.

    For a signed-in user, it depends on the user name alone. For every other client, it depends on the network address
    and on the product name in the User-Agent. If it changed with each version of a program, one reader would soon count
    as several, and public lists would name a feed with a single reader.
    """


class Identifier:
    """Calculator of pseudonyms, each of which is valid for a period of `period` seconds. Raises ValueError for a secret
    below SECRET_MIN bytes."""

    def __init__(self, secret: bytes, *, period: Seconds = 86_400) -> None:
        if len(secret) < SECRET_MIN:
            raise ValueError(f"the secret has less than {SECRET_MIN} bytes")
        if period <= 0:
            raise ValueError(f"invalid period {period!r}: expected more than 0 seconds")
        self._secret = hashlib.blake2b(secret, person=b"feedproxy.reader").digest()
        self._period = period
        self._number: int | None = None
        self._long_period: int | None = None
        self._keys = (b"", b"", b"")
        self._cached: dict[tuple[str, str, str], Pseudonym] = {}
        self._since: Instant = 0.0

    def pseudonym(self, address: str, user_agent: str, user: str, now: Instant) -> Pseudonym:
        """Return the pseudonym of a reader. `user` is "" for a client that has not signed in.

        If there is a user name, the address does not count. Of an IPv6 address, only the network of 64 bits counts,
        because many machines change the other bits every day (RFC 8981).
        """
        number = int(now // self._period)
        if number != self._number or int(now // PERIOD) != self._long_period:
            long_term = int(now // PERIOD)
            self._number, self._long_period = number, long_term
            self._keys = (
                self._key(str(number)),
                self._key(str(number - 1)),
                self._key(f"lasting {long_term}"),
            )
            self._cached.clear()
        if not 0 <= now - self._since < MEMO_TIME or len(self._cached) >= KNOWN_MAX:
            self._cached.clear()
            self._since = now
        name = (address, user_agent, user)
        if len(user_agent) > INPUT_LENGTH_MAX:
            return self._hash(*name)
        cached = self._cached.get(name)
        if cached is None:
            cached = self._cached[name] = self._hash(*name)
        return cached

    def same_until(self, now: Instant) -> Instant:
        """Return the instant until which a pseudonym that is computed at `now` may be cached, in memory only."""
        return min(now + MEMO_TIME, (now // self._period + 1) * self._period)

    def _hash(self, address: str, user_agent: str, user: str) -> Pseudonym:
        # None of the three parts contains NUL, so the text is unambiguous.
        origin = f"user\0{user}" if user else f"address\0{client_network(address)}"
        text, long_term_text = f"{origin}\0{user_agent}", origin if user else f"{origin}\0{product(user_agent)}"
        return Pseudonym(*map(_digest, (text, text, long_term_text), self._keys))

    def _key(self, name: str) -> bytes:
        return hashlib.blake2b(name.encode(), key=self._secret, digest_size=32).digest()


def _digest(text: str, key: bytes) -> int:
    encoded = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, key=key, digest_size=8).digest(), "big") >> 4
