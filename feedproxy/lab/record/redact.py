"""What a recording may hold of people: pseudonyms for addresses, marks where secrets stood.

Both are keyed hashes. Under one key the same address or token has the same mark in every recording, so that a
reader stays one reader and a private feed one feed; without the key a mark says nothing. The key is never recorded.

Fields that carry secrets stay with the value `redacted`: that a reader sends cookies is something to tell it. What
answers a request for a private feed (one with credentials or cookies, or with a secret in its address), and what its
origin calls private or no-store, is recorded without its content, since such feeds name secret addresses in every item.
Of such an address the path has a mark, too; of errors only where the request had credentials, since ours are no-store.
"""

import hashlib
import re
from collections.abc import Collection
from dataclasses import replace
from urllib.parse import urlsplit

from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields
from feedproxy.http.redaction import has_secret, without_secrets
from feedproxy.lab.record.exchange import Exchange
from feedproxy.upstream.special_networks import client_network

ADDRESSES = "addresses"
SECRETS = "secrets"
KEEPABLE = (ADDRESSES, SECRETS)
"""What the operator can have recorded as it is."""

MARK = "redacted"

_CREDENTIALS = re.compile(
    r"authorization|proxy-authorization|(?:set-)?cookie2?|(?:proxy-)?authentication-info|x-wsse"
    r"|.*(?:token|secret|password|api-?key|access-?key|session|signature|credential|csrf|xsrf).*",
    re.IGNORECASE,
)
_WHOSE = re.compile(
    r"forwarded|x-forwarded-for|x-original-forwarded-for|from|.*(?:real|client|remote|connecting|user)-?ip|.*-client-addr(?:ess)?",
    re.IGNORECASE,
)
"""Fields that say from where, or from whom, a request comes."""
_OPAQUE = frozenset({"etag", "if-none-match", "if-match", "if-range", "user-agent"})
"""What looks like a token here is a validator, or the feed-id of a reader that names itself."""
_REFERENCE = frozenset({"location", "content-location", "referer"})
"""Fields whose whole value is a URI reference, often a relative one (RFC 9110, sections 8.7, 10.1.3 and 10.2.2)."""
_LINK_TARGET = re.compile(r"(?<=<)[^<>]*(?=>)")
"""RFC 8288, section 3."""
_URL = re.compile(r"https?://[^\s\"'<>;,]+|/[^\s\"'<>;,]*\?[^\s\"'<>;,]+", re.IGNORECASE)
_SPOKEN_MIN = 8
"""Characters of a secret that is looked for beyond its own place: shorter ones are parts of words."""


def _is_private(exchange: Exchange) -> bool:
    """Whether it is for one reader: by its request, or by what its origin says."""
    said = CacheControl.from_fields(exchange.fields)
    return _has_credentials(exchange) or said.no_store or said.private


def _has_credentials(exchange: Exchange) -> bool:
    """Whether the request had some: in a field, or, where we ask for a reader, by the mark of a wallet's credential."""
    request = exchange.request
    return "#" in request.target or any(_CREDENTIALS.fullmatch(name) for name, _ in request.fields)


class Redactor:
    """Takes out of exchanges what must not be recorded. `key` is random; `keep` are members of KEEPABLE."""

    def __init__(self, key: bytes, keep: Collection[str] = ()) -> None:
        self._key = hashlib.blake2b(key, person=b"feedproxy.record").digest()
        self._addresses = ADDRESSES not in keep
        self._secrets = SECRETS not in keep

    def is_private(self, exchange: Exchange, *, known: bool = False) -> bool:
        """Whether the content of its answer is not to be recorded; `known` says that somebody knows it for private."""
        return self._secrets and (known or _is_private(exchange) or has_secret(exchange.request.target))

    def address(self, address: str) -> str:
        """What the recording calls a reader's address; an empty one stays empty."""
        return f"reader-{self._hash(client_network(address), 6)}" if self._addresses and address else address

    def exchange(self, exchange: Exchange, *, known: bool = False) -> Exchange:
        """The exchange as it may be recorded; `known` as above. Its `reader` is an address until then."""
        found: set[str] = set()
        is_private = known or _has_credentials(exchange) or (exchange.status < 400 and _is_private(exchange))
        name = self._host_alone if is_private else self._url
        target = name(exchange.request.target, found)
        request = replace(exchange.request, target=target, fields=self._fields(exchange.request.fields, found))
        return replace(
            exchange,
            request=request,
            fields=self._fields(exchange.fields, found),
            reader=self.address(exchange.reader),
            public=name(exchange.public, found) if exchange.public else "",
            failure=self._said(exchange.failure, found),
        )

    def _url(self, url: str, found: set[str]) -> str:
        if not self._secrets:
            return url

        def mask(secret: str) -> str:
            if not secret:
                return secret
            found.add(secret)
            return f"{MARK}-{self._hash(secret, 4)}"

        try:
            return without_secrets(url, mask)
        except ValueError:
            return MARK

    def _host_alone(self, url: str, found: set[str]) -> str:
        """The address with a mark in the place of its path and query."""
        split = urlsplit(url)
        path = url.partition("://")[2].partition("#")[0][len(split.netloc) :]
        if not self._secrets or not split.netloc or path in ("", "/"):
            return self._url(url, found)
        found.add(path)
        return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/{MARK}-{self._hash(path, 4)}"

    def _fields(self, fields: Fields, found: set[str]) -> Fields:
        return Fields((name, self._value(name, value, found)) for name, value in fields)

    def _value(self, name: str, value: str, found: set[str]) -> str:
        if self._secrets and _CREDENTIALS.fullmatch(name):
            return MARK
        if self._addresses and _WHOSE.fullmatch(name):
            return MARK
        if name.lower() in _REFERENCE:
            value = self._url(value, found)
        elif name.lower() == "link":
            value = _LINK_TARGET.sub(lambda url: self._url(url[0], found), value)
        elif name.lower() not in _OPAQUE:
            value = _URL.sub(lambda url: self._url(url[0], found), value)
        return self._said(value, found)

    def _said(self, text: str, found: set[str]) -> str:
        """A text in which a secret of the address is said once more."""
        for secret in sorted(found, key=len, reverse=True):
            if len(secret) >= _SPOKEN_MIN:
                text = text.replace(secret, f"{MARK}-{self._hash(secret, 4)}")
        return text

    def _hash(self, text: str, size: int) -> str:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=size).hexdigest()
