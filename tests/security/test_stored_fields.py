"""Values that others write into a store or Redis cannot split a response: a field line with a line break is damage."""

import json

import pytest

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.message import Fields
from feedproxy.store import envelope, resource_codec
from feedproxy.store.envelope import Damaged
from feedproxy.store.resource import Resource

TARGET = "https://a.example/feed"


def stored(name: str, value: str) -> bytes:
    """Return a stored value with this field line and a correct checksum, as an attacker writes it."""
    response = StoredResponse(
        TARGET, 200, Fields([("X-Name", "x-value")]), Content(Bodies({"identity": b"x"})), 1.0, 2.0
    )
    header, area = envelope.open_parts(
        envelope.EnvelopeKind.RESOURCE, resource_codec.dump(Resource(TARGET, (response,), fetched=2.0))
    )
    text = bytes(header).decode().replace('["X-Name","x-value"]', json.dumps([name, value]))
    return envelope.seal_parts(envelope.EnvelopeKind.RESOURCE, text.encode(), bytes(area))


def test_single_field_line_is_decoded() -> None:
    assert list(resource_codec.load(stored("ETag", '"\xe9\t"')).variants[0].fields) == [("ETag", '"\xe9\t"')]


@pytest.mark.parametrize(
    "mark", ["\r", "\n", "\0", "\r\nSet-Cookie: evil=1", "\n\n<script>", "\u010a", "\u560a", "\ud800"]
)
@pytest.mark.parametrize("place", ["name", "value"])
def test_field_line_with_a_line_break_is_damage(place: str, mark: str) -> None:
    line = (f"X{mark}", "x") if place == "name" else ("X", f"x{mark}")

    with pytest.raises(Damaged):
        resource_codec.load(stored(*line))
