"""Tunnels to origins through the parent proxy (`upstream_proxy`): CONNECT and SOCKS5.

The TLS of a target begins in this proxy and ends at the origin (docs/decisions/the-parent-proxy.md).
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.errors import Overload
from feedproxy.http import uri
from feedproxy.upstream import local_resource_exhaustion
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.resolver import Lookup
from feedproxy.upstream.response_head_parser import find_end, parse_head
from feedproxy.upstream.upstream_errors import MalformedResponse, ParentFailed, ParentRefused, Unreachable

CONNECT_TIMEOUT: Seconds = 5
"""A parent proxy must accept a connection and answer the greeting within this many seconds. The connection from the
parent to the origin may take `connect_timeout` in addition."""

HEAD_MAX = 16_384
"""Maximum size of the head of a parent's response to CONNECT, in bytes."""

_REFUSALS = {
    1: "general failure",
    2: "connection not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}
"""Explanations of the reply codes of a SOCKS5 proxy (RFC 1928, section 6)."""


def parent_name(parent: Parent) -> str:
    """Return the parent's name for error messages."""
    return f"the parent proxy {parent} (upstream_proxy)"


def unauthorized_error(parent: Parent, authority: str) -> ParentFailed:
    """Return the error for a parent that responds with 407."""
    return ParentFailed(
        f"{authority} cannot be reached: {parent_name(parent)} refuses its user name and password (407)"
    )


async def connect_to_parent(parent: Parent, resolve: Lookup) -> socket.socket:
    """Connect to the parent and return the socket. `resolve` returns the parent's addresses. Raises ParentFailed if the
    parent cannot be reached, LoopDetected if it is this proxy, and Overload if this machine lacks resources."""

    async def open_socket(ip: str) -> socket.socket:
        return await _connect_address(ip, parent.port)

    return await _connect_first(parent, resolve, open_socket)


async def open_tunnel(parent: Parent, resolve: Lookup, host: str, port: int, *, authority: str) -> socket.socket:
    """Connect to host and port through the parent and return the socket.

    `resolve` returns the parent's addresses. `authority` is the target in error messages. Raises ParentRefused if the
    parent does not connect to the origin, and the errors of `connect_to_parent`.
    """
    if parent.is_http:
        sock = await connect_to_parent(parent, resolve)
        try:
            await _send_connect(sock, parent, uri.join_host_port(host, port))
        except BaseException:
            sock.close()
            raise
        return sock

    async def open_socket(ip: str) -> socket.socket:
        return await _open_socks(ip, parent, host, port, authority)

    return await _connect_first(parent, resolve, open_socket)


async def checked_tunnel(parent: Parent, check: Lookup, resolve: Lookup, host: str, port: int) -> socket.socket:
    """Connect to host and port through the parent, if `check` permits the host, and return the socket. Raises the
    errors of `check` and of `open_tunnel`."""
    addresses = await check(host, port)
    through = host if parent.resolves_names or not addresses else addresses[0]
    return await open_tunnel(parent, resolve, through, port, authority=uri.join_host_port(host, port))


async def _connect_first(
    parent: Parent, resolve: Lookup, open_socket: Callable[[str], Awaitable[socket.socket]]
) -> socket.socket:
    """Return the result of `open_socket` for the first of the parent's addresses that accepts a connection.

    Raises ParentFailed if none accepts, ParentRefused if the parent refuses, and Overload if this machine lacks
    resources.
    """
    reason: object = "it has no address"
    try:
        for ip in await resolve(parent.host, parent.port):
            try:
                return await open_socket(ip)
            except OSError as error:
                _raise_if_local(error, parent)
                reason = os.strerror(error.errno) if error.errno else error
    except Overload:
        raise
    except Unreachable as error:
        if isinstance(error, ParentRefused):
            raise
        reason = error
    raise ParentFailed(f"{parent_name(parent)} cannot be reached: {reason}")


async def _connect_address(ip: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await asyncio.get_running_loop().sock_connect(sock, (ip, port))
        except TimeoutError:
            raise OSError(f"it does not respond in {CONNECT_TIMEOUT:g} s") from None
    except BaseException:
        sock.close()
        raise
    return sock


class _ConnectedSocket:
    """Connector for python-socks with a timeout of CONNECT_TIMEOUT seconds."""

    async def connect(self, dest_host: str, dest_port: int, timeout: Seconds | None) -> socket.socket:
        return await _connect_address(dest_host, dest_port)


async def _send_connect(sock: socket.socket, parent: Parent, authority: str) -> None:
    """Send CONNECT and read the response (RFC 9110, section 9.3.6). Raises ParentFailed for an invalid response or a
    407, and ParentRefused for any other response that is not a 2xx."""
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if parent.authorization:
        lines.append(f"Proxy-Authorization: {parent.authorization}")
    try:
        await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode("ascii"))
        head = parse_head(await _read_head(sock))
        while head.is_interim:
            head = parse_head(await _read_head(sock))
    except (OSError, MalformedResponse) as error:
        reason = f"{authority} cannot be reached: {parent_name(parent)} sends no valid response to CONNECT: {error}"
        raise ParentFailed(reason) from error
    if head.status == 407:
        raise unauthorized_error(parent, authority)
    if not 200 <= head.status < 300:
        raise ParentRefused(f"{authority} cannot be reached: {parent_name(parent)} answered {head.status} to CONNECT")


async def _read_head(sock: socket.socket) -> bytes:
    """Read and return one head, and no byte after it. Raises OSError if the connection fails, and MalformedResponse for
    an invalid head."""
    loop, head = asyncio.get_running_loop(), bytearray()
    while not find_end(head):
        piece = await loop.sock_recv(sock, 1)
        if not piece:
            raise MalformedResponse("it closed the connection")
        head += piece
        if len(head) > HEAD_MAX:
            raise MalformedResponse(f"its head is larger than {HEAD_MAX} bytes")
    return bytes(head)


async def _open_socks(ip: str, parent: Parent, host: str, port: int, authority: str) -> socket.socket:
    """Return a connection through a SOCKS5 proxy. Raises ParentRefused if the proxy does not connect to the host, and
    OSError or ParentFailed if the proxy fails."""
    from python_socks import ProxyError, ProxyType  # noqa: PLC0415 -- only SOCKS pays for it
    from python_socks.async_.asyncio import Proxy  # noqa: PLC0415

    reached: Any = _ConnectedSocket()
    proxy = Proxy(ProxyType.SOCKS5, ip, parent.port, parent.user, parent.password or None, rdns=True, forward=reached)
    try:
        return await proxy.connect(host, port, timeout=3600)  # the caller's own timeouts are shorter
    except ProxyError as error:
        if error.error_code in _REFUSALS:
            reason = f"{authority} cannot be reached: {parent_name(parent)} refuses: {_REFUSALS[error.error_code]}"
            raise ParentRefused(reason) from error
        raise ParentFailed(f"{authority} cannot be reached: {parent_name(parent)} fails: {error}") from error
    except AssertionError as error:  # the proxy requires a user name, and the option has none
        raise ParentFailed(f"{authority} cannot be reached: {parent_name(parent)} requires a user name") from error


def _raise_if_local(error: OSError, parent: Parent) -> None:
    if local_resource_exhaustion.is_exhaustion(error):
        local_resource_exhaustion.shortage_log.warn(f"no connection to {parent_name(parent)}: {error}")
        raise Overload(f"{parent_name(parent)} cannot be reached now: {error.strerror or error}") from error
