"""RFC 9842, section 2.2.2: which URLs the `match` of a dictionary covers, for a client without request destinations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.http.coding.compression_dictionary import exact_pattern
from feedproxy.http.target_uri.dictionary_match_pattern import covers

BASE = "https://example.com/news/feed.xml?a=1"


@pytest.mark.parametrize(
    ("pattern", "target", "matches"),
    [
        ("/news/feed.xml", "/news/feed.xml", True),
        # A query that the pattern does not mention may be any (URL Pattern Standard, "initialize").
        ("/news/feed.xml", "/news/feed.xml?b=2", True),
        ("/news/feed.xml?b=2", "/news/feed.xml?b=2", True),
        ("/news/feed.xml?b=2", "/news/feed.xml", False),
        ("/news/feed.xml?b=*", "/news/feed.xml?b=2&c", True),
        ("/news/*", "/news/a/b.xml", True),
        ("/news/*", "/news", False),
        ("/app/*/main.js", "/app/v1/main.js", True),  # section 2.1.5.2
        ("/app/*/main.js", "/app/main.js", False),
        ("/a*a", "/a", False),
        ("*", "/news/x", True),
        ("*", "/other", False),
        ("feed.xml", "/news/feed.xml", True),
        ("feed.xml", "/feed.xml", False),
        ("?c=3", "/news/feed.xml?c=3", True),
        ("?c=3", "/news/feed.xml", False),
        ("https://example.com/news/*", "/news/feed.xml", True),
        ("https://other.example/news/*", "/news/feed.xml", False),
        ("http://example.com/news/*", "/news/feed.xml", False),
        ("/https{\\:}//a.example/x", "/https://a.example/x", True),
        ("/a\\*b", "/a*b", True),
        ("/a\\*b", "/axb", False),
        ("/a{b-c}d", "/ab-cd", True),
        ("/d%C3%BCsseldorf", "/d%C3%BCsseldorf", True),  # section 2.1.1
    ],
)
def test_pattern_covers_exactly_the_urls_that_it_matches(pattern: str, target: str, matches: bool) -> None:
    assert covers(pattern, BASE, f"https://example.com{target}") is matches


@pytest.mark.parametrize(
    "target", ["http://example.com/x", "https://example.com:8443/x", "https://www.example.com/x", "https://e.com/x"]
)
def test_dictionary_pattern_does_not_cover_a_url_of_another_origin(target: str) -> None:
    # "If the Origin of BASEURL and the Origin of URL are not the same, return FALSE." -- 2.2.2
    assert not covers("/*", BASE, target)
    assert covers("/*", target, target)


@pytest.mark.parametrize(
    "pattern",
    ["", "/:name", "/(x)", "/{x}?", "/{x}+", "/{x}*", "/*?a", "/**", "/*+", "/x+", "/{x", "/x}", "/{a*}", "/x#y",
     "https:", "/x\\", "/a?b?c", "/{x}{y}?", "https://*/x"],
)  # fmt: skip
def test_pattern_that_is_unsupported_covers_nothing(pattern: str) -> None:
    for target in ("/", "/x", "/a", "/xx", "/a?b", "/a?b?c", "/name", "/xy"):
        assert not covers(pattern, BASE, f"https://example.com{target}")


def test_pattern_with_many_asterisks_matches_in_linear_time() -> None:
    assert not covers("/" + "*a" * 500 + "b", BASE, "https://example.com/" + "a" * 8000)


@given(st.text(alphabet="ab/:?*(){}+\\=&-.", max_size=20))
def test_pattern_of_a_path_covers_that_path_and_no_other(text: str) -> None:
    path = "/" + text
    pattern, target = exact_pattern(path), f"https://example.com{path}"

    if pattern is not None:
        assert covers(pattern, target, target)
        assert not covers(pattern, target, f"{target}x") or ("?" not in path)
        assert not covers(pattern, target, f"https://example.com/x{text}")


@given(st.text(alphabet="ab/:?*(){}+\\#=", max_size=20), st.text(alphabet="ab/?*", max_size=20))
def test_any_pattern_covers_or_does_not(pattern: str, path: str) -> None:
    assert covers(pattern, BASE, f"https://example.com/{path}") in (True, False)


@pytest.mark.timeout(120)
def test_pattern_of_great_length_matches_in_linear_time() -> None:
    # With quadratic time, an hour.
    assert not covers("/" + "*a" * 320_000, BASE, BASE)
