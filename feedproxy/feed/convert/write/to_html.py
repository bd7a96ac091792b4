"""Rendering of the model as a safe HTML page, for screens of any size and for light and dark themes.

HTML in feeds is not trusted. ammonia (the nh3 package) parses it as a browser does and writes only elements that are
known to be harmless. No script, style, frame or form remains, and no address with a scheme other than http, https and
mailto. The page itself has no script, and its Content-Security-Policy forbids scripts: a mistake in one of the two
measures has no effect.
"""

from datetime import UTC, datetime
from importlib.resources import files

import nh3
from jinja2 import Environment
from markupsafe import Markup

from feedproxy.feed import feed_dates
from feedproxy.feed.convert import markup
from feedproxy.feed.convert.model import Enclosure, Feed, Item, Person, Text
from feedproxy.feed.convert.write import item_media

POLICY = (
    "default-src 'none'; img-src http: https:; media-src http: https:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'"
)
"""The Content-Security-Policy of the page. It permits only pictures, audio and video."""

_SCHEMES = {"http", "https", "mailto"}
_RIGHT_TO_LEFT = frozenset(("ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ps", "sd", "syr", "ug", "ur", "yi"))

# fmt: off
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)
# fmt: on

_CLEANER = nh3.Cleaner(
    tags=(nh3.ALLOWED_TAGS | {"audio", "video", "source", "picture", "section"}) - {"map", "area"},
    clean_content_tags={"script", "style", "template", "title", "noembed", "noframes"},
    attributes={
        **{tag: set(names) for tag, names in nh3.ALLOWED_ATTRIBUTES.items()},
        "audio": {"src"},
        "video": {"src", "poster", "width", "height"},
        "source": {"src", "type"},
        "*": {"lang", "dir", "title"},
    },
    url_schemes=_SCHEMES,
    url_relative="deny",  # a relative link would lead to the proxy
    link_rel="noopener noreferrer nofollow",
    set_tag_attribute_values={
        "img": {"loading": "lazy", "referrerpolicy": "no-referrer"},
        "audio": {"controls": "", "preload": "none"},
        "video": {"controls": "", "preload": "none"},
    },
)


def render(feed: Feed) -> bytes:
    """Return the page in UTF-8."""
    return _TEMPLATE.render(feed=feed, policy=POLICY, heading=_heading(feed)).encode()


def safe(text: Text | None) -> Markup:
    """Return a text as HTML without scripts, styles and forms."""
    if text is None or text.type not in ("text", "html"):
        return Markup()
    if text.type == "text":
        return Markup('<p class="plain">{}</p>').format(text.value)
    return Markup(_CLEANER.clean(text.value))  # noqa: S704 -- it has been cleaned


def body(item: Item) -> Text | None:
    """Return an item's content, or its summary if the content is a file or at another address."""
    return item.content if item.content is not None and item.content.type in ("text", "html") else item.summary


def address(url: str) -> str:
    """Return the address if its scheme is harmless. Return an empty text otherwise."""
    scheme, colon, _ = url.strip().partition(":")
    return url if colon and scheme.lower() in _SCHEMES else ""


def direction(model: Feed | Item, default: str = "") -> str:
    """Return the direction of a channel's or item's text: the stated one, that of its language, or `default`."""
    if model.direction:
        return model.direction
    tag = model.language.lower().replace("_", "-")
    if not tag:
        return default or "auto"
    return "rtl" if tag.partition("-")[0] in _RIGHT_TO_LEFT else "ltr"


def _heading(feed: Feed) -> str:
    return markup.to_line(feed.title) or feed.link or feed.address or "A feed"


def _day(instant: int) -> str:
    moment = datetime.fromtimestamp(instant, UTC)
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}, {moment:%H:%M} UTC"


def _people(persons: tuple[Person, ...]) -> str:
    return ", ".join(person.name or person.email or person.uri for person in persons)


def _size(length: int | None) -> str:
    if not length:
        return ""
    return f"{length / 1e6:.1f} MB" if length >= 1e6 else f"{max(1, round(length / 1e3))} KB"


def _file_name(enclosure: Enclosure) -> str:
    return enclosure.title or enclosure.url.partition("?")[0].rstrip("/").rpartition("/")[2] or enclosure.url


def _environment() -> Environment:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        safe_html=safe,
        address=address,
        body=body,
        line=markup.to_line,
        plain=markup.to_plain,
        rfc3339=feed_dates.rfc3339,
        day=_day,
        people=_people,
        size=_size,
        file_name=_file_name,
        picture=item_media.picture,
        cover=item_media.cover,
        files=item_media.files,
        direction=direction,
    )
    return environment


_TEMPLATE = _environment().from_string((files(__package__) / "page.html").read_text(encoding="utf-8"))
