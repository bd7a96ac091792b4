"""The access log: a line for each request, with its outcome and the reason. Each request is also counted."""

import logging
import time

from mitmproxy import http

from feedproxy.cache.cache_status import CacheStatus, Detail
from feedproxy.http import uri
from feedproxy.http.message import NO_FIELDS, Request
from feedproxy.server.access_record import CLIENT_GONE, AccessRecord, record_access
from feedproxy.server.addon import Addon
from feedproxy.server.mitm.http1_limits_and_corrections import UNREADABLE_CONTENT, error_response
from feedproxy.server.mitm.request_routing import client_version, fields_of
from feedproxy.telemetry.log_format import ACCESS_LOGGER

logger = logging.getLogger(ACCESS_LOGGER)


class AccessLog(Addon):
    """Addon that logs each flow when it ends. It is the last addon, so that the response is final."""

    options = ("log_format", "log_level", "score_readers")

    def response(self, flow: http.HTTPFlow) -> None:
        app = self.app()
        case = self.flow_handler().pop(flow)
        if case is None:
            return
        if flow.error is not None and flow.error.msg == UNREADABLE_CONTENT:
            # This response was sent in place of any response that was prepared.
            flow.response, case.error_page = None, error_response(400, UNREADABLE_CONTENT)
            case.status, case.reason = CacheStatus(detail=Detail.BAD_REQUEST), UNREADABLE_CONTENT
        if case.status is None:
            return
        response = flow.response or case.error_page
        status = response.status_code if response is not None else 0
        size = len(response.raw_content or b"") if response is not None else 0
        reason = case.reason
        if flow.error is not None and case.error_page is None and case.streamed is None:
            # After an error, no response was sent, even if one was prepared. The log then has status 0.
            status, size, reason = 0, 0, CLIENT_GONE if flow.response is not None else reason
        if case.streamed is not None:
            size = case.streamed.size
        connects = flow.request.method == "CONNECT"
        if connects:
            request = Request(
                "CONNECT", uri.join_host_port(flow.request.host, flow.request.port), fields_of(flow.request)
            )
        elif case.routed_request is not None:
            request = case.routed_request.request
        else:
            request = Request(flow.request.method, flow.request.path, fields_of(flow.request))
        record = AccessRecord(
            request,
            case.client,
            status,
            size,
            case.status,
            reason or (flow.error.msg if flow.error is not None else ""),
            time.time() - flow.request.timestamp_start,
            fields_of(response) if response is not None else NO_FIELDS,
            has_target=case.routed_request is not None and not connects,
            connect_result=(case.connect_result or "refused") if connects else "",
            version=client_version(flow),
            connection=flow.client_conn.id,
        )
        if line := record_access(app, record):
            logger.info("%s", line)

    error = http_connected = http_connect_error = response


addons = [AccessLog()]
