"""The directives that govern a response: Cache-Control, or a field targeted at caches like this one.

In front of its own origin (reverse) feedproxy is part of the site, and CDN-Cache-Control speaks to it
(RFC 9213). Elsewhere it is a guest, and the field is somebody else's, unless the operator says that it is his
(`targeted_fields`): the target list of a cache "might be fixed, user configurable, or generated per request".
"""

from typing import NamedTuple

from feedproxy.http.cache_control import CacheControl, parse_targeted
from feedproxy.http.message import Fields

TARGETED_FIELD = "cdn-cache-control"


class Directives(NamedTuple):
    """The directives that count, and whether a targeted field gave them: then Expires does not count."""

    control: CacheControl
    targeted: bool


def governing(fields: Fields, *, targeted: bool) -> Directives:
    """Return the directives of a response; `targeted`: targeted fields apply to this cache."""
    # "If the header field [...] is invalid [...] the cache MUST ignore it": parse_targeted gives None then.
    if targeted and TARGETED_FIELD in fields:
        found = parse_targeted(fields, TARGETED_FIELD)
        if found is not None and found.present:
            # RFC 9213, section 2.2: a cache that uses a targeted field ignores Cache-Control and Expires.
            return Directives(found, targeted=True)
    return Directives(CacheControl.from_fields(fields), targeted=False)
