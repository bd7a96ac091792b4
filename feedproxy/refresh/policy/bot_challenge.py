"""Pages that ask whether the caller is a browser, sent in place of a feed.

They come with any status: Cloudflare's with 403 or 503, AWS WAF's with 202 and often no body, Anubis's with
200. Most name themselves in a field; the others are known by a path or an element in the page's first bytes.
What is not recognised here is still HTML where a feed was: this only gives the operator a better word for it.
"""

from feedproxy.http.message import Fields

PAGE_BYTES = 65_536
"""Marks are looked for in so many bytes: those pages are one screen, mostly inlined styles."""

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


def identify_vendor(fields: Fields, page: bytes = b"") -> str | None:
    """Whose challenge this is, or None. `page` is the decoded content, or its beginning; empty for a feed.

    A feed may well write about Anubis: only what begins as an HTML page is searched.
    """
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
