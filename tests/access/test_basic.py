"""Basic credentials as clients send them.  RFC 7617"""

import base64

import pytest

from feedproxy.access.basic import CREDENTIALS_MAX, BasicCredentials, parse


def encoded(text: str, coding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(coding)).decode()


@pytest.mark.parametrize(
    "value",
    [
        f"Basic {encoded('jürgen:a:b')}",
        f" bAsIc  {encoded('jürgen:a:b')} ",
        f"Basic {encoded('jürgen:a:b', 'latin-1')}",
    ],
)
def test_basic_credentials_are_read_in_the_spellings_of_clients(value: str) -> None:
    assert parse(value) == BasicCredentials("jürgen", "a:b")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Basic",
        encoded("me:secret"),
        f"Bearer {encoded('me:secret')}",
        "Basic me:secret",
        "Basic ü",
        f"Basic {encoded('me')}",
        f"Basic {encoded(':secret')}",
        f"Basic {encoded('me:sec' + chr(10) + 'ret')}",
        f"Basic {encoded('me:secret' + chr(127))}",
        f"Basic {encoded('me:' + 'x' * CREDENTIALS_MAX)}",
    ],
)
def test_basic_credentials_of_another_scheme_or_malformed_are_none(value: str) -> None:
    assert parse(value) is None
