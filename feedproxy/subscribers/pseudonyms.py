"""Who is who among readers, without keeping who they are.

A reader is told by address, User-Agent and, where he has signed in, user name. All that is kept is a
pseudonym: a hash under a key that changes with every period, so that it says nothing to whoever has not the
secret, and two of them, a period apart, say nothing of each other. The key follows from the secret and the
period's number, so all processes that share a secret agree, and a restart counts nobody twice. Guard the
secret: addresses are few enough to be tried one by one by whoever has it. To forget everybody, replace it.

Since a key's change must not make a second reader of the first, a pseudonym comes with the one that the same
reader had in the period before. That is enough as long as a period is no shorter than the window readers are
counted in.

Two hashes cost more than all else that is done for a reader who is answered by heart, and most ask for one feed after
the other: so a pseudonym is remembered for a minute, in memory alone.
"""

import hashlib
from typing import NamedTuple

from feedproxy.clock import Instant, Seconds
from feedproxy.upstream.special_networks import client_network

PERIOD: Seconds = 30 * 86_400
"""How long a reader keeps its pseudonym where different readers are counted (distinct_readers.py)."""

SECRET_MIN = 16
"""Bytes of a secret: 128 bits cannot be tried through."""

MEMO_TIME: Seconds = 60
KNOWN_MAX = 8192
"""Readers whose pseudonyms are remembered."""

INPUT_LENGTH_MAX = 512
"""Characters of a User-Agent that is remembered; real ones keep below 400."""


class Pseudonym(NamedTuple):
    """A reader, now and as he was called in the period before: numbers of 60 bits.

    60 bits are what the smallest int objects hold, and a million readers collide with a chance of 1 in 2
    million.
    """

    current: int
    previous: int
    lasting: int = 0
    """The same for the stretch of LASTING that it is; 0 where that is not known."""


class Identifier:
    """Gives readers their pseudonyms. `secret` is random, `SECRET_MIN` bytes or more, else ValueError."""

    def __init__(self, secret: bytes, *, period: Seconds = 86_400) -> None:
        if len(secret) < SECRET_MIN:
            raise ValueError(f"the secret has less than {SECRET_MIN} bytes")
        if period <= 0:
            raise ValueError("a period of no length")
        self._secret = hashlib.blake2b(secret, person=b"feedproxy.reader").digest()
        self._period = period
        self._number: int | None = None
        self._stretch: int | None = None
        self._keys = (b"", b"", b"")
        self._known: dict[tuple[str, str, str], Pseudonym] = {}
        self._since: Instant = 0.0

    def pseudonym(self, address: str, user_agent: str, user: str, now: Instant) -> Pseudonym:
        """The pseudonym of a reader; `user` is empty where nobody has signed in.

        Who has signed in is known by his name wherever he comes from. An IPv6 address counts by its network
        of 64 bits: a machine changes the rest of it every day (RFC 8981).
        """
        number = int(now // self._period)
        if number != self._number or int(now // PERIOD) != self._stretch:
            lasting = int(now // PERIOD)
            self._number, self._stretch = number, lasting
            self._keys = (
                self._key(str(number)),
                self._key(str(number - 1)),
                self._key(f"lasting {lasting}"),
            )
            self._known.clear()
        if not 0 <= now - self._since < MEMO_TIME or len(self._known) >= KNOWN_MAX:
            self._known.clear()
            self._since = now
        name = (address, user_agent, user)
        if len(user_agent) > INPUT_LENGTH_MAX:
            return self._hashed(*name)
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._hashed(*name)
        return found

    def same_until(self, now: Instant) -> Instant:
        """Until when a pseudonym of now may be remembered, here or elsewhere, in memory alone."""
        return min(now + MEMO_TIME, (now // self._period + 1) * self._period)

    def _hashed(self, address: str, user_agent: str, user: str) -> Pseudonym:
        # NUL stands in none of the three, so no two readers run together.
        origin = f"user\0{user}" if user else f"address\0{client_network(address)}"
        text = f"{origin}\0{user_agent}".encode("utf-8", "surrogatepass")
        return Pseudonym(*[_digest(text, key) for key in self._keys])

    def _key(self, name: str) -> bytes:
        return hashlib.blake2b(name.encode(), key=self._secret, digest_size=32).digest()


def _digest(text: bytes, key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, key=key, digest_size=8).digest(), "big") >> 4
