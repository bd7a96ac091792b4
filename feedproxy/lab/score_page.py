"""Scores as a self-contained HTML page without scripts. The page has a light and a dark colour scheme, and fits phones.

A chart for each feed shows versions, skipped hours and days, and faults above the reader's polls. Each outcome of polls
has its own row, so that the chart can be read without colours.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.durations_and_sizes import span
from feedproxy.feed.schedule_hints import is_skipped
from feedproxy.http.date import parse_http_date
from feedproxy.lab.recording_scores import ObservedPoll, RecordingScores
from feedproxy.scoring import score_report
from feedproxy.scoring.grade import ReaderScore
from feedproxy.scoring.rule_weights import short_target
from feedproxy.scoring.scored_request import REDIRECTS
from feedproxy.web import templates
from feedproxy.web.display_formats import absolute

WIDTH, LEFT, RIGHT = 960, 150, 14
ROW, TOP = 26, 30
LABELS, LABEL = 9, 70
"""Maximum number of time labels in a chart, and the width of a label in pixels."""

LANES = (
    ("new", "something new"),
    ("same", "304: no change"),
    ("vain", "all again, no change"),
    ("moved", "redirected"),
    ("failed", "refused or failed"),
)
"""Outcomes of polls with their labels, in the order of the rows."""

REQUESTS_SHOWN = 12
"""The page lists at most this many requests for each finding."""


class Band(Struct, frozen=True):
    x: float
    width: float
    label: str


class Mark(Struct, frozen=True):
    """A poll in a chart, or several polls at one position."""

    x: float
    count: int
    label: str


class FeedChart(Struct, frozen=True):
    height: int
    lanes: tuple[tuple[str, str, int, tuple[Mark, ...]], ...]
    """Rows of the chart: CSS class, label, y coordinate and marks."""
    versions: tuple[Mark, ...]
    skipped: tuple[Band, ...]
    faults: tuple[Band, ...]
    wrong: str
    """Names of the faults, separated by commas."""
    days: tuple[tuple[float, str], ...]
    label: str


def render_html(graded: RecordingScores) -> str:
    """Return the page as HTML."""
    readers = [_reader_context(score, polls) for score, polls in zip(graded.scores, graded.polls, strict=True)]
    body = templates.page(
        "score.html",
        title="How these readers behave",
        readers=readers,
        width=WIDTH,
        left=LEFT,
        most=REQUESTS_SHOWN,
    )
    return body.decode()


def _reader_context(score: ReaderScore, polls: Any) -> dict[str, Any]:
    instants = [observation.poll.at for observations in polls.values() for observation in observations]
    begin, end = min(instants), max(instants)
    return {
        "name": score_report.display_name(score),
        "score": score,
        "begin": absolute(begin),
        "length": span(end - begin),
        "feeds": [
            {
                "name": short_target(feed.feed),
                "score": feed,
                "interval": span(feed.interval) if feed.interval else "",
                "timeline": draw_chart(polls[feed.feed], begin, end),
            }
            for feed in score.feeds
        ],
    }


def draw_chart(observations: Sequence[ObservedPoll], begin: Instant, end: Instant) -> FeedChart:
    length = max(end - begin, 1.0)
    scale = (WIDTH - LEFT - RIGHT) / length

    def x_of(at: Instant) -> float:
        return round(LEFT + (min(max(at, begin), end) - begin) * scale, 1)

    requests = [observation.poll for observation in observations]
    outcomes = list(zip(requests, _poll_outcomes(observations), strict=True))
    lanes: list[tuple[str, str, int, tuple[Mark, ...]]] = []
    for kind, label in LANES:
        polls = [poll for poll, outcome in outcomes if outcome == kind]
        if polls:
            positions = ((x_of(poll.at), f"{absolute(poll.at)}: {poll.status or 'no answer'}") for poll in polls)
            lanes.append((kind, label, TOP + ROW * (len(lanes) + 1), tuple(_group(positions, "polls"))))
    counts = ", ".join(f"{sum(mark.count for mark in marks)} {label}" for _, label, _, marks in lanes)
    return FeedChart(
        height=TOP + ROW * (len(lanes) + 1) + 22,
        lanes=tuple(lanes),
        versions=tuple(_group(((x_of(at), absolute(at)) for at in _version_times(observations)), "new version")),
        skipped=tuple(_skipped_bands(observations, begin, end, x_of)),
        faults=tuple(_fault_bands(observations, end, x_of)),
        wrong=", ".join(dict.fromkeys(label for observation in observations if (label := _fault_names(observation)))),
        days=tuple(_time_labels(begin, end, x_of)),
        label=f"{len(observations)} requests in {span(length)}: {counts}",
    )


def _poll_outcomes(observations: Iterable[ObservedPoll]) -> Iterable[str]:
    digest = ""
    for observation in observations:
        poll = observation.poll
        if poll.status in REDIRECTS or (poll.content is not None and poll.content.relocation is not None):
            yield "moved"
        elif poll.status == 304:
            yield "same"
        elif poll.is_success:
            yield "vain" if poll.status == 200 and observation.digest and observation.digest == digest else "new"
            digest = observation.digest
        else:
            yield "failed"


def _version_times(observations: Sequence[ObservedPoll]) -> Iterable[Instant]:
    """Yield the instants of new versions after the first version: the time of the first response with the version, or
    its Last-Modified if this lies between the previous response and this response."""
    digest, before = "", 0.0
    for observation in observations:
        poll = observation.poll
        if poll.is_success and poll.status in (200, 226) and observation.digest and observation.digest != digest:
            changed = parse_http_date(poll.answer.get("last-modified") or "", poll.at)
            if digest:
                yield changed if changed is not None and before <= changed <= poll.at else poll.at
            digest = observation.digest
        before = poll.at


def _group(positions: Iterable[tuple[float, str]], noun: str) -> Iterable[Mark]:
    """Yield marks for pairs of a position in pixels and a label. Positions that would overlap share a mark. Its label
    is their number and `noun`, such as "3 polls"."""
    close: list[tuple[float, str]] = []
    for mark in positions:
        if close and mark[0] - close[0][0] >= 2.5:
            yield _make_mark(close, noun)
            close = []
        close.append(mark)
    if close:
        yield _make_mark(close, noun)


def _make_mark(close: Sequence[tuple[float, str]], noun: str) -> Mark:
    label = close[0][1] if len(close) == 1 else f"{len(close)} {noun} from {close[0][1]}"
    return Mark(close[0][0], len(close), label)


def _skipped_bands(observations: Sequence[ObservedPoll], begin: Instant, end: Instant, x_of: Any) -> Iterable[Band]:
    """Yield the periods that the feed's latest skipHours and skipDays exclude, from `begin` to `end`. `x_of` returns
    the position of an instant in pixels."""
    hours = range(int(begin // 3600), int(end // 3600) + 1)
    at, schedule, since = 0, observations[0].schedule, None
    for hour in [*hours, None]:
        instant = hour * 3600.0 if hour is not None else end
        while at < len(observations) and observations[at].poll.at <= max(instant, begin):
            schedule = observations[at].schedule
            at += 1
        skips = hour is not None and is_skipped(schedule, instant)
        if skips and since is None:
            since = instant
        elif not skips and since is not None:
            x = x_of(since)
            yield Band(
                x,
                round(max(1.0, x_of(instant) - x), 1),
                f"to be skipped: {absolute(since)}, {span(instant - since)}",
            )
            since = None


def _fault_bands(observations: Sequence[ObservedPoll], end: Instant, x_of: Any) -> Iterable[Band]:
    """Yield the periods from a faulty response to the next response without a fault."""
    since, label = None, ""
    for observation, following in [*pairwise(observations), (observations[-1], None)]:
        wrong = _fault_names(observation)
        if wrong and since is None:
            since, label = observation.poll.at, wrong
        until = following.poll.at if following is not None else end
        next_is_well = following is None or not _fault_names(following)
        if since is not None and next_is_well:
            x = x_of(since)
            yield Band(x, round(max(2.0, x_of(until) - x), 1), f"{label}, from {absolute(since)}")
            since = None


def _fault_names(observation: ObservedPoll) -> str:
    """Return a text with the origin's faults or, if there are none, with the error status. Return "" if there is
    neither. For a redirect, always return "", because redirects have a row of their own."""
    if observation.poll.status in REDIRECTS:
        return ""
    return ", ".join(observation.faults) or (str(observation.poll.status) if observation.poll.status >= 400 else "")


def _time_labels(begin: Instant, end: Instant, x_of: Any) -> Iterable[tuple[float, str]]:
    """Yield at most LABELS labels for full days or full hours, each with its position in pixels."""
    steps = (3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000, 1e9)
    step = next(size for size in steps if (end - begin) / size <= LABELS)
    # Labels too near to the end would be cut off.
    last = end - (end - begin) * LABEL / (WIDTH - LEFT - RIGHT) / 2
    at = -(-begin // step) * step
    while at <= last:
        time = datetime.fromtimestamp(at, UTC)
        yield x_of(at), f"{time:%H:%M}" if at % 86_400 else f"{time:%a %d %b}"
        at += step
