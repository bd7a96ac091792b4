"""The field Link: relations of a response to other resources.  RFC 8288, section 3"""

import re

from msgspec import Struct

from feedproxy.http.field_values import parse_parameters, split_list
from feedproxy.http.message import Fields

LINKS_MAX = 100
"""Maximum number of links in one response that are parsed. Feeds use two or three."""

_REFERENCE = re.compile(r"<([^<>]*)>[ \t]*(.*)", re.DOTALL)
_COMMA_IN_REFERENCE = re.compile(r"<[^<>,]*,[^<>]*>")


class Link(Struct, frozen=True):
    """A link in the field Link. `href` is relative to the response's target. `rels` are its relations in lower case.
    `type` and `title` describe the linked resource."""

    href: str
    rels: tuple[str, ...]
    type: str = ""
    title: str = ""


def parse_links(fields: Fields) -> list[Link]:
    """Return the first LINKS_MAX valid links of a response. Links from another resource (`anchor`) are left out."""
    links: list[Link] = []
    for value in fields.get_all("link"):
        for member in _members(value):
            match = _REFERENCE.fullmatch(member)
            if match is None:
                continue
            # parse_parameters expects a value before the parameters; here the value is `x`.
            _, parameters = parse_parameters(f"x{match[2]}")
            if "anchor" in parameters:
                continue
            rels = tuple(parameters.get("rel", "").lower().split())
            links.append(Link(match[1].strip(), rels, parameters.get("type", ""), parameters.get("title", "")))
            if len(links) == LINKS_MAX:
                return links
    return links


def _members(value: str) -> list[str]:
    """Return the members of a list of links. A comma in angle brackets does not separate members."""
    if not _COMMA_IN_REFERENCE.search(value):
        return split_list(value)
    hidden = _COMMA_IN_REFERENCE.sub(lambda match: match[0].replace(",", "\0"), value)
    return [member.replace("\0", ",") for member in split_list(hidden)]
