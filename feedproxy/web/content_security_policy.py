"""The Content-Security-Policy of HTML pages.

A policy contains the hash of the page's style sheet. Other styles and scripts do not run, even if escaping fails. The
files that admin pages load are permitted as `self`.
"""

import hashlib
import re
from base64 import b64encode
from functools import cache

from feedproxy.web.templates import style

_SOURCE = re.compile(r"https?://[A-Za-z0-9.\-]+(?::[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")


def page_policy(*form_targets: str) -> str:
    """Return the policy of a page, with forms that may be sent to its own origin and to `form_targets`.

    These are origins such as `https://example.com`. An invalid one is left out.
    """
    targets = " ".join(["'self'", *(target for target in form_targets if _SOURCE.fullmatch(target))])
    return (
        f"default-src 'none'; style-src '{_style_hash()}'; img-src 'self'; form-action {targets}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )


def admin_page_policy() -> str:
    """Return the policy of admin pages, which load a script that updates them."""
    return (
        f"default-src 'none'; style-src 'self' '{_style_hash()}'; script-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


@cache
def _style_hash() -> str:
    return "sha256-" + b64encode(hashlib.sha256(style().encode()).digest()).decode()
