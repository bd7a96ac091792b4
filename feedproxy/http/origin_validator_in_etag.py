"""Validators of an origin inside the entity tag for the client.

If the content has no-store, feedproxy stores neither it nor its validator. The client's tag contains the validator:
`HASH.eTAG` a strong tag in base64url, `HASH.wTAG` a weak tag, or `HASH.dNUMBER` Last-Modified in Unix seconds.
"""

import base64
import re
from collections.abc import Iterator

from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.etag import EntityTag, parse_tag, parse_tags, tag_base
from feedproxy.http.message import NO_FIELDS, Fields

TAG_MAX = 96
"""Maximum length, in characters, of an origin's tag that a client's tag contains."""

TAGS_MAX = 8
"""Maximum number of tags of a request that are searched for validators of the origin."""

_FIXED_FIELDS = frozenset({"accept", "accept-encoding", "user-agent"})
"""Names of fields that feedproxy itself writes into requests for feeds, in lower case.

A response that varies only by these fields is the same for all clients.
"""

_CARRIED = re.compile(r"[0-9a-f]+\.(?:(?P<kind>[ew])(?P<tag>[A-Za-z0-9_-]+)|d(?P<date>[0-9]{1,11}))")
"""Pattern of a tag base that contains a validator. A date has at most eleven digits."""


def carry_validators(base: str, fields: Fields) -> str:
    """Return a tag base with the ETag or the Last-Modified of a response, or `base` if neither can be added.

    An ETag of at most TAG_MAX characters is added. Otherwise Last-Modified is added, if the response does not vary by a
    client's fields: documents in several languages can have the same date.
    """
    tag = parse_tag(fields.get("etag") or "") if len(fields.get_all("etag")) == 1 else None
    if tag is not None and len(tag.opaque) <= TAG_MAX and tag.opaque.isascii():
        encoded = base64.urlsafe_b64encode(tag.opaque.encode("ascii")).rstrip(b"=").decode("ascii")
        return f"{base}.{'w' if tag.weak else 'e'}{encoded}" if encoded else base
    modified = parse_http_date(fields.get("last-modified") or "")
    if not _FIXED_FIELDS.issuperset(vary_names(fields)):
        return base
    return f"{base}.d{int(modified)}" if modified is not None and modified >= 0 else base


def content_base(base: str) -> str:
    """Return a tag base without its validator."""
    return base.partition(".")[0] if _CARRIED.fullmatch(base) else base


def conditions_for_origin(fields: Fields) -> Fields:
    """Return the conditions for the origin that correspond to the client's conditions in `fields`, or empty Fields.

    A client's date counts only if the client sends no tag (RFC 9110, section 13.1.3).
    """
    carried = list(_carried_validators(fields))
    if tags := [origin.text for _, origin in carried if isinstance(origin, EntityTag)]:
        return Fields([("If-None-Match", ", ".join(tags))])
    if dates := [origin for _, origin in carried if isinstance(origin, int)]:
        return Fields([("If-Modified-Since", format_http_date(min(dates)))])
    since = parse_http_date(fields.get("if-modified-since") or "")
    if "if-none-match" in fields or since is None:
        return NO_FIELDS
    return Fields([("If-Modified-Since", format_http_date(since))])


def fields_for_client(conditions: Fields, not_modified: Fields) -> Fields | None:
    """Return the fields of an origin's 304, with the tag that the client sent for the current version.

    `conditions` are the fields of the client's request, and `not_modified` those of the 304. Return None if the 304
    does not show which of the client's versions is current.
    """
    carried = list(_carried_validators(conditions))
    confirmed = parse_tag(not_modified.get("etag") or "")
    fields = not_modified.without("etag")
    if confirmed is not None and any(isinstance(origin, EntityTag) for _, origin in carried):
        carried = [
            (tag, origin)
            for tag, origin in carried
            if isinstance(origin, EntityTag) and origin.opaque == confirmed.opaque
        ]
    if confirmed is None and len({origin for _, origin in carried if isinstance(origin, EntityTag)}) > 1:
        return None  # the client has several versions, and the origin does not tell which one is current
    if carried:
        return fields.with_field("ETag", carried[0][0].text)
    return fields if len(conditions_for_origin(conditions)) and "if-none-match" not in conditions else None


def _carried_validators(fields: Fields) -> Iterator[tuple[EntityTag, EntityTag | int]]:
    """Yield each tag of the client that contains a validator, with this validator."""
    tags = parse_tags(fields.combined("if-none-match") or "")
    for tag in tags[:TAGS_MAX] if tags != "*" else ():
        match = _CARRIED.fullmatch(tag_base(tag))
        if match is None:
            continue
        if match["date"]:
            yield tag, int(match["date"])
            continue
        try:
            opaque = base64.urlsafe_b64decode(match["tag"] + "=" * (-len(match["tag"]) % 4)).decode("ascii")
        except ValueError:
            continue
        # A client can send any text as its tag, so the decoded text is sent upstream only if it is a valid tag.
        if len(opaque) <= TAG_MAX and re.fullmatch(r"[!#-~]+", opaque):
            yield tag, EntityTag(opaque, weak=match["kind"] == "w")
