"""The feeds that may appear in public lists."""

import pytest
from msgspec.structs import replace

from feedproxy.http.message import Fields
from feedproxy.proxy.public_feeds import may_be_listed
from feedproxy.settings import Settings
from tests.stages.admin import TARGET, a_resource


def test_public_feed_may_be_listed() -> None:
    assert may_be_listed(TARGET, Settings(), a_resource())


def test_feed_marked_private_by_a_rule_is_not_listed() -> None:
    assert not may_be_listed(TARGET, Settings(private=True), a_resource())


def test_feed_that_requires_authentication_is_not_listed() -> None:
    assert not may_be_listed(TARGET, Settings(readers=("alice",)), a_resource())


@pytest.mark.parametrize(
    "target",
    [
        "https://example.com/feed.xml?token=abc",
        "https://example.com/feed.xml?a=1&api_key=abc",
        "https://user:word@example.com/feed.xml",
        "https://example.com/private/0f1e2d3c4b5a69788796a5b4c3d2e1f0/feed.xml",
        "https://example.com/123e4567-e89b-12d3-a456-426614174000.xml",
        "http://[broken/feed.xml",
    ],
)
def test_target_that_contains_a_secret_is_not_listed(target: str) -> None:
    assert not may_be_listed(target, Settings())


def test_feed_fetched_with_credentials_is_not_listed() -> None:
    resource = a_resource()
    variants = tuple(replace(each, authorized=True) for each in resource.variants)

    assert not may_be_listed(TARGET, Settings(), replace(resource, variants=variants))


@pytest.mark.parametrize("said", ["private", "no-store", "max-age=60, private"])
def test_feed_that_its_origin_marks_private_is_not_listed(said: str) -> None:
    resource = a_resource()
    variants = tuple(replace(each, fields=Fields([("Cache-Control", said)])) for each in resource.variants)

    assert not may_be_listed(TARGET, Settings(), replace(resource, variants=variants))
