"""Users and their passwords, in the form that `htpasswd -B` writes: `name:hash`, with bcrypt or Argon2.

To check a password is slow on purpose. A poll every ten minutes from each reader would keep a processor busy, so a
password that was right is remembered for a while, as a keyed hash that dies with the process.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Executor

import argon2
import bcrypt

from feedproxy.access.basic import BasicCredentials
from feedproxy.access.reloading_file import ReloadingFile, significant_lines
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import UsageError

VERIFIED_FOR: Seconds = 900
VERIFIED_MAX = 10_000
BCRYPT_BYTES = 72
"""bcrypt knows no more of a password; what is longer is refused rather than cut."""

CHECKS_WAITING_MAX = 32
"""Passwords that wait to be checked at once; who comes when there are more is sent away."""

_DUMMY_HASH = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt(5)).decode("ascii")
"""Checked against where the file has no users; cost 5 is what `htpasswd -B` writes."""


def parse_users(text: str, name: str) -> dict[str, str]:
    """Names and hashes of a password file. Raises UsageError, which says the line."""
    users: dict[str, str] = {}
    for number, line in significant_lines(text):
        user, colon, hashed = line.partition(":")
        if not colon or not user:
            raise UsageError(f"{name}:{number}: expected NAME:HASH, as `htpasswd -B` writes it")
        if not hashed.startswith(("$2a$", "$2b$", "$2y$", "$argon2")):
            raise UsageError(f"{name}:{number}: {user}: neither bcrypt nor Argon2; make it with `htpasswd -B`")
        if user in users:
            raise UsageError(f"{name}:{number}: {user} is there twice")
        users[user] = hashed
    return users


def parse_secrets(text: str, name: str) -> dict[str, str]:
    """Names and plain passwords, for WSSE. Raises UsageError, which says the line and never the password."""
    found: dict[str, str] = {}
    for number, line in significant_lines(text):
        user, colon, secret = line.partition(":")
        if not colon or not user or not secret:
            raise UsageError(f"{name}:{number}: expected NAME:PASSWORD")
        found[user] = secret
    return found


class PasswordFile:
    """The users of a password file. Raises UsageError at once where that cannot be read."""

    def __init__(self, path: str, clock: Clock, workers: Executor | None = None) -> None:
        self._file: ReloadingFile[Mapping[str, str]] = ReloadingFile(path, parse_users, clock)
        self._clock = clock
        self._workers = workers
        self._key = secrets.token_bytes(32)
        self._verified: OrderedDict[bytes, Instant] = OrderedDict()
        self._version = 0
        self._waiting = 0

    async def verify(self, given: BasicCredentials) -> bool | None:
        """Whether the password is this user's; None where too many wait to be told."""
        hashed = self._file.value.get(given.user)
        if self._version != self._file.version:
            self._version = self._file.version
            self._verified.clear()
        seal = hashlib.blake2b(f"{given.user}\0{given.password}".encode(), key=self._key, digest_size=16).digest()
        now = self._clock.now()
        if hashed is not None and 0 <= self._verified.get(seal, 0) - now <= VERIFIED_FOR:
            return True
        if self._waiting >= CHECKS_WAITING_MAX:
            return None
        self._waiting += 1
        try:
            against, loop = hashed or self._hash_for_unknown(given.user), asyncio.get_running_loop()
            right = await loop.run_in_executor(self._workers, verify_hash, against, given.password)
        finally:
            self._waiting -= 1
        if hashed is None or not right:
            return False
        self._verified[seal] = now + VERIFIED_FOR
        self._verified.move_to_end(seal)
        if len(self._verified) > VERIFIED_MAX:
            self._verified.popitem(last=False)
        return True

    def _hash_for_unknown(self, user: str) -> str:
        """The hash that a name is checked against which the file does not have: another user's, always the same.

        The file's hashes may have several kinds and costs; a dummy of one cost would tell unknown names apart.
        """
        hashes = list(self._file.value.values()) or [_DUMMY_HASH]
        chosen = hashlib.blake2b(user.encode(), key=self._key, digest_size=8).digest()
        return hashes[int.from_bytes(chosen) % len(hashes)]


def verify_hash(hashed: str, password: str) -> bool:
    """Whether this is the hash of that password, in constant time. Slow."""
    raw = password.encode()
    if hashed.startswith("$argon2"):
        try:
            return argon2.PasswordHasher().verify(hashed, raw)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False
    if len(raw) > BCRYPT_BYTES:
        return False
    try:
        return bcrypt.checkpw(raw, hashed.encode("ascii"))
    except ValueError:
        return False
