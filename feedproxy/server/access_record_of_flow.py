"""The access record of a flow of mitmproxy: the status, size and reason that the access log shows."""

import time

from mitmproxy import http

from feedproxy.cache.cache_status import CacheStatus, Detail
from feedproxy.http import uri
from feedproxy.http.message import NO_FIELDS, Request
from feedproxy.server.access_record import CLIENT_GONE, AccessRecord
from feedproxy.server.mitm.flow_handler import FlowState
from feedproxy.server.mitm.http1_limits_and_corrections import UNREADABLE_CONTENT, error_response
from feedproxy.server.mitm.request_routing import client_version, fields_of


def access_record_of(flow: http.HTTPFlow, state: FlowState) -> AccessRecord | None:
    """Return the access record of a flow that has ended, or None if no response was decided."""
    response, cache, reason = flow.response or state.error_page, state.status, state.reason
    if flow.error is not None and flow.error.msg == UNREADABLE_CONTENT:
        # This response was sent in place of any response that was prepared.
        response, reason = error_response(400, UNREADABLE_CONTENT), UNREADABLE_CONTENT
        cache = CacheStatus(detail=Detail.BAD_REQUEST)
    elif flow.error is not None and state.error_page is None and state.streamed is None:
        # After an error, no response was sent, even if one was prepared. The log then has status 0.
        response, reason = None, CLIENT_GONE if response is not None else reason
    if cache is None:
        return None
    size = len(response.raw_content or b"") if response is not None else 0
    connects = flow.request.method == "CONNECT"
    return AccessRecord(
        _request(flow, state),
        state.client,
        response.status_code if response is not None else 0,
        state.streamed.size if state.streamed is not None else size,
        cache,
        reason or (flow.error.msg if flow.error is not None else ""),
        time.time() - flow.request.timestamp_start,
        fields_of(response) if response is not None else NO_FIELDS,
        has_target=state.routed_request is not None and not connects,
        connect_result=(state.connect_result or "refused") if connects else "",
        version=client_version(flow),
        connection=flow.client_conn.id,
    )


def _request(flow: http.HTTPFlow, state: FlowState) -> Request:
    request, fields = flow.request, fields_of(flow.request)
    if request.method == "CONNECT":
        return Request("CONNECT", uri.join_host_port(request.host, request.port), fields)
    return state.routed_request.request if state.routed_request else Request(request.method, request.path, fields)
