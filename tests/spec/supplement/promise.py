"""What a promise is made of: steps before, a question, an expectation. All of it is data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from feedproxy.errors import FeedproxyError
from feedproxy.request.client_and_entrance import Entrance

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
    """The origin has this at a path from now on."""

    body: bytes
    fields: Mapping[str, str] = field(default_factory=dict)
    path: str = FEED
    status: int = 200
    validators: bool = True


type Answer = tuple[int, bytes, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Break:
    """From now on the origin answers everything so: a status alone, a whole answer, or an error; None: it is well."""

    how: int | FeedproxyError | Answer | None


@dataclass(frozen=True, slots=True)
class At:
    """It is this moment (GMT, ISO 8601), give or take some seconds."""

    moment: str
    offset: float = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """So many seconds pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Rule:
    """The operator has a rule for the feed."""

    overrides: Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Invalidate:
    """Somebody posts to the feed's address, which makes the copy invalid."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A reader asks. `{name}` in a field or a path stands for the tag remembered under that name, without quotes."""

    fields: Mapping[str, str] = field(default_factory=dict)
    path: str = FEED
    method: str = "GET"
    entrance: Entrance = Entrance.GATEWAY
    address: str = "192.0.2.1"
    remember: str = ""
    """The name under which the tag of the answer is remembered."""
    times: int = 1
    """How many ask at the same time; what is expected is what the last of them gets."""


type Step = Publish | Break | At | Wait | Rule | Invalidate | Ask


@dataclass(frozen=True, slots=True)
class Situation:
    """What was before: settings, the moment of the beginning, steps."""

    steps: tuple[Step, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    start: str = START


@dataclass(frozen=True, slots=True)
class Expect:
    """What holds of the answer."""

    status: int = 200
    cache: str | None = None
    """All of our member of Cache-Status, without our name."""
    says: tuple[str, ...] = ()
    """Words that our member has, among others."""
    fields: Mapping[str, str | None] = field(default_factory=dict)
    """Fields with these values; None: not there."""
    has: tuple[bytes, ...] = ()
    """What the content, decoded, has in it."""
    lacks: tuple[bytes, ...] = ()
    asked: int | None = None
    """How many requests the act cost the origin."""
    told: str | None = None
    """A pattern that matches the User-Agent which the origin heard last."""
    unheard: tuple[str, ...] = ()
    """Fields that the origin did not hear."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A sentence, the text that it is from, and how it is seen whether it is kept.

    Rows of one name are told apart by `case`.
    """

    name: str
    source: str
    situation: Situation
    act: Ask
    expectation: Expect
    case: str = ""
    broken: str = ""
    """Why it is not kept yet."""
