"""The field Cache-Status: how a request was handled, in the terms of RFC 9211.

The log, the metrics and the status page use the same tokens. docs/reference/cache-status.md explains the details.
"""

from enum import StrEnum
from typing import Self

from msgspec import Struct

from feedproxy.http.message import Fields


class Fwd(StrEnum):
    """The reason why a request was forwarded to the origin (RFC 9211, section 2.2)."""

    BYPASS = "bypass"  # the cache was configured not to handle the request
    METHOD = "method"  # the method must be forwarded
    URI_MISS = "uri-miss"  # nothing is stored for the target URI
    VARY_MISS = "vary-miss"  # responses are stored for the target URI, but the request fields select none of them
    MISS = "miss"  # the cache cannot tell whether it is uri-miss or vary-miss
    REQUEST = "request"  # a fresh response is stored, but the request does not accept it
    STALE = "stale"  # the selected response may not be used without validation
    PARTIAL = "partial"  # only a part of the requested content is stored


class Detail(StrEnum):
    """A detail of Cache-Status: a token for programs, and `sentence`, an explanation for people."""

    sentence: str

    def __new__(cls, token: str, sentence: str) -> Self:
        member = str.__new__(cls, token)
        member._value_ = token
        member.sentence = sentence
        return member

    @classmethod
    def of(cls, token: str) -> "Detail | None":
        """Return the detail with this token, or None if the token is unknown."""
        return _DETAILS.get(token)

    # -- the freshness lifetime of HTTP has ended, but the feed's own schedule names a later time
    TTL_HINT = "ttl-hint", "The feed's ttl has not passed yet."
    SY_HINT = "sy-hint", "The feed's sy:updatePeriod and sy:updateFrequency expect the next update later."
    CDF_HINT = "cdf-hint", "The channel's SCHEDULE (CDF) expects the next update later."
    FINISHED = "finished", "The feed states that it is finished (expired, itunes:complete)."
    SKIP_HOURS = "skip-hours", "The feed's skipHours ask clients to skip this hour."
    SKIP_DAYS = "skip-days", "The feed's skipDays ask clients to skip this day."
    PUSH = "push", "Changes of the feed are pushed to this proxy."

    # -- HTTP permits the stale response
    STALE_IF_ERROR = (
        "stale-if-error",
        "The origin failed; its last good response may be used instead (RFC 5861).",
    )
    STALE_WHILE_REVALIDATE = (
        "stale-while-revalidate",
        "The stale copy is served while a new one is fetched (RFC 5861).",
    )
    MAX_STALE = "max-stale", "The client accepts a copy of this age (request directive max-stale)."

    # -- no request is sent to the origin now
    PAUSED = "paused", "The operator has paused this feed: the stored copy is served."
    FLOOR = "floor", "The feed was fetched less than feed_min_interval ago."
    SITE_INTERVAL = "site-interval", "Another feed of the same site was fetched less than site_interval ago."
    RETRY_AFTER = (
        "retry-after",
        "The origin asked for a pause (Retry-After, x-ratelimit-reset).",
    )
    BACK_OFF = "back-off", "The last fetches failed, and the next one is not due yet."

    # -- the origin sent no complete response
    UNREACHABLE = "unreachable", "Cannot connect to the origin (DNS, connection or TLS failed)."
    PARENT_PROXY = "parent-proxy", "The parent proxy (upstream_proxy) cannot be reached or refuses the connection."
    TIMEOUT = "timeout", "The origin did not respond in time."
    BROKEN_MESSAGE = "broken-message", "The origin sent an incomplete or invalid HTTP message."
    FETCH_ERROR = (
        "fetch-error",
        "The fetch failed for another reason. For example, its credential was removed from the `wallet`.",
    )

    # -- the copy is better than the origin's response
    TOO_LARGE = (
        "too-large",
        "The response is larger than buffer_max, or its decoded content is larger than five times buffer_max.",
    )
    UNDECODABLE = "undecodable", "The content does not match its Content-Encoding."
    ILL_FORMED = (
        "ill-formed",
        "The response is not a well-formed feed: the previous copy is served, or the feed is fetched again soon.",
    )
    CHALLENGE = "challenge", "The response is a test for people, not a feed."
    HTML_WHERE_FEED = "html-where-feed", "The response is a web page, not a feed."
    EMPTY = "empty", "The response has no content."
    TRUNCATED = "truncated", "The feed is truncated."
    ERROR_STATUS = "error-status", "The origin answered with a server error (5xx)."
    RATE_LIMITED = "rate-limited", "The origin answered 429 (too many requests)."
    REFUSED = "refused", "The origin now refuses the request (4xx)."
    NEW_SHAPE = "new-shape", "The feed has changed its format or lost most items; feedproxy waits for confirmation."

    # -- moves and endings
    MOVED = "moved", "The feed has a new address."
    GONE = "gone", "The feed has ended."
    REDIRECT_LOOP = "redirect-loop", "The origin's redirects form a loop, or there are too many of them."

    # -- responses of the proxy itself
    FORBIDDEN_ADDRESS = (
        "forbidden-address",
        "The proxy may not connect to this address or port (allow_networks, allow_ports).",
    )
    ACCESS = "access", "Only certain users may have the feed (`readers`)."
    AUTHENTICATION = (
        "authentication",
        "The origin accepts only Digest, NTLM or Negotiate, which cannot work through the gateway.",
    )
    LOOP = "loop", "The request has passed this proxy before."
    BAD_TARGET = "bad-target", "The target is not a URL that can be fetched."
    BAD_REQUEST = "bad-request", "The request is not a valid HTTP message."
    WRONG_HOST = (
        "wrong-host",
        "The proxy does not answer at this host name (gateway_hosts), or the connection is for another host.",
    )
    NOT_FOUND = "not-found", "The proxy has no resource at this path."
    METHOD = "method", "The method is not allowed for this resource."
    CONTENT_TOO_LARGE = "content-too-large", "The request has more content than the endpoint accepts."
    NOT_A_FEED = "not-a-feed", "The target is not a feed, so it cannot be converted."
    ONLY_IF_CACHED = (
        "only-if-cached",
        "The request accepts only a stored response (only-if-cached), and none is usable.",
    )
    PASS_THROUGH = "pass-through", "The request was forwarded unchanged."
    OVERSIZED = "oversized", "The content is larger than buffer_max and is streamed to the client."
    INVALIDATED = "invalidated", "The copy was purged or invalidated, and must be validated first."
    STORE_ERROR = "store-error", "The store failed; the request was handled without it."
    INTERNAL_ERROR = "internal-error", "feedproxy itself failed; see the log."
    DRAIN = "drain", "The proxy is shutting down."
    TOO_OFTEN = "too-often", "Too many requests from this client address."
    FULL = "full", "The maximum number of subscriptions is reached."
    BAD_LIST = "bad-list", "The content is not a readable subscription list (OPML)."
    RECORDING = "recording", "The recording cannot be written."
    OVERLOAD = (
        "overload",
        "feedproxy has no connection, file descriptor or memory available; the origin is not at fault.",
    )
    NO_NETWORK = "no-network", "This machine can reach no origin and no name server; the origin is not at fault."
    BUSY = "busy", "Too many requests are under way; try again later."
    WEBSUB = "websub", "The request to the hub is invalid; the response text gives the reason."
    BAD_STEP = "bad-step", "Invalid step for the clock of a replay."


_DETAILS = {str(detail): detail for detail in Detail}


class CacheStatus(Struct, frozen=True):
    """This proxy's member of Cache-Status.

    The attributes are the parameters of RFC 9211. `ttl` is the remaining lifetime in whole seconds, negative if the
    response is stale. `detail` is the token of a Detail, or None.
    """

    hit: bool = False
    fwd: Fwd | None = None
    fwd_status: int | None = None
    stored: bool = False
    collapsed: bool = False
    ttl: int | None = None
    detail: str | None = None

    def __post_init__(self) -> None:
        # RFC 9211, section 2: hit and fwd are exclusive, only one of them appears on each member.
        if self.hit and self.fwd is not None:
            raise ValueError("invalid Cache-Status: expected hit or fwd, not both")
        # Sections 2.3, 2.5 and 2.6: these parameters describe a forwarded request and its response.
        if self.fwd is None and (self.fwd_status is not None or self.stored or self.collapsed):
            raise ValueError("invalid Cache-Status: fwd-status, stored and collapsed need fwd")

    def text(self) -> str:
        """Return the member as written in the field."""
        parameters = (
            ("hit", self.hit),
            ("fwd", self.fwd),
            ("fwd-status", self.fwd_status),
            ("stored", self.stored),
            ("collapsed", self.collapsed),
            ("ttl", self.ttl),
            ("detail", self.detail),
        )
        present = [(name, value) for name, value in parameters if value is not None and value is not False]
        return "; ".join(["feedproxy", *(name if value is True else f"{name}={value}" for name, value in present)])


def append(fields: Fields, status: CacheStatus) -> Fields:
    """Return the fields with this proxy's member of Cache-Status appended (RFC 9211, section 2).

    The member has its own field line, so that malformed members of other caches do not affect it.
    """
    # "The first member represents the cache closest to the origin server, and the last member represents
    # the cache closest to the user."
    return fields.with_added("Cache-Status", status.text())
