"""Target patterns: matches, mismatches and invalid patterns."""

import pytest

from feedproxy.errors import BadTarget
from feedproxy.http.target_uri.target_pattern import TargetPattern


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("https://example.com/*", "https://example.com/"),
        ("https://example.com/*", "https://example.com/a/b?c=d"),
        ("https://example.com/feed?format=*", "https://example.com/feed?format=rss"),
        ("https://Example.COM/feed", "https://example.com/feed"),
        ("https://example.com:443/feed", "https://example.com/feed"),
        ("https://example.com/%7euser/*", "https://example.com/~user/feed"),
        ("https://bücher.example/*", "https://xn--bcher-kva.example/feed"),
        ("https://*.example.com/*.rss", "https://a.b.example.com/blog/feed.rss"),
        ("https://example.com", "https://example.com/any/thing"),
        ("*.example.com", "http://blog.example.com/feed"),
        ("*.example.com", "https://blog.example.com:8443/feed"),
        ("example.com", "https://example.com/feed"),
        ("example.com/blog/*", "http://example.com/blog/feed"),
        ("http*://example.com/feed", "https://example.com/feed"),
        ("localhost:8000", "http://localhost:8000/feed"),
        ("[::1]", "http://[::1]:8000/feed"),
        ("*", "https://example.com/feed"),
    ],
)
def test_pattern_matches_target(pattern: str, target: str) -> None:
    assert TargetPattern(pattern).matches(target)


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("https://example.com/*", "http://example.com/feed"),
        ("https://example.com/*", "https://example.com:8443/feed"),
        ("https://example.com/*", "https://example.com.evil.example/feed"),
        ("https://example.com/feed", "https://example.com/feed?x"),
        ("https://example.com/fee?", "https://example.com/feed"),
        ("*.example.com", "https://example.com/feed"),
        ("*.example.com", "https://evil.example/x.example.com"),
        ("https://*.example.com/*", "https://evil.example/x.example.com/feed"),
        ("example.com/blog/*", "https://example.com/feed"),
        ("localhost:8000", "http://localhost:8001/feed"),
        ("example.com", "https://example-com/feed"),
    ],
)
def test_pattern_does_not_match_target(pattern: str, target: str) -> None:
    assert not TargetPattern(pattern).matches(target)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "/feed",
        "ftp://example.com/",
        "https://",
        "https://user:pw@example.com/",
        "a b",
        "javascript:alert(0)",
    ],
)
def test_pattern_that_no_target_can_match_is_rejected(pattern: str) -> None:
    with pytest.raises(BadTarget):
        TargetPattern(pattern)
