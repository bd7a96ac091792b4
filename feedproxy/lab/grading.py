"""From a recording to scores: its readers' side, or, where nobody recorded that, the side of origins.

A recording of feedproxy's has both. On the origins' side feedproxy itself is the reader; a file from elsewhere (a
browser, another proxy) has only that side, and whoever asked there is who is judged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from feedproxy.feed.channel import Schedule
from feedproxy.lab.record.exchange import Exchange, Recording, Side
from feedproxy.scoring.grade import ReaderScore, score
from feedproxy.scoring.reader import Reader, ReaderName, reader_name
from feedproxy.scoring.scored_request import Content, Poll, read_content

BROKEN_FAULTS = frozenset({"reset", "truncated-gzip", "wrong-length"})
"""Faults after which an answer is no whole one."""


@dataclass(frozen=True, slots=True)
class ObservedPoll:
    """A request as it was judged, the schedule that held then, and what the recording tells beside."""

    poll: Poll
    schedule: Schedule
    digest: str
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordingScores:
    """The scores of a recording, the worst first."""

    scores: tuple[ReaderScore, ...]
    polls: tuple[Mapping[str, Sequence[ObservedPoll]], ...]
    """Of each reader, in the same order: what it asked, by feed."""


def grade_recording(recording: Recording, side: Side | None = None) -> RecordingScores:
    """Judge every reader of a recording. `side` None: the readers', else, where there is none, the origins'."""
    exchanges = recording.side(side) if side else recording.side(Side.READER) or recording.side(Side.ORIGIN)
    read = _memoize_contents(recording)
    readers: dict[ReaderName, Reader] = {}
    polls: dict[ReaderName, dict[str, list[ObservedPoll]]] = {}
    for number, exchange in _number_exchanges(recording, exchanges):
        if exchange.request.method not in ("GET", "HEAD") or exchange.failure.startswith("address"):
            continue
        name = reader_name(exchange.reader, exchange.user_agent, exchange.request.target)
        reader = readers.setdefault(name, Reader(name.reader))
        poll = poll_of(number, exchange, read)
        conduct = reader.see(poll)
        seen = ObservedPoll(poll, conduct.known.schedule, exchange.digest, exchange.faults)
        polls.setdefault(name, {}).setdefault(conduct.feed, []).append(seen)
    end = max(recording.until, exchanges[-1].at if exchanges else 0.0)
    found = [(each, polls[name]) for name, reader in readers.items() if (each := score(reader, end)) is not None]
    found.sort(key=lambda each: (each[0].grade, -each[0].cost.requests))
    return RecordingScores(tuple(each for each, _ in found), tuple(each for _, each in found))


def poll_of(number: int, exchange: Exchange, read: Callable[[Exchange], Content | None]) -> Poll:
    """An exchange as the score wants it."""
    return Poll(
        number=number,
        at=exchange.at,
        target=exchange.request.target,
        fields=exchange.request.fields,
        status=exchange.status,
        answer=exchange.fields,
        content=read(exchange),
        method=exchange.request.method,
        version=exchange.version,
        connection=exchange.connection,
        size=exchange.size if exchange.status != 304 and exchange.request.method != "HEAD" else 0,
        whole=exchange.status > 0 and not exchange.raw and not BROKEN_FAULTS.intersection(exchange.faults),
        entrance=exchange.entrance,
        public=exchange.public,
    )


def _number_exchanges(recording: Recording, exchanges: Iterable[Exchange]) -> Iterable[tuple[int, Exchange]]:
    """With their places in the recording, whichever side they are of."""
    wanted = set(map(id, exchanges))
    return ((number, each) for number, each in enumerate(recording.exchanges, 1) if id(each) in wanted)


def _memoize_contents(recording: Recording) -> Callable[[Exchange], Content | None]:
    """Reads each content once."""
    known: dict[tuple[str, str], Content | None] = {}

    def read(exchange: Exchange) -> Content | None:
        body = recording.contents.get(exchange.digest) if exchange.digest else None
        if body is None or exchange.raw:
            # What a private feed says is not recorded: then only its status and fields speak.
            return Content(is_feed=True) if exchange.digest and _is_named_a_feed(exchange) else None
        said = exchange.fields.get("content-type") or ""
        if (exchange.digest, said) not in known:
            known[exchange.digest, said] = read_content(body, said)
        return known[exchange.digest, said]

    return read


def _is_named_a_feed(exchange: Exchange) -> bool:
    said = (exchange.fields.get("content-type") or "").lower()
    return any(each in said for each in ("rss", "atom", "rdf", "feed+json", "/xml"))
