"""Each Note on responses is given for a loopback origin with that fault, and no other Note."""

import dataclasses
import gzip
import itertools
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from feedproxy.check.observations import FeedObservations, ProbeExchange
from feedproxy.check.probe import probe_feed
from feedproxy.check.run_checks import check_feed
from feedproxy.http.message import Fields
from feedproxy.notes import Level, Note
from feedproxy.settings import Settings
from feedproxy.upstream.tls_probe import ProbedCertificate
from tests.check.publisher import HOUR, Answer, Fault, Publisher, PublisherRequest, feed, items, publishing
from tests.upstream.test_tls_probe import Authority

OPEN = Settings(allow_private=True)
NUMBERS = itertools.count()


def findings(notes: Sequence[Note]) -> set[str]:
    return {note.id() for note in notes if note.level is not Level.GOOD}


async def observe(publisher: Publisher, path: str = "/feed.xml") -> FeedObservations:
    return await probe_feed(publisher.base + path, OPEN, pause=0)


def find(observations: FeedObservations) -> set[str]:
    return findings(check_feed(observations))


def change_feed(change: Callable[[PublisherRequest, Answer], Answer]) -> Fault:
    return lambda request, answer: change(request, answer) if request.path == "/feed.xml" else answer


def fields(*without: str, **changed: str) -> Fault:
    return change_feed(lambda _, answer: answer.with_fields(**changed).without(*without))


def chunked_with_a_length(answer: Answer) -> Answer:
    if answer.status != 200:
        return answer
    said = answer.with_fields(transfer_encoding="chunked", content_length=str(len(answer.content)))
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer.content), answer.content)
    return dataclasses.replace(said, content=chunk)


def status(code: int) -> Fault:
    return change_feed(lambda *_: Answer(code, {"Content-Type": "text/plain"}, b"no"))


def content(body: bytes, **changed: str) -> Fault:
    return change_feed(lambda *_: Answer(200, {"Content-Type": "application/rss+xml", **changed}, body))


def unconditional(
    request: PublisherRequest, answer: Answer, publisher_answer: Callable[[PublisherRequest], Answer]
) -> Answer:
    plain = {name: value for name, value in request.fields.items() if not name.startswith("if-")}
    return publisher_answer(dataclasses.replace(request, fields=plain)) if answer.status == 304 else answer


def ignoring(*conditions: str, **changed: str) -> Callable[[Publisher], Fault]:
    """Ignores these conditions, and sends the fields `changed` with every 200."""

    def fault(publisher: Publisher) -> Fault:
        def change(request: PublisherRequest, answer: Answer) -> Answer:
            if any(condition in request.fields for condition in conditions):
                answer = unconditional(request, answer, publisher.answer)
            return answer.with_fields(**changed) if answer.status == 200 else answer

        return change_feed(change)

    return fault


def redirect(to: str, code: int = 301, at: str = "/old.xml") -> Fault:
    return lambda request, answer: Answer(code, {"Location": to}) if request.path == at else answer


def alternating(*texts: str, tag: str = 'W/"x"') -> Callable[[Publisher], Fault]:
    """Sends another document at each request."""

    def fault(publisher: Publisher) -> Fault:
        def change(request: PublisherRequest, _: Answer) -> Answer:
            text = texts[request.count % len(texts)].replace("BASE", publisher.base)
            headers = {"Content-Type": "application/rss+xml", "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            body = text.encode()
            if request.takes("gzip"):
                return Answer(
                    200,
                    {**headers, "ETag": tag.replace("N", f"{request.count}"), "Cache-Control": "max-age=60"},
                    gzip.compress(body),
                )
            headers.pop("Content-Encoding")
            return Answer(
                200, {**headers, "ETag": tag.replace("N", f"{request.count}"), "Cache-Control": "max-age=60"}, body
            )

        return change_feed(change)

    return fault


def new_each_time(name: str, value: Callable[[], str]) -> Callable[[Publisher], Fault]:
    def fault(publisher: Publisher) -> Fault:
        def change(request: PublisherRequest, answer: Answer) -> Answer:
            if {"etag": "if-none-match", "last_modified": "if-modified-since"}[name] in request.fields:
                answer = unconditional(request, answer, publisher.answer)
            return answer.with_fields(**{name: value()}) if answer.status == 200 else answer

        return change_feed(change)

    return fault


FUTURE = formatdate(4_000_000_000, usegmt=True)
CHALLENGE = change_feed(lambda *_: Answer(403, {"Cf-Mitigated": "challenge", "Content-Type": "text/html"}, b"<html>"))

# Faults, or functions that make a fault for a publisher.
CASES: dict[str, Any] = {
    "challenge-page": CHALLENGE,
    "rate-limited": status(429),
    "gone": status(410),
    "refused": status(403),
    "status-not-200": status(500),
    "response-invalid": change_feed(
        lambda _, answer: dataclasses.replace(answer, framed=False).with_fields(content_length="99999")
    ),
    "feed-too-large": fields(content_length="99999999"),
    "coding-invalid": content(b"\x1f\x8b\x08 no gzip at all", **{"Content-Encoding": "gzip"}),
    "coding-unknown": lambda publisher: change_feed(
        lambda request, _: publisher.answer(
            dataclasses.replace(request, fields={**request.fields, "accept-encoding": "identity"})
        ).with_fields(content_encoding="utf-8")
    ),
    "coding-not-applied": lambda publisher: change_feed(
        lambda request, _: publisher.answer(
            dataclasses.replace(request, fields={**request.fields, "accept-encoding": "identity"})
        ).with_fields(**({"content_encoding": "gzip"} if request.takes("gzip") else {}))
    ),
    "media-type-missing": fields("Content-Type"),
    "media-type-generic": fields(content_type="text/xml"),
    "media-type-html": fields(content_type="text/html"),
    "media-type-wrong": fields(content_type="application/atom+xml"),
    "charset-unknown": fields(content_type="application/rss+xml; charset=utf-9"),
    "not-compressed": lambda publisher: change_feed(
        lambda request, _: publisher.answer(
            dataclasses.replace(request, fields={**request.fields, "accept-encoding": "identity"})
        )
    ),
    "coding-not-accepted": lambda publisher: change_feed(
        lambda request, _: publisher.answer(
            dataclasses.replace(request, fields={**request.fields, "accept-encoding": "gzip"})
        )
    ),
    "no-validator": fields("Etag", "ETag", "Last-Modified"),
    "etag-invalid": change_feed(
        lambda request, answer: (
            Answer(304, {**answer.fields, "ETag": "W/abc"})
            if request.fields.get("if-none-match") == "W/abc"
            else answer.with_fields(etag="W/abc")
        )
    ),
    "last-modified-invalid": fields(last_modified="2026-11-20 08:00"),
    "last-modified-in-future": lambda publisher: change_feed(
        lambda request, answer: (
            Answer(304, dict(answer.fields))
            if request.fields.get("if-modified-since") == FUTURE
            else answer.with_fields(last_modified=FUTURE)
        )
    ),
    "etag-ignored": ignoring("if-none-match"),
    "etag-of-coding-ignored": lambda publisher: change_feed(
        lambda request, answer: (
            answer.without("ETag").with_fields(etag='W/"abc-gzip"') if request.takes("gzip") else answer
        )
    ),
    "conditional-request-fails": change_feed(
        lambda request, answer: Answer(500) if "if-none-match" in request.fields else answer
    ),
    "not-modified-lacks-fields": change_feed(
        lambda _, answer: answer.without("Cache-Control") if answer.status == 304 else answer
    ),
    "last-modified-ignored": ignoring("if-modified-since"),
    "etag-changes-each-time": new_each_time("etag", lambda: f'W/"{next(NUMBERS)}"'),
    "last-modified-changes-each-time": new_each_time(
        "last_modified", lambda: formatdate(1_700_000_000 + next(NUMBERS), usegmt=True)
    ),
    "content-changes-each-time": alternating(*(f"{feed(1.78e9)}<!-- {at} -->" for at in range(7))),
    "etag-reused": alternating(*(feed(1.78e9 + 60 * at) for at in range(7))),
    "guids-unstable": alternating(
        *(feed(1.78e9).replace("<guid>BASE/", f"<guid>BASE/{at}/") for at in range(7)), tag='W/"xN"'
    ),
    "etag-shared-by-codings": change_feed(
        lambda request, answer: (
            Answer(304, {**answer.fields, "ETag": '"x"'})
            if request.fields.get("if-none-match") == '"x"'
            else answer.without("ETag").with_fields(etag='"x"')
        )
    ),
    "storing-forbidden": fields(cache_control="no-store"),
    "validation-required": fields(cache_control="no-cache"),
    "ttl-shorter-than-max-age": fields(cache_control="max-age=86400"),
    "vary-asterisk": fields(vary="*"),
    "vary-by-client-field": fields(vary="Accept-Encoding, User-Agent"),
    "vary-missing": fields("Vary"),
    "sets-cookie": fields(set_cookie="visitor=1"),
    "clock-wrong": fields(date=formatdate(1_700_000_000, usegmt=True)),
    "http-1-0": change_feed(lambda _, answer: dataclasses.replace(answer, version="HTTP/1.0")),
    "framing-contradictory": change_feed(lambda _, answer: chunked_with_a_length(answer)),
    "length-missing": change_feed(lambda _, answer: dataclasses.replace(answer, framed=False)),
    "head-refused": change_feed(lambda request, answer: Answer(405) if request.method == "HEAD" else answer),
    "head-differs": change_feed(
        lambda request, answer: answer.with_fields(content_type="text/plain") if request.method == "HEAD" else answer
    ),
    "page-unavailable": lambda request, answer: Answer(404) if request.path == "/" else answer,
    "autodiscovery-missing": lambda request, answer: (
        Answer(200, {"Content-Type": "text/html"}, b"<!doctype html><p>Hello") if request.path == "/" else answer
    ),
    "autodiscovery-other-feeds": lambda request, answer: (
        Answer(
            200,
            {"Content-Type": "text/html"},
            b'<!doctype html><link rel=alternate type=application/rss+xml href="/other.xml">',
        )
        if request.path == "/"
        else answer
    ),
}

SIDE_FINDINGS = {
    "media-type-html": {"autodiscovery-missing"},
}
"""Other Notes that a fault implies."""


def wrong_of(name: str, publisher: Publisher) -> Fault:
    case = CASES[name]
    made = case(publisher) if case.__code__.co_argcount == 1 else case
    return made


@pytest.mark.parametrize("name", CASES)
async def test_origin_with_fault_gets_its_note(name: str) -> None:
    async with publishing() as publisher:
        publisher.fault = wrong_of(name, publisher)

        found = find(await observe(publisher))

        assert name in found
        assert found - {name} <= SIDE_FINDINGS.get(name, set())


DOCUMENTS: dict[str, str] = {
    "lifetime-missing": feed(1.78e9).replace("<ttl>60</ttl>", ""),
    "charsets-disagree": feed(1.78e9).replace("An example", "Ein Beispiel für alle"),
    "self-link-alternative-address": feed(1.78e9, self_link='<atom:link rel="self" href="BASE/same.xml"/>'),
    "self-link-of-another-feed": feed(1.78e9, self_link='<atom:link rel="self" href="BASE/other.xml"/>'),
    "self-link-not-a-feed": feed(1.78e9, self_link='<atom:link rel="self" href="BASE/none.xml"/>'),
    "hub-unavailable": feed(1.78e9, channel='<atom:link rel="hub" href="BASE/hub"/>'),
    "cloud-unavailable": feed(
        1.78e9, channel='<cloud domain="127.0.0.1" port="PORT" path="/hub" protocol="http-post"/>'
    ),
}


@pytest.mark.parametrize(
    ("body", "coding", "found"),
    [
        (gzip.compress(gzip.compress(feed(1.78e9).encode()))[:-1], "gzip, gzip", "coding-invalid"),
        (feed(1.78e9).encode(), ", ".join(["gzip"] * 20), "coding-invalid"),
        (gzip.compress(feed(1.78e9).encode()), "foo, gzip", "coding-unknown"),
        (gzip.compress(feed(1.78e9).encode())[:-30], "gzip", "coding-invalid"),
        (gzip.compress(b""), "gzip", "document-empty"),
        (b"", "gzip", "document-empty"),
        (b" \n", "", "document-empty"),
        (b"<!doctype html><p>Hello", "", "html-instead-of-feed"),
        (bytes(30_000_000), "", "feed-too-large"),
    ],
    ids=[
        "half-of-two",
        "twenty",
        "unknown-of-two",
        "truncated",
        "empty-in-gzip",
        "empty",
        "white-space",
        "html",
        "30-mb",
    ],
)
async def test_content_that_is_no_feed_gets_one_finding(body: bytes, coding: str, found: str) -> None:
    async with publishing() as publisher:
        publisher.fault = content(body, **({"Content-Encoding": coding} if coding else {}))

        assert find(await observe(publisher)) == {found}


async def test_feed_in_two_codings_is_decoded() -> None:
    async with publishing() as publisher:
        publisher.fault = content(
            gzip.compress(gzip.compress(feed(1.78e9).encode())), **{"Content-Encoding": "gzip, gzip"}
        )

        assert (await observe(publisher)).last.content == feed(1.78e9).encode()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
async def test_feed_in_utf_16_without_a_byte_order_mark_is_read(encoding: str) -> None:
    async with publishing() as publisher:
        publisher.fault = content(feed(1.78e9).replace("utf-8", "utf-16").encode(encoding))

        found = find(await observe(publisher))
    assert "not-in-utf-8" in found
    assert not found & {"not-a-feed", "ill-formed"}


async def test_content_above_the_limit_when_decoded_is_too_large() -> None:
    body = gzip.compress(bytes(OPEN.decoded_max + 1))
    async with publishing() as publisher:
        publisher.fault = content(body, **{"Content-Encoding": "gzip"})

        assert find(await observe(publisher)) == {"feed-too-large"}


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_published_feed_with_fault_gets_its_note(name: str) -> None:
    async with publishing() as publisher:
        port = publisher.base.rpartition(":")[2]
        publisher.documents["/feed.xml"] = DOCUMENTS[name].replace("PORT", port)
        publisher.documents["/same.xml"] = DOCUMENTS[name]
        publisher.documents["/other.xml"] = feed(1.7e9).replace("<title>Example", "<title>Another")

        def fault(request: PublisherRequest, answer: Answer) -> Answer:
            if request.path == "/hub":
                return Answer(503)
            if name == "lifetime-missing" and request.path == "/feed.xml":
                return answer.without("Cache-Control")
            if name == "charsets-disagree" and request.path == "/feed.xml":
                return answer.with_fields(content_type="application/rss+xml; charset=iso-8859-1")
            return answer

        publisher.fault = fault

        assert find(await observe(publisher)) == {name}


@pytest.mark.parametrize(("status", "unavailable"), [(404, True), (410, True), (503, True), (400, False), (405, False)])
@pytest.mark.parametrize("what", ["hub", "cloud"])
async def test_hub_or_cloud_status_decides_unavailable_note(what: str, status: int, unavailable: bool) -> None:
    async with publishing() as publisher:
        port = publisher.base.rpartition(":")[2]
        publisher.documents["/feed.xml"] = DOCUMENTS[f"{what}-unavailable"].replace("PORT", port)
        publisher.fault = lambda request, answer: Answer(status) if request.path == "/hub" else answer

        notes = check_feed(await observe(publisher))

        assert (f"{what}-unavailable" in {note.id() for note in notes}) is unavailable
        assert (f"{what}-available" in {note.id() for note in notes}) is not unavailable


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("permanent-redirect", redirect("/feed.xml")),
        ("temporary-redirect", redirect("/feed.xml", 302)),
        (
            "redirect-chain",
            lambda request, answer: redirect("/feed.xml", at="/older.xml")(
                request, redirect("/older.xml")(request, answer)
            ),
        ),
        ("redirect-failed", redirect("/old.xml")),
    ],
)
async def test_redirect_gets_its_note(name: str, fault: Fault) -> None:
    async with publishing() as publisher:
        publisher.fault = fault
        assert find(await observe(publisher, "/old.xml")) == {name}


async def test_closed_port_gets_note_fetch_failed() -> None:
    async with publishing() as publisher:
        pass
    assert find(await observe(publisher)) == {"fetch-failed"}


async def test_lifetime_of_day_for_hourly_feed_gets_note() -> None:
    async with publishing() as publisher:
        often = items(publisher.now).replace("<pubDate>", "<!--").replace("</pubDate>", "-->")
        for at in range(6):
            often = often.replace(
                f"<title>Entry {at}<",
                f"<pubDate>{formatdate(publisher.now - (at + 1) * HOUR, usegmt=True)}</pubDate><title>Entry {at}<",
            )
        publisher.documents["/feed.xml"] = feed(publisher.now, entries=often).replace("<ttl>60</ttl>", "")
        publisher.fault = fields(cache_control="max-age=86400")
        assert find(await observe(publisher)) == {"lifetime-above-change-interval"}


async def test_certificate_near_or_after_expiry_gets_note(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for days, name in ((-1, "tls-failed"), (5, "certificate-expires-soon")):
        async with publishing(authority.serving("localhost", days=days), "localhost") as publisher:
            observations = await probe_feed(publisher.address, OPEN, pause=0, trust=authority.trusting)
            assert find(observations) == {name}


def at_a_public_address(observations: FeedObservations, scheme: str) -> FeedObservations:
    last = msgspec.structs.replace(observations.last, target=f"{scheme}://feeds.example/feed.xml")
    return msgspec.structs.replace(observations, address=last.target, hops=(last,), page=None)


@pytest.mark.parametrize(
    "name",
    ["http-only", "no-redirect-to-https", "tls-old", "response-slow", "redirect-to-http", "self-link-not-requested"],
)
async def test_note_that_requires_a_routable_address_is_given(name: str) -> None:
    async with publishing() as publisher:
        self_link = '<atom:link rel="self" href="%s://feeds.example/feed.xml"/>'
        scheme = "https" if name == "tls-old" else "http"
        publisher.documents["/feed.xml"] = feed(publisher.now, self_link=self_link % scheme)
        observations = await observe(publisher)
    if name == "self-link-not-requested":
        assert find(msgspec.structs.replace(observations, self_link=None)) == {name}
        return
    known = at_a_public_address(observations, scheme)
    by_https = "https://feeds.example/feed.xml"
    match name:
        case "no-redirect-to-https":
            known = msgspec.structs.replace(known, by_https=ProbeExchange(by_https, 200))
        case "tls-old":
            known = msgspec.structs.replace(known, handshake=ProbedCertificate(9e9, "", "TLSv1.1"))
        case "response-slow":
            known = msgspec.structs.replace(
                observations, hops=(msgspec.structs.replace(observations.last, seconds=9.0),)
            )
            assert name in find(known)
            return
        case "redirect-to-http":
            first = ProbeExchange(by_https, 301, Fields([("Location", known.target)]))
            known = msgspec.structs.replace(known, hops=(first, known.last))
            assert find(known) == {name, "permanent-redirect", "http-only"}
            return
    assert find(known) == {name}
