"""Persons and dates: the forms that feeds use are parsed to one form of the model."""

import re

import pytest

from feedproxy.feed import feed_dates
from feedproxy.feed.convert import persons
from feedproxy.feed.convert.model import Person
from feedproxy.http.date import format_http_date, format_rfc3339

NOON = 1_700_049_600
"""15 November 2023, 12:00 GMT."""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Wed, 15 Nov 2023 12:00:00 GMT", NOON),
        ("Wed, 15 Nov 2023 07:00:00 EST", NOON),
        ("15 Nov 23 12:00 +0000", NOON),
        ("Wed, 15 Nov 2023 13:00:00 +0100", NOON),
        ("Wed, 15 Nov 2023 14:00 +02:00", NOON),
        ("Wed, 15 Nov 2023 14:00:00 GMT+0200", NOON),
        ("Wed Nov 15 2023 14:00:00 GMT+0200 (Eastern European Standard Time)", NOON),
        ("Wed, 15 Nov 2023 (midday) 07:00:00 -05", NOON),
        ("Wed, 15 Nov 2023 14:00:00 +2", NOON),
        ("Wed, 15 Nov 2023 13:00:00 CET", NOON),
        ("Wed, 15 Nov 2023 13:00:00 BST", NOON),
        ("Wed, 15 Nov 2023 12:00:00 A", NOON),
        ("Wed, 15 Nov 2023 12:00:00 PM GMT", NOON),
        ("November 15, 2023 07:00 AM EST", NOON),
        ("Wed Nov 15 12:00:00 2023", NOON),
        ("Wed, 15 Nov 123 12:00:00 GMT", NOON),
        ("Wed, 15 Nov 50 12:00:00 GMT", 1_700_049_600 - 26_663 * 86_400),
        ("Wed, 15 Nov 2023", NOON - 43_200),
        ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_799),
        ("2016-12-31T23:59:60Z", 1_483_228_799),
        ("2023-11-14T24:00:00Z", NOON - 43_200),
        ("Tue, 14 Nov 2023 24:00:00 GMT", NOON - 43_200),
        ("2023-11-15T14:00:00+02", NOON),
        ("2023-11-15 07:00:00 EST", NOON),
        ("2023-11-15T12:00:00Z", NOON),
        ("2023-11-15T13:00:00.250+01:00", NOON),
        ("2023-11-15 12:00:00", NOON),
        ("20231115T120000Z", NOON),
        ("2023-11-15", NOON - 43_200),
        ("2023-11", NOON - 43_200 - 14 * 86_400),
        ("2023", 1_672_531_200),
        ("", None),
        ("yesterday", None),
        ("0001-01-01T00:00:00Z", None),
        ("2023-02-30", None),
        ("2023-11-15T25:00:00Z", None),
        ("2023-11-15T24:00:01Z", None),
        ("2023-11-15T12:00:61Z", None),
        ("Wed, 15 Nov 2023 13:00:00 PM GMT", None),
        ("Wed, 15 Nov 2023 12:00:00 +9999", NOON),
        ("2023-11-15T12:00:00+02:60", NOON),
        ("Wed, 15 Nov 2023 12:0:0 GMT", NOON),
        ("Wed, 15 Nov 2023 13:00:00 +0100 CET", NOON),
        ("Wed, 15 Nov 2023 12:00:00 America/Nowhere", NOON),
        ("Wed, 15 Nov 2023 12:00:00 America/Port-au-Prince", NOON),
        ("Wed, 15 Nov 2023 12:00:00 EST5EDT", NOON),
        ("Wed, 15 Nov 2023 12:00:00 --0500", NOON),
        ("Wed, 15 Nov 2023 12:00:00 W. Europe Standard Time", NOON),
        ("Wed, 15 Nov 2023 13:00:00 +0100 +0100", NOON),
        ("2023-11-15 12:00:00.5 +0000 UTC m=+0.5", NOON),
        ("2023-11-15 12:00 - - - - - -", NOON),
        ("2023-11-15 12:00" + 20 * " -", None),
        ("Wed Nov 15 12:00:00 EST5EDT 2023", None),
        ("15. November 2023 12:00 Uhr", NOON),
        ("15 de noviembre de 2023 12:00", NOON),
        ("śr., 15 lis 2023 12:00:00 +0000", NOON),
        ("15 listopada 2023 12:00", NOON),
        ("2023-11-15T13:00:00+01:00[Europe/Berlin]", NOON),
        ("2023-11-15T07:00:00\u221205:00", NOON),
        ("2023/11/15 12:00:00", NOON),
        ("2023-1-5T12:00:00Z", NOON - 314 * 86_400),
        ("Wednesday 15th November 2023 12:00:00 +0000", NOON),
        ("November 15th, 2023 12:00 PM", NOON),
        ("Nov. 15, 2023, 12:00 p.m.", NOON),
        ("Wednesday, November 15, 2023 - 12:00pm", NOON),
        ("15.11.2023 13:00 +0100", NOON),
        ("November 15, 2023 at 07:00 AM EST", NOON),
        ("11.15.2023 12:00", None),
        ("Mi, 15 Mär 2023 12:00:00 +0000", NOON - 245 * 86_400),
        ("dim., 15 oct. 2023 12:00:00 +0000", NOON - 31 * 86_400),
        ("ven., 15 déc. 2023 12:00:00 +0000", NOON + 30 * 86_400),
        ("jeu., 15 juin 2023 12:00:00 +0000", NOON - 153 * 86_400),
        ("sam., 15 juillet 2023 12:00:00 +0000", NOON - 123 * 86_400),
        ("Lun, 15 Mayo 2023 12:00:00 +0000", NOON - 184 * 86_400),
        ("Пн, 15 мая 2023 12:00:00 +0000", NOON - 184 * 86_400),
        ("Mon, 15 Foo 2023 12:00:00 +0000", None),
        ("2023/11-15", None),
        ("Wed, 15 Nov 12:00:00 GMT", None),
        ("Nov 15 12:00", None),
        ("9" * 5000, None),
    ],
)
def test_date_is_parsed_to_its_instant(written: str, meant: int | None) -> None:
    assert feed_dates.parse(written) == meant


@pytest.mark.parametrize("date", ["15 Nov 2023 12:00", "2023-11-15 12:00", "Wed Nov 15 12:00", "1:"])
def test_invalid_date_of_many_words_is_compared_with_few_forms(date: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    match = feed_dates._match

    def compare(text: str) -> re.Match[str] | None:
        compared.append(text)
        return match(text)

    monkeypatch.setattr(feed_dates, "_match", compare)

    assert feed_dates.parse((date + 80 * " -")[:80]) is None
    assert len(compared) <= 1 + feed_dates.IGNORED_WORDS_MAX


def test_date_is_written_in_the_form_of_each_format() -> None:
    assert format_http_date(NOON) == "Wed, 15 Nov 2023 12:00:00 GMT"
    assert format_rfc3339(NOON) == "2023-11-15T12:00:00Z"
    assert feed_dates.parse(format_http_date(NOON)) == feed_dates.parse(format_rfc3339(NOON)) == NOON


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ann@example.com (Ann Example)", Person("Ann Example", "ann@example.com")),
        ("Ann Example <ann@example.com>", Person("Ann Example", "ann@example.com")),
        ("ann@example.com", Person("", "ann@example.com")),
        ("Ann Example", Person("Ann Example")),
        ("  ", None),
    ],
)
def test_person_is_parsed_from_rss_text(written: str, meant: Person | None) -> None:
    assert persons.parse(written) == meant


def test_persons_of_one_name_are_merged_with_all_their_details() -> None:
    said = [Person("Ann", "ann@example.com"), Person("Bob"), Person("Ann", uri="https://example.com/ann")]

    assert persons.merge(said) == (Person("Ann", "ann@example.com", "https://example.com/ann"), Person("Bob"))


def test_persons_of_one_name_with_different_addresses_are_kept_apart() -> None:
    said = (Person("Ann", "ann@example.com"), Person("Ann", "ann@example.org"))

    assert persons.merge(said) == said


@pytest.mark.parametrize(
    "names",
    [
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "januar februar marts april maj juni juli august september oktober november desember",
        "januari februari mars april maj juni juli augusti september oktober november december",
    ],
    ids=["pl", "fr", "de", "ru", "es", "it", "pt", "nl", "da-no", "sv"],
)
def test_date_with_the_name_of_its_month_in_another_language_is_parsed(names: str) -> None:
    read = [feed_dates.parse(f"15 {name} 2023") for name in names.split()]

    assert read == [feed_dates.parse(f"2023-{number:02}-15") for number in range(1, 13)]
