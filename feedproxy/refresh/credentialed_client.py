"""The last step before an origin is asked: a key that names a credential becomes the target, and what proves it."""

from collections.abc import Callable
from typing import Protocol

from feedproxy.http.message import Request
from feedproxy.refresh.redirects import OriginClient
from feedproxy.upstream.client import Fetched, Oversized


class ClosableOriginClient(OriginClient, Protocol):
    """What fetches, and is closed at the end."""

    async def close(self) -> None: ...


class CredentialedClient:
    """A client that knows no credentials, and one who adds them. Nobody before this sees the secret."""

    def __init__(self, client: ClosableOriginClient, with_credentials: Callable[[Request], Request]) -> None:
        self._client = client
        self._with_credentials = with_credentials

    async def fetch(self, request: Request, *, exempt: bool = False) -> Fetched | Oversized:
        """As the client's; raises FetchError, too, where the credential is there no more."""
        return await self._client.fetch(self._with_credentials(request), exempt=exempt)

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()
