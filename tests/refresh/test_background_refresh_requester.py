"""The requester to which the fetch of a background refresh is charged (docs/decisions/connection-limits.md)."""

import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.message import Request
from feedproxy.upstream.fetch_result import Fetched, Oversized
from feedproxy.upstream.origin_connection_limits import Requester, current_requester, requesting
from tests.stages.origin import OriginFetcher, a_feed
from tests.stages.play import OnService


async def test_background_refresh_takes_reserved_place_only_for_known_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[Requester] = []
    fetch = OriginFetcher.fetch

    async def record(self: OriginFetcher, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        charged.append(current_requester())
        return await fetch(self, request, skip_address_check=skip_address_check)

    monkeypatch.setattr(OriginFetcher, "fetch", record)
    clock = ManualClock(1_795_176_000.0)
    stage = OnService(clock, {"polling": "off"})
    await stage.open()
    target, client = stage.origin.url("/feed.rss"), Requester("192.0.2.1", is_known=False)
    stage.origin.publish("/feed.rss", a_feed("one"))

    with requesting(client):
        for _ in range(2):
            await stage.service._coordinator.refresh(target)
            clock.advance(hours=1)
        assert current_requester() is client

    assert [(requester.client, requester.is_known) for requester in charged] == [("", False), ("", True)]
    await stage.close()
