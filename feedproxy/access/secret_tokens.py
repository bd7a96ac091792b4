"""Secret addresses. Such an address authenticates a user for the feeds that match a pattern, until it is revoked.

Secret addresses are for feed readers without support for passwords. The file stores only hashes of tokens. A fast hash
is safe, because a token has 144 random bits.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from feedproxy import option_files
from feedproxy.access.file_reload import ReloadingFile, significant_lines
from feedproxy.clock import Clock
from feedproxy.errors import BadTarget, UsageError
from feedproxy.http.target_uri.target_pattern import TargetPattern

TOKEN_BYTES = 18
"""Number of random bytes in a token."""

PREFIX = "fp1"
"""Prefix of all tokens. It mixes letters and digits, so that redaction recognises every token as random text."""

HEADER = (
    "# Secret addresses: id, user, pattern, hash. `feedproxy token` edits this file; removing a line revokes one.\n"
)


class SecretToken(Struct, frozen=True):
    """The record of a secret address. It lacks the token itself. `id` names the record in commands."""

    id: str
    user: str
    pattern: TargetPattern
    hashed: str


def hash_of(token: str) -> str:
    """Return the hash under which the file stores a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def parse_tokens(text: str, name: str) -> dict[str, SecretToken]:
    """Return the records in the text of a file, by the hash of the token. Raises UsageError if the text is invalid. The
    error's message has the file's `name` and the line number."""
    tokens: dict[str, SecretToken] = {}
    for number, line in significant_lines(text):
        parts = line.split()
        if len(parts) != 4 or len(parts[3]) != 64:
            raise UsageError(f"{name}:{number}: expected ID USER PATTERN HASH, as `feedproxy token add` writes it")
        try:
            pattern = TargetPattern(parts[2])
        except BadTarget as error:
            raise UsageError(f"{name}:{number}: {error}") from error
        tokens[parts[3]] = SecretToken(parts[0], parts[1], pattern, parts[3])
    return tokens


class TokenFile:
    """The records of a token file, reloaded after each change. The constructor raises UsageError if the file is
    invalid."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._file: ReloadingFile[dict[str, SecretToken]] = ReloadingFile(path, parse_tokens, clock)

    def user_of(self, token: str, target: str) -> str | None:
        """Return the user of a token, or None if the token is unknown or is not valid for the target."""
        secret_token = self._file.value.get(hash_of(token))
        return secret_token.user if secret_token is not None and secret_token.pattern.matches(target) else None


def issue(path: Path, user: str, pattern: str) -> tuple[SecretToken, str]:
    """Write the record of a new token to the file. Return the record and the token, which is not stored. Raises
    UsageError if the file is invalid or cannot be used."""
    if not user or any(sign.isspace() for sign in user):
        raise UsageError(f"invalid user name {user!r}: expected a name without spaces")
    try:
        parsed = TargetPattern(pattern)
    except BadTarget as error:
        raise UsageError(str(error)) from error
    if any(sign.isspace() for sign in pattern):
        raise UsageError(f"invalid pattern {pattern!r}: expected one without spaces")
    secret = PREFIX + secrets.token_hex(TOKEN_BYTES)
    token = SecretToken(secrets.token_hex(4), user, parsed, hash_of(secret))
    with _locked_folder(path):
        _write(path, [*list_tokens(path), token])
    return token, secret


def revoke(path: Path, names: Iterable[str]) -> list[SecretToken]:
    """Revoke the tokens with these ids or of these users, and return their records. Raises UsageError if the file is
    invalid or cannot be used."""
    selectors = set(names)
    with _locked_folder(path):
        present = list_tokens(path)
        gone = [token for token in present if token.id in selectors or token.user in selectors]
        if gone:
            _write(path, [token for token in present if token not in gone])
    return gone


def list_tokens(path: Path) -> list[SecretToken]:
    """Return the records of a file, or an empty list if the file does not exist. Raises UsageError if the file is
    invalid or cannot be used."""
    try:
        text = option_files.read_text(path)
    except UsageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise
    return list(parse_tokens(text, str(path)).values())


@contextlib.contextmanager
def _locked_folder(path: Path) -> Iterator[None]:
    """Lock the folder of a file while a command changes the file, if the file system supports locks. Raises UsageError
    if the folder cannot be opened. The file itself cannot be locked, because each change replaces it."""
    try:
        descriptor = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, tokens: Iterable[SecretToken]) -> None:
    """Replace the file atomically, with the owner and mode of the old file. Raises UsageError if the file cannot be
    written.

    With another owner, the proxy might be unable to read the new file. It would then continue to accept revoked tokens.
    """
    written = "".join(f"{token.id} {token.user} {token.pattern.text} {token.hashed}\n" for token in tokens)
    try:
        path = path.resolve()
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                if path.exists():
                    former = path.stat()
                    os.fchmod(handle, stat.S_IMODE(former.st_mode))
                    if (former.st_uid, former.st_gid) != (os.geteuid(), os.getegid()):
                        os.fchown(handle, former.st_uid, former.st_gid)
                file.write(HEADER + written)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
