"""User-Agent: claims and products that are parsed, and the field that feedproxy sends."""

import pytest

from feedproxy.http.user_agent import COUNT_MAX, Claim, format_user_agent, parse_claim, product

BROWSER = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Safari/605.1.15"
CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537 (KHTML, like Gecko) Chrome/120 Safari/537"

ROJO = (
    "Mozilla/5.0 (X11; U; Linux i686; en-US; rv:1.2.1; Rojo 1.0; http://www.rojo.com/corporate/help/agg/; "
    "Aggregating on behalf of 15 subscriber(s) online at http://www.rojo.com/?feed-id=2425550) Gecko/20021130"
)

CLAIMS = [
    (
        "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 457 subscribers; like FeedFetcher-Google)",
        "feedly",
        457,
        "",
    ),
    ("Feedly/1.0 (+http://www.feedly.com/fetcher.html; 462 subscribers; )", "feedly", 462, ""),
    ("Feedly/1.0 (poller; 131 subscribers;)", "feedly", 131, ""),
    ("Feedbin feed-id:1373711 - 142 subscribers", "feedbin", 142, "1373711"),
    ("Feedbin feed-id:1373711 - 1 subscriber", "feedbin", 1, "1373711"),
    (
        f'NewsBlur Feed Fetcher - 27 subscribers - https://www.newsblur.com/site/7704055/name ("{BROWSER}")',
        "newsblur",
        27,
        "",
    ),
    (
        f"NewsBlur Feed Fetcher - 1 subscriber - https://www.newsblur.com/site/1/name ({BROWSER})",
        "newsblur",
        1,
        "",
    ),
    (
        f"NewsBlur Page Fetcher - 219 subscribers - http://www.newsblur.com/site/123456/example ({BROWSER})",
        "newsblur",
        219,
        "",
    ),
    ("Inoreader/1.0 (+http://www.inoreader.com/feed-fetcher; 3 subscribers; )", "inoreader", 3, ""),
    ("Mozilla/5.0 (compatible; inoreader.com; 114 subscribers)", "inoreader", 114, ""),
    (
        "Mozilla/5.0 (compatible; theoldreader.com; 1 subscribers; feed-id=cead6c3a837650eeefd8fe4a)",
        "theoldreader",
        1,
        "cead6c3a837650eeefd8fe4a",
    ),
    ("Mozilla/5.0 (compatible; BazQux/2.4; +https://bazqux.com/fetcher; 6 subscribers)", "bazqux", 6, ""),
    (
        "FeedHQ/1.2.3 (https://github.org/feedhq/feedhq; 1 subscriber; "
        "https://github.com/feedhq/feedhq/wiki/User-Agent; like FeedFetcher-Google)",
        "feedhq",
        1,
        "",
    ),
    ("LionReader/1.0 (https://lionreader.example/; 12 subscribers)", "lionreader", 12, ""),
    ("Lion Reader/1.0 (https://lionreader.example/; 1 subscriber)", "lionreader", 1, ""),
    (
        "Dreamwidth Studios (webmaster@dreamwidth.org; for https://www.dreamwidth.org/users/name_feed/; 2 readers)",
        "dreamwidth",
        2,
        "",
    ),
    ("LiveJournal.com (webmaster@livejournal.com; for your_url/; 1 readers)", "livejournal", 1, ""),
    (
        "Feedfetcher-Google; (+http://www.google.com/feedfetcher.html; 4 subscribers; feed-id=1794595805790851116)",
        "feedfetcher-google",
        4,
        "1794595805790851116",
    ),
    ("Bloglines/3.1 (http://www.bloglines.com; 154 subscribers)", "bloglines", 154, ""),
    ("NewsGatorOnline/2.0 (http://www.newsgator.com; 99 subscribers)", "newsgatoronline", 99, ""),
    ("Netvibes (http://www.netvibes.com/; 105 subscribers; feedID: 33718936)", "netvibes", 105, "33718936"),
    (
        "FeedLounge (http://feedlounge.example/, 1 subscribers, next refresh in approx. 28800 seconds)",
        "feedlounge",
        1,
        "",
    ),
    (
        ROJO,
        "rojo",
        15,
        "2425550",
    ),
    (
        "YahooFeedSeeker/2.0 (compatible; Mozilla 4.0; MSIE 5.5; http://my.yahoo.com/s/publishers.html; "
        "users 2; views 169)",
        "yahoofeedseeker",
        2,
        "",
    ),
    ("kinjabot (http://www.kinja.com; 1 Readers)", "kinjabot", 1, ""),
    ("ThePort_Web/1.0; subscribers 1", "theport_web", 1, ""),
    ("ThePort_Web/1.0;_subscribers_1", "theport_web", 1, ""),
    (
        "Mozilla/5.0 (compatible; YandexBlogs/0.99; robot; B; +http://yandex.com/bots)10 readers",
        "yandexblogs",
        10,
        "",
    ),
    ("kb.Rmail (http://www.r-mail.org; 500 subscribers)", "kb.rmail", 500, ""),
    ("Example/1.0 (+https://example.com/; 1,234 subscribers)", "example", 1234, ""),
    ("Example 12 readers", "example", 12, ""),
    ("Example/1.0 (0 subscribers)", "example", 0, ""),
    ("Example/1.0 (2 SUBSCRIBERS)", "example", 2, ""),
    ("feedproxy/0.1.0 (+https://example.com/bot; 7 subscribers; feed-id=9af3)", "feedproxy", 7, "9af3"),
    ("3 subscribers", "unknown", 3, ""),
]

NO_CLAIMS = [
    ("Feedly/1.0 (+http://www.feedly.com/fetcher.html; like FeedFetcher-Google)", "Feedly"),
    ("FeedHQ/1.2.3 (https://github.org/feedhq/feedhq; favicon fetcher; like FeedFetcher-Google)", "FeedHQ"),
    ("FeedHQ/1.2.3 (https://github.org/feedhq/feedhq; checking feed; like FeedFetcher-Google)", "FeedHQ"),
    ("Feedspot/1.0 (+https://www.feedspot.com/fs/fetcher; like FeedFetcher-Google)", "Feedspot"),
    ("FeedBurner/1.0 (http://www.FeedBurner.com)", "FeedBurner"),
    ("FreshRSS/1.27.0 (Linux; https://freshrss.org)", "FreshRSS"),
    ("Tiny Tiny RSS/25.07-dea3f2d (Unsupported) (https://tt-rss.org/)", "Tiny Tiny RSS"),
    ("NetNewsWire (RSS Reader; https://netnewswire.com/)", "NetNewsWire"),
    ("Miniflux/2.2.0", "Miniflux"),
    ("Mozilla/5.0 (compatible; Miniflux/2.0.50; +https://miniflux.app)", "Miniflux"),
    ("Akregator/5.24.0 (23.08.0); syndication", "Akregator"),
    ("curl/8.5.0", "curl"),
    ("python-requests/2.31", "python-requests"),
    ("Mozilla/5.0 (compatible; Unread/4.1; iOS)", "Unread"),
    ("Mozilla/5.0 (compatible; linux.example bot/1.0)", "linux.example bot"),
    ("Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)", "Mozilla"),
    ("Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Thunderbird/115.0", "Thunderbird"),
    ("Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0", "Firefox"),
    (CHROME, "Chrome"),
    (f"{CHROME} Edg/120.0", "Edge"),
    ("Mozilla/5.0 (Linux; Android 13; Pixel 7) AppleWebKit/537.36 Chrome/116 Mobile Safari/537.36", "Chrome"),
    (BROWSER, "Safari"),
    ("Mozilla/5.0", "Mozilla"),
    ("Example 2 Reader/1.0", "Example 2 Reader"),
    ("Example/2.10 readers", "Example"),
    ("", "unknown"),
    ("\t\x00;", "unknown"),
]


@pytest.mark.parametrize(("string", "fetcher", "count", "feed_id"), CLAIMS)
def test_claim_parser_reads_fetcher_count_and_feed_id(string: str, fetcher: str, count: int, feed_id: str) -> None:
    assert parse_claim(string) == Claim(fetcher, count, feed_id)


@pytest.mark.parametrize(("string", "name"), NO_CLAIMS)
def test_claim_parser_returns_none_for_user_agent_without_claim(string: str, name: str) -> None:
    assert parse_claim(string) is None
    assert product(string) == name


@pytest.mark.parametrize(
    ("string", "name"),
    [
        ("Feedly/1.0 (poller; 131 subscribers;)", "Feedly"),
        (f"NewsBlur Page Fetcher - 2 subscribers - http://www.newsblur.com/site/1/x ({BROWSER})", "NewsBlur"),
        ("Mozilla/5.0 (compatible; theoldreader.com; 1 subscribers; feed-id=ce)", "The Old Reader"),
        ("Mozilla/5.0 (compatible; inoreader.com; 114 subscribers)", "Inoreader"),
        ("Feedbin feed-id:1373711 - 142 subscribers", "Feedbin"),
        (ROJO, "Rojo"),
    ],
)
def test_product_of_fetcher_is_its_display_name(string: str, name: str) -> None:
    assert product(string) == name


def test_claim_parser_limits_count_of_excessive_length() -> None:
    claim = parse_claim("Example/1.0 (" + "9" * 400 + " subscribers)")

    assert claim == Claim("example", COUNT_MAX, "")


@pytest.mark.parametrize("string", ["1," * 500_000, "9" * 10**6, "Mozilla/5.0 (" * 80_000, "users " * 200_000])
@pytest.mark.timeout(120)
def test_claim_parser_reads_long_user_agent_in_linear_time(string: str) -> None:
    # With quadratic time, hours.
    parse_claim(string)

    assert len(product(string)) <= 40


def test_own_user_agent_contains_contact_count_and_feed_id() -> None:
    contact = "https://example.com/feedproxy"

    assert format_user_agent("1.2", contact, 12, "9af3") == (
        "feedproxy/1.2 (+https://example.com/feedproxy; 12 subscribers; feed-id=9af3)"
    )


def test_own_user_agent_uses_singular_for_one_subscriber() -> None:
    assert "; 1 subscriber; " in format_user_agent("1.2", "https://example.com/", 1, "9af3")


def test_own_user_agent_omits_count_of_zero() -> None:
    assert (
        format_user_agent("1.2", "https://example.com/", 0, "9af3")
        == "feedproxy/1.2 (+https://example.com/; feed-id=9af3)"
    )


def test_own_user_agent_omits_unknown_contact_and_feed_id() -> None:
    assert format_user_agent("1.2", "", 0, "") == "feedproxy/1.2"
    assert format_user_agent("1.2", "", 3, "") == "feedproxy/1.2 (3 subscribers)"


def test_own_user_agent_escapes_delimiters_in_contact() -> None:
    assert format_user_agent("1.2", "https://example.com/a)b;c\r\nX: y", 1, "") == (
        "feedproxy/1.2 (+https://example.com/a%29b%3Bc%0D%0AX:%20y; 1 subscriber)"
    )


def test_own_user_agent_is_parsed_as_claim() -> None:
    assert parse_claim(format_user_agent("1.2", "https://example.com/", 57, "9af3")) == Claim("feedproxy", 57, "9af3")
