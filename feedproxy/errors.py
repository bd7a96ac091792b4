"""The exceptions of feedproxy. Decisions and broken feeds are values, never exceptions.

Each error names its subject, suggests the status of the response (`status_hint`), and has the `detail` token that
Cache-Status, log and metrics use.
"""


class FeedproxyError(Exception):
    """The base class of errors with which feedproxy refuses a request, or says that it cannot carry out the request."""

    status_hint = 500
    detail = "internal-error"

    def as_value(self) -> "FeedproxyError":
        """Return this error without its causes and tracebacks.

        A traceback would refer to the task that has the error as its result. The task would then refer to itself, and
        only a garbage collection would free it.
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class UsageError(FeedproxyError):
    """The command line or the configuration is wrong. The message is one line, and the exit code is 2."""

    detail = "usage"


class CannotListen(FeedproxyError):
    """An address cannot be listened on, as when another process uses it. The message is one line, and the exit code
    is 1."""

    detail = "cannot-listen"


class BadTarget(FeedproxyError):
    """The target URI cannot be fetched (RFC 9110, section 4.2)."""

    status_hint = 400
    detail = "bad-target"


class BadRequest(FeedproxyError):
    """The request's head is invalid. The status is 400, 501 for a method or transfer coding that feedproxy does not
    implement, or 505 for another version of HTTP.
    """

    status_hint = 400
    detail = "bad-request"

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status_hint = status


class NotFound(FeedproxyError):
    """No endpoint or document has this path."""

    status_hint = 404
    detail = "not-found"


class Forbidden(FeedproxyError):
    """The address or port may not be reached through this proxy."""

    status_hint = 403
    detail = "forbidden-address"


class WrongHost(FeedproxyError):
    """The request names a host at which this proxy does not answer, or for which its connection is not meant (RFC 9110,
    section 15.5.20).
    """

    status_hint = 421
    detail = "wrong-host"


class AccessDenied(FeedproxyError):
    """Access is denied: 401 or 407 without credentials, 403 without permission, 429 after failed attempts."""

    detail = "access"

    def __init__(self, message: str, status: int, fields: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.status_hint = status
        self.fields = fields
        """Fields of the response: challenges (WWW-Authenticate or Proxy-Authenticate), or Retry-After."""


class LoopDetected(FeedproxyError):
    """The request has already passed this proxy (RFC 9110, section 7.6.3)."""

    status_hint = 508
    detail = "loop"


class Overload(FeedproxyError):
    """This machine lacks descriptors, memory, capacity or network. The origin is not the cause."""

    status_hint = 503
    detail = "overload"


class ParentFailed(Overload):
    """The parent proxy (`upstream_proxy`) cannot be reached or used. The origin is not the cause."""

    detail = "parent-proxy"


class FetchError(FeedproxyError):
    """The origin sent no usable response."""

    status_hint = 502
    detail = "fetch-error"


class Unreachable(FetchError):
    """No connection was made: name resolution, address, TCP or TLS failed."""

    detail = "unreachable"


class ParentRefused(Unreachable):
    """The parent proxy (`upstream_proxy`) does not connect to this origin."""

    detail = "parent-proxy"


class FetchTimeout(FetchError):
    """A phase of the exchange took longer than its deadline."""

    status_hint = 504
    detail = "timeout"


class MalformedResponse(FetchError):
    """The response is not a complete HTTP message (RFC 9112, section 8)."""

    detail = "broken-message"


class TooLarge(FeedproxyError):
    """Content exceeds its limit, as received or after decoding."""

    status_hint = 502
    detail = "too-large"


class Undecodable(FeedproxyError):
    """The content cannot be decoded as its Content-Encoding says (RFC 9110, section 8.4)."""

    status_hint = 502
    detail = "undecodable"


class NotAFeed(FeedproxyError):
    """The document to convert is not a feed."""

    status_hint = 406
    detail = "not-a-feed"


class StoreError(FeedproxyError):
    """The store failed. The failure counts as a miss and in a metric. Clients get no error for it."""

    detail = "store-error"
