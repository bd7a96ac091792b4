"""Addresses with the obsolete scheme `feed`, which some pages and feeds still use."""

import re

from feedproxy.errors import BadTarget
from feedproxy.http import uri

_FEED_SCHEME = re.compile(r"(?i)\Afeed:/{0,2}(?=https?:)")


def strip_feed_scheme(text: str) -> str:
    """Return an address without the scheme `feed`: `https://…` for `feed:https://…`, and `http://…` for `feed://…`."""
    text = _FEED_SCHEME.sub("", text.strip(), count=1)
    return "http://" + text[len("feed://") :] if text.lower().startswith("feed://") else text


def resolve_address(base: str, reference: str) -> str:
    """Return the normalised URL of `reference` relative to `base`, or "" if it is not a valid http or https URL."""
    reference = strip_feed_scheme(reference)
    if not reference:
        return ""
    try:
        return uri.resolve(base, reference)  # without a base, only absolute addresses can be resolved
    except BadTarget:
        return ""
