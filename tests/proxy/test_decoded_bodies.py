"""Decoding for readers without the coding costs once, whatever comes of it."""

import gzip

import pytest

from feedproxy.http import content_coding
from feedproxy.proxy.representations import decoded_bodies
from feedproxy.proxy.representations.decoded_bodies import DecodedBodies


@pytest.mark.parametrize("body", [gzip.compress(b"page" * 100, mtime=0), b"\x1f\x8bbroken"])
def test_the_second_reader_costs_no_decoding(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    calls = 0
    decode = content_coding.decode

    def counting(*args: object, **kwargs: object) -> bytes:
        nonlocal calls
        calls += 1
        return decode(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(decoded_bodies.content_coding, "decode", counting)
    known = DecodedBodies()

    first = known.get(body, "gzip", limit=10_000)

    assert known.get(body, "gzip", limit=10_000) == first
    assert calls == 1


def test_what_is_remembered_is_bounded() -> None:
    known = DecodedBodies()
    bodies = [gzip.compress(b"%d" % number) for number in range(3 * decoded_bodies.ENTRIES_MAX)]

    for number, body in enumerate(bodies):
        assert known.get(body, "gzip", limit=100) == b"%d" % number

    assert len(known._decoded) <= decoded_bodies.ENTRIES_MAX
    assert known._bytes <= decoded_bodies.BYTES_MAX
