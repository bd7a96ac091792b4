"""Addresses of feeds as people paste them: with `feed:`, without a scheme, percent-encoded, or in the gateway's form.

Each is read as the target that it means. Nothing is asked of the network, so what has no scheme is https.
"""

import re
from urllib.parse import unquote_to_bytes

from feedproxy.errors import BadTarget
from feedproxy.feed.discovery import strip_feed_scheme
from feedproxy.http import uri

LAYERS_MAX = 3
"""Times that an address is decoded, and gateway addresses that are removed from around it, at most."""

_LEADING = re.compile(r"(?:[\s<>\"']|%20|%3C|%22)*", re.IGNORECASE)
_TRAILING = " \t\r\n\f<>\"'"
"""What is copied together with an address by mistake."""

_ENCODED = re.compile(r"(?:(?:feed|https?)(?::|:/|://))?(?:feed|https?)%(?:25)*3A", re.IGNORECASE)
"""The beginning of an address of which an encoder has taken even the first colon for a character to encode."""

_FEED_PREFIX = re.compile(r"\Afeed:/?(?=https?:)", re.IGNORECASE)
_FEED_SCHEME = re.compile(r"feed:/*", re.IGNORECASE)
_HTTP = re.compile(r"(https?)(?::[/\\]*|//+)", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])")
_CONVERTED = re.compile(r"as/[a-z]+/")


def read(text: str, own: str = "") -> str:
    """The normalised target that a pasted address means. Raises BadTarget.

    `own` is this proxy's own address, without a slash at its end: what stands behind it is the address of the feed.
    """
    target = _read(text)
    for _ in range(LAYERS_MAX):
        if not own or not target.startswith(f"{own}/"):
            return target
        target = unwrap(target)
    return target


def unwrap(target: str, prefix: str = "/-/") -> str:
    """The feed that one of the gateway's addresses leads to, converted or not. Raises BadTarget where it is none's.

    `prefix` is the one of the endpoints.
    """
    path = target.removeprefix(uri.origin_of(target))
    if path.startswith(prefix):
        converted = _CONVERTED.match(path, len(prefix))
        if converted is None:
            raise BadTarget("an address of this proxy itself is no feed's")
        path = path[converted.end() :]
    return _read(path.lstrip("/"))


def has_scheme(text: str) -> bool:
    """Whether a pasted address says `feed:`, `http:` or `https:`, encoded or not."""
    text = _clean(text)
    return _HTTP.match(text) is not None or _FEED_SCHEME.match(text) is not None


def _read(text: str) -> str:
    text = _clean(text)
    text = strip_feed_scheme(_FEED_PREFIX.sub("", text, count=1))
    if found := _HTTP.match(text):
        return uri.normalise(f"{found[1]}://{text[found.end() :].lstrip('/')}".replace(" ", "%20"))
    text = _FEED_SCHEME.sub("", text, count=1)
    # `example.com/feed` is an address to people; `feed` alone is none.
    host = re.split(r"[/?#]", text.lstrip("/"), maxsplit=1)[0]
    if _SCHEME.match(text) or ("." not in host and not host.lower().startswith(("localhost:", "["))):
        raise BadTarget("not a URL: it must start with http:// or https://")
    return uri.normalise(f"https://{text.lstrip('/')}".replace(" ", "%20"))


def _clean(text: str) -> str:
    return _trim(_decode(_trim(text)))


def _trim(text: str) -> str:
    found = _LEADING.match(text)
    return text[found.end() if found else 0 :].rstrip(_TRAILING)


def _decode(text: str) -> str:
    """The address without the percent-encoding that was put around the whole of it.

    A query that stands apart was added after that, and is left as it is.
    """
    for _ in range(LAYERS_MAX):
        if not _ENCODED.match(text):
            break
        path, mark, query = text.partition("?")
        text = unquote_to_bytes(path).decode("iso-8859-1") + mark + query
    return text
