"""Scores of recordings: a correct reader gets 100, and each fault of a reader its finding alone."""

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from feedproxy.clock import Instant
from feedproxy.http.message import Fields
from feedproxy.lab.record.exchange import Exchange, Recording, content_digest, merge_recordings
from feedproxy.lab.recording_scores import grade_recording
from feedproxy.lab.replay.faults import CATALOGUE
from feedproxy.lab.replay.replay_source import ReplayOptions
from feedproxy.notes import Level, Note, notes_of
from feedproxy.scoring import (
    client_hygiene_rules,
    conditional_request_rules,
    polling_interval_rules,
    redirect_and_gone_rules,
)
from feedproxy.scoring.grade import ReaderScore
from feedproxy.scoring.reader_names import secret_hash
from feedproxy.scoring.rule_weights import ReaderRule
from feedproxy.scoring.score_report import as_text
from tests.lab.behaviour import FEED, START, CorrectReader, document, own_date, play, world


def score_of(recording: Recording) -> ReaderScore:
    (found,) = grade_recording(recording).scores
    return found


def findings(score: ReaderScore, *levels: Level) -> set[type[Note]]:
    return {
        type(finding.note) for finding in score.findings if finding.note.level in (levels or (Level.WARN, Level.BAD))
    }


SITUATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing said": ({}, {}),
    "ttl": ({"extra": "<ttl>120</ttl>"}, {}),
    "max-age": ({"fields": [("Cache-Control", "max-age=5400")]}, {}),
    "max-age behind a cache": ({"fields": [("Cache-Control", "max-age=10800"), ("Age", "7200")]}, {}),
    "ttl behind a cache": (
        {"extra": "<ttl>180</ttl>", "fields": [("Cache-Control", "max-age=10800"), ("Age", "7200")]},
        {},
    ),
    "sy behind a cache": ({"fields": [("Age", "39600")]}, {"add": ["sy=daily/2"]}),
    "ttl of a stale copy": ({"extra": "<ttl>60</ttl>", "fields": [("Age", "7200")]}, {}),
    "skipHours": ({"extra": "<skipHours><hour>3</hour><hour>4</hour></skipHours>"}, {}),
    "skipDays": ({"extra": "<skipDays><day>Tuesday</day></skipDays>"}, {}),
    "sy": ({}, {"add": ["sy=daily/2"]}),
    "Retry-After": ({}, {"faults": ["retry-after-seconds@1d..26h"]}),
    "Retry-After for ever": ({}, {"faults": ["retry-after-huge@1d..26h"]}),
    "empty 429": ({}, {"faults": ["429@1d..30h"]}),
    "500": ({}, {"faults": ["500@1d..30h"]}),
    "301": ({}, {"faults": ["redirect-301@1d"]}),
    "308": ({}, {"faults": ["redirect-308@1d"]}),
    "302": ({}, {"faults": ["redirect-302@1d..2d"]}),
    "307": ({}, {"faults": ["redirect-307@1d..2d"]}),
    "loop": ({}, {"faults": ["redirect-loop@1d..30h"]}),
    "permanent loop": ({}, {"faults": ["redirect-loop=301@1d..40h"]}),
    "chain": ({}, {"faults": ["redirect-chain@1d"]}),
    "XML redirect": ({}, {"faults": ["xml-redirect@1d"]}),
    "410": ({}, {"faults": ["410@1d"]}),
    "XML gone": ({}, {"faults": ["xml-gone@1d"]}),
    "no validators": ({}, {"faults": ["no-validators"]}),
    "weak tags": ({}, {"faults": ["weak-tag"]}),
    "unquoted tags": ({}, {"faults": ["unquoted-tag"]}),
    "gzip tags": ({}, {"faults": ["gzip-tag"]}),
    "changing tags": ({}, {"faults": ["changing-tag"]}),
    "frozen 304": ({}, {"faults": ["frozen-304"]}),
    "clock skew": ({"fields": [("Cache-Control", "max-age=3600")]}, {"faults": ["clock-skew"]}),
    "future Last-Modified": ({}, {"faults": ["future-last-modified"]}),
    "challenge": ({}, {"faults": ["challenge@1d..30h"]}),
    "truncated gzip": ({}, {"faults": ["truncated-gzip@1d..30h"]}),
    "nonsense": ({}, {"faults": ["ttl=-5", "skip-hours"]}),
}


@functools.cache
def score_in(situation: str) -> ReaderScore:
    """Return the score of a correct reader, which is played once for all tests."""
    world_options, replay_options = SITUATIONS[situation]
    return score_of(play(CorrectReader(), world(**world_options), options=ReplayOptions(**replay_options)))


@pytest.mark.parametrize("name", SITUATIONS)
def test_correct_reader_scores_100(name: str) -> None:
    score = score_in(name)

    assert findings(score) == set()
    assert score.grade == 100
    assert len(score.findings) >= 5, "praise is a level, too"


@pytest.mark.parametrize(("count", "words"), [(1, ": 1 request, "), (2, ": 2 requests, ")])
def test_report_counts_requests_in_the_right_number(count: int, words: str) -> None:
    score = score_of(play(CorrectReader(), world()))

    assert words in as_text([replace(score, cost=dataclasses.replace(score.cost, requests=count))])


class Variant(CorrectReader):
    """A correct reader with changed attributes or methods."""


def habit(**changes: Any) -> type[CorrectReader]:
    return type("Variant", (CorrectReader,), changes)


def _only(name: str) -> Callable[[CorrectReader, Instant], list[tuple[str, str]]]:
    def conditions(self: CorrectReader, now: Instant) -> list[tuple[str, str]]:
        return [(key, value) for key, value in CorrectReader.conditions(self, now) if key == name]

    return conditions


def _with(
    **lines: Callable[[CorrectReader, Instant], str],
) -> Callable[[CorrectReader, Instant], list[tuple[str, str]]]:
    """Conditions with the values of `lines` in place of the correct ones."""

    def conditions(self: CorrectReader, now: Instant) -> list[tuple[str, str]]:
        fields = dict(CorrectReader.conditions(self, now))
        if fields or not self.tag:
            for name, value in lines.items():
                if (text := value(self, now)) and self.base:
                    fields[name.replace("_", "-")] = text
        return list(fields.items())

    return conditions


def _first_only(tag: bool, modified: bool) -> Callable[[CorrectReader, str, str], None]:
    """Keeps the first validators for ever."""

    def keep(self: CorrectReader, new_tag: str, new_modified: str) -> None:
        self.tag = (self.tag or new_tag) if tag else new_tag
        self.modified = (self.modified or new_modified) if modified else new_modified

    return keep


def _extra_line(name: str, value: str) -> Callable[[CorrectReader, Instant], list[tuple[str, str]]]:
    return lambda self, now: [*CorrectReader.fields(self, now), (name, value)]


def _without_line(name: str) -> Callable[[CorrectReader, Instant], list[tuple[str, str]]]:
    return lambda self, now: [line for line in CorrectReader.fields(self, now) if line[0] != name]


def _two_copies(self: CorrectReader, now: Instant) -> list[tuple[str, str]]:
    """Every second poll sends the conditions from before the last change."""
    kept = self.__dict__.setdefault("kept", [])
    current = CorrectReader.conditions(self, now)
    if current and (not kept or kept[-1] != current):
        kept.append(current)
        self.__dict__["turns"] = 0
    self.__dict__["turns"] = self.__dict__.get("turns", 0) + 1
    return kept[-2] if len(kept) > 1 and self.__dict__["turns"] % 2 == 0 else current


def _keep_what_broke(self: CorrectReader, exchange: Exchange) -> None:
    CorrectReader.broken(self, exchange)
    self.keep(exchange.fields.get("etag") or "", exchange.fields.get("last-modified") or "")


def _always(seconds: float) -> Callable[[CorrectReader], float]:
    return lambda self: seconds


def _adopt_always(self: CorrectReader, exchange: Exchange, body: bytes, is_permanent: bool) -> str:
    leads_to = CorrectReader.take(self, exchange, body, is_permanent)
    if exchange.status in (302, 303, 307):
        self.feed = leads_to
    return leads_to


def _never(*_: Any) -> None:
    """Do nothing."""


HOURLY = {"wait": _always(3600)}

FAULTY_READERS: dict[type[Note], tuple[type[CorrectReader], dict[str, Any], dict[str, Any]]] = {
    conditional_request_rules.UNCONDITIONAL_REPEAT: (habit(conditions=lambda self, now: []), {}, {}),
    conditional_request_rules.ETAG_NOT_RETURNED: (habit(conditions=_only("If-Modified-Since")), {}, {}),
    conditional_request_rules.ETAG_ALTERED: (
        habit(conditions=_with(If_None_Match=lambda self, now: self.tag.strip('"'))),
        {},
        {},
    ),
    conditional_request_rules.LAST_MODIFIED_ALTERED: (
        habit(conditions=_with(If_Modified_Since=lambda self, now: self.modified.replace("GMT", "+0000"))),
        {},
        {},
    ),
    conditional_request_rules.OLD_ETAG: (
        habit(keep=_first_only(tag=True, modified=False), conditions=_only("If-None-Match")),
        {},
        {},
    ),
    conditional_request_rules.OLD_LAST_MODIFIED: (
        habit(keep=_first_only(tag=False, modified=True), conditions=_only("If-Modified-Since")),
        {},
        {"strip": ["etag"]},
    ),
    conditional_request_rules.VALIDATOR_REVERTED: (habit(conditions=_two_copies), {}, {}),
    conditional_request_rules.MIXED_VALIDATORS: (habit(keep=_first_only(tag=False, modified=True)), {}, {}),
    conditional_request_rules.UNKNOWN_ETAG: (
        habit(conditions=_with(If_None_Match=lambda self, now: '"of-my-own"')),
        {},
        {"strip": ["last-modified"]},
    ),
    conditional_request_rules.UNKNOWN_LAST_MODIFIED: (
        habit(conditions=_with(If_Modified_Since=lambda self, now: own_date(self.base))),
        {},
        {"add": ["Date-Free: yes"]},
    ),
    conditional_request_rules.VALIDATOR_OF_FAILURE: (
        habit(broken=_keep_what_broke),
        {},
        {"faults": ["truncated-gzip@1d..26h"]},
    ),
    polling_interval_rules.POLLED_WITHIN_MAX_AGE: (
        habit(**HOURLY),
        {"fields": [("Cache-Control", "max-age=7200")]},
        {},
    ),
    polling_interval_rules.POLLED_WITHIN_TTL: (habit(**HOURLY), {"extra": "<ttl>120</ttl>"}, {}),
    polling_interval_rules.POLLED_WITHIN_UPDATE_PERIOD: (habit(**HOURLY), {}, {"add": ["sy=daily/2"]}),
    polling_interval_rules.POLLED_TOO_OFTEN: (habit(wait=_always(300)), {}, {}),
    polling_interval_rules.POLLED_IN_SKIP_HOUR: (
        habit(due=lambda self, now: now >= self.base + 3600),
        {"extra": "<skipHours><hour>3</hour></skipHours>"},
        {},
    ),
    polling_interval_rules.POLLED_ON_SKIP_DAY: (
        habit(due=lambda self, now: now >= self.base + 3600),
        {"extra": "<skipDays><day>Tuesday</day></skipDays>"},
        {},
    ),
    polling_interval_rules.POLLED_ON_THE_HOUR: (habit(due=lambda self, now: now % 3600 == 0), {}, {}),
    polling_interval_rules.RETRY_AFTER_IGNORED: (
        habit(refused=lambda self, exchange: setattr(self, "not_before", exchange.at + 3600)),
        {},
        {"faults": ["retry-after-seconds=7200@1d..30h"]},
    ),
    polling_interval_rules.RETRIED_SOON_AFTER_REFUSAL: (
        habit(refused=lambda self, exchange: setattr(self, "not_before", exchange.at + 1200)),
        {},
        {"faults": ["429@1d..30h"]},
    ),
    polling_interval_rules.RETRIED_SOON_AFTER_FAILURE: (
        habit(
            take=lambda self, exchange, body, is_permanent: (
                "" if exchange.status == 500 else CorrectReader.take(self, exchange, body, is_permanent)
            )
        ),
        {},
        {"faults": ["500@1d..26h"]},
    ),
    redirect_and_gone_rules.REDIRECT_NOT_FOLLOWED: (
        habit(follows=lambda self, status: False, due=lambda self, now: now % 3600 == 420),
        {},
        {"faults": ["redirect-302@1d..30h"]},
    ),
    redirect_and_gone_rules.REDIRECT_LOOP_FOLLOWED: (
        habit(detects_loops=False, hops_max=30),
        {},
        {"faults": ["redirect-loop@1d..30h"]},
    ),
    redirect_and_gone_rules.PERMANENT_MOVE_IGNORED: (habit(adopt=_never), {}, {"faults": ["redirect-301@1d"]}),
    redirect_and_gone_rules.XML_REDIRECT_IGNORED: (
        habit(adopt=_never, due=lambda self, now: now % 3600 == 420),
        {},
        {"faults": ["xml-redirect@1d"]},
    ),
    redirect_and_gone_rules.TEMPORARY_MOVE_ADOPTED: (habit(take=_adopt_always), {}, {"faults": ["redirect-302@1d"]}),
    redirect_and_gone_rules.GONE_IGNORED: (
        habit(end=lambda self: setattr(self, "not_before", self.base + 3600), due=lambda self, now: now % 3600 == 420),
        {},
        {"faults": ["410@1d"]},
    ),
    redirect_and_gone_rules.XML_GONE_IGNORED: (
        habit(end=_never, due=lambda self, now: now % 3600 == 420),
        {},
        {"faults": ["xml-gone@1d"]},
    ),
    client_hygiene_rules.COMPRESSION_NOT_ACCEPTED: (habit(fields=_without_line("Accept-Encoding")), {}, {}),
    client_hygiene_rules.HTTP_1_0_USED: (habit(version="HTTP/1.0"), {}, {}),
    client_hygiene_rules.USER_AGENT_MISSING: (habit(fields=_without_line("User-Agent")), {}, {}),
    client_hygiene_rules.LIBRARY_USER_AGENT: (
        habit(agent="python-requests/2.32.0", fields=_extra_line("From", "me@example.com")),
        {},
        {},
    ),
    client_hygiene_rules.CONTACT_MISSING: (habit(agent="Perfect/1.0"), {}, {}),
    client_hygiene_rules.BROWSER_USER_AGENT: (
        habit(agent="Mozilla/5.0 (X11; Linux x86_64; +https://example.com) Gecko/20100101 Firefox/140.0"),
        {},
        {},
    ),
    client_hygiene_rules.COOKIES_SENT: (habit(fields=_extra_line("Cookie", "redacted")), {}, {}),
    client_hygiene_rules.REFERRER_SENT: (habit(fields=_extra_line("Referer", "https://example.com/")), {}, {}),
    client_hygiene_rules.CACHE_BUSTING_QUERY: (habit(address_of=lambda self, now: f"{self.feed}?_={int(now)}"), {}, {}),
    client_hygiene_rules.CONNECTION_NOT_REUSED: (
        habit(connection=lambda self, poll, hop: f"{poll}.{hop}"),
        {},
        {"faults": ["redirect-307"]},
    ),
}


@pytest.mark.parametrize(
    ("age", "expected"),
    [(3600, polling_interval_rules.POLLED_WITHIN_TTL), (7200, polling_interval_rules.POLLED_TOO_OFTEN)],
)
def test_poll_is_too_early_before_the_rest_of_ttl_or_15_minutes(age: int, expected: type[Note]) -> None:
    """A ttl of two hours, and answers of a cache that has stored the feed for `age` seconds."""
    recording = _hourly(200, 200, 200, hour=600, document=document(3, "<ttl>120</ttl>"), Age=str(age))

    assert findings(score_of(recording)) == {expected}


@pytest.mark.parametrize(
    ("status", "gap", "fields", "words"),
    [
        (200, 605, {"Cache-Control": "max-age=640"}, "10 min 5 s after .*; the answer was fresh for 10 min 40 s"),
        (429, 3620, {"Retry-After": "3655"}, "1 h 20 s after 429 with Retry-After: 1 h 55 s"),
        (429, 0.9, {"Retry-After": "1"}, "0 s after 429 with Retry-After: 1 s"),
    ],
)
def test_evidence_of_an_early_poll_never_reads_like_the_limit(
    status: int, gap: float, fields: dict[str, Any], words: str
) -> None:
    (reader,) = grade_recording(_hourly(200, status, status, hour=gap, **fields)).scores

    evidence = [request.reason for finding in reader.findings for request in finding.requests]
    assert any(re.fullmatch(words, text) for text in evidence), evidence


@pytest.mark.parametrize("date", ["Mon, 05 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_retry_after_with_a_past_date_lets_the_reader_poll_at_once(date: str) -> None:
    fields: dict[str, Any] = {"Retry-After": date}
    recording = _hourly(200, 429, 200, hour=1900, **fields)

    assert not findings(score_of(recording)) & {
        polling_interval_rules.RETRIED_SOON_AFTER_REFUSAL,
        polling_interval_rules.RETRY_AFTER_IGNORED,
    }


def test_answers_of_the_readers_own_cache_are_not_graded() -> None:
    recording = play(CorrectReader())
    first = recording.exchanges[0]
    cached = [replace(exchange, is_unsent=True) for exchange in _hourly(200, 200, 200, hour=1200).exchanges]

    score = score_of(replace(recording, exchanges=(first, *cached, *recording.exchanges[1:])))

    assert (score.tallies, score.cost) == (score_of(recording).tallies, score_of(recording).cost)
    assert findings(score) == set()


@pytest.mark.parametrize(("tag", "kept"), [('"empty"', False), ("", False), ('"empty"', True)])
def test_empty_answer_is_a_failure_and_replaces_no_validators(tag: str, kept: bool) -> None:
    recording = play(CorrectReader())
    broken = recording.exchanges[5]
    answer = Fields([("Content-Type", "application/rss+xml"), *([("ETag", tag)] if tag else [])])
    empty = replace(broken, status=200, fields=answer, digest="", size=0)
    following = recording.exchanges[6]
    if kept:
        fields = following.request.fields.with_field("If-None-Match", tag)
        following = replace(following, request=replace(following.request, fields=fields))
    exchanges = (*recording.exchanges[:5], empty, following, *recording.exchanges[7:])

    expected = {conditional_request_rules.VALIDATOR_OF_FAILURE} if kept else set()
    assert findings(score_of(replace(recording, exchanges=exchanges))) == expected


def test_validators_of_a_truncated_answer_stay_wrong_after_a_304() -> None:
    """A server answers 304 to them, too, and the reader misses entries until it drops them."""
    recording = play(CorrectReader())
    truncated = replace(
        recording.exchanges[1], status=200, fields=Fields([("ETag", '"truncated"')]), size=500, raw=True
    )
    condition = Fields([("If-None-Match", '"truncated"')])
    later = [
        replace(
            exchange,
            request=replace(exchange.request, fields=exchange.request.fields.updated(condition)),
            fields=truncated.fields,
        )
        for exchange in recording.exchanges[2:6]
    ]
    exchanges = (recording.exchanges[0], truncated, *later)

    score = score_of(replace(recording, exchanges=exchanges))

    assert {exchange.status for exchange in later} == {304}
    assert score.tallies[ReaderRule.CONDITIONS].broken == len(later)


@pytest.mark.parametrize(
    ("media_type", "size", "is_feed"),
    [("application/rss+xml", 900, True), ("application/rss+xml", 0, False), ("text/html", 900, False)],
)
def test_feed_whose_content_is_missing_is_known_by_its_media_type(media_type: str, size: int, is_feed: bool) -> None:
    """Another tool may write a recording without contents."""
    fields: dict[str, Any] = {"Content-Type": media_type}
    exchanges = [replace(exchange, digest="", size=size) for exchange in _hourly(200, 200, 200, **fields).exchanges]

    assert bool(grade_recording(Recording(tuple(exchanges))).scores) == is_feed


class _ReaderWithCopyOfEachAddress(CorrectReader):
    """A reader with an HTTP cache below: each address has a copy and validators of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.validators: dict[str, tuple[str, str]] = {}

    def address_of(self, now: Instant) -> str:
        self.tag, self.modified = self.validators.get(self.feed, ("", ""))
        return self.feed

    def take(self, exchange: Exchange, body: bytes, is_permanent: bool) -> str:
        location = super().take(exchange, body, is_permanent)
        if exchange.status == 200:
            self.validators[exchange.request.target] = (self.tag, self.modified)
        if location:
            self.tag, self.modified = self.validators.get(location, ("", ""))
        return location


@pytest.mark.parametrize("fault", ["redirect-302@8h..1d", "redirect-307@8h..1d"])
def test_reader_may_have_a_copy_for_each_address(fault: str) -> None:
    """After the redirect, the first address is asked with the validators that it sent before."""
    score = score_of(play(_ReaderWithCopyOfEachAddress(), options=ReplayOptions(faults=[fault])))

    assert findings(score) == set()


def test_immediate_retry_after_404_gets_finding() -> None:
    recording = _hourly(200, 404, 404, 404, hour=60)

    assert polling_interval_rules.RETRIED_SOON_AFTER_FAILURE in findings(score_of(recording))


def _hourly(*statuses: int, hour: float = 3600, document: bytes = document(3), **fields: str) -> Recording:
    """Return a recording of unconditional requests every `hour` seconds, with these statuses and fields."""
    base = play(CorrectReader(), days=1).exchanges[0]
    digest = content_digest(document)
    exchanges = [
        replace(
            base,
            at=base.at + hour * number,
            status=status,
            fields=Fields(fields.items()),
            digest=digest if status == 200 else "",
        )
        for number, status in enumerate(statuses)
    ]
    return Recording(tuple(exchanges), {digest: document})


def test_reader_need_not_detect_redirect_loops() -> None:
    options = ReplayOptions(faults=["redirect-loop@1d..30h"])

    assert findings(score_of(play(habit(detects_loops=False)(), options=options))) == set()


@pytest.mark.parametrize(("hops", "expected"), [(20, set()), (25, {redirect_and_gone_rules.REDIRECT_LOOP_FOLLOWED})])
def test_reader_should_stop_in_an_endless_chain_of_redirects(hops: int, expected: set[type[Note]]) -> None:
    base = play(CorrectReader(), days=1).exchanges[0]
    chain = [
        replace(
            base,
            at=base.at + 3600 + hop,
            request=replace(base.request, target=base.request.target if not hop else f"http://example.com/{hop}"),
            status=302,
            fields=Fields([("Location", f"/{hop + 1}")]),
            digest="",
        )
        for hop in range(hops + 1)
    ]
    recording = Recording((base, *chain), {base.digest: document(3)})

    assert findings(score_of(recording)) - {client_hygiene_rules.FEW_REQUESTS} == expected


def test_tag_of_another_feed_is_reported_as_unknown_for_this_feed() -> None:
    base = play(CorrectReader(), days=1).exchanges[0]
    fields = base.request.fields.with_field("If-None-Match", '"other"')
    other = replace(
        base,
        at=base.at + 1,
        request=replace(base.request, target="http://example.com/other"),
        fields=base.fields.with_field("ETag", '"other"'),
    )
    again = replace(base, at=base.at + 3600, request=replace(base.request, fields=fields))

    score = score_of(Recording((base, other, again), {base.digest: document(3)}))

    (finding,) = (found for found in score.findings if isinstance(found.note, conditional_request_rules.UNKNOWN_ETAG))
    assert finding.requests[0].reason == 'If-None-Match "other" was never sent by the server for this feed'


def test_reader_need_not_adopt_permanent_move_to_missing_page() -> None:
    base = play(CorrectReader(), days=1).exchanges[0]
    exchanges = [base]
    for hour in range(1, 8):
        fields = Fields([*base.request.fields, ("If-None-Match", base.fields.get("etag") or "")])
        request = replace(base.request, fields=fields)
        moved = Fields([("Location", "/moved")])
        exchanges += [
            replace(base, at=base.at + 3600 * hour, request=request, status=301, fields=moved, digest=""),
            replace(
                base,
                at=base.at + 3600 * hour + 1,
                request=replace(request, target="http://example.com/moved"),
                status=404,
                fields=Fields(),
                digest="",
            ),
        ]
    recording = Recording(tuple(exchanges), {base.digest: document(3)})

    assert findings(score_of(recording)) == set()


@pytest.mark.parametrize("kind", FAULTY_READERS, ids=lambda kind: kind.id())
def test_faulty_reader_gets_its_finding_alone(kind: type[Note]) -> None:
    reader, world_options, replay_options = FAULTY_READERS[kind]

    score = score_of(play(reader(), world(**world_options), options=ReplayOptions(**replay_options), days=3))

    assert findings(score) == {kind}
    assert score.grade < 100
    (found,) = (finding for finding in score.findings if type(finding.note) is kind)
    assert found.count == len(found.requests) > 0
    assert all(request.reason for request in found.requests), "each request has a reason"


def test_library_user_agent_also_lacks_contact() -> None:
    score = score_of(play(habit(agent="python-requests/2.32.0")()))

    assert findings(score) == {client_hygiene_rules.LIBRARY_USER_AGENT, client_hygiene_rules.CONTACT_MISSING}


def test_old_etag_is_found_beside_current_date() -> None:
    score = score_of(play(habit(keep=_first_only(tag=True, modified=False))()))

    assert findings(score) == {conditional_request_rules.OLD_ETAG}


def _delta_exchanges(second: str) -> Recording:
    """A 200, a 226, and a third request with the tag `second`."""
    base = play(CorrectReader(), days=1).exchanges[0]
    common = [("User-Agent", CorrectReader.agent), ("Accept-Encoding", "gzip"), ("A-IM", "feed")]

    def make_exchange(number: int, tag: str) -> Exchange:
        fields = Fields([*common, *([("If-None-Match", tag)] if tag else [])])
        return replace(
            base,
            at=base.at + 3600 * number,
            request=replace(base.request, fields=fields),
            fields=Fields([("ETag", f'"{number}"'), ("Content-Type", "application/rss+xml")]),
            connection=str(number),
        )

    exchanges = (
        make_exchange(0, ""),
        replace(make_exchange(1, '"0"'), status=226),
        replace(make_exchange(2, second), status=226),
    )
    return Recording(exchanges, {base.digest: document(3)})


def test_delta_reader_with_tag_of_226_gets_positive_finding() -> None:
    score = score_of(_delta_exchanges('"1"'))

    assert findings(score) == set()
    assert conditional_request_rules.DELTAS_ACCEPTED in findings(score, Level.GOOD)


def test_delta_reader_without_tag_of_226_gets_finding() -> None:
    assert findings(score_of(_delta_exchanges('"0"'))) == {conditional_request_rules.ETAG_OF_226_NOT_RETURNED}


# -- readers that send more requests than a poll needs


def _with_requests(recording: Recording, expand: Callable[[Exchange], list[Exchange]]) -> Recording:
    exchanges = tuple(request for exchange in recording.exchanges for request in expand(exchange))
    return Recording(exchanges, recording.contents, recording.until)


def _head_of(exchange: Exchange) -> Exchange:
    fields = exchange.request.fields.without("if-none-match", "if-modified-since")
    request = replace(exchange.request, method="HEAD", fields=fields)
    return replace(exchange, at=exchange.at - 1, request=request, status=200, digest="", size=0)


def test_head_before_get_is_found_alone() -> None:
    score = score_of(_with_requests(play(CorrectReader()), lambda exchange: [_head_of(exchange), exchange]))

    assert findings(score) == {client_hygiene_rules.HEAD_BEFORE_GET}
    assert score.feeds[0].interval == pytest.approx(1800, abs=1), "HEAD and GET are one poll"


def test_reader_that_polls_by_head_need_not_send_conditions() -> None:
    recording = play(CorrectReader())

    score = score_of(
        _with_requests(recording, lambda exchange: [_head_of(exchange) if exchange.status == 304 else exchange])
    )

    assert findings(score) == set()


def test_reader_that_polls_by_conditional_head_is_graded_without_findings() -> None:
    """The feed changes twice, and the reader never sends a GET."""
    base = play(CorrectReader(), days=1).exchanges[0]
    exchanges, condition = list[Exchange](), ""
    for hour in range(9):
        tag = f'"version-{hour // 3}"'
        fields = base.request.fields.with_field("If-None-Match", condition) if condition else base.request.fields
        request = replace(base.request, method="HEAD", fields=fields)
        answered = Fields([("ETag", tag), ("Content-Type", "application/rss+xml; charset=utf-8")])
        status = 304 if tag == condition else 200
        at = base.at + 3600 * hour
        exchanges.append(replace(base, at=at, request=request, status=status, fields=answered, digest="", size=0))
        condition = tag

    assert findings(score_of(Recording(tuple(exchanges)))) == set()
    assert score_of(Recording(tuple(exchanges[:1]))), "one HEAD shows by its media type that the target is a feed"


def test_duplicate_request_is_found_without_blame_for_its_validators() -> None:
    """The second request was sent before the first answer with new validators came."""
    recording = _with_requests(
        play(CorrectReader()),
        lambda exchange: [exchange, replace(exchange, at=exchange.at + 0.01, connection="2")],
    )

    assert findings(score_of(recording)) == {polling_interval_rules.DUPLICATE_REQUEST}


@pytest.mark.parametrize("status", [206, 200])
def test_rest_of_incomplete_answer_may_be_fetched_at_once(status: int) -> None:
    """The second request has Range and If-Range; the server sends the rest or, if the feed has changed, the whole."""
    base = play(CorrectReader(), days=1).exchanges[0]
    tag = base.fields.get("etag") or ""

    def request(at: float, *lines: tuple[str, str], **changes: Any) -> Exchange:
        fields = Fields([*base.request.fields, *lines])
        return replace(base, at=base.at + at, request=replace(base.request, fields=fields), **changes)

    rest = request(
        2, ("Range", "bytes=100-"), ("If-Range", tag), status=status, digest="" if status == 206 else base.digest
    )
    polls = [request(3600 * hour, ("If-None-Match", tag), status=304, digest="") for hour in range(1, 8)]
    recording = Recording((replace(base, faults=("reset",)), rest, *polls), {base.digest: document(3)})

    assert findings(score_of(recording)) == set()


# -- User-Agents


def _with_agents(agents: Callable[[int], str]) -> Recording:
    recording = play(CorrectReader(), world(count=1), days=1)
    exchanges = [
        replace(
            exchange,
            request=replace(exchange.request, fields=exchange.request.fields.with_field("User-Agent", agents(number))),
        )
        for number, exchange in enumerate(recording.exchanges)
    ]
    return replace(recording, exchanges=tuple(exchanges))


def test_reader_with_new_user_agent_in_each_request_is_one_reader() -> None:
    score = score_of(_with_agents(lambda number: f"Perfect/1.{number} (+https://example.com/perfect)"))

    assert findings(score) == {client_hygiene_rules.USER_AGENT_CHANGES}


@pytest.mark.parametrize("count", [2, 8])
def test_readers_of_one_product_behind_one_address_are_several(count: int) -> None:
    recording = _with_agents(lambda number: f"Perfect/1.{number % count} (+https://example.com/perfect)")

    scores = grade_recording(recording).scores
    (merged,) = grade_recording(recording, one_reader=True).scores

    assert [findings(score) for score in scores] == [set()] * count
    assert findings(merged) == {client_hygiene_rules.USER_AGENT_CHANGES}, "in the lab there is one reader"


@pytest.mark.parametrize("browser", ["Chrome/140.0.0.0 Safari/537.36", "HeadlessChrome/156.0.0.0 Safari/537.36"])
def test_browser_names_no_reader(browser: str) -> None:
    agent = f"Mozilla/5.0 (X11; Linux x86_64; +https://example.com) AppleWebKit/537.36 (KHTML, like Gecko) {browser}"

    assert findings(score_of(play(habit(agent=agent)()))) == {client_hygiene_rules.BROWSER_USER_AGENT}


def test_conditional_request_without_etag_costs_less_than_an_unconditional_request() -> None:
    without_tag = score_of(play(habit(conditions=_only("If-Modified-Since"))()))
    unconditional = score_of(play(habit(conditions=lambda self, now: [])()))

    assert unconditional.grade < without_tag.grade - 20


def test_incomplete_answer_is_named_in_the_evidence() -> None:
    reader = habit(broken=lambda self, exchange: None, due=lambda self, now: True)

    score = score_of(play(reader(), days=0.1, options=ReplayOptions(faults=["reset"])))

    (retried,) = (
        finding for finding in score.findings if type(finding.note) is polling_interval_rules.RETRIED_SOON_AFTER_FAILURE
    )
    assert retried.requests[0].reason == "1 min after an incomplete 200"


@pytest.mark.parametrize(
    ("size", "expected"), [(8_000_000, set()), (64_000_000, {client_hygiene_rules.ENDLESS_ANSWER_READ})]
)
def test_reader_should_stop_reading_an_answer_without_end(size: int, expected: set[type[Note]]) -> None:
    recording = _with_requests(
        play(CorrectReader(), options=ReplayOptions(faults=["endless@1d..30h"])),
        lambda exchange: [replace(exchange, size=size) if exchange.faults else exchange],
    )

    assert findings(score_of(recording)) == expected


def test_costliest_finding_of_a_level_comes_first() -> None:
    """The lack of a contact shows in every request and costs little; half of the polls come before the ttl."""
    recording = _with_requests(
        play(habit(agent="Perfect/1.0")(), world(extra="<ttl>120</ttl>")),
        lambda exchange: [exchange, replace(exchange, at=exchange.at + 600)],
    )

    found = [type(finding.note) for finding in score_of(recording).findings if finding.note.level is Level.WARN]

    assert found == [polling_interval_rules.POLLED_WITHIN_TTL, client_hygiene_rules.CONTACT_MISSING]


def test_subscriber_count_gets_positive_finding_and_its_absence_behind_proxy_gets_info() -> None:
    counted = score_of(play(habit(agent="Perfect/1.0 (+https://example.com; 12 subscribers)")()))
    uncounted = score_of(play(habit(fields=_extra_line("Via", "1.1 cache"))()))

    assert client_hygiene_rules.SUBSCRIBERS_STATED in findings(counted, Level.GOOD)
    assert findings(uncounted, Level.INFO) == {client_hygiene_rules.SUBSCRIBERS_MISSING}
    assert counted.grade == uncounted.grade == 100


def test_single_poll_is_graded_with_finding_on_few_requests() -> None:
    score = score_of(play(CorrectReader(), days=0.01))

    assert client_hygiene_rules.FEW_REQUESTS in findings(score, Level.INFO)
    assert score.grade == 100


def test_faulty_readers_cover_every_finding() -> None:
    kinds = {kind for kind in _all_notes() if kind.level.is_finding}

    assert kinds == {
        *FAULTY_READERS,
        conditional_request_rules.ETAG_OF_226_NOT_RETURNED,
        client_hygiene_rules.HEAD_BEFORE_GET,
        client_hygiene_rules.ENDLESS_ANSWER_READ,
        client_hygiene_rules.USER_AGENT_CHANGES,
        polling_interval_rules.DUPLICATE_REQUEST,
    }


def _all_notes() -> set[type[Note]]:
    return {
        kind
        for module in (conditional_request_rules, polling_interval_rules, redirect_and_gone_rules, client_hygiene_rules)
        for kind in notes_of(module)
    }


def test_correct_readers_cover_every_positive_finding() -> None:
    counted = habit(agent="Perfect/1.0 (+https://example.com; 12 subscribers)", connection=lambda self, poll, hop: "1")
    plays = [play(counted(), options=ReplayOptions(faults=["redirect-302"])), _delta_exchanges('"1"')]
    scores = [score_in(situation) for situation in SITUATIONS] + [score_of(recording) for recording in plays]

    deserved = set[type[Note]]().union(*(findings(score, Level.GOOD) for score in scores))

    assert deserved == {kind for kind in _all_notes() if kind.level is Level.GOOD}


@pytest.mark.parametrize("fault", CATALOGUE)
@pytest.mark.parametrize("when", ["@1d..30h", ""])
def test_correct_reader_gets_no_finding_for_origin_faults(fault: str, when: str) -> None:
    score = score_of(play(CorrectReader(), options=ReplayOptions(faults=[fault + (when or "@#2..")]), days=3))

    assert findings(score) == set()
    assert score.grade == 100


# -- moves to new addresses


class Subscriber(CorrectReader):
    """Keeps validators per address, as most readers do: a new address is a new subscription."""

    def adopt(self, target: str) -> None:
        if target != self.feed:
            self.keep("", "")
        super().adopt(target)


def test_first_request_to_new_address_may_be_unconditional() -> None:
    score = score_of(play(Subscriber(), options=ReplayOptions(faults=["xml-redirect@1d"])))

    assert findings(score) == set()


class ForgetfulReader(CorrectReader):
    """Drops the validators of the new address when it adopts that address later."""

    seen = 0

    def adopt(self, target: str) -> None:
        self.seen += 1
        if self.seen == 2:
            super().adopt(target)
            self.forgets = True

    forgets = False

    def conditions(self, now: Instant) -> list[tuple[str, str]]:
        if self.forgets:
            self.keep("", "")
            self.forgets = False
        return super().conditions(now)


def test_adopted_address_with_issued_tag_requires_condition() -> None:
    score = score_of(play(ForgetfulReader(), options=ReplayOptions(faults=["redirect-301@1d"])))

    assert findings(score) == {conditional_request_rules.UNCONDITIONAL_REPEAT}


def _redirected(entrance: str, location: str, second: str, *, public: str = "") -> Recording:
    """A feed that redirects three times, an hour apart; `second`, if any, is requested after each redirect."""
    base = play(CorrectReader(), days=1).exchanges[0]
    exchanges = []

    def ask(hour: float, target: str, status: int, **answer: str) -> None:
        tag = [("If-None-Match", '"1"')] if hour else []
        fields = Fields([("User-Agent", CorrectReader.agent), ("Accept-Encoding", "gzip"), *tag])
        exchanges.append(
            replace(
                base,
                at=base.at + 3600 * hour,
                request=replace(base.request, target=target, fields=fields),
                status=status,
                digest=base.digest if status == 200 else "",
                fields=Fields([("ETag", '"1"'), *((name.title(), value) for name, value in answer.items())]),
                connection="1",
                entrance=entrance,
                public=public if target == FEED else "",
            )
        )

    ask(0, FEED, 200)
    for hour in (1, 2, 3):
        ask(hour, FEED, 302, location=location)
        if second:
            ask(hour + 0.001, second, 304)
    return Recording(tuple(exchanges), {base.digest: document(3)})


ELSEWHERE = "https://other.example/feed"


@pytest.mark.parametrize(
    ("entrance", "location", "public", "is_evaluated"),
    [
        ("gateway", f"http://proxy.example:8080/{ELSEWHERE}", "", True),
        ("gateway", ELSEWHERE, "", False),
        ("proxy", "http://other.example/feed", "", True),
        ("proxy", ELSEWHERE, "", False),
        ("reverse", "https://public.example/new", "https://public.example/feed.xml", True),
        ("reverse", ELSEWHERE, "https://public.example/feed.xml", False),
        ("origin", ELSEWHERE, "", False),
    ],
)
def test_redirect_to_other_host_counts_only_if_followed_through_proxy(
    entrance: str, location: str, public: str, is_evaluated: bool
) -> None:
    score = score_of(_redirected(entrance, location, "", public=public))

    assert (redirect_and_gone_rules.REDIRECT_NOT_FOLLOWED in findings(score)) == is_evaluated


@pytest.mark.parametrize(
    ("entrance", "location", "public", "target"),
    [
        ("gateway", f"http://proxy.example:8080/{ELSEWHERE}", "", ELSEWHERE),
        ("proxy", "http://other.example/feed", "", "http://other.example/feed"),
        ("reverse", "https://public.example/new", "https://public.example/feed.xml", "http://example.com/new"),
        ("origin", ELSEWHERE, "", ELSEWHERE),
    ],
)
def test_followed_redirect_to_other_host_gets_positive_finding(
    entrance: str, location: str, public: str, target: str
) -> None:
    score = score_of(_redirected(entrance, location, target, public=public))

    assert findings(score) == set()
    assert redirect_and_gone_rules.PERMANENT_MOVES_ADOPTED in findings(score, Level.GOOD)
    assert len(score.feeds) == 1, "what a feed leads to is the same feed"


def test_readers_are_distinguished_by_address_user_agent_and_secret() -> None:
    key = "0123456789abcdef01234567"
    one, other = play(CorrectReader(), days=1), play(habit(agent="Other/1 (+https://example.com)")(), days=1)
    keyed = [
        replace(exchange, reader=f"reader-{at}", request=replace(exchange.request, target=f"{FEED}?key={key}"))
        for at, exchange in enumerate(one.exchanges)
    ]
    everything = Recording(
        tuple(sorted([*one.exchanges, *other.exchanges, *keyed], key=lambda exchange: exchange.at)),
        {**one.contents, **other.contents},
    )

    graded = grade_recording(everything)

    assert {(score.reader, score.user_agent.partition("/")[0]) for score in graded.scores} == {
        ("reader-1", "Perfect"),
        ("reader-1", "Other"),
        (secret_hash(f"{FEED}?key={key}"), "Perfect"),
    }
    assert key not in secret_hash(f"{FEED}?key={key}")


@pytest.mark.parametrize("parameter", [f"id={int(START) - 3600}", f"_={int(START)}", "utm_source=planet"])
def test_query_that_stays_the_same_prevents_no_caching(parameter: str) -> None:
    """Two days of polls: a time in the address is near that of the first polls."""
    recording = play(habit(address_of=lambda self, now: f"{self.feed}?{parameter}")(), days=2)

    (reader,) = grade_recording(recording).scores
    assert not findings(reader)


def test_query_that_changes_between_polls_is_found() -> None:
    recording = play(habit(address_of=lambda self, now: f"{self.feed}?id={int(now)}")(), days=1)

    assert client_hygiene_rules.CACHE_BUSTING_QUERY in findings(score_of(recording))


def test_exchange_in_several_recordings_counts_once() -> None:
    whole = play(CorrectReader(), days=2)
    first, second = (replace(whole, exchanges=part) for part in (whole.exchanges[:30], whole.exchanges[20:]))

    assert merge_recordings([whole, whole]) == merge_recordings([first, second]) == whole


def test_equal_exchanges_of_one_recording_are_several_requests() -> None:
    exchange = play(CorrectReader(), days=1).exchanges[0]

    assert merge_recordings([Recording((exchange, exchange)), Recording((exchange,))]).exchanges == (exchange, exchange)


def test_request_for_page_is_not_graded() -> None:
    recording = play(CorrectReader(), days=1)
    page = replace(
        recording.exchanges[-1],
        request=replace(recording.exchanges[-1].request, target="http://example.com/", fields=Fields()),
        reader="reader-2",
        digest="page",
    )
    with_page = Recording((*recording.exchanges, page), {**recording.contents, "page": b"<html><title>Hello</title>"})

    assert [score.reader for score in grade_recording(with_page).scores] == ["reader-1"]
