"""The settings by which a feed is edited before it is stored; their digest is stored with it.

A copy that other settings have edited cannot be edited again: the original is not stored. So the next request to the
origin has no conditions, and brings the original again (pipeline.py). The upstream's own feeds are not used until then.
"""

import hashlib
from functools import lru_cache

from feedproxy.cache.stored_response import Content
from feedproxy.settings import Settings

DIGEST_LENGTH = 12
"""Hexadecimal digits of a digest: 48 bits distinguish the few sets of settings of one store."""

type EditSettings = tuple[object, ...]
"""The settings that affect the stored form of a feed."""


def self_link_mode(settings: Settings) -> str:
    """The mode; by default no link names the upstream's own address, which clients cannot reach."""
    if settings.self_link or not settings.upstream:
        return settings.self_link or "add"
    return "correct" if settings.public_url else "off"


def settings_digest(settings: Settings) -> str:
    """Return the digest of the settings that edit feeds; empty for the defaults, as in older stores."""
    return _digest(_edit_settings(settings))


def is_outdated(content: Content, settings: Settings) -> bool:
    """Return whether this is a feed that other settings have edited."""
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
