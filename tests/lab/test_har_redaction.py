"""Recordings contain no secrets and no network addresses, in any field."""

from pathlib import Path

import pytest

from feedproxy.lab.record import har_format
from feedproxy.lab.record.har_redaction import ADDRESSES, SECRETS, Redactor
from feedproxy.lab.record.har_writer import HarWriter
from feedproxy.lab.record.recorder import Recorder
from tests.lab.exchanges import AT, an_exchange

KEY = b"k" * 32
TOKEN = "hunter2hunter2"
RANDOM = "aB3xY9kLm0pQrZt7"

SECRET_FIELDS = [
    ("Authorization", f"Bearer {TOKEN}"),
    ("Cookie", f"session={TOKEN}"),
    ("Set-Cookie", f"session={TOKEN}; Secure"),
    ("X-WSSE", f'UsernameToken PasswordDigest="{TOKEN}"'),
    ("X-Api-Key", TOKEN),
    ("X-CSRF-Token", TOKEN),
    ("X-Auth", TOKEN),
    ("X-Forwarded-Authorization", TOKEN),
    ("Authentication", TOKEN),
    ("Ocp-Apim-Subscription-Key", TOKEN),
    ("X-Key", TOKEN),
    ("X-JWT-Assertion", TOKEN),
    ("X-Amzn-Oidc-Data", TOKEN),
    ("DPoP", TOKEN),
    ("X-SSL-Client-Cert", TOKEN),
    ("Referer", f"https://example.com/?token={TOKEN}"),
    ("X-Source", f"read from https://example.com/feed?token={TOKEN}"),
    ("Location", f"/feed?sig={TOKEN}"),
    ("Link", f'<https://example.com/feed?auth={TOKEN}>; rel="self"'),
    ("Link", f'</{RANDOM}/feed>; rel="self"'),
    ("Location", f"/{RANDOM}/feed"),
    ("Content-Location", f"../{RANDOM}"),
    ("Referer", f"https://example.com/?next=https%3A%2F%2Fexample.org%2Ffeed%3Ftoken%3D{TOKEN}"),
]


def _recorded(folder: Path, exchange: object, body: bytes = b"", keep: tuple[str, ...] = ()) -> bytes:
    recorder = Recorder(HarWriter(folder / "week.har"), Redactor(KEY, keep))
    recorder.record(exchange, body)  # type: ignore[arg-type]
    recorder.close()
    return (folder / "week.har").read_bytes()


@pytest.mark.parametrize("field", SECRET_FIELDS, ids=[name for name, _ in SECRET_FIELDS])
def test_recording_redacts_secret_fields_and_keeps_names(field: tuple[str, str], tmp_path: Path) -> None:
    file = _recorded(tmp_path, an_exchange(asked=[field], answered=[field]))

    assert TOKEN.encode() not in file
    assert RANDOM.encode() not in file
    assert field[0].encode() in file


def test_recording_redacts_repeated_secret_of_address(tmp_path: Path) -> None:
    target = f"https://example.com/feed?key={TOKEN}"
    answered = [("X-Request-Path", f"feed/{TOKEN}"), ("Content-Type", "text/xml")]

    file = _recorded(tmp_path, an_exchange(target, answered=answered, failure=f"no {TOKEN}"), TOKEN.encode())

    assert TOKEN.encode() not in file


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (("Authorization", "Basic x"), ()),
        (("Cookie", "a=b"), ()),
        (("X-Api-Key", "a"), ()),
        ((), ("Cache-Control", "private, max-age=600")),
        ((), ("Cache-Control", "no-store")),
    ],
)
def test_recording_omits_content_of_personal_response(
    asked: tuple[str, str], answered: tuple[str, str], tmp_path: Path
) -> None:
    exchange = an_exchange(asked=[asked] if asked else [], answered=[answered] if answered else [])

    file = _recorded(tmp_path, exchange, b"<rss>secret</rss>")

    assert b"<rss>" not in file
    assert har_format.parse(file).exchanges[0].digest


@pytest.mark.parametrize(
    ("asked", "answered", "status", "names"),
    [
        ((), (), 200, True),
        (("Authorization", "Basic x"), (), 200, False),
        (("Cookie", "a=b"), (), 401, False),
        ((), ("Cache-Control", "private, max-age=600"), 304, False),
        ((), ("Cache-Control", "no-store"), 200, False),
        ((), ("Cache-Control", "no-store"), 502, True),
    ],
)
def test_recording_redacts_address_of_personal_response(
    asked: tuple[str, str], answered: tuple[str, str], status: int, names: bool, tmp_path: Path
) -> None:
    again = [("Referer", "https://example.com/members/feed?page=2")]
    exchange = an_exchange(
        "https://example.com/members/feed?page=2",
        status=status,
        asked=[asked, *again] if asked else again,
        answered=[answered] if answered else [],
    )

    file = _recorded(tmp_path, exchange)

    assert (b"members" in file) is names
    assert (b"https://example.com/redacted-" in file) is not names


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Location", "/members/new?page=3"),
        ("Location", "new?page=3"),
        ("Location", "//example.com/members/new?page=3"),
        ("Location", "https://example.com/members/new?page=3"),
        ("Location", "http://proxy:8080/https://example.com/members/new?page=3"),
        ("Content-Location", "/members/new?page=3"),
        ("Link", '<https://example.com/members/new?page=3>; rel="next", </members/new?page=3>; rel="self"'),
        ("Refresh", "0; url=https://example.com/members/new?page=3"),
    ],
)
def test_recording_redacts_addresses_to_which_a_personal_response_leads(name: str, value: str, tmp_path: Path) -> None:
    status = 302 if name == "Location" else 200
    answered = [(name, value), ("Cache-Control", "private")]
    redirect = an_exchange("https://example.com/members/old", status=status, answered=answered)
    follower = an_exchange("https://example.com/members/new?page=3", answered=[("Cache-Control", "private")])

    file = _recorded(tmp_path, redirect)

    assert b"members" not in file
    # a replay can follow the address
    assert Redactor(KEY).exchange(follower).request.target.encode() in file


def test_recording_keeps_addresses_to_which_a_public_response_leads(tmp_path: Path) -> None:
    file = _recorded(tmp_path, an_exchange(status=302, answered=[("Location", "/members/new?page=3")]))

    assert b'"/members/new?page=3"' in file


def test_redactor_pseudonyms_are_stable_per_key() -> None:
    one, other = Redactor(KEY), Redactor(b"another key" * 3)
    first = one.exchange(an_exchange(f"https://example.com/{'a1' * 16}/feed", reader="192.0.2.1"))
    again = one.exchange(an_exchange(f"https://example.com/{'a1' * 16}/feed", reader="192.0.2.1", at=AT + 9e6))
    stranger = one.exchange(an_exchange(f"https://example.com/{'b2' * 16}/feed", reader="192.0.2.2"))

    assert first.reader == again.reader != stranger.reader
    assert first.request.target == again.request.target != stranger.request.target
    assert "192.0.2" not in first.reader
    assert one.address("") == ""
    assert other.address("192.0.2.1") != first.reader


@pytest.mark.parametrize(
    "name",
    ["X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP", "From", "X-Remote-User", "X-Forwarded-Email"],
)
def test_recording_redacts_addresses_of_clients_and_users(name: str, tmp_path: Path) -> None:
    assert b"192.0.2.7" not in _recorded(tmp_path, an_exchange(asked=[(name, "192.0.2.7")], reader="192.0.2.7"))


def test_redactor_keeps_etags_that_look_like_tokens() -> None:
    tag = '"5f2b1c0a5f2b1c0a5f2b1c0a5f2b1c0a"'
    exchange = Redactor(KEY).exchange(an_exchange(asked=[("If-None-Match", tag)], answered=[("ETag", tag)]))

    assert exchange.fields.get("etag") == exchange.request.fields.get("if-none-match") == tag


def test_recording_keeps_what_operator_allows(tmp_path: Path) -> None:
    exchange = an_exchange(f"https://example.com/?token={TOKEN}", reader="192.0.2.7", asked=SECRET_FIELDS)

    file = _recorded(tmp_path, exchange, b"<rss>private</rss>", keep=(ADDRESSES, SECRETS))

    found = har_format.parse(file)
    assert found.exchanges[0].request == exchange.request
    assert found.exchanges[0].reader == "192.0.2.7"
    assert found.content(found.exchanges[0]) == b"<rss>private</rss>"


@pytest.mark.parametrize(
    ("target", "fields", "known"),
    [
        ("https://example.com/feed#wallet=abc", [], False),
        ("https://example.com/feed", [("X-WSSE", "UsernameToken")], False),
        ("https://example.com/feed", [], True),
    ],
)
def test_recording_omits_content_of_private_request(
    target: str, fields: list[tuple[str, str]], known: bool, tmp_path: Path
) -> None:
    recorder = Recorder(HarWriter(tmp_path / "week.har"), Redactor(KEY))
    recorder.record(an_exchange(target, asked=fields), b"<rss>private</rss>", private=known)
    recorder.close()

    file = (tmp_path / "week.har").read_bytes()
    assert b"<rss>" not in file
    assert har_format.parse(file).exchanges[0].request.target.startswith("https://example.com/redacted-")


@pytest.mark.parametrize("name", ["Location", "Content-Location"])
def test_recording_omits_content_of_a_redirect_to_a_secret_address(name: str, tmp_path: Path) -> None:
    address = f"https://example.com/feed?token={TOKEN}"
    exchange = an_exchange(answered=[(name, address)])

    assert TOKEN.encode() not in _recorded(tmp_path, exchange, f'<a href="{address}">moved</a>'.encode())


@pytest.mark.parametrize("address", [f"https://example.com/feed?token={TOKEN}", f"/feed?token={TOKEN}"])
def test_recording_omits_redirect_document_with_a_secret_address(address: str, tmp_path: Path) -> None:
    document = f"<redirect><newLocation>{address}</newLocation></redirect>".encode()

    assert TOKEN.encode() not in _recorded(tmp_path, an_exchange(), document)


def test_recording_has_redirect_document_with_a_public_address(tmp_path: Path) -> None:
    document = b"<redirect><newLocation>https://example.com/feed</newLocation></redirect>"

    assert document in _recorded(tmp_path, an_exchange(), document)


def test_recording_omits_content_that_rule_calls_private(tmp_path: Path) -> None:
    recorder = Recorder(HarWriter(tmp_path / "week.har"), Redactor(KEY), lambda target: target.endswith("/private"))
    for name in ("private", "public"):
        recorder.record(an_exchange(f"https://example.com/{name}", at=AT), f"<rss>{name}</rss>".encode())
    recorder.close()

    assert list(har_format.read(tmp_path / "week.har").contents.values()) == [b"<rss>public</rss>"]
