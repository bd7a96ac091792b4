"""Conversion of mitmproxy's flows to exchanges of a recording, during operation or from flow files.

In all functions, `at` is the instant of the request, and `seconds` is the duration of the exchange.
"""

import itertools
import re
from typing import BinaryIO

from mitmproxy import http
from mitmproxy import io as flows
from mitmproxy.exceptions import FlowReadException
from msgspec.structs import replace

from feedproxy.access.origin_credentials import OriginCredentials
from feedproxy.client_network import client_network
from feedproxy.errors import BadTarget, UsageError
from feedproxy.http import uri
from feedproxy.http.message import NO_FIELDS, Request
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.lab.record.exchange import Exchange, Recording, Side
from feedproxy.lab.record.recorder import with_digest
from feedproxy.lru_map import LRU
from feedproxy.request.upstream_and_public_urls import public_url_for
from feedproxy.server.mitm.flow_handler import FlowState
from feedproxy.server.mitm.request_routing import client_version, fields_of

type ExchangeAndBody = tuple[Exchange, bytes | None]
"""An exchange, and the content of its response as transferred. The content is None if it was not recorded."""

_LENGTH = re.compile(r"[0-9]{1,15}")

NAMES_MAX = 8192
"""The names of at most this many connections are remembered."""


class StableNames:
    """Names of connections, numbered in the order of their first use. Unlike mitmproxy's ids, they are the same in each
    recording of the same traffic."""

    def __init__(self, beginning: str) -> None:
        self._beginning = beginning
        self._numbers = itertools.count(1)
        self._name_by_id: LRU[str, str] = LRU(entries_max=NAMES_MAX)

    def name_of(self, connection_id: str) -> str:
        """Return the name of a connection id, or "" for an empty id."""
        if not connection_id:
            return ""
        name = self._name_by_id.get(connection_id)
        if name is None:
            name = f"{self._beginning}{next(self._numbers)}"
            self._name_by_id.put(connection_id, name)
        return name


def client_exchange(
    flow: http.HTTPFlow, state: FlowState, at: float, seconds: float, connections: StableNames, upstream: str
) -> ExchangeAndBody:
    """Return the exchange between client and proxy. `upstream` is the value of that option."""
    assert state.routed_request is not None
    target, client = state.routed_request.request.target, state.client
    response = flow.response or state.error_page
    connection = connections.name_of(flow.client_conn.id)
    client_side = _exchange(flow, response, Side.READER, target, at, seconds, connection)
    public = public_url_for(target, client, upstream=upstream)
    client_side = replace(
        client_side, reader=client.address, entrance=str(client.entrance), public=public if public != target else ""
    )
    return client_side, _body(response)


def is_private(state: FlowState, credentials: OriginCredentials) -> bool:
    """Return True if a recording must leave out the content for the client: the client is a user, or the content was
    fetched with a credential of the operator or from an address with a secret."""
    assert state.routed_request is not None
    target, user = state.routed_request.request.target, state.client.user
    return bool(user) or credentials.key_for(target, user) != target or has_secret(state.final_target)


def origin_exchange(flow: http.HTTPFlow, at: float, seconds: float, connections: StableNames) -> ExchangeAndBody:
    """Return the exchange between mitmproxy and an origin, with the fields that the flow has now."""
    connection = connections.name_of(flow.server_conn.id)
    return _exchange(flow, flow.response, Side.ORIGIN, _target(flow), at, seconds, connection), _body(flow.response)


def flow_exchanges(flow: http.HTTPFlow, at: float, seconds: float, connections: StableNames) -> list[ExchangeAndBody]:
    """Return the exchanges of a flow that mitmproxy recorded without feedproxy: with the client, and with the
    origin. An exchange that did not take place or is unknown is left out."""
    recorded = []
    client, server = flow.client_conn, flow.server_conn
    # A flow that mitmproxy read from a HAR file has port 0 and an unknown client.
    if has_client := bool(client.peername and client.peername[1]):
        client_side = _exchange(
            flow, flow.response, Side.READER, _target(flow), at, seconds, connections.name_of(client.id)
        )
        recorded.append(
            (replace(client_side, reader=str(client.peername[0]), entrance=_entrance(flow)), _body(flow.response))
        )
    if not has_client:
        recorded.append(
            (replace(origin_exchange(flow, at, seconds, connections)[0], connection=""), _body(flow.response))
        )
    elif server.timestamp_start is not None or flow.response is None:
        recorded.append(origin_exchange(flow, at, seconds, connections))
    return recorded


def _entrance(flow: http.HTTPFlow) -> str:
    mode = flow.client_conn.proxy_mode.type_name
    return {"regular": "proxy", "upstream": "proxy", "reverse": "reverse"}.get(mode, "")


def _target(flow: http.HTTPFlow) -> str:
    try:
        return uri.normalise(flow.request.url)
    except BadTarget:
        return flow.request.url


def _exchange(
    flow: http.HTTPFlow,
    response: http.Response | None,
    side: Side,
    target: str,
    at: float,
    seconds: float,
    connection: str,
) -> Exchange:
    return Exchange(
        side=side,
        at=at,
        request=Request(flow.request.method, target, fields_of(flow.request)),
        status=response.status_code if response is not None else 0,
        fields=fields_of(response) if response is not None else NO_FIELDS,
        reason=response.reason if response is not None else "",
        size=_size(response) if response is not None else 0,
        seconds=seconds,
        connection=connection,
        version=client_version(flow) if side is Side.READER else flow.request.http_version,
        failure=flow.error.msg if flow.error is not None else "",
    )


def _size(response: http.Response) -> int:
    """Return the size of the content in bytes. For streamed content that was not counted, return the value of
    Content-Length, or 0 if this field is absent or invalid."""
    counted: int | None = getattr(response.stream, "size", None)
    if counted is not None:
        return counted
    if response.raw_content is not None:
        return len(response.raw_content)
    length = response.headers.get("content-length", "")
    return int(length) if _LENGTH.fullmatch(length) else 0


def _body(response: http.Response | None) -> bytes | None:
    return response.raw_content if response is not None and not response.stream else None


# -- files


def read_flow_file(file: BinaryIO, name: str) -> Recording:
    """Return the recording in a flow file of mitmproxy. If the content is invalid, raises UsageError with a message
    that begins with `name`."""
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}
    connections, readers = StableNames(""), StableNames("reader-")
    try:
        for flow in flows.FlowReader(file).stream():
            if isinstance(flow, http.HTTPFlow) and flow.request.method != "CONNECT":
                began = flow.request.timestamp_start
                ended = flow.response.timestamp_end if flow.response is not None else None
                for recorded in flow_exchanges(flow, began, max(0.0, (ended or began) - began), connections):
                    exchange, content = with_digest(*recorded)
                    exchanges.append(replace(exchange, reader=readers.name_of(client_network(exchange.reader))))
                    contents[exchange.digest] = content
    except (FlowReadException, ValueError) as error:
        raise UsageError(f"{name}: not a flow file: {error}") from error
    contents.pop("", None)
    return Recording(tuple(sorted(exchanges, key=lambda exchange: exchange.at)), contents)
