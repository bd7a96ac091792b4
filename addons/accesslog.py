"""The access log: a line for each request, with its outcome and the reason. Each request is also counted."""

import logging

from mitmproxy import http

from feedproxy.server.access_record import record_access
from feedproxy.server.access_record_of_flow import access_record_of
from feedproxy.server.addon import Addon
from feedproxy.telemetry.log_format import ACCESS_LOGGER

logger = logging.getLogger(ACCESS_LOGGER)


class AccessLog(Addon):
    """Addon that logs each flow when it ends. It is the last addon, so that the response is final."""

    options = ("log_format", "log_level", "score_readers")

    def response(self, flow: http.HTTPFlow) -> None:
        state = self.flow_handler().pop(flow)
        record = access_record_of(flow, state) if state is not None else None
        if record is not None and (line := record_access(self.app(), record)):
            logger.info("%s", line)

    error = http_connected = http_connect_error = response


addons = [AccessLog()]
