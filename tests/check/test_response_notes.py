"""Each Note on how a feed is sent is given by an origin on loopback that does this one thing wrong."""

import dataclasses
import gzip
import itertools
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from feedproxy.check.observations import Exchange, FeedObservations
from feedproxy.check.probe import probe_feed
from feedproxy.check.run_checks import check_feed
from feedproxy.findings import Level, Note
from feedproxy.http.message import Fields, Request
from feedproxy.refresh.policy.bot_challenge import identify_vendor
from feedproxy.settings import Settings
from feedproxy.upstream.tls_probe import ProbedCertificate
from tests.check.publisher import HOUR, Answer, Asked, Publisher, Wrong, feed, items, publishing
from tests.upstream.test_tls_probe import Authority

OPEN = Settings(allow_private=True)
NUMBERS = itertools.count()


def findings(notes: Sequence[Note]) -> set[str]:
    return {each.id() for each in notes if each.level is not Level.GOOD}


async def looked_at(publisher: Publisher, path: str = "/feed.xml") -> FeedObservations:
    return await probe_feed(publisher.base + path, OPEN, pause=0)


def judged(seen: FeedObservations) -> set[str]:
    last = seen.last
    return findings(check_feed(seen, challenge=identify_vendor(last.fields, last.content or b"")))


def at_feed(change: Callable[[Asked, Answer], Answer]) -> Wrong:
    return lambda asked, answer: change(asked, answer) if asked.path == "/feed.xml" else answer


def fields(*without: str, **changed: str) -> Wrong:
    return at_feed(lambda _, answer: answer.with_fields(**changed).without(*without))


def chunked_with_a_length(answer: Answer) -> Answer:
    if answer.status != 200:
        return answer
    said = answer.with_fields(transfer_encoding="chunked", content_length=str(len(answer.content)))
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer.content), answer.content)
    return dataclasses.replace(said, content=chunk)


def status(code: int) -> Wrong:
    return at_feed(lambda *_: Answer(code, {"Content-Type": "text/plain"}, b"no"))


def content(body: bytes, **changed: str) -> Wrong:
    return at_feed(lambda *_: Answer(200, {"Content-Type": "application/rss+xml", **changed}, body))


def unconditional(asked: Asked, answer: Answer, publisher_answer: Callable[[Asked], Answer]) -> Answer:
    plain = {name: value for name, value in asked.fields.items() if not name.startswith("if-")}
    return publisher_answer(dataclasses.replace(asked, fields=plain)) if answer.status == 304 else answer


def deaf(*conditions: str, **changed: str) -> Callable[[Publisher], Wrong]:
    """Does not listen to these conditions, and says `changed` each time."""

    def wrong(publisher: Publisher) -> Wrong:
        def change(asked: Asked, answer: Answer) -> Answer:
            if any(each in asked.fields for each in conditions):
                answer = unconditional(asked, answer, publisher.answer)
            return answer.with_fields(**changed) if answer.status == 200 else answer

        return at_feed(change)

    return wrong


def redirect(to: str, code: int = 301, at: str = "/old.xml") -> Wrong:
    return lambda asked, answer: Answer(code, {"Location": to}) if asked.path == at else answer


def in_turn(*texts: str, tag: str = 'W/"x"') -> Callable[[Publisher], Wrong]:
    """Another document at each request."""

    def wrong(publisher: Publisher) -> Wrong:
        def change(asked: Asked, _: Answer) -> Answer:
            text = texts[asked.count % len(texts)].replace("BASE", publisher.base)
            headers = {"Content-Type": "application/rss+xml", "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            body = text.encode()
            if asked.takes("gzip"):
                return Answer(
                    200,
                    {**headers, "ETag": tag.replace("N", f"{asked.count}"), "Cache-Control": "max-age=60"},
                    gzip.compress(body),
                )
            headers.pop("Content-Encoding")
            return Answer(
                200, {**headers, "ETag": tag.replace("N", f"{asked.count}"), "Cache-Control": "max-age=60"}, body
            )

        return at_feed(change)

    return wrong


def new_each_time(name: str, value: Callable[[], str]) -> Callable[[Publisher], Wrong]:
    def wrong(publisher: Publisher) -> Wrong:
        def change(asked: Asked, answer: Answer) -> Answer:
            if {"etag": "if-none-match", "last_modified": "if-modified-since"}[name] in asked.fields:
                answer = unconditional(asked, answer, publisher.answer)
            return answer.with_fields(**{name: value()}) if answer.status == 200 else answer

        return at_feed(change)

    return wrong


FUTURE = formatdate(4_000_000_000, usegmt=True)
CHALLENGE = at_feed(lambda *_: Answer(403, {"Cf-Mitigated": "challenge", "Content-Type": "text/html"}, b"<html>"))

# What is wrong, or what makes it of a publisher.
CASES: dict[str, Any] = {
    "challenge-page": CHALLENGE,
    "turned-away": status(429),
    "ended": status(410),
    "refused": status(403),
    "status-of-no-feed": status(500),
    "answer-breaks-off": at_feed(
        lambda _, answer: dataclasses.replace(answer, framed=False).with_fields(content_length="99999")
    ),
    "above-the-cap": fields(content_length="99999999"),
    "undecodable": content(b"\x1f\x8b\x08 no gzip at all", **{"Content-Encoding": "gzip"}),
    "media-type-missing": fields("Content-Type"),
    "media-type-generic": fields(content_type="text/xml"),
    "media-type-of-pages": fields(content_type="text/html"),
    "media-type-wrong": fields(content_type="application/atom+xml"),
    "charset-unknown": fields(content_type="application/rss+xml; charset=utf-9"),
    "not-compressed": lambda publisher: at_feed(
        lambda asked, _: publisher.answer(
            dataclasses.replace(asked, fields={**asked.fields, "accept-encoding": "identity"})
        )
    ),
    "coding-unasked": lambda publisher: at_feed(
        lambda asked, _: publisher.answer(
            dataclasses.replace(asked, fields={**asked.fields, "accept-encoding": "gzip"})
        )
    ),
    "no-validator": fields("Etag", "ETag", "Last-Modified"),
    "tag-ill-formed": at_feed(
        lambda asked, answer: (
            Answer(304, {**answer.fields, "ETag": "W/abc"})
            if asked.fields.get("if-none-match") == "W/abc"
            else answer.with_fields(etag="W/abc")
        )
    ),
    "last-modified-unreadable": fields(last_modified="2026-11-20 08:00"),
    "last-modified-in-future": lambda publisher: at_feed(
        lambda asked, answer: (
            Answer(304, dict(answer.fields))
            if asked.fields.get("if-modified-since") == FUTURE
            else answer.with_fields(last_modified=FUTURE)
        )
    ),
    "tag-ignored": deaf("if-none-match"),
    "tag-with-coding-ignored": lambda publisher: at_feed(
        lambda asked, answer: answer.without("ETag").with_fields(etag='W/"abc-gzip"') if asked.takes("gzip") else answer
    ),
    "condition-breaks": at_feed(lambda asked, answer: Answer(500) if "if-none-match" in asked.fields else answer),
    "not-modified-loses-fields": at_feed(
        lambda _, answer: answer.without("Cache-Control") if answer.status == 304 else answer
    ),
    "last-modified-ignored": deaf("if-modified-since"),
    "tag-always-new": new_each_time("etag", lambda: f'W/"{next(NUMBERS)}"'),
    "last-modified-always-new": new_each_time(
        "last_modified", lambda: formatdate(1_700_000_000 + next(NUMBERS), usegmt=True)
    ),
    "content-stamped": in_turn(*(f"{feed(1.78e9)}<!-- {at} -->" for at in range(7))),
    "tag-frozen": in_turn(*(feed(1.78e9 + 60 * at) for at in range(7))),
    "guids-unstable": in_turn(
        *(feed(1.78e9).replace("<guid>BASE/", f"<guid>BASE/{at}/") for at in range(7)), tag='W/"xN"'
    ),
    "one-tag-for-all-codings": at_feed(
        lambda asked, answer: (
            Answer(304, {**answer.fields, "ETag": '"x"'})
            if asked.fields.get("if-none-match") == '"x"'
            else answer.without("ETag").with_fields(etag='"x"')
        )
    ),
    "kept-by-nobody": fields(cache_control="no-store"),
    "asked-each-time": fields(cache_control="no-cache"),
    "ttl-shorter-than-max-age": fields(cache_control="max-age=86400"),
    "varies-by-anything": fields(vary="*"),
    "varies-by-reader": fields(vary="Accept-Encoding, User-Agent"),
    "vary-missing": fields("Vary"),
    "sets-cookie": fields(set_cookie="visitor=1"),
    "clock-wrong": fields(date=formatdate(1_700_000_000, usegmt=True)),
    "http-1-0": at_feed(lambda _, answer: dataclasses.replace(answer, version="HTTP/1.0")),
    "framing-doubtful": at_feed(lambda _, answer: chunked_with_a_length(answer)),
    "length-untold": at_feed(lambda _, answer: dataclasses.replace(answer, framed=False)),
    "head-refused": at_feed(lambda asked, answer: Answer(405) if asked.method == "HEAD" else answer),
    "head-differs": at_feed(
        lambda asked, answer: answer.with_fields(content_type="text/plain") if asked.method == "HEAD" else answer
    ),
    "page-silent": lambda asked, answer: Answer(404) if asked.path == "/" else answer,
    "page-names-no-feed": lambda asked, answer: (
        Answer(200, {"Content-Type": "text/html"}, b"<!doctype html><p>Hello") if asked.path == "/" else answer
    ),
    "page-names-other-feeds": lambda asked, answer: (
        Answer(
            200,
            {"Content-Type": "text/html"},
            b'<!doctype html><link rel=alternate type=application/rss+xml href="/other.xml">',
        )
        if asked.path == "/"
        else answer
    ),
}

BESIDE = {
    "media-type-of-pages": {"page-names-no-feed"},
}
"""What cannot be had without another."""


def wrong_of(name: str, publisher: Publisher) -> Wrong:
    case = CASES[name]
    made = case(publisher) if case.__code__.co_argcount == 1 else case
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", CASES)
async def test_origin_with_fault_gets_its_note(name: str) -> None:
    async with publishing() as publisher:
        publisher.wrong = wrong_of(name, publisher)

        found = judged(await looked_at(publisher))

        assert name in found
        assert found - {name} <= BESIDE.get(name, set())


DOCUMENTS: dict[str, str] = {
    "no-lifetime": feed(1.78e9).replace("<ttl>60</ttl>", ""),
    "charsets-disagree": feed(1.78e9).replace("An example", "Ein Beispiel für alle"),
    "self-link-prefers-another": feed(1.78e9, self_link='<atom:link rel="self" href="BASE/same.xml"/>'),
    "self-link-of-another-feed": feed(1.78e9, self_link='<atom:link rel="self" href="BASE/other.xml"/>'),
    "self-link-leads-to-no-feed": feed(1.78e9, self_link='<atom:link rel="self" href="BASE/none.xml"/>'),
    "hub-silent": feed(1.78e9, channel='<atom:link rel="hub" href="BASE/hub"/>'),
    "cloud-silent": feed(1.78e9, channel='<cloud domain="127.0.0.1" port="PORT" path="/hub" protocol="http-post"/>'),
}


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_published_feed_with_fault_gets_its_note(name: str) -> None:
    async with publishing() as publisher:
        port = publisher.base.rpartition(":")[2]
        publisher.documents["/feed.xml"] = DOCUMENTS[name].replace("PORT", port)
        publisher.documents["/same.xml"] = DOCUMENTS[name]
        publisher.documents["/other.xml"] = feed(1.7e9).replace("<title>Example", "<title>Another")

        def wrong(asked: Asked, answer: Answer) -> Answer:
            if asked.path == "/hub":
                return Answer(503)
            if name == "no-lifetime" and asked.path == "/feed.xml":
                return answer.without("Cache-Control")
            if name == "charsets-disagree" and asked.path == "/feed.xml":
                return answer.with_fields(content_type="application/rss+xml; charset=iso-8859-1")
            return answer

        publisher.wrong = wrong

        assert judged(await looked_at(publisher)) == {name}


@pytest.mark.parametrize(("status", "silent"), [(404, True), (410, True), (503, True), (400, False), (405, False)])
@pytest.mark.parametrize("what", ["hub", "cloud"])
async def test_hub_or_cloud_status_decides_silent_note(what: str, status: int, silent: bool) -> None:
    async with publishing() as publisher:
        port = publisher.base.rpartition(":")[2]
        publisher.documents["/feed.xml"] = DOCUMENTS[f"{what}-silent"].replace("PORT", port)
        publisher.wrong = lambda asked, answer: Answer(status) if asked.path == "/hub" else answer

        notes = check_feed(await looked_at(publisher), challenge=None)

        assert (f"{what}-silent" in {each.id() for each in notes}) is silent
        assert (f"{what}-answers" in {each.id() for each in notes}) is not silent


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("has-moved", redirect("/feed.xml")),
        ("leads-elsewhere", redirect("/feed.xml", 302)),
        (
            "redirects-in-a-row",
            lambda asked, answer: redirect("/feed.xml", at="/older.xml")(asked, redirect("/older.xml")(asked, answer)),
        ),
        ("redirect-leads-nowhere", redirect("/old.xml")),
    ],
)
async def test_redirect_gets_its_note(name: str, wrong: Wrong) -> None:
    async with publishing() as publisher:
        publisher.wrong = wrong
        assert judged(await looked_at(publisher, "/old.xml")) == {name}


async def test_closed_port_gets_note_no_answer() -> None:
    async with publishing() as publisher:
        pass
    assert judged(await looked_at(publisher)) == {"no-answer"}


async def test_lifetime_of_day_for_hourly_feed_gets_note() -> None:
    async with publishing() as publisher:
        often = items(publisher.now).replace("<pubDate>", "<!--").replace("</pubDate>", "-->")
        for at in range(6):
            often = often.replace(
                f"<title>Entry {at}<",
                f"<pubDate>{formatdate(publisher.now - (at + 1) * HOUR, usegmt=True)}</pubDate><title>Entry {at}<",
            )
        publisher.documents["/feed.xml"] = feed(publisher.now, entries=often).replace("<ttl>60</ttl>", "")
        publisher.wrong = fields(cache_control="max-age=86400")
        assert judged(await looked_at(publisher)) == {"kept-longer-than-news"}


async def test_certificate_near_or_after_expiry_gets_note(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for days, name in ((-1, "certificate-refused"), (5, "certificate-ends-soon")):
        async with publishing(authority.serving("localhost", days=days), "localhost") as publisher:
            seen = await probe_feed(publisher.address, OPEN, pause=0, trust=authority.trusting)
            assert judged(seen) == {name}


def at_a_public_address(seen: FeedObservations, scheme: str) -> FeedObservations:
    last = dataclasses.replace(seen.last, request=Request("GET", f"{scheme}://feeds.example/feed.xml", Fields()))
    return dataclasses.replace(seen, address=last.target, hops=(last,), page=None)


@pytest.mark.parametrize(
    "name", ["http-only", "https-unused", "tls-old", "slow-to-answer", "redirect-to-http", "self-link-names-another"]
)
async def test_public_address_gets_its_note(name: str) -> None:
    async with publishing() as publisher:
        self_link = '<atom:link rel="self" href="%s://feeds.example/feed.xml"/>'
        scheme = "https" if name == "tls-old" else "http"
        publisher.documents["/feed.xml"] = feed(publisher.now, self_link=self_link % scheme)
        seen = await looked_at(publisher)
    if name == "self-link-names-another":
        assert judged(dataclasses.replace(seen, self_link=None)) == {name}
        return
    known = at_a_public_address(seen, scheme)
    by_https = Request("HEAD", "https://feeds.example/feed.xml", Fields())
    match name:
        case "https-unused":
            known = dataclasses.replace(known, by_https=Exchange(by_https, 200))
        case "tls-old":
            known = dataclasses.replace(known, handshake=ProbedCertificate(9e9, "", "TLSv1.1"))
        case "slow-to-answer":
            known = dataclasses.replace(seen, hops=(dataclasses.replace(seen.last, seconds=9.0),))
            assert name in judged(known)
            return
        case "redirect-to-http":
            first = Exchange(by_https, 301, Fields([("Location", known.target)]))
            known = dataclasses.replace(known, hops=(first, known.last))
            assert judged(known) == {name, "has-moved", "http-only"}
            return
    assert judged(known) == {name}
