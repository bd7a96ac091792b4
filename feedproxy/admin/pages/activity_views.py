"""Views of recent requests, fetches and failures. A view is a mapping for the templates of pages, and for JSON."""

from feedproxy.admin.pages.feed_state import detail_sentence
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.http.user_agent import product
from feedproxy.refresh.refresh_result import RefreshRecord
from feedproxy.request.upstream_and_public_urls import public_name
from feedproxy.settings import Settings
from feedproxy.telemetry.fetch_log import fetch_summary
from feedproxy.telemetry.page_redaction import View, redact_text
from feedproxy.telemetry.recent_activity import FailedAddress, RequestActivity
from feedproxy.web.display_formats import iso, plain_text


def request_view(request: RequestActivity, settings: Settings) -> View:
    """Return the view of a request. It contains the name of the client's program, but not the client's address."""
    target = request.target
    return {
        "at": iso(request.at),
        "client": plain_text(product(request.agent), 60) or "unnamed",
        "entrance": request.entrance,
        "method": plain_text(request.method, 20),
        "target": public_name(target, settings)["target"]
        if target.startswith(("http://", "https://"))
        else redact_target(target),
        "status": request.status,
        "bytes": request.size,
        "cache": request.cache,
    }


def fetch_view(fetch: RefreshRecord) -> View:
    """Return the view of a fetch."""
    return {"at": iso(fetch.at), **fetch_summary(fetch), "reason": redact_text(fetch.reason)}


def failed_view(failed: FailedAddress, settings: Settings) -> View:
    """Return the view of an address that never returned a feed."""
    last = failed.last
    reason = last.reason or (detail_sentence(last.detail) if last.detail else "The response is not a feed.")
    return {
        **public_name(failed.target, settings),
        "status": last.status,
        "detail": last.detail,
        "reason": redact_text(reason),
        "tries": failed.count,
        "first": iso(failed.first),
        "last": iso(last.at),
    }
