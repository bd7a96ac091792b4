"""Insertion of an origin's credentials into requests, directly before they are sent."""

from collections.abc import Callable
from typing import Protocol

from feedproxy.http.message import Request
from feedproxy.refresh.redirects import OriginClient
from feedproxy.upstream.fetched import Fetched, Oversized


class ClosableOriginClient(OriginClient, Protocol):
    """An origin client that can be closed."""

    async def close(self) -> None: ...


class CredentialedClient:
    """An origin client that adds credentials to requests. A target's fragment names its credential, so that callers
    never see the secret."""

    def __init__(self, client: ClosableOriginClient, with_credentials: Callable[[Request], Request]) -> None:
        self._client = client
        self._with_credentials = with_credentials

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        """Send the request with its credential. Return the response. Raises FetchError, also if no such credential
        exists."""
        return await self._client.fetch(self._with_credentials(request), skip_address_check=skip_address_check)

    async def close(self) -> None:
        """Close the wrapped client."""
        await self._client.close()
