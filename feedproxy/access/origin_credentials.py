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
from typing import Any
from urllib.parse import quote, urlencode

from msgspec.structs import replace
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from feedproxy.access import basic, wsse
from feedproxy.access.file_reload import ReloadingFile
from feedproxy.clock import Clock, Instant
from feedproxy.errors import BadTarget, UsageError
from feedproxy.feed_rules import ANY_USER
from feedproxy.http.message import Request
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.upstream.upstream_errors import FetchError

CREDENTIAL_MARK = "#wallet="
KINDS = ("basic", "wsse", "bearer", "query")


@dataclass(frozen=True, slots=True)
class Credential:
    """An entry of the wallet file: a credential for the targets that match a pattern, and for its users.

    `user` is the name of a user, `*` for every authenticated user, or empty for every client. `name` changes with the
    secret, but does not reveal the secret. `kind` is one of KINDS.
    """

    match: TargetPattern
    user: str
    name: str
    kind: str
    secret: Mapping[str, str] = field(repr=False)

    def apply_to(self, request: Request, now: Instant) -> Request:
        """Return the request with this credential added."""
        target, fields = request.target, request.fields.without("authorization", "x-wsse", "cookie")
        match self.kind:
            case "basic":
                credentials = basic.BasicCredentials(self.secret["user"], self.secret["password"])
                fields = fields.with_added("Authorization", basic.format_credentials(credentials))
            case "wsse":
                for name, value in wsse.compose(self.secret["user"], self.secret["password"], now):
                    fields = fields.with_added(name, value)
            case "bearer":
                fields = fields.with_added("Authorization", f"Bearer {self.secret['token']}")
            case _:
                target += ("&" if "?" in target else "?") + urlencode(self.secret, quote_via=quote, safe="")
        return Request(request.method, target, fields)

    def cache_key(self, target: str) -> str:
        """Return the key of the target's resource for this credential."""
        return f"{target}{CREDENTIAL_MARK}{self.name}"


class OriginCredentials:
    """The credentials in a wallet file, reloaded after each change. If `path` is empty, there are no credentials. The
    constructor raises UsageError if the file cannot be used."""

    def __init__(self, path: str, clock: Clock, seed: bytes) -> None:
        self._clock = clock
        self._file = ReloadingFile(path, partial(parse_wallet, seed=seed), clock) if path else None

    def _matching(self, target: str) -> list[Credential]:
        entries = self._file.value if self._file is not None else ()
        return [credential for credential in entries if credential.match.matches(target)]

    def key_for(self, target: str, user: str) -> str:
        """Return the key under which the target's resource is stored for this user.

        The key is the target. If feedproxy sends a credential to the origin for this user, the credential's name is
        added as the fragment. A credential for the user has priority over a credential for all users.
        """
        matching = self._matching(target)
        own = [credential for credential in matching if user and credential.user == user]
        shared = [credential for credential in matching if credential.user in (("", ANY_USER) if user else ("",))]
        return next((credential.cache_key(target) for credential in own or shared), target)

    def with_cache_key(self, request: Request, user: str) -> Request:
        """Return the request of `user` with its cache key as target (`key_for`). If the key names a credential of the
        operator, the client's own credentials and cookies are removed."""
        key = self.key_for(request.target, user)
        if key == request.target:
            return request
        return replace(request, target=key, fields=request.fields.without("authorization", "cookie"))

    def keys_for(self, target: str) -> tuple[str, ...]:
        """Return the keys of all copies of the target that are fetched with a credential."""
        return tuple(credential.cache_key(target) for credential in self._matching(target))

    def with_credentials(self, request: Request) -> Request:
        """Return the request with the credential that the fragment of its target names.

        A request without a fragment is returned unchanged. If the credential is not for this target, only the fragment
        is removed. Raises FetchError if the operator has removed the credential.
        """
        target, mark, name = request.target.partition(CREDENTIAL_MARK)
        if not mark:
            return request
        entries = self._file.value if self._file is not None else ()
        named = [credential for credential in entries if credential.name == name]
        if not named:
            raise FetchError("the credential of this copy is no longer in the wallet file")
        plain = replace(request, target=target)
        applicable = next((credential for credential in named if credential.match.matches(target)), None)
        return applicable.apply_to(plain, self._clock.now()) if applicable is not None else plain


def parse_wallet(text: str, name: str, *, seed: bytes) -> tuple[Credential, ...]:
    """Return the entries of a wallet file with the content `text`. `name` is the file's name for error messages.

    `seed` is a secret of this installation. It keys the hashes in the names of credentials, so that these do not reveal
    passwords. Raises UsageError for an invalid file. The error's message names the position and never contains a
    secret.
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


def _entry(value: Any, location: str, seed: bytes) -> Credential:
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
    return Credential(pattern, user, digest, kinds[0], secret)


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
