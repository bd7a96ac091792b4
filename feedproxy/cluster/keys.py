"""Keys in Redis: a prefix, the version of the form, and the subject. Another form would get another version."""

import hashlib
import re
from dataclasses import dataclass

VERSION = "1"


@dataclass(frozen=True, slots=True)
class RedisKeys:
    """The keys of one cluster. The braces keep all of them on one shard of Redis."""

    prefix: str

    @property
    def _base(self) -> str:
        return f"{{{self.prefix}}}:{VERSION}"

    @property
    def channel(self) -> str:
        """Return the channel of events."""
        return f"{self._base}:news"

    @property
    def sequence(self) -> str:
        """Return the key of the last event's number."""
        return f"{self._base}:sequence"

    @property
    def log(self) -> str:
        """Return the key of the last events, by number."""
        return f"{self._base}:log"

    @property
    def fencing_counter(self) -> str:
        """Return the key of the last fencing token."""
        return f"{self._base}:fence"

    @property
    def barrier(self) -> str:
        """Return the key of the token below which copies are refused, because everything was purged."""
        return f"{self._base}:barrier"

    @property
    def identity(self) -> str:
        """Return the key of the pseudonym in Via and the secret."""
        return f"{self._base}:identity"

    def copy(self, target: str) -> bytes:
        """Return the key of a target's copy and its token."""
        return f"{self._base}:copy:{target}".encode("utf-8", "surrogatepass")

    @property
    def copies(self) -> str:
        """Return a glob for the keys of all copies."""
        return re.sub(r"([*?\[\]\\])", r"\\\1", f"{self._base}:copy:") + "*"

    def target(self, name: bytes) -> str:
        """Return the target of a copy's key."""
        return name.decode("utf-8", "surrogatepass").removeprefix(f"{self._base}:copy:")

    def lease(self, target: str) -> str:
        """Return the key of a target's fetch lease."""
        return f"{self._base}:lease:{_digest(target)}"

    def delivery_claim(self, change: str) -> str:
        """Return the key of the machine that delivers a change."""
        return f"{self._base}:told:{_digest(change)}"

    def readers(self, target: str, period: int) -> str:
        """Return the key of a feed's readers, under their pseudonyms of this period."""
        return f"{self._base}:readers:{period}:{_digest(target)}"

    def claims(self, target: str) -> str:
        """Return the key of the claims that fetchers make of a feed."""
        return f"{self._base}:claims:{_digest(target)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
