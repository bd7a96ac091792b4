"""Publication dates: the history of a feed, from the dates of its entries."""

from datetime import UTC, datetime

import pytest

from feedproxy.feed.publication_history import ENTRIES_MAX, find_publications
from feedproxy.http.date import format_http_date

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC).timestamp()
DAY = 86_400.0


def rss(*dates: str, name: str = "pubDate", head: str = "") -> bytes:
    items = "".join(f"<item><title>x</title><{name}>{date}</{name}></item>" for date in dates)
    return f'<rss version="2.0"><channel><title>News</title>{head}{items}</channel></rss>'.encode()


def test_dates_of_entries_are_sorted_oldest_first() -> None:
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
def test_dates_are_read_in_every_format(document: bytes) -> None:
    assert find_publications(document, NOW) == (NOW - 3 * DAY - 7200, NOW - 2 * DAY - 7200)


def test_dates_fall_back_to_updated() -> None:
    document = b"".join(b"<entry><updated>2026-11-1%dT10:00:00Z</updated></entry>" % day for day in (1, 2))

    assert len(find_publications(document, NOW)) == 2


def test_dates_exclude_that_of_the_channel() -> None:
    head = f"<pubDate>{format_http_date(NOW - 9 * DAY)}</pubDate>"

    assert len(find_publications(rss(*(format_http_date(NOW - day * DAY) for day in (1, 2)), head=head), NOW)) == 2


def test_dates_within_a_minute_count_once() -> None:
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
def test_dates_are_empty_for_insufficient_data(document: bytes) -> None:
    assert find_publications(document, NOW) == ()


def test_dates_are_limited_in_number() -> None:
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
def test_dates_of_a_costly_document_are_empty(document: bytes) -> None:
    assert find_publications(document, NOW) == ()
