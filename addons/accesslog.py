"""The access log: a line and a count for every request, with its outcome and the reason."""

import logging
import time

from mitmproxy import ctx, http
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http import uri
from feedproxy.http.user_agent import LENGTH_MAX
from feedproxy.request.url_mapping import to_public
from feedproxy.server.fastpath.access_log import CLIENT_GONE
from feedproxy.server.fastpath.live_scoring import score_flow
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.telemetry.log_format import REQUESTS, AccessLine
from feedproxy.telemetry.recent_activity import RequestActivity

logger = logging.getLogger(REQUESTS)


class AccessLog:
    """Logs each flow when it ends. Comes last, so that it sees the response as the client gets it."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "log_format", "log_level", "score_readers")

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)

    def response(self, flow: http.HTTPFlow) -> None:
        self._log(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._log(flow)

    def http_connected(self, flow: http.HTTPFlow) -> None:
        self._log(flow)

    def http_connect_error(self, flow: http.HTTPFlow) -> None:
        self._log(flow)

    def _log(self, flow: http.HTTPFlow) -> None:
        app = get_app(ctx.master)
        case = get_flow_handler(app).pop(flow)
        if case is None or case.status is None:
            return
        seconds = time.time() - flow.request.timestamp_start
        response = flow.response or case.error_page
        code = response.status_code if response is not None else 0
        size = len(response.raw_content or b"") if response is not None else 0
        reason = case.reason
        if flow.error is not None and case.error_page is None and case.streamed is None:
            # A response that was made and not sent counts as none.
            code, size, reason = 0, 0, CLIENT_GONE if flow.response is not None else reason
        if case.streamed is not None:
            size = case.streamed.size
        connects = flow.request.method == "CONNECT"
        if connects:
            app.metrics.count_connect(case.connect_result or "refused", code, case.status.detail or "", size, seconds)
        else:
            app.metrics.count_response(case.client.entrance, code, case.status, size, seconds)
        if case.routed_request is not None and not connects and code:
            score_flow(app, flow, case, size)
        agent = flow.request.headers.get("user-agent", "")
        upstream_target = case.routed_request.request.target if case.routed_request is not None else ""
        target = to_public(upstream_target, app.settings) if upstream_target else flow.request.path
        if connects:
            target = uri.hostport(flow.request.host, flow.request.port)
        entrance, cache = "connect" if connects else str(case.client.entrance), case.status.text()
        app.journal.record_request(
            RequestActivity(
                app.clock.now(), entrance, flow.request.method, target, code, size, cache, agent[:LENGTH_MAX]
            )
        )
        if app.settings.log_format == "off":
            return
        target_in_log, upstream = target, ""
        if case.routed_request is not None and not connects:
            target_in_log, upstream = app.names_in_log(
                case.routed_request.request.target, case.routed_request.request.fields
            )
        line = AccessLine(
            at=app.clock.now(),
            reader=app.service.audience.log_name(case.client, agent),
            entrance=entrance,
            method=flow.request.method,
            target=target_in_log,
            status=code,
            size=size,
            cache=cache,
            seconds=seconds,
            agent=agent,
            upstream=upstream,
            reason=reason or (flow.error.msg if flow.error is not None else ""),
        )
        logger.info("%s", line.format(app.settings.log_format))


addons = [AccessLog()]
