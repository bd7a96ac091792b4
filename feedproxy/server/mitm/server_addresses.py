"""Hosts in the addresses of mitmproxy's own connections to servers: for tunnels and streamed requests.

* A `_PinnedName` is the name of a server. mitmproxy connects to the address that was checked for it.
* A `ParentProxyHost` leads through the parent proxy (`upstream_proxy`), which depends on the target and can be a SOCKS
  proxy. mitmproxy itself supports only one HTTP parent.

`install` replaces the global `asyncio` in `mitmproxy.proxy.server` by an object that also connects to such hosts. If a
new version of mitmproxy lacks this global, connections that need a parent are refused.
"""

import asyncio
import socket
from typing import Any, Self

from mitmproxy.proxy import server

from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.http import uri
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.parent_proxy_tunnel import connect_to_parent, open_tunnel, parent_name
from feedproxy.upstream.upstream_errors import ParentFailed

CONNECT_TIMEOUT: Seconds = 10
"""A connection to an origin, to the parent, or through the parent must be open within this many seconds: the default of
`connect_timeout`. TCP itself would try for two minutes."""


class ParentProxyHost(str):
    """The host of a server behind a parent proxy. As a string, it is the host name of the parent proxy."""

    __slots__ = ("_policy", "is_plain", "origin", "parent", "requested_host")

    parent: Parent
    origin: tuple[str, int]
    """Host and port of the origin."""
    requested_host: str
    """Host in the request to the parent: the origin's name, or its checked address."""
    is_plain: bool
    """True if requests are sent to the parent itself, in absolute-form. False for a tunnel through the parent."""
    _policy: AddressPolicy

    @classmethod
    def make(cls, parent: Parent, origin: tuple[str, int], addresses: list[str], policy: AddressPolicy) -> Self:
        """Return a ParentProxyHost for `origin`, a host and port behind `parent`. `addresses` are the permitted
        addresses of the origin, or [] if its name was not resolved here."""
        parent_host = cls(parent.host)
        parent_host.parent, parent_host.origin, parent_host._policy, parent_host.is_plain = (
            parent,
            origin,
            policy,
            False,
        )
        parent_host.requested_host = origin[0] if parent.resolves_names or not addresses else addresses[0]
        return parent_host

    # mitmproxy reuses a connection for equal addresses. An object of this class is therefore equal only to itself,
    # because its connection leads to one origin.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    async def open(self) -> socket.socket:
        """Connect to the parent, or through the parent to the origin, and return the socket. Raises OSError for every
        failure."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                if self.is_plain:
                    return await connect_to_parent(self.parent, self._policy.resolve_parent)
                host, port = self.origin
                authority = uri.join_host_port(host, port)
                return await open_tunnel(
                    self.parent, self._policy.resolve_parent, self.requested_host, port, authority=authority
                )
        except TimeoutError as error:
            raise OSError(f"no connection through {parent_name(self.parent)} after {CONNECT_TIMEOUT:g} s") from error
        except FeedproxyError as error:
            raise OSError(str(error)) from error


class _PinnedName(str):
    """The name of a server, with the checked address to connect to. mitmproxy compares connections by the name."""

    __slots__ = ("address",)

    address: str


def pinned_name(name: str, address: str) -> str:
    """Return a host for which mitmproxy connects to `address`, and reuses the connection for requests to `name`. If the
    address were the host, each request would open a connection, and a client's sixth request would wait."""
    if not isinstance(getattr(server, "asyncio", None), _AsyncioWithParents):
        return address  # mitmproxy would resolve the name again
    pinned = _PinnedName(name)
    pinned.address = address
    return pinned


class _AsyncioWithParents:
    """Object in place of `asyncio` in `mitmproxy.proxy.server`. It connects to the address of a `_PinnedName`, and to a
    `ParentProxyHost`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def open_connection(self, host: str, port: int, **options: Any) -> Any:
        if isinstance(host, _PinnedName):
            host = host.address
        if not isinstance(host, ParentProxyHost):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return await asyncio.open_connection(host, port, **options)
            except TimeoutError as error:
                raise OSError(f"no connection after {CONNECT_TIMEOUT:g} s") from error
        return await asyncio.open_connection(sock=await host.open())


def install() -> None:
    """Enable mitmproxy to connect to checked addresses, and through parent proxies. Further calls have no effect."""
    if getattr(server, "asyncio", None) is asyncio:
        setattr(server, "asyncio", _AsyncioWithParents())  # noqa: B010 -- mypy knows it for a module


async def route_through_parent(
    parent: Parent, host: str, port: int, policy: AddressPolicy, *, tls: bool, skip_address_check: bool = False
) -> ParentProxyHost:
    """Return the host for a connection through a parent. The origin's address is checked before, unless
    `skip_address_check` is true. Raises Forbidden if this address is not permitted, Unreachable if it is unknown, and
    ParentFailed if this version of mitmproxy supports no parents."""
    if not isinstance(getattr(server, "asyncio", None), _AsyncioWithParents):
        raise ParentFailed(f"this version of mitmproxy cannot connect through {parent_name(parent)}")
    if skip_address_check:
        allowed_addresses = [] if parent.resolves_names else await policy.addresses(host, port)
    else:
        allowed_addresses = await policy.resolve_for_parent(host, port, may_be_unknown=parent.resolves_names)
    parent_host: ParentProxyHost = ParentProxyHost.make(parent, (host, port), allowed_addresses, policy)
    parent_host.is_plain = parent.is_http and not tls
    return parent_host
