"""The parent proxy (`upstream_proxy`): its address, its credentials, and the requests that are sent through it."""

import base64
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote_to_bytes, urlsplit

from feedproxy.errors import UsageError
from feedproxy.http import uri
from feedproxy.upstream.upstream_errors import ParentFailed

OPTION = "upstream_proxy"

DIRECT = ("", "direct")
"""Values of the option `upstream_proxy` that mean no parent."""

ENVIRONMENT = "environment"
"""The value of the option `upstream_proxy` that selects the proxy in environment variables, such as `http_proxy`."""

SCHEMES = ("http", "socks5", "socks5h")

VARIABLES: Mapping[str, tuple[str, ...]] = {
    # "http_proxy is an exception as it is only available in lower case" -- curl(1). A client can set HTTP_PROXY in a
    # CGI program, by the request field Proxy.
    "http": ("http_proxy", "all_proxy", "ALL_PROXY"),
    "https": ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
}
"""The environment variables that can name a parent proxy, for each scheme of a target. The first variable that is set
counts."""

DEFAULT_PORT = 1080
"""Port of a parent proxy if its environment variable has no port, as in curl."""

CREDENTIAL_MAX = 255
"""A user name or password may have at most this many bytes (RFC 1929, section 2)."""

_EXPECTED = "expected http://[USER:PASSWORD@]HOST:PORT, socks5://…, socks5h://…, environment, or direct"
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_UNPRINTABLE = re.compile(r"[^!-~]")


@dataclass(frozen=True, slots=True)
class Parent:
    """A parent proxy. Its form as a string has no credentials."""

    scheme: str
    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{uri.join_host_port(self.host, self.port)}"

    @property
    def is_http(self) -> bool:
        """Return True if the parent speaks HTTP, or False for SOCKS5."""
        return self.scheme == "http"

    @property
    def resolves_names(self) -> bool:
        """Return True if the parent resolves names. A parent with the scheme `socks5` gets an address that this proxy
        has resolved and checked."""
        return self.scheme != "socks5"

    @property
    def authorization(self) -> str:
        """Return the value of Proxy-Authorization, or "" if the parent has no user name."""
        if self.user is None:
            return ""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")


def parse(text: str) -> Parent | None:
    """Return the parent that a value of the option names, or None for the values in DIRECT. Raises UsageError if the
    value is invalid. The error's message does not contain the value, which can include a password."""
    return None if text in DIRECT else _parse(text, OPTION, None)


@lru_cache(maxsize=256)
def _parse(text: str, option: str, default_port: int | None) -> Parent:
    try:
        split = urlsplit(text)
        host, port = split.hostname or "", split.port or default_port
    except ValueError:
        raise UsageError(f"{option}: invalid proxy address: {_EXPECTED}") from None
    if split.scheme not in SCHEMES or not host or _HOST.fullmatch(host) is None or _UNPRINTABLE.search(text):
        raise UsageError(f"{option}: invalid proxy address: {_EXPECTED}")
    if port is None:
        raise UsageError(f"{option}: missing port of the proxy: {_EXPECTED}")
    if split.path not in ("", "/") or split.query or split.fragment:
        raise UsageError(f"{option}: text after the proxy's address (is an @ or / in the password percent-encoded?)")
    user = password = None
    if split.username is not None:
        user, password = _decode(split.username, option), _decode(split.password or "", option)
        if split.scheme == "http" and ":" in user:
            raise UsageError(f"{option}: a user name for HTTP must not contain a colon (RFC 7617, section 2)")
        if split.scheme != "http" and not (user and password):
            raise UsageError(f"{option}: SOCKS5 requires both a user name and a password (RFC 1929), or neither")
    return Parent(split.scheme, host, port, user, password or "")


def _decode(text: str, option: str) -> str:
    """Return a part of the user information, percent-decoded. Raises UsageError if the value is invalid."""
    try:
        decoded = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{option}: user name or password is not UTF-8") from None
    if len(decoded.encode()) > CREDENTIAL_MAX or any(
        ord(character) < 32 or ord(character) == 127 for character in decoded
    ):
        raise UsageError(f"{option}: user name or password is too long, or has control characters")
    return decoded


def validate(value: str) -> None:
    """Check a value of the option `upstream_proxy`. Raises UsageError if the value is invalid. For the value
    `environment`, the environment variables are checked."""
    if value != ENVIRONMENT:
        parse(value)
        return
    for variable in sorted({variable for names in VARIABLES.values() for variable in names}):
        if os.environ.get(variable):
            _of_variable(variable)


def without_password(value: str) -> str:
    """Return a value of the option without user name and password, or "" for the values in DIRECT."""
    return value if value == ENVIRONMENT else str(parse(value) or "")


def parent_of(value: str, target: str) -> Parent | None:
    """Return the parent for requests to a target, or None for a direct connection. Requests to this machine are always
    direct. Raises ParentFailed for an invalid environment variable."""
    if value in DIRECT or uri.is_this_machine(uri.host_of(target)):
        return None
    try:
        return parse(value) if value != ENVIRONMENT else _from_environment(target)
    except UsageError as error:
        raise ParentFailed(str(error)) from error


def _from_environment(target: str) -> Parent | None:
    variable = next((name for name in VARIABLES[target.partition(":")[0]] if os.environ.get(name)), "")
    no_proxy = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if not variable or _is_excepted(uri.host_of(target), no_proxy):
        return None
    return _of_variable(variable)


def _of_variable(variable: str) -> Parent:
    value = os.environ[variable].strip()
    return _parse(value if "://" in value else f"http://{value}", f"{OPTION}: environment: {variable}", DEFAULT_PORT)


def _is_excepted(host: str, no_proxy: str) -> bool:
    """Return True if `no_proxy` lists this host: by `*`, a domain, an address, or a network."""
    name = host.strip("[]").removesuffix(".").lower()
    for item in re.split(r"[,\s]+", no_proxy.lower()):
        entry = item.strip("[]").removeprefix(".").removesuffix(".")
        if item == "*" or (entry and (name == entry or name.endswith(f".{entry}"))):
            return True
        try:
            if entry and ipaddress.ip_address(name) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False
