"""DESIGN 6, Bad updates: only a good feed replaces a good copy. A promise each."""

from dataclasses import replace

import pytest
from msgspec import structs

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.errors import FeedproxyError, Forbidden, TooLarge, Undecodable
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.message import Fields
from feedproxy.refresh.policy.content_guard import (
    KeepStored,
    PassThroughOnly,
    Replace,
    decide_replacement,
)
from feedproxy.refresh.policy.stale_max_after_failure import FetchOutcome, stale_limit_after_failure
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, PendingFormatChange, Resource, VersionRecord
from feedproxy.upstream.upstream_errors import FetchTimeout, MalformedResponse, Unreachable

TARGET = "https://example.com/feed"
NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86_400.0
SETTINGS = Settings()
RSS = Channel(Kind.RSS, "2.0", well_formed=True)
ILL_FORMED = Channel(Kind.RSS, "2.0", well_formed=False)
ATOM = Channel(Kind.ATOM, "1.0", well_formed=True)
BAD = {
    "429": FetchOutcome(429),
    "500": FetchOutcome(500),
    "503": FetchOutcome(503),
    "unreachable": FetchOutcome(error=Unreachable("no such name")),
    "timeout": FetchOutcome(error=FetchTimeout("30 s")),
    "broken message": FetchOutcome(error=MalformedResponse("bad chunk")),
    "too large": FetchOutcome(200, error=TooLarge("a bomb")),
    "undecodable": FetchOutcome(200, error=Undecodable("bad CRC")),
    "empty": FetchOutcome(200, empty=True),
    "html": FetchOutcome(200, html=True),
    "no feed": FetchOutcome(200),
    "ill-formed": FetchOutcome(200, channel=ILL_FORMED),
    "challenge": FetchOutcome(403, Fields([("CF-Mitigated", "challenge")])),
    "a part": FetchOutcome(206),
    "unknown status": FetchOutcome(999),
}


def a_copy(channel: Channel | None = RSS, age: float = HOUR, **more: object) -> Resource:
    """Return a resource whose last valid response was received `age` seconds ago."""
    stored = StoredResponse(
        TARGET, 200, Fields(), Content(Bodies({"identity": b"<rss/>"}), feed=True), NOW - age, NOW - age
    )
    return structs.replace(Resource(TARGET, (stored,), channel, fetched=NOW - age), **more)


@pytest.mark.parametrize("name", BAD)
def test_bad_update_never_replaces_a_good_copy(name: str) -> None:
    verdict = decide_replacement(a_copy(), BAD[name], NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)


@pytest.mark.parametrize("name", BAD)
def test_bad_update_keeps_the_copy_for_seven_days_since_its_last_good_response(name: str) -> None:
    verdict = decide_replacement(a_copy(age=HOUR), BAD[name], NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.until == NOW - HOUR + 7 * DAY


@pytest.mark.parametrize("name", BAD)
def test_bad_update_is_passed_through_after_seven_days(name: str) -> None:
    verdict = decide_replacement(a_copy(age=7 * DAY), BAD[name], NOW, SETTINGS)

    assert isinstance(verdict, PassThroughOnly | Replace)
    assert isinstance(verdict, Replace) == (name == "ill-formed")


@pytest.mark.parametrize("name", BAD)
def test_bad_update_is_passed_through_with_on_bad_update_pass(name: str) -> None:
    verdict = decide_replacement(a_copy(), BAD[name], NOW, replace(SETTINGS, on_bad_update="pass"))

    assert isinstance(verdict, Replace | PassThroughOnly)


@pytest.mark.parametrize("name", BAD)
def test_bad_update_without_a_copy_is_passed_through(name: str) -> None:
    assert isinstance(decide_replacement(None, BAD[name], NOW, SETTINGS), PassThroughOnly)
    assert isinstance(decide_replacement(Resource(TARGET), BAD[name], NOW, SETTINGS), PassThroughOnly)


@pytest.mark.parametrize("name", BAD)
def test_copy_that_is_no_feed_never_replaces_an_update(name: str) -> None:
    """Only an error status counts as a fault, so that its Retry-After is kept to."""
    verdict = decide_replacement(a_copy(channel=None), BAD[name], NOW, SETTINGS)

    assert isinstance(verdict, PassThroughOnly if (BAD[name].status or 0) >= 400 else Replace)


@pytest.mark.parametrize("status", [403, 404])
def test_status_403_or_404_keeps_the_copy_for_a_day(status: int) -> None:
    verdict = decide_replacement(a_copy(age=HOUR), FetchOutcome(status), NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.until == NOW - HOUR + DAY
    assert verdict.detail is Detail.REFUSED
    assert isinstance(decide_replacement(a_copy(age=DAY), FetchOutcome(status), NOW, SETTINGS), PassThroughOnly)


@pytest.mark.parametrize("status", [400, 402, 405, 406, 409, 418, 422, 426, 431])
def test_status_of_other_refusals_keeps_the_copy_for_a_day(status: int) -> None:
    verdict = decide_replacement(a_copy(age=HOUR), FetchOutcome(status), NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.until == NOW - HOUR + DAY


@pytest.mark.parametrize("status", [408, 421, 425, 420, 430, 444, 460, 499])
def test_status_of_retryable_refusals_keeps_the_copy_for_seven_days(status: int) -> None:
    verdict = decide_replacement(a_copy(age=HOUR), FetchOutcome(status), NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.until == NOW - HOUR + 7 * DAY


@pytest.mark.parametrize("status", [401, 451, 410])
def test_status_401_451_or_410_is_passed_through_at_once(status: int) -> None:
    assert isinstance(decide_replacement(a_copy(age=1), FetchOutcome(status), NOW, SETTINGS), PassThroughOnly)


def test_stale_max_of_a_rule_limits_how_long_the_copy_is_kept() -> None:
    verdict = decide_replacement(a_copy(age=HOUR), FetchOutcome(503), NOW, replace(SETTINGS, stale_max=7200))

    assert isinstance(verdict, KeepStored)
    assert verdict.until == NOW + HOUR


def test_status_304_confirms_the_copy() -> None:
    assert isinstance(decide_replacement(a_copy(), FetchOutcome(304), NOW, SETTINGS), Replace)


@pytest.mark.parametrize("status", [200, 203])
def test_well_formed_feed_of_the_same_kind_replaces_the_copy(status: int) -> None:
    assert isinstance(decide_replacement(a_copy(), FetchOutcome(status, channel=RSS), NOW, SETTINGS), Replace)


def test_well_formed_feed_of_another_version_replaces_the_copy() -> None:
    older = structs.replace(RSS, version="0.91")

    assert isinstance(decide_replacement(a_copy(), FetchOutcome(200, channel=older), NOW, SETTINGS), Replace)


def test_ill_formed_feed_replaces_an_ill_formed_copy() -> None:
    verdict = decide_replacement(a_copy(ILL_FORMED), FetchOutcome(200, channel=ILL_FORMED), NOW, SETTINGS)

    assert isinstance(verdict, Replace)


def test_well_formed_feed_of_any_kind_replaces_an_ill_formed_copy() -> None:
    assert isinstance(decide_replacement(a_copy(ILL_FORMED), FetchOutcome(200, channel=ATOM), NOW, SETTINGS), Replace)


@pytest.mark.parametrize("shape", [ATOM, ILL_FORMED], ids=["another kind", "ill-formed"])
def test_format_change_is_accepted_when_seen_three_times_over_six_hours(shape: Channel) -> None:
    resource, update = a_copy(), FetchOutcome(200, channel=shape)
    for hours in (0, 3):
        kept = decide_replacement(resource, update, NOW + hours * HOUR, SETTINGS)
        assert isinstance(kept, KeepStored)
        resource = structs.replace(resource, pending_format_change=kept.pending_change)

    early = decide_replacement(resource, update, NOW + 5.9 * HOUR, SETTINGS)
    ripe = decide_replacement(resource, update, NOW + 6 * HOUR, SETTINGS)

    assert isinstance(early, KeepStored)
    assert isinstance(ripe, Replace)


def test_copy_older_than_seven_days_is_replaced_by_any_feed() -> None:
    assert isinstance(decide_replacement(a_copy(age=7 * DAY), FetchOutcome(200, channel=ATOM), NOW, SETTINGS), Replace)


def test_stale_limit_during_backoff_equals_that_of_the_failure() -> None:
    def patience(detail: Detail) -> float:
        return stale_limit_after_failure(Failures(1, detail=str(detail)), SETTINGS)

    assert patience(Detail.UNREACHABLE) == patience(Detail.RATE_LIMITED) == 7 * DAY
    assert patience(Detail.REFUSED) == DAY
    assert patience(Detail.GONE) == 0


def test_format_change_seen_twice_is_rejected_after_any_interval() -> None:
    resource = a_copy(pending_format_change=PendingFormatChange("atom", NOW - 3 * DAY, 1))

    assert isinstance(decide_replacement(resource, FetchOutcome(200, channel=ATOM), NOW, SETTINGS), KeepStored)


def test_format_change_to_another_format_restarts_the_count() -> None:
    resource = a_copy(pending_format_change=PendingFormatChange("ill-formed rss", NOW - DAY, 9))

    verdict = decide_replacement(resource, FetchOutcome(200, channel=ATOM), NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.pending_change == PendingFormatChange("atom", NOW, 1)


def test_format_change_count_survives_an_intermediate_failure() -> None:
    seen = PendingFormatChange("atom", NOW - HOUR, 2)

    verdict = decide_replacement(a_copy(pending_format_change=seen), FetchOutcome(503), NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.pending_change == seen


@pytest.mark.parametrize("update", [FetchOutcome(200, html=True), FetchOutcome(200, empty=True), FetchOutcome(200)])
def test_repeated_response_that_is_no_feed_is_never_accepted(update: FetchOutcome) -> None:
    resource = a_copy(pending_format_change=PendingFormatChange("ill-formed rss", NOW - DAY, 9))

    assert isinstance(decide_replacement(resource, update, NOW, SETTINGS), KeepStored)


@pytest.mark.parametrize(
    ("outcome", "detail"),
    [
        (FetchOutcome(429), Detail.RATE_LIMITED),
        (FetchOutcome(502), Detail.ERROR_STATUS),
        (FetchOutcome(999), Detail.ERROR_STATUS),
        (FetchOutcome(200, html=True), Detail.HTML_WHERE_FEED),
        (FetchOutcome(200, empty=True), Detail.EMPTY),
        (FetchOutcome(204), Detail.EMPTY),
        (FetchOutcome(206), Detail.TRUNCATED),
        (FetchOutcome(200), Detail.ILL_FORMED),
        (FetchOutcome(200, channel=ILL_FORMED), Detail.ILL_FORMED),
        (FetchOutcome(200, channel=ATOM), Detail.NEW_SHAPE),
        (FetchOutcome(301), Detail.REDIRECT_LOOP),
        (FetchOutcome(302, redirect_error=Detail.TIMEOUT), Detail.TIMEOUT),
    ],
)
def test_detail_names_the_reason_of_the_rejection(outcome: FetchOutcome, detail: Detail) -> None:
    verdict = decide_replacement(a_copy(), outcome, NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.detail is detail


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (Unreachable("no such name"), Detail.UNREACHABLE),
        (FetchTimeout("30 s"), Detail.TIMEOUT),
        (MalformedResponse("bad chunk"), Detail.BROKEN_MESSAGE),
        (TooLarge("50 MB"), Detail.TOO_LARGE),
        (Undecodable("bad CRC"), Detail.UNDECODABLE),
        (Forbidden("169.254.169.254"), Detail.FORBIDDEN_ADDRESS),
    ],
)
def test_detail_names_the_error_of_a_failed_fetch(error: FeedproxyError, detail: Detail) -> None:
    verdict = decide_replacement(a_copy(), FetchOutcome(error=error), NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.detail is detail
    assert str(error) in verdict.reason


@pytest.mark.parametrize(
    "outcome",
    [
        FetchOutcome(403, Fields([("cf-mitigated", "challenge")])),
        FetchOutcome(503, Fields([("cf-mitigated", "challenge")]), html=True),
        FetchOutcome(202, Fields([("x-amzn-waf-action", "challenge")]), empty=True),
        FetchOutcome(
            200,
            html=True,
            page=b'<!doctype html><script src="/.within.website/x/cmd/anubis/static/js/main.mjs">',
        ),
    ],
    ids=["cloudflare 403", "cloudflare 503", "aws waf", "anubis"],
)
def test_challenge_page_is_rejected_with_any_status(outcome: FetchOutcome) -> None:
    verdict = decide_replacement(a_copy(age=2 * DAY), outcome, NOW, SETTINGS)

    assert isinstance(verdict, KeepStored)
    assert verdict.detail is Detail.CHALLENGE


def test_feed_that_quotes_challenge_markup_is_accepted() -> None:
    page = b"<rss><channel><title>On /.within.website/x/cmd/anubis/</title></channel></rss>"

    assert isinstance(decide_replacement(a_copy(), FetchOutcome(200, channel=RSS, page=page), NOW, SETTINGS), Replace)


def with_items(channel: Channel, items: int) -> Channel:
    return structs.replace(channel, items=items)


@pytest.mark.parametrize(
    ("held", "update", "takes"),
    [
        (with_items(RSS, 20), with_items(RSS, 0), False),
        (with_items(RSS, 1), with_items(RSS, 0), False),
        (with_items(RSS, 20), with_items(RSS, 9), False),
        (with_items(RSS, 20), with_items(RSS, 10), True),
        (with_items(RSS, 3), with_items(RSS, 1), True),
        (with_items(RSS, 20), with_items(RSS, 20), True),
        (with_items(RSS, 0), with_items(RSS, 0), True),
        (with_items(RSS, 5), with_items(RSS, 50), True),
        (with_items(ILL_FORMED, 10), with_items(ILL_FORMED, 5), False),
        (with_items(ILL_FORMED, 7), with_items(ILL_FORMED, 1), False),
        (with_items(ILL_FORMED, 15), with_items(ILL_FORMED, 6), False),
        (with_items(ILL_FORMED, 10), with_items(ILL_FORMED, 8), True),
        (with_items(ILL_FORMED, 15), with_items(RSS, 0), False),
        (with_items(ILL_FORMED, 15), with_items(RSS, 12), True),
    ],
)
def test_item_loss_of_most_items_is_rejected_at_first(held: Channel, update: Channel, takes: bool) -> None:
    verdict = decide_replacement(a_copy(held), FetchOutcome(200, channel=update), NOW, SETTINGS)

    assert isinstance(verdict, Replace if takes else KeepStored)


def test_item_loss_is_accepted_when_seen_three_times_over_six_hours() -> None:
    copy = a_copy(with_items(RSS, 20))
    for at, items, takes in [(0, 0, False), (3, 4, False), (5.9, 1, False), (6.1, 0, True)]:
        verdict = decide_replacement(copy, FetchOutcome(200, channel=with_items(RSS, items)), NOW + at * HOUR, SETTINGS)
        assert isinstance(verdict, Replace if takes else KeepStored)
        if isinstance(verdict, KeepStored):
            copy = structs.replace(copy, pending_format_change=verdict.pending_change)


def test_item_loss_to_a_count_seen_before_is_accepted_at_once() -> None:
    copy = a_copy(
        with_items(RSS, 20), version_records=(VersionRecord(NOW - DAY, 100, 2), VersionRecord(NOW - HOUR, 900, 20))
    )

    assert isinstance(decide_replacement(copy, FetchOutcome(200, channel=with_items(RSS, 2)), NOW, SETTINGS), Replace)
    assert isinstance(
        decide_replacement(copy, FetchOutcome(200, channel=with_items(RSS, 1)), NOW, SETTINGS), KeepStored
    )


def test_item_loss_is_accepted_with_on_bad_update_pass() -> None:
    update = FetchOutcome(200, channel=with_items(RSS, 0))
    assert isinstance(
        decide_replacement(a_copy(with_items(RSS, 20)), update, NOW, Settings(on_bad_update="pass")), Replace
    )
