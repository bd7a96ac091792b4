"""Removal of secrets from addresses and texts on the operator's pages. log_format.py removes them from the log."""

from typing import Any

from feedproxy.http.memoize import memoize_short
from feedproxy.http.target_uri.url_redaction import text_without_secrets
from feedproxy.web.display_formats import plain_text

type View = dict[str, Any]
"""Values that json.dumps can encode."""


@memoize_short(entries=256)
def redact_text(text: str) -> str:
    """Return the first 1000 characters of a text, without secrets in its addresses."""
    return text_without_secrets(plain_text(text, 1000))
