"""The stored feeds that every client may have, and that may therefore serve as compression dictionaries."""

from typing import Any

import pytest
from msgspec.structs import replace

from feedproxy.cache.stored_response import Bodies, StoredResponse
from feedproxy.http.message import Fields
from feedproxy.refresh.policy.dictionary_privacy import is_for_all, is_shared
from feedproxy.settings import Settings
from tests.stages.admin import TARGET, a_resource

STORED = a_resource().variants[0]


def test_public_feed_is_for_all_clients_and_serves_as_dictionary() -> None:
    assert is_for_all(STORED, Settings())
    assert is_shared(STORED, Settings())


def test_feed_is_not_shared_if_compression_dictionaries_is_off() -> None:
    assert not is_shared(STORED, Settings(compression_dictionaries="off"))


@pytest.mark.parametrize("settings", [Settings(private=True), Settings(readers=("alice",))])
def test_feed_with_protecting_rule_is_not_shared(settings: Settings) -> None:
    assert not is_for_all(STORED, settings)


@pytest.mark.parametrize("directive", ["private", "no-store", "no-transform", "max-age=60, private, no-store"])
def test_feed_with_forbidding_directive_is_not_shared(directive: str) -> None:
    assert not is_for_all(replace(STORED, fields=Fields([("Cache-Control", directive)])), Settings())


@pytest.mark.parametrize(
    "changes",
    [
        {"authorized": True},
        {"key": Fields([("cookie", "session=1")])},
        {"vary_request": Fields([("Authorization", "Basic YTpi")])},
        {"target": f"{TARGET}?token=abc"},
        {"target": f"{TARGET}#part"},
        {"content": replace(STORED.content, feed=False)},
        {"content": replace(STORED.content, tag=None)},
        {"content": replace(STORED.content, bodies=Bodies({"gzip": b"y"}))},
    ],
    ids=["credential", "key", "Vary", "secret", "fragment", "no feed", "no own tag", "coded only"],
)
def test_feed_that_not_every_client_may_have_is_not_shared(changes: dict[str, Any]) -> None:
    stored: StoredResponse = replace(STORED, **changes)

    assert not is_for_all(stored, Settings())
