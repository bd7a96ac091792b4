"""Keys in Redis, made of a prefix, the version of the stored form, and the subject."""

import hashlib
import re

VERSION = "1"


class RedisKeys:
    """The keys of one fleet. The prefix in braces keeps all keys on one shard if Redis has shards."""

    def __init__(self, prefix: str) -> None:
        self._base = base = f"{{{prefix}}}:{VERSION}"
        self.channel = f"{base}:news"
        self.sequence = f"{base}:sequence"
        self.log = f"{base}:log"
        self.fencing_counter = f"{base}:fence"
        self.barrier = f"{base}:barrier"
        """Key of the token that a purge of all targets sets. Copies with a lower token are refused."""
        self.identity = f"{base}:identity"
        """Key of the shared pseudonym and secret (via_pseudonym_and_secret.py)."""
        self.data_id = f"{base}:data-id"
        """Key of the random identifier of the data in Redis. If Redis loses its data, it loses this identifier, too."""
        self.copies = re.sub(r"([*?\[\]\\])", r"\\\1", f"{base}:copy:") + "*"
        """Glob pattern of the keys of all copies."""

    def copy(self, target: str) -> bytes:
        """Return the key of a target's copy. The copy's token is stored under the same key."""
        return f"{self._base}:copy:{target}".encode("utf-8", "surrogatepass")

    def target(self, name: bytes) -> str:
        """Return the target of the copy with this key."""
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
