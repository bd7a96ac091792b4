"""Insertion of origin credentials directly before a fetch. A cache key that names a credential becomes target and
credential."""

from collections.abc import Callable
from typing import Protocol

from feedproxy.http.message import Request
from feedproxy.refresh.redirects import OriginClient
from feedproxy.upstream.fetched import Fetched, Oversized


class ClosableOriginClient(OriginClient, Protocol):
    """An origin client that can be closed."""

    async def close(self) -> None: ...


class CredentialedClient:
    """An origin client that adds credentials to requests. The code that calls this client handles names of credentials,
    but no secrets."""

    def __init__(self, client: ClosableOriginClient, with_credentials: Callable[[Request], Request]) -> None:
        self._client = client
        self._with_credentials = with_credentials

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        """Return the origin's response to the request with its credential. Raises FetchError, also for a removed
        credential."""
        return await self._client.fetch(self._with_credentials(request), skip_address_check=skip_address_check)

    async def close(self) -> None:
        """Close the wrapped client."""
        await self._client.close()
