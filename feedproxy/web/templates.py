"""Pages for people: one look, nothing loaded from elsewhere, everything escaped.

Templates and style stand beside this file. The style sheet is part of each page, and the page's
Content-Security-Policy names its hash: no other style and no script runs, even if something got past the
escaping. The operator's pages have a style sheet and a script of their own in files beside them (`asset`), and
theirs says `self`; they work without the script. Light and dark follow the reader's system.
"""

import hashlib
import re
from base64 import b64encode
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from feedproxy.cache.freshness import span
from feedproxy.clock import Instant

HERE = Path(__file__).parent

HTML = "text/html; charset=utf-8"

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#c2410c"/>'
    '<g fill="none" stroke="#fff" stroke-width="3.4" stroke-linecap="round"><path d="M8 14a10 10 0 0 1 10 10"/>'
    '<path d="M8 8a16 16 0 0 1 16 16"/></g><circle cx="9.5" cy="22.5" r="2.5" fill="#fff"/></svg>'
)
"""A favicon: the quarter circles that people know feeds by."""

_SOURCE = re.compile(r"https?://[A-Za-z0-9.\-]+(?::[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")


def page(name: str, /, **values: Any) -> bytes:
    """The page made of this template (`status.html`) and these values."""
    return _environment().get_template(name).render(values).encode()


def make_ready() -> None:
    """Compile every template, which takes a twentieth of a second or two: not when the first page is wanted."""
    environment = _environment()
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)


def policy(*form_targets: str) -> str:
    """The Content-Security-Policy of a page. Its forms may lead to itself and to these origins."""
    targets = " ".join(["'self'", *(each for each in form_targets if _SOURCE.fullmatch(each))])
    return (
        f"default-src 'none'; style-src '{_style_hash()}'; img-src 'self'; form-action {targets}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )


def operators_policy() -> str:
    """That of the operator's pages, which keep themselves up to date with the script beside them."""
    return (
        f"default-src 'none'; style-src 'self' '{_style_hash()}'; script-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


def asset(name: str) -> tuple[str, bytes] | None:
    """Media type and content of a file that the operator's pages name; None for any other."""
    return _assets().get(name)


def plain_text(text: str, longest: int = 300) -> str:
    """A publisher's text on one line, without characters that steer terminals or turn text round."""
    line = " ".join(_CONTROLS.sub(" ", text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def iso(instant: Instant) -> str:
    """An instant as the views write it: `2026-01-31T12:00:00Z`. Years that no calendar has are cut off."""
    return datetime.fromtimestamp(min(max(instant, 0.0), 253402300799.0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def when(text: str | None, now: Instant) -> Markup | str:
    """`5 min ago`, `in 2 h`, with the absolute time as its title."""
    if not text:
        return "never"
    seconds = datetime.fromisoformat(text).timestamp() - now
    if abs(seconds) < 1:
        words = "now"
    else:
        words = f"in {short(seconds)}" if seconds > 0 else f"{short(-seconds)} ago"
    title = text.replace("T", " ").replace("Z", " UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(text, title, words)


def absolute(instant: Instant) -> str:
    """`2026-01-31 12:00:00 UTC`."""
    return iso(instant).replace("T", " ").replace("Z", " UTC")


def short(seconds: float) -> str:
    """A length of time in one unit, as one glances at it."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (size < 86_400 and seconds >= size):
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def size(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def number(count: float) -> str:
    """A count, its thousands set apart by narrow spaces."""
    return f"{count:,.0f}".replace(",", "\u202f")


def plural(count: float, one: str, many: str) -> str:
    """`1 feed`, `2 feeds`."""
    return f"{number(count)} {one if count == 1 else many}"


@cache
def _assets() -> dict[str, tuple[str, bytes]]:
    """By their names, which have a piece of their hash in them: what was stored under one is never old."""
    style = (_style() + (HERE / "admin.css").read_text("utf-8")).encode()
    script = (HERE / "live.js").read_bytes()
    kinds = (
        ("admin", "css", "text/css; charset=utf-8", style),
        ("live", "js", "text/javascript; charset=utf-8", script),
    )
    return {
        f"{stem}-{hashlib.sha256(body).hexdigest()[:12]}.{ending}": (media_type, body)
        for stem, ending, media_type, body in kinds
    }


@cache
def _style() -> str:
    return (HERE / "style.css").read_text("utf-8")


@cache
def _style_hash() -> str:
    return "sha256-" + b64encode(hashlib.sha256(_style().encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(when=when, span=span, bytes=size, number=number, absolute=absolute)
    environment.globals["style"] = Markup(_style())  # noqa: S704 -- our own file
    environment.globals["assets"] = {name.partition("-")[0]: f"/assets/{name}" for name in _assets()}
    environment.globals["plural"] = plural
    return environment
