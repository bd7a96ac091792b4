"""What happened lately, on the operator's page, in its JSON, and in the log."""

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from feedproxy.memory_limits import DIVISORS
from feedproxy.refresh.result import RefreshFinished
from feedproxy.request.upstream_request import feed_id
from feedproxy.settings import Settings
from feedproxy.telemetry import recent_activity
from feedproxy.telemetry.log_format import JsonLines
from feedproxy.telemetry.metrics import Metrics
from feedproxy.telemetry.recent_activity import RecentActivity, RequestActivity
from feedproxy.telemetry.redacted import redact_target
from tests.stages.admin import NOW, TARGET, Proxy, a_resource

FAILED = RefreshFinished(
    "https://example.com/f?token=hunter2hunter2",
    "background",
    404,
    "failed",
    detail="error-status",
    reason="https://example.com/f?token=hunter2hunter2 answered 404",
    received_size=9,
    seconds=0.25,
    is_missing_feed=True,
)


def a_journal(**settings: Any) -> RecentActivity:
    return RecentActivity(Metrics(), ManualClock(NOW), lambda: Settings(**settings), redact_target)


def an_asked(number: int) -> RequestActivity:
    return RequestActivity(
        NOW + number, "gateway", "GET", f"https://example.com/{number}", 200, 1, "feedproxy; hit", "curl/8"
    )


async def test_address_that_never_worked_is_on_the_page_and_in_the_json_with_its_reason(proxy: Proxy) -> None:
    proxy.runtime.journal.updated(FAILED)

    _, text = await proxy.get("/")
    told = await proxy.json("/status")

    assert "No feed yet; 1 address has never worked" in text
    assert told["never_worked"] == [
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


async def test_recent_requests_are_on_the_page_and_in_the_json(proxy: Proxy) -> None:
    proxy.runtime.journal.asked(replace(an_asked(0), agent="<b>x</b>" * 40))

    _, text = await proxy.get("/")
    told = (await proxy.json("/status"))["recent_requests"]

    assert [(each["target"], each["status"], each["cache"]) for each in told] == [
        ("https://example.com/0", 200, "feedproxy; hit")
    ]
    assert "Recent requests" in text
    assert "<b>x" not in text


async def test_fetch_history_is_on_the_feeds_page_and_in_its_json(proxy: Proxy) -> None:
    await proxy.keep(a_resource())
    proxy.runtime.journal.updated(replace(FAILED, target=TARGET, reason="an <i>answer</i>"))

    _, text = await proxy.get(f"/feeds/{feed_id(TARGET)}")
    told = (await proxy.json(f"/feeds/{feed_id(TARGET)}"))["fetches"]

    assert [(each["status"], each["bytes"], each["outcome"], each["occasion"]) for each in told] == [
        (404, 9, "failed", "background")
    ]
    assert "Fetch history" in text
    assert "an &lt;i&gt;answer" in text


def test_journal_is_bounded() -> None:
    kept = a_journal(log_format="off")

    for number in range(recent_activity.FAILED_MAX + 30):
        kept.updated(replace(FAILED, target=f"https://example.com/{number}"))
        kept.asked(an_asked(number))
    for _ in range(recent_activity.FETCHES_MAX + 5):
        kept.updated(replace(FAILED, target=TARGET))

    assert len(kept.failed()) == recent_activity.FAILED_MAX
    assert len(kept.requests()) == recent_activity.REQUESTS_MAX
    assert len(kept.fetches(TARGET)) == recent_activity.FETCHES_MAX


def test_fetches_of_all_feeds_together_take_their_part_of_memory_max() -> None:
    kept = a_journal(log_format="off", memory_max=10 * recent_activity.FETCH_SIZE * DIVISORS["fetches"])

    for number in range(30):
        kept.updated(replace(FAILED, target=f"https://example.com/{number}"))

    assert sum(len(kept.fetches(f"https://example.com/{number}")) for number in range(30)) == 10
    assert kept.fetches("https://example.com/29")


def test_several_processes_are_joined() -> None:
    one, other = a_journal(log_format="off"), a_journal(log_format="off")
    for number in range(40):
        (one if number % 2 else other).asked(an_asked(number))
    one.updated(FAILED)
    other.updated(FAILED)
    told = [json.loads(json.dumps(other.plain()))]

    assert [each.at for each in recent_activity.merge_requests(told, one.requests())] == [
        NOW + each for each in range(39, -1, -1)
    ]
    assert [(each.target, each.count) for each in recent_activity.merge_failures(told, one.failed())] == [
        (FAILED.target, 2)
    ]


def test_background_fetch_leaves_a_line_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    a_journal().updated(FAILED)
    a_journal().updated(replace(FAILED, occasion="reader"))
    a_journal(log_format="off").updated(FAILED)

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


async def test_actions_of_the_operator_leave_a_line(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await proxy.keep(a_resource())

    await proxy.get("/")
    await proxy.post("/purge", {"url": TARGET})
    await proxy.post("/purge?url=https://example.com/f%3Ftoken=hunter2hunter2")
    await proxy.post("/refresh", {"url": "ftp://x"})

    lines = [record.getMessage() for record in caplog.records if record.name == "feedproxy.operator"]
    assert lines[0].startswith(f"operator 127.0.0.1 purge url={TARGET} 200 ")
    assert lines[1].startswith("operator 127.0.0.1 purge url=https://example.com/f?token=… 200 ")
    assert lines[2].startswith("operator 127.0.0.1 refresh url=ftp://x 400 not a URL")
    assert len(lines) == 3
