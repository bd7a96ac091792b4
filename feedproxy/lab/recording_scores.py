"""Grading of the feed readers in a recording.

A HAR file of another program has only requests to origins. The client that sent them is then graded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from feedproxy.feed.channel import Schedule
from feedproxy.http.user_agent import product
from feedproxy.lab.record.exchange import Exchange, Recording, Side
from feedproxy.scoring.grade import ReaderScore, score_account
from feedproxy.scoring.reader_feeds import Reader
from feedproxy.scoring.reader_names import ReaderName, reader_name
from feedproxy.scoring.scored_request import Poll, PollContent, read_content

BROKEN_FAULTS = frozenset({"reset", "truncated-gzip", "wrong-length", "endless"})
"""Names of the faults that leave a response incomplete."""


class ObservedPoll(Struct, frozen=True):
    """A graded request, with the feed's schedule, the digest of the content, and the faults of the response."""

    poll: Poll
    schedule: Schedule
    digest: str
    faults: tuple[str, ...]


class RecordingScores(Struct, frozen=True):
    """The scores of the readers in a recording, the lowest grade first."""

    scores: tuple[ReaderScore, ...]
    polls: tuple[Mapping[str, Sequence[ObservedPoll]], ...]
    """The polls of each reader, keyed by feed. The readers are in the order of `scores`."""


CHANGING_AGENTS_MIN = 6
"""Requests of one product for one feed from one network address count as those of one reader if they have at least this
many User-Agents, and on average fewer than two requests for each User-Agent."""


def grade_recording(recording: Recording, side: Side | None = None, *, one_reader: bool = False) -> RecordingScores:
    """Return the scores of the readers in `side` of a recording: by default, the readers' side or, if it has no
    exchanges, the origins' side. If `one_reader` is true, all requests count as those of a single reader."""
    side = side or (Side.READER if recording.side(Side.READER) else Side.ORIGIN)
    exchanges = recording.side(side)
    read_content = _memoize_contents(recording)
    name_of = (lambda exchange: ReaderName(exchange.reader, "")) if one_reader else _reader_names(exchanges)
    readers: dict[ReaderName, Reader] = {}
    polls: dict[ReaderName, dict[str, list[ObservedPoll]]] = {}
    for number, exchange in enumerate(recording.exchanges, 1):
        if exchange.side is not side or exchange.request.method not in ("GET", "HEAD"):
            continue
        if exchange.is_unsent or exchange.failure.startswith("address"):
            continue
        name = name_of(exchange)
        reader = readers.setdefault(name, Reader(name.reader))
        poll = to_poll(number, exchange, read_content)
        evaluation = reader.evaluate(poll)
        observed = ObservedPoll(poll, evaluation.state.schedule, exchange.digest, exchange.faults)
        polls.setdefault(name, {}).setdefault(evaluation.account.feed, []).append(observed)
    end = max(recording.until, exchanges[-1].at if exchanges else 0.0)
    graded = [(score_account(reader.account(), end), polls[name]) for name, reader in readers.items()]
    scores = [(grade, by_feed) for grade, by_feed in graded if grade is not None]
    scores.sort(key=lambda scored: (scored[0].grade, -scored[0].cost.requests))
    return RecordingScores(tuple(grade for grade, _ in scores), tuple(by_feed for _, by_feed in scores))


def _reader_names(exchanges: Iterable[Exchange]) -> Callable[[Exchange], ReaderName]:
    """Return the function that names the reader of an exchange. A reader that changes its User-Agent with every request
    has the name of its product."""
    by_product: dict[tuple[str, str, str], Counter[str]] = {}
    for exchange in exchanges:
        name = reader_name(exchange.reader, exchange.user_agent, exchange.request.target)
        key = (name.reader, product(exchange.user_agent), exchange.request.target)
        by_product.setdefault(key, Counter())[name.user_agent] += 1
    changing = {
        key[:2]
        for key, counts in by_product.items()
        if len(counts) >= CHANGING_AGENTS_MIN and counts.total() < 2 * len(counts)
    }

    def name_of(exchange: Exchange) -> ReaderName:
        name = reader_name(exchange.reader, exchange.user_agent, exchange.request.target)
        agent = product(exchange.user_agent)
        return ReaderName(name.reader, agent) if (name.reader, agent) in changing else name

    return name_of


def to_poll(number: int, exchange: Exchange, read_content: Callable[[Exchange], PollContent | None]) -> Poll:
    """Return an exchange as a Poll for scoring. `number` is its position in the recording. `read_content` returns the
    parsed content of an exchange, or None if there is none or it is unknown."""
    return Poll(
        number=number,
        at=exchange.at,
        target=exchange.request.target,
        fields=exchange.request.fields,
        status=exchange.status,
        answer=exchange.fields,
        content=read_content(exchange),
        method=exchange.request.method,
        version=exchange.version,
        connection=exchange.connection,
        size=exchange.size if exchange.status != 304 and exchange.request.method != "HEAD" else 0,
        complete=exchange.status > 0 and not exchange.raw and not BROKEN_FAULTS.intersection(exchange.faults),
        entrance=exchange.entrance,
        public=exchange.public,
    )


def _memoize_contents(recording: Recording) -> Callable[[Exchange], PollContent | None]:
    parsed: dict[tuple[str, str], PollContent | None] = {}

    def read(exchange: Exchange) -> PollContent | None:
        is_empty = exchange.status == 200 and not exchange.size and exchange.request.method == "GET"
        if is_empty and exchange.side is Side.READER:  # the size of requests to origins may be unknown
            return PollContent(is_feed=False)
        body = recording.contents.get(exchange.digest) if exchange.digest else None
        if body is None or exchange.raw:
            # A recording has no contents of private feeds, and a file of another tool may have none at all. Such
            # requests are graded by status and fields alone.
            has_content = bool(exchange.digest) or (exchange.status == 200 and exchange.size > 0)
            return PollContent(is_feed=True) if has_content and _has_feed_type(exchange) else None
        media_type = exchange.fields.get("content-type") or ""
        if (exchange.digest, media_type) not in parsed:
            parsed[exchange.digest, media_type] = read_content(body, media_type)
        return parsed[exchange.digest, media_type]

    return read


def _has_feed_type(exchange: Exchange) -> bool:
    media_type = (exchange.fields.get("content-type") or "").lower()
    return any(part in media_type for part in ("rss", "atom", "rdf", "feed+json", "/xml"))
