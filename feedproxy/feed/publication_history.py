"""Publication history of a feed before its first fetch, from the dates of its items.

With the history, feedproxy can choose a polling interval after one fetch (change_rate.py). Patterns find the dates
without parsing the document. A missing or additional date does no harm.
"""

import re
from collections.abc import Sequence

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.feed_dates import parse

ENTRIES_MAX = 64
"""Maximum number of publication dates read from one feed. Feeds usually list the newest items first, and old dates say
little about the current rate."""

SAME_PUBLICATION: Seconds = 120
"""Successive items that are less than this many seconds apart count as one publication."""

# All repetitions are bounded, so that no document makes the search slow.
_FIRST = re.compile(rb"<(?:[\w.-]{1,40}:)?(?:item|entry)[\s>/]|\"items\"\s{0,8}:")
_PUBLISHED = re.compile(
    rb"<(?:[\w.-]{1,40}:)?(?:pubDate|published|issued|date)(?:\s[^<>]{0,200})?>([^<>]{8,80})</"
    rb"|\"date_published\"\s{0,8}:\s{0,8}\"([^\"]{8,60})\""
)
_UPDATED = re.compile(
    rb"<(?:[\w.-]{1,40}:)?(?:updated|modified)(?:\s[^<>]{0,200})?>([^<>]{8,80})</"
    rb"|\"date_modified\"\s{0,8}:\s{0,8}\"([^\"]{8,60})\""
)


def find_publications(document: bytes, now: Instant) -> tuple[Instant, ...]:
    """Return the instants, up to `now`, at which a document's items were published, oldest first.

    If there are fewer than two publications, the result is empty: a single date is often that of the whole document.
    Dates are found only in ASCII-compatible encodings.
    """
    first = _FIRST.search(document)
    if first is None:
        return ()
    for names in (_PUBLISHED, _UPDATED):
        if len(publications := _merge_publications(_dates(names, document, first.start()), now)) > 1:
            return publications
    return ()


def _dates(names: re.Pattern[bytes], document: bytes, start: int) -> list[Instant]:
    instants = []
    for match in names.finditer(document, start):
        if (instant := parse((match[1] or match[2]).decode("ascii", "replace"))) is not None:
            instants.append(float(instant))
        if len(instants) == ENTRIES_MAX:
            break
    return instants


def _merge_publications(instants: Sequence[Instant], now: Instant) -> tuple[Instant, ...]:
    publications: list[Instant] = []
    for at in sorted(instant for instant in instants if instant <= now):
        if publications and at - publications[-1] < SAME_PUBLICATION:
            publications[-1] = at
        else:
            publications.append(at)
    return tuple(publications)
