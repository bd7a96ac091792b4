"""HTTP client for callbacks and hubs: pings, notifications, verifications.

A name is resolved once, and AddressPolicy must permit the address to which the client connects. Machines that the
operator trusts are exempt (AddressTrust).
"""

import ssl
from collections.abc import Callable

from yarl import URL

from feedproxy.clock import Seconds, SystemClock
from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.message import NO_FIELDS, Fields, Request, Response
from feedproxy.upstream.address_policy import AddressPolicy, AddressTrust
from feedproxy.upstream.fetch_result import Oversized
from feedproxy.upstream.origin_client import Fetcher, FetchLimits
from feedproxy.upstream.origin_connection_limits import Requester, requesting
from feedproxy.upstream.parent_proxy import Parent

CONNECT_TIMEOUT: Seconds = 10
"""A connection must be open within this many seconds."""

TOTAL_TIMEOUT: Seconds = 30
"""A call must be complete within this many seconds."""

RESPONSE_MAX = 65_536
"""Content of more than this many bytes is dropped, and the connection is closed."""

CALLS = Requester("calls", is_known=False)
"""The requester of all calls (origin_connection_limits.py). Together, they may have as many name look-ups as one
client."""


class CallbackClient:
    """HTTP client for callbacks. It follows no redirects, sends no cookies, and decodes no content."""

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        ssl_context: ssl.SSLContext | None = None,
        parent_of: Callable[[str], Parent | None] = lambda target: None,
    ) -> None:
        self._policy = policy
        limits = FetchLimits(
            connect=CONNECT_TIMEOUT, first_byte=TOTAL_TIMEOUT, total=TOTAL_TIMEOUT, buffer_max=RESPONSE_MAX
        )
        self._client = Fetcher(policy, limits, clock=SystemClock(), ssl_context=ssl_context, parent_of=parent_of)

    async def call(
        self,
        method: str,
        url: str,
        fields: Fields = NO_FIELDS,
        body: bytes = b"",
        *,
        trust: AddressTrust = AddressTrust.UNTRUSTED,
    ) -> Response:
        """Send a request and return the response. If its content exceeds RESPONSE_MAX bytes, the response has no
        content. A field Host in `fields` replaces the host of the URL. Raises the errors of `Fetcher.fetch`."""
        target_url = _url(url)
        if trust is AddressTrust.UNTRUSTED:
            self.check(url)
        authority = uri.join_host_port(target_url.raw_host or "", target_url.port or 0)
        request = Request(method, f"{target_url.scheme}://{authority}{target_url.raw_path_qs}", fields)
        with requesting(CALLS):
            answer = await self._client.send(request, body, trust=trust, virtual_host=fields.get("host") or "")
        return Response(answer.status, answer.fields) if isinstance(answer, Oversized) else answer.response

    def check(self, url: str) -> None:
        """Raise Forbidden or BadTarget if a callback is not permitted. Its host name is not resolved."""
        target_url = _url(url)
        self._policy.check_target(target_url.raw_host or "", target_url.port or 0)

    async def resolve(self, url: str) -> list[str]:
        """Return the permitted addresses of a URL's host. Raises the errors of `AddressPolicy.resolve`, and BadTarget
        for an invalid URL."""
        target_url = _url(url)
        with requesting(CALLS):
            return await self._policy.resolve(target_url.raw_host or "", target_url.port or 0)

    async def close(self) -> None:
        """Close all connections. Current calls fail."""
        await self._client.close()


def _url(text: str) -> URL:
    try:
        url = URL(text, encoded=True)
        usable = url.scheme in {"http", "https"} and bool(url.raw_host) and url.port is not None and text.isascii()
    except ValueError:
        usable = False
    if not usable or url.raw_user is not None:
        raise BadTarget(f"invalid callback URL {text!r}: expected an absolute http or https URL")
    return url
