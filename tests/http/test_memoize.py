"""What was parsed is remembered within bounds."""

from feedproxy.http.memoize import memoize_short


def test_a_short_value_is_parsed_once_and_a_long_one_each_time() -> None:
    parsed: list[str] = []

    @memoize_short(entries=2, longest=3)
    def parse(value: str) -> int:
        parsed.append(value)
        return len(value)

    assert [parse("abc"), parse("abc"), parse("abcd"), parse("abcd")] == [3, 3, 4, 4]
    assert parsed == ["abc", "abcd", "abcd"]


def test_the_value_not_seen_for_longest_is_forgotten_first() -> None:
    parsed: list[str] = []

    @memoize_short(entries=2)
    def parse(value: str) -> None:
        parsed.append(value)

    for value in ("a", "b", "a", "c", "a", "b"):
        parse(value)

    assert parsed == ["a", "b", "c", "b"]
