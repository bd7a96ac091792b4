"""Who may speak to the admin listener.

It changes things, and it stands where a browser of the operator's can reach it: so a page from anywhere must
not be able to use that browser. Four doors, each a look at a request's head:

via     a request that has passed a feedproxy is a reader's, who must not have this machine's rights: 403
host    a name that is none of ours is one that somebody else's DNS leads here (rebinding): 421
token   whoever does not come from this very machine has to know it: 401; after twenty wrong ones: 429
site    what changes something must come from our own pages, or from no page at all: 403

To all others the probes /healthz and /readyz are open: they tell and change nothing, and orchestrators call them by
address.
"""

import base64
import binascii
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from feedproxy import settings
from feedproxy.access.guess_limit import GuessLimit
from feedproxy.clock import Clock, SystemClock
from feedproxy.errors import UsageError
from feedproxy.settings import Settings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CHALLENGE = 'Bearer realm="feedproxy", Basic realm="feedproxy (any name, the token as password)", charset="UTF-8"'
"""Basic beside Bearer, since it is the one that browsers can ask people for."""

SOURCE_NAME = "feedproxy-"
"""What the name of every feedproxy in Via begins with."""

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]/@\s]+))(?::\d{1,5})?")


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a request is turned away."""

    status: int
    detail: str
    words: str
    retry_after: int = 0
    """Seconds."""


def listen_address(admin: str, token: str) -> tuple[str, int]:
    """Host and port of the admin listener. Raises UsageError for no address, and where a token is missing."""
    host, port = settings.listen_address(admin, "admin")
    host = host or "0.0.0.0"  # noqa: S104 -- `:8081` means every address
    if not is_loopback(host) and not token:
        raise UsageError(
            f"admin: {admin} is open to other machines: set admin_token or admin_token_file, or listen on 127.0.0.1"
        )
    return host, port


def admin_token(settings: Settings) -> str:
    """Return the admin token: `admin_token`, or the content of `admin_token_file`. Raises UsageError.

    A file keeps the token out of the configuration and of the process list (Docker and systemd hand secrets over as
    files).
    """
    if not settings.admin_token_file:
        return settings.admin_token
    if settings.admin_token:
        raise UsageError("admin_token_file: admin_token is set as well: set one of them")
    path = Path(settings.admin_token_file).expanduser()
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"admin_token_file: cannot read {path}: {getattr(error, 'strerror', error)}") from error
    if not token:
        raise UsageError(f"admin_token_file: {path} is empty")
    return token


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


class AdminAuth:
    """The doors of one listener: the host it listens on, its token (empty: none), the names it goes by."""

    def __init__(self, host: str, token: str = "", names: Iterable[str] = (), *, clock: Clock | None = None) -> None:
        self._token = token.encode()
        self._failures = GuessLimit(clock or SystemClock())
        address = _address(host)
        self._everywhere = address is not None and address.is_unspecified
        self._names = {_host_name(host), "localhost", *(_host_name(name) for name in names)}

    def refuse(self, method: str, path: str, headers: Mapping[str, str], peer: str = "") -> Denied | None:
        """Why this request, which comes from the address `peer`, is turned away; None lets it in."""
        if any(SOURCE_NAME in value.lower() for name, value in headers.items() if name.lower() == "via"):
            return Denied(403, "via", "This came through a feedproxy. Ask this listener directly.")
        if path in OPEN_PATHS:
            return None
        host = headers.get("Host", "")
        if not self._is_own_host(host):
            return Denied(421, "wrong-host", "This listener does not go by that name (option admin_hosts).")
        if self._token and (refusal := self._check_token(headers.get("Authorization", ""), peer)):
            return refusal
        if method not in SAFE_METHODS and _is_cross_site(headers, host):
            return Denied(403, "cross-site", "Another site's page asked for this; only our own pages may.")
        return None

    def _is_own_host(self, host: str) -> bool:
        name = _host_name(host)
        if not name:
            return False
        if name in self._names:
            return True
        # Nobody's DNS can make an address out of a name, so an address is what it says.
        address = _address(name)
        return address is not None and (self._everywhere or address.is_loopback)

    def _check_token(self, authorization: str, peer: str) -> Denied | None:
        if (wait := self._failures.retry_after(peer)) > 0:
            return Denied(429, "token", "Too many wrong tokens came from that address.", int(wait) + 1)
        if self._has_token(authorization):
            return None
        if authorization:
            self._failures.record_wrong(peer)
        return Denied(401, "token", "The admin token is missing or wrong.")

    def _has_token(self, authorization: str) -> bool:
        scheme, _, credentials = authorization.strip().partition(" ")
        given = credentials.strip().encode("utf-8", "surrogateescape")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self._token)


def _is_cross_site(headers: Mapping[str, str], host: str) -> bool:
    """Whether a browser says that this comes from a page that is not ours."""
    if headers.get("Sec-Fetch-Site", "none").lower() not in ("same-origin", "none"):
        return True
    # What has no Origin is no browser's, or an old one's, which says as much in Referer.
    said = headers.get("Origin", headers.get("Referer"))
    if said is None:
        return False
    try:
        return urlsplit(said).netloc.lower() != host.lower()
    except ValueError:
        return True


def _host_name(host: str) -> str:
    """A host without port, brackets and final dot, in small letters; empty for what is none."""
    match = _HOST.fullmatch(host.strip())
    if match is None:
        return host.strip().lower() if _address(host.strip()) else ""
    return (match[1] or match[2]).lower().removesuffix(".")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
