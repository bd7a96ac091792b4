"""Fetching of single documents, for commands that run without a proxy."""

import functools

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.clock import SystemClock
from feedproxy.errors import TooLarge
from feedproxy.feed import xml_redirect
from feedproxy.http import uri
from feedproxy.http.coding import bounded_decompression
from feedproxy.http.message import Fields, Request
from feedproxy.refresh.redirect_following import FollowRedirect, StopFollowing, follow_redirects, next_hop
from feedproxy.request.upstream_and_public_urls import redirect_target
from feedproxy.request.upstream_request import own_user_agent
from feedproxy.settings import Settings
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.fetch_result import Oversized
from feedproxy.upstream.parent_proxy import parent_of
from feedproxy.upstream.upstream_errors import FetchError

ACCEPT = (
    "application/rss+xml, application/atom+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, */*;q=0.5"
)


class Document(Struct, frozen=True):
    """A fetched document: its decoded content, its fields, the requested address, and the final address.
    `permanent_address` is the new address after a permanent move, and otherwise the requested address."""

    body: bytes
    fields: Fields
    address: str
    final_address: str = ""
    permanent_address: str = ""


async def fetch_document(address: str, settings: Settings) -> Document:
    """Fetch the document at an address, following HTTP and XML redirects, and return the last document.

    Raises BadTarget if the address is invalid, and Forbidden if it is not permitted. Raises TooLarge if the content is
    too large, and Undecodable if it cannot be decoded. Raises FetchError if:

    * the exchange fails, or the status is not 200,
    * the redirects cannot be followed to the end,
    * an XML redirect says that the feed has ended.
    """
    return await _follow_xml_redirects(await _fetch(uri.normalise(address), settings), settings)


async def follow_saved_redirect(body: bytes, source: str, settings: Settings) -> Document | None:
    """Return the document to which a saved XML redirect leads, or None if `body` is no XML redirect. `source` names the
    saved document in error messages. Raises the errors of `fetch_document`."""
    match xml_redirect.read(body):
        case xml_redirect.Moved(location):
            return await fetch_document(location, settings)
        case xml_redirect.Gone():
            raise FetchError(f"{source} says that the feed has ended")
    return None


async def _follow_xml_redirects(document: Document, settings: Settings) -> Document:
    visited = [document.final_address]
    to_target = functools.partial(redirect_target, start=document.address, settings=settings)
    while (redirect := xml_redirect.read(document.body)) is not None:
        if isinstance(redirect, xml_redirect.Gone):
            raise FetchError(f"{document.final_address} says that the feed has ended")
        match next_hop(visited, redirect.location, limit=settings.redirects_max, to_target=to_target):
            case StopFollowing(_, reason):
                raise FetchError(f"{visited[0]}: {reason}")
            case FollowRedirect(target):
                following = await _fetch(target, settings)
        # A redirect that follows a temporary one is temporary, too.
        permanent_address = (
            following.permanent_address
            if document.permanent_address == document.final_address
            else document.permanent_address
        )
        document = replace(following, address=document.address, permanent_address=permanent_address)
        visited += [target, document.final_address] if document.final_address != target else [target]
    return document


async def _fetch(target: str, settings: Settings) -> Document:
    # aiohttp takes most of the start of a command, and a command with a file as its source does not need it.
    from feedproxy.upstream.origin_client import Fetcher, FetchLimits  # noqa: PLC0415

    lines = [
        ("User-Agent", own_user_agent(settings)),
        ("Accept", ACCEPT),
        ("Accept-Encoding", "gzip, br, zstd"),
    ]
    policy = AddressPolicy(settings.allow_private, settings.allow_networks, settings.allow_ports)
    proxy = functools.partial(parent_of, settings.upstream_proxy)
    limits = FetchLimits.from_settings(settings)
    async with Fetcher(policy, limits, clock=SystemClock(), parent_of=proxy) as fetcher:
        chain = await follow_redirects(
            fetcher,
            Request("GET", target, Fields(lines)),
            limit=settings.redirects_max,
            skip_address_check=False,
            to_target=functools.partial(redirect_target, start=target, settings=settings),
        )
    if chain.redirect_error is not None:
        raise FetchError(f"{target}: redirects not followed to the end: {chain.redirect_error.sentence}")
    if isinstance(chain.last, Oversized):
        raise TooLarge(f"{target} is larger than {settings.buffer_max} bytes")
    response = chain.last.response
    if response.status != 200:
        raise FetchError(f"{target} answers {response.status} {response.reason}".rstrip())
    encoding = response.fields.combined("content-encoding")
    limit = bounded_decompression.decoding_limit(len(response.body), settings.decoded_max)
    body = bounded_decompression.decode(response.body, encoding, limit=limit)
    return Document(body, response.fields, target, chain.final_target, chain.moved_to or target)
