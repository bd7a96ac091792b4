"""Rhythms of readers: the interval and phase with which each reader polls a feed, and the polls to expect.

Polls at the usual interval form a session. A longer pause ends the session. The next session is expected one cycle
after the beginning of the last session. A cycle is usually a day, as for a reader that runs in working hours.
"""

import asyncio
import math
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from feedproxy.clock import DAY, Instant, Seconds, is_set_back, is_unset
from feedproxy.cooperative_iteration import THROTTLED_BLOCKING_TIME, iterate_cooperatively, iterate_in_background
from feedproxy.errors import StoreError
from feedproxy.subscribers.block_buffer import BlockBuffer, with_checksum, without_checksum
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

READERS_MAX = 64
"""At most this many readers of a feed are sampled: enough for the distribution of polls over a day."""

SURPRISES_MAX = 10_000
"""At most this many feeds with unexpected polls wait for `take_surprises`. Further feeds are left out."""

REPEAT: Seconds = 20
"""Two polls of a reader that are less than this many seconds apart count as one."""

SESSION_BREAK = 2.5
"""A pause of more than this many usual intervals ends a session. After one missed poll, the session continues."""

OVERDUE = 1.25
"""A poll counts as missed when the pause since the last poll exceeds the longest expected interval, times this factor.
The next poll is then expected at the next whole multiple of the usual interval after the last poll."""

BEYOND = 0.5
"""Fraction of d that widens the range of a reader's expected intervals, where d = longest - shortest of the last
intervals: the next interval is expected between shortest - BEYOND * d and longest + BEYOND * d."""

CONTINUES, RETURNS, MISSED, EXTENDS = 0.95, 0.85, 0.5, 0.2
"""Probabilities that a reader polls again: CONTINUES during a session, and RETURNS in the next session. If a session
has lasted as long as the previous one, EXTENDS replaces CONTINUES.

After a missed poll, the probability that the session continues is multiplied by MISSED.
"""

PUNCTUAL: Seconds = 90
"""A poll may be early or late by this many seconds without causing a new plan of the feed's refreshes. A plan treats
several polls within this time as one (CLUSTER_LENGTH in refresh/policy/expected_polls_and_price.py)."""

GAPS_MAX = 5
_RECORD = struct.Struct("<Qdfff5f")
_KEY, _LAST = struct.Struct("<Q"), struct.Struct("<d")
_NO_GAPS = (0.0,) * GAPS_MAX
_HEAD = struct.Struct("<HH")
MAGIC = b"fprhyth1"
NAME_MAX = 0xFFFF
"""The rhythms of a feed with an address of more than this many bytes are not stored."""


class ExpectedPoll(NamedTuple):
    """Polls expected at an instant. `weight` is their expected number, or the probability of a single poll."""

    at: Instant
    weight: float


class _Reader(NamedTuple):
    """The record of one reader: its last poll, its present and its previous session, and its last intervals."""

    key: int
    last: Instant
    since_begin: Seconds
    """Seconds from the beginning of the present session to the last poll."""
    length: Seconds
    """Duration of the previous session in seconds, or 0 if unknown."""
    cycle: Seconds
    """Seconds between the beginnings of the last two sessions, or 0 if unknown."""
    gaps: Sequence[Seconds]
    """The last intervals between polls in seconds, the newest first."""


class PollRhythms:
    """The rhythms of the readers of all feeds. Not thread-safe.

    A reader is forgotten `window` seconds after its last poll. At most `readers_max` readers of all feeds together are
    sampled, and at most `feeds_max` feeds have sampled readers. The feeds polled longest ago are forgotten first.
    """

    def __init__(self, *, window: Seconds = DAY, feeds_max: int = 200_000, readers_max: int = 1_000_000) -> None:
        self._window = window
        self._feeds_max = feeds_max
        self._bytes_max = readers_max * _RECORD.size
        self._bytes = 0
        self._swept: Instant = 0.0
        self._feeds: dict[str, bytes] = {}  # the feed polled longest ago is first
        self._surprises: dict[str, None] = {}
        self._full_until: dict[str, Instant] = {}
        """For each feed with READERS_MAX sampled readers: the earliest instant at which one of these readers can be
        forgotten, so that another reader can be sampled."""

    def __len__(self) -> int:
        return len(self._feeds)

    def record(self, target: str, pseudonym: Pseudonym, now: Instant) -> bool:
        """Record a poll. Return True if the poll was unexpected, and has therefore changed the expected polls."""
        surprise = self._record(target, pseudonym, now)
        if surprise and len(self._surprises) < SURPRISES_MAX:
            self._surprises[target] = None
        return surprise

    def record_from_peer(self, target: str, pseudonym: Pseudonym, at: Instant) -> None:
        """Record a poll that another machine reported, unless a later poll of the reader is known."""
        records = self._feeds.get(target, b"")
        for key in (pseudonym.current, pseudonym.previous):
            position = _find(records, key)
            if position >= 0 and _LAST.unpack_from(records, position + _KEY.size)[0] >= at:
                return
        self.record(target, pseudonym, at)

    def targets(self) -> list[str]:
        return list(self._feeds)

    def _record(self, target: str, pseudonym: Pseudonym, now: Instant) -> bool:
        records = self._feeds.pop(target, None)
        if records is None:
            records = b""
            if len(self._feeds) >= self._feeds_max:
                self.forget(next(iter(self._feeds)))
        self._feeds[target] = records
        at = _find(records, pseudonym.current)
        if at < 0:
            at = _find(records, pseudonym.previous)
        if at >= 0:
            record, is_surprise = self._poll(records, at, pseudonym.current, now)
            self._feeds[target] = records[:at] + record + records[at + _RECORD.size :]
            return is_surprise
        record = _first_poll(pseudonym.current, now)
        if len(records) < READERS_MAX * _RECORD.size:
            self._feeds[target] = records + record
            self._bytes += _RECORD.size
            while self._bytes > self._bytes_max and len(self._feeds) > 1:
                self.forget(next(iter(self._feeds)))
            return True
        # After the clock was set back, instants may be ahead by more than a window. They are ignored.
        if (
            0 < self._full_until.get(target, 0.0) - now <= self._window
            or (at := self._find_outdated(target, records, now)) < 0
        ):
            return False
        self._feeds[target] = records[:at] + record + records[at + _RECORD.size :]
        return True

    def count_sampled(self, target: str) -> int:
        return len(self._feeds.get(target, b"")) // _RECORD.size

    def count_regular(self, target: str, since: Instant) -> int:
        """Return the number of sampled readers with a predictable next poll: with two polls or more, the last at
        `since` or later."""
        records = self._feeds.get(target)
        if not records:
            return 0
        return sum(reader.last >= since and bool(reader.gaps) for reader in _readers(records))

    def take_surprises(self) -> list[str]:
        """Return the feeds with unexpected polls since the last call, at most SURPRISES_MAX."""
        targets, self._surprises = list(self._surprises), {}
        return targets

    def expected_polls(self, target: str, now: Instant, until: Instant, *, readers: int = 0) -> list[ExpectedPoll]:
        """Return the polls expected between `now` and `until`, in order of time.

        `readers` is the number of all readers of the feed. If it exceeds the number of sampled readers, the weights of
        the polls are scaled up to it.
        """
        records = self._feeds.get(target)
        if not records:
            return []
        polls: list[ExpectedPoll] = []
        multiple = max(1.0, readers / (len(records) // _RECORD.size))
        for reader in _readers(records):
            if abs(now - reader.last) < self._window:
                polls += _polls_of(reader, now, until, multiple)
        polls.sort()
        return polls

    def next_poll(self, target: str, now: Instant) -> Instant | None:
        """Return the instant of the first expected poll, or None if it is unknown. The instant is unknown if the feed
        has no sampled readers or READERS_MAX of them, or if one of them has no rhythm or can poll at any moment."""
        records = self._feeds.get(target)
        if not records or len(records) == READERS_MAX * _RECORD.size:
            return None
        first = math.inf
        for reader in _readers(records):
            polls = _polls_of(reader, now, now, 1.0) if now - reader.last < self._window else ()
            first = min(first, min((poll.at for poll in polls), default=-math.inf))
        return first if first > now else None

    def forget(self, target: str) -> None:
        self._bytes -= len(self._feeds.pop(target, b""))
        self._full_until.pop(target, None)

    def expire(self, target: str, now: Instant) -> None:
        """Forget those readers of one feed that have no poll in the last `window` seconds."""
        records = self._feeds.get(target)
        if records is None:
            return
        current = b"".join(_pack(reader) for reader in _readers(records) if not self._has_left(reader, now))
        if not current:
            self.forget(target)
        elif len(current) < len(records):
            self._bytes -= len(records) - len(current)
            self._feeds[target] = current

    async def dump(self) -> bytes:
        """Return all rhythms as bytes for `load`: pseudonyms and times, but no addresses. The call pauses for other
        tasks. Polls during a pause can be missing."""
        body = BlockBuffer()
        async for part in iterate_cooperatively(self._parts(), THROTTLED_BLOCKING_TIME):
            body.append(part)
        return await asyncio.to_thread(with_checksum, MAGIC, body.blocks())

    def _parts(self) -> Iterator[bytes]:
        for target in list(self._feeds):
            name, records = target.encode("utf-8", "surrogatepass"), self._feeds.get(target)
            if records and len(name) <= NAME_MAX:
                yield _HEAD.pack(len(name), len(records) // _RECORD.size) + name + records

    def load(self, data: bytes, now: Instant) -> None:
        """Replace all rhythms by `data`, a result of `dump`. Damaged data raises StoreError, and changes nothing.

        Polls after `now` get the instant `now`, because the clock was wrong. If the clock is not set yet, these polls
        keep their instants.
        """
        body = without_checksum(MAGIC, data, "poll rhythms")
        feeds: dict[str, bytes] = {}
        outdated: list[str] = []
        at = 0
        try:
            while at < len(body):
                length, count = _HEAD.unpack_from(body, at)
                begin = at + _HEAD.size + length
                name = body[at + _HEAD.size : begin].decode("utf-8", "surrogatepass")
                at = begin + count * _RECORD.size
                records = body[begin:at]
                if len(records) != at - begin or count > READERS_MAX:
                    raise ValueError("records with a wrong length")
                feeds[name] = records
                if not self._are_current(records, now) and not is_unset(now):
                    outdated.append(name)
        except (ValueError, struct.error) as error:
            raise StoreError(f"damaged poll rhythms: {error}") from error
        self._feeds, self._full_until = feeds, {}
        self._swept = now
        self._bytes = sum(map(len, feeds.values()))
        for name in outdated:
            feeds[name] = _correct(feeds[name], now)
            self.expire(name, now)
        while self._bytes > self._bytes_max or len(self._feeds) > self._feeds_max:
            self.forget(next(iter(self._feeds)))

    async def sweep(self, now: Instant) -> None:
        """Forget all readers without a poll in the last `window` seconds, with pauses for other tasks. The call does
        nothing if less than a twenty-fourth of the window has passed since the last sweep."""
        if abs(now - self._swept) >= self._window / 24:
            self._swept = now
            async for target in iterate_in_background(list(self._feeds)):
                self.expire(target, now)

    def _are_current(self, records: bytes, now: Instant) -> bool:
        """Return True if all recorded polls were made in the last `window` seconds before `now`. Raises ValueError for
        invalid records."""
        begin, are_current = now - self._window, True
        for record in _RECORD.iter_unpack(records):
            if min(record) < 0 or not math.isfinite(sum(record)):
                raise ValueError("invalid instant")
            are_current = are_current and begin < record[1] <= now
        return are_current

    def _has_left(self, reader: _Reader, now: Instant) -> bool:
        """Return True if a reader has no poll in the last `window` seconds. While the machine's clock is not set,
        return False for a reader that polled when it was set (`_precedes_unset_clock`)."""
        return abs(now - reader.last) >= self._window and not _precedes_unset_clock(reader, now)

    def _find_outdated(self, target: str, records: bytes, now: Instant) -> int:
        """Return the position of the record of a reader that has left (`_has_left`), or -1 if there is no such
        reader."""
        for number, reader in enumerate(_readers(records)):
            if self._has_left(reader, now):
                return number * _RECORD.size
        self._full_until[target] = min(reader.last for reader in _readers(records)) + self._window
        return -1

    def _poll(self, records: bytes, at: int, key: int, now: Instant) -> tuple[bytes, bool]:
        """Return the record of a reader, updated for a further poll, and True if that poll was unexpected. The old
        record is at position `at` of `records`. The new record has the pseudonym `key`."""
        # A `_Reader` would double the time of this method, which each poll of a known reader calls.
        _, last, since_begin, length, cycle, *gaps = _RECORD.unpack_from(records, at)
        gap = now - last
        if not REPEAT <= gap < self._window:
            if gap < REPEAT and (not is_set_back(last, now) or is_unset(now)):
                return _KEY.pack(key) + records[at + _KEY.size : at + _RECORD.size], False
            return _first_poll(key, now), True
        while gaps and not gaps[-1]:
            gaps.pop()
        usual = _usual(gaps)
        if usual and gap > SESSION_BREAK * usual:
            begin = last - since_begin
            return _pack(_Reader(key, now, 0, since_begin, now - begin, gaps)), True
        gaps = [gap, *gaps[: GAPS_MAX - 1]]
        record = _RECORD.pack(key, now, since_begin + gap, length, cycle, *gaps, *_NO_GAPS[len(gaps) :])
        return record, len(gaps) < 2 or max(gaps) > usual + PUNCTUAL or min(gaps) < usual - PUNCTUAL


def _find(records: bytes, key: int) -> int:
    packed_key = _KEY.pack(key)
    at = records.find(packed_key)
    while at > 0 and at % _RECORD.size:
        at = records.find(packed_key, at + 1)
    return at


def _reader_at(records: bytes, at: int) -> _Reader:
    key, last, since_begin, length, cycle, *gaps = _RECORD.unpack_from(records, at)
    return _Reader(key, last, since_begin, length, cycle, tuple(gaps[: GAPS_MAX - gaps.count(0.0)]))


def _readers(records: bytes) -> Iterator[_Reader]:
    for at in range(0, len(records), _RECORD.size):
        yield _reader_at(records, at)


def _pack(reader: _Reader) -> bytes:
    key, last, since_begin, length, cycle, gaps = reader
    return _RECORD.pack(key, last, since_begin, length, cycle, *gaps, *_NO_GAPS[len(gaps) :])


def _first_poll(key: int, now: Instant) -> bytes:
    return _pack(_Reader(key, now, 0, 0, 0, ()))


def _precedes_unset_clock(reader: _Reader, now: Instant) -> bool:
    """Return True if the machine's clock is not set now, but was set at the reader's last poll. The instant of that
    poll must not be changed then: it is right again when the clock is set."""
    return is_unset(now) and is_set_back(reader.last, now)


def _correct(records: bytes, now: Instant) -> bytes:
    return b"".join([_pack(reader._replace(last=min(reader.last, now))) for reader in _readers(records)])


def _usual(gaps: Sequence[Seconds]) -> Seconds:
    """Return the lower median of the intervals, or 0 if there are none. One pause at night does not affect a median."""
    return sorted(gaps)[(len(gaps) - 1) // 2] if gaps else 0.0


def _possible(gaps: list[Seconds]) -> list[Seconds]:
    """Return the possible next intervals: the observed ones and, unless these are equal, a shorter one and a longer
    one.

    The next interval is shorter than all n observed intervals with a probability of 1 / (n + 1), and longer than all
    with the same probability.
    """
    shortest, longest = min(gaps), max(gaps)
    margin = BEYOND * (longest - shortest)
    return sorted((*gaps, shortest - margin, longest + margin)) if margin else gaps


def _polls_of(reader: _Reader, now: Instant, until: Instant, multiple: float) -> Iterator[ExpectedPoll]:
    """Yield the expected polls of one reader, with weights multiplied by `multiple`: the number of readers that it
    represents.

    The next poll is expected at each of the reader's last intervals, and later polls at the usual interval.
    """
    usual = _usual(reader.gaps)
    if not usual:
        return  # a single poll is not a rhythm
    if now - reader.last <= SESSION_BREAK * usual:
        yield from _polls_of_session(reader, usual, now, until, multiple)
        if reader.length == 0:
            return  # the reader has never paused, and is not expected to
    yield from _polls_after_pause(reader, usual, now, until, multiple)


def _polls_of_session(
    reader: _Reader, usual: Seconds, now: Instant, until: Instant, multiple: float
) -> Iterator[ExpectedPoll]:
    """Yield the expected polls up to the reader's next pause."""
    elapsed = now - reader.last
    gaps = _possible([gap for gap in reader.gaps if gap < SESSION_BREAK * usual])
    end = reader.last - reader.since_begin + reader.length + usual if reader.length else math.inf
    likely = CONTINUES if reader.last + usual <= end else EXTENDS
    nearest = reader.last + usual
    if awaited := [gap for gap in gaps if gap > elapsed]:
        for gap in awaited:
            yield ExpectedPoll(reader.last + gap, multiple * likely / len(awaited))
    elif elapsed <= OVERDUE * gaps[-1]:
        yield ExpectedPoll(now + (OVERDUE * gaps[-1] - elapsed) / 2, multiple * likely / 2)
    else:
        likely *= MISSED
        nearest = reader.last + usual * math.floor(elapsed / usual)
    yield from _regular_polls(nearest + usual, usual, now, min(until, end), multiple * likely)


def _polls_after_pause(
    reader: _Reader, usual: Seconds, now: Instant, until: Instant, multiple: float
) -> Iterator[ExpectedPoll]:
    """Yield the expected polls after the reader's next pause. The next session begins one cycle after the last: a day,
    or the length of the last cycle if that was between 0.5 and 1.5 days."""
    cycle = reader.cycle if 0.5 * DAY < reader.cycle < 1.5 * DAY else DAY
    start = reader.last - reader.since_begin + cycle
    while start + usual <= now:
        start += cycle
    spread = usual / 2
    if start - spread > until:
        return
    for offset in (-spread, 0.0, spread):
        if start + offset > now:
            yield ExpectedPoll(start + offset, multiple * RETURNS / 3)
    end = start + reader.length if reader.length else until
    yield from _regular_polls(start + usual, usual, now, min(until, end), multiple * RETURNS)


def _regular_polls(
    first: Instant, interval: Seconds, now: Instant, until: Instant, weight: float
) -> Iterator[ExpectedPoll]:
    """Yield polls at a regular interval from `first` on. Polls in the distant future are combined, because their
    instants are uncertain."""
    at = first
    while at <= until:
        together = max(1, int(0.1 * (at - now) / interval))
        if at > now:
            yield ExpectedPoll(at, weight * together)
        at += interval * together
