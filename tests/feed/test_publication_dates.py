"""What a feed's entries tell of its past."""

from datetime import UTC, datetime

import pytest

from feedproxy.feed.publication_dates import ENTRIES_MAX, find_publications
from feedproxy.http.date import format_http_date

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC).timestamp()
DAY = 86_400.0


def rss(*dates: str, name: str = "pubDate", head: str = "") -> bytes:
    items = "".join(f"<item><title>x</title><{name}>{date}</{name}></item>" for date in dates)
    return f'<rss version="2.0"><channel><title>News</title>{head}{items}</channel></rss>'.encode()


def test_the_dates_of_its_entries_are_its_past_oldest_first() -> None:
    days = [NOW - DAY, NOW - 3 * DAY, NOW - 2 * DAY]

    assert find_publications(rss(*map(format_http_date, days)), NOW) == tuple(sorted(days))


@pytest.mark.parametrize(
    "document",
    [
        b"<feed><updated>2026-11-20T00:00:00Z</updated><entry><published>2026-11-18T10:00:00Z</published>"
        b"<updated>2026-11-19T09:00:00Z</updated></entry><entry><published>2026-11-17T10:00:00Z</published></entry></feed>",
        b"<rdf:RDF><channel/><item><dc:date>2026-11-18T10:00:00Z</dc:date></item>"
        b"<item><dc:date>2026-11-17T11:00:00+01:00</dc:date></item></rdf:RDF>",
        b'{"items": [{"date_published": "2026-11-18T10:00:00Z"}, {"date_published": "2026-11-17T10:00:00Z"}]}',
    ],
    ids=["atom", "rss 1.0", "json feed"],
)
def test_every_format_has_its_own(document: bytes) -> None:
    assert find_publications(document, NOW) == (NOW - 3 * DAY - 7200, NOW - 2 * DAY - 7200)


def test_of_entries_without_a_date_of_publication_the_last_change_counts() -> None:
    document = b"".join(b"<entry><updated>2026-11-1%dT10:00:00Z</updated></entry>" % day for day in (1, 2))

    assert len(find_publications(document, NOW)) == 2


def test_the_channels_own_date_is_none_of_an_entry() -> None:
    head = f"<pubDate>{format_http_date(NOW - 9 * DAY)}</pubDate>"

    assert len(find_publications(rss(*(format_http_date(NOW - day * DAY) for day in (1, 2)), head=head), NOW)) == 2


def test_what_was_published_at_once_is_one_act() -> None:
    at = [NOW - DAY, NOW - DAY + 30, NOW - DAY + 60, NOW - 3 * DAY]

    assert find_publications(rss(*map(format_http_date, at)), NOW) == (NOW - 3 * DAY, NOW - DAY + 60)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"no feed at all",
        rss(format_http_date(NOW)),
        rss("yesterday", "tomorrow"),
        rss(format_http_date(NOW + DAY), format_http_date(NOW + 2 * DAY)),
        rss(*[format_http_date(NOW - 60)] * 20),
    ],
    ids=["nothing", "text", "one", "no dates", "the future", "all the same"],
)
def test_where_too_little_is_said_nothing_is_guessed(document: bytes) -> None:
    assert find_publications(document, NOW) == ()


def test_no_more_dates_are_looked_at_than_tell_something_of_today() -> None:
    assert (
        len(find_publications(rss(*(format_http_date(NOW - day * DAY) for day in range(1, 500))), NOW)) == ENTRIES_MAX
    )


@pytest.mark.parametrize(
    "document",
    [
        b"<item><pubDate>" * 50_000,
        b"<item>" + b"<date " * 50_000,
        b"<item><published>" + b" " * 300_000,
        b'"items":' + b'"date_published"  ' * 50_000,
        b"<item>" + b"<" + b"a" * 300_000,
    ],
    ids=["open", "attributes", "blanks", "json", "names"],
)
def test_what_is_made_to_take_long_is_passed_over(document: bytes) -> None:
    assert find_publications(document, NOW) == ()
