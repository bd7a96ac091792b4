"""The demo's readers: eight manners that are all met in the field, and when each of them polls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from random import Random

from feedproxy.clock import Instant, Seconds
from feedproxy.demo.counted_http import Received
from feedproxy.demo.publishers import START, Feed
from feedproxy.http.message import Fields

POLLS_MAX = 15_000
"""More than this is thinned out evenly: the demo is to end within a minute on a slow machine."""


class Hours(Enum):
    """When a reader is awake."""

    ALWAYS = "day and night"
    OFFICE = "from 8 to 17 GMT, Monday to Friday"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a reader reads."""

    name: str
    every: Seconds
    agent: str
    validators: bool = True
    gzip: bool = True
    no_cache: bool = False
    on_the_hour: bool = False
    hours: Hours = Hours.ALWAYS


MANNERS = (
    Manner("hourly, with validators", 3600, "Gazette/4.2"),
    Manner("in the office", 3600, "DeskReader/11.0 (Windows)", hours=Hours.OFFICE),
    Manner("every ten minutes", 600, "Eager/0.9"),
    Manner("from cron, on the hour", 3600, "fetch-feeds.sh", gzip=False, on_the_hour=True),
    Manner("hourly, without validators", 3600, "Forgetful/2.1", validators=False),
    Manner("every half hour, without gzip", 1800, "PlainReader/1.3", gzip=False),
    Manner("an aggregator", 1800, "Bundler/3.0 (+http://bundler.example/; 120 subscribers)"),
    Manner("reloads by hand, no-cache", 2 * 3600, "Impatient/7.5", no_cache=True, hours=Hours.OFFICE),
)


@dataclass
class Subscription:
    """A reader's subscription to a feed, with the state that it keeps."""

    manner: Manner
    address: str
    feed: Feed
    offset: Seconds
    tag: str | None = None
    modified: str | None = None
    held: int | None = None
    """The number of the version that the reader has."""

    def times(self, end: Instant) -> Iterator[Instant]:
        """When the reader asks."""
        at = START + self.offset
        while at < end:
            moment = datetime.fromtimestamp(at, UTC)
            if self.manner.hours is Hours.ALWAYS or (moment.weekday() < 5 and 8 <= moment.hour < 17):
                yield at
            at += self.manner.every

    def fields(self, host: str) -> Fields:
        """Return the fields of the reader's request."""
        lines = [("Host", host), ("User-Agent", self.manner.agent), ("Accept", "*/*")]
        if self.manner.gzip:
            lines.append(("Accept-Encoding", "gzip"))
        if self.manner.no_cache:
            lines.append(("Cache-Control", "no-cache"))
        if self.manner.validators and self.tag:
            lines.append(("If-None-Match", self.tag))
        if self.manner.validators and self.modified:
            lines.append(("If-Modified-Since", self.modified))
        return Fields(lines)

    def remember(self, received: Received) -> None:
        """Keep the validators of a 200."""
        if received.status == 200:
            self.tag, self.modified = received.fields.get("etag"), received.fields.get("last-modified")

    def forget(self) -> None:
        """As on the first day."""
        self.tag = self.modified = self.held = None


@dataclass(frozen=True, slots=True)
class Poll:
    """A reader asks for a feed."""

    at: Instant
    subscription: Subscription = field(compare=False)


@dataclass(frozen=True, slots=True)
class Screenplay:
    """Every poll, in order; `planned` is how many there would have been."""

    polls: Sequence[Poll]
    planned: int


def screenplay(feeds: Sequence[Feed], *, readers: int, seed: int, days: int) -> Screenplay:
    """Return the subscriptions with their polls. Every reader has two of the feeds."""
    random = Random(f"{seed}/readers")  # noqa: S311 -- a play, no secret
    end = START + days * 86_400
    polls: list[Poll] = []
    for number in range(readers):
        manner = MANNERS[number % len(MANNERS)]
        address = f"198.51.100.{number + 1}"  # RFC 5737: addresses for examples
        # In the second round the readers get the other two feeds.
        first = (number + number // len(MANNERS) * 2) % len(feeds)
        for feed in (feeds[first], feeds[(first + 1) % len(feeds)]):
            offset = 0.0 if manner.on_the_hour else random.uniform(0, manner.every)
            subscription = Subscription(manner, address, feed, offset)
            polls += [Poll(at, subscription) for at in subscription.times(end)]
    polls.sort(key=lambda poll: poll.at)
    planned = len(polls)
    if planned > POLLS_MAX:
        polls = [polls[index * planned // POLLS_MAX] for index in range(POLLS_MAX)]
    return Screenplay(polls, planned)
