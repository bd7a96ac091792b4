"""The settings by which a feed is edited before it is stored. A digest of them is stored with the feed.

The original of an edited copy is not stored, so that a copy that was edited under other settings cannot be edited
again. The next request to the origin then has no conditions, and brings the original (pipeline.py). Until then, copies
of the upstream's own feeds that were edited under other settings are not used.
"""

import hashlib
from functools import lru_cache

from feedproxy.cache.stored_response import Content
from feedproxy.settings import Settings

DIGEST_LENGTH = 12
"""Length of a digest in hexadecimal digits. 48 bits distinguish the few combinations of settings in one store."""

type EditSettings = tuple[object, ...]
"""Values of the settings that affect the stored form of a feed."""


def self_link_mode(settings: Settings) -> str:
    """Return how self links are edited. By default, no self link of the upstream's own address remains: clients cannot
    reach it."""
    if settings.self_link or not settings.upstream:
        return settings.self_link or "add"
    return "correct" if settings.public_url else "off"


def settings_digest(settings: Settings) -> str:
    """Return the digest of the settings that edit feeds, or an empty string for the defaults, as in older stores."""
    return _digest(_edit_settings(settings))


def is_outdated(content: Content, settings: Settings) -> bool:
    """Return whether the content is a feed that was edited under other settings."""
    return content.feed and content.edited_by != settings_digest(settings)


def _edit_settings(settings: Settings) -> EditSettings:
    announces: EditSettings = ()
    if settings.announce:
        announces = (settings.announce, settings.endpoint_prefix, settings.private, bool(settings.readers))
    return (
        settings.feed_usm,
        settings.rdf_media_type,
        self_link_mode(settings),
        settings.self_link_text,
        *((settings.public_url, *announces) if settings.upstream else ()),
    )


@lru_cache(maxsize=256)
def _digest(editing: EditSettings) -> str:
    if editing == _edit_settings(Settings()):
        return ""
    return hashlib.sha256(repr(editing).encode()).hexdigest()[:DIGEST_LENGTH]
