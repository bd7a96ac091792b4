"""Which readers, claims and feeds are removed at the limits of the subscriber counts.

Memory is bounded. A reader takes about 100 bytes. Above the limit, the feeds requested longest ago are removed. A feed
with by far the most readers loses the older half of its readers instead, so that a flood on one feed does not affect
others. Claims made once are removed before repeated ones.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from feedproxy.subscribers.readers_and_claims import FeedReaders

FLOODED_PART = 64
"""A feed loses readers instead of other feeds if it has at least this part of all permitted entries: 1/64."""


def flooded_feed(feeds: Iterable[FeedReaders], entries_max: int) -> FeedReaders | None:
    """Return the feed with the most readers, or None if no feed has many of all entries."""
    largest = max(feeds, key=lambda feed: feed.size)
    return largest if largest.size * FLOODED_PART >= entries_max else None


def older_half(feed: FeedReaders) -> list[int]:
    """Return the readers to remove from a flooded feed: the older half, at least one."""
    return list(islice(feed.readers, (feed.size + 1) // 2))


def oldest_eighth(feed: FeedReaders, readers_max: int) -> list[int]:
    """Return the readers to remove from a feed with more than `readers_max` readers.

    Many readers are removed at once: finding a dict's first item is slow after many deletions at its front.
    """
    return list(islice(feed.readers, max(1, readers_max // 8)))


def oldest_feeds(feeds: Collection[str]) -> list[str]:
    """Return the feeds to remove: a sixteenth of `feeds`, which are in the order of their last requests.

    Many feeds are removed at once, so that the slow search for the largest feed is rare.
    """
    return list(islice(feeds, max(1, len(feeds) // 16)))


def least_known_claim(feed: FeedReaders) -> tuple[str, str] | None:
    """Return the claim to remove for a new one: the oldest of those made once, or None if all were repeated."""
    made_once = [(claim_state.last, key) for key, claim_state in feed.claims.items() if claim_state.times == 1]
    return min(made_once)[1] if made_once else None
