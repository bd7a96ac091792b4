"""Challenges at the gateway: their realms begin with the owner, whatever the recipient takes for one challenge."""

import re

import pytest

from feedproxy.request.gateway_challenges import gateway_challenges

OWNER = "https://a.example"


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ('Basic realm="news"', 'Basic realm="https://a.example news"'),
        ("basic REALM = news", 'basic realm="https://a.example news"'),
        ("Basic", 'Basic realm="https://a.example"'),
        ("Basic realm=", 'Basic realm="https://a.example"'),
        ("Basic YWJj==", 'Basic realm="https://a.example"'),
        ('Basic charset="UTF-8", realm="x, \\"y\\""', 'Basic realm="https://a.example x, \\"y\\"", charset="UTF-8"'),
        ('Basic realm="a", realm="b"', 'Basic realm="https://a.example a"'),
        ('Bearer realm="x", error="y"', 'Bearer realm="https://a.example x", error="y"'),
        ('Bearer error="y"', 'Bearer error="y"'),
        ("Other YWJj==", "Other YWJj=="),
        ('realm="victim"', ""),
    ],
)
def test_realm_begins_with_the_owner(said: str, written: str) -> None:
    assert gateway_challenges(said, OWNER) == written


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Negotiate YWJj==, NTLM", ""),
        ("Digest realm=x, qop=auth, nonce=n, Basic realm=y", 'Basic realm="https://a.example y"'),
        ('NTLM, Basic realm="x"', 'Basic realm="https://a.example x"'),
        ('Basic realm="x", negotiate', 'Basic realm="https://a.example x"'),
    ],
)
def test_schemes_that_need_the_target_itself_are_dropped(said: str, written: str) -> None:
    assert gateway_challenges(said, OWNER) == written


@pytest.mark.parametrize(
    "said",
    [
        'Bearer x="y, Basic realm="victim"',
        'Basic realm="x", Other a=b, realm="victim"',
        'Basic realm="x", Other, realm="victim"',
        'Other Basic realm="victim"',
        'Basic realm="x", Other a="b"c", realm="victim"',
        'Basic a=\'", realm="victim"',
        'Basic realm="x"; realm="victim"',
    ],
)
def test_no_realm_begins_with_other_text_than_the_owner(said: str) -> None:
    written = gateway_challenges(said, OWNER)

    realms = re.findall(r'(?i)realm *= *"((?:[^"\\]|\\.)*)"', written)
    assert all(realm.startswith(OWNER) for realm in realms)
    assert "victim" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", written)


def test_domain_is_dropped_from_each_challenge() -> None:
    said = 'Basic realm="x", domain="/", Other a=b, domain="/ http://b.example/"'

    assert gateway_challenges(said, OWNER) == 'Basic realm="https://a.example x", Other a=b'
