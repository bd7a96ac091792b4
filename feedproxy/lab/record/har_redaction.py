"""Redaction of recordings: pseudonyms replace network addresses, and placeholders replace secrets
(docs/how-to/record-traffic.md). Both are keyed hashes.

The content of a private response is left out, because private feeds often have secret addresses in their items. The
path of a private address is replaced. An error response that is private or no-store does not make its address private,
because all of feedproxy's own errors are no-store, even for public feeds.
"""

import hashlib
import re
from collections.abc import Collection
from urllib.parse import urljoin, urlsplit

from msgspec.structs import replace

from feedproxy.client_network import client_network
from feedproxy.feed import xml_redirect
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import Fields
from feedproxy.http.target_uri.url_redaction import has_secret, without_secrets
from feedproxy.lab.record.exchange import Exchange

ADDRESSES = "addresses"
SECRETS = "secrets"
KEEP_CHOICES = (ADDRESSES, SECRETS)
"""Values of the option `record_keep`: what is recorded without redaction."""

REDACTED = "redacted"

_OTHER_SECRETS = frozenset(
    {"proxy-authorization", "set-cookie", "set-cookie2", "authentication-info", "proxy-authentication-info"}
)
"""Fields with secrets, in addition to the credential fields that feedproxy forwards."""
_ADDRESS_FIELDS = re.compile(
    r"forwarded|x-forwarded-for|x-original-forwarded-for|from|.*(?:real|client|remote|connecting|user)-?ip|.*-client-addr(?:ess)?"
    r"|.*-(?:user|user-?name|email|login)",
    re.IGNORECASE,
)
"""Pattern of the names of fields that contain an address of the client or its user."""
_OPAQUE = frozenset({"etag", "if-none-match", "if-match", "if-range", "user-agent"})
"""Fields in which a long token is a validator or a product name, not a secret."""
_REFERENCE = frozenset({"location", "content-location", "referer"})
"""Fields with a URI reference as value (RFC 9110, sections 8.7, 10.1.3 and 10.2.2)."""
_LINK_TARGET = re.compile(r"(?<=<)[^<>]*(?=>)")
"""Pattern of the target of a link in the field Link (RFC 8288, section 3)."""
_GATEWAY = re.compile(r"https?://[^/?#]+/(?=https?://)", re.IGNORECASE)
"""Pattern of what precedes the target in a gateway address."""
_URL = re.compile(r"https?://[^\s\"'<>;,]+|/[^\s\"'<>;,]*\?[^\s\"'<>;,]+", re.IGNORECASE)
_REPEATED_SECRET_MIN = 8
"""A secret of an address is replaced in fields and error messages if it has at least this many characters. A shorter
secret can be part of an ordinary word."""


def _is_private(exchange: Exchange) -> bool:
    directives = CacheControl.from_fields(exchange.fields)
    return (
        _has_credentials(exchange)
        or directives.no_store
        or directives.private
        # The content of a redirect often contains the address to which it leads.
        or any(name.lower() in _REFERENCE and has_secret(value) for name, value in exchange.fields)
    )


def _has_credentials(exchange: Exchange) -> bool:
    """Return True if the request has credentials in a field, or if feedproxy adds stored credentials to it
    (access/origin_credentials.py)."""
    request = exchange.request
    return "#" in request.target or any(_is_secret(name) for name, _ in request.fields)


def _is_secret(name: str) -> bool:
    return is_credential(name) or name.lower() in _OTHER_SECRETS


class Redactor:
    """Replacement of addresses and secrets by hashes with the key `key`. `keep` contains members of KEEP_CHOICES."""

    def __init__(self, key: bytes, keep: Collection[str] = ()) -> None:
        self._key = hashlib.blake2b(key, person=b"feedproxy.record").digest()
        self._addresses = ADDRESSES not in keep
        self._secrets = SECRETS not in keep

    def is_private(self, exchange: Exchange, *, marked_private: bool = False) -> bool:
        """Return True if the content must not be recorded. `marked_private` is true if the caller knows that the
        exchange is private."""
        return self._secrets and (marked_private or _is_private(exchange) or has_secret(exchange.request.target))

    def names_secret_address(self, content: bytes) -> bool:
        """Return True for a redirect document to an address with a secret. Such a document must not be recorded."""
        relocation = xml_redirect.read(content) if self._secrets else None
        return isinstance(relocation, xml_redirect.Moved) and has_secret(relocation.location)

    def address(self, address: str) -> str:
        """Return the pseudonym of a reader's address. If addresses are not redacted (`keep`), return the address."""
        return f"reader-{self._hash(client_network(address), 6)}" if self._addresses and address else address

    def exchange(self, exchange: Exchange, *, marked_private: bool = False) -> Exchange:
        """Return the redacted exchange. `exchange.reader` must be an address. `marked_private` is true if the caller
        knows that the exchange is private."""
        secrets: set[str] = set()
        is_private = marked_private or _has_credentials(exchange) or (exchange.status < 400 and _is_private(exchange))
        name = self._redact_path if is_private else self._redact_url
        target = name(exchange.request.target, secrets)
        private_base = exchange.request.target if is_private else ""
        request_fields = self._redact_fields(exchange.request.fields, secrets, private_base)
        return replace(
            exchange,
            request=replace(exchange.request, target=target, fields=request_fields),
            fields=self._redact_fields(exchange.fields, secrets, private_base),
            reader=self.address(exchange.reader),
            public=name(exchange.public, secrets),
            failure=self._redact_text(exchange.failure, secrets),
        )

    def _redact_url(self, url: str, secrets: set[str]) -> str:
        if not self._secrets:
            return url

        def mask(secret: str) -> str:
            if not secret:
                return secret
            secrets.add(secret)
            return f"{REDACTED}-{self._hash(secret, 4)}"

        try:
            return without_secrets(url, mask)
        except ValueError:
            return REDACTED

    def _redact_path(self, url: str, secrets: set[str]) -> str:
        """Return the address with one placeholder for its path and query, and add the replaced text to `secrets`."""
        split = urlsplit(url)
        path = url.partition("://")[2].partition("#")[0][len(split.netloc) :]
        if not self._secrets or not split.netloc or path in ("", "/"):
            return self._redact_url(url, secrets)
        secrets.add(path)
        return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/{REDACTED}-{self._hash(path, 4)}"

    def _redact_reference(self, reference: str, secrets: set[str], base: str) -> str:
        """Return a URI reference of a field without its secrets. `base` is the target of a private exchange, or "" for
        any other.

        Private responses often refer to other private addresses. If `base` is not "", the result is therefore an
        absolute URI with a placeholder for path and query. A later request for that address has the same placeholder in
        its target.
        """
        if not self._secrets or not base:
            return self._redact_url(reference, secrets)
        try:
            absolute = urljoin(base, reference.strip())
            gateway = match[0] if (match := _GATEWAY.match(absolute)) else ""
            return gateway + self._redact_path(absolute.removeprefix(gateway), secrets)
        except ValueError:
            return REDACTED

    def _redact_fields(self, fields: Fields, secrets: set[str], base: str) -> Fields:
        return Fields((name, self._redact_value(name, value, secrets, base)) for name, value in fields)

    def _redact_value(self, name: str, value: str, secrets: set[str], base: str) -> str:
        if self._secrets and _is_secret(name):
            return REDACTED
        if self._addresses and _ADDRESS_FIELDS.fullmatch(name):
            return REDACTED
        if name.lower() in _REFERENCE:
            value = self._redact_reference(value, secrets, base)
        elif name.lower() == "link":
            value = _LINK_TARGET.sub(lambda url: self._redact_reference(url[0], secrets, base), value)
        elif name.lower() not in _OPAQUE:
            value = _URL.sub(lambda url: self._redact_reference(url[0], secrets, base), value)
        return self._redact_text(value, secrets)

    def _redact_text(self, text: str, secrets: set[str]) -> str:
        """Return the text with placeholders in place of all `secrets` of at least _REPEATED_SECRET_MIN characters."""
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= _REPEATED_SECRET_MIN:
                text = text.replace(secret, f"{REDACTED}-{self._hash(secret, 4)}")
        return text

    def _hash(self, text: str, size: int) -> str:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=size).hexdigest()
