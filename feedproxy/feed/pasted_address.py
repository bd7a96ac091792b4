"""Parser of pasted feed addresses.

A pasted address can begin with `feed:` or with the gateway's address, lack a scheme, or be percent-encoded. An address
without a scheme counts as https.
"""

import re
from urllib.parse import unquote_to_bytes

from feedproxy.errors import BadTarget
from feedproxy.feed.feed_scheme import strip_feed_scheme
from feedproxy.http import uri

LAYERS_MAX = 3
"""Maximum number of layers of percent-encoding, and of gateway prefixes, that are removed from an address."""

_LEADING = re.compile(r"(?:[\s<>\"']|%20|%3C|%22)*", re.IGNORECASE)
_TRAILING = " \t\r\n\f<>\"'"
"""Characters that are often copied together with an address."""

_ENCODED = re.compile(r"(?:(?:feed|https?)(?::|:/|://))?(?:feed|https?)%(?:25)*3A", re.IGNORECASE)
"""Pattern of the beginning of an address that was percent-encoded as a whole."""

_FEED_SCHEME = re.compile(r"feed:/*", re.IGNORECASE)
_HTTP = re.compile(r"(https?)(?::[/\\]*|//+)", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])")
_CONVERTED = re.compile(r"as/[a-z]+/")


def read(text: str, own: str, prefix: str) -> str:
    """Return the normalised target of a pasted address. Raises BadTarget if the text names no target.

    `own` is feedproxy's own address, without a trailing slash. If `own` is empty, gateway addresses are not recognised.
    `prefix` is the path prefix of feedproxy's endpoints.
    """
    target = _read(text)
    for _ in range(LAYERS_MAX):
        if not own or not target.startswith(f"{own}/"):
            return target
        target = unwrap(target, prefix)
    return target


def unwrap(target: str, prefix: str) -> str:
    """Return the address of the feed inside `target`, which is a gateway address or the address of a conversion.

    Raises BadTarget if `target` is another endpoint. `prefix` is the path prefix of feedproxy's endpoints.
    """
    path = target.removeprefix(uri.origin_of(target))
    if path.startswith(prefix):
        converted = _CONVERTED.match(path, len(prefix))
        path = path[converted.end() :] if converted is not None else ""
    try:
        return _read(path.lstrip("/"))
    except BadTarget as error:
        raise BadTarget("an address of this proxy is not the address of a feed") from error


def has_scheme(text: str) -> bool:
    """Return True if an address has the scheme `feed:`, `http:` or `https:`, plain or percent-encoded."""
    text = _clean(text)
    return _HTTP.match(text) is not None or _FEED_SCHEME.match(text) is not None


def _read(text: str) -> str:
    text = _clean(text)
    text = strip_feed_scheme(text)
    if match := _HTTP.match(text):
        return uri.normalise(f"{match[1]}://{text[match.end() :].lstrip('/')}".replace(" ", "%20"))
    text = _FEED_SCHEME.sub("", text, count=1)
    # `example.com/feed` counts as an address; `feed` alone does not.
    host = re.split(r"[/?#]", text.lstrip("/"), maxsplit=1)[0]
    if _SCHEME.match(text) or ("." not in host and not host.lower().startswith(("localhost:", "["))):
        raise BadTarget("invalid URL: expected http:// or https:// at its beginning")
    return uri.normalise(f"https://{text.lstrip('/')}".replace(" ", "%20"))


def _clean(text: str) -> str:
    return _trim(_decode(_trim(text)))


def _trim(text: str) -> str:
    match = _LEADING.match(text)
    return text[match.end() if match else 0 :].rstrip(_TRAILING)


def _decode(text: str) -> str:
    """Return the decoded form of an address that was percent-encoded as a whole, such as `https%3A%2F%2Fexample.com`.

    A query after a literal `?` is not decoded: it was appended to the encoded address.
    """
    for _ in range(LAYERS_MAX):
        if not _ENCODED.match(text):
            break
        path, mark, query = text.partition("?")
        text = unquote_to_bytes(path).decode("iso-8859-1") + mark + query
    return text
