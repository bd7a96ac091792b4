"""The log of fetches that no client waited for."""

import logging

from feedproxy.refresh.refresh_result import RefreshRecord
from feedproxy.telemetry.log_format import printable
from feedproxy.telemetry.log_stream import LineBatch
from feedproxy.telemetry.page_redaction import View, redact_text

logger = logging.getLogger("feedproxy.fetch")


def is_logged(fetch: RefreshRecord, form: str) -> bool:
    """Return True if the fetch gets a line in the log: `form` (the value of `log_format`) is not off, and no client
    waited for the fetch. If a client waited, the access log has a line for its request."""
    return fetch.occasion != "reader" and form != "off"


def log_fetch(name: str, fetch: RefreshRecord, form: str, batch: LineBatch) -> None:
    """Log a fetch: at WARNING if it failed, otherwise at INFO. `name` is the target without secrets, and `form` the
    value of `log_format`. The line of a successful fetch is added to `batch` unless `form` is `json`."""
    reason, status = redact_text(fetch.reason), fetch.status or 0
    is_failure = fetch.outcome == "failed"
    exchange = f"{status} {fetch.received_size} {fetch.seconds * 1000:.1f}ms"
    line = f"{fetch.occasion} fetch {name} {exchange} [{fetch.outcome}] {reason}".rstrip()
    if form != "json" and not is_failure:
        batch.add(printable(line))
        return
    batch.flush()  # lines stay in the order of the fetches
    fields = {"event": "fetch", "target": name, **fetch_summary(fetch), "reason": reason}
    logger.log(logging.WARNING if is_failure else logging.INFO, "%s", line, extra={"fields": fields})


def fetch_summary(fetch: RefreshRecord) -> View:
    """Return a fetch as plain values. The text about its outcome (`reason`) is left out."""
    return {
        "occasion": fetch.occasion,
        "status": fetch.status,
        "bytes": fetch.received_size,
        "seconds": round(fetch.seconds, 3),
        "outcome": fetch.outcome,
        "detail": fetch.detail,
    }
