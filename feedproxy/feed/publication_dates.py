"""When was a feed published to before anybody watched it?  By its entries' own dates.

A feed that is seen for the first time has a history all the same: it is written in its entries. So the interval at
which it is worth asking for is known at once, not after weeks of asking too often or too seldom
(feed/schedule.py: learned_lifetime).

The dates are looked for without reading the document anew: an instant more or less does no harm, and what is no date
is passed over.
"""

import re
from collections.abc import Sequence

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.convert.dates import parse

ENTRIES_MAX = 64
"""Dates looked at: the newest stand in front, and what was published long ago says little of today."""

SAME_PUBLICATION: Seconds = 120
"""Entries published within two minutes of one another came by one act."""

# Bounded throughout: whoever writes a document may not choose how long it is looked at.
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
    """The instants at which entries of this document were published, oldest first, none of them after `now`.

    Empty where fewer than two are known: one date is often that of the document, not of an entry. `document` is in
    an encoding that has ASCII's letters where ASCII has them; of others nothing is found.
    """
    first = _FIRST.search(document)
    if first is None:
        return ()
    for names in (_PUBLISHED, _UPDATED):
        if len(found := _merge_publications(_dates(names, document, first.start()), now)) > 1:
            return found
    return ()


def _dates(names: re.Pattern[bytes], document: bytes, start: int) -> list[Instant]:
    found = []
    for match in names.finditer(document, start):
        if (instant := parse((match[1] or match[2]).decode("ascii", "replace"))) is not None:
            found.append(float(instant))
        if len(found) == ENTRIES_MAX:
            break
    return found


def _merge_publications(instants: Sequence[Instant], now: Instant) -> tuple[Instant, ...]:
    publications: list[Instant] = []
    for at in sorted(instant for instant in instants if instant <= now):
        if publications and at - publications[-1] < SAME_PUBLICATION:
            publications[-1] = at
        else:
            publications.append(at)
    return tuple(publications)
