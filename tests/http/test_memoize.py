"""memoize_short: results for short strings are cached, within bounds."""

from feedproxy.http.memoize import memoize_short


def test_memoize_short_caches_short_values_only() -> None:
    parsed: list[str] = []

    @memoize_short(entries=2, longest=3)
    def parse(value: str) -> int:
        parsed.append(value)
        return len(value)

    assert [parse("abc"), parse("abc"), parse("abcd"), parse("abcd")] == [3, 3, 4, 4]
    assert parsed == ["abc", "abcd", "abcd"]


def test_memoize_short_drops_the_least_recently_used_value() -> None:
    parsed: list[str] = []

    @memoize_short(entries=2)
    def parse(value: str) -> None:
        parsed.append(value)

    for value in ("a", "b", "a", "c", "a", "b"):
        parse(value)

    assert parsed == ["a", "b", "c", "b"]
