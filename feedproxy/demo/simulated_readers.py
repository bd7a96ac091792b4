"""Simulated readers of the demo: eight kinds that occur in practice, and the times of their polls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.demo.counted_http import CountedResponse
from feedproxy.demo.publishers import START, DemoFeed
from feedproxy.http.message import Fields


class ReaderProfile(Struct, frozen=True):
    """The interval, hours and HTTP behaviour of a reader. `office_hours` are 8 to 17 GMT, Monday to Friday."""

    name: str
    interval: Seconds
    user_agent: str
    validators: bool = True
    gzip: bool = True
    no_cache: bool = False
    on_the_hour: bool = False
    office_hours: bool = False


PROFILES = (
    ReaderProfile("hourly, with validators", 3600, "Gazette/4.2"),
    ReaderProfile("in the office", 3600, "DeskReader/11.0 (Windows)", office_hours=True),
    ReaderProfile("every ten minutes", 600, "Eager/0.9"),
    ReaderProfile("from cron, on the hour", 3600, "fetch-feeds.sh", gzip=False, on_the_hour=True),
    ReaderProfile("hourly, without validators", 3600, "Forgetful/2.1", validators=False),
    ReaderProfile("every half hour, without gzip", 1800, "PlainReader/1.3", gzip=False),
    ReaderProfile("an aggregator", 1800, "Bundler/3.0 (+http://bundler.example/; 120 subscribers)"),
    ReaderProfile("reloads by hand, no-cache", 2 * 3600, "Impatient/7.5", no_cache=True, office_hours=True),
)


@dataclass
class SimulatedSubscription:
    """A reader's subscription to a feed, with the state that the reader stores."""

    profile: ReaderProfile
    address: str
    feed: DemoFeed
    offset: Seconds
    tag: str | None = None
    modified: str | None = None
    version_number: int | None = None
    """Number of the version that the reader received last."""

    def times(self, end: Instant) -> Iterator[Instant]:
        """Yield the times of the reader's polls."""
        at = START + self.offset
        while at < end:
            date = datetime.fromtimestamp(at, UTC)
            if not self.profile.office_hours or (date.weekday() < 5 and 8 <= date.hour < 17):
                yield at
            at += self.profile.interval

    def fields(self, host: str) -> Fields:
        """Return the fields of the reader's request."""
        lines = [("Host", host), ("User-Agent", self.profile.user_agent), ("Accept", "*/*")]
        if self.profile.gzip:
            lines.append(("Accept-Encoding", "gzip"))
        if self.profile.no_cache:
            lines.append(("Cache-Control", "no-cache"))
        if self.profile.validators and self.tag:
            lines.append(("If-None-Match", self.tag))
        if self.profile.validators and self.modified:
            lines.append(("If-Modified-Since", self.modified))
        return Fields(lines)

    def remember(self, response: CountedResponse) -> None:
        """Store the validators of a 200."""
        if response.status == 200:
            self.tag, self.modified = response.fields.get("etag"), response.fields.get("last-modified")

    def forget(self) -> None:
        """Reset the state to that before the first poll."""
        self.tag = self.modified = self.version_number = None


class SimulatedPoll(Struct, frozen=True):
    """A request of a reader for a feed, with its time."""

    at: Instant
    subscription: SimulatedSubscription


def plan_polls(feeds: Sequence[DemoFeed], *, readers: int, seed: int, days: int) -> list[SimulatedPoll]:
    """Return the polls of all readers, in order. Every reader subscribes to two of the feeds."""
    random = Random(f"{seed}/readers")  # noqa: S311 -- a simulation, no secret
    end = START + days * 86_400
    polls: list[SimulatedPoll] = []
    for number in range(readers):
        profile = PROFILES[number % len(PROFILES)]
        address = f"198.51.100.{number + 1}"  # RFC 5737: addresses for examples
        # In the second round, the readers get the other two feeds.
        first = (number + number // len(PROFILES) * 2) % len(feeds)
        for feed in (feeds[first], feeds[(first + 1) % len(feeds)]):
            offset = 0.0 if profile.on_the_hour else random.uniform(0, profile.interval)
            subscription = SimulatedSubscription(profile, address, feed, offset)
            polls += [SimulatedPoll(at, subscription) for at in subscription.times(end)]
    polls.sort(key=lambda poll: poll.at)
    return polls
