"""Faults over a socket behave as documented, and feedproxy hides them from readers."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import feedparser
import pytest

from feedproxy.feed import xml_redirect
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.message import Fields, Request
from feedproxy.lab.replay.faults import CATALOGUE
from feedproxy.lab.replay.faults.fault import Fault
from feedproxy.proxy.service import Service
from feedproxy.refresh.refresh_events import Events
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from feedproxy.scoring.client_hygiene_rules import READ_MAX
from feedproxy.server.replay_backend import ReplayClient
from feedproxy.settings import Settings
from feedproxy.store.lru_memory_store import MemoryStore
from feedproxy.upstream.origin_client import FetchLimits
from tests.lab.stage import AT, URL, Got, Stage, a_feed, on_stage
from tests.stages.play import an_audience


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=list(CATALOGUE))
def test_fault_manual_describes_correct_reader(kind: type[Fault]) -> None:
    assert kind.__doc__
    assert "A good reader " in kind.__doc__


async def test_replay_without_faults_answers_completely() -> None:
    async with on_stage() as stage:
        got = await stage.get()
    assert (got.status, got.body, got.reset) == (200, a_feed(0), False)
    assert got.fields.get("content-length") == str(len(a_feed(0)))
    assert [exchange.faults for exchange in stage.exchanges] == [()]


async def _pair(stage: Stage, **fields: str) -> tuple[Got, Got]:
    """Return an answer, and that to the same request with its validators."""
    first = await stage.get(**fields)
    tag, modified = first.fields.get("etag"), first.fields.get("last-modified")
    held = {**({"If_None_Match": tag} if tag else {}), **({"If_Modified_Since": modified} if modified else {})}
    return first, await stage.get(**fields, **held)


@pytest.mark.parametrize(
    ("fault", "tag", "again"),
    [("gzip-tag", '"0-gzip"', 200), ("weak-tag", 'W/"0"', 304), ("unquoted-tag", "0", 304)],
)
async def test_tag_faults_decorate_weaken_and_unquote(fault: str, tag: str, again: int) -> None:
    async with on_stage(fault) as stage:
        first, second = await _pair(stage)
    assert (first.fields.get("etag"), second.status) == (tag, again)


async def test_changing_tag_fault_differs_per_answer() -> None:
    async with on_stage("changing-tag") as stage:
        first, second = await _pair(stage)
    assert second.status == 200
    assert first.body == second.body
    assert first.fields.get("etag") != second.fields.get("etag")


async def test_no_validators_fault_removes_validators() -> None:
    async with on_stage("no-validators") as stage:
        got = await stage.get(If_None_Match='"0"', If_Modified_Since=format_http_date(AT))
    assert got.status == 200
    assert not {"etag", "last-modified"} & {name.lower() for name, _ in got.fields}


async def test_frozen_304_fault_ignores_new_versions() -> None:
    async with on_stage("frozen-304") as stage:
        stage.clock.advance(hours=5)
        got, fresh = await stage.get(If_None_Match='"0"'), await stage.get()
    assert (got.status, got.body, fresh.status) == (304, b"", 200)
    assert fresh.body == a_feed(5)


async def test_clock_skew_fault_shifts_date() -> None:
    async with on_stage("clock-skew=7200") as stage:
        assert (await stage.get()).fields.get("date") == format_http_date(AT + 7200)


async def test_future_last_modified_fault_shifts_last_modified() -> None:
    async with on_stage("future-last-modified") as stage:
        first, second = await _pair(stage)
    said = parse_http_date(first.fields.get("last-modified") or "")
    assert said is not None
    assert said > AT + 300 * 86_400
    assert second.status == 304


@pytest.mark.parametrize(
    ("fault", "status", "retry"),
    [
        ("429", 429, None),
        ("retry-after-seconds", 429, "7200"),
        ("retry-after-date", 503, format_http_date(AT + 7200)),
        ("retry-after-negative", 429, "-60"),
        ("retry-after-huge", 429, "315360000"),
    ],
)
async def test_refusal_faults_send_retry_after(fault: str, status: int, retry: str | None) -> None:
    async with on_stage(fault) as stage:
        got = await stage.get()
    assert (got.status, got.fields.get("retry-after")) == (status, retry)
    assert stage.exchanges[0].faults == (fault,)


async def test_429_fault_has_no_content() -> None:
    async with on_stage("429") as stage:
        assert (await stage.get()).body == b""


async def test_challenge_fault_sends_page() -> None:
    async with on_stage("challenge") as stage:
        got = await stage.get()
    assert got.status == 403
    assert got.body.startswith(b"<!DOCTYPE html>")


async def test_500_fault_lasts_one_hour() -> None:
    async with on_stage("500") as stage:
        first = await stage.get()
        stage.clock.advance(hours=1)
        second = await stage.get()
    assert (first.status, second.status) == (500, 200)


async def test_gone_faults_use_status_and_document() -> None:
    async with on_stage("410") as stage:
        assert (await stage.get()).status == 410
    async with on_stage("xml-gone") as stage:
        assert xml_redirect.read((await stage.get()).body) == xml_redirect.Gone()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    ("target", "moved"),
    [
        (URL, "http://example.com/moved-1/feed"),
        ("/feed", "http://example.com/moved-1/feed"),
        ("/http://example.com/feed", "http://example.com/http://example.com/moved-1/feed"),
    ],
    ids=["absolute", "origin", "gateway"],
)
async def test_redirect_faults_keep_form_of_request_target(status: int, target: str, moved: str) -> None:
    async with on_stage(f"redirect-{status}") as stage:
        got = await stage.get(target)
        followed = await stage.get(moved.removeprefix("http://example.com"))
    assert (got.status, got.fields.get("location")) == (status, moved)
    assert (followed.status, followed.body) == (200, a_feed(0))


async def _walk(stage: Stage, limit: int = 10) -> list[int]:
    statuses, target = [], "/feed"
    for _ in range(limit):
        got = await stage.get(target)
        statuses.append(got.status)
        if got.status not in (301, 302, 303, 307, 308):
            break
        target = (got.fields.get("location") or "").removeprefix("http://example.com")
    return statuses


async def test_redirect_chain_fault_ends_at_feed_and_loop_does_not() -> None:
    async with on_stage("redirect-chain") as stage:
        assert await _walk(stage) == [301, 308, 302, 307, 200]
    async with on_stage("redirect-loop") as stage:
        assert await _walk(stage) == [302] * 10


async def test_xml_redirect_fault_names_new_address() -> None:
    async with on_stage("xml-redirect") as stage:
        got = await stage.get()
    assert xml_redirect.read(got.body) == xml_redirect.Moved("http://example.com/moved-1/feed")


@pytest.mark.parametrize("fault", ["slow-first-byte=0.05", "slow-body=0.05"])
async def test_slow_faults_send_complete_content(fault: str) -> None:
    async with on_stage(fault) as stage:
        got = await stage.get()
    assert got.body == a_feed(0)
    assert stage.exchanges[0].seconds >= 0.05


async def test_reset_fault_interrupts_content() -> None:
    async with on_stage("reset") as stage:
        got = await stage.get()
    assert got.reset or len(got.body) < len(a_feed(0))
    assert len(got.body) < len(a_feed(0))


async def test_truncated_gzip_fault_truncates_coded_content_only() -> None:
    async with on_stage("truncated-gzip") as stage:
        got, plain = await stage.get(Accept_Encoding="gzip"), await stage.get()
    unpacking = zlib.decompressobj(wbits=31)
    unpacking.decompress(got.body)
    assert got.fields.get("content-length") == str(len(got.body))
    assert not unpacking.eof
    assert plain.body == a_feed(0)


@pytest.mark.parametrize("surplus", [100, -5])
async def test_wrong_length_fault_changes_content_length(surplus: int) -> None:
    async with on_stage(f"wrong-length={surplus}") as stage:
        got = await stage.get()
    assert got.fields.get("content-length") == str(len(a_feed(0)) + surplus)
    assert got.body == a_feed(0)


async def test_endless_fault_sends_blanks_until_the_client_closes() -> None:
    async with on_stage("endless=32") as stage:
        got = await stage.get(Accept_Encoding="gzip")
        reader, writer = await asyncio.open_connection(stage.listener.host, stage.listener.port)
        writer.write(b"GET /feed HTTP/1.1\r\nHost: example.com\r\n\r\n")
        await reader.readuntil(a_feed(0))
        writer.transport.abort()
    assert not {"content-length", "content-encoding"} & {name.lower() for name, _ in got.fields}
    assert len(got.body) > 10_000_000
    whole, part = stage.exchanges
    assert whole.size > 32_000_000
    assert part.size < READ_MAX


async def test_charset_lie_fault_names_wrong_charset() -> None:
    async with on_stage("charset-lie") as stage:
        assert (await stage.get()).fields.get("content-type") == "application/rss+xml; charset=iso-8859-1"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("ttl", b"<ttl>0</ttl>"),
        ("ttl=soon", b"<ttl>soon</ttl>"),
        ("skip-hours=3", b"<skipHours><hour>3</hour></skipHours>"),
        ("skip-days", b"<day>Sunday</day></skipDays>"),
    ],
)
async def test_edit_faults_change_tag_and_invalidate_copies(fault: str, said: bytes) -> None:
    async with on_stage(f"{fault}@30m..") as stage:
        before = await stage.get()
        stage.clock.advance(minutes=40)
        by_tag = await stage.get(If_None_Match=before.fields.get("etag") or "")
        by_date = await stage.get(If_Modified_Since=before.fields.get("last-modified") or "")
        again = await stage.get(If_None_Match=by_tag.fields.get("etag") or "")
    assert said not in before.body
    assert said in by_tag.body
    assert by_tag.body == by_date.body
    assert again.status == 304
    assert not feedparser.parse(by_tag.body).bozo


async def test_several_faults_apply_to_one_response() -> None:
    async with on_stage("weak-tag", "clock-skew=60", "slow-first-byte=0.01", "429@#2") as stage:
        first, second = await stage.get(), await stage.get()
    assert first.fields.get("etag") == 'W/"0"'
    assert first.fields.get("date") == format_http_date(AT + 60)
    assert second.status == 429
    assert stage.exchanges[1].faults == ("weak-tag", "clock-skew", "slow-first-byte", "429")


# -- feedproxy in front of them


@asynccontextmanager
async def _feedproxy(stage: Stage) -> AsyncIterator[Service]:
    """The service with the replay as origin, over real connections."""
    settings = Settings(polling="off", answer_timeout=10)
    client = ReplayClient(stage.listener.url, FetchLimits(first_byte=2, total=4), stage.clock)
    service = Service(
        settings_for=lambda _: settings,
        store=MemoryStore(10_000_000),
        fetcher=client,
        clock=stage.clock,
        audience=an_audience(stage.clock, settings),
        events=Events(),
    )
    try:
        yield service
    finally:
        await service.close(0)
        await client.close()


MEANT = {
    "410": 410,
    "xml-gone": 410,
    "xml-redirect": 301,
    "redirect-301": 301,
    "redirect-308": 301,
    "redirect-chain": 301,  # it begins with permanent ones
}
"""Statuses that readers must see, because the publisher intends them; all other faults are hidden."""

QUICK = {"slow-first-byte": "slow-first-byte=0.01", "slow-body": "slow-body=0.05", "endless": "endless=32"}


@pytest.mark.parametrize("name", list(CATALOGUE))
async def test_feedproxy_hides_faults_from_readers(name: str) -> None:
    fault = QUICK.get(name, name)
    responses = []
    async with on_stage(f"{fault}@30m..", plain=True) as stage, _feedproxy(stage) as service:
        visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", "192.0.2.1")
        for _ in range(9):
            answer = await service.answer(Request("GET", URL, Fields([("User-Agent", "reader")])), visit)
            assert isinstance(answer, ProxyResponse)
            responses.append(answer.response)
            stage.clock.advance(hours=1.5)

    assert responses[0].status == 200
    assert {response.status for response in responses} <= {200, MEANT.get(name, 200)}
    assert responses[-1].status == MEANT.get(name, 200)
    for response in responses:
        if response.status == 200:
            read = feedparser.parse(response.body)
            assert not read.bozo
            assert read.entries
            assert read.entries[0].title.startswith(("Größe", "GrÃ¶ÃŸe"))


async def test_redirect_fault_for_proxy_names_plain_address() -> None:
    async with on_stage("redirect-301", plain=True) as stage:
        got = await stage.get(f"/{URL}")
    assert got.fields.get("location") == "http://example.com/moved-1/feed"
