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
    """A request and its answer. Without an answer `status` is 0 and `error` gives the reason."""

    request: Request
    status: int = 0
    fields: Fields = field(default_factory=Fields)
    """The answer's fields, without those of the connection."""
    framing: Fields = field(default_factory=Fields)
    """Content-Length and Transfer-Encoding, as they were parsed."""
    framing_anomaly: str = ""
    """Why the framing of the answer is ambiguous; empty if it is not."""
    body: bytes = b""
    """The content as received."""
    content: bytes | None = None
    """The decoded content; None if it cannot be decoded."""
    error: str = ""
    detail: str = ""
    """The token of the error (errors.py), or `too-large`."""
    minor: int = 1
    """The minor version of HTTP/1.x."""
    at: Instant = 0.0
    """The time of the answer."""
    seconds: Seconds = 0.0
    """The duration of the request."""

    @property
    def target(self) -> str:
        """Return the target of the request."""
        return self.request.target

    @property
    def coding(self) -> str:
        """The answer's content codings in lower case; empty for none."""
        coding = (self.fields.combined("content-encoding") or "").strip().lower()
        return "" if coding == "identity" else coding


@dataclass(frozen=True, slots=True)
class FeedObservations:
    """All exchanges of the check of one feed; None for requests that were impossible or unnecessary."""

    address: str
    """The address to check, normalised."""
    hops: tuple[Exchange, ...]
    """The exchanges from the address along redirects; the last answer should be the feed, possibly coded."""
    redirect_error: str = ""
    """Why redirects were not followed to the end."""
    plain: Exchange | None = None
    """The feed requested without a coding."""
    head: Exchange | None = None
    by_tag: Exchange | None = None
    """The feed requested with If-None-Match alone."""
    by_date: Exchange | None = None
    """The feed requested with If-Modified-Since alone."""
    repeat: Exchange | None = None
    """The first request repeated, at least PAUSE later."""
    by_https: Exchange | None = None
    """The feed requested by https, if its address is http."""
    self_link: Exchange | None = None
    """The exchange at the self link, if it is another address."""
    page: Exchange | None = None
    hubs: tuple[Exchange, ...] = ()
    cloud: Exchange | None = None
    handshake: ProbedCertificate | None = None

    @property
    def last(self) -> Exchange:
        """The last exchange, with the feed as its answer."""
        return self.hops[-1]

    @property
    def target(self) -> str:
        """The target of the feed, after redirects."""
        return self.last.target

    @property
    def requests(self) -> int:
        """The number of requests."""
        optional = (
            self.plain,
            self.head,
            self.by_tag,
            self.by_date,
            self.repeat,
            self.by_https,
            self.self_link,
            self.page,
        )
        return len(self.hops) + len(self.hubs) + sum(exchange is not None for exchange in (*optional, self.cloud))


def is_local(address: str) -> bool:
    """Return True for addresses of this machine or a local network; names other than localhost are not resolved."""
    host, _ = uri.host_port(address)
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".test", ".internal", ".local"))


def scheme_of(address: str) -> str:
    """Return the scheme of an address, in lower case."""
    return urlsplit(address).scheme.lower()
