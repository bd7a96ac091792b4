"""Observations of a feed: the responses to the requests of a check."""

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from feedproxy.clock import Instant, Seconds
from feedproxy.http import uri
from feedproxy.http.message import Fields, Request
from feedproxy.upstream.tls_probe import ProbedCertificate


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and its answer. `status` is 0 where none came, and `error` says why."""

    request: Request
    status: int = 0
    fields: Fields = field(default_factory=Fields)
    """Of this answer, those of one connection only left out."""
    framing: Fields = field(default_factory=Fields)
    """Content-Length and Transfer-Encoding, as they were understood."""
    doubt: str = ""
    """Why the framing of the response is doubtful; empty if it is not."""
    body: bytes = b""
    """The body as received."""
    content: bytes | None = None
    """Without codings; None where they cannot be taken off."""
    error: str = ""
    detail: str = ""
    """The token of the error (errors.py), or `too-large`."""
    minor: int = 1
    """Of HTTP/1.x."""
    at: Instant = 0.0
    """When the answer came."""
    seconds: Seconds = 0.0

    @property
    def target(self) -> str:
        """Return the target of the request."""
        return self.request.target

    @property
    def coding(self) -> str:
        """Its content codings, as they are named; empty for none."""
        said = (self.fields.combined("content-encoding") or "").strip().lower()
        return "" if said == "identity" else said


@dataclass(frozen=True, slots=True)
class FeedObservations:
    """Everything that was asked about one feed. What could not be, or need not be, asked is None."""

    address: str
    """As it was given, normalised."""
    hops: tuple[Exchange, ...]
    """From the address along redirects; the last one is the feed, with a coding if there is one."""
    broken: str = ""
    """Why redirects were not followed to their end."""
    plain: Exchange | None = None
    """The same without a coding."""
    head: Exchange | None = None
    by_tag: Exchange | None = None
    """Asked with If-None-Match alone."""
    by_date: Exchange | None = None
    """Asked with If-Modified-Since alone."""
    again: Exchange | None = None
    """Asked as the first time, a little later."""
    secure: Exchange | None = None
    """The same by https, where the address is one of http."""
    own: Exchange | None = None
    """Response at the self link, if it is another address."""
    page: Exchange | None = None
    hubs: tuple[Exchange, ...] = ()
    cloud: Exchange | None = None
    handshake: ProbedCertificate | None = None

    @property
    def last(self) -> Exchange:
        """The answer that should be the feed."""
        return self.hops[-1]

    @property
    def at(self) -> str:
        """Where the feed is, redirects followed."""
        return self.last.target

    @property
    def requests(self) -> int:
        """How many were made."""
        others = (self.plain, self.head, self.by_tag, self.by_date, self.again, self.secure, self.own, self.page)
        return len(self.hops) + len(self.hubs) + sum(each is not None for each in (*others, self.cloud))


def is_local(address: str) -> bool:
    """Return True for addresses of this machine or a local network; names other than localhost are not resolved."""
    host, _ = uri.host_port(address)
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".test", ".internal", ".local"))


def scheme_of(address: str) -> str:
    """`http` or `https`."""
    return urlsplit(address).scheme.lower()
