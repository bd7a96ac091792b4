"""Choice between HTML and JSON for the responses of the admin listener, and the responses in JSON."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from feedproxy.http.content_negotiation import choose_media_type
from feedproxy.web import templates


def wants_json(request: web.Request) -> bool:
    """Return True if the path is below /api/, if Accept prefers JSON, or if the request is a POST without Accept."""
    if request.path.startswith("/api/"):
        return True
    offers = ["text/html", "application/json"]
    if request.method == "POST":
        offers.reverse()
    accept = ", ".join(request.headers.getall("Accept", [])) or None
    return choose_media_type(accept, offers) == "application/json"


def error_response(
    request: web.Request, status: int, code: str, message: str, extra: Mapping[str, str]
) -> web.Response:
    """Return an error response as JSON or as a page. `extra` contains additional fields."""
    if wants_json(request):
        return as_json({"error": code, "status": status, "words": message}, status, extra)
    body = templates.page("error.html", status=status, code=code, message=message)
    return web.Response(status=status, body=body, headers={"Content-Type": templates.HTML, **extra})


def as_json(value: Any, status: int = 200, extra: Mapping[str, str] | None = None) -> web.Response:
    """Return a value as an indented JSON response."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    return web.Response(status=status, text=text, content_type="application/json", headers=extra)
