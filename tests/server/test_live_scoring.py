"""Live scores of answers by the fast path and by mitmproxy."""

import pytest

from feedproxy.scoring.reader_names import secret_hash
from tests.server.conftest import Opened
from tests.stages.origin import a_feed
from tests.stages.scores import scores_of


@pytest.mark.parametrize("fast_path", [True, False], ids=["in front", "by mitmproxy"])
async def test_live_score_finds_unconditional_reader(front: Opened, fast_path: bool) -> None:
    proxy = await front()
    line = await proxy.line()
    # mitmproxy answers requests with unusual lines.
    request = proxy.get() if fast_path else proxy.get("/feed.rss", "Content-Length: 0")
    for _ in range(5):
        await line.ask(request)
        proxy.clock.advance(minutes=10)

    (score,) = scores_of(proxy.stage.app.live_scores, proxy.clock.now())

    assert score.user_agent == "Reader/1.0"
    assert score.cost.requests == 5
    assert {"unconditional-repeat", "polled-within-ttl", "contact-missing"} <= {
        finding.note.id() for finding in score.findings
    }


async def test_live_score_of_fast_path_uses_request_conditions(front: Opened) -> None:
    proxy = await front()
    line = await proxy.line()
    first = await line.ask(proxy.get())
    for _ in range(5):
        proxy.clock.advance(minutes=20)
        answer = await line.ask(proxy.get("/feed.rss", f"If-None-Match: {first.fields['etag']}"))
        assert answer.status == 304

    (score,) = scores_of(proxy.stage.app.live_scores, proxy.clock.now())

    assert "validators-returned" in {finding.note.id() for finding in score.findings}
    assert score.cost.unchanged == 5


async def test_live_score_is_disabled_by_option(front: Opened) -> None:
    proxy = await front(score_readers=0)
    line = await proxy.line()
    await line.ask(proxy.get())
    await line.ask(proxy.get())

    assert scores_of(proxy.stage.app.live_scores, proxy.clock.now()) == []


async def test_live_score_of_fast_path_names_reader_by_secret_in_target(front: Opened) -> None:
    proxy = await front()
    path = "/feed.rss?token=3f9c1b7e5a2d8046"
    proxy.origin.publish(path, a_feed("one", ttl=60))
    line = await proxy.line()
    for _ in range(5):
        await line.ask(proxy.get(path))
        proxy.clock.advance(minutes=10)
    assert proxy.service_calls < 5

    (score,) = scores_of(proxy.stage.app.live_scores, proxy.clock.now())

    assert score.reader == secret_hash(proxy.origin.url(path))
    assert score.cost.requests == 5
