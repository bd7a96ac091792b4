"""The exceptions of feedproxy. Decisions and broken feeds are values, never exceptions.

Each error names its subject. `status_hint` suggests the status of the response. `detail` is a token for Cache-Status,
log and metrics. upstream/upstream_errors.py has the failures of requests to origins.
"""


class FeedproxyError(Exception):
    """The base class of feedproxy's errors. A subclass gives its status and detail, or inherits them."""

    status_hint = 500
    detail = "internal-error"
    fields: tuple[tuple[str, str], ...] = ()
    """Further fields of the response, such as a challenge or Retry-After."""

    def __init_subclass__(cls, *, status: int | None = None, detail: str | None = None) -> None:
        cls.status_hint = cls.status_hint if status is None else status
        cls.detail = cls.detail if detail is None else detail

    def as_value(self) -> "FeedproxyError":
        """Return this error without its causes and tracebacks. A traceback refers to the task that has the error as its
        result, and only a garbage collection would free this cycle."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class UsageError(FeedproxyError, detail="usage"):
    """Error for a wrong command line or configuration. The message is one line, and the exit code is 2."""


class CannotListen(FeedproxyError, detail="cannot-listen"):
    """Error for an address that cannot be listened on. The message is one line, and the exit code is 1."""


class BadTarget(FeedproxyError, status=400, detail="bad-target"):
    """Error for a target URI that cannot be fetched (RFC 9110, section 4.2)."""


class BadRequest(FeedproxyError, status=400, detail="bad-request"):
    """Error for an invalid request head. The status is 414 for a long target, 431 for too many fields, 501 for an
    unknown method or transfer coding, 505 for another version of HTTP, and otherwise 400."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status_hint = status


class NotFound(FeedproxyError, status=404, detail="not-found"):
    """Error for a path at which there is neither an endpoint nor a document, and for a source that has no feed."""


class MethodNotAllowed(FeedproxyError, status=405, detail="method"):
    """Error for a method that is not allowed for a target. `allowed` contains the methods for the field Allow."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.fields = (("Allow", ", ".join(allowed)),)


class ContentTooLarge(FeedproxyError, status=413, detail="content-too-large"):
    """Error for a request with more content than its endpoint accepts."""


class ContentBudgetExceeded(FeedproxyError, status=503, detail="busy"):
    """Error for a request with content, if too little memory is free for the content
    (server/mitm/content_budget.py)."""

    fields = (("Retry-After", "60"),)


class Forbidden(FeedproxyError, status=403, detail="forbidden-address"):
    """Error for an address or port that must not be reached through this proxy."""


class WrongHost(FeedproxyError, status=421, detail="wrong-host"):
    """Error for a host at which this proxy does not answer, or for which this connection must not be used (RFC 9110,
    section 15.5.20)."""


class AccessDenied(FeedproxyError, detail="access"):
    """Error for denied access: 401 or 407 without credentials, 403 without permission, 429 after failed attempts."""

    def __init__(self, message: str, status: int, fields: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.status_hint = status
        self.fields = fields


class LoopDetected(FeedproxyError, status=508, detail="loop"):
    """Error for a request that has already passed this proxy (RFC 9110, section 7.6.3)."""


class Overload(FeedproxyError, status=503, detail="overload"):
    """Error for a lack of descriptors, memory or capacity on this machine. The origin is not at fault."""

    fields = (("Retry-After", "10"),)


class TooLarge(FeedproxyError, status=502, detail="too-large"):
    """Error for content that is too large, as received or after decoding."""


class Undecodable(FeedproxyError, status=502, detail="undecodable"):
    """Error for content that cannot be decoded by its Content-Encoding (RFC 9110, section 8.4)."""


class NotAFeed(FeedproxyError, status=406, detail="not-a-feed"):
    """Error for a document that cannot be converted, because it is not a feed."""


class InvalidFeedList(FeedproxyError, status=400, detail="bad-list"):
    """Error for a subscription list that is not OPML or cannot be imported whole."""


class StoreError(FeedproxyError, detail="store-error"):
    """Error for a failure of the store. The failure counts as a miss, and clients get no error."""
