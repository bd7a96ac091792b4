"""Groups of stored responses that one response invalidates together (RFC 9875)."""

from feedproxy.cache.invalidation import SAFE
from feedproxy.http.memoize import memoize_short
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.structured_fields import Token, parse_list

GROUPS_MAX = 128
"""Groups that are read of one field.

"Implementations MUST support at least 32 groups in a field value, with up to at least 32 characters in each member."
-- sections 2 and 3
"""

GROUP_LENGTH_MAX = 256
"""Characters of a group's name; a field with a longer one is ignored."""


def groups_of(response: Fields) -> frozenset[str]:
    """Return the groups that a response belongs to (section 2)."""
    value = response.combined("cache-groups")
    return frozenset() if value is None else parse_groups(value)


def groups_invalidated_by(request: Request, response: Response) -> frozenset[str]:
    """Return the groups of the request's origin that a response invalidates (section 3)."""
    # "The Cache-Group-Invalidation header field MUST be ignored on responses to requests that have a safe method"
    if request.method in SAFE:
        return frozenset()
    # As for single targets: "A "non-error response" is one with a 2xx or 3xx status code." -- RFC 9111, section 4.4
    value = response.fields.combined("cache-group-invalidation") if 200 <= response.status < 400 else None
    return frozenset() if value is None else parse_groups(value)


@memoize_short(entries=1024)
def parse_groups(value: str) -> frozenset[str]:
    """Read a list of strings; none where it is not valid. Parameters are ignored."""
    members = parse_list(value)
    if members is None or len(members) > GROUPS_MAX:
        return frozenset()
    groups = [member for member in members if isinstance(member, str) and not isinstance(member, Token)]
    if len(groups) < len(members) or any(len(group) > GROUP_LENGTH_MAX for group in groups):
        return frozenset()
    return frozenset(groups)
