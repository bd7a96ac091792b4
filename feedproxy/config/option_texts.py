"""Checks of the texts in options: the value of a text option, and each item of a list. A check raises UsageError, with
the option, what was expected and, unless the value might be a secret, the value."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from feedproxy.errors import BadTarget, UsageError
from feedproxy.http import uri
from feedproxy.http.coding.content_coding import CODINGS
from feedproxy.http.field_values import is_token
from feedproxy.http.target_uri.url_redaction import redact_setting
from feedproxy.settings import listen_address, secret_names
from feedproxy.upstream import parent_proxy
from feedproxy.upstream.address_policy import AddressPolicy

type Check = Callable[[str, str], None]
"""Check of one text. Its arguments are the name of the option and the text."""

REDIS_SCHEMES = ("redis", "rediss", "unix")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PATH_PREFIX = re.compile(r"/(?:[A-Za-z0-9._~-]+/)+")
_HOST_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]+|\[[0-9A-Fa-f:.*]+\]")
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9_.-]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?|[0-9A-Fa-f:.]+")
_QUERY_NAME = re.compile(r"[^\s&=#?]+")
_KEY_PREFIX = re.compile(r"[!-z|~]+")
_COMMENT_TEXT = re.compile(r"[!-'*-\[\]-~]+")
"""Pattern of a text that a comment can contain without escapes: it has neither parentheses nor backslashes (RFC 9110,
section 5.6.5)."""


def check_text(name: str, text: str, *, is_item: bool = False) -> None:
    """Raise UsageError unless `text` is a permitted value of the option `name`. If `is_item` is True, the value is a
    list, and `text` is an item of it."""
    if is_item and not text.strip():
        raise UsageError(f"{name}: {text!r}: expected no blank item in the list")
    if _CONTROL.search(text):
        raise _unexpected(name, text, "text without control characters")
    if text and (check := CHECKS.get(name)) is not None:
        check(name, text)


def _unexpected(name: str, text: str, expected: str) -> UsageError:
    shown = name not in {*secret_names(), parent_proxy.OPTION} and not ("@" in text and ":" in text)
    return UsageError(f"{name}: {text!r}: expected {expected}" if shown else f"{name}: expected {expected}")


def _matches(pattern: re.Pattern[str], expected: str) -> Check:
    def check(name: str, text: str) -> None:
        if pattern.fullmatch(text) is None:
            raise _unexpected(name, text, expected)

    return check


def _one_of(*choices: str) -> Check:
    def check(name: str, text: str) -> None:
        if text not in choices:
            raise _unexpected(name, text, ", ".join(choices))

    return check


def _url(name: str, text: str) -> None:
    try:
        uri.normalise(text)
    except BadTarget as error:
        raise _unexpected(name, text, f"a URL such as https://feeds.example/: {error}") from error


def _base_url(name: str, text: str) -> None:
    _url(name, text)
    if "?" in text or "#" in text:
        raise _unexpected(name, text, "a URL without query and fragment")


def _origin(name: str, text: str) -> None:
    try:
        uri.normalise(text)
    except BadTarget as error:
        raise UsageError(f"{name}: {redact_setting(text)}: {error}") from error
    if "?" in text or "#" in text:
        raise UsageError(f"{name}: {redact_setting(text)}: an origin has no query and no fragment")


def _contact(name: str, text: str) -> None:
    if not text.lower().startswith("mailto:"):
        _url(name, text)
    elif not re.fullmatch(r"mailto:[^@\s]+@[^@\s]+", text, re.IGNORECASE):
        raise _unexpected(name, text, "an address such as mailto:feeds@example.com")
    if _COMMENT_TEXT.fullmatch(text) is None:
        # The User-Agent has the address in a comment.
        raise _unexpected(name, text, "a URL in ASCII, with parentheses and backslashes percent-encoded")


def _address(name: str, text: str) -> None:
    host, _ = listen_address(text, name)
    if host:
        try:
            uri.normalise(f"http://{uri.join_host_port(host, 80)}/")
        except BadTarget as error:
            raise _unexpected(name, text, f"HOST:PORT, such as 127.0.0.1:8080: {error}") from error


def _network(name: str, text: str) -> None:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise _unexpected(name, text, "an address, or a network such as 10.0.0.0/8") from None


def _permitted_network(name: str, text: str) -> None:
    try:
        AddressPolicy(networks=(text,))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def _port(name: str, text: str) -> None:
    try:
        AddressPolicy(ports=(text,))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def _field_name(name: str, text: str) -> None:
    if not is_token(text):
        raise _unexpected(name, text, "the name of a request field, such as X-Edition")


def _path_prefix(name: str, text: str) -> None:
    if (
        _PATH_PREFIX.fullmatch(text) is None
        or uri.normalise(f"http://host.invalid{text}") != f"http://host.invalid{text}"
    ):
        raise UsageError(f"{name}: {text!r} is not a path: expected one such as /-/")


def _parent(name: str, text: str) -> None:
    parent_proxy.validate(text)


def _store(name: str, text: str) -> None:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text) is None:
        return  # a folder, or memory:
    expected = "a folder, memory:, or redis://[USER:PASSWORD@]HOST[:PORT]/[DATABASE]"
    try:
        split = urlsplit(text)
        port, host = split.port, split.hostname
    except ValueError:
        raise _unexpected(name, text, f"{expected}, with a port from 1 to 65535") from None
    if split.scheme not in REDIS_SCHEMES:
        raise _unexpected(name, text, expected)
    if split.scheme == "unix":
        return
    if port == 0 or not host:
        raise _unexpected(name, text, f"{expected}, with a port from 1 to 65535")
    try:
        uri.normalise(f"http://{uri.join_host_port(host, 80)}/")
    except BadTarget as error:
        raise _unexpected(name, text, f"{expected}: {error}") from error
    if re.fullmatch(r"/?[0-9]{0,9}", split.path) is None:
        raise _unexpected(name, text, f"{expected}, with the number of a database")


def _local_folder(name: str, text: str) -> None:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text):
        raise _unexpected(name, text, "a folder")


CHECKS: Mapping[str, Check] = {
    "listen": _address,
    "admin": _address,
    "upstream": _origin,
    "public_url": _base_url,
    "contact_url": _contact,
    "moved_to": _url,
    "cnws_subscribe": _url,
    "trusted_proxies": _network,
    "allow_networks": _permitted_network,
    "allow_ports": _port,
    "connect_ports": _port,
    "endpoint_prefix": _path_prefix,
    "intercept": _matches(_HOST_PATTERN, "a host such as example.com or *.example.com"),
    "gateway_hosts": _matches(_HOST_PATTERN, "a host name such as proxy.example.com or *.example.com"),
    "admin_hosts": _matches(_HOST_AND_PORT, "a host name such as feeds.example"),
    "upstream_proxy": _parent,
    "realm": _matches(re.compile(r"[ -~]+"), "printable ASCII"),
    "shared_fields": _field_name,
    "ignore_query": _matches(_QUERY_NAME, "the name of a query parameter, such as utm_*"),
    "codings": _one_of(*CODINGS),
    "announce": _one_of("hub", "cloud"),
    "store": _store,
    "fleet_local": _local_folder,
    "fleet_prefix": _matches(_KEY_PREFIX, "printable ASCII without spaces and braces"),
}
