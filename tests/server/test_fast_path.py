"""Responses of the fast path equal those of the service, arrive in order, and are correct to the second."""

import asyncio
import base64
import gzip
import hashlib
import itertools
import logging
import math

import pytest

from feedproxy.durations_and_sizes import span
from feedproxy.http.message import Fields, Request, Response
from feedproxy.server.fastpath.client_connection import ClientConnection
from feedproxy.server.fastpath.handler import FastPathHandler
from feedproxy.server.fastpath.listener import LINGERING_TIME
from feedproxy.server.fastpath.request_head import RequestHead
from feedproxy.subscribers.poll_rhythms import REPEAT
from feedproxy.telemetry.metrics import answered_count
from tests.server.conftest import Opened, until
from tests.stages.origin import a_feed
from tests.waiting import PATIENCE


async def test_repeated_request_is_answered_by_the_fast_path(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    asked = proxy.service_calls

    for _ in range(20):
        assert (await line.ask(proxy.get())).cache == "feedproxy; hit; ttl=3600"

    assert proxy.service_calls == asked
    assert proxy.origin.requests == 1


async def test_request_with_a_unique_id_is_answered_by_the_fast_path(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    asked = proxy.service_calls

    for number in range(20):
        assert (await line.ask(proxy.get("/feed.rss", f"X-Request-Id: {number}"))).status == 200

    assert proxy.service_calls == asked


@pytest.mark.parametrize("path", ["/feed.rss", "/new.rss"], ids=["stored", "not-stored"])
async def test_line_without_a_colon_is_refused_also_if_it_is_a_known_field_name(front: Opened, path: str) -> None:
    """The name of an ignored field is remembered. Such a line was then ignored, or ended the batch of events."""
    proxy = await front()
    line = await proxy.warm()
    await line.ask(proxy.get("/feed.rss", "X-Known: 1"))

    assert (await (await proxy.line()).ask(proxy.get(path, "X-Known"))).status == 400


async def test_defect_closes_its_connection_and_no_other(
    front: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = await front()
    line = await proxy.warm()
    connections = proxy.stage.app.connections
    route = FastPathHandler._route

    def fail(handler: FastPathHandler, connection: ClientConnection, head: RequestHead) -> object:
        if b"X-Defect: 1" in head.lines:
            raise ZeroDivisionError
        return route(handler, connection, head)

    monkeypatch.setattr(FastPathHandler, "_route", fail)
    failing = await proxy.line()

    await failing.say(proxy.get("/new.rss?token=secret", "X-Defect: 1"))

    assert await failing.ended()
    assert proxy.stage.app.connections == connections
    assert (await line.ask(proxy.get("/new.rss"))).status == 404
    assert "/new.rss?token=… not answered" in caplog.text


async def test_defect_after_the_answer_closes_the_connection(
    front: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = await front()
    line = await proxy.line()

    def fail(*given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(FastPathHandler, "_store_template", fail)
    await line.say(proxy.get())

    assert await line.ended()
    assert proxy.stage.app.connections == 0
    assert proxy.stage.app.fastpath_requests == 0
    assert f"fast path: response to GET /{proxy.origin.base}/feed.rss not sent" in caplog.text


async def test_request_with_the_same_fields_in_another_order_is_answered_by_the_fast_path(front: Opened) -> None:
    proxy = await front()
    line = await proxy.line()
    fields = ("Accept: */*", "Accept-Language: de", "Cache-Control: max-age=600", "Pragma: x")
    # The first response depends on the language. From the second request on, the feed has no variants.
    for _ in range(4):
        await line.ask(proxy.get("/feed.rss", *fields))
    costs = []

    for _ in range(3):  # another coding may be finished meanwhile, which discards the responses
        asked = proxy.service_calls
        for order in itertools.permutations(fields):
            answer = await line.ask(proxy.get("/feed.rss", *order))
            assert (answer.status, answer.fields["content-encoding"]) == (200, "gzip")
        costs.append(proxy.service_calls - asked)

    assert min(costs) == 0


async def test_fields_of_one_name_in_another_order_form_another_cache_key(front: Opened) -> None:
    proxy = await front()
    line = await proxy.line()
    fields = ("Accept: a/a", "Accept: b/b")
    await line.ask(proxy.get("/feed.rss", *fields))
    await line.ask(proxy.get("/feed.rss", *fields))
    asked = proxy.service_calls

    await line.ask(proxy.get("/feed.rss", *reversed(fields)))

    assert proxy.service_calls == asked + 1


async def test_age_and_ttl_are_correct_to_the_second(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()

    for second in range(1, 4):
        proxy.clock.advance(1)
        answer = await line.ask(proxy.get())
        assert (answer.fields["age"], answer.cache) == (str(second), f"feedproxy; hit; ttl={3600 - second}")


async def test_expired_response_is_not_sent_by_the_fast_path(front: Opened) -> None:
    proxy = await front(polling="off")
    line = await proxy.warm()

    proxy.clock.advance(hours=2)

    assert "fwd=stale" in (await line.ask(proxy.get())).cache


async def test_conditions_head_and_ranges_are_answered_correctly(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    whole = await line.ask(proxy.get())
    known = proxy.get("/feed.rss", f'If-None-Match: "other", {whole.fields["etag"]}')
    head = proxy.get(method="HEAD")
    await proxy.warm(known, head)

    not_modified = await line.ask(known)
    await line.say(head)
    only_head = await line.hear(head_only=True)

    assert (not_modified.status, not_modified.body) == (304, b"")
    assert "content-length" not in not_modified.fields
    assert (only_head.status, only_head.fields["content-length"]) == (200, str(len(whole.body)))
    assert (await line.ask(proxy.get("/feed.rss", "Range: bytes=0-3"))).status == 206


async def test_pipelined_requests_in_one_packet_are_answered_in_order(front: Opened) -> None:
    proxy = await front(site_interval=0)
    for name in ("two", "three"):
        proxy.origin.publish(f"/{name}.rss", a_feed(name, ttl=60))
    line = await proxy.warm()
    plain = [proxy.get(f"/{name}.rss").replace(b"gzip", b"identity") for name in ("two", "three")]
    hit, miss, other_miss = proxy.get().replace(b"gzip", b"identity"), *plain

    await line.say(hit + miss + hit + other_miss + proxy.get("/-/nothing") + hit)
    answers = [await line.hear() for _ in range(6)]

    titles = [next((t for t in (b"one", b"two", b"three") if b"<title>" + t in each.body), b"") for each in answers]
    assert titles == [b"one", b"two", b"one", b"three", b"", b"one"]
    assert [each.status for each in answers] == [200, 200, 200, 200, 404, 200]


async def test_request_split_at_any_byte_is_answered(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    request = proxy.get()

    for cut in range(1, len(request)):
        await line.say(request[:cut])
        await asyncio.sleep(0)
        assert (await line.ask(request[cut:])).status == 200


async def test_request_sent_byte_by_byte_is_answered(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()

    for byte in proxy.get() * 2:
        await line.say(bytes([byte]))
        await asyncio.sleep(0)

    assert [(await line.hear()).status for _ in range(2)] == [200, 200]


async def test_client_that_closes_its_sending_side_gets_its_response(front: Opened) -> None:
    proxy = await front()
    proxy.origin.gate = asyncio.Event()
    line = await proxy.line()

    await line.say(proxy.get())
    line.writer.write_eof()
    await proxy.origin.asked(1)
    proxy.origin.gate.set()

    assert (await line.hear()).status == 200
    assert await line.ended()


async def test_connection_close_is_honoured_and_echoed(front: Opened) -> None:
    proxy = await front()
    request = proxy.get("/feed.rss", "Connection: close")
    for _ in range(4):
        line = await proxy.line()
        answer = await line.ask(request)
        assert answer.fields["connection"] == "close"
        assert await line.ended()


async def test_last_response_arrives_although_the_client_sent_more(front: Opened) -> None:
    """TCP resets a connection that is closed with unread data, and the client may then lose the response."""
    proxy = await front()
    await proxy.warm()
    for request in (proxy.get("/feed.rss", "Connection: close"), proxy.get("/feed.rss", "X-A: b", "Connection: close")):
        for _ in range(4):  # answered by the service at first, then by the fast path
            line = await proxy.line()
            await line.say(request + b"x" * 100_000)
            answer = await line.hear()
            assert (answer.status, answer.fields["connection"]) == (200, "close")
            assert await asyncio.wait_for(line.reader.read(), PATIENCE) == b"", "it ends in order, and is not reset"
            await line.say(b"x" * 100_000)
            line.writer.close()
    await until(lambda: len(proxy.listener._connections) == 1)  # the connection of `warm`
    assert not proxy.listener._deadlines


async def test_connection_is_searched_for_unread_input_only_if_some_may_remain(
    front: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await front()
    await proxy.warm()
    request = proxy.get("/feed.rss", "Connection: close")
    searches: list[bool] = []
    # On a busy machine, the service would be called in a task, and more input may arrive before the task ends.
    monkeypatch.setattr("feedproxy.server.fastpath.handler.PREEMPT_AFTER", math.inf)

    def search(_: ClientConnection) -> bool:
        searches.append(True)
        return False

    monkeypatch.setattr(ClientConnection, "has_unread_input", search)
    line = await proxy.line()
    await line.ask(request)
    assert await line.ended()
    assert not searches

    monkeypatch.setattr("feedproxy.server.fastpath.client_connection.READ_SIZE", len(request))
    line = await proxy.line()
    await line.ask(request)
    assert await line.ended()
    assert searches


async def test_recorded_poll_time_of_a_reader_lags_by_less_than_the_repeat_interval(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    counts, target = proxy.stage.app.service.counts, f"{proxy.origin.base}/feed.rss"
    asked = proxy.service_calls

    for _ in range(45):
        proxy.clock.advance(1)
        await line.ask(proxy.get())
        recorded = counts.last_read(target)
        assert recorded is not None
        assert 0 <= proxy.clock.now() - recorded < REPEAT

    assert proxy.service_calls == asked


async def test_poll_by_another_reader_is_recorded_at_once(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm(proxy.get(), proxy.get().replace(b"Reader/1.0", b"Other/2.0"))
    counts, target = proxy.stage.app.service.counts, f"{proxy.origin.base}/feed.rss"
    asked = proxy.service_calls

    for number in range(6):
        proxy.clock.advance(2)
        agent = b"Other/2.0" if number % 2 else b"Reader/1.0"
        await line.ask(proxy.get().replace(b"Reader/1.0", agent))
        assert counts.last_read(target) == pytest.approx(proxy.clock.now(), abs=0.001)

    assert proxy.service_calls == asked


async def test_data_after_the_last_response_is_discarded_for_a_limited_time(front: Opened) -> None:
    proxy = await front()
    line = await proxy.line()
    await line.say(proxy.get("/feed.rss", "Connection: close") + proxy.get())
    assert (await line.hear()).status == 200
    assert await line.ended(), "the second is not answered"
    (reader,) = proxy.listener._connections.values()

    proxy.listener.tick(asyncio.get_running_loop().time() + LINGERING_TIME)

    assert reader.fd < 0
    assert not proxy.listener._deadlines
    assert proxy.stage.app.connections == 0


async def test_disconnecting_client_does_not_end_the_fetch(front: Opened) -> None:
    proxy = await front()
    proxy.origin.gate = asyncio.Event()
    line = await proxy.line()
    await line.say(proxy.get())
    await proxy.origin.asked(1)

    line.writer.transport.abort()
    proxy.origin.gate.set()

    other = await proxy.line()
    assert (await other.ask(proxy.get())).status == 200
    assert proxy.origin.requests == 1


async def test_replaced_response_is_not_sent_after_its_replacement_was_stored(front: Opened) -> None:
    proxy = await front(feed_min_interval=0, site_interval=0)
    lines = [await proxy.warm() for _ in range(4)]
    plain = proxy.get().replace(b"gzip", b"identity")
    newest, stop, seen = 0, asyncio.Event(), 0

    async def read(line: object) -> None:
        nonlocal seen
        while not stop.is_set():
            known = newest
            answer = await line.ask(plain)  # type: ignore[attr-defined]
            number = int(answer.body.partition(b"<title>version ")[2].partition(b"<")[0] or 0)
            assert number >= known
            seen += 1

    reading = [asyncio.ensure_future(read(line)) for line in lines]
    number = 0
    while number < 30 or seen <= 100:
        number += 1
        proxy.origin.publish("/feed.rss", a_feed(f"version {number}", ttl=60))
        proxy.clock.advance(1)
        await proxy.stage.service.admin.refresh(proxy.origin.url("/feed.rss"))
        newest = number
        await asyncio.sleep(0.01)
    stop.set()
    await asyncio.gather(*reading)


async def test_purged_response_is_fetched_again(front: Opened) -> None:
    proxy = await front(feed_min_interval=0, site_interval=0)
    line = await proxy.warm()

    await proxy.stage.service.admin.purge(proxy.origin.url("/feed.rss"))

    assert "fwd=" in (await line.ask(proxy.get())).cache
    assert proxy.origin.requests == 2


async def test_changed_option_applies_to_the_next_request(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    asked = proxy.service_calls

    proxy.stage._master.options.update(public_url="https://feeds.example")
    await line.ask(proxy.get())

    assert proxy.service_calls == asked + 1


async def test_every_response_is_logged_and_counted_and_its_reader_is_a_subscriber(
    front: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = await front(log_format="text")
    target = proxy.origin.url("/feed.rss")
    await proxy.warm()
    caplog.set_level(logging.INFO, "feedproxy.access")

    await until(lambda: not proxy.listener._handler.access_logger.batch.lines)
    caplog.clear()
    line = await proxy.warm(proxy.get().replace(b"Reader/1.0", b"Other/2.0"))
    for _ in range(3):
        await line.ask(proxy.get())

    def logged() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "feedproxy.access"]

    await until(lambda: len(logged()) >= 7)
    assert len(lines := logged()) == 7
    assert all(f"gateway GET {target} 200" in each and "[feedproxy; hit; ttl=3600]" in each for each in lines)
    assert proxy.stage.service.counts.total(target, proxy.clock.now()) == 2
    metrics = proxy.stage.app.metrics
    assert (answered_count(metrics.families()), metrics.tally().hits) == (11, 10)


async def test_log_line_of_a_repeated_hit_states_the_freshness_at_each_second(
    front: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = await front(log_format="text")
    for path in ("/one.rss", "/two.rss"):  # they share what depends only on age and lifetime
        proxy.origin.publish(path, a_feed(path), cache_control="max-age=3600")
    line = await proxy.warm(proxy.get("/one.rss"), proxy.get("/two.rss"))
    await until(lambda: not proxy.listener._handler.access_logger.batch.lines)
    caplog.set_level(logging.INFO, "feedproxy.access")
    caplog.clear()
    asked, began, ages = proxy.service_calls, proxy.clock.now(), (1.4, 2.6, 59.6, 60.3, 600.3, 3000.2, 3598.6, 3599.8)

    for age in ages:
        proxy.clock.advance(began + age - proxy.clock.now())
        for path in ("/one.rss", "/two.rss"):
            await line.ask(proxy.get(path))

    await until(lambda: len(caplog.records) >= 2 * len(ages))
    assert proxy.service_calls == asked
    for record, age in zip(caplog.records, (age for age in ages for _ in range(2)), strict=True):
        shown = f"fresh for another {span(3600 - age)}: max-age of 1 h, fetched {span(age)} ago"
        assert f"[feedproxy; hit; ttl={int(3600 - age)}]" in record.getMessage()
        assert record.getMessage().endswith(shown)


async def test_json_log_format_applies_to_the_fast_path(front: Opened, caplog: pytest.LogCaptureFixture) -> None:
    proxy = await front(log_format="json")
    caplog.set_level(logging.INFO, "feedproxy.access")

    await proxy.warm()
    await until(lambda: len(caplog.records) >= 4)

    assert all(each.getMessage().startswith('{"time": "2026-11-20T12:00:00Z"') for each in caplog.records)


async def test_age_that_gains_a_digit_and_ttl_that_loses_one_are_correct(front: Opened) -> None:
    """The head keeps its length, but its contents move."""
    proxy = await front()
    proxy.origin.publish("/other.rss", a_feed("two"), cache_control="max-age=1009")
    line = await proxy.warm(proxy.get("/other.rss"))

    seen = []
    for _ in range(14):
        proxy.clock.advance(1)
        answer = await line.ask(proxy.get("/other.rss"))
        seen.append((answer.fields["age"], answer.cache))

    ages = range(int(seen[0][0]), int(seen[0][0]) + 14)
    assert seen == [(str(age), f"feedproxy; hit; ttl={1009 - age}") for age in ages]
    assert {9, 10} <= set(ages)


async def test_dcz_is_answered_from_memory_by_the_hash_of_the_dictionary(front: Opened) -> None:
    proxy = await front(compression_dictionaries="always")
    feeds = [a_feed(*(f"{number} news of the day" for number in range(each, each + 40)), ttl=60) for each in range(3)]
    hashes = []
    for feed in feeds:
        proxy.origin.publish("/feed.rss", feed)
        line = await proxy.line()
        content = gzip.decompress((await line.ask(proxy.get())).body)
        hashes.append(base64.b64encode(hashlib.sha256(content).digest()).decode())
        proxy.clock.advance(minutes=61)
    proxy.clock.advance(minutes=-61)
    requests = [proxy.get("/feed.rss", "Accept-Encoding: dcz", f"Available-Dictionary: :{each}:") for each in hashes]
    line = await proxy.warm(*requests)
    asked = proxy.service_calls

    answers = [await line.ask(request) for request in requests]

    assert proxy.service_calls == asked
    assert [answer.fields["content-encoding"] for answer in answers] == ["dcz"] * 3
    assert [answer.body[8:40] for answer in answers] == [base64.b64decode(each) for each in hashes]


async def test_request_with_a_field_that_vary_names_is_selected_again(front: Opened) -> None:
    proxy = await front(site_interval=0)
    line = await proxy.warm()
    for number in range(9):  # each request has a new value, which does not matter to this feed
        await line.ask(proxy.get("/feed.rss", f"X-Kind: {number}"))

    def answer(request: Request) -> Response:
        kind = (request.fields.get("x-kind") or "none").encode()
        return Response(200, Fields([("Cache-Control", "max-age=60"), ("Vary", "X-Kind")]), kind)

    proxy.origin.speak(answer)
    for _ in range(5):
        assert (await line.ask(proxy.get("/page"))).body == b"none"

    for number in range(5):
        assert (await line.ask(proxy.get("/page", f"X-Kind: {number}"))).body == b"%d" % number
