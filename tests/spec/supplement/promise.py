"""The parts of a promise (steps, a request and an expectation), all of them data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from feedproxy.errors import FeedproxyError
from feedproxy.request.context import Entrance

FEED = "/feed.rss"
START = "2026-11-20T12:00:00"
"""A Friday."""

RFC_3229 = "RFC 3229, 10.5.3"
RFC_3229_FIELDS = "RFC 3229, 10.4.1"
RFC_3229_CACHES = "RFC 3229, 10.8.2"
RFC_5861_MEANWHILE = "RFC 5861, 3"
RFC_5861_ERROR = "RFC 5861, 4"
RFC_9110_CODING = "RFC 9110, 12.5.3"
RFC_9110_LOOP = "RFC 9110, 7.6.3"
RFC_9110_PAUSE = "RFC 9110, 10.2.3"
RFC_9110_TAGS = "RFC 9110, 13.1.2"
RFC_9111_AGE = "RFC 9111, 4.2.4"
RFC_9111_REQUEST = "RFC 9111, 5.2.1"
RFC_9211 = "RFC 9211, 2"
TTL = "RSS Feed State, TTL"
SKIP_HOURS = "RSS Feed State, skipHours"
SKIP_DAYS = "RSS Feed State, skipDays"
SYNDICATION = "RSS Feed State, syndication module"
REDIRECT = "RSS Feed State, Redirect"
GONE = "RSS Feed State, Gone"
COUNTS = "feedproxy, subscribers"
MOVES = "feedproxy, moves and endings"
BAD_UPDATES = "feedproxy, bad updates"
HINTS = "feedproxy, hints"
TAGS = "feedproxy, tags"
DELTAS = "feedproxy, deltas"
LIMITS = "feedproxy, limits"
PEACE = "feedproxy, politeness to origins"


@dataclass(frozen=True, slots=True)
class Publish:
    """The origin publishes this content at a path."""

    body: bytes
    fields: Mapping[str, str] = field(default_factory=dict)
    path: str = FEED
    status: int = 200
    validators: bool = True


type Answer = tuple[int, bytes, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Break:
    """The origin answers all later requests with a status, a response or an error. None ends the failure."""

    how: int | FeedproxyError | Answer | None


@dataclass(frozen=True, slots=True)
class At:
    """The clock is set to `offset` seconds after this moment (GMT, ISO 8601)."""

    moment: str
    offset: float = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """The clock advances by a number of seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Rule:
    """The operator adds a rule for the feed."""

    overrides: Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Invalidate:
    """A successful POST to the feed's address invalidates the copy."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A reader's request. `{name}` in a field or path stands for the tag remembered under that name, without quotes."""

    fields: Mapping[str, str] = field(default_factory=dict)
    path: str = FEED
    method: str = "GET"
    entrance: Entrance = Entrance.GATEWAY
    address: str = "192.0.2.1"
    remember: str = ""
    """Name under which the response's tag is remembered, or empty."""
    times: int = 1
    """Number of concurrent requests. The expectation applies to the response of the last one."""


type Step = Publish | Break | At | Wait | Rule | Invalidate | Ask


@dataclass(frozen=True, slots=True)
class Situation:
    """The state before the request: settings, the instant of the start, and steps."""

    steps: tuple[Step, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    start: str = START


@dataclass(frozen=True, slots=True)
class Expect:
    """The expected properties of the response, and of the requests that the origin received."""

    status: int = 200
    cache: str | None = None
    """The parameters of feedproxy's member of Cache-Status, complete, or None if they are not tested."""
    says: tuple[str, ...] = ()
    """Texts that feedproxy's member of Cache-Status contains."""
    fields: Mapping[str, str | None] = field(default_factory=dict)
    """Fields with their values. None means that the field is absent."""
    has: tuple[bytes, ...] = ()
    """Bytes that the decoded content contains."""
    lacks: tuple[bytes, ...] = ()
    asked: int | None = None
    """Number of requests that the act causes at the origin, or None if it is not tested."""
    told: str | None = None
    """A pattern for the User-Agent in the last request that the origin received, or None if it is not tested."""
    unheard: tuple[str, ...] = ()
    """Names of fields that the origin did not receive."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A sentence (`name`), its source, and a test of it. Rows with one name differ in `case`."""

    name: str
    source: str
    situation: Situation
    act: Ask
    expectation: Expect
    case: str = ""
    broken: str = ""
    """The reason why feedproxy does not keep the promise yet, or empty."""
