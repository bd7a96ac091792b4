"""Recognition of bot challenges: pages that check for a browser, sent in place of a feed.

The status of a challenge varies: Cloudflare sends 403 or 503, AWS WAF 202, and Anubis by default 200. A field, a path,
or an element of the page identifies the vendor. An unrecognised challenge is still a fault: HTML in place of a feed.
"""

from feedproxy.http.message import Fields

PAGE_BYTES = 65_536
"""At most this many bytes at the beginning of a page are searched for signs of a bot challenge."""

_BY_FIELD = (
    # "cf-mitigated header present and set to challenge": Cloudflare, Detect a Challenge Page response.
    ("cf-mitigated", "challenge", "Cloudflare"),
    # "The header x-amzn-waf-action with a value of challenge", or captcha: AWS WAF's documentation.
    ("x-amzn-waf-action", "", "AWS WAF"),
    ("x-vercel-mitigated", "challenge", "Vercel"),
)

_BY_MARK = (
    (b"/.within.website/x/cmd/anubis/", "Anubis"),
    (b"anubis_challenge", "Anubis"),
    (b"_cf_chl_opt", "Cloudflare"),
    (b"_incapsula_resource", "Imperva"),
    (b"/.well-known/ddos-guard/", "DDoS-Guard"),
)


def identify_vendor(fields: Fields, page: bytes) -> str | None:
    """Return the vendor of a bot challenge, or None if the page is no known bot challenge. `page` is the beginning of
    the decoded content, and empty for a feed."""
    for name, value, vendor in _BY_FIELD:
        field_value = fields.get(name)
        if field_value is not None and value in field_value.lower():
            return vendor
    start = page[:PAGE_BYTES].lower()
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<script")):
        for mark, vendor in _BY_MARK:
            if mark in start:
                return vendor
    return None
