"""What readers asked and what origins said, as a HAR file that the lab replays and grades."""

import logging
from pathlib import Path

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.errors import UsageError
from feedproxy.lab.record.har_writer import HarWriter
from feedproxy.lab.record.recorder import Recorder
from feedproxy.lab.record.redact import KEEP_CHOICES, Redactor
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.server.mitm.recording import StableNames, client_exchange, flow_exchanges, origin_exchange

logger = logging.getLogger("feedproxy.record")

ARRIVED = "feedproxy.arrived"
"""Key in `flow.metadata`: when the request came, by the proxy's clock."""


class Record:
    """Stands before the log, which forgets what was known of a flow."""

    def __init__(self) -> None:
        self._writer: HarWriter | None = None
        self._connections = StableNames("")

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "record", "record_max", "record_keep")

    def configure(self, updated: set[str]) -> None:
        here = get_app(ctx.master)
        here.adopt(ctx.options)
        if not updated & {"record", "record_max", "record_keep"}:
            return
        self.done()
        if unknown := set(here.settings.record_keep) - {*KEEP_CHOICES}:
            raise exceptions.OptionsError(f"record_keep: {unknown.pop()!r}: expected {' or '.join(KEEP_CHOICES)}")
        if here.settings.record:
            here.record_with(self._opened)

    def running(self) -> None:
        # Not when it is configured: a supervisor that only reads the options takes no file from its workers.
        here = get_app(ctx.master)
        try:
            _ = here.recorder
        except UsageError as error:
            here.failure = f"record: {error}"
            if not here.reports_failures:
                logger.error("%s", here.failure)
            ctx.master.shutdown()

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        if get_app(ctx.master).settings.record:
            flow.metadata[ARRIVED] = get_app(ctx.master).clock.now()

    def response(self, flow: http.HTTPFlow) -> None:
        self._note(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._note(flow)

    def done(self) -> None:
        here = get_app(ctx.master)
        here.record_with(None)
        if self._writer is not None:
            self._writer.close(here.clock.now())
            self._writer = None

    def _opened(self) -> Recorder:
        here = get_app(ctx.master)
        decided = here.settings
        key = here.stored_secret("recording-secret")
        # What several processes have recorded may be read as one.
        self._connections = StableNames(f"{here.random_bytes(4).hex()}-")
        self._writer = HarWriter(Path(decided.record).expanduser(), limit=decided.record_max)
        return Recorder(
            self._writer, Redactor(key, decided.record_keep), lambda target: here.settings_for(target).private
        )

    def _note(self, flow: http.HTTPFlow) -> None:
        here = get_app(ctx.master)
        at = flow.metadata.get(ARRIVED)
        if at is None or (recorder := here.recorder) is None or flow.request.method == "CONNECT":
            return
        seconds = max(0.0, here.clock.now() - at)
        case, named = get_flow_handler(here).state_of(flow), self._connections
        if case is not None and case.routed_request is not None and case.status is not None:
            target, user = case.routed_request.request.target, case.visit.user
            private = bool(user) or here.doorkeeper.key_for(target, user) != target
            upstream = here.settings.upstream
            recorder.note(*client_exchange(flow, case, at, seconds, named, upstream), private=private)
        elif not here.whole:
            for noted in flow_exchanges(flow, at, seconds, named):
                recorder.note(*noted)
        if case is not None and case.is_streaming:
            recorder.note(*origin_exchange(flow, at, seconds, named))  # mitmproxy itself asked the origin


addons = [Record()]
