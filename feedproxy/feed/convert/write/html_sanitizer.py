"""Sanitizer of untrusted HTML from feeds. ammonia (the nh3 package) writes only harmless elements and addresses."""

import nh3
from markupsafe import Markup

from feedproxy.feed.convert.model import Text

_SCHEMES = {"http", "https", "mailto"}

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


def sanitize(text: Text | None) -> Markup:
    """Return a text as HTML without scripts, styles and forms, or "" if it is None or neither text nor HTML."""
    if text is None or text.type not in ("text", "html"):
        return Markup()
    if text.type == "text":
        return Markup('<p class="plain">{}</p>').format(text.value)
    return Markup(_CLEANER.clean(text.value))  # noqa: S704 -- it has been cleaned


def harmless_address(url: str) -> str:
    """Return the address if its scheme is http, https or mailto, else ""."""
    scheme, colon, _ = url.strip().partition(":")
    return url if colon and scheme.lower() in _SCHEMES else ""
