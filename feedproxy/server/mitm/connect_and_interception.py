"""CONNECT: whether a tunnel is permitted, and whether feedproxy decrypts its TLS (option `intercept`).

The port, the address and the authorization are checked here. passthrough.py enforces the approval when mitmproxy opens
the connection.
"""

import fnmatch

from mitmproxy import http

from feedproxy.app import App
from feedproxy.client_network import client_network
from feedproxy.errors import Forbidden
from feedproxy.http import uri
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.server.access_record import CLIENT_GONE
from feedproxy.server.mitm.passthrough import ConnectApprovals
from feedproxy.server.mitm.request_routing import client_context, fields_of, incoming_request, is_client_gone
from feedproxy.server.mitm.server_addresses import ParentProxyHost, route_through_parent
from feedproxy.upstream.origin_connection_limits import Requester, requesting
from feedproxy.upstream.upstream_errors import Unreachable


async def permit_connect(flow: http.HTTPFlow, app: App, approvals: ConnectApprovals) -> ClientContext:
    """Check the port, the address and the authorization of a CONNECT, record that its server is approved, and return
    the client.

    A host with protected feeds is refused unless its TLS is intercepted, because feedproxy cannot read the requests in
    another tunnel. In reverse mode, every CONNECT is refused. A check that fails raises Forbidden, Unreachable,
    AccessDenied, BadTarget or Overload.
    """
    settings = app.settings
    host, port = flow.request.host, flow.request.port
    if settings.upstream:
        raise Forbidden("CONNECT refused: in reverse mode, there are no tunnels to other hosts")
    target = uri.normalise(f"https://{uri.join_host_port(host, port)}/")
    if not is_intercepted(host, app) and app.rules.protects_host(uri.host_of(target), settings):
        raise Forbidden(
            "CONNECT refused: a rule with readers or private protects feeds of this host; "
            "name the host in intercept, or request its feeds through the gateway"
        )
    client = client_context(incoming_request(flow), settings, Entrance.PROXY)
    readers, user = app.settings_for(target).readers, ""
    if readers:
        user, _ = await app.parts.access_control.authorize(readers, fields_of(flow.request), client.address, proxy=True)
    policy = app.parts.connect_policy
    policy.check_port(port)
    with requesting(Requester(client_network(client.address), is_known=False)):
        parent = app.parent_of(target)
        address: str | ParentProxyHost
        if parent is not None:
            address = await route_through_parent(parent, host, port, policy, tls=True)
        else:
            address = (await policy.resolve(host, port))[0]
    if is_client_gone(flow):
        raise Unreachable(CLIENT_GONE)
    approvals.tunnels[flow.client_conn.id] = (host, port)
    if user:
        approvals.users[flow.client_conn.id] = user
    approvals.approve(flow.client_conn.id, host, port, address)
    return client


def is_intercepted(host: str, app: App) -> bool:
    """Return True if feedproxy decrypts tunnels to this host."""
    if host.lower() in app.feed_list.imported.hosts:
        return True
    return any(fnmatch.fnmatchcase(host.lower(), pattern.lower()) for pattern in app.settings.intercept)
