"""The metrics and their labels."""

import asyncio

import pytest

from feedproxy.admin import probes
from feedproxy.admin.pages.feed_table import FeedTableCache
from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd
from feedproxy.proxy.service import Service
from feedproxy.refresh.refresh_events import RefreshEnded
from feedproxy.refresh.refresh_result import RefreshRecord
from feedproxy.request.problem_details import TITLES
from feedproxy.store.resource import Failures, Resource
from feedproxy.telemetry.metrics import Metrics, answered_count
from feedproxy.telemetry.metrics_aggregation import exposition
from tests.stages.admin import NOW, TARGET, Proxy, a_resource


def test_unregistered_status_codes_share_a_label() -> None:
    metrics = Metrics()
    for status in (520, 599, 799, 999):
        metrics.count_response("gateway", status, CacheStatus(fwd=Fwd.URI_MISS), 0, 0)
        metrics.count_fetch(status, "", 0, 0)

    asked = {"entrance": "gateway", "outcome": "fwd=uri-miss", "detail": "", "status": "other"}
    assert metrics.registry.get_sample_value("feedproxy_requests_total", asked) == 4
    assert metrics.registry.get_sample_value("feedproxy_origin_requests_total", {"status": "other", "detail": ""}) == 4


@pytest.mark.parametrize(("status", "failures"), [(430, 0), (499, 0), (404, 0), (520, 1), (503, 1)])
def test_unregistered_client_error_is_no_server_error(status: int, failures: int) -> None:
    metrics = Metrics()

    metrics.count_fetch(status, "", 0, 0)

    assert metrics.tally().failures == failures


@pytest.mark.parametrize("status", [0, 200, 226, 304, 404, 429, 451, 503, *TITLES])
def test_registered_status_codes_have_their_own_labels(status: int) -> None:
    metrics = Metrics()

    metrics.count_response("gateway", status, CacheStatus(), 0, 0)

    labels = {"entrance": "gateway", "outcome": "own", "detail": "", "status": str(status)}
    assert metrics.registry.get_sample_value("feedproxy_requests_total", labels) == 1


@pytest.mark.parametrize(
    "status",
    [
        CacheStatus(fwd=Fwd.METHOD, detail=Detail.PASS_THROUGH),
        CacheStatus(fwd=Fwd.METHOD, detail=Detail.UNREACHABLE),
        CacheStatus(fwd=Fwd.BYPASS, detail=Detail.OVERSIZED),
        CacheStatus(fwd=Fwd.URI_MISS, detail=Detail.OVERSIZED),
    ],
)
def test_pass_through_does_not_count_as_saved(status: CacheStatus) -> None:
    metrics = Metrics()

    metrics.count_response("proxy", 200, status, 0, 0)

    totals = metrics.tally()
    assert (totals.forwarded, totals.passed, totals.requests_saved) == (1, 1, 0)


def test_fetch_refused_by_the_address_policy_is_not_counted_as_an_origin_request() -> None:
    metrics = Metrics()
    metrics.count_fetch(None, Detail.FORBIDDEN_ADDRESS, 0, 0)
    metrics.count_fetch(None, Detail.UNREACHABLE, 0, 0)

    assert (metrics.tally().fetches, metrics.tally().failures) == (1, 1)


def test_pushed_content_is_not_counted_as_an_origin_request() -> None:
    metrics = Metrics()

    metrics.on_refresh_ended(RefreshEnded(TARGET, RefreshRecord(0.0, "push", 200, "updated", content_size=50)))
    assert metrics.tally().fetches == 0
    metrics.on_refresh_ended(RefreshEnded(TARGET, RefreshRecord(0.0, "background", 200, "updated", content_size=50)))

    assert metrics.tally().fetches == 1
    assert metrics.registry.get_sample_value("feedproxy_origin_stored_bytes_total") == 50


def test_connect_counts_as_answered_but_not_as_saved() -> None:
    metrics = Metrics()

    metrics.count_connect("tunnel", 200, Detail.PASS_THROUGH, 0, 0)

    counts = metrics.tally()
    assert answered_count(metrics.families()) == 1
    assert (counts.hits, counts.forwarded, counts.requests_saved) == (0, 0, 0)


async def test_metrics_and_status_page_count_subscribers_of_feeds_only(proxy: Proxy) -> None:
    never = "https://example.com/never.xml"
    await proxy.keep(a_resource(), Resource(never, failures=Failures(1, NOW, NOW, "unreachable", NOW + 60)))
    proxy.read(TARGET, "NetNewsWire (RSS Reader)", 2)
    proxy.read(never, "curl/8", 3)
    proxy.read("https://example.com/page", "curl/8", 4)

    _, text = await proxy.get("/metrics")
    view = await proxy.json("/status")

    assert "feedproxy_subscribers 2.0" in text
    assert "feedproxy_feeds_read 1.0" in text
    assert (view["subscribers"], view["feeds_read"]) == (2, 1)


async def test_metrics_do_not_wait_until_a_large_store_has_been_read(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_read, read_feeds = asyncio.Event(), FeedTableCache.feeds

    async def read_slowly(table: FeedTableCache, service: Service) -> list[str]:
        await has_read.wait()
        return await read_feeds(table, service)

    monkeypatch.setattr(FeedTableCache, "feeds", read_slowly)
    monkeypatch.setattr(probes, "FEEDS_WAIT", 0)
    await proxy.keep(a_resource())
    proxy.read(TARGET, "NetNewsWire (RSS Reader)", 2)

    _, at_first = await proxy.get("/metrics")
    has_read.set()
    monkeypatch.undo()
    _, later = await proxy.get("/metrics")

    assert "feedproxy_stored_resources 1.0" in at_first
    assert "feedproxy_subscribers 2.0" not in at_first
    assert "feedproxy_subscribers 0.0" not in at_first
    assert "feedproxy_subscribers 2.0" in later


async def test_metrics_answer_concurrent_requests(proxy: Proxy) -> None:
    await proxy.keep(a_resource())
    proxy.read(TARGET, "NetNewsWire (RSS Reader)", 2)

    answers = await asyncio.gather(*(proxy.get("/metrics") for _ in range(3)))

    assert all("feedproxy_subscribers 2.0" in text for _, text in answers)


def test_error_page_of_the_proxy_does_not_count_as_data_from_store_or_origin() -> None:
    metrics = Metrics()

    metrics.count_response("gateway", 502, CacheStatus(fwd=Fwd.URI_MISS, detail=Detail.UNREACHABLE), 222, 0.1)
    metrics.count_response("gateway", 404, CacheStatus(fwd=Fwd.URI_MISS, fwd_status=404), 10, 0.1)
    metrics.count_response("gateway", 200, CacheStatus(), 5000, 0.1)

    tally = metrics.tally()
    assert (tally.requests, tally.sent, tally.bytes_spared) == (2, 10, 10)


def test_gauges_of_the_fleet_have_no_value_without_a_fleet() -> None:
    metrics = Metrics()

    def lines() -> list[str]:
        lines = exposition(metrics.families()).decode().splitlines()
        return [line for line in lines if line.startswith("feedproxy_fleet_")]

    assert lines() == []
    metrics.observe_fleet(up=False, waiting=2, events={"away": 1})
    assert lines() == [
        "feedproxy_fleet_up 0.0",
        "feedproxy_fleet_waiting 2.0",
        'feedproxy_fleet_events_total{event="away"} 1.0',
    ]
