"""The exceptions of feedproxy. Decisions and broken feeds are values, never exceptions.

Each error names its subject. `status_hint` suggests the status of the response. `detail` is a token for Cache-Status,
log and metrics. upstream/upstream_errors.py has the failures of requests to origins.
"""


class FeedproxyError(Exception):
    """The base class of feedproxy's errors."""

    status_hint = 500
    detail = "internal-error"
    fields: tuple[tuple[str, str], ...] = ()
    """Further fields of the response, such as a challenge or Retry-After."""

    def as_value(self) -> "FeedproxyError":
        """Return this error without its causes and tracebacks.

        A traceback refers to the task that has the error as its result. Only a garbage collection would free this
        cycle.
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class UsageError(FeedproxyError):
    """Error for a wrong command line or configuration. The message is one line, and the exit code is 2."""

    detail = "usage"


class CannotListen(FeedproxyError):
    """Error for an address that cannot be listened on. The message is one line, and the exit code is 1."""

    detail = "cannot-listen"


class BadTarget(FeedproxyError):
    """Error for a target URI that cannot be fetched (RFC 9110, section 4.2)."""

    status_hint = 400
    detail = "bad-target"


class BadRequest(FeedproxyError):
    """Error for an invalid request head.

    The status is 414 for a long target, 431 for too many fields, 501 for an unknown method or transfer coding, 505 for
    another version of HTTP, and otherwise 400.
    """

    status_hint = 400
    detail = "bad-request"

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status_hint = status


class NotFound(FeedproxyError):
    """Error for a path without an endpoint or document, and for a source without a feed."""

    status_hint = 404
    detail = "not-found"


class MethodNotAllowed(FeedproxyError):
    """Error for a method that is not allowed for a target. `allowed` contains the methods for the field Allow."""

    status_hint = 405
    detail = "method"

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.fields = (("Allow", ", ".join(allowed)),)


class ContentTooLarge(FeedproxyError):
    """Error for a request with more content than its endpoint accepts."""

    status_hint = 413
    detail = "content-too-large"


class ContentBudgetExceeded(FeedproxyError):
    """Error for a request with content, if too little memory is free for the content
    (server/mitm/content_budget.py)."""

    status_hint = 503
    detail = "busy"
    fields = (("Retry-After", "60"),)


class Forbidden(FeedproxyError):
    """Error for an address or port that may not be reached through this proxy."""

    status_hint = 403
    detail = "forbidden-address"


class WrongHost(FeedproxyError):
    """Error for a host at which this proxy does not answer, or for which this connection must not be used (RFC 9110,
    section 15.5.20)."""

    status_hint = 421
    detail = "wrong-host"


class AccessDenied(FeedproxyError):
    """Error for denied access: 401 or 407 without credentials, 403 without permission, 429 after failed attempts."""

    detail = "access"

    def __init__(self, message: str, status: int, fields: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.status_hint = status
        self.fields = fields


class LoopDetected(FeedproxyError):
    """Error for a request that has already passed this proxy (RFC 9110, section 7.6.3)."""

    status_hint = 508
    detail = "loop"


class Overload(FeedproxyError):
    """Error for a lack of descriptors, memory or capacity on this machine. The origin is not at fault."""

    status_hint = 503
    detail = "overload"
    fields = (("Retry-After", "10"),)


class TooLarge(FeedproxyError):
    """Error for content that is too large, as received or after decoding."""

    status_hint = 502
    detail = "too-large"


class Undecodable(FeedproxyError):
    """Error for content that cannot be decoded by its Content-Encoding (RFC 9110, section 8.4)."""

    status_hint = 502
    detail = "undecodable"


class NotAFeed(FeedproxyError):
    """Error for a document that cannot be converted, because it is not a feed."""

    status_hint = 406
    detail = "not-a-feed"


class InvalidFeedList(FeedproxyError):
    """Error for a subscription list that is not OPML or cannot be imported whole."""

    status_hint = 400
    detail = "bad-list"


class StoreError(FeedproxyError):
    """Error for a failure of the store. The failure counts as a miss, and clients get no error."""

    detail = "store-error"
