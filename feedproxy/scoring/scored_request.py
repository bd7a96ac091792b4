"""The input of scoring: one request of a reader for a feed, with its answer."""

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.feed import xml_redirect
from feedproxy.feed.channel import NO_HINTS, Schedule
from feedproxy.feed.parse import channel_parser as feeds
from feedproxy.feed.xml_redirect import Gone, Moved
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields

REDIRECTS = frozenset({301, 302, 303, 307, 308})
PERMANENT = frozenset({301, 308})
REFUSALS = frozenset({429, 503})


class PollContent(Struct, frozen=True):
    """The properties of an answer's content that the rules need."""

    is_feed: bool
    schedule: Schedule = NO_HINTS
    relocation: Moved | Gone | None = None


def read_content(body: bytes, content_type: str | None) -> PollContent:
    """Parse decoded content and return the properties that the rules need. Raises no exception."""
    if (relocation := xml_redirect.read(body)) is not None:
        return PollContent(is_feed=True, relocation=relocation)
    channel = feeds.read(body, content_type)
    return PollContent(is_feed=False) if channel is None else PollContent(is_feed=True, schedule=channel.schedule)


class Poll(Struct, frozen=True):
    """A request and its answer. `number` is the request's position in the recording, from 1. In live scores, it is
    unique among all workers."""

    number: int
    at: Instant
    target: str
    fields: Fields
    """The fields of the request, as the reader sent them."""
    status: int
    """Status of the answer, or 0 if the request was not answered."""
    answer: Fields
    """The fields of the answer."""
    content: PollContent | None = None
    """Properties of the answer's content, or None if there was no content or it is unknown."""
    method: str = "GET"
    version: str = "HTTP/1.1"
    connection: str = ""
    """An identifier of the connection, or "" if unknown."""
    size: int = 0
    """Size of the answer's content, in bytes."""
    complete: bool = True
    """False if the answer was truncated or could not be decoded."""
    entrance: str = ""
    """The entrance of the request: gateway, proxy, reverse or origin, or "" if unknown."""
    public: str = ""
    """The address that the reader requested if it differs from the target, otherwise ""."""

    @property
    def is_success(self) -> bool:
        """Return True if the answer gave the reader the feed, or confirmed its copy."""
        return self.status in (200, 226, 304) and self.complete and (self.content is None or self.content.is_feed)

    @property
    def is_conditional(self) -> bool:
        """Return True if the request has If-None-Match or If-Modified-Since."""
        return "if-none-match" in self.fields or "if-modified-since" in self.fields

    def seconds_until(self, name: str) -> Seconds | None:
        """Return the seconds from the answer's Date to the date in its field `name`, or None if the field has no valid
        date. Without a Date, the time of the request counts."""
        end = parse_http_date(self.answer.get(name) or "", self.at)
        if end is None:
            return None
        return end - (parse_http_date(self.answer.get("date") or "", self.at) or self.at)


def cached_content(schedule: Schedule | None, status: int) -> PollContent | None:
    """Return the properties of the content that the proxy answered with, for a feed with this schedule.

    Return None if `schedule` is None: the target is not a feed. Return None, too, if the answer neither has nor
    confirms the feed's content.
    """
    return PollContent(is_feed=True, schedule=schedule) if schedule is not None and status in (200, 226, 304) else None
