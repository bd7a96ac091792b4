"""The settings that control how a feed is edited before it is stored.

Only the edited form of a feed is stored, with a digest of these settings. After a change of the settings, feedproxy
fetches the feed by a request without conditions and edits it again. In reverse mode, the old copy does not answer in
the meantime.
"""

import hashlib

from feedproxy.cache.stored_response import Content
from feedproxy.http.memoize import memoize_by_identity
from feedproxy.settings import Settings

DIGEST_LENGTH = 12
"""Length of a digest in hexadecimal digits."""


def self_link_mode(settings: Settings) -> str:
    """Return the option `self_link`, or its default. The default is `add` outside reverse mode. In reverse mode, the
    default is `correct` if `public_url` is set, and otherwise `off`."""
    if settings.self_link or not settings.upstream:
        return settings.self_link or "add"
    return "correct" if settings.public_url else "off"


@memoize_by_identity()
def settings_digest(settings: Settings) -> str:
    """Return the digest of the settings for the editing of feeds, or an empty text for the defaults."""
    editing = _edit_settings(settings)
    return "" if editing == _DEFAULTS else hashlib.sha256(repr(editing).encode()).hexdigest()[:DIGEST_LENGTH]


def is_outdated(content: Content, settings: Settings) -> bool:
    """Return whether the content is a feed that was edited under other settings."""
    return content.feed and content.edited_by != settings_digest(settings)


def _edit_settings(settings: Settings) -> tuple[object, ...]:
    announces: tuple[object, ...] = ()
    if settings.announce:
        announces = (settings.announce, settings.endpoint_prefix, settings.private, bool(settings.readers))
    return (
        settings.feed_usm,
        settings.rdf_media_type,
        self_link_mode(settings),
        settings.self_link_text,
        *((settings.public_url, *announces) if settings.upstream else ()),
    )


_DEFAULTS = _edit_settings(Settings())
