"""memoize_by_identity: results of the last objects are cached."""

from feedproxy.http.memoize import memoize_by_identity
from feedproxy.http.message import Fields


def test_memoize_by_identity_computes_once_for_each_object() -> None:
    asked: list[Fields] = []

    @memoize_by_identity()
    def length(fields: Fields) -> int:
        asked.append(fields)
        return len(fields)

    one, other = Fields([("A", "b")]), Fields([("A", "b")])
    assert [length(one), length(one), length(other)] == [1, 1, 1]
    assert asked[0] is one
    assert asked[1:] == [other]


def test_memoize_by_identity_distinguishes_all_arguments() -> None:
    asked: list[bool] = []

    @memoize_by_identity(entries=1)
    def describe(fields: Fields, short: bool) -> str:
        asked.append(short)
        return str(len(fields)) if short else repr(fields)

    fields = Fields()
    assert [describe(fields, short) for short in (True, True, False, True)] == ["0", "0", "Fields([])", "0"]
    assert asked == [True, False, True]


def test_memoize_by_identity_is_bounded_and_distinguishes_objects() -> None:
    @memoize_by_identity(entries=2)
    def first(fields: Fields) -> str | None:
        return fields.get("x")

    for number in range(1000):
        fields = Fields([("X", str(number))])
        assert first(fields) == first(fields) == str(number)
