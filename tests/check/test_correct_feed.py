"""Checks of a correct feed yield praise, with a dozen requests at most."""

from pathlib import Path

import pytest

from feedproxy.check.probe import REQUESTS_MAX, probe_feed
from feedproxy.check.run_checks import check_feed
from feedproxy.errors import Forbidden
from feedproxy.notes import Level
from feedproxy.settings import Settings
from tests.check.publisher import PAGE, Answer, publishing
from tests.upstream.test_tls_probe import Authority

OPEN = Settings(allow_private=True)


async def test_check_of_correct_feed_yields_only_positive_notes() -> None:
    async with publishing() as publisher:
        observations = await probe_feed(publisher.address, OPEN, pause=0)

        notes = check_feed(observations)

        assert [note for note in notes if note.level is not Level.GOOD] == []
        assert {note.id() for note in notes} >= {
            *("etag-works", "last-modified-works", "compressed", "media-type-right", "self-link-right"),
            *(
                "autodiscovery-works",
                "well-formed",
                "guids-unique",
                "dates-complete",
                "schedule-stated",
                "lifetime-stated",
            ),
        }
        assert len(publisher.requests) == observations.requests <= REQUESTS_MAX


async def test_check_of_https_feed_yields_positive_note_for_https(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with publishing(authority.serving("localhost"), "localhost") as publisher:
        observations = await probe_feed(publisher.address, OPEN, pause=0, trust=authority.trusting)

        notes = check_feed(observations)

        assert [note for note in notes if note.level is not Level.GOOD] == []
        assert "https-available" in {note.id() for note in notes}


async def test_probe_counts_requests_of_redirects() -> None:
    async with publishing() as publisher:
        publisher.fault = lambda request, answer: Answer(301, {"Location": "/page"}) if request.path == "/" else answer
        publisher.documents["/page"] = PAGE

        observations = await probe_feed(publisher.address, OPEN, pause=0)

        assert [request.path for request in publisher.requests].count("/page") == 1
        assert len(publisher.requests) == observations.requests


async def test_probe_sends_user_agent() -> None:
    async with publishing() as publisher:
        await probe_feed(publisher.address, OPEN, pause=0)
        assert all(request.fields["user-agent"].startswith("feedproxy/") for request in publisher.requests)


async def test_probe_rejects_private_address_by_default() -> None:
    async with publishing() as publisher:
        with pytest.raises(Forbidden):
            await probe_feed(publisher.address, Settings(), pause=0)
        assert publisher.requests == []
