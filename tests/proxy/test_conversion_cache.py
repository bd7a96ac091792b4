"""What the event loop does for a rendering takes no longer for a long document."""

import hashlib
from dataclasses import replace

import pytest

from feedproxy.cache.stored_response import Content, StoredResponse
from feedproxy.http.message import Fields
from feedproxy.proxy.representations import conversion_cache


def test_content_without_a_tag_of_ours_is_named_without_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(hashlib, "blake2b")
    stored = StoredResponse("https://a.example/", 200, Fields([("ETag", '"1"')]), Content({"identity": b"x"}), 1.0, 2.0)
    name = conversion_cache._version(stored)

    assert conversion_cache._version(replace(stored)) == name
    assert conversion_cache._version(replace(stored, response_time=3.0)) != name
    assert conversion_cache._version(replace(stored, fields=Fields([("ETag", '"2"')]))) != name
