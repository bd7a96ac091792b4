"""Observations of a feed: the requests of a check and the responses to them."""

from urllib.parse import urlsplit

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.http.message import NO_FIELDS, Fields
from feedproxy.upstream.tls_probe import ProbedCertificate


class ProbeExchange(Struct, frozen=True):
    """A request and its response. If there was no response, `status` is 0 and `error` is the reason."""

    target: str
    """Target URI of the request."""
    status: int = 0
    fields: Fields = NO_FIELDS
    """Fields of the response, without hop-by-hop fields."""
    has_length: bool = False
    """True if the response has Content-Length or Transfer-Encoding."""
    framing_anomaly: str = ""
    """Reason why the framing of the response is ambiguous, or "" if it is unambiguous."""
    body: bytes = b""
    """Content of the response as received, before decoding."""
    content: bytes | None = None
    """Decoded content of the response, or None if it cannot be decoded."""
    error: str = ""
    detail: str = ""
    """Name of the error as in Cache-Status, such as `too-large`, or "" if there was no error."""
    minor: int = 1
    """Minor version of HTTP/1.x in the response."""
    at: Instant = 0.0
    """Time of the response."""
    seconds: Seconds = 0.0
    """Duration of the exchange, in seconds."""

    @property
    def coding(self) -> str:
        """Return the content codings of the response in lower case, or "" if there are none."""
        coding = (self.fields.combined("content-encoding") or "").strip().lower()
        return "" if coding == "identity" else coding


class FeedObservations(Struct, frozen=True):
    """All exchanges of the check of one feed. An exchange is None if its request was impossible or unnecessary."""

    address: str
    """The address to check, normalised."""
    hops: tuple[ProbeExchange, ...]
    """The exchange with `address`, and those with the targets of its redirects. The feed is expected in the last."""
    redirect_error: str = ""
    """Reason why the last redirect could not be followed, or "" if all redirects were followed."""
    plain: ProbeExchange | None = None
    """Request for the feed, accepting no content coding."""
    head: ProbeExchange | None = None
    by_tag: ProbeExchange | None = None
    """Request for the feed with If-None-Match as the only condition."""
    by_date: ProbeExchange | None = None
    """Request for the feed with If-Modified-Since as the only condition."""
    repeat: ProbeExchange | None = None
    """The first request for the feed, repeated at least a second later."""
    by_https: ProbeExchange | None = None
    """Request for the feed by https, if its address has the scheme http."""
    self_link: ProbeExchange | None = None
    """Request for the self link, if it differs from the feed's address."""
    page: ProbeExchange | None = None
    hub: ProbeExchange | None = None
    """Request to the first hub of the feed, with its response. None if no request was sent."""
    cloud: ProbeExchange | None = None
    handshake: ProbedCertificate | None = None
    requests: int = 0
    """Number of requests sent, including those after redirects."""

    @property
    def last(self) -> ProbeExchange:
        """Return the exchange with the response in which the feed is expected."""
        return self.hops[-1]

    @property
    def target(self) -> str:
        """Return the address of the feed after all redirects."""
        return self.last.target


def scheme_of(address: str) -> str:
    """Return the scheme of an address, in lower case."""
    return urlsplit(address).scheme.lower()
