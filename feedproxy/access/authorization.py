"""The decision whether a client may read a feed, and the credentials for the feed's origin.

The option `readers` of a rule lists the permitted users: names, or `*` for every authenticated user. An empty list
permits all clients. A client proves its user name by Basic (RFC 7617), by WSSE (wsse.py), or by a secret address
(secret_tokens.py). Credentials for this proxy are never sent upstream.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feedproxy.access import basic, wsse
from feedproxy.access.failed_login_limit import FailedLoginLimit
from feedproxy.access.file_reload import ReloadingFile
from feedproxy.access.origin_credentials import OriginCredentials
from feedproxy.access.passwords import PasswordFile, parse_secrets
from feedproxy.access.secret_tokens import TokenFile
from feedproxy.access.wsse_nonces import NonceFolder
from feedproxy.clock import Clock, Seconds
from feedproxy.errors import AccessDenied, BadTarget, UsageError
from feedproxy.feed_rules import AMBIGUOUS, ANY_USER, BLOCKED
from feedproxy.http.message import Fields
from feedproxy.settings import Settings

CREDENTIAL_FIELDS = ("authorization", "proxy-authorization", "x-wsse")
"""Request fields that can contain credentials for this proxy."""


def _refusal(reason: str, status: int, retry_after: Seconds) -> AccessDenied:
    return AccessDenied(reason, status, (("Retry-After", str(int(retry_after) + 1)),))


@contextmanager
def _prefix_errors(option: str) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error


class AccessControl:
    """The users that may read feeds, and the credentials for origins.

    `seed` is a secret of this installation (origin_credentials.py). `nonces` is the folder in which all processes
    record used WSSE proofs, or None if this process keeps them in memory. The constructor raises UsageError if a
    configured file is missing or invalid.
    """

    def __init__(self, settings: Settings, clock: Clock, seed: bytes, nonces: Path | None = None) -> None:
        with _prefix_errors("users_file"):
            self._users = PasswordFile(settings.users_file, clock) if settings.users_file else None
        with _prefix_errors("wsse_file"):
            self._secrets = ReloadingFile(settings.wsse_file, parse_secrets, clock) if settings.wsse_file else None
        with _prefix_errors("tokens_file"):
            self.tokens = TokenFile(settings.tokens_file, clock) if settings.tokens_file else None
        with _prefix_errors("wallet"):
            self.origin_credentials = OriginCredentials(settings.wallet, clock, seed)
        self._wsse_verifier = wsse.WsseVerifier(shared=NonceFolder(nonces) if nonces is not None else None)
        self._realm = settings.realm
        self._clock = clock
        self._failed_login_limit = FailedLoginLimit(clock)

    async def authorize(
        self, readers: tuple[str, ...], fields: Fields, address: str, *, proxy: bool = False, user: str = ""
    ) -> tuple[str, Fields]:
        """Return the authenticated user, and the request fields that may be sent upstream.

        `readers` contains the permitted users. If it is empty, the feed requires no credentials, and the result is
        `user` with all fields. Otherwise the client's credentials are removed from the fields.

        `address` is the client's IP address. `user` is a user that a secret address or a CONNECT has already
        authenticated, or "". If `proxy` is True, only Basic credentials in Proxy-Authorization are accepted.

        Raises AccessDenied if the feed is blocked, if no valid credentials were sent, or if the user may not read the
        feed. Too many wrong passwords from one network, and too many passwords that wait for a check, also raise
        AccessDenied. Raises BadTarget if the target has several interpretations with different permitted users.
        """
        if not readers:
            return user, fields
        if readers == BLOCKED:
            raise AccessDenied("the operator of this proxy has blocked this feed", 403)
        if readers == AMBIGUOUS:
            raise BadTarget("this address has several interpretations with different permitted users")
        user = user or await self._authenticated_user(fields, address, proxy=proxy)
        if ANY_USER not in readers and user not in readers:
            raise AccessDenied("This feed is for other users.", 403)
        return user, fields.without(*CREDENTIAL_FIELDS)

    async def _authenticated_user(self, fields: Fields, address: str, *, proxy: bool) -> str:
        """Return the user that the credentials of the request prove. Raises AccessDenied if the request has no valid
        credentials."""
        self._check_guesses(address)
        user = await self._authenticate(fields, proxy=proxy)
        if not user:
            if not self._has_credentials(fields, proxy=proxy):
                raise self._challenge("Authentication required.", proxy=proxy)
            self._failed_login_limit.record_wrong(address)
            raise self._challenge("The credentials are wrong.", proxy=proxy)
        # Concurrent guesses may have exceeded the limit during the check. The right password is then refused like the
        # wrong ones, so that a client cannot recognise it.
        self._check_guesses(address)
        return user

    def _check_guesses(self, address: str) -> None:
        if (wait := self._failed_login_limit.retry_after(address)) > 0:
            raise _refusal("Too many wrong passwords came from this network address.", 429, wait)

    async def _authenticate(self, fields: Fields, *, proxy: bool) -> str:
        """Return the authenticated user, or "" if the request has no valid credentials. Raises AccessDenied if too many
        passwords wait to be checked."""
        if not proxy and self._secrets is not None and (token := wsse.parse(fields.get("x-wsse") or "")):
            is_valid = self._wsse_verifier.verify(token, self._secrets.value, self._clock.now())
            return token.user if is_valid else ""
        credentials = basic.parse(fields.get("proxy-authorization" if proxy else "authorization") or "")
        if credentials is None or self._users is None:
            return ""
        is_correct = await self._users.verify(credentials)
        if is_correct is None:
            raise _refusal("Too many readers are authenticating at the same time.", 503, 5)
        return credentials.user if is_correct else ""

    def _challenge(self, reason: str, *, proxy: bool) -> AccessDenied:
        if proxy:
            return AccessDenied(reason, 407, (("Proxy-Authenticate", basic.challenge(self._realm)),))
        challenges = []
        # "A server generating a 401 (Unauthorized) response MUST send a WWW-Authenticate header field containing at
        # least one challenge" -- RFC 9110, section 11.6.1
        if self._users is not None or self._secrets is None:
            challenges.append(("WWW-Authenticate", basic.challenge(self._realm)))
        if self._secrets is not None:
            challenges.append(("WWW-Authenticate", wsse.challenge(self._realm)))
        return AccessDenied(reason, 401, tuple(challenges))

    def _has_credentials(self, fields: Fields, *, proxy: bool) -> bool:
        return any(name in fields for name in (("proxy-authorization",) if proxy else ("authorization", "x-wsse")))
