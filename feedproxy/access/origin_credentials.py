"""Credentials for origins. With them, the proxy fetches private feeds for feed readers that cannot authenticate.

The operator writes the credentials into the wallet file. Each credential is for the feeds that its pattern matches, and
for its users: one user, every authenticated user (`user: "*"`), or every client (`anybody: true`). An example:

    - match: https://intranet.example/*
      user: "*"
      basic: {user: feedproxy, password: …}
    - match: https://paid.example/feed
      user: bob
      query: {token: …}

Content that is fetched with a credential is a separate resource. Its key is the target with the name of the credential
as its fragment. No client can request a target with a fragment. The name of a credential changes with its password, so
that copies made with the old password are not used again.
"""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from feedproxy.access import basic, wsse
from feedproxy.access.file_reload import ReloadingFile
from feedproxy.clock import Clock, Instant
from feedproxy.errors import BadTarget, UsageError
from feedproxy.http.message import Fields, Request
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.upstream.upstream_errors import FetchError

CREDENTIAL_MARK = "#wallet="
ANY_USER = "*"
KINDS = ("basic", "wsse", "bearer", "query")


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential for an origin. `name` changes with the secret, but does not reveal the secret."""

    name: str
    kind: str
    secret: Mapping[str, str] = field(repr=False)

    def apply_to(self, request: Request, now: Instant) -> Request:
        """Return the request with this credential added."""
        fields = request.fields.without("authorization", "x-wsse", "cookie")
        match self.kind:
            case "basic":
                credentials = basic.BasicCredentials(self.secret["user"], self.secret["password"])
                return request_with(request, fields.with_added("Authorization", basic.format_credentials(credentials)))
            case "wsse":
                for name, value in wsse.compose(self.secret["user"], self.secret["password"], now):
                    fields = fields.with_added(name, value)
                return request_with(request, fields)
            case "bearer":
                return request_with(request, fields.with_added("Authorization", f"Bearer {self.secret['token']}"))
            case _:
                pairs = urlencode(self.secret, quote_via=quote, safe="")
                joint = "&" if "?" in request.target else "?"
                return Request(request.method, f"{request.target}{joint}{pairs}", fields)


@dataclass(frozen=True, slots=True)
class CredentialEntry:
    """An entry of the wallet file: a target pattern, a user, and a credential."""

    match: TargetPattern
    user: str
    credential: Credential


class CacheKeyParts(NamedTuple):
    """The parts of a resource's key: the target, and the name of its credential, which may be empty."""

    target: str
    credential: str


def cache_key(target: str, credential: Credential) -> str:
    """Return the key of the target's resource for this credential."""
    return f"{target}{CREDENTIAL_MARK}{credential.name}"


def split_key(resource_key: str) -> CacheKeyParts:
    """Return the target and the credential's name of a key. The name is empty for a key without a credential."""
    target, _, name = resource_key.partition(CREDENTIAL_MARK)
    return CacheKeyParts(target, name)


class OriginCredentials:
    """The entries of a wallet file, reloaded after each change. The constructor raises UsageError if the file cannot be
    used."""

    def __init__(self, path: str, clock: Clock, seed: bytes) -> None:
        self._file: ReloadingFile[tuple[CredentialEntry, ...]] = ReloadingFile(
            path, partial(parse_wallet, seed=seed), clock
        )

    def credential_for(self, target: str, user: str) -> Credential | None:
        """Return the credential of this user for the target, or None if no entry matches.

        An entry for the user has priority over an entry for all users.
        """
        candidate: Credential | None = None
        for entry in self._file.value:
            if not entry.match.matches(target):
                continue
            if user and entry.user == user:
                return entry.credential
            if candidate is None and (entry.user == "" or (user and entry.user == ANY_USER)):
                candidate = entry.credential
        return candidate

    def all_for(self, target: str) -> tuple[Credential, ...]:
        """Return the credentials of all users for the target."""
        return tuple(entry.credential for entry in self._file.value if entry.match.matches(target))

    def find_by_name(self, name: str, target: str) -> Credential | None:
        """Return the credential with this name, or None if its pattern excludes `target`.

        Raises FetchError if the operator removed the credential.
        """
        entries = [entry for entry in self._file.value if entry.credential.name == name]
        if not entries:
            raise FetchError("the credential is no longer in the wallet file")
        return next((entry.credential for entry in entries if entry.match.matches(target)), None)


def request_with(request: Request, fields: Fields) -> Request:
    """Return the request with `fields` in place of its fields."""
    return Request(request.method, request.target, fields)


def parse_wallet(text: str, name: str, *, seed: bytes) -> tuple[CredentialEntry, ...]:
    """Return the entries of a wallet file with the content `text`.

    `name` is the file's name for error messages. `seed` is the secret of this installation. The names of credentials
    are hashes keyed with `seed`, so that they do not reveal passwords. Raises UsageError for an invalid file. The
    error's message names the position and never contains a secret.
    """
    try:
        document: Any = YAML(typ="safe", pure=True).load(io.StringIO(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{name}:{line}: invalid YAML") from error
    except YAMLError as error:
        raise UsageError(f"{name}: invalid YAML") from error
    if document is None:
        return ()
    if not isinstance(document, list):
        raise UsageError(f"{name}: expected a list of entries")
    return tuple(_entry(entry, f"{name}: entry {number}", seed) for number, entry in enumerate(document, start=1))


def _entry(value: Any, location: str, seed: bytes) -> CredentialEntry:
    if not isinstance(value, dict):
        raise UsageError(f"{location}: expected `match`, `user` and one of {', '.join(KINDS)}")
    if unknown := set(map(str, value)) - {"match", "user", "anybody", *KINDS}:
        raise UsageError(f"{location}: unknown: {', '.join(sorted(unknown))}")
    try:
        pattern = TargetPattern(str(value.get("match", "")))
    except BadTarget as error:
        raise UsageError(f"{location}: match: {error}") from error
    user, anybody = value.get("user", ""), value.get("anybody", False)
    if bool(user) == (anybody is True) or not isinstance(user, str):
        raise UsageError(f'{location}: expected `user: NAME`, `user: "*"`, or `anybody: true`')
    kinds = [kind for kind in KINDS if kind in value]
    if len(kinds) != 1:
        raise UsageError(f"{location}: expected one of {', '.join(KINDS)}")
    secret = _secret(kinds[0], value[kinds[0]], location)
    written = "\0".join((kinds[0], pattern.text, user, *(f"{one}\0{other}" for one, other in secret.items())))
    digest = hashlib.blake2b(written.encode(), digest_size=16, key=seed, person=b"feedproxy.wallet").hexdigest()
    return CredentialEntry(pattern, user, Credential(digest, kinds[0], secret))


def _secret(kind: str, content: Any, location: str) -> dict[str, str]:
    if kind == "bearer":
        content = {"token": content}
    if not isinstance(content, dict) or not content:
        raise UsageError(f"{location}: {kind}: expected names and values")
    secret = {str(name): str(value) for name, value in content.items()}
    if kind in ("basic", "wsse") and set(secret) != {"user", "password"}:
        raise UsageError(f"{location}: {kind}: expected user and password")
    if any(ord(sign) < 32 or ord(sign) == 127 for value in secret.values() for sign in value):
        raise UsageError(f"{location}: {kind}: invalid value: control character")
    return secret
