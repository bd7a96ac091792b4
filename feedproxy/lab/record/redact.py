"""Redaction of recordings: pseudonyms for addresses, marks in place of secrets.

Both are keyed hashes: with one key, the same address or secret has the same mark in every recording. The key is not
recorded.

Fields with secrets keep their names and have the value `redacted`. Responses are recorded without content if the
request had credentials, cookies or a secret in its address, or if the response is private or no-store: private feeds
often have secret addresses in their items. The path of such a target is replaced by a mark, too; for errors only if
the request had credentials, since feedproxy's own errors are no-store.
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
KEEP_CHOICES = (ADDRESSES, SECRETS)
"""Values of the option `record_keep`: what is recorded unredacted."""

REDACTED = "redacted"

_CREDENTIALS = re.compile(
    r"authorization|proxy-authorization|(?:set-)?cookie2?|(?:proxy-)?authentication-info|x-wsse"
    r"|.*(?:token|secret|password|api-?key|access-?key|session|signature|credential|csrf|xsrf).*",
    re.IGNORECASE,
)
_ADDRESS_FIELDS = re.compile(
    r"forwarded|x-forwarded-for|x-original-forwarded-for|from|.*(?:real|client|remote|connecting|user)-?ip|.*-client-addr(?:ess)?",
    re.IGNORECASE,
)
"""Fields with an address of the client or its user."""
_OPAQUE = frozenset({"etag", "if-none-match", "if-match", "if-range", "user-agent"})
"""Fields in which a token is a validator, or part of a product name."""
_REFERENCE = frozenset({"location", "content-location", "referer"})
"""Fields with a URI reference as value, often a relative one (RFC 9110, sections 8.7, 10.1.3 and 10.2.2)."""
_LINK_TARGET = re.compile(r"(?<=<)[^<>]*(?=>)")
"""RFC 8288, section 3."""
_URL = re.compile(r"https?://[^\s\"'<>;,]+|/[^\s\"'<>;,]*\?[^\s\"'<>;,]+", re.IGNORECASE)
_REPEATED_SECRET_MIN = 8
"""Least characters of a secret that is replaced in other texts, too: shorter ones occur in words."""


def _is_private(exchange: Exchange) -> bool:
    """Return True if the request has credentials, or the response is private or no-store."""
    directives = CacheControl.from_fields(exchange.fields)
    return _has_credentials(exchange) or directives.no_store or directives.private


def _has_credentials(exchange: Exchange) -> bool:
    """Return True if the request has a credential in a field, or the mark of a stored credential in its target."""
    request = exchange.request
    return "#" in request.target or any(_CREDENTIALS.fullmatch(name) for name, _ in request.fields)


class Redactor:
    """Removes addresses and secrets from exchanges. `key` is random; `keep` has members of KEEP_CHOICES."""

    def __init__(self, key: bytes, keep: Collection[str] = ()) -> None:
        self._key = hashlib.blake2b(key, person=b"feedproxy.record").digest()
        self._addresses = ADDRESSES not in keep
        self._secrets = SECRETS not in keep

    def is_private(self, exchange: Exchange, *, known: bool = False) -> bool:
        """Return True if the content must not be recorded; `known` marks the exchange as private."""
        return self._secrets and (known or _is_private(exchange) or has_secret(exchange.request.target))

    def address(self, address: str) -> str:
        """Return the pseudonym of a reader's address; an empty address stays empty."""
        return f"reader-{self._hash(client_network(address), 6)}" if self._addresses and address else address

    def exchange(self, exchange: Exchange, *, known: bool = False) -> Exchange:
        """Return the redacted exchange; `known` marks it as private. Its `reader` is an address before."""
        found: set[str] = set()
        is_private = known or _has_credentials(exchange) or (exchange.status < 400 and _is_private(exchange))
        name = self._redact_path if is_private else self._redact_url
        target = name(exchange.request.target, found)
        request = replace(exchange.request, target=target, fields=self._redact_fields(exchange.request.fields, found))
        return replace(
            exchange,
            request=request,
            fields=self._redact_fields(exchange.fields, found),
            reader=self.address(exchange.reader),
            public=name(exchange.public, found) if exchange.public else "",
            failure=self._redact_text(exchange.failure, found),
        )

    def _redact_url(self, url: str, found: set[str]) -> str:
        if not self._secrets:
            return url

        def mask(secret: str) -> str:
            if not secret:
                return secret
            found.add(secret)
            return f"{REDACTED}-{self._hash(secret, 4)}"

        try:
            return without_secrets(url, mask)
        except ValueError:
            return REDACTED

    def _redact_path(self, url: str, found: set[str]) -> str:
        """Return the address with a mark in place of path and query."""
        split = urlsplit(url)
        path = url.partition("://")[2].partition("#")[0][len(split.netloc) :]
        if not self._secrets or not split.netloc or path in ("", "/"):
            return self._redact_url(url, found)
        found.add(path)
        return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/{REDACTED}-{self._hash(path, 4)}"

    def _redact_fields(self, fields: Fields, found: set[str]) -> Fields:
        return Fields((name, self._redact_value(name, value, found)) for name, value in fields)

    def _redact_value(self, name: str, value: str, found: set[str]) -> str:
        if self._secrets and _CREDENTIALS.fullmatch(name):
            return REDACTED
        if self._addresses and _ADDRESS_FIELDS.fullmatch(name):
            return REDACTED
        if name.lower() in _REFERENCE:
            value = self._redact_url(value, found)
        elif name.lower() == "link":
            value = _LINK_TARGET.sub(lambda url: self._redact_url(url[0], found), value)
        elif name.lower() not in _OPAQUE:
            value = _URL.sub(lambda url: self._redact_url(url[0], found), value)
        return self._redact_text(value, found)

    def _redact_text(self, text: str, found: set[str]) -> str:
        """Return the text with a mark in place of each secret found before."""
        for secret in sorted(found, key=len, reverse=True):
            if len(secret) >= _REPEATED_SECRET_MIN:
                text = text.replace(secret, f"{REDACTED}-{self._hash(secret, 4)}")
        return text

    def _hash(self, text: str, size: int) -> str:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=size).hexdigest()
