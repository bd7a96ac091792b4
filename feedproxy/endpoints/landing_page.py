"""The gateway's page for people at `/`, and the files that browsers and crawlers request beside it.

For a pasted address, it shows the gateway address, a link to subscribe, and title and entries of the feed. It never
lists the feeds that are read through the proxy.
"""

from urllib.parse import parse_qs

from msgspec import Struct

from feedproxy import __version__
from feedproxy.errors import BadTarget, NotFound
from feedproxy.feed import pasted_address
from feedproxy.http.message import Fields, Response
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.web import templates
from feedproxy.web.content_security_policy import page_policy

ROBOTS = "User-agent: *\nDisallow: /\n"
"""Content of robots.txt. Search engines must not index other sites' pages under the gateway's name."""


SANDBOX = "sandbox allow-forms allow-downloads allow-top-navigation-to-custom-protocols"
"""Sandbox policy of the page, which runs no script. It permits the form, downloads, and the link to subscribe. The
scheme `feed:` of this link opens another program."""


class Preview(Struct, frozen=True):
    """The preview of a pasted address: the address, title and first entries of the feed, or the reason why there is no
    preview."""

    target: str
    title: str = ""
    entries: tuple[tuple[str, str], ...] = ()
    reason: str = ""


def landing_page(path: str, base: str, prefix: str = "/-/") -> Response:
    """Return the response to `/`, `/robots.txt` or `/favicon.ico`. Raises NotFound for other paths.

    `path` is the request target with its query. `base` is the gateway's URL without a trailing slash. `prefix` is the
    path of the endpoints.
    """
    bare, _, query = path.partition("?")
    match bare:
        case "/robots.txt":
            return _response(200, "text/plain; charset=utf-8", ROBOTS.encode(), "max-age=86400")
        case "/favicon.ico":
            return _response(200, "image/svg+xml", templates.ICON.encode(), "max-age=604800")
        case "/":
            return _home_page(query, base, prefix)
    raise NotFound("this page does not exist")


def pasted_target(path: str, base: str, prefix: str) -> str:
    """Return the target of the address in `/?url=ADDRESS`, or "" for another path or an invalid address."""
    bare, _, query = path.partition("?")
    value = _pasted_text(query) if bare == "/" else None
    try:
        return pasted_address.read(value, base, prefix) if value else ""
    except BadTarget:
        return ""


def preview_page(preview: Preview, base: str, prefix: str = "/-/") -> Response:
    """Return the page for a pasted address: its gateway address, a link to subscribe, and a preview of the feed."""
    return _page(200, base, base + prefix, preview=preview, value=preview.target)


def gateway_redirect(path: str, base: str) -> Response:
    """Return the redirect from an unusual form of a gateway address to its usual form, `base` + `path`."""
    answer = _response(301, "text/plain; charset=utf-8", b"", "max-age=86400", base)
    return answer.with_fields(answer.fields.with_added("Location", base + path))


def _pasted_text(query: str) -> str | None:
    texts = parse_qs(query, keep_blank_values=True, max_num_fields=20).get("url") if query.count("&") < 20 else None
    return texts[0].strip() if texts else None


def _home_page(query: str, base: str, prefix: str) -> Response:
    own = base + prefix
    value = _pasted_text(query)
    if value is None:
        return _page(200, base, own)
    if not value:
        return _page(400, base, own, "Please put the address of a feed into the field.")
    try:
        pasted_address.read(value, base, prefix)
    except BadTarget as error:
        return _page(400, base, own, f"No feed can be fetched from this address: {error}.", value)
    return _page(200, base, own, value=value)


def _page(
    status: int, base: str, own: str, message: str = "", value: str = "", preview: Preview | None = None
) -> Response:
    shown = {"base": base, "own": own, "message": message, "value": value[:2000], "version": __version__}
    address = base + gateway_path(preview.target) if preview is not None else ""
    body = templates.page("landing.html", **shown, preview=preview, address=address)
    return _response(status, templates.HTML, body, "no-store" if value or message else "private, max-age=300", base)


def _response(status: int, media_type: str, body: bytes, cache_control: str, base: str = "") -> Response:
    """Return a complete response. Its forms may be sent to the gateway at `base`. It has a Content-Security-Policy of
    its own, so the gateway adds none."""
    lines = [
        ("Content-Type", media_type),
        ("Cache-Control", cache_control),
        ("Content-Security-Policy", f"{SANDBOX}; {page_policy(base)}"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Content-Length", str(len(body))),
    ]
    return Response(status, Fields(lines), body)
