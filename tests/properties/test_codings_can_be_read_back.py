"""Properties of every body in every coding."""

import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from feedproxy.errors import TooLarge, Undecodable
from feedproxy.http.coding.bounded_decompression import decode
from feedproxy.http.coding.content_coding import CODINGS, encode

bodies = st.one_of(
    st.binary(max_size=20_000),
    st.tuples(st.binary(max_size=50), st.integers(0, 3000)).map(lambda pair: pair[0] * pair[1]),
)
labels = st.lists(st.sampled_from([*CODINGS, "deflate", "identity"]), max_size=4)


unhurried = settings(deadline=None)
"""A machine under load is no counter-example."""


@unhurried
@given(bodies, labels)
def test_encoded_body_decodes_to_itself(body: bytes, codings: list[str]) -> None:
    coded = body
    for coding in codings:
        coded = zlib.compress(coded) if coding == "deflate" else encode(coded, coding, 1)

    assert decode(coded, ", ".join(codings), limit=1_000_000) == body


@unhurried
@given(st.lists(bodies, min_size=1, max_size=5), st.sampled_from(["gzip", "zstd"]), st.binary(max_size=9))
def test_concatenated_members_are_joined_and_trailing_garbage_is_ignored(
    parts: list[bytes], coding: str, garbage: bytes
) -> None:
    coded = b"".join(encode(part, coding, 1) for part in parts)

    assert decode(coded + b"\0" + garbage, coding, limit=1_000_000) == b"".join(parts)


@unhurried
@given(bodies.filter(bool), st.sampled_from(CODINGS), st.data())
def test_truncated_coded_body_is_never_taken_for_complete(body: bytes, coding: str, data: st.DataObject) -> None:
    coded = encode(body, coding, 1)
    cut = coded[: data.draw(st.integers(1, len(coded) - 1))]

    try:
        content = decode(cut, coding, limit=1_000_000)
    except Undecodable:
        return
    assert content == cut  # a truncated brotli stream or magic number can only decode to itself
    raise AssertionError("a cut body was taken for content")


@unhurried
@given(
    st.binary(max_size=5000),
    st.sampled_from([*CODINGS, "deflate", "gzip, br", "zstd, zstd"]),
    st.integers(0, 9999),
)
def test_noise_raises_only_undecodable_errors_and_respects_the_limit(noise: bytes, label: str, limit: int) -> None:
    try:
        content = decode(noise, label, limit=limit)
    except (TooLarge, Undecodable):
        return
    assert content == noise or len(content) <= limit
