"""The recent requests, fetches and failures as plain values for pages and JSON."""

from feedproxy.admin.feed_state import detail_sentence
from feedproxy.http.user_agent import product
from feedproxy.settings import Settings
from feedproxy.telemetry.recent_activity import FailedAddress, FetchActivity, RequestActivity, fetch_summary
from feedproxy.telemetry.redacted import View, public_name, redact_target, redact_text
from feedproxy.web.templates import iso, plain_text


def request_view(asked: RequestActivity, settings: Settings) -> View:
    """A request: the client is the name of its program, and never an address."""
    target = asked.target
    return {
        "at": iso(asked.at),
        "client": plain_text(product(asked.agent), 60) or "unnamed",
        "entrance": asked.entrance,
        "method": plain_text(asked.method, 20),
        "target": public_name(target, settings)["target"]
        if target.startswith(("http://", "https://"))
        else redact_target(target),
        "status": asked.status,
        "bytes": asked.size,
        "cache": asked.cache,
    }


def fetch_view(told: FetchActivity) -> View:
    """A fetch, with the reason in words."""
    return {"at": iso(told.at), **fetch_summary(told), "reason": redact_text(told.words)}


def failed_view(failed: FailedAddress, settings: Settings) -> View:
    """An address that never gave a feed."""
    last = failed.last
    reason = last.words or (detail_sentence(last.detail) if last.detail else "The response is not a feed.")
    return {
        **public_name(failed.target, settings),
        "status": last.status,
        "detail": last.detail,
        "reason": redact_text(reason),
        "tries": failed.count,
        "first": iso(failed.first),
        "last": iso(last.at),
    }
