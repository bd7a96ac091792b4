"""Packed lines are the lines that were packed, in few bytes, whatever origins send."""

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.http import field_packing
from feedproxy.http.message import Fields
from tests.waiting import PATIENCE

names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40) | st.sampled_from(
    ["ETag", "etag", "Server", "Vary"]
)
values = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=300) | st.sampled_from(["", "gzip"])
lines = st.lists(st.tuples(names, values), max_size=12).map(tuple)


@given(lines)
def test_what_was_packed_is_unpacked(lines: field_packing.Lines) -> None:
    packed = field_packing.pack(lines)
    assert isinstance(packed, bytes)
    assert field_packing.unpack(packed) == lines


def test_packed_fields_equal_unpacked_ones() -> None:
    fields = Fields([("Server", "nginx"), ("ETag", '"1"'), ("Vary", "a"), ("vary", "b")])
    same = Fields(list(fields))

    fields.pack()

    assert fields == same
    assert hash(fields) == hash(same)
    assert list(fields) == list(same)
    assert (len(fields), fields.get("etag"), fields.combined("VARY")) == (4, '"1"', "a, b")
    assert fields.without("server") == same.without("server")
    assert fields.with_field("ETag", '"2"').get("etag") == '"2"'
    assert fields.pack() == fields.pack()


def test_lines_that_come_again_take_three_bytes() -> None:
    line = ("X-Packing-Test", "the same for many")
    field_packing.pack((line,))
    field_packing.pack((line,))
    packed = field_packing.pack((line, line))
    assert isinstance(packed, bytes)
    assert len(packed) == 6


@pytest.mark.parametrize("line", [("X-Word", "☃"), ("X-Long", "x" * 70_000)])
def test_lines_that_cannot_be_packed_are_unchanged(line: field_packing.Line) -> None:
    assert field_packing.pack((line,)) == (line,)
    fields = Fields([line])
    fields.pack()
    assert fields.get(line[0]) == line[1]


def test_the_table_is_bounded_and_what_comes_later_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_packing, "TABLE_MAX", 0)
    many = tuple((f"X-{number}-full", f"value {number}") for number in range(50))
    field_packing.pack(many)
    packed = field_packing.pack(many)
    assert isinstance(packed, bytes)
    assert field_packing.unpack(packed) == many


def test_packed_fields_are_pickled_as_lines() -> None:
    fields = Fields([("X-Of-This-Process", "alone")])
    fields.pack()
    sent = pickle.dumps(fields)

    script = "import pickle, sys; print(list(pickle.load(sys.stdin.buffer)))"
    done = subprocess.run([sys.executable, "-c", script], input=sent, capture_output=True, check=True, timeout=PATIENCE)

    assert done.stdout.decode().strip() == "[('X-Of-This-Process', 'alone')]"
