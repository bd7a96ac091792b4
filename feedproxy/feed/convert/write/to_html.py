"""Writer of an HTML page without scripts, with light and dark themes.

The HTML of feeds is sanitized (html_sanitizer.py), and the page's Content-Security-Policy forbids scripts.
"""

from datetime import UTC, datetime
from importlib.resources import files

from jinja2 import Environment

from feedproxy.feed.convert import markup
from feedproxy.feed.convert.headlines import heading
from feedproxy.feed.convert.model import Enclosure, Feed, Item, Person, Text
from feedproxy.feed.convert.write import pictures_and_files
from feedproxy.feed.convert.write.html_sanitizer import harmless_address, sanitize
from feedproxy.http.date import format_rfc3339

POLICY = (
    "default-src 'none'; img-src http: https:; media-src http: https:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'"
)
"""The page's Content-Security-Policy: it permits pictures, audio, video, and the styles in the page itself."""

_RIGHT_TO_LEFT = frozenset(("ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ps", "sd", "syr", "ug", "ur", "yi"))


def render(feed: Feed) -> bytes:
    return _TEMPLATE.render(feed=feed, policy=POLICY, heading=heading(feed)).encode()


def body(item: Item) -> Text | None:
    """Return an item's content if it is text or HTML in the feed itself, otherwise its summary, which can be None."""
    content = item.content
    return content if content is not None and not content.src and content.type in ("text", "html") else item.summary


def direction(model: Feed | Item, default: str = "") -> str:
    """Return the text direction of a channel or item: the stated direction, or else that of its language. If neither is
    known, return `default`, or `auto` if `default` is empty."""
    if model.direction:
        return model.direction
    tag = model.language.lower().replace("_", "-")
    if not tag:
        return default or "auto"
    return "rtl" if tag.partition("-")[0] in _RIGHT_TO_LEFT else "ltr"


def _format_day(instant: int) -> str:
    moment = datetime.fromtimestamp(instant, UTC)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _person_names(persons: tuple[Person, ...]) -> str:
    return ", ".join(person.name or person.email or person.uri for person in persons)


def _format_size(length: int | None) -> str:
    if not length:
        return ""
    return f"{length / 1e6:.1f} MB" if length >= 1e6 else f"{max(1, round(length / 1e3))} kB"


def _file_name(enclosure: Enclosure) -> str:
    return enclosure.title or enclosure.url.partition("?")[0].rstrip("/").rpartition("/")[2] or enclosure.url


def _environment() -> Environment:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        safe_html=sanitize,
        address=harmless_address,
        body=body,
        line=markup.to_line,
        plain=markup.to_plain,
        rfc3339=format_rfc3339,
        day=_format_day,
        people=_person_names,
        size=_format_size,
        file_name=_file_name,
        picture=pictures_and_files.picture,
        cover=pictures_and_files.cover,
        files=pictures_and_files.files,
        direction=direction,
    )
    return environment


_TEMPLATE = _environment().from_string((files(__package__) / "page.html").read_text(encoding="utf-8"))
