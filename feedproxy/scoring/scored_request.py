"""What a judgement rests on: one request of a reader for a feed, its answer, and what that told the reader."""

from dataclasses import dataclass, field

from feedproxy.clock import Instant, Seconds
from feedproxy.feed import xml_redirect
from feedproxy.feed.channel import Schedule
from feedproxy.feed.parse import parser as feeds
from feedproxy.feed.xml_redirect import Gone, Moved
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields

REDIRECTS = frozenset({301, 302, 303, 307, 308})
PERMANENT = frozenset({301, 308})
REFUSALS = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Content:
    """What the content of an answer says."""

    is_feed: bool
    schedule: Schedule = field(default_factory=Schedule)
    relocation: Moved | Gone | None = None


def read_content(body: bytes, content_type: str | None) -> Content:
    """What a decoded body says; never raises."""
    if (found := xml_redirect.read(body)) is not None:
        return Content(is_feed=True, relocation=found)
    channel = feeds.read(body, content_type)
    return Content(is_feed=False) if channel is None else Content(is_feed=True, schedule=channel.schedule)


@dataclass(frozen=True, slots=True)
class Poll:
    """A request and its answer; `number` is its place in the recording, from 1."""

    number: int
    at: Instant
    target: str
    fields: Fields
    """The request's, as they were sent."""
    status: int
    """0 where no answer came."""
    answer: Fields
    """The answer's fields."""
    content: Content | None = None
    """None where there was none, or it is not known."""
    method: str = "GET"
    version: str = "HTTP/1.1"
    connection: str = ""
    """The same for requests on one connection; empty where that is not known."""
    size: int = 0
    """Bytes of the answer's body."""
    whole: bool = True
    """False where the answer broke off, or could not be decoded."""
    entrance: str = ""
    """How it came in: gateway, proxy, reverse, origin; empty where that is not known."""
    public: str = ""
    """The target as the reader knows it, where that is another address."""

    @property
    def succeeded(self) -> bool:
        """Whether it told the reader how the feed stands."""
        return self.status in (200, 226, 304) and self.whole and (self.content is None or self.content.is_feed)

    @property
    def is_conditional(self) -> bool:
        """Whether it asked only for what has changed."""
        return "if-none-match" in self.fields or "if-modified-since" in self.fields

    def seconds_until(self, name: str) -> Seconds | None:
        """From the answer's Date to the date in another of its fields; None where there is no such date."""
        found = parse_http_date(self.answer.get(name) or "", self.at)
        if found is None:
            return None
        return found - (parse_http_date(self.answer.get("date") or "", self.at) or self.at)
