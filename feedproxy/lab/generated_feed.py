"""The feed that is generated for a test plan that names no source."""

import math

from msgspec.structs import replace

from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import format_http_date
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline, Version

SYNTHETIC_START: Instant = 1_767_571_200
"""Time of the first version of a generated feed: 2026-01-05T00:00:00Z."""


VERSIONS_MAX = 5000
"""Maximum number of versions of a generated feed, which are all in memory: 5 KB each. A plan with more versions is
rejected."""


def version_count(days: float, change: Seconds) -> int:
    """Return the number of versions of a feed that is generated for `days` days: one at the start, one after every
    `change` seconds, and one after the end."""
    return math.ceil(days * 86_400 / change) + 2


def generate_feed(days: float, change: Seconds) -> ReplayWorld:
    """Return a feed that gets an entry every `change` seconds for `days` days. It is served at `/feed.xml` of every
    host."""
    versions = [_version(number, change) for number in range(version_count(days, change))]
    return ReplayWorld({}, {"/feed.xml": Timeline(versions)})


def _version(number: int, change: Seconds) -> Version:
    since = SYNTHETIC_START + number * change
    version = Version.of_document(since, _document(number, change), "application/rss+xml; charset=utf-8")
    return replace(version, coded=("gzip",))


def _document(last: int, change: Seconds) -> bytes:
    items = "".join(
        f"<item><title>Entry {number}</title><link>http://example.com/{number}</link>"
        f'<guid isPermaLink="false">tag:example.com,2026:{number}</guid>'
        f"<pubDate>{format_http_date(SYNTHETIC_START + number * change)}</pubDate>"
        f"<description>{'What happened then, in a few words. ' * 8}</description></item>\n"
        for number in range(last, max(-1, last - 20), -1)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel><title>A feed in the lab</title>'
        f"<link>http://example.com/</link><description>Made up</description>\n{items}</channel></rss>\n"
    ).encode()
