"""Keys in Redis, made of a prefix, the version of the stored form, and the subject."""

import hashlib
import re
from dataclasses import dataclass

VERSION = "1"


@dataclass(frozen=True, slots=True)
class RedisKeys:
    """The keys of one fleet. The prefix in braces keeps all keys on one shard if Redis has shards."""

    prefix: str

    @property
    def _base(self) -> str:
        return f"{{{self.prefix}}}:{VERSION}"

    @property
    def channel(self) -> str:
        return f"{self._base}:news"

    @property
    def sequence(self) -> str:
        return f"{self._base}:sequence"

    @property
    def log(self) -> str:
        return f"{self._base}:log"

    @property
    def fencing_counter(self) -> str:
        return f"{self._base}:fence"

    @property
    def barrier(self) -> str:
        """Return the key of the token that a purge of all targets sets. Copies with a lower token are refused."""
        return f"{self._base}:barrier"

    @property
    def identity(self) -> str:
        """Return the key of the shared pseudonym and secret (via_pseudonym_and_secret.py)."""
        return f"{self._base}:identity"

    @property
    def data_id(self) -> str:
        """Return the key of the random identifier of the data in Redis. The identifier is lost with the data."""
        return f"{self._base}:data-id"

    def copy(self, target: str) -> bytes:
        """Return the key of a target's copy and its token."""
        return f"{self._base}:copy:{target}".encode("utf-8", "surrogatepass")

    @property
    def copies(self) -> str:
        """Return a glob that matches the keys of all copies."""
        return re.sub(r"([*?\[\]\\])", r"\\\1", f"{self._base}:copy:") + "*"

    def target(self, name: bytes) -> str:
        """Return the target from the key of its copy."""
        return name.decode("utf-8", "surrogatepass").removeprefix(f"{self._base}:copy:")

    def lease(self, target: str) -> str:
        """Return the key of a target's fetch lease."""
        return f"{self._base}:lease:{_digest(target)}"

    def delivery_claim(self, change: str) -> str:
        return f"{self._base}:told:{_digest(change)}"

    def readers(self, target: str, period: int) -> str:
        """Return the key of a feed's readers in one period. The readers are named by their pseudonyms of this
        period."""
        return f"{self._base}:readers:{period}:{_digest(target)}"

    def claims(self, target: str) -> str:
        """Return the key of the subscriber numbers that services claim for a feed."""
        return f"{self._base}:claims:{_digest(target)}"


def key_kind(key: str | bytes) -> str:
    """Return a key without its target and period, for messages."""
    text = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
    found = re.match(r"\{.*?\}:\d+:[a-z]+", text)
    return found[0] if found else ""


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
