"""Secret addresses: who has one reads as its user what its pattern allows, until it is revoked (seed 003, 11.1.8).

"The simplest way … is to store some kind of secret in the feed URL." It suits readers that know no passwords; whoever
is given the address by them reads as well. So each reader gets one of his own, for certain feeds, and it can be
taken back. The file keeps only hashes: who reads it has no addresses. 144 random bits need no slow hash.
"""

import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from feedproxy.access.reloading_file import ReloadingFile, significant_lines
from feedproxy.clock import Clock
from feedproxy.errors import BadTarget, UsageError
from feedproxy.http.url_pattern import TargetPattern

TOKEN_BYTES = 18

PREFIX = "fp1"
"""Makes a token a long run of letters and digits, both of which it has: what no log shows (http/redaction.py)."""

HEADER = "# Secret addresses: id, user, pattern, hash. `feedproxy token` edits this file; a line less revokes one.\n"


@dataclass(frozen=True, slots=True)
class SecretToken:
    """One secret address, without its secret: `id` names it to the operator."""

    id: str
    user: str
    pattern: TargetPattern
    hashed: str


def hash_of(token: str) -> str:
    """What the file keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def parse_tokens(text: str, name: str) -> dict[str, SecretToken]:
    """The tokens of a file, by hash. Raises UsageError, which says the line."""
    found: dict[str, SecretToken] = {}
    for number, line in significant_lines(text):
        words = line.split()
        if len(words) != 4 or len(words[3]) != 64:
            raise UsageError(f"{name}:{number}: expected ID USER PATTERN HASH, as `feedproxy token add` writes it")
        try:
            pattern = TargetPattern(words[2])
        except BadTarget as error:
            raise UsageError(f"{name}:{number}: {error}") from error
        found[words[3]] = SecretToken(words[0], words[1], pattern, words[3])
    return found


class TokenFile:
    """The tokens of a file that is edited while we run."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._file: ReloadingFile[dict[str, SecretToken]] = ReloadingFile(path, parse_tokens, clock)

    def user_of(self, token: str, target: str) -> str | None:
        """Whose token this is, where it holds for the target; else None.

        Found by its hash: what a comparison's duration tells of a hash helps nobody to find the token.
        """
        found = self._file.value.get(hash_of(token))
        return found.user if found is not None and found.pattern.matches(target) else None


def issue(path: Path, user: str, pattern: str) -> tuple[SecretToken, str]:
    """Make a token and write it to the file; the token's value is known here and never again. Raises UsageError."""
    if not user or any(sign.isspace() for sign in user):
        raise UsageError(f"{user!r} is no user's name: it must have no spaces")
    try:
        parsed = TargetPattern(pattern)
    except BadTarget as error:
        raise UsageError(str(error)) from error
    if any(sign.isspace() for sign in pattern):
        raise UsageError(f"{pattern!r} has spaces")
    secret = PREFIX + secrets.token_hex(TOKEN_BYTES)
    token = SecretToken(secrets.token_hex(4), user, parsed, hash_of(secret))
    _write(path, [*list_tokens(path), token])
    return token, secret


def revoke(path: Path, names: Iterable[str]) -> list[SecretToken]:
    """Take back the tokens with these ids, or of these users; those that were taken back. Raises UsageError."""
    wanted = set(names)
    present = list_tokens(path)
    gone = [each for each in present if each.id in wanted or each.user in wanted]
    if gone:
        _write(path, [each for each in present if each not in gone])
    return gone


def list_tokens(path: Path) -> list[SecretToken]:
    """The tokens of a file; none where there is no file. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    return list(parse_tokens(text, str(path)).values())


def _write(path: Path, tokens: Iterable[SecretToken]) -> None:
    """Exchange the file as a whole: a proxy that looks at this moment sees the old one or the new one."""
    written = "".join(f"{each.id} {each.user} {each.pattern.text} {each.hashed}\n" for each in tokens)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(HEADER + written)
        os.replace(name, path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
