"""HTML pages made from the templates in this folder. All values are escaped, and nothing is loaded from other hosts.

The style sheet is part of each page. The admin pages also load a style sheet and a script (`asset`), and work without
the script. content_security_policy.py states what a page may load and run.
"""

import hashlib
import re
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from feedproxy import __version__
from feedproxy.clock import Instant
from feedproxy.durations_and_sizes import span
from feedproxy.web.display_formats import absolute, number, plural, short, size

HERE = Path(__file__).parent

HTML = "text/html; charset=utf-8"

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#c2410c"/>'
    '<g fill="none" stroke="#fff" stroke-width="3.4" stroke-linecap="round"><path d="M8 14a10 10 0 0 1 10 10"/>'
    '<path d="M8 8a16 16 0 0 1 16 16"/></g><circle cx="9.5" cy="22.5" r="2.5" fill="#fff"/></svg>'
)
"""The favicon: the common symbol of feeds."""

_AS_OF = re.compile(rb'<p id="as-of".*?</p>', re.DOTALL)
"""Pattern of the part of a page that states when the page was made (frame.html)."""


def page(name: str, /, **values: Any) -> bytes:
    """Return the page made from these values and the template `name`, such as `status.html`."""
    return _environment().get_template(name).render(values).encode(errors="replace")


def page_entity_tag(body: bytes) -> str:
    """Return the weak entity tag of a page. It does not depend on the time when the page was made."""
    return f'W/"{hashlib.sha256(_AS_OF.sub(b"", body)).hexdigest()[:32]}"'


def make_ready() -> None:
    """Compile every template, which takes up to half a second. The first page then takes no longer than others."""
    environment = _environment()
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)


def asset(name: str) -> tuple[str, bytes] | None:
    """Return the media type and content of a file that admin pages load, or None if there is no such file."""
    return _assets().get(name)


def when(text: str | None, now: Instant) -> Markup | str:
    """Return the ISO 8601 time `text` relative to `now`, such as `5 min ago` or `in 2 h`, or `never` for an empty text.
    The result is a `time` element with the absolute time as its title."""
    if not text:
        return "never"
    seconds = datetime.fromisoformat(text).timestamp() - now
    if abs(seconds) < 1:
        relative = "now"
    else:
        relative = f"in {short(seconds)}" if seconds > 0 else f"{short(-seconds)} ago"
    title = text.replace("T", " ").replace("Z", " UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(text, title, relative)


def with_code(text: str) -> Markup:
    """Return a text with the parts between backticks as HTML code elements."""
    parts = [
        escape(part) if at % 2 == 0 else Markup("<code>{}</code>").format(part)
        for at, part in enumerate(text.split("`"))
    ]
    return Markup("").join(parts)


@cache
def style() -> str:
    """Return the style sheet that is part of each page."""
    return (HERE / "style.css").read_text("utf-8")


@cache
def _assets() -> dict[str, tuple[str, bytes]]:
    """Return the media type and content of each file by name. The name contains a part of the content's hash."""
    admin_style = (style() + (HERE / "admin.css").read_text("utf-8")).encode()
    script = (HERE / "live.js").read_bytes()
    sources = (
        ("admin", "css", "text/css; charset=utf-8", admin_style),
        ("live", "js", "text/javascript; charset=utf-8", script),
    )
    return {
        f"{stem}-{hashlib.sha256(body).hexdigest()[:12]}.{ending}": (media_type, body)
        for stem, ending, media_type, body in sources
    }


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(when=when, span=span, bytes=size, number=number, absolute=absolute, code=with_code)
    environment.globals["style"] = Markup(style())  # noqa: S704 -- a file of the package
    environment.globals["assets"] = {name.partition("-")[0]: f"/assets/{name}" for name in _assets()}
    environment.globals.update(plural=plural, version=__version__)
    return environment
