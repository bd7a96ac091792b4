"""May this reader have this feed?

A rule's `readers` says who may: user names, or `*` for whoever has signed in; where it is empty, everybody. Who he is
a reader proves by Basic (RFC 7617), by WSSE (seed 003), or by a secret address. Credentials that are for us never go
upstream (DESIGN, section 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from feedproxy.access import basic, wsse
from feedproxy.access.guess_limit import Guesses
from feedproxy.access.nonces import NonceFolder
from feedproxy.access.passwords import Users
from feedproxy.access.reloading_file import Watched
from feedproxy.clock import Clock, Seconds
from feedproxy.http.message import Fields

ANY_USER = "*"

_TOO_MANY = "Too many wrong passwords came from that address."


FOR_US = ("authorization", "proxy-authorization", "x-wsse")
"""The fields that hold what a reader proves himself with."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """He may; `user` is who he proved to be, empty where nobody was asked."""

    user: str = ""


@dataclass(frozen=True, slots=True)
class Challenged:
    """He has to say who he is: 401, in the explicit proxy 407 (RFC 9110, 15.5.2 and 15.5.8)."""

    words: str
    challenges: tuple[tuple[str, str], ...]
    status: int = 401


@dataclass(frozen=True, slots=True)
class Refused:
    """He said who he is, and it is not for him; or he has tried too often."""

    words: str
    status: int = 403
    retry_after: Seconds = 0


type Decision = Admitted | Challenged | Refused


class Admission:
    """Decides, with a password file and a file of WSSE secrets, each of which may be missing."""

    def __init__(
        self,
        *,
        users: Users | None,
        wsse_secrets: Watched[Mapping[str, str]] | None,
        realm: str,
        clock: Clock,
        nonces: NonceFolder | None = None,
    ) -> None:
        self._users = users
        self._secrets = wsse_secrets
        self._gate = wsse.Gate(shared=nonces)
        self._realm = realm
        self._clock = clock
        self._guesses = Guesses(clock)

    async def decide(
        self, readers: tuple[str, ...], fields: Fields, address: str, *, proxy: bool = False, user: str = ""
    ) -> Decision:
        """May he? `user` is who is known already to ask: by a secret address, or by the tunnel he came through.

        `proxy` asks by the explicit proxy's fields, where only Basic is known to clients.
        """
        if not readers:
            return Admitted(user)
        if not user:
            if (wait := self._guesses.wait(address)) > 0:
                return Refused(_TOO_MANY, 429, wait)
            proved = await self._proved(fields, proxy=proxy)
            if proved is None:
                return Refused("Too many readers are signing in at once.", 503, 5)
            if not proved:
                if self._tried(fields, proxy=proxy):
                    self._guesses.count(address)
                return self._challenged(proxy=proxy)
            # Guesses that were checked side by side: those above the limit learn nothing, the right one included.
            if (wait := self._guesses.wait(address)) > 0:
                return Refused(_TOO_MANY, 429, wait)
            user = proved
        if ANY_USER in readers or user in readers:
            return Admitted(user)
        return Refused("This feed is for others.")

    async def _proved(self, fields: Fields, *, proxy: bool) -> str | None:
        """Who he proved to be; empty for nobody, None where too many ask at once."""
        if not proxy and self._secrets is not None and (token := wsse.parse(fields.get("x-wsse") or "")):
            verdict = self._gate.prove(token, self._secrets.value, self._clock.now())
            return token.user if verdict is wsse.Verdict.PROVED else ""
        given = basic.parse(fields.get("proxy-authorization" if proxy else "authorization") or "")
        if given is None or self._users is None:
            return ""
        right = await self._users.verify(given)
        if right is None:
            return None
        return given.user if right else ""

    def _challenged(self, *, proxy: bool) -> Challenged:
        if proxy:
            words = "Authentication required."
            return Challenged(words, (("Proxy-Authenticate", basic.challenge(self._realm)),), 407)
        challenges = []
        if self._users is not None:
            challenges.append(("WWW-Authenticate", basic.challenge(self._realm)))
        if self._secrets is not None:
            challenges.append(("WWW-Authenticate", wsse.challenge(self._realm)))
        return Challenged("Authentication required.", tuple(challenges))

    # -- guessing

    def _tried(self, fields: Fields, *, proxy: bool) -> bool:
        return any(name in fields for name in (("proxy-authorization",) if proxy else ("authorization", "x-wsse")))
