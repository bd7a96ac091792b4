"""One document, fetched once, for commands that look at an address by themselves."""

import functools
from dataclasses import dataclass, replace

from feedproxy import __version__
from feedproxy.clock import SystemClock
from feedproxy.errors import FetchError, TooLarge
from feedproxy.feed import xml_redirect
from feedproxy.http import content_coding, uri
from feedproxy.http.message import Fields, Request
from feedproxy.refresh.policy import relocation as moves
from feedproxy.refresh.redirects import walk
from feedproxy.request.url_mapping import redirect_target
from feedproxy.settings import Settings, ports
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.client import Fetcher, FetchLimits, Oversized
from feedproxy.upstream.parent_proxy import parent_of

ACCEPT = (
    "application/rss+xml, application/atom+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, */*;q=0.5"
)


@dataclass(frozen=True, slots=True)
class Obtained:
    """A document: its content without codings, its fields, the address that was asked for, and the one it is at.

    `lasting` is the address to know it by: the new one where it has moved for good, else the one that was asked for.
    """

    body: bytes
    fields: Fields
    address: str
    at: str = ""
    lasting: str = ""


def user_agent(settings: Settings) -> str:
    """Who asks: a command, for nobody's subscribers."""
    return f"feedproxy/{__version__}" + (f" (+{settings.contact_url})" if settings.contact_url else "")


async def obtain(address: str, settings: Settings) -> Obtained:
    """Fetch an address, with the operator's limits. Redirects are followed, those in XML too.

    Raises BadTarget, Forbidden, FetchError (for any status but 200, too), TooLarge, Undecodable.
    """
    return await _led_on(await _fetched(uri.normalise(address), settings), settings)


async def moved(body: bytes, source: str, settings: Settings) -> Obtained | None:
    """What a saved XML redirect leads to; None where `body` is none.

    Raises FetchError where it says that the feed has ended, and what `obtain` raises.
    """
    match xml_redirect.read(body):
        case xml_redirect.Moved(location):
            return await obtain(location, settings)
        case xml_redirect.Gone():
            raise FetchError(f"{source} says that the feed has ended")
    return None


async def _led_on(got: Obtained, settings: Settings) -> Obtained:
    """Follow XML redirects: "These should be treated the same as HTTP 301 response" (RSS Feed State)."""
    visited = [got.at]
    meant = functools.partial(redirect_target, start=got.address, settings=settings)
    while (said := xml_redirect.read(got.body)) is not None:
        if isinstance(said, xml_redirect.Gone):
            raise FetchError(f"{got.at} says that the feed has ended")
        match moves.chain(visited, said.location, limit=settings.redirects_max, meant=meant):
            case moves.Stop(_, words):
                raise FetchError(f"{visited[0]}: {words}")
            case moves.Follow(there):
                after = await _fetched(there, settings)
        # What follows a temporary redirect is temporary, too.
        lasting = after.lasting if got.lasting == got.at else got.lasting
        got = replace(after, address=got.address, lasting=lasting)
        visited += [there, got.at] if got.at != there else [there]
    return got


async def _fetched(target: str, settings: Settings) -> Obtained:
    lines = [
        ("User-Agent", user_agent(settings)),
        ("Accept", ACCEPT),
        ("Accept-Encoding", "gzip, br, zstd"),
    ]
    policy = AddressPolicy(settings.allow_private, settings.allow_networks, ports(settings, settings.allow_ports))
    proxy = functools.partial(parent_of, settings.upstream_proxy)
    limits = FetchLimits.from_settings(settings)
    async with Fetcher(policy, limits, clock=SystemClock(), parent_of=proxy) as fetcher:
        trail = await walk(
            fetcher,
            Request("GET", target, Fields(lines)),
            limit=settings.redirects_max,
            exempt=False,
            meant=functools.partial(redirect_target, start=target, settings=settings),
        )
    if trail.broken is not None:
        raise FetchError(f"{target}: its redirects cannot be followed to the end: {trail.broken.sentence}")
    if isinstance(trail.last, Oversized):
        raise TooLarge(f"{target} is larger than {settings.buffer_max} bytes")
    response = trail.last.response
    if response.status != 200:
        raise FetchError(f"{target} answers {response.status} {response.reason}".rstrip())
    encoding = response.fields.combined("content-encoding")
    limit = content_coding.reasonable(len(response.body), settings.decoded_max)
    body = content_coding.decode(response.body, encoding, limit=limit)
    return Obtained(body, response.fields, target, trail.at, trail.moved_to or target)
