"""Recent requests, fetches and failures on the operator's pages, in their JSON, and in the log."""

import asyncio
import json
import logging
from typing import Any

import aiohttp
import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.lru_map import ENTRY_OVERHEAD
from feedproxy.memory_max_shares import DIVISORS
from feedproxy.proxy.cache_admin import RefreshReport
from feedproxy.refresh.refresh_events import RefreshEnded
from feedproxy.refresh.refresh_result import RefreshRecord
from feedproxy.request.feed_id import feed_id
from feedproxy.settings import Settings
from feedproxy.telemetry import recent_activity
from feedproxy.telemetry.log_format import JsonLines
from feedproxy.telemetry.recent_activity import Journal, RecentActivity, RequestActivity
from tests.stages.admin import NOW, TARGET, Proxy, a_resource

SECRET_TARGET = "https://example.com/f?token=hunter2hunter2"

FAILED = RefreshRecord(
    NOW,
    "background",
    404,
    "failed",
    detail="error-status",
    reason="https://example.com/f?token=hunter2hunter2 answered 404",
    received_size=9,
    seconds=0.25,
    is_missing_feed=True,
)


def an_activity(**settings: Any) -> RecentActivity:
    return RecentActivity(lambda: Settings(**settings), redact_target)


def a_request(number: int) -> RequestActivity:
    return RequestActivity(
        NOW + number, "gateway", "GET", f"https://example.com/{number}", 200, 1, "feedproxy; hit", "curl/8"
    )


async def test_status_shows_address_that_never_worked_with_its_reason(proxy: Proxy) -> None:
    proxy.app.recent_activity.on_refresh_ended(RefreshEnded(SECRET_TARGET, FAILED))

    _, text = await proxy.get("/")
    answer = await proxy.json("/status")

    assert "No feed yet; 1 address has never worked" in text
    assert answer["never_worked"] == [
        {
            "target": "https://example.com/f?token=…",
            "status": 404,
            "detail": "error-status",
            "reason": "https://example.com/f?token=… answered 404",
            "tries": 1,
            "first": "2026-05-28T20:26:40Z",
            "last": "2026-05-28T20:26:40Z",
        }
    ]
    assert "hunter2" not in text


async def test_page_that_names_a_feed_is_not_listed_under_never_worked(proxy: Proxy) -> None:
    proxy.app.recent_activity.on_refresh_ended(RefreshEnded(SECRET_TARGET, FAILED))

    proxy.app.recent_activity.on_page_redirected_to_feed(SECRET_TARGET)

    assert (await proxy.json("/status"))["never_worked"] == []


async def test_status_shows_recent_requests(proxy: Proxy) -> None:
    proxy.app.recent_activity.record_request(replace(a_request(0), agent="<b>x</b>" * 40))

    _, text = await proxy.get("/")
    answer = (await proxy.json("/status"))["recent_requests"]

    assert [(request["target"], request["status"], request["cache"]) for request in answer] == [
        ("https://example.com/0", 200, "feedproxy; hit")
    ]
    assert "Recent requests" in text
    assert "<b>x" not in text


async def test_feed_page_shows_fetch_history(proxy: Proxy) -> None:
    await proxy.keep(a_resource())
    proxy.app.recent_activity.on_refresh_ended(RefreshEnded(TARGET, replace(FAILED, reason="an <i>answer</i>")))

    _, text = await proxy.get(f"/feeds/{feed_id(TARGET)}")
    answer = (await proxy.json(f"/feeds/{feed_id(TARGET)}"))["fetches"]

    assert [(fetch["status"], fetch["bytes"], fetch["outcome"], fetch["occasion"]) for fetch in answer] == [
        (404, 9, "failed", "background")
    ]
    assert "Fetch history" in text
    assert "an &lt;i&gt;answer" in text


def test_recent_activity_is_bounded() -> None:
    activity = an_activity(log_format="off")

    for number in range(recent_activity.FAILED_MAX + 30):
        activity.on_refresh_ended(RefreshEnded(f"https://example.com/{number}", FAILED))
        activity.record_request(a_request(number))
    for _ in range(recent_activity.FETCHES_MAX + 5):
        activity.on_refresh_ended(RefreshEnded(TARGET, FAILED))

    assert len(activity.journal().failed) == recent_activity.FAILED_MAX
    assert len(activity.journal().requests) == recent_activity.REQUESTS_MAX
    assert len(activity.fetches(TARGET)) == recent_activity.FETCHES_MAX


def test_fetches_of_all_feeds_stay_within_their_part_of_memory_max() -> None:
    size = recent_activity.FETCH_SIZE + ENTRY_OVERHEAD
    activity = an_activity(log_format="off", memory_max=10 * size * DIVISORS["fetches"])

    for number in range(30):
        activity.on_refresh_ended(RefreshEnded(f"https://example.com/{number}", FAILED))

    assert sum(len(activity.fetches(f"https://example.com/{number}")) for number in range(30)) == 10
    assert activity.fetches("https://example.com/29")


def test_recent_activity_of_workers_is_merged() -> None:
    one, other = an_activity(log_format="off"), an_activity(log_format="off")
    for number in range(40):
        (one if number % 2 else other).record_request(a_request(number))
    one.on_refresh_ended(RefreshEnded(SECRET_TARGET, FAILED))
    other.on_refresh_ended(RefreshEnded(SECRET_TARGET, FAILED))
    received = convert(json.loads(json.dumps(to_builtins(other.journal()))), Journal)
    journals = [one.journal(), received]

    assert [request.at for request in recent_activity.merge_requests(journals)] == [
        NOW + second for second in range(39, -1, -1)
    ]
    assert [(address.target, address.count) for address in recent_activity.merge_failures(journals)] == [
        (SECRET_TARGET, 2)
    ]


def test_background_fetch_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    an_activity().on_refresh_ended(RefreshEnded(SECRET_TARGET, FAILED))
    an_activity().on_refresh_ended(RefreshEnded(SECRET_TARGET, replace(FAILED, occasion="reader")))
    an_activity(log_format="off").on_refresh_ended(RefreshEnded(SECRET_TARGET, FAILED))

    (record,) = caplog.records
    reason = "https://example.com/f?token=… answered 404"
    assert record.getMessage() == (f"background fetch https://example.com/f?token=… 404 9 250.0ms [failed] {reason}")
    assert json.loads(JsonLines().format(record)) | {"time": ""} == {
        "time": "",
        "level": "warning",
        "event": "fetch",
        "target": "https://example.com/f?token=…",
        "occasion": "background",
        "status": 404,
        "bytes": 9,
        "seconds": 0.25,
        "outcome": "failed",
        "detail": "error-status",
        "reason": reason,
    }


async def test_lines_of_successful_fetches_are_logged_when_the_app_closes(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "feedproxy.fetch")
    record = RefreshRecord(NOW, "background", 304, "not-modified")

    for path in ("one", "two"):
        proxy.app.recent_activity.on_refresh_ended(RefreshEnded(f"https://example.com/{path}", record))
    assert not caplog.records
    await proxy.app.close()

    assert [" ".join(entry.getMessage().split()[:4]) for entry in caplog.records] == [
        "background fetch https://example.com/one 304",
        "background fetch https://example.com/two 304",
    ]


async def test_failed_fetch_is_logged_at_once_after_the_lines_of_earlier_fetches(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "feedproxy.fetch")

    for record in (RefreshRecord(NOW, "background", 304, "not-modified"), FAILED):
        proxy.app.recent_activity.on_refresh_ended(RefreshEnded("https://example.com/one", record))

    assert [entry.getMessage().split()[3] for entry in caplog.records] == ["304", "404"]


async def test_operator_actions_are_logged(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await proxy.keep(a_resource())

    await proxy.get("/")
    await proxy.post("/purge", {"url": TARGET})
    await proxy.post("/purge?url=https://example.com/f%3Ftoken=hunter2hunter2")
    await proxy.post("/refresh", {"url": "ftp://x"})

    lines = [record.getMessage() for record in caplog.records if record.name == "feedproxy.operator"]
    assert lines[0].startswith(f"operator 127.0.0.1 purge url={TARGET} 200 ")
    assert lines[1].startswith("operator 127.0.0.1 purge url=https://example.com/f?token=… 200 ")
    assert lines[2].startswith("operator 127.0.0.1 refresh url=ftp://x 400 invalid URL")
    assert len(lines) == 3


async def test_operator_action_is_logged_if_the_shutdown_interrupts_it(
    proxy: Proxy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    started = asyncio.Event()

    async def refresh_for_ever(_: str) -> RefreshReport:
        started.set()
        return await asyncio.Future()

    monkeypatch.setattr(proxy.app.service.admin, "refresh", refresh_for_ever)
    request = asyncio.ensure_future(proxy.post("/refresh", {"url": TARGET}))
    await started.wait()
    await proxy.admin.stop()
    with pytest.raises(aiohttp.ClientError):
        await request

    lines = [record.getMessage() for record in caplog.records if record.name == "feedproxy.operator"]
    assert lines == [f"operator 127.0.0.1 refresh url={TARGET} 500 interrupted"]
