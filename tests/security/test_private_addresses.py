"""Addresses with secrets appear in no list, and public addresses are not classified as secret."""

import pytest

from feedproxy.http.target_uri.url_redaction import has_secret, without_secrets
from feedproxy.proxy.public_feeds import may_be_listed
from feedproxy.settings import Settings

SECRET = (
    "https://example.com/private/aB3-xY_9kLm-0pQr-Zt7",
    "https://example.com/rss/AbCdEfGh1234",
    "https://example.com/AbCdEfGh1234",
    "https://example.com/feed/qwkzjxvbtpqmlrndshgfwyzcxkjqvbtnpq.xml",
    "https://example.com/feed/12345678901234567890123456.xml",
    "https://example.com/feed?hash=5d41",
    "https://example.com/feed?t=Zm9vYmFy",
    "https://example.com/feed?k=x7f",
    "https://example.com/feed?u=aB3xY9kLm0",
    "https://example.com/feed?id=f3a9c1d27b",
    "https://example.com/feed?access=abc",
    "https://example.com/feed?invite=abc",
    "https://example.com/feed.xml;jsessionid=1A2B3C",
    "https://example.com/feed?%74oken=abc",
    "https://github.com/alice.private.atom?token=ABCDEF",
    "https://gitlab.example.com/dashboard/projects.atom?feed_token=glft-abc",
    "https://gitlab.com/alice.atom?rss_token=abc",
    "https://www.reddit.com/.rss?feed=0f1e2d3c4b5a69788796a5b4c3d2e1f012345678&user=alice",
    "https://calendar.google.com/calendar/ical/alice%40gmail.com/private-0f1e2d3c4b5a69788796a5b4c3d2e1f0/basic.ics",
    "https://www.patreon.com/rss/show?auth=aB3xY9kLm0pQrZt7",
    "https://api.substack.com/feed/podcast/12345/private/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0.rss",
    "https://feeds.pinboard.in/rss/secret:0f1e2d3c4b5a69788796/u:alice/",
    "https://freshrss.example.net/i/?a=rss&user=alice&t=9d8f7a6b5c&hours=24",
    "https://tt-rss.example.net/public.php?op=rss&id=-2&key=5f4dcc3b5aa",
    "https://kill-the-newsletter.com/feeds/q9w8e7r6t5y4u3i2o1p0.xml",
    "https://feedbin.com/starred/d41d8cd98f00b204e980.xml",
    "https://overcast.fm/p1234567-AbC9dE",
    "https://www.goodreads.com/user/updates_rss/12345?key=Kx8fQ2",
    "https://redmine.example.com/projects/x/activity.atom?key=0a1b2c3d4e5f60718293",
    "https://tracker.example/rss.php?feed=dl&passkey=0123456789abcdef",
    "https://tracker.example/torrents.php?user=1&auth=abcdef&authkey=123abc",
    "https://bugzilla.example/buglist.cgi?ctype=atom&api_key=abc",
    "https://jira.example.com/sr/jira.issueviews?os_username=alice&os_password=pw",
    "https://example.supercast.tech/feed/hVt2kLx8QbT3mZ",
    "https://feeds.example.fm/members/hVt2kLx8",
    "https://user:word@example.com/feed",
    "https://cloud.example.com/remote.php/dav/public-calendars/Xy7ZkQp2Lm9TnR4W",
    "https://outlook.office365.com/owa/calendar/0f1e2d3c4b5a@example.com/ab12cd34ef/calendar.ics",
    "https://www.instapaper.com/rss/123456/qV8XkJ2mZpT4",
    "https://app.example.com/feeds/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "https://example.com/webhooks/rss/T0AB12CD/B9Xk3Lm2",
    "https://example.com/feed?PHPSESSID=abc",
    "https://example.com/feed?sid=abcdef",
    "https://example.com/feed.ashx?guid=Kq8w2Lx9Pz",
    "https://example.com/u/MZXW6YTBOI3HK3TJ/feed",
    "https://example.com/feed?sig=abc&expires=1700000000",
    "https://example.com/feed?email=alice%40example.org",
    "https://example.com/feed?user_credentials=abc",
    "https://example.com/feed?uid=u8Fk2",
    "https://a1b2c3d4e5f60718.feeds.example/rss",
    "https://example.com/xK9mQ2",
    "https://example.com/rss/kjhgfdswqzxcvbnmlkpq",
    "https://example.com/p/~aZ9_kQ3-bT7/feed.atom",
    "https://letterboxd.example/alice/rss/?code=77",
    "https://example.com/s/fG7h-J8kL-9mNp",
    "https://bridge.example/?url=https://example.com/feed?token=abc",
    "https://bridge.example/?url=http://example.com/feed%3Ftoken%3Dabc",
    "https://bridge.example/?url=https%3A%2F%2Fexample.com%2Ffeed%3Fa%3D1%26key%3Dabc",
    "https://bridge.example/?url=https%253A%252F%252Fexample.com%252Ffeed%253Ftoken%253Dabc",
    "https://bridge.example/https%3A%2F%2Fexample.com%2Ffeed%3Btoken%3Dabc",
)

PUBLIC = (
    "https://example.com/feed.xml",
    "https://example.com/2026/11/a-long-title-of-many-words/feed",
    "https://example.com/feed?page=2",
    "https://[2001:db8::1]/feed",
    "https://blog.example.org/index.php?feed=rss2",
    "https://blog.example.org/?feed=comments-rss2&p=123",
    "https://blog.example.org/category/how-to-do-it-now/feed/",
    "https://github.com/owner/repo/commits/main.atom",
    "https://github.com/python/cpython/releases.atom",
    "https://www.youtube.com/feeds/videos.xml?channel_id=UCXuqSBlHAE6Xw-yeJA0Tunw",
    "https://www.youtube.com/feeds/videos.xml?playlist_id=PLrAXtmErZgOeiKm4sgNOknGvNjby9efdf",
    "https://feeds.bbci.co.uk/news/world/rss.xml",
    "https://feeds.megaphone.fm/WWO3519750118",
    "https://feeds.simplecast.com/54nAGcIl",
    "https://anchor.fm/s/a1b2c3d4/podcast/rss",
    "https://feeds.acast.com/public/shows/60bdd3c4e5f6a7b8c9d0e1f2",
    "https://feeds.soundcloud.com/users/soundcloud:users:123456789/sounds.rss",
    "https://www.omnycontent.com/d/playlist/e73c998e-6e60-432f-8610-ae210140c5b1/A91018A4-EA4F-4130-BF55-AE270180C327/podcast.rss",
    "https://feeds.feedburner.com/ThisWeekInAstronomyPodcast",
    "https://feeds.feedburner.com/TechCrunch",
    "https://medium.com/feed/@some-user",
    "https://mastodon.social/@Gargron.rss",
    "https://forum.example.com/feed.php?f=3&t=1234",
    "https://forum.example.com/index.php?/forum/12-news.xml",
    "https://lists.example.org/archives/list/python-dev@python.org/feed/",
    "https://www.reddit.com/r/programming/.rss",
    "https://stackoverflow.com/feeds/tag?tagnames=python&sort=newest",
    "https://export.arxiv.org/rss/cs.CR",
    "https://news.ycombinator.com/rss",
    "https://hnrss.org/newest?q=rust&points=100",
    "https://example.com/search?q=keyword&format=rss",
    "https://example.com/search.rss?keywords=climate",
    "https://example.com/feeds/top-10-c-64-games-of-80s.xml",
    "https://example.com/author/alice/feed",
    "https://example.com/feed?author=alice&authors=2",
    "https://www.nasa.gov/rss/dyn/breaking_news.rss",
    "https://example.com/wp-content/uploads/2026/11/20261120T120000Z.xml",
    "https://podcasts.files.bbci.co.uk/p02nq0gn.rss",
    "https://rss.nytimes.com/services/xml/rss/nyt/HomePage.xml",
    "https://www.heise.de/rss/heise-atom.xml",
    "https://example.com/Bundesverfassungsgericht/Entscheidungen.xml",
    "https://example.com/rechtsschutzversicherungsgesellschaften/rss.xml",
    "https://example.com/iso-8859-1-and-utf8/feed",
    "https://status.example.com/history.atom",
    "https://planet.example.org/rss20.xml",
    "https://example.org/mp3/h264/x265/feed.rss",
    "https://example.com/feed/rss2_0.xml",
    "https://example.com/web2.0/HowToDoItNow.rss",
    "https://example.com/passages/feed?passage=john",
    "https://www.gov.uk/search/news-and-communications.atom?organisations[]=hm-treasury",
    "https://example.com/tag/c%2B%2B20/feed",
    "https://example.com/t/topic-name/12345.rss",
    "https://example.com/feed?lang=en&type=rss2",
    "https://example.com/20261120/feed",
    "https://www.spiegel.de/schlagzeilen/index.rss",
    "https://example.com/private-equity-news/feed",
    "https://example.com/secretary-of-state/feed.xml",
    "https://feeds.arstechnica.com/arstechnica/index",
    "https://feeds.npr.org/1001/rss.xml",
    "https://www.bleepingcomputer.com/feed/",
    "https://example.com/covid19/g20-summit-2026/feed.xml",
)


@pytest.mark.parametrize("address", SECRET)
def test_private_feed_address_is_a_secret(address: str) -> None:
    assert has_secret(address)
    assert not may_be_listed(address, Settings())


@pytest.mark.parametrize("address", PUBLIC)
def test_public_feed_address_is_no_secret(address: str) -> None:
    assert not has_secret(address)
    assert without_secrets(address) == address


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://example.com/private/aB3-xY_9kLm-0pQr-Zt7.rss", "https://example.com/private/….rss"),
        ("https://example.com/feed?t=Zm9vYmFy&page=2", "https://example.com/feed?t=…&page=2"),
        ("https://example.com/feed.xml;jsessionid=1A2B3C?a=b", "https://example.com/feed.xml;jsessionid=…?a=b"),
        ("https://example.com/feed?%74oken=abc", "https://example.com/feed?%74oken=…"),
        ("/?url=http://example.com/feed%3Ftoken%3Dabc", "/?url=http://example.com/feed%3Ftoken%3D…"),
        ("/https%3A%2F%2Fexample.com%2F%3Ftoken%3Da%26b%3Dc", "/https%3A%2F%2Fexample.com%2F%3Ftoken%3D…%26b%3Dc"),
        (
            "https://a.example/?u=https%253A%252F%252Fb.example%253Fkey%253Dabc&x=1",
            "https://a.example/?u=https%253A%252F%252Fb.example%253Fkey%253D…&x=1",
        ),
        ("https://example.com/feed?next=/a?token=b?c&page=2", "https://example.com/feed?next=/a?token=…&page=2"),
    ],
)
def test_secret_of_an_address_is_not_shown(address: str, shown: str) -> None:
    assert without_secrets(address) == shown
