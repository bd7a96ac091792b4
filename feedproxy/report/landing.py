"""The gateway's own page for people at `/`, and what browsers and crawlers ask for beside it.

It names nothing that anybody reads here. A URL pasted into its field leads on to the gateway's form of it.
"""

from urllib.parse import parse_qs

from feedproxy import __version__
from feedproxy.errors import BadTarget, NotOurs
from feedproxy.feed import subscription_address
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.report import pages

ROBOTS = "User-agent: *\nDisallow: /\n"
"""The gateway shows other people's pages under its own name: nothing that a search engine should find."""


def landing_page(path: str, base: str, prefix: str = "/-/") -> Response:
    """The answer to `/` (with `?url=…`), `/robots.txt` and `/favicon.ico`; raises NotOurs for other paths.

    `path` stands as in the request line, query included; `base` is our own address without a trailing slash, `prefix`
    what our endpoints stand under.
    """
    bare, _, query = path.partition("?")
    match bare:
        case "/robots.txt":
            return _answer(200, "text/plain; charset=utf-8", ROBOTS.encode(), "max-age=86400")
        case "/favicon.ico":
            return _answer(200, "image/svg+xml", pages.ICON.encode(), "max-age=604800")
        case "/":
            return _front(query, base, base + prefix)
    raise NotOurs("there is no such page")


def _front(query: str, base: str, own: str) -> Response:
    given = parse_qs(query, keep_blank_values=True, max_num_fields=20).get("url") if query.count("&") < 20 else None
    if given is None:
        return _page(200, base, own)
    value = given[0].strip()
    if not value:
        return _page(400, base, own, "Please put the address of a feed into the field.")
    try:
        target = subscription_address.read(value, base)
    except BadTarget as error:
        return _page(400, base, own, f"That is no address of a feed that can be fetched: {error}.", value)
    return _redirect(303, target, base, "no-store")


def right_form(target: str, base: str) -> Response:
    """The answer to a gateway address in another form than the gateway's: the redirect to the right one."""
    return _redirect(301, target, base, "max-age=86400")


def _redirect(status: int, target: str, base: str, cache_control: str) -> Response:
    answer = _answer(status, "text/plain; charset=utf-8", b"", cache_control, base)
    return answer.with_fields(answer.fields.with_added("Location", base + uri.gateway_path(target)))


def _page(status: int, base: str, own: str, message: str = "", value: str = "") -> Response:
    body = pages.page("landing.html", base=base, own=own, message=message, value=value[:2000], version=__version__)
    return _answer(status, pages.HTML, body, "private, max-age=300" if status == 200 else "no-store", base)


def _answer(status: int, media_type: str, body: bytes, cache_control: str, base: str = "") -> Response:
    """An answer that is whole: the policy in it tells the desk that it is not a target's and needs no dressing."""
    lines = [
        ("Content-Type", media_type),
        ("Cache-Control", cache_control),
        ("Content-Security-Policy", f"sandbox allow-forms allow-downloads; {pages.policy(base)}"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Content-Length", str(len(body))),
    ]
    return Response(status, Fields(lines), body)
