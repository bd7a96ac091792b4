"""Recording of client requests and origin responses in a HAR file. The lab replays and grades recordings."""

import logging

from mitmproxy import ctx, exceptions, http

from feedproxy import option_files
from feedproxy.errors import UsageError
from feedproxy.lab.record.har_redaction import KEEP_CHOICES, Redactor
from feedproxy.lab.record.har_writer import HarWriter
from feedproxy.lab.record.recorder import Recorder
from feedproxy.proxy.public_feeds import is_public
from feedproxy.server.addon import Addon
from feedproxy.server.mitm.exchanges_from_flows import (
    StableNames,
    client_exchange,
    flow_exchanges,
    is_private,
    origin_exchange,
)

logger = logging.getLogger("feedproxy.record")

RECEIVED_AT = "feedproxy.received_at"
"""Key in `flow.metadata` for the instant at which the request was received."""


class Record(Addon):
    """Addon that records each flow. It precedes the access log, which removes the state of a flow."""

    options = ("record", "record_max", "record_keep")

    def __init__(self) -> None:
        self._writer: HarWriter | None = None
        self._connections = StableNames("")

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        if not updated & {"record", "record_max", "record_keep"}:
            return
        self._stop()
        if unknown := set(app.settings.record_keep) - {*KEEP_CHOICES}:
            raise exceptions.OptionsError(f"record_keep: {unknown.pop()!r}: expected {' or '.join(KEEP_CHOICES)}")
        if app.settings.record:
            app.use_recorder(self._make_recorder)

    def running(self) -> None:
        # The recorder is opened here, because a supervisor also reads the options, and must not open the file of its
        # workers.
        try:
            _ = self.app().recorder
        except UsageError as error:
            logger.error("record: %s", error)
            ctx.master.shutdown()

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        if self.app().settings.record:
            flow.metadata[RECEIVED_AT] = self.app().clock.now()

    async def done(self) -> None:
        self._stop()
        await super().done()

    def _stop(self) -> None:
        app = self.app()
        app.use_recorder(lambda: None)
        if self._writer is not None:
            self._writer.close(app.clock.now())
            self._writer = None

    def _make_recorder(self) -> Recorder:
        app = self.app()
        options = app.settings
        key = app.parts.stored_secret("recording-secret")
        # The prefix makes names different when the recordings of several processes are merged.
        self._connections = StableNames(f"{app.random_bytes(4).hex()}-")
        self._writer = HarWriter(option_files.expand(options.record), limit=options.record_max)
        return Recorder(
            self._writer,
            Redactor(key, options.record_keep),
            lambda target: not is_public(app.settings_for(target), None),
        )

    def response(self, flow: http.HTTPFlow) -> None:
        app = self.app()
        at = flow.metadata.get(RECEIVED_AT)
        if at is None or (recorder := app.recorder) is None or flow.request.method == "CONNECT":
            return
        seconds = max(0.0, app.clock.now() - at)
        case, names = self.flow_handler().state_of(flow), self._connections
        if case is not None and case.routed_request is not None and case.status is not None:
            private = is_private(case, app.parts.access_control.origin_credentials)
            upstream = app.settings.upstream
            recorder.record(*client_exchange(flow, case, at, seconds, names, upstream), private=private)
        elif not app.enforces_targets:
            for exchange in flow_exchanges(flow, at, seconds, names):
                recorder.record(*exchange)
        if case is not None and case.is_streaming:
            recorder.record(*origin_exchange(flow, at, seconds, names))  # mitmproxy itself made the fetch

    error = response


addons = [Record()]
