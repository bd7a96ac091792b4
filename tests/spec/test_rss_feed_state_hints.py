"""RSS Feed State, "Syndication Hints": skipHours, skipDays, TTL, syndication module. A test per promise."""

from datetime import UTC, datetime

import pytest

from feedproxy.clock import Instant
from feedproxy.feed.channel import Period, Schedule
from feedproxy.feed.parse.channel_parser import read
from feedproxy.feed.schedule_hints import HintExpiry, hint_expiry, is_skipped, next_update

HOUR = 3600.0
DAY = 24 * HOUR


def at(text: str) -> Instant:
    """Return the instant of a moment in GMT. 16 November 2026 is a Monday."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def schedule_of(hints: str, *, before: str = "", item: str = "") -> Schedule:
    """Return the schedule of an RSS feed with these elements in its channel."""
    body = (
        '<rss version="2.0" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel><title>t</title>'
        f"{hints}<item><title>stuff</title>{item}</item></channel></rss>{before}"
    )
    channel = read(body.encode(), "text/xml")
    assert channel is not None
    return channel.schedule


def held(
    schedule: Schedule,
    fetched: str,
    *,
    now: str | None = None,
    expires: Instant | None = None,
    hint_max: float = DAY,
    skip_max: float = 3 * DAY,
) -> HintExpiry | None:
    base = at(fetched)
    moment = at(now) if now else base
    return hint_expiry(schedule, base=base, expires=expires, now=moment, hint_max=hint_max, skip_max=skip_max)


def skipped_until(schedule: Schedule, instant: Instant) -> Instant | None:
    """Return the end of the skipped hours around `instant`, or None outside them."""
    expiry = hint_expiry(schedule, base=instant, expires=None, now=instant, hint_max=DAY, skip_max=3 * DAY)
    return expiry.until if expiry else None


def hours(*numbers: int) -> str:
    return "<skipHours>" + "".join(f"<hour>{number}</hour>" for number in numbers) + "</skipHours>"


def days(*names: str) -> str:
    return "<skipDays>" + "".join(f"<day>{name}</day>" for name in names) + "</skipDays>"


# skipHours and skipDays


SAMPLE = schedule_of(hours(6, 7, 8, 9, 10, 11) + days("Sunday"))


def test_skip_hours_of_the_sample_cover_6_am_until_noon_gmt() -> None:
    """ "not to poll the RSS feed during the six hours from 6AM GMT to 11AM GMT (until noon)" """
    assert not is_skipped(SAMPLE, at("2026-11-17T05:59:59"))
    assert is_skipped(SAMPLE, at("2026-11-17T06:00"))
    assert is_skipped(SAMPLE, at("2026-11-17T11:59:59"))
    assert not is_skipped(SAMPLE, at("2026-11-17T12:00"))


def test_skip_days_of_the_sample_cover_all_of_sunday() -> None:
    """ "and neither to poll the entire day of Sunday" """
    assert not is_skipped(SAMPLE, at("2026-11-21T23:59:59"))
    assert is_skipped(SAMPLE, at("2026-11-22T00:00"))
    assert is_skipped(SAMPLE, at("2026-11-22T23:59:59"))
    assert not is_skipped(SAMPLE, at("2026-11-23T00:00"))


def test_skip_hours_extend_the_copy_until_their_end() -> None:
    found = held(SAMPLE, "2026-11-17T05:30", now="2026-11-17T06:00", expires=at("2026-11-17T05:50"))

    assert found is not None
    assert (found.until, found.detail) == (at("2026-11-17T12:00"), "skip-hours")
    assert found.reason == "skipHours: no polls until Tue 12:00 GMT"


def test_skip_hours_and_days_without_child_elements_are_read_or_noted() -> None:
    single = schedule_of("<skipHours> 5 </skipHours><skipDays>Sunday</skipDays>")
    several = schedule_of("<skipHours>1,2,3</skipHours><skipDays/>")

    assert single == Schedule(skip_hours=frozenset({5}), skip_days=frozenset({6}))
    assert several == Schedule(notes=("skipHours '1,2,3' is not an hour from 0 to 23",))


def test_skip_hours_do_not_apply_before_they_begin() -> None:
    assert held(SAMPLE, "2026-11-17T05:30", now="2026-11-17T05:59", expires=at("2026-11-17T05:50")) is None


def test_skip_hours_do_not_apply_after_they_end() -> None:
    assert held(SAMPLE, "2026-11-17T05:30", now="2026-11-17T12:00", expires=at("2026-11-17T05:50")) is None


def test_skip_hours_extend_a_lifetime_that_ends_within_them() -> None:
    found = held(SAMPLE, "2026-11-17T05:30", expires=at("2026-11-17T06:30"))

    assert found is not None
    assert found.until == at("2026-11-17T12:00")


def test_skip_hours_extend_a_copy_fetched_within_them_to_their_end_only() -> None:
    held_on = held(SAMPLE, "2026-11-17T11:59")
    afterwards = held(SAMPLE, "2026-11-17T11:59", now="2026-11-17T12:00")

    assert held_on is not None
    assert held_on.until == at("2026-11-17T12:00")
    assert afterwards is None


def test_skip_hours_of_every_second_hour_last_one_hour_each() -> None:
    """ "A technique I once used … was to put every second hour." """
    schedule = schedule_of(hours(*range(0, 24, 2)))

    for hour in range(24):
        moment = at("2026-11-17T00:30") + hour * HOUR
        expected = None if hour % 2 else moment + HOUR / 2
        assert skipped_until(schedule, moment) == expected


def test_skip_hours_continue_over_midnight() -> None:
    schedule = schedule_of(hours(22, 23, 0, 1))

    assert skipped_until(schedule, at("2026-11-17T22:00")) == at("2026-11-18T02:00")
    assert skipped_until(schedule, at("2026-11-18T00:30")) == at("2026-11-18T02:00")


def test_skip_hour_23_ends_at_midnight() -> None:
    assert skipped_until(schedule_of(hours(23)), at("2026-11-17T23:59:59")) == at("2026-11-18T00:00")


def test_skip_days_of_a_weekend_last_until_monday() -> None:
    found = held(schedule_of(days("Saturday", "Sunday")), "2026-11-21T09:00")

    assert found is not None
    assert (found.until, found.detail) == (at("2026-11-23T00:00"), "skip-days")
    assert found.reason == "skipDays: no polls until Mon 00:00 GMT"


def test_skip_days_end_at_the_operators_maximum() -> None:
    found = held(schedule_of(days("Saturday", "Sunday")), "2026-11-21T09:00", skip_max=DAY)

    assert found is not None
    assert (found.until, found.detail) == (at("2026-11-22T00:00"), "skip-days")
    assert found.reason == "skipDays: no polls until Sun 00:00 GMT, the end of skip_max"


def test_skip_days_and_adjacent_skip_hours_are_one_interval() -> None:
    found = held(schedule_of(days("Saturday", "Sunday") + hours(22, 23, 0, 1)), "2026-11-20T22:30")

    assert found is not None
    assert (found.until, found.detail) == (at("2026-11-23T02:00"), "skip-hours")


@pytest.mark.parametrize(
    ("inside", "end"),
    [
        ("2026-11-30T23:30", "2026-12-01T01:00"),
        ("2026-12-31T23:30", "2027-01-01T01:00"),
        ("2028-02-28T23:30", "2028-02-29T01:00"),
        ("2028-02-29T23:30", "2028-03-01T01:00"),
        ("2027-02-28T23:30", "2027-03-01T01:00"),
    ],
)
def test_skip_intervals_cross_ends_of_months_years_and_leap_days(inside: str, end: str) -> None:
    assert skipped_until(schedule_of(hours(23, 0)), at(inside)) == at(end)


def test_skip_hour_24_means_midnight() -> None:
    assert schedule_of(hours(24)).skip_hours == {0}
    assert schedule_of(hours(0, 24)).skip_hours == {0}


def test_skip_hours_may_be_padded_and_repeated() -> None:
    schedule = schedule_of("<skipHours><hour>06</hour><hour> 7 </hour><hour>7</hour></skipHours>")

    assert schedule.skip_hours == {6, 7}
    assert schedule.notes == ()


@pytest.mark.parametrize("wrong", ["-1", "25", "noon", "", "6-11", "6.5.1", "٦"])
def test_skip_hour_that_is_invalid_is_ignored_and_noted(wrong: str) -> None:
    schedule = schedule_of(f"<skipHours><hour>{wrong}</hour><hour>3</hour></skipHours>")

    assert schedule.skip_hours == {3}
    assert len(schedule.notes) == 1


def test_skip_hours_listing_all_24_hours_are_ignored() -> None:
    schedule = schedule_of(hours(*range(24)))

    assert schedule.skip_hours == frozenset()
    assert schedule.notes == ("skipHours lists all 24 hours",)
    assert held(schedule, "2026-11-17T06:00") is None


def test_skip_days_listing_all_7_days_are_ignored() -> None:
    schedule = schedule_of(days("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))

    assert schedule.skip_days == frozenset()
    assert schedule.notes == ("skipDays lists all 7 days",)
    assert held(schedule, "2026-11-17T06:00") is None


@pytest.mark.parametrize("written", ["Sunday", "sunday", "SUNDAY", " Sunday ", "Sun", "sun.", "Sund"])
def test_skip_day_names_are_case_insensitive_and_may_be_abbreviated(written: str) -> None:
    schedule = schedule_of(days(written))

    assert schedule.skip_days == {6}
    assert schedule.notes == ()


@pytest.mark.parametrize("wrong", ["Sonntag", "dimanche", "Su", "7", "weekend", ""])
def test_skip_day_that_is_not_english_is_ignored_and_noted(wrong: str) -> None:
    schedule = schedule_of(days(wrong, "Monday"))

    assert schedule.skip_days == {0}
    assert len(schedule.notes) == 1


def test_skip_interval_is_capped_from_its_beginning() -> None:
    schedule = schedule_of(days("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"))

    early = held(schedule, "2026-11-16T08:00")
    late = held(schedule, "2026-11-18T23:00", now="2026-11-19T00:00")

    assert early is not None
    assert early.until == at("2026-11-19T00:00")  # 72 hours after Monday 00:00
    assert late is None


# ttl


def test_ttl_of_120_keeps_the_copy_for_two_hours() -> None:
    """ "an RSS feed that sets the refresh hint to two hours" """
    found = held(schedule_of("<ttl>120</ttl>"), "2026-11-17T08:00")

    assert found == HintExpiry(at("2026-11-17T10:00"), "ttl-hint", "ttl of 120 minutes")


def test_ttl_that_has_passed_ends_in_the_past() -> None:
    """ "it only needs to refresh from source when the TTL is exceeded" """
    found = held(schedule_of("<ttl>120</ttl>"), "2026-11-17T08:00", now="2026-11-17T15:00")

    assert found is not None
    assert found.until == at("2026-11-17T10:00")


def test_ttl_extends_a_shorter_http_lifetime() -> None:
    found = held(schedule_of("<ttl>120</ttl>"), "2026-11-17T08:00", expires=at("2026-11-17T08:05"))

    assert found is not None
    assert found.until == at("2026-11-17T10:00")


def test_ttl_shorter_than_the_http_lifetime_has_no_effect() -> None:
    assert held(schedule_of("<ttl>120</ttl>"), "2026-11-17T08:00", expires=at("2026-11-17T10:00")) is None


def test_ttl_counts_from_the_time_of_the_fetch() -> None:
    schedule = schedule_of("<ttl>120</ttl>")

    assert held(schedule, "2026-11-17T08:00", now="2026-11-17T09:59") == held(schedule, "2026-11-17T08:00")


@pytest.mark.parametrize("wrong", ["0", "-60", "never", "", "1e3", "0.5", "<b/>", "<b>60</b>"])
def test_ttl_that_is_no_positive_number_is_ignored_and_noted(wrong: str) -> None:
    schedule = schedule_of(f"<ttl>{wrong}</ttl>")

    assert schedule.ttl is None
    assert len(schedule.notes) == 1
    assert held(schedule, "2026-11-17T08:00") is None


@pytest.mark.parametrize("written", ["60", " 60\n", "060", "+60", "60.0", "<![CDATA[60]]>", "6<!-- -->0"])
def test_ttl_in_an_unambiguous_spelling_is_accepted(written: str) -> None:
    assert schedule_of(f"<ttl>{written}</ttl>").ttl == 60


def test_ttl_repeated_uses_the_first_valid_value() -> None:
    schedule = schedule_of("<ttl>0</ttl><ttl>30</ttl><ttl>120</ttl>")

    assert schedule.ttl == 30
    assert len(schedule.notes) == 2


@pytest.mark.parametrize("minutes", [1441, 100_000, 10**17, 10**18, 10**40])
def test_ttl_of_more_than_a_day_counts_as_a_day(minutes: int) -> None:
    found = held(schedule_of(f"<ttl>{minutes}</ttl>"), "2026-11-17T08:00")

    assert found is not None
    assert found.until == at("2026-11-18T08:00")


def test_ttl_that_ends_in_a_skip_hour_is_extended_to_its_end() -> None:
    found = held(schedule_of("<ttl>60</ttl>" + hours(6, 7)), "2026-11-17T05:30")

    assert found is not None
    assert (found.until, found.detail) == (at("2026-11-17T08:00"), "skip-hours")


def test_ttl_that_ends_after_a_skip_hour_is_not_extended() -> None:
    found = held(schedule_of("<ttl>180</ttl>" + hours(6, 7)), "2026-11-17T05:30", now="2026-11-17T06:30")

    assert found is not None
    assert (found.until, found.detail) == (at("2026-11-17T08:30"), "ttl-hint")


def test_ttl_in_item_image_comment_or_cdata_is_ignored() -> None:
    assert schedule_of("<!-- <ttl>5</ttl> -->", item="<ttl>6</ttl>").ttl is None
    assert schedule_of("<description><![CDATA[<ttl>5</ttl>]]></description>").ttl is None
    assert schedule_of("<image><ttl>5</ttl></image>").ttl is None


# the syndication module


def test_syndication_sample_updates_twice_an_hour_from_its_base() -> None:
    schedule = schedule_of(
        "<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>"
        "<sy:updateBase>2000-01-01T12:00+00:00</sy:updateBase>"
    )

    assert schedule == Schedule(period=Period.HOURLY, frequency=2, base=at("2000-01-01T12:00"))
    found = held(schedule, "2026-11-17T08:10")
    assert found is not None
    assert (found.until, found.detail) == (at("2026-11-17T08:30"), "sy-hint")


def test_syndication_schedule_without_base_counts_from_the_fetch() -> None:
    schedule = schedule_of("<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>")

    assert next_update(schedule, at("2026-11-17T08:10")) == at("2026-11-17T14:10")


def test_syndication_period_defaults_to_daily_and_frequency_to_1() -> None:
    assert schedule_of("<sy:updateFrequency>3</sy:updateFrequency>").period is Period.DAILY
    assert schedule_of("<sy:updatePeriod>weekly</sy:updatePeriod>").frequency == 1


def test_syndication_period_is_case_insensitive() -> None:
    assert schedule_of("<sy:updatePeriod> HOURLY </sy:updatePeriod>").period is Period.HOURLY


def test_syndication_period_that_is_unknown_is_ignored_and_noted() -> None:
    schedule = schedule_of("<sy:updatePeriod>minutely</sy:updatePeriod>")

    assert schedule.period is None
    assert len(schedule.notes) == 1


@pytest.mark.parametrize("wrong", ["0", "-1", "often"])
def test_syndication_frequency_that_is_no_positive_number_is_ignored_and_noted(wrong: str) -> None:
    schedule = schedule_of(f"<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>{wrong}</sy:updateFrequency>")

    assert (schedule.period, schedule.frequency) == (Period.HOURLY, 1)
    assert len(schedule.notes) == 1


@pytest.mark.parametrize("wrong", ["yesterday", "2000-13-01T00:00", "0001-01-01T00:00+14:00", "9999-12-31T23:59"])
def test_syndication_base_that_is_no_date_is_ignored_and_noted(wrong: str) -> None:
    schedule = schedule_of(f"<sy:updatePeriod>daily</sy:updatePeriod><sy:updateBase>{wrong}</sy:updateBase>")

    assert schedule.base is None
    assert len(schedule.notes) == 1


def test_syndication_base_with_an_offset_is_converted() -> None:
    schedule = schedule_of(
        "<sy:updatePeriod>daily</sy:updatePeriod><sy:updateBase>2004-02-10T17:10:15+01:00</sy:updateBase>"
    )

    assert schedule.base == at("2004-02-10T16:10:15")


@pytest.mark.parametrize(
    ("period", "frequency", "base", "after", "update"),
    [
        (Period.DAILY, 1, "2000-01-01T12:00", "2026-11-17T11:59", "2026-11-17T12:00"),
        (Period.DAILY, 1, "2000-01-01T12:00", "2026-11-17T12:00", "2026-11-18T12:00"),
        (Period.DAILY, 1, "2030-01-01T12:00", "2026-11-17T11:59", "2026-11-17T12:00"),
        (Period.WEEKLY, 1, "2000-01-01T00:00", "2026-11-17T00:00", "2026-11-21T00:00"),
        (Period.MONTHLY, 1, "2000-01-01T00:00", "2028-02-10T00:00", "2028-03-01T00:00"),
        (Period.MONTHLY, 1, "2000-01-31T00:00", "2027-02-10T00:00", "2027-02-28T00:00"),
        (Period.MONTHLY, 1, "2000-01-31T00:00", "2028-02-28T12:00", "2028-02-29T00:00"),
        (Period.MONTHLY, 2, "2000-01-01T00:00", "2027-02-10T00:00", "2027-02-15T00:00"),
        (Period.MONTHLY, 2, "2025-01-31T00:00", "2025-03-10T00:00", "2025-03-15T12:00"),
        (Period.YEARLY, 1, "2000-02-29T00:00", "2027-01-01T00:00", "2027-02-28T00:00"),
        (Period.YEARLY, 1, "2000-02-29T00:00", "2028-02-28T12:00", "2028-02-29T00:00"),
        (Period.YEARLY, 1, "2000-07-01T00:00", "2026-11-17T00:00", "2027-07-01T00:00"),
        (Period.MONTHLY, 1, None, "2027-01-31T06:00", "2027-02-28T06:00"),
        (Period.YEARLY, 1, None, "2028-02-29T06:00", "2029-02-28T06:00"),
        (Period.HOURLY, 86_400, None, "2027-01-31T06:00", "2027-01-31T06:01"),
        (Period.HOURLY, 86_400, "2000-01-01T12:00", "2027-01-31T06:00", "2027-01-31T06:01"),
        (Period.YEARLY, 10**9, None, "2027-01-31T06:00", "2027-01-31T06:01"),
    ],
)
def test_syndication_updates_follow_the_calendar(
    period: Period, frequency: int, base: str | None, after: str, update: str
) -> None:
    schedule = Schedule(period=period, frequency=frequency, base=at(base) if base else None)

    assert next_update(schedule, at(after)) == at(update)


def test_mistaken_syndication_frequency_gives_a_lifetime_of_a_minute() -> None:
    stated = "<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>86400</sy:updateFrequency>"

    hint = held(schedule_of(stated), "2026-11-17T08:00")

    assert hint is not None
    assert (hint.until, hint.detail) == (at("2026-11-17T08:01"), "sy-hint")


def test_ttl_and_syndication_schedule_use_the_later_end() -> None:
    daily = "<sy:updatePeriod>daily</sy:updatePeriod>"

    long = held(schedule_of("<ttl>15</ttl>" + daily), "2026-11-17T08:00")
    short = held(schedule_of("<ttl>90</ttl><sy:updatePeriod>hourly</sy:updatePeriod>"), "2026-11-17T08:00")

    assert long is not None
    assert (long.until, long.detail) == (at("2026-11-18T08:00"), "sy-hint")
    assert short is not None
    assert (short.until, short.detail) == (at("2026-11-17T09:30"), "ttl-hint")


def test_syndication_period_of_a_year_is_capped() -> None:
    found = held(schedule_of("<sy:updatePeriod>yearly</sy:updatePeriod>"), "2026-11-17T08:00")

    assert found is not None
    assert found.until == at("2026-11-18T08:00")


def test_cdf_schedule_extends_the_copy_for_its_interval() -> None:
    found = held(Schedule(interval=2 * HOUR), "2026-11-17T08:00")

    assert found == HintExpiry(at("2026-11-17T10:00"), "cdf-hint", "CDF schedule of 120 minutes")


def test_finished_feed_is_extended_by_the_longest_hint() -> None:
    found = held(Schedule(ttl=60, finished=True), "2026-11-17T08:00")

    assert found == HintExpiry(at("2026-11-18T08:00"), "finished", "the feed states that it is finished")


def test_feed_without_hints_is_not_extended() -> None:
    assert held(Schedule(), "2026-11-17T08:00") is None
