"""Choice of the readers, claims and feeds that are removed at the limits of the subscriber counts.

Memory is bounded. A reader takes about 100 bytes. Above the limit, the feeds requested longest ago are removed. If one
feed is flooded with readers, the older half of its readers is removed instead, so that the flood does not affect other
feeds. Claims made once are removed before repeated claims.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from feedproxy.subscribers.readers_and_claims import FeedReaders

FLOODED_PART = 64
"""A feed is flooded if it has at least 1/FLOODED_PART of all permitted entries."""


def flooded_feed(feeds: Iterable[FeedReaders], entries_max: int) -> FeedReaders | None:
    """Return the flooded feed with the most readers, or None if no feed is flooded.

    `entries_max` is the number of permitted entries of all feeds together.
    """
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
    """Return the claim to remove in favour of a new claim: the oldest claim that was made only once.

    Return None if all claims were repeated.
    """
    made_once = [(claim_state.last, key) for key, claim_state in feed.claims.items() if claim_state.times == 1]
    return min(made_once)[1] if made_once else None
