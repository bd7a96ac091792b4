"""Scores as one page of HTML that needs nothing else: no scripts, nothing loaded, light and dark, a phone's width.

Each feed has its life drawn: what the publisher did (versions, hours and days to be skipped, faults), and below it the
reader's polls by what came of them, a row for each outcome, so that nothing is told by colour alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from feedproxy import __version__
from feedproxy.clock import Instant
from feedproxy.feed.schedule import is_skipped
from feedproxy.http.date import parse_http_date
from feedproxy.lab.grading import ObservedPoll, RecordingScores
from feedproxy.scoring import report
from feedproxy.scoring.grade import FeedScore, ReaderScore
from feedproxy.scoring.polling_interval import span
from feedproxy.scoring.rules import redact_target
from feedproxy.scoring.scored_request import REDIRECTS
from feedproxy.web import templates

WIDTH, LEFT, RIGHT = 960, 150, 14
ROW, TOP = 26, 30
LABELS, LABEL = 9, 70
"""How many labels of time there may be, and what one takes."""

LANES = (
    ("new", "something new"),
    ("same", "304, nothing new"),
    ("vain", "all again, nothing new"),
    ("moved", "led elsewhere"),
    ("failed", "refused or failed"),
)
"""What came of a poll, in the order in which the rows stand."""

SHOWN = 12
"""Requests that the page lists for a finding."""


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time that is shaded."""

    x: float
    width: float
    words: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A poll, or as many as fall on one place."""

    x: float
    count: int
    words: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A feed's life and a reader's polls, ready to be drawn."""

    height: int
    lanes: tuple[tuple[str, str, int, tuple[Mark, ...]], ...]
    """Class, words, y, marks."""
    versions: tuple[Mark, ...]
    skipped: tuple[Band, ...]
    faults: tuple[Band, ...]
    wrong: str
    """What was wrong in those, in words."""
    days: tuple[tuple[float, str], ...]
    words: str


def as_html(graded: RecordingScores, title: str = "How these readers behave") -> str:
    """The page."""
    readers = [_reader(score, polls) for score, polls in zip(graded.scores, graded.polls, strict=True)]
    body = templates.page(
        "score.html",
        title=title,
        readers=readers,
        version=__version__,
        width=WIDTH,
        left=LEFT,
        most=SHOWN,
        marked=with_code,
    )
    return body.decode()


def level_of(grade: int) -> str:
    """The colour of a grade."""
    return "good" if grade >= 90 else "held" if grade >= 75 else "warn" if grade >= 50 else "bad"


def _reader(score: ReaderScore, polls: Any) -> dict[str, Any]:
    every = [each for seen in polls.values() for each in seen]
    begin, end = min(each.poll.at for each in every), max(each.poll.at for each in every)
    return {
        "name": report.name_of(score),
        "score": score,
        "level": level_of(score.grade),
        "cost": score.cost,
        "begin": templates.absolute(begin),
        "length": span(end - begin),
        "feeds": [_feed(each, polls[each.feed], begin, end) for each in score.feeds],
    }


def _feed(score: FeedScore, seen: Sequence[ObservedPoll], begin: Instant, end: Instant) -> dict[str, Any]:
    return {
        "name": redact_target(score.feed),
        "score": score,
        "level": level_of(score.grade),
        "interval": span(score.interval) if score.interval else "",
        "timeline": timeline(seen, begin, end),
    }


def timeline(seen: Sequence[ObservedPoll], begin: Instant, end: Instant) -> Timeline:
    """What is drawn of a feed's polls between two instants."""
    length = max(end - begin, 1.0)
    scale = (WIDTH - LEFT - RIGHT) / length

    def place(at: Instant) -> float:
        return round(LEFT + (min(max(at, begin), end) - begin) * scale, 1)

    outcomes = list(zip(seen, _outcomes(seen), strict=True))
    used = [each for each in LANES if any(outcome == each[0] for _, outcome in outcomes)]
    lanes = tuple(
        (kind, words, TOP + ROW * (row + 1), _marks([each for each, found in outcomes if found == kind], place))
        for row, (kind, words) in enumerate(used)
    )
    counted = ", ".join(f"{sum(mark.count for mark in marks)} {words}" for _, words, _, marks in lanes)
    return Timeline(
        height=TOP + ROW * (len(used) + 1) + 22,
        lanes=lanes,
        versions=tuple(_group(((place(at), templates.absolute(at)) for at in _versions(seen)), "new version")),
        skipped=tuple(_skipped(seen, begin, end, place)),
        faults=tuple(_faults(seen, end, place)),
        wrong=", ".join(dict.fromkeys(words for each in seen if (words := _fault_names(each)))),
        days=tuple(_days(begin, end, place)),
        words=f"{len(seen)} requests in {span(length)}: {counted}",
    )


def _outcomes(seen: Iterable[ObservedPoll]) -> Iterable[str]:
    digest = ""
    for each in seen:
        poll = each.poll
        if poll.status in REDIRECTS or (poll.content is not None and poll.content.relocation is not None):
            yield "moved"
        elif poll.status == 304:
            yield "same"
        elif poll.succeeded:
            yield "vain" if poll.status == 200 and each.digest and each.digest == digest else "new"
            digest = each.digest
        else:
            yield "failed"


def _versions(seen: Sequence[ObservedPoll]) -> Iterable[Instant]:
    """When there was something new: at its Last-Modified, where that lies between this answer and the one before."""
    digest, before = "", 0.0
    for each in seen:
        poll = each.poll
        if poll.succeeded and poll.status in (200, 226) and each.digest and each.digest != digest:
            changed = parse_http_date(poll.answer.get("last-modified") or "", poll.at)
            if digest:
                yield changed if changed is not None and before <= changed <= poll.at else poll.at
            digest = each.digest
        before = poll.at


def _marks(seen: Iterable[ObservedPoll], place: Any) -> tuple[Mark, ...]:
    return tuple(
        _group(
            (
                (place(each.poll.at), f"{templates.absolute(each.poll.at)}: {each.poll.status or 'no answer'}")
                for each in seen
            ),
            "polls",
        )
    )


def _group(places: Iterable[tuple[float, str]], noun: str) -> Iterable[Mark]:
    """Those that would lie on one another as one."""
    held: list[tuple[float, str]] = []
    for each in places:
        if held and each[0] - held[0][0] >= 2.5:
            yield _mark(held, noun)
            held = []
        held.append(each)
    if held:
        yield _mark(held, noun)


def _mark(held: Sequence[tuple[float, str]], noun: str) -> Mark:
    words = held[0][1] if len(held) == 1 else f"{len(held)} {noun} from {held[0][1]}"
    return Mark(held[0][0], len(held), words)


def _skipped(seen: Sequence[ObservedPoll], begin: Instant, end: Instant, place: Any) -> Iterable[Band]:
    """Whole hours that the feed asks to be left out, by what it said last before them."""
    hours = range(int(begin // 3600), int(end // 3600) + 1)
    at, schedule, since = 0, seen[0].schedule, None
    for hour in [*hours, None]:
        instant = hour * 3600.0 if hour is not None else end
        while at < len(seen) and seen[at].poll.at <= max(instant, begin):
            schedule = seen[at].schedule
            at += 1
        skips = hour is not None and is_skipped(schedule, instant)
        if skips and since is None:
            since = instant
        elif not skips and since is not None:
            x = place(since)
            yield Band(
                x,
                round(max(1.0, place(instant) - x), 1),
                f"to be skipped: {templates.absolute(since)}, {span(instant - since)}",
            )
            since = None


def _faults(seen: Sequence[ObservedPoll], end: Instant, place: Any) -> Iterable[Band]:
    """From the first answer that something was wrong with to the next that was well."""
    since, words = None, ""
    for each, following in [*pairwise(seen), (seen[-1], None)]:
        wrong = _fault_names(each)
        if wrong and since is None:
            since, words = each.poll.at, wrong
        until = following.poll.at if following is not None else end
        next_is_well = following is None or not _fault_names(following)
        if since is not None and next_is_well:
            x = place(since)
            yield Band(x, round(max(2.0, place(until) - x), 1), f"{words}, from {templates.absolute(since)}")
            since = None


def _fault_names(seen: ObservedPoll) -> str:
    """What the origin did wrong; where it sent the reader elsewhere is seen in a row of its own."""
    if seen.poll.status in REDIRECTS:
        return ""
    return ", ".join(seen.faults) or (str(seen.poll.status) if seen.poll.status >= 400 else "")


def with_code(text: str) -> Markup:
    """A Note's words: what stands between backticks is code."""
    parts = [
        escape(part) if at % 2 == 0 else Markup("<code>{}</code>").format(part)
        for at, part in enumerate(text.split("`"))
    ]
    return Markup("").join(parts)


def _days(begin: Instant, end: Instant, place: Any) -> Iterable[tuple[float, str]]:
    """Where days begin, and hours between them where there is room; no more than fit."""
    steps = (3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000, 1e9)
    step = next(each for each in steps if (end - begin) / each <= LABELS)
    # What stands too near to the end would be cut off.
    last = end - (end - begin) * LABEL / (WIDTH - LEFT - RIGHT) / 2
    at = -(-begin // step) * step
    while at <= last:
        moment = datetime.fromtimestamp(at, UTC)
        yield place(at), f"{moment:%H:%M}" if at % 86_400 else f"{moment:%a %d %b}"
        at += step
