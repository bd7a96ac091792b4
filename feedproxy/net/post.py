"""Calling others: pings, notifications, verifications. One request with content, one short answer.

Apart from fetch.py, whose answers are stored and whose connections never carry content: here nobody cares for the
answer's details, so aiohttp reads it. What both have in common is the policy: every address is checked and pinned.
"""

import asyncio
import ssl
from enum import Enum

import aiohttp
from yarl import URL

from feedproxy.clock import Seconds
from feedproxy.errors import BadTarget, BrokenMessage, FeedproxyError, FetchTimeout, Overload, Unreachable
from feedproxy.http.message import Fields, Response
from feedproxy.http.syntax import is_field
from feedproxy.net import local_failure
from feedproxy.net.address import AddressPolicy
from feedproxy.net.shares import Asker, asking
from feedproxy.net.wire import CheckedResolver

ANSWER_MAX = 65_536
"""Bytes of an answer that are read: an XML-RPC struct, a challenge. The rest is cut off."""


CALLS = Asker("calls", is_known=False)
"""Names of callbacks are looked up as for one client: anybody may have named them."""


class Named(Enum):
    """Who named an address, and what is checked of it for that."""

    BY_ANYBODY = "anybody"
    """Port and address: a callback."""
    BY_CONFIGURATION = "configuration"
    """Where a name leads, for who answers for it may be somebody else: a service that the operator uses. Any port will
    do, and an address that he wrote out."""
    AS_OWN = "own"
    """Nothing, as for the upstream: a machine of the operator's own, by whatever name."""


class Caller:
    """A client that follows no redirect, keeps no cookie, and reads little.

    How many calls there are at once is for its users to bound (notify/courier.py has places for 64): a call that waits
    for a connection could not be told from one that hangs.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        connect: Seconds = 10,
        total: Seconds = 30,
        connections: int = 128,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._timeout = aiohttp.ClientTimeout(total=total, connect=connect)
        self._total = total
        self._connections = connections
        self._ssl_context = ssl_context
        self._sessions: dict[Named, aiohttp.ClientSession] = {}
        self._closed = False

    async def call(
        self, method: str, url: str, fields: Fields | None = None, body: bytes = b"", *, named: Named = Named.BY_ANYBODY
    ) -> Response:
        """Send this; the answer, its body cut off at ANSWER_MAX.

        Raises Forbidden (address, port), BadTarget, Unreachable, FetchTimeout, BrokenMessage.
        """
        where = _url(url)
        for name, value in fields or ():
            if not is_field(name, value):  # aiohttp looks for ends of lines only
                raise BadTarget(f"the field {name!r} cannot be sent")
        if named is Named.BY_ANYBODY:
            self._policy.check_port(where.port or 0)
            self._policy.literal(where.raw_host or "", where.port or 0)
        try:
            with asking(CALLS):
                # What is begun here goes on inside it: aiohttp looks names up in the same task.
                answer = await self._session(named).request(
                    method, where, headers=list(fields or ()), data=body or None, allow_redirects=False
                )
            async with answer:
                content = await _beginning(answer.content)
                lines = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.raw_headers]
                return Response(answer.status, Fields(lines).end_to_end(), content, answer.reason or "")
        except FeedproxyError:
            raise
        except TimeoutError as error:
            raise FetchTimeout(f"{where.authority} did not answer in {self._total:g} s") from error
        except aiohttp.ClientConnectorError as error:
            if local_failure.is_local(error.os_error):
                local_failure.complaints.say(f"{where.authority} cannot be called: {error.os_error}")
                raise Overload(f"{where.authority} cannot be called now") from error
            raise Unreachable(f"{where.authority} cannot be reached") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise BrokenMessage(f"{where.authority}: {error or type(error).__name__}") from error

    async def addresses(self, url: str) -> list[str]:
        """The addresses that a call to this URL could go to. Raises Forbidden, BadTarget, Unreachable."""
        where = _url(url)
        with asking(CALLS):
            return await self._policy.resolve(where.raw_host or "", where.port or 0)

    async def close(self) -> None:
        """Close every connection; calls under way fail."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    def _session(self, named: Named) -> aiohttp.ClientSession:
        """A pool for what each has named: a connection never changes sides."""
        if self._closed:
            raise Unreachable("the client is closed")
        if named not in self._sessions:
            policy = self._policy
            resolve = {Named.BY_ANYBODY: policy.resolve, Named.BY_CONFIGURATION: policy.resolve_configured}
            connector = aiohttp.TCPConnector(
                resolver=CheckedResolver(resolve.get(named, policy.addresses)),
                use_dns_cache=False,  # each new connection is resolved and checked anew
                ssl=self._ssl_context or True,
                limit=self._connections,
            )
            self._sessions[named] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._timeout,
                # A compressed answer of a few bytes could be a large one.
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
            )
        return self._sessions[named]


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) >= ANSWER_MAX:
            break
        await asyncio.sleep(0)
    return bytes(body[:ANSWER_MAX])


def _url(text: str) -> URL:
    try:
        url = URL(text, encoded=True)
        usable = url.scheme in {"http", "https"} and bool(url.raw_host) and url.port is not None and text.isascii()
    except ValueError:
        usable = False
    if not usable or url.raw_user is not None:
        raise BadTarget("that is no address that can be called")
    return url
