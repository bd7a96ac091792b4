"""Secrets are found and masked in every part of an address."""

from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feedproxy.http.target_uri.url_redaction import has_secret, is_random, sounds_secret, without_secrets


@pytest.mark.parametrize(
    "target",
    [
        "https://example.com/feed.xml",
        "https://example.com/feed.xml#fragment",
        "https://example.com/feed.xml#0123456789abcdef01",
        "https://example.com/2026/11/a-long-title-of-many-words/feed",
        "https://example.com/feed?page=2",
        "https://[2001:db8::1]/feed",
    ],
)
def test_address_without_tokens_is_not_secret(target: str) -> None:
    assert not has_secret(target)


@pytest.mark.parametrize(
    "target",
    [
        "https://user:word@example.com/feed",
        "https://example.com/feed?token=abc",
        "https://example.com/0123456789abcdef01/feed.xml",
        "https://example.com/01234567-89ab-cdef-0123-456789abcdef/feed#x",
        "https://example.com/priv%61te/feed.xml",
        "https://example.com/https://user:word@other.example/",
        "https://example.com/https%3a%2f%2fuser%40other.example/",
        "https://[2001:db8::1/feed",
    ],
)
def test_address_with_user_information_or_token_is_secret(target: str) -> None:
    assert has_secret(target)


@pytest.mark.parametrize(
    "name",
    [
        *("access_token", "client-secret", "password", "pass", "pwd", "pw", "auth", "Authorization", "authorisation"),
        *("credentials", "X-Amz-Signature", "sig", "session[id]", "sid", "jwt", "apiKey", "key", "k", "pk", "cookie"),
        *("hmac", "ticket", "private", "invitation", "magic", "nonce", "csrf", "xsrf", "email", "mail", "code", "otp"),
        *("t", "h", "hash", "md5", "sha1", "digest", "access", "pin", "rss", "guid", "uuid", "sso", "login", "member"),
        *("subscriber", "uid"),
    ],
)
def test_parameter_with_a_name_of_secrets_is_secret(name: str) -> None:
    assert sounds_secret(name)
    assert without_secrets(f"https://example.com/feed?{name}=Ab3") == f"https://example.com/feed?{name}=…"


@pytest.mark.parametrize(
    "name", ["author", "author_id", "passage", "passenger", "passing", "keyword", "topic", "codes"]
)
def test_parameter_with_a_similar_name_is_not_secret(name: str) -> None:
    assert not sounds_secret(name)


@pytest.mark.parametrize(
    ("random", "words"),
    [
        ("A1b2C3", "a1b2c3"),
        ("r3l8as3x", "release2-update3-version4"),
        ("abcdefabcdef1234", "img-20240101123456"),
        ("bcdfghjklmnpqrst12", "bcdfghjk12"),
        ("aBcDeFghijKlmnoP", "aBcDeFghijKlmnoPars"),
    ],
)
def test_run_that_changes_its_characters_often_or_has_no_word_is_random(random: str, words: str) -> None:
    assert is_random(random)
    assert not is_random(words)


@pytest.mark.parametrize("path", ["push/websub/12.%s", "push/rsscloud/12-%s", "push/cnws/12-%s", "with/%s"])
@pytest.mark.parametrize(
    "token", ["dcl-U3RNUx68-EsPvpdaotSWNIK_rb_n", "Gp-Buzw_bFAB0KY-AU0Lwx_E-Brnfl-L", "words-alone"]
)
def test_tokens_in_own_secret_addresses_are_masked(path: str, token: str) -> None:
    own = f"/-/{path % token}"

    for address in (f"https://feeds.example{own}?hub.mode=subscribe", f"https://x.example/?to={quote(own, safe='')}"):
        assert token not in without_secrets(address)
        assert has_secret(address)
    assert "hub.mode=subscribe" in without_secrets(f"https://feeds.example{own}?hub.mode=subscribe")


@given(
    st.lists(
        st.one_of(
            st.from_regex(r"[a-z]{1,16}|[0-9]{1,16}|[0-9a-f]{8,16}", fullmatch=True),
            st.sampled_from(
                ["push", "websub", "with", "private", "secret", "members-only", "passages", "2024", "eyJ", "A"]
            ),
            st.sampled_from(["/", "-", "_", ".", "~", ":", "/-/", "/push/"]),
        ),
        max_size=14,
    )
)
@example(["/", "-", "/with/abcdef/feed"])
@example(["/push/", "websub/", "abcdef"])
@example(["/", "private", "/feed"])
@example(["abc-"] * 1000)
def test_address_of_short_words_is_judged_like_every_other(parts: list[str]) -> None:
    address = "https://example.com/" + "".join(parts)

    # A mark that is not part of a word takes the address through all rules.
    assert has_secret(address) == has_secret(address + "/$")
