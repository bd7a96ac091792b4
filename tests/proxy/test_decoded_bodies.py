"""Each body is decoded once for the readers that do not accept its coding."""

import gzip

import pytest

from feedproxy.http.coding import bounded_decompression
from feedproxy.proxy.representations.decoded_bodies import DecodedBodies


@pytest.mark.parametrize("body", [gzip.compress(b"page" * 100, mtime=0), b"\x1f\x8bbroken"])
def test_decoded_body_is_kept_for_the_second_reader(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    calls = 0
    decode = bounded_decompression.decode

    def counting(*args: object, **kwargs: object) -> bytes:
        nonlocal calls
        calls += 1
        return decode(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("feedproxy.proxy.representations.decoded_bodies.bounded_decompression.decode", counting)
    known = DecodedBodies(100_000)

    first = known.get(body, "gzip", limit=10_000)

    assert known.get(body, "gzip", limit=10_000) == first
    assert calls == 1


def test_decoded_bodies_keep_their_size_limit() -> None:
    known = DecodedBodies(100_000)
    bodies = [gzip.compress(b"%d" % number * 5000, mtime=0) for number in range(100)]

    for number, body in enumerate(bodies):
        assert known.get(body, "gzip", limit=100_000) == b"%d" % number * 5000

    assert 80_000 < known._decoded.size <= 100_000


def test_size_limit_of_decoded_bodies_includes_the_coded_bodies() -> None:
    known = DecodedBodies(100_000)

    for number in range(100):
        known.get(b"%d" % number + bytes(20_000), "gzip", limit=100_000)

    assert 0 < known._decoded.size <= 100_000
