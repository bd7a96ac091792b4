"""The last step before a fetch: a cache key that names a credential becomes the target and its credential."""

from collections.abc import Callable
from typing import Protocol

from feedproxy.http.message import Request
from feedproxy.refresh.redirects import OriginClient
from feedproxy.upstream.client import Fetched, Oversized


class ClosableOriginClient(OriginClient, Protocol):
    """A client that is closed at the end."""

    async def close(self) -> None: ...


class CredentialedClient:
    """Adds credentials to the requests of a client. No code before it sees the secret."""

    def __init__(self, client: ClosableOriginClient, with_credentials: Callable[[Request], Request]) -> None:
        self._client = client
        self._with_credentials = with_credentials

    async def fetch(self, request: Request, *, exempt: bool = False) -> Fetched | Oversized:
        """Fetch as the client does. Raises FetchError, too, where the credential was removed."""
        return await self._client.fetch(self._with_credentials(request), exempt=exempt)

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()
