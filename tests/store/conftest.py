"""Fixtures of the store's tests: feeds to store, and a list of failures."""

from collections.abc import Callable

import pytest

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.errors import StoreError
from feedproxy.http.message import Fields
from feedproxy.store.resource import Resource

type MakeFeed = Callable[..., Resource]


@pytest.fixture
def a_feed() -> MakeFeed:
    """Return a function that makes a feed for a target. Its size in bytes is that of all its codings."""

    def make(target: str = "https://example.com/feed", *, size: int = 1000, says: str = "hello") -> Resource:
        body = (says.encode() * (size // 2 // len(says) + 1))[: size // 2]
        content = Content(Bodies({"identity": body, "gzip": body[::-1]}), tag=says, feed=True)
        fields = Fields([("Content-Type", "application/rss+xml"), ("ETag", f'"{says}"')])
        return Resource(target, (StoredResponse(target, 200, fields, content, 1.0, 2.0),), fetched=2.0)

    return make


@pytest.fixture
def failures() -> list[StoreError]:
    """Return the list of failures; pass `failures.append` as `on_failure`."""
    return []
