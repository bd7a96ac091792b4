"""Authorization of clients, and credentials for origins, according to the operator's files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feedproxy.access.authorization import CREDENTIAL_FIELDS, Authorized, Authorizer, Challenge, Denied
from feedproxy.access.file_reload import ReloadingFile
from feedproxy.access.origin_credentials import OriginCredentials, cache_key, split_key
from feedproxy.access.passwords import PasswordFile, parse_secrets
from feedproxy.access.secret_tokens import TokenFile
from feedproxy.access.wsse_nonces import NonceFolder
from feedproxy.clock import Clock
from feedproxy.errors import AccessDenied, BadTarget, FetchError, UsageError
from feedproxy.feed_rules import AMBIGUOUS, BLOCKED
from feedproxy.http.message import Fields, Request
from feedproxy.settings import Settings


@contextmanager
def _prefix_errors(option: str) -> Iterator[None]:
    """Prefix the message of a UsageError from the `with` block with `option`."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error


class AccessControl:
    """Authorizer of requests. It also selects credentials for origins.

    The constructor raises UsageError if a file cannot be used. `nonces` is the folder of used WSSE proofs, which all
    processes share.
    """

    def __init__(self, settings: Settings, clock: Clock, seed: bytes, nonces: Path | None = None) -> None:
        self._clock = clock
        with _prefix_errors("users_file"):
            users = PasswordFile(settings.users_file, clock) if settings.users_file else None
        with _prefix_errors("wsse_file"):
            secrets = ReloadingFile(settings.wsse_file, parse_secrets, clock) if settings.wsse_file else None
        self.authorizer = Authorizer(
            users=users,
            wsse_secrets=secrets,
            realm=settings.realm,
            clock=clock,
            nonces=NonceFolder(nonces) if nonces is not None else None,
        )
        with _prefix_errors("tokens_file"):
            self.tokens = TokenFile(settings.tokens_file, clock) if settings.tokens_file else None
        with _prefix_errors("wallet"):
            self._origin_credentials = OriginCredentials(settings.wallet, clock, seed) if settings.wallet else None

    async def authorize(
        self, readers: tuple[str, ...], fields: Fields, address: str, *, proxy: bool, user: str = ""
    ) -> tuple[str, Fields]:
        """Return the user, and the fields that may be sent upstream.

        If `readers` requires credentials, the client's credentials are left out of the fields. Raises AccessDenied, and
        BadTarget for an ambiguous address to which different rules apply.
        """
        if not readers:
            return user, fields
        if readers == BLOCKED:
            raise AccessDenied("the operator of this proxy has blocked this feed", 403)
        if readers == AMBIGUOUS:
            raise BadTarget("this address has several interpretations with different permitted users")
        match await self.authorizer.decide(readers, fields, address, proxy=proxy, user=user):
            case Authorized(proved):
                return proved, fields.without(*CREDENTIAL_FIELDS)
            case Challenge(reason, challenges, status):
                raise AccessDenied(reason, status, challenges)
            case Denied(reason, status, retry_after):
                later = (("Retry-After", str(int(retry_after) + 1)),) if retry_after else ()
                raise AccessDenied(reason, status, later)

    def key_for(self, target: str, user: str) -> str:
        """Return the key under which the target's resource is stored for this user.

        The key is the target. If the origin gets a credential of the operator for this user, the key is the target with
        the name of the credential.
        """
        if self._origin_credentials is None:
            return target
        credential = self._origin_credentials.credential_for(target, user)
        return cache_key(target, credential) if credential is not None else target

    def keys_for(self, target: str) -> tuple[str, ...]:
        """Return the keys of all copies of the target that are fetched with a credential of the operator."""
        if self._origin_credentials is None:
            return ()
        return tuple(cache_key(target, credential) for credential in self._origin_credentials.all_for(target))

    def with_credentials(self, request: Request) -> Request:
        """Return the request with its origin's credentials. Raises FetchError if the operator has removed the
        credential.
        """
        target, name = split_key(request.target)
        if not name:
            return request
        plain = Request(request.method, target, request.fields)
        if self._origin_credentials is None:
            raise FetchError("the credential of this copy is not in the wallet file")
        credential = self._origin_credentials.find_by_name(name, target)
        return credential.apply_to(plain, self._clock.now()) if credential is not None else plain
