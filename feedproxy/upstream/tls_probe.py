"""TLS probe: one handshake without a request. The address is checked as for every fetch."""

import asyncio
import ssl
from collections.abc import Callable

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.upstream.address_policy import AddressPolicy, AddressTrust
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.parent_proxy_tunnel import checked_tunnel
from feedproxy.upstream.upstream_errors import FetchTimeout, Unreachable


class ProbedCertificate(Struct, frozen=True):
    """The expiry of a certificate, the negotiated protocol, such as `h2`, and the TLS version, such as `TLSv1.3`."""

    not_after: Instant
    protocol: str
    version: str


async def probe_certificate(
    host: str,
    port: int,
    policy: AddressPolicy,
    *,
    timeout: Seconds,
    context: Callable[[], ssl.SSLContext],
    parent: Parent | None,
) -> ProbedCertificate:
    """Make a TLS handshake with a host, verify its name, and return the certificate's data.

    `context` creates the TLS context. Raises Forbidden if the host is not permitted, BadTarget if the host is invalid,
    and Unreachable, FetchTimeout, ParentFailed or Overload if the handshake fails.
    """
    name = host.strip("[]")
    offering = context()  # use a separate context, because other connections must not negotiate h2
    offering.set_alpn_protocols(["h2", "http/1.1"])
    try:
        async with asyncio.timeout(timeout):
            if parent is None:
                ip = (await policy.resolve(host, port))[0]
                _, writer = await asyncio.open_connection(ip, port, ssl=offering, server_hostname=name)
            else:
                check = policy.resolver(AddressTrust.UNTRUSTED, parent)
                sock = await checked_tunnel(parent, check, policy.resolve_parent, name, port)
                _, writer = await asyncio.open_connection(sock=sock, ssl=offering, server_hostname=name)
    except TimeoutError as error:
        raise FetchTimeout(f"no TLS with {host} in {timeout:g} s") from error
    except OSError as error:  # ssl.SSLError is an OSError
        raise Unreachable(f"no TLS with {host}: {error}") from error
    try:
        shown = writer.get_extra_info("ssl_object")
        certificate = shown.getpeercert() or {}
        until = ssl.cert_time_to_seconds(certificate["notAfter"]) if "notAfter" in certificate else 0.0
        return ProbedCertificate(float(until), shown.selected_alpn_protocol() or "", shown.version() or "")
    finally:
        writer.transport.abort()
