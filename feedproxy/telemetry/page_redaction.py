"""Removal of secrets from addresses and texts on the operator's pages. log_format.py removes them from the log."""

from typing import Any

from feedproxy.http.memoize import memoize_short
from feedproxy.http.target_uri.url_redaction import redact_target, text_without_secrets
from feedproxy.request.upstream_and_public_urls import to_public
from feedproxy.settings import Settings
from feedproxy.web.display_formats import plain_text

type View = dict[str, Any]
"""Values that json.dumps can encode."""


def public_name(target: str, settings: Settings) -> View:
    """Return the addresses of a target without secrets: its public address as `target`, and its address at the upstream
    as `upstream`. Without a difference, `upstream` is left out."""
    public = to_public(target, settings)
    return {"target": redact_target(public)} | ({"upstream": redact_target(target)} if public != target else {})


@memoize_short(entries=256)
def redact_text(text: str) -> str:
    """Return the first 1000 characters of a text, without secrets in its addresses."""
    return text_without_secrets(plain_text(text, 1000))
