"""What should not be. Decisions and broken feeds are values; these are failures.

Each error says its subject and suggests the status a reader should see, so that an addon can answer
without guessing, and the `detail` token that Cache-Status, log and metrics use for it.
"""


class FeedproxyError(Exception):
    """Anything feedproxy itself refuses or fails at."""

    status_hint = 500
    detail = "internal-error"


class UsageError(FeedproxyError):
    """The command line or the configuration is wrong. One clear line; exit code 2."""

    detail = "usage"


class BadTarget(FeedproxyError):
    """The target URI is none that can be fetched (RFC 9110, section 4.2)."""

    status_hint = 400
    detail = "bad-target"


class BadRequest(FeedproxyError):
    """The request's head breaks HTTP's grammar: 400, 501 for what is not implemented, 505 for another version."""

    status_hint = 400
    detail = "bad-request"

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status_hint = status


class NotFound(FeedproxyError):
    """Nothing is found under that path of ours."""

    status_hint = 404
    detail = "not-found"


class Forbidden(FeedproxyError):
    """The address or port may not be reached through this proxy."""

    status_hint = 403
    detail = "forbidden-address"


class AccessDenied(FeedproxyError):
    """This reader may not have it, or has to say who he is: 401, 403, 407, or 429 for one who guesses."""

    detail = "access"

    def __init__(self, message: str, status: int, fields: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.status_hint = status
        self.fields = fields
        """The challenges, or when to come back."""


class LoopDetected(FeedproxyError):
    """The request has passed this proxy already (RFC 9110, section 7.6.3)."""

    status_hint = 508
    detail = "loop"


class Overload(FeedproxyError):
    """feedproxy itself has no place, descriptor, memory or network for it now: the origin is not at fault."""

    status_hint = 503
    detail = "overload"


class ParentFailed(Overload):
    """The parent proxy (`upstream_proxy`) cannot be reached or used: the origin is not at fault."""

    detail = "parent-proxy"


class FetchError(FeedproxyError):
    """The origin gave no usable answer."""

    status_hint = 502
    detail = "fetch-error"


class Unreachable(FetchError):
    """No connection: name, address, TLS."""

    detail = "unreachable"


class ParentRefused(Unreachable):
    """The parent proxy (`upstream_proxy`) does not connect to this origin."""

    detail = "parent-proxy"


class FetchTimeout(FetchError):
    """A phase of the exchange took longer than its deadline."""

    status_hint = 504
    detail = "timeout"


class MalformedResponse(FetchError):
    """What came was no complete HTTP message (RFC 9112, section 8)."""

    detail = "broken-message"


class TooLarge(FeedproxyError):
    """More bytes than the cap allows: on the wire, or after decoding."""

    status_hint = 502
    detail = "too-large"


class Undecodable(FeedproxyError):
    """The content is not what its Content-Encoding says (RFC 9110, section 8.4)."""

    status_hint = 502
    detail = "undecodable"


class NotAFeed(FeedproxyError):
    """What was to be converted is no feed."""

    status_hint = 406
    detail = "not-a-feed"


class StoreError(FeedproxyError):
    """The store failed: a miss and a metric, never an answer to a reader."""

    detail = "store-error"
