"""Names in Redis: a prefix, the form's version, and what it is. Another form would get another version."""

import hashlib
from dataclasses import dataclass

VERSION = "1"


@dataclass(frozen=True, slots=True)
class RedisKeys:
    """The names of one fleet. The braces keep all of them together where Redis shards by them."""

    prefix: str

    @property
    def _base(self) -> str:
        return f"{{{self.prefix}}}:{VERSION}"

    @property
    def channel(self) -> str:
        """Where news are published."""
        return f"{self._base}:news"

    @property
    def sequence(self) -> str:
        """The number of the last news."""
        return f"{self._base}:sequence"

    @property
    def log(self) -> str:
        """The last news, by number."""
        return f"{self._base}:log"

    @property
    def fencing_counter(self) -> str:
        """The last token given out."""
        return f"{self._base}:fence"

    @property
    def barrier(self) -> str:
        """The token before which everything was purged."""
        return f"{self._base}:barrier"

    @property
    def identity(self) -> str:
        """What the installation is called, and its secret."""
        return f"{self._base}:identity"

    def copy(self, target: str) -> bytes:
        """What is kept of a target, with its number."""
        return f"{self._base}:copy:{target}".encode("utf-8", "surrogatepass")

    @property
    def copies(self) -> str:
        """A glob for the names of all copies."""
        return "".join(f"\\{each}" if each in "*?[]\\" else each for each in f"{self._base}:copy:") + "*"

    def target(self, name: bytes) -> str:
        """The target of a copy's name."""
        return name.decode("utf-8", "surrogatepass").removeprefix(f"{self._base}:copy:")

    def lease(self, target: str) -> str:
        """Who fetches a target."""
        return f"{self._base}:lease:{_digest(target)}"

    def delivery_claim(self, what: str) -> str:
        """Who tells of a change."""
        return f"{self._base}:told:{_digest(what)}"

    def readers(self, target: str, period: int) -> str:
        """Who reads a feed, by the names that readers have in that period."""
        return f"{self._base}:readers:{period}:{_digest(target)}"

    def claims(self, target: str) -> str:
        """What fetchers claim of a feed."""
        return f"{self._base}:claims:{_digest(target)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
