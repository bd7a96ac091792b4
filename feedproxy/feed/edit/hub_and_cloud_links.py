"""Addition of feedproxy's hub (`rel="hub"`, WebSub) and cloud (rssCloud) to a publisher's feed.

Atom 1.0, and RSS except 0.90, 0.91 and 1.1, get a link to the hub. JSON Feed gets an object in its list `hubs`. RSS
0.92, 0.93, 0.94 and 2.0 get a cloud, unless the feed names one. The publisher's hubs remain: "subscribers may subscribe
to one or more of the advertised hubs" (WebSub, section 4).
"""

import json

from msgspec import Struct

from feedproxy.feed.channel import Channel, Cloud, Kind
from feedproxy.feed.edit.self_link import NOT_EXTENSIBLE, atom_prefix
from feedproxy.feed.edit.splice import Edit, EncodedDocument, open_document, splice
from feedproxy.feed.edit.tag_offsets import ChannelOffsets, find_channel
from feedproxy.feed.json_scanner import DECODER, expect, scan_object, skip_space
from feedproxy.feed.xml_parser import ATOM
from feedproxy.http.link_field import parse_links
from feedproxy.http.message import Fields


class Announcement(Struct, frozen=True):
    """The hub and the cloud that notify subscribers. A missing hub is "", and a missing cloud is None."""

    hub: str = ""
    cloud: Cloud | None = None

    def __bool__(self) -> bool:
        return bool(self.hub or self.cloud)


def announce(body: bytes, channel: Channel, announcement: Announcement, *, charset: str | None = None) -> bytes:
    """Return the document with the announced hub and cloud, or `body` itself if nothing can or must be added. `channel`
    is the channel of `body`, and `charset` the parameter of the origin's Content-Type."""
    hub = announcement.hub if announcement.hub and announcement.hub not in channel.hubs and _allows_hub(channel) else ""
    cloud = announcement.cloud if _allows_cloud(channel) and not channel.cloud else None
    may_change = channel.well_formed and (hub or cloud is not None)
    document = open_document(body, charset) if may_change else None
    if document is None:
        return body
    edits = _edit_json(document, hub) if channel.kind is Kind.JSON else _edit_xml(document, channel, hub, cloud)
    edited = splice(document, edits) if edits else None
    return body if edited is None else edited


def add_link_fields(fields: Fields, *, hub: str, self_href: str) -> Fields:
    """Return the fields with links to `hub` and to the feed's own address, `self_href`, in the field Link.

    The link to `hub` is omitted if `fields` have it. The self link is omitted if `fields` have a self link: WebSub,
    section 4, requires "at least one Link Header with rel=hub as well as exactly one Link Header with rel=self".
    """
    present = parse_links(fields)
    added = []
    if not any("hub" in link.rels and link.href == hub for link in present):
        added.append(f'<{hub}>; rel="hub"')
    if not any("self" in link.rels for link in present):
        added.append(f'<{self_href}>; rel="self"')
    return fields.with_added("Link", ", ".join(added)) if added else fields


def _allows_hub(channel: Channel) -> bool:
    if channel.kind in (Kind.ATOM, Kind.JSON):
        return True
    return channel.kind in (Kind.RSS, Kind.RDF) and channel.version not in NOT_EXTENSIBLE


def _allows_cloud(channel: Channel) -> bool:
    return channel.kind is Kind.RSS and channel.version.startswith(("0.92", "0.93", "0.94", "2"))


# -- XML


def _edit_xml(document: EncodedDocument, channel: Channel, hub: str, cloud: Cloud | None) -> list[Edit]:
    offsets = find_channel(document.utf8, channel)
    position = _insert_position(document, offsets) if offsets is not None else None
    if offsets is None or position is None:
        return []
    elements = ""
    if hub:
        if channel.kind is not Kind.ATOM:
            prefix, declaration = atom_prefix(offsets)
        elif offsets.namespace == ATOM:
            prefix, declaration = offsets.prefix, ""
        else:
            return []  # Atom 0.3 has no such relation
        elements += document.element(prefix, "link", {"rel": "hub", "href": hub}, declaration)
    if cloud is not None:
        elements += document.element(offsets.prefix, "cloud", cloud.attributes)
    return [Edit(position, position, elements)]


def _insert_position(document: EncodedDocument, offsets: ChannelOffsets) -> int | None:
    """Return the offset at which to insert a link, or None if the channel is an empty element.

    The offset is after the channel's `link`, or else after an empty self link, or else after the channel's start tag.
    Some feed readers take the first element `link` for the address of the page, so the new link must follow it.
    """
    if offsets.own_link is not None:
        return offsets.own_link
    for link in offsets.self_links:
        if document.utf8[: link.end].endswith(b"/>"):
            return link.end
    return offsets.start


# -- JSON


def _edit_json(document: EncodedDocument, hub: str) -> list[Edit]:
    """Return the edits that add the hub to the member `hubs` (JSON Feed 1.1, Subscribing to Real-time Notifications).

    The list is empty if the JSON is invalid. A missing member is added: `"hubs": [{"type": "WebSub", "url": …}]`.
    """
    lists: list[int] = []

    def member(name: str, at: int) -> int:
        if name == "hubs":
            lists.append(expect(text, at, "["))
        return DECODER.raw_decode(text, at)[1]

    try:
        text = document.utf8.decode()
        scan_object(text, member)
    except (ValueError, RecursionError):
        return []
    entry = json.dumps({"type": "WebSub", "url": hub})
    # Of repeated members, JSON decoders read the last.
    offset, closing = (lists[-1], "]") if lists else (expect(text, 0, "{"), "}")
    more = "" if text.startswith(closing, skip_space(text, offset)) else ", "
    inserted = f"{entry}{more}" if lists else f'"hubs": [{entry}]{more}'
    position = len(text[:offset].encode())
    return [Edit(position, position, inserted)]
