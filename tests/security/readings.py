"""All operations on documents from unknown publishers, by name."""

from collections.abc import Callable

from feedproxy.feed import autodiscovery, document_syntax, opml, publication_history, xml_redirect
from feedproxy.feed.channel import Cloud
from feedproxy.feed.content_digest import digest_of_text
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.read import from_document as convert
from feedproxy.feed.delta.delta_document import make_delta
from feedproxy.feed.delta.entry_identities import find_entries
from feedproxy.feed.edit import hub_and_cloud_links, self_link
from feedproxy.feed.edit.hub_and_cloud_links import Announcement
from feedproxy.feed.parse import channel_parser
from feedproxy.feed.parse.channel_scan import scan_channel
from feedproxy.http.message import Fields, Response
from feedproxy.refresh.ingest.ingest import ingest, ingest_fast_path
from feedproxy.settings import Settings

HREF = "http://a.example/feed"
_SAID = Announcement("http://hub.example/", Cloud("a.example", "80", "/", "", "http-post"))


def as_response(document: bytes) -> Response:
    return Response(200, Fields([("Content-Type", "application/xml")]), document)


def _delta(document: bytes) -> object:
    channel = channel_parser.read(document, None)
    found = find_entries(document, channel) if channel is not None else None
    base = [(each.identity, each.digest) for each in found[1:]] if found else []
    return make_delta(document, channel, base) if channel is not None else None


def _self_link(document: bytes) -> object:
    channel = channel_parser.read(document, None, digest=False)
    return self_link.apply_self_link(document, channel, href=HREF, mode="correct") if channel is not None else None


def _announce(document: bytes) -> object:
    channel = channel_parser.read(document, None, digest=False)
    return hub_and_cloud_links.announce(document, channel, _SAID) if channel is not None else None


def to_model(document: bytes) -> Feed | None:
    return convert.read(document, None, address=HREF)


def _rendered(name: str) -> Callable[[bytes], object]:
    def render(document: bytes) -> object:
        feed = to_model(document)
        return FORMATS[name].render(feed) if feed is not None else None

    return render


READINGS: dict[str, Callable[[bytes], object]] = {
    "read": lambda document: channel_parser.read(document, None),
    "prepare": lambda document: ingest(as_response(document), Settings(), self_href=HREF, now=1e9),
    "at first sight": lambda document: ingest_fast_path(
        as_response(document), Settings(), self_href=HREF, now=1e9, accept_encoding=None
    ),
    "scan_channel": lambda document: scan_channel(document, None),
    "delta": _delta,
    "self link": _self_link,
    "announce": _announce,
    "history": lambda document: publication_history.find_publications(document, 2e9),
    "nature": document_syntax.detect_syntax,
    "digest of text": digest_of_text,
    "relocation": xml_redirect.read,
    "discovery": lambda document: autodiscovery.discover_feeds(document, HREF),
    "opml": opml.read,
    "model": to_model,
    **{f"as {name}": _rendered(name) for name in FORMATS},
}
