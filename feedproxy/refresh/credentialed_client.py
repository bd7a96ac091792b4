"""Credentials for origins: added to a request just before it is sent, and removed from the response."""

import re
from collections.abc import Callable
from functools import partial
from typing import Protocol
from urllib.parse import parse_qsl, unquote, unquote_plus

from msgspec.structs import replace

from feedproxy.http import uri
from feedproxy.http.message import Fields, Request, Response
from feedproxy.refresh.redirect_following import OriginClient
from feedproxy.upstream.fetch_result import Fetched, Oversized, PendingFetch

_REFERENCES = frozenset({"location", "content-location", "link"})
"""Response fields with addresses, in which origins often repeat the secret parameters of the request."""

_LINK_TARGET = re.compile(r"(?<=<)[^>]*")


class ClosableOriginClient(OriginClient, Protocol):
    """An origin client that can be closed."""

    async def close(self) -> None: ...


class CredentialedClient:
    """Origin client that adds credentials to requests. A target's fragment names its credential, so callers never see
    the secret."""

    def __init__(self, client: ClosableOriginClient, with_credentials: Callable[[Request], Request]) -> None:
        self._client = client
        self._with_credentials = with_credentials

    def fetch(self, request: Request, *, skip_address_check: bool = False) -> PendingFetch:
        """Send the request with the credential that its target names, and return the response.

        Secret parameters are removed from the addresses in the response's fields. Raises FetchError if the fetch fails
        or if the credential no longer exists.
        """
        sent = self._with_credentials(request)
        if sent is request:
            return self._client.fetch(request, skip_address_check=skip_address_check)
        return self._fetch_with_credential(request, sent, skip_address_check=skip_address_check)

    async def _fetch_with_credential(
        self, request: Request, sent: Request, *, skip_address_check: bool
    ) -> Fetched | Oversized:
        answer = await self._client.fetch(sent, skip_address_check=skip_address_check)
        parameters = sent.target.removeprefix(uri.without_fragment(request.target))[1:]
        return _without_parameters(answer, frozenset(parse_qsl(parameters))) if parameters else answer

    async def close(self) -> None:
        """Close the wrapped client."""
        await self._client.close()


def _without_parameters(answer: Fetched | Oversized, secret: frozenset[tuple[str, str]]) -> Fetched | Oversized:
    """Return the response without the secret parameters in its fields. The content of a redirect is left out."""
    fields = answer.fields if isinstance(answer, Oversized) else answer.response.fields
    fields = Fields((name, _public_value(name.lower(), value, secret)) for name, value in fields)
    if isinstance(answer, Oversized):
        return replace(answer, fields=fields)
    response = answer.response
    if "location" in fields and 300 <= response.status < 400:
        return replace(answer, response=Response(response.status, fields.without("content-encoding")))
    return replace(answer, response=response.with_fields(fields))


def _public_value(name: str, value: str, secret: frozenset[tuple[str, str]]) -> str:
    if name not in _REFERENCES:
        return value
    if name == "link":
        return _LINK_TARGET.sub(lambda match: _public_address(match[0], secret), value)
    return _public_address(value, secret)


def _public_address(address: str, secret: frozenset[tuple[str, str]]) -> str:
    """Return the address without the query parameters that disclose a secret. `secret` contains the secret parameters,
    as names and values. A parameter of the address discloses a secret if it is secret itself, or if its value is an
    address with a secret parameter."""
    start, mark, rest = address.partition("?")
    query, hash_mark, fragment = rest.partition("#")
    remaining = [part for part in query.split("&") if not any(map(partial(_contains, part), secret))]
    if len(remaining) == query.count("&") + 1:
        return address
    return start + (mark if remaining else "") + "&".join(remaining) + hash_mark + fragment


def _contains(part: str, parameter: tuple[str, str]) -> bool:
    """Return True if a part of a query is this parameter, or contains it in an address (`next=%2Ffeed%3Fa%3Db`)."""
    if parameter in parse_qsl(part):
        return True
    return "=".join(parameter) in unquote(unquote_plus(part).partition("=")[2])
