"""The decision whether a client may read a feed.

A rule's `readers` lists the permitted users: names, or `*` for every authenticated user; empty permits all clients. A
client proves its user name by Basic (RFC 7617), by WSSE (seed 003), or by a secret address. Credentials for this proxy
never go upstream (DESIGN, section 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from feedproxy.access import basic, wsse
from feedproxy.access.guess_limit import GuessLimit
from feedproxy.access.nonces import NonceFolder
from feedproxy.access.passwords import PasswordFile
from feedproxy.access.reloading_file import ReloadingFile
from feedproxy.clock import Clock, Seconds
from feedproxy.http.message import Fields

ANY_USER = "*"

_TOO_MANY_GUESSES = "Too many wrong passwords came from that address."


CREDENTIAL_FIELDS = ("authorization", "proxy-authorization", "x-wsse")
"""Request fields with credentials for this proxy."""


@dataclass(frozen=True, slots=True)
class Authorized:
    """Access is granted to `user`; empty where the feed needs no credentials."""

    user: str = ""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client must authenticate: 401, in the explicit proxy 407 (RFC 9110, 15.5.2 and 15.5.8)."""

    reason: str
    challenges: tuple[tuple[str, str], ...]
    status: int = 401


@dataclass(frozen=True, slots=True)
class Denied:
    """The authenticated user may not read the feed, or the client's network has guessed too often."""

    reason: str
    status: int = 403
    retry_after: Seconds = 0


type AuthorizationDecision = Authorized | Challenge | Denied


class Authorizer:
    """Decides with a password file and a file of WSSE secrets; each may be missing."""

    def __init__(
        self,
        *,
        users: PasswordFile | None,
        wsse_secrets: ReloadingFile[Mapping[str, str]] | None,
        realm: str,
        clock: Clock,
        nonces: NonceFolder | None = None,
    ) -> None:
        self._users = users
        self._secrets = wsse_secrets
        self._wsse_verifier = wsse.WsseVerifier(shared=nonces)
        self._realm = realm
        self._clock = clock
        self._guess_limit = GuessLimit(clock)

    async def decide(
        self, readers: tuple[str, ...], fields: Fields, address: str, *, proxy: bool = False, user: str = ""
    ) -> AuthorizationDecision:
        """Decide whether the client may read; `user` was authenticated before, by a secret address or its tunnel.

        `proxy` selects the explicit proxy's fields, for which clients support Basic only.
        """
        if not readers:
            return Authorized(user)
        if not user:
            if (wait := self._guess_limit.retry_after(address)) > 0:
                return Denied(_TOO_MANY_GUESSES, 429, wait)
            proved = await self._authenticate(fields, proxy=proxy)
            if proved is None:
                return Denied("Too many readers are signing in at once.", 503, 5)
            if not proved:
                if self._has_credentials(fields, proxy=proxy):
                    self._guess_limit.record_wrong(address)
                return self._challenge(proxy=proxy)
            # Concurrent guesses above the limit are all refused, so that a client cannot tell the right one.
            if (wait := self._guess_limit.retry_after(address)) > 0:
                return Denied(_TOO_MANY_GUESSES, 429, wait)
            user = proved
        if ANY_USER in readers or user in readers:
            return Authorized(user)
        return Denied("This feed is for others.")

    async def _authenticate(self, fields: Fields, *, proxy: bool) -> str | None:
        """Return the authenticated user; empty without valid credentials, None while too many checks wait."""
        if not proxy and self._secrets is not None and (token := wsse.parse(fields.get("x-wsse") or "")):
            verdict = self._wsse_verifier.verify(token, self._secrets.value, self._clock.now())
            return token.user if verdict is wsse.TokenVerdict.PROVED else ""
        given = basic.parse(fields.get("proxy-authorization" if proxy else "authorization") or "")
        if given is None or self._users is None:
            return ""
        right = await self._users.verify(given)
        if right is None:
            return None
        return given.user if right else ""

    def _challenge(self, *, proxy: bool) -> Challenge:
        if proxy:
            reason = "Authentication required."
            return Challenge(reason, (("Proxy-Authenticate", basic.challenge(self._realm)),), 407)
        challenges = []
        if self._users is not None:
            challenges.append(("WWW-Authenticate", basic.challenge(self._realm)))
        if self._secrets is not None:
            challenges.append(("WWW-Authenticate", wsse.challenge(self._realm)))
        return Challenge("Authentication required.", tuple(challenges))

    def _has_credentials(self, fields: Fields, *, proxy: bool) -> bool:
        return any(name in fields for name in (("proxy-authorization",) if proxy else ("authorization", "x-wsse")))
