"""Realms of challenges begin with the owner; challenges are parsed as browsers parse them."""

import pytest

from feedproxy.http.www_authenticate import with_realms_of

OWNER = "https://a.example"


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ('Basic realm="news"', 'Basic realm="https://a.example news"'),
        ("basic REALM = news", 'basic realm="https://a.example news"'),
        ("Basic", 'Basic realm="https://a.example"'),
        ("Basic realm=", 'Basic realm="https://a.example"'),
        ('Basic charset="UTF-8", realm="x, \\"y\\""', 'Basic realm="https://a.example x, \\"y\\"", charset="UTF-8"'),
        ('Basic realm="a", realm="b"', 'Basic realm="https://a.example a"'),
        (
            'Digest qop="auth, auth-int", realm="x", nonce="n", Basic realm="y"',
            'Digest realm="https://a.example x", qop="auth, auth-int", nonce="n", Basic realm="https://a.example y"',
        ),
        (
            'Digest realm="x", domain="/ http://b.example/", nonce="n"',
            'Digest realm="https://a.example x", nonce="n"',
        ),
        ('Bearer realm="x", error="y"', 'Bearer realm="x", error="y"'),
        ("Negotiate YWJj==, NTLM", "Negotiate YWJj==, NTLM"),
        ('NTLM, Basic realm="x"', 'NTLM, Basic realm="https://a.example x"'),
        ('realm="victim"', ""),
    ],
)
def test_realm_of_basic_and_digest_begins_with_the_owner(said: str, written: str) -> None:
    assert with_realms_of(said, OWNER) == written


def test_realm_after_unclosed_quotation_mark_begins_with_the_owner() -> None:
    assert 'Basic realm="https://a.example victim"' in with_realms_of('Bearer x="y, Basic realm="victim"', OWNER)
