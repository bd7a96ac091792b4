"""One document, fetched once, for commands that look at an address by themselves."""

from dataclasses import dataclass

from feedproxy import __version__
from feedproxy.clock import SystemClock
from feedproxy.errors import FetchError, TooLarge
from feedproxy.http import coding, uri
from feedproxy.http.message import Fields, Request
from feedproxy.net.address import AddressPolicy
from feedproxy.net.fetch import Fetcher, FetchLimits, Oversized
from feedproxy.origin.trail import walk
from feedproxy.settings import Settings, ports

ACCEPT = (
    "application/rss+xml, application/atom+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, */*;q=0.5"
)


@dataclass(frozen=True, slots=True)
class Obtained:
    """A document: its content without codings, its fields, the address that was asked for, and the one it is at."""

    body: bytes
    fields: Fields
    address: str
    at: str = ""


def user_agent(settings: Settings) -> str:
    """Who asks: a command, for nobody's subscribers."""
    return f"feedproxy/{__version__}" + (f" (+{settings.contact_url})" if settings.contact_url else "")


async def obtain(address: str, settings: Settings) -> Obtained:
    """Fetch an address, redirects followed, with the operator's limits.

    Raises BadTarget, Forbidden, FetchError (for any status but 200, too), TooLarge, Undecodable.
    """
    target = uri.normalise(address)
    lines = [
        ("User-Agent", user_agent(settings)),
        ("Accept", ACCEPT),
        ("Accept-Encoding", "gzip, br, zstd"),
    ]
    policy = AddressPolicy(settings.allow_private, settings.allow_networks, ports(settings, settings.allow_ports))
    async with Fetcher(policy, FetchLimits.from_settings(settings), clock=SystemClock()) as fetcher:
        trail = await walk(fetcher, Request("GET", target, Fields(lines)), limit=settings.redirects_max, exempt=False)
    if trail.broken is not None:
        raise FetchError(f"{target}: its redirects cannot be followed to the end: {trail.broken.sentence}")
    if isinstance(trail.last, Oversized):
        raise TooLarge(f"{target} is larger than {settings.buffer_max} bytes")
    response = trail.last.response
    if response.status != 200:
        raise FetchError(f"{target} answers {response.status} {response.reason}".rstrip())
    encoding = response.fields.combined("content-encoding")
    limit = coding.reasonable(len(response.body), settings.decoded_max)
    return Obtained(coding.decode(response.body, encoding, limit=limit), response.fields, target, trail.at)
