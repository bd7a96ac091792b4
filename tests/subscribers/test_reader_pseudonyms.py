"""Pseudonyms: equal for one reader, different for others, unpredictable without the secret."""

import pytest

from feedproxy.subscribers.reader_pseudonyms import Identifier

SECRET = b"sixteen bytes or more"
NOW = 1_795_176_000.0
DAY = 86_400.0


def test_pseudonym_is_equal_in_all_processes() -> None:
    first, second = Identifier(SECRET), Identifier(SECRET)

    assert first.pseudonym("192.0.2.1", "a", "", NOW) == second.pseudonym("192.0.2.1", "a", "", NOW + 60)


@pytest.mark.parametrize(
    "other",
    [("192.0.2.2", "a", ""), ("192.0.2.1", "b", ""), ("192.0.2.1", "a", "ann"), ("192.0.2.1a", "", "")],
)
def test_pseudonyms_of_different_readers_differ(other: tuple[str, str, str]) -> None:
    identifier = Identifier(SECRET)

    assert identifier.pseudonym(*other, NOW) != identifier.pseudonym("192.0.2.1", "a", "", NOW)


@pytest.mark.parametrize(
    ("user", "agent", "is_equal"),
    [("", "Newsboat/2.33 (Linux)", True), ("", "Liferea/1.15", False), ("ann", "Liferea/1.15", True)],
)
def test_long_term_pseudonym_does_not_depend_on_the_version_of_the_program(
    user: str, agent: str, is_equal: bool
) -> None:
    identifier = Identifier(SECRET)
    first = identifier.pseudonym("192.0.2.1", "Newsboat/2.32 (Linux)", user, NOW)
    other = identifier.pseudonym("192.0.2.1", agent, user, NOW)

    assert (first.long_term == other.long_term) is is_equal


def test_pseudonyms_of_user_and_address_with_equal_text_differ() -> None:
    identifier = Identifier(SECRET)

    assert identifier.pseudonym("ann", "a", "", NOW) != identifier.pseudonym("192.0.2.1", "a", "ann", NOW)


def test_pseudonym_of_new_period_includes_the_previous_one() -> None:
    identifier = Identifier(SECRET, period=DAY)
    today = identifier.pseudonym("192.0.2.1", "a", "", NOW)
    tomorrow = identifier.pseudonym("192.0.2.1", "a", "", NOW + DAY)
    in_two_days = identifier.pseudonym("192.0.2.1", "a", "", NOW + 2 * DAY)

    assert tomorrow.current != today.current
    assert tomorrow.previous == today.current
    assert today.current not in in_two_days


def test_pseudonyms_of_different_secrets_are_disjoint() -> None:
    one, other = Identifier(SECRET), Identifier(SECRET + b"!")

    assert set(one.pseudonym("192.0.2.1", "a", "", NOW)).isdisjoint(other.pseudonym("192.0.2.1", "a", "", NOW))


@pytest.mark.parametrize("secret", [b"", b"short"])
def test_identifier_rejects_short_secret(secret: bytes) -> None:
    with pytest.raises(ValueError, match="secret"):
        Identifier(secret)


def test_identifier_rejects_period_without_length() -> None:
    with pytest.raises(ValueError, match="period"):
        Identifier(SECRET, period=0)


def test_pseudonym_accepts_any_characters_in_user_agent() -> None:
    assert Identifier(SECRET).pseudonym("192.0.2.1", "\udc80\xff\u20ac", "", NOW)
