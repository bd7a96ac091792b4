"""Groups of stored responses that are invalidated together.  RFC 9875"""

from feedproxy.cache.invalidation import may_invalidate
from feedproxy.http.field_values import field_parser
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.structured_fields import Token, parse_list

GROUPS_MAX = 128
"""Maximum number of groups in a field. A field with more is ignored. RFC 9875 demands at least 32."""

GROUP_LENGTH_MAX = 256
"""Maximum length of a group's name, in characters. A field with a longer name is ignored."""


def groups_of(response: Fields) -> frozenset[str]:
    """Return the groups to which a response belongs (RFC 9875, section 2)."""
    value = response.combined("cache-groups")
    return frozenset() if value is None else parse_groups(value)


def groups_invalidated_by(request: Request, response: Response) -> frozenset[str]:
    """Return the groups that a response to `request` invalidates (RFC 9875, section 3), or an empty set.

    The groups belong to the origin of the request's target.
    """
    # "The Cache-Group-Invalidation header field MUST be ignored on responses to requests that have a safe method"
    value = response.fields.combined("cache-group-invalidation")
    return frozenset() if value is None or not may_invalidate(request, response) else parse_groups(value)


@field_parser(too_long=frozenset[str](), entries=1024)
def parse_groups(value: str) -> frozenset[str]:
    """Return the names of groups in a value of Cache-Groups or Cache-Group-Invalidation.

    The set is empty if the value is invalid or too long, or if a member is not a string.
    """
    members = parse_list(value)
    if members is None or len(members) > GROUPS_MAX:
        return frozenset()
    groups = [member for member, _ in members if isinstance(member, str) and not isinstance(member, Token)]
    if len(groups) < len(members) or any(len(group) > GROUP_LENGTH_MAX for group in groups):
        return frozenset()
    return frozenset(groups)
