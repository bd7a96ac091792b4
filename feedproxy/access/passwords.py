"""Users and their passwords in the form that `htpasswd -B` writes: `name:hash`, with bcrypt or Argon2.

The check of a password is slow by design. A verified password is therefore remembered for VERIFIED_FOR seconds, as a
keyed hash in memory.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping

import argon2
import bcrypt

from feedproxy.access.basic import BasicCredentials
from feedproxy.access.file_reload import ReloadingFile, significant_lines
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import UsageError
from feedproxy.lru_map import LRU

VERIFIED_FOR: Seconds = 900
"""A verified password is accepted without another check for this many seconds."""
VERIFIED_MAX = 10_000
"""At most this many verified passwords are remembered. The least recently used password is forgotten first."""
BCRYPT_BYTES = 72
"""bcrypt uses this many bytes of a password. Longer passwords are refused."""

CHECKS_WAITING_MAX = 32
"""Maximum number of passwords that are being checked or wait for a check, from all clients together. Requests with
further passwords are refused."""

_DUMMY_HASH = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt(5)).decode("ascii")
"""The hash with which passwords are compared if the file has no users. The comparison takes as long as with a hash of
`htpasswd -B`, which has the cost 5."""


def parse_users(text: str, name: str) -> dict[str, str]:
    """Return the hashes in the text of a password file, by user. Raises UsageError if the text is invalid. The error's
    message has the file's `name` and the line number."""
    users: dict[str, str] = {}
    for number, line in significant_lines(text):
        user, colon, hashed = line.partition(":")
        if not colon or not user:
            raise UsageError(f"{name}:{number}: expected NAME:HASH, as `htpasswd -B` writes it")
        if not hashed.startswith(("$2a$", "$2b$", "$2y$", "$argon2")):
            raise UsageError(
                f"{name}:{number}: {user}: expected a hash of bcrypt or Argon2, as `htpasswd -B` writes it"
            )
        if user in users:
            raise UsageError(f"{name}:{number}: {user} occurs twice")
        users[user] = hashed
    return users


def parse_secrets(text: str, name: str) -> dict[str, str]:
    """Return the plain passwords in the text of a file for WSSE, by user. Raises UsageError if the text is invalid. The
    error's message has the file's `name` and the line number, and never a password."""
    passwords: dict[str, str] = {}
    for number, line in significant_lines(text):
        user, colon, secret = line.partition(":")
        if not colon or not user or not secret:
            raise UsageError(f"{name}:{number}: expected NAME:PASSWORD")
        passwords[user] = secret
    return passwords


class PasswordFile:
    """The users of a password file. The constructor raises UsageError if the file cannot be read."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._file: ReloadingFile[Mapping[str, str]] = ReloadingFile(path, parse_users, clock)
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._verified: LRU[bytes, Instant] = LRU(entries_max=VERIFIED_MAX)
        self._waiting = 0

    async def verify(self, credentials: BasicCredentials) -> bool | None:
        """Return True if the password is correct, and False if it is wrong or the user is unknown. Return None if too
        many passwords wait to be checked."""
        hashed, now = self._file.value.get(credentials.user), self._clock.now()
        # The hash is included, because the user may get another password by a reload of the file.
        text = f"{credentials.user}\0{credentials.password}\0{hashed}"
        seal = hashlib.blake2b(text.encode(), key=self._key, digest_size=16).digest()
        if hashed is not None and 0 <= (self._verified.get(seal) or 0) - now <= VERIFIED_FOR:
            return True
        if self._waiting >= CHECKS_WAITING_MAX:
            return None
        self._waiting += 1
        try:
            against, loop = hashed or self._hash_for_unknown(credentials.user), asyncio.get_running_loop()
            is_correct = await loop.run_in_executor(None, verify_hash, against, credentials.password)
        finally:
            self._waiting -= 1
        if hashed is None or not is_correct:
            return False
        self._verified.put(seal, now + VERIFIED_FOR)
        return True

    def _hash_for_unknown(self, user: str) -> str:
        """Return the hash with which the password of an unknown user is compared: always the same known user's hash for
        the same name. The duration of the check then does not reveal whether a name is known."""
        hashes = list(self._file.value.values()) or [_DUMMY_HASH]
        chosen = hashlib.blake2b(user.encode(), key=self._key, digest_size=8).digest()
        return hashes[int.from_bytes(chosen) % len(hashes)]


def verify_hash(hashed: str, password: str) -> bool:
    """Return True if `hashed` is the hash of the password. The check is slow."""
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
