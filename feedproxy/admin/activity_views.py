"""The recent requests, fetches and failures as plain values for pages and JSON."""

from feedproxy.admin.feed_state import sentence
from feedproxy.http.user_agent import product
from feedproxy.settings import Settings
from feedproxy.telemetry.recent_activity import Asked, Failed, Fetched, fetch_summary
from feedproxy.telemetry.redacted import View, masked, named, shown
from feedproxy.web.templates import iso, plain_text


def request_view(asked: Asked, settings: Settings) -> View:
    """A request: the client is the name of its program, and never an address."""
    target = asked.target
    return {
        "at": iso(asked.at),
        "client": plain_text(product(asked.agent), 60) or "unnamed",
        "entrance": asked.entrance,
        "method": plain_text(asked.method, 20),
        "target": named(target, settings)["target"] if target.startswith(("http://", "https://")) else shown(target),
        "status": asked.status,
        "bytes": asked.size,
        "cache": asked.cache,
    }


def fetch_view(told: Fetched) -> View:
    """A fetch, with the reason in words."""
    return {"at": iso(told.at), **fetch_summary(told), "reason": masked(told.words)}


def failed_view(failed: Failed, settings: Settings) -> View:
    """An address that never gave a feed."""
    last = failed.last
    reason = last.words or (sentence(last.detail) if last.detail else "The response is not a feed.")
    return {
        **named(failed.target, settings),
        "status": last.status,
        "detail": last.detail,
        "reason": masked(reason),
        "tries": failed.count,
        "first": iso(failed.first),
        "last": iso(last.at),
    }
