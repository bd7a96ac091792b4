"""HTTP client for callbacks and hubs: pings, notifications, verifications.

A name is resolved once, and AddressPolicy must permit the address to which the client connects. Machines that the
operator trusts are exempt (AddressTrust).
"""

import asyncio
import functools
import ssl
from collections.abc import Callable
from enum import Enum

import aiohttp
from yarl import URL

from feedproxy.clock import Seconds
from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.http.field_lines import is_field
from feedproxy.http.message import Fields, Response
from feedproxy.upstream import local_failure
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.connection_pool import CheckedResolver, ParentConnector
from feedproxy.upstream.origin_connection_limits import Requester, requesting
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.parent_proxy_tunnel import Resolve, unauthorized_error
from feedproxy.upstream.upstream_errors import FetchTimeout, MalformedResponse, Unreachable

CONNECT_TIMEOUT: Seconds = 10
"""A connection must be open after this many seconds."""

TOTAL_TIMEOUT: Seconds = 30
"""A call must be complete after this many seconds."""

CONNECTIONS_MAX = 128
"""At most this many connections are open at a time."""

RESPONSE_MAX = 65_536
"""At most this many bytes of a response's content are read. Further bytes are ignored."""


CALLS = Requester("calls", is_known=False)
"""The requester to which all calls are charged.

All calls together have the limit for name look-ups of one client.
"""


class AddressTrust(Enum):
    """The source of an address, which determines the checks that the address must pass."""

    UNTRUSTED = "anybody"
    """A callback URL that a client sent. Port and addresses are checked."""
    CONFIGURED_NAME = "configuration"
    """A service that the operator configured by name or address. Only the addresses of a name are checked."""
    OPERATOR_HOST = "own"
    """A machine of the operator, such as the upstream. Neither port nor address is checked."""


class CallbackClient:
    """HTTP client for callbacks. It follows no redirects, sends no cookies, and reads at most RESPONSE_MAX bytes of
    content.

    Callers must make at most CONNECTIONS_MAX concurrent calls. One more call would wait for a connection, and raise
    FetchTimeout after CONNECT_TIMEOUT seconds.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        ssl_context: ssl.SSLContext | None = None,
        parent_of: Callable[[str], Parent | None] = lambda target: None,
    ) -> None:
        self._policy = policy
        self._parent_of = parent_of
        self._timeout = aiohttp.ClientTimeout(total=TOTAL_TIMEOUT, connect=CONNECT_TIMEOUT)
        self._ssl_context = ssl_context
        self._sessions: dict[tuple[AddressTrust, Parent | None], aiohttp.ClientSession] = {}
        self._closed = False

    async def call(
        self,
        method: str,
        url: str,
        fields: Fields | None = None,
        body: bytes = b"",
        *,
        trust: AddressTrust = AddressTrust.UNTRUSTED,
    ) -> Response:
        """Send a request and return the response, with its content cut to RESPONSE_MAX bytes.

        Raises Forbidden (address, port), BadTarget, Unreachable, FetchTimeout, MalformedResponse, ParentFailed,
        Overload.
        """
        target_url = _url(url)
        authority = uri.join_host_port(target_url.raw_host or "", target_url.port or 0)
        parent = self._parent_of(_normalise(str(target_url)))
        for name, value in fields or ():
            if not is_field(name, value):  # aiohttp itself checks only for line ends
                raise BadTarget(f"invalid field {name!r}: expected a valid name and value")
        if trust is AddressTrust.UNTRUSTED:
            self.check(url)
        lines, proxy = list(fields or ()), None
        try:
            with requesting(CALLS):
                # aiohttp resolves names in the same task.
                if parent is not None and parent.is_http and target_url.scheme == "http":
                    async with asyncio.timeout(self._timeout.connect):
                        await self._check(trust, parent)(target_url.raw_host or "", target_url.port or 0)
                    proxy = URL(str(parent))  # the proxy argument makes aiohttp write the target in absolute-form
                    lines += [("Proxy-Authorization", value) for value in (parent.authorization,) if value]
                answer = await self._session(trust, parent).request(
                    method, target_url, headers=lines, data=body or None, allow_redirects=False, proxy=proxy
                )
            async with answer:
                if answer.status == 407 and parent is not None:
                    raise unauthorized_error(parent, authority)
                content = await _read_limited(answer.content)
                lines = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.raw_headers]
                return Response(answer.status, Fields(lines).end_to_end(), content, answer.reason or "")
        except FeedproxyError:
            raise
        except TimeoutError as error:
            raise FetchTimeout(f"{authority} did not respond in {TOTAL_TIMEOUT:g} s") from error
        except aiohttp.ClientConnectorError as error:
            if (overload := local_failure.overload_of(error.os_error, f"{authority} cannot be reached")) is not None:
                raise overload from error
            raise Unreachable(f"{authority} cannot be reached") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise MalformedResponse(f"{authority}: {error or type(error).__name__}") from error

    def check(self, url: str) -> None:
        """Raise Forbidden or BadTarget if a callback is not permitted. Its host name is not resolved."""
        target_url = _url(url)
        host, port = target_url.raw_host or "", target_url.port or 0
        self._policy.check_port(port)
        if self._policy.literal_address(host, port) is None:
            self._policy.check_localhost(host)

    async def resolve(self, url: str) -> list[str]:
        """Return the permitted addresses of a URL's host. Raises the errors of `AddressPolicy.resolve`, and BadTarget
        for an invalid URL."""
        target_url = _url(url)
        with requesting(CALLS):
            return await self._policy.resolve(target_url.raw_host or "", target_url.port or 0)

    async def close(self) -> None:
        """Close all connections. Current calls fail."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    def _session(self, trust: AddressTrust, parent: Parent | None) -> aiohttp.ClientSession:
        """Return the HTTP session for addresses of this trust and for this parent proxy (None: direct connections).

        Sessions share no connections, so that a connection is used only by calls with the same checks of the address.
        Raises Unreachable if the client is closed.
        """
        if self._closed:
            raise Unreachable("the client is closed")
        if (trust, parent) not in self._sessions:
            self._sessions[trust, parent] = aiohttp.ClientSession(
                connector=self._connector(trust, parent),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._timeout,
                # A compressed response of a few bytes could become large when decoded.
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
            )
        return self._sessions[trust, parent]

    def _connector(self, trust: AddressTrust, parent: Parent | None) -> aiohttp.BaseConnector:
        check = self._check(trust, parent)
        if parent is None:
            return aiohttp.TCPConnector(
                resolver=CheckedResolver(check),
                use_dns_cache=False,  # the name is resolved and checked for each new connection
                ssl=self._ssl_context or True,
                limit=CONNECTIONS_MAX,
            )
        return ParentConnector(
            parent,
            check=check,
            resolve_parent=self._policy.resolve_parent,
            ssl_context=self._ssl_context,
            limit=CONNECTIONS_MAX,
        )

    def _check(self, trust: AddressTrust, parent: Parent | None) -> Resolve:
        """Return the function that resolves a host and makes the checks of this trust."""
        policy = self._policy
        if trust is AddressTrust.OPERATOR_HOST:
            return policy.addresses if parent is None or not parent.resolves_names else policy.no_addresses
        configured = trust is AddressTrust.CONFIGURED_NAME
        if parent is not None:
            return functools.partial(
                policy.resolve_for_parent, may_be_unknown=parent.resolves_names, configured=configured
            )
        return policy.resolve_configured if configured else policy.resolve


async def _read_limited(content: aiohttp.StreamReader) -> bytes:
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) >= RESPONSE_MAX:
            break
        await asyncio.sleep(0)
    return bytes(body[:RESPONSE_MAX])


def _normalise(url: str) -> str:
    try:
        return uri.normalise(url)
    except BadTarget:
        return url


def _url(text: str) -> URL:
    try:
        url = URL(text, encoded=True)
        usable = url.scheme in {"http", "https"} and bool(url.raw_host) and url.port is not None and text.isascii()
    except ValueError:
        usable = False
    if not usable or url.raw_user is not None:
        raise BadTarget(f"invalid callback URL {text!r}: expected an absolute http or https URL")
    return url
