"""The directives that govern a response: Cache-Control, or CDN-Cache-Control.

CDN-Cache-Control (RFC 9213) is for the caches of a site itself. By default, feedproxy obeys it only in reverse mode, as
a part of the site. The option `targeted_fields` changes this default.
"""

from msgspec import Struct

from feedproxy.http.cache_control import CacheControl, parse_targeted
from feedproxy.http.message import Fields

TARGETED_FIELD = "cdn-cache-control"


class Directives(Struct, frozen=True):
    """The directives that govern a response.

    `targeted` is True if they come from a targeted field. Expires is then ignored.
    """

    control: CacheControl
    targeted: bool


def governing_directives(fields: Fields, *, targeted: bool) -> Directives:
    """Return the directives that govern a response. `targeted` is True if targeted fields apply to this cache."""
    # "If the header field [...] is invalid [...] the cache MUST ignore it": parse_targeted returns None for an invalid
    # field.
    directives = parse_targeted(fields, TARGETED_FIELD) if targeted else None
    if directives is not None:
        # RFC 9213, section 2.2: a cache that uses a targeted field ignores Cache-Control and Expires.
        return Directives(directives, targeted=True)
    return Directives(CacheControl.from_fields(fields), targeted=False)
