"""The result of a refresh by another process: whether the feed has changed."""

import pytest
from msgspec.structs import replace

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.message import Fields
from feedproxy.refresh import peer_result
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

TARGET = "https://example.com/feed"
GERMAN = Fields([("Accept-Language", "de")])


def variant(tag: str, at: float, asked: Fields, *, vary: bool = True) -> StoredResponse:
    fields = Fields([("Vary", "Accept-Language")] if vary else [])
    content = Content(Bodies({"identity": tag.encode()}), tag=tag, feed=True)
    return StoredResponse(TARGET, 200, fields, content, at, at, vary_request=asked if vary else Fields())


def resource(digest: str, at: float, *variants: StoredResponse) -> Resource:
    channel = Channel(Kind.RSS, "2.0", well_formed=True, content_digest=digest)
    return Resource(TARGET, fetched=at, variants=variants, channel=channel)


def has_changed(before: Resource, stored: Resource, asked: Fields) -> bool:
    result = peer_result.find(before, stored, asked, 3.0, Settings(), own_agent=True)
    assert result is not None
    return result.changed


@pytest.mark.parametrize(("replaced", "selected", "changed"), [(None, "b", False), ("b", "b", False), ("a", "b", True)])
def test_peer_result_counts_as_changed_if_it_replaced_the_variant_that_answers_the_request(
    replaced, selected, changed
) -> None:
    plain = variant("plain", 1.0, Fields())
    german = [variant(replaced, 1.0, GERMAN)] if replaced else []

    before = resource("one", 1.0, plain, *german)
    stored = resource("two", 2.0, plain, variant(selected, 2.0, GERMAN))

    assert has_changed(before, stored, GERMAN) is changed


@pytest.mark.parametrize("in_client_language", [True, False])
def test_peer_result_counts_as_unchanged_if_it_replaced_a_copy_in_a_clients_language(in_client_language) -> None:
    shared = replace(variant("a", 1.0, Fields(), vary=False), has_client_language=in_client_language)
    stored = resource("two", 2.0, variant("b", 2.0, Fields(), vary=False))

    assert has_changed(resource("one", 1.0, shared), stored, Fields()) is not in_client_language
