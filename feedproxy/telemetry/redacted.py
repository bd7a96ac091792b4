"""Addresses and texts as they may be shown: without secrets, and by the address that clients use."""

import re
from typing import Any

from feedproxy.http.redaction import without_secrets
from feedproxy.request.url_mapping import to_public
from feedproxy.settings import Settings
from feedproxy.web.templates import plain_text

type View = dict[str, Any]
"""What json.dumps can write."""

_URL = re.compile(r"https?://\S*[^\s.,:;]")


def public_name(target: str, settings: Settings) -> View:
    """A target by the address that readers know; `upstream` is the one we ask, where it is another."""
    known = to_public(target, settings)
    return {"target": redact_target(known)} | ({"upstream": redact_target(target)} if known != target else {})


def redact_target(target: str) -> str:
    """An address that may be shown."""
    try:
        return without_secrets(target)
    except ValueError:
        return "…"  # no address at all: a rule or a feed may say anything


def redact_text(words: str) -> str:
    """A sentence, the addresses in it without their secrets."""
    return _URL.sub(lambda found: redact_target(found[0]), plain_text(words, 1000))
