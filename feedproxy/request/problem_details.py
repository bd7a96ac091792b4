"""Error responses of the proxy: problem+json (RFC 9457), or a short page for browsers."""

import html
import json

from feedproxy.cache.cache_status import Detail
from feedproxy.http.content_negotiation import choose_media_type
from feedproxy.http.message import Fields, Request, Response

TITLES = {
    301: "This feed has moved",
    400: "This address cannot be fetched",
    401: "Credentials are required",
    403: "Blocked by this proxy",
    404: "Not found",
    405: "Method not allowed for this address",
    406: "This document is not a feed",
    407: "Credentials are required",
    410: "This feed has ended",
    413: "The request is too large",
    421: "Unknown host name",
    429: "Too many requests",
    502: "The origin sent no usable response",
    503: "Please try again later",
    504: "The origin did not respond in time",
    508: "Proxy loop detected",
}

UNREADABLE_TITLE = "The request is invalid"
"""Title of the error response to an invalid HTTP request."""

NO_COPY_TITLE = "No copy is stored"
"""Title of the 504 response to a request with only-if-cached, if no copy may answer."""

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><style>:root{{color-scheme:light dark}}\
body{{font:1rem/1.5 system-ui,sans-serif;background:light-dark(#fbfaf8,#15171a);color:light-dark(#1f2328,#e6e7e9);\
max-width:42rem;margin:4rem auto;padding:0 1rem}}h1{{font-size:1.6rem;line-height:1.25}}\
p,code{{overflow-wrap:anywhere}}small{{color:light-dark(#5c6570,#9aa3ad)}}</style></head>
<body><main><h1>{title}</h1><p>{sentence}</p>{target}<p><small>feedproxy: {status} {detail}</small></p></main></body>
</html>
"""


def problem_response(
    status: int,
    detail: str,
    reason: str,
    *,
    request: Request | None = None,
    extra: tuple[tuple[str, str], ...] = (),
) -> Response:
    """Return an error response with no-store: a page if the client prefers HTML, otherwise problem details (RFC 9457).
    `detail` is a token of Cache-Status, `reason` is one sentence for the user, and `extra` contains further fields."""
    titles: dict[str, str] = {Detail.ONLY_IF_CACHED: NO_COPY_TITLE, Detail.BAD_REQUEST: UNREADABLE_TITLE}
    title = titles.get(detail) or TITLES.get(status, "Something went wrong")
    target = request.target if request is not None else ""
    offers = ["application/problem+json", "application/json", "text/html"]
    accept = request.fields.combined("accept") if request is not None else None
    chosen = choose_media_type(accept, offers) or offers[0]
    if chosen == "text/html" and accept is not None and "html" in accept:
        shown = f"<p><code>{html.escape(target)}</code></p>" if target else ""
        body = PAGE.format(
            title=html.escape(title),
            sentence=html.escape(_as_sentence(reason)),
            target=shown,
            status=status,
            detail=html.escape(detail),
        ).encode()
        media_type = "text/html; charset=utf-8"
    else:
        document = {"type": "about:blank", "title": title, "status": status, "detail": reason, "code": detail}
        if target:
            document["instance"] = target
        body = json.dumps(document, ensure_ascii=False).encode() + b"\n"
        media_type = "application/problem+json"
    lines = [
        ("Content-Type", media_type),
        ("Cache-Control", "no-store"),
        ("Vary", "Accept"),
        *extra,
        ("Content-Length", str(len(body))),
    ]
    return Response(status, Fields(lines), body)


def _as_sentence(reason: str) -> str:
    """Return the reason as a sentence with a capital letter and a full stop. A host name at the beginning is
    unchanged."""
    first = reason.partition(" ")[0]
    return (reason[:1].upper() + reason[1:] if first.isalpha() else reason).rstrip(".") + "."
