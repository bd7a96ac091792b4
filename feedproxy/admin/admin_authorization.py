"""Authorization of requests to the admin listener.

Each request is checked four times. It is refused with

    via     403 if it came through a feedproxy: the client of that feedproxy must not get the rights of this machine
    host    421 if its Host is not a name of this listener: another site's DNS can lead to this machine (rebinding)
    token   401 without the configured token, and 429 after twenty wrong tokens from its network in five minutes
    site    403 if it is a POST from a page of another site, which the operator's browser has sent

The probes /healthz and /readyz need only the first check, because orchestrators call them by address.
"""

import base64
import binascii
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from feedproxy import option_files, settings
from feedproxy.access.failed_login_limit import FailedLoginLimit
from feedproxy.clock import Clock, SystemClock
from feedproxy.errors import UsageError
from feedproxy.http import uri
from feedproxy.settings import Settings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CHALLENGE = 'Bearer realm="feedproxy", Basic realm="feedproxy (any name, the token as password)", charset="UTF-8"'
"""Value of WWW-Authenticate. Browsers can ask their users for Basic credentials, but not for Bearer tokens."""

SOURCE_NAME = "feedproxy-"
"""Prefix of the pseudonym of each feedproxy in the field Via (RFC 9110, section 7.6.3)."""

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]/@\s]+))(?::\d{0,5})?")


class Denied(Struct, frozen=True):
    """A refusal: its status, its error code (`detail`) and its message."""

    status: int
    detail: str
    message: str
    retry_after: int = 0
    """Value of Retry-After in seconds, or 0 for a response without this field."""


def admin_address(admin: str, token: str) -> tuple[str, int]:
    """Return host and port of the admin listener from the option `admin`. `token` is the admin token, or "". Raises
    UsageError for an invalid address and, without a token, for an address that other machines can reach."""
    host, port = settings.listen_address(admin, "admin")
    host = host or "0.0.0.0"  # noqa: S104 -- `:8081` means every address
    if not uri.is_this_machine(host) and not token:
        raise UsageError(
            f"admin: {admin} is open to other machines: set admin_token or admin_token_file, or listen on 127.0.0.1"
        )
    return host, port


def admin_token(settings: Settings) -> str:
    """Return `admin_token`, or the content of `admin_token_file`, which keeps the token out of the configuration and
    the process list. Raises UsageError if both options are set, or if the file is empty or cannot be read."""
    if not settings.admin_token_file:
        return settings.admin_token
    if settings.admin_token:
        raise UsageError("admin_token_file: admin_token is set as well: set one of them")
    try:
        path = option_files.expand(settings.admin_token_file)
        token = option_files.read_text(path).strip()
    except UsageError as error:
        raise UsageError(f"admin_token_file: {error}") from error
    if not token:
        raise UsageError(f"admin_token_file: {path} is empty")
    return token


class AdminAuthorization:
    """Authorization of the requests to one listener. `host` is its address, and `names` are further names for it in the
    field Host. With an empty `token`, no token is required."""

    def __init__(self, host: str, token: str = "", names: Iterable[str] = (), *, clock: Clock | None = None) -> None:
        self._token = token.encode()
        self._failures = FailedLoginLimit(clock or SystemClock())
        address = _address(host)
        self._listens_everywhere = address is not None and address.is_unspecified
        self._names = {_host_name(host), "localhost", *(_host_name(name) for name in names)}

    def refuse(self, method: str, path: str, headers: Mapping[str, str], peer: str = "") -> Denied | None:
        """Return the refusal of a request from the address `peer`, or None for a permitted request."""
        if any(SOURCE_NAME in value.lower() for name, value in headers.items() if name.lower() == "via"):
            return Denied(403, "via", "The request came through a feedproxy. Connect to this listener directly.")
        if path in OPEN_PATHS:
            return None
        host = headers.get("Host", "")
        if not self._is_own_host(host):
            return Denied(421, "wrong-host", "This listener has another name (option admin_hosts).")
        if self._token and (refusal := self._check_token(headers.get("Authorization", ""), peer)):
            return refusal
        if method not in SAFE_METHODS and _is_cross_site(headers, host):
            return Denied(403, "cross-site", "The request came from a page of another site.")
        return None

    def _is_own_host(self, host: str) -> bool:
        name = _host_name(host)
        if not name:
            return False
        if name in self._names:
            return True
        # DNS is not asked for an address, so an address cannot be rebound.
        address = _address(name)
        return address is not None and (self._listens_everywhere or address.is_loopback)

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
        received = credentials.strip().encode("utf-8", "surrogateescape")
        if scheme.lower() == "basic":
            try:
                received = base64.b64decode(received, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(received, self._token)


def _is_cross_site(headers: Mapping[str, str], host: str) -> bool:
    if headers.get("Sec-Fetch-Site", "none").lower() not in ("same-origin", "none"):
        return True
    # Old browsers send Referer instead of Origin. Other programs send neither.
    source = headers.get("Origin", headers.get("Referer"))
    if source is None:
        return False
    try:
        return urlsplit(source).netloc.lower() != host.lower()
    except ValueError:
        return True


def _host_name(host: str) -> str:
    match = _HOST.fullmatch(host.strip())
    if match is None:
        return host.strip().lower() if _address(host.strip()) else ""
    return (match[1] or match[2]).lower().removesuffix(".")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
