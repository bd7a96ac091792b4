"""Properties of field values: written values can be parsed, and parsing accepts any text."""

import math

from hypothesis import given
from hypothesis import strategies as st

from feedproxy.http.cache_control import CacheControl, parse_targeted
from feedproxy.http.content_negotiation import choose_coding, choose_media_type
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.etag import EntityTag, own_tag, parse_tag, parse_tags, tag_base
from feedproxy.http.field_values import parse_parameters, quote, split_list, unquote
from feedproxy.http.message import Fields
from feedproxy.http.preconditions import Outcome, evaluate
from feedproxy.http.ranges import Unsatisfiable, select
from feedproxy.http.structured_fields import parse_dictionary

YEAR_1, YEAR_9999 = -62135596800, 253402300799

instants = st.floats(YEAR_1, YEAR_9999, exclude_max=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"))
wire = st.text(st.characters(max_codepoint=255), max_size=60)
tags = st.builds(
    EntityTag,
    st.text(st.characters(max_codepoint=255, min_codepoint=33, exclude_characters='"')),
    st.booleans(),
)
codings = st.sampled_from(["zstd", "br", "gzip", "identity"])
weights = st.sampled_from(["", ";q=0", ";q=0.0", ";q=1", ";q=0.5", "; q=.3", ";q=x"])
directives = st.sampled_from(
    [
        "no-store",
        "no-cache",
        "private",
        'private="a"',
        "max-age=60",
        "max-age=x",
        "public",
        'x="',
        'y="a, b"',
        "s-maxage",
    ]
)


@given(instants)
def test_written_date_parses_to_the_same_second(instant: float) -> None:
    assert parse_http_date(format_http_date(instant)) == math.floor(instant)


@given(wire)
def test_any_text_is_a_date_or_none(value: str) -> None:
    instant = parse_http_date(value)
    assert instant is None or YEAR_1 <= instant <= YEAR_9999 + 1


@given(texts)
def test_quoted_string_parses_to_its_text(text: str) -> None:
    assert unquote(quote(text)) == text


@given(st.lists(texts, max_size=5))
def test_list_of_quoted_strings_parses_to_its_texts(members: list[str]) -> None:
    assert [unquote(member) for member in split_list(", ".join(map(quote, members)))] == members


@given(texts)
def test_quoted_parameter_parses_to_its_value(text: str) -> None:
    assert parse_parameters(f"a; b={quote(text)}; c=d") == ("a", {"b": text, "c": "d"})


@given(st.lists(tags, max_size=6))
def test_written_tags_parse_alone_and_in_a_list(several: list[EntityTag]) -> None:
    assert [parse_tag(tag.text) for tag in several] == several
    assert parse_tags(", ".join(tag.text for tag in several)) == tuple(several)


@given(
    st.text("0123456789abcdef", min_size=1),
    codings,
    st.lists(st.sampled_from(["-gzip", ";gzip", "--gzip", "-br", ";br", "-zstd"]), max_size=4),
    st.booleans(),
)
def test_tag_of_feedproxy_gets_304_with_any_appended_codings(
    stem: str, coding: str, suffixes: list[str], weak: bool
) -> None:
    tag = EntityTag(own_tag(stem, coding).opaque + "".join(suffixes), weak)
    fields = Fields([("If-None-Match", tag.text)])

    assert tag_base(tag) == stem
    outcome = evaluate(fields, "GET", tags=[own_tag(stem, "identity")], own_base=stem, last_modified=None)
    assert outcome is Outcome.NOT_MODIFIED


@given(wire)
def test_any_if_none_match_can_be_parsed(value: str) -> None:
    held = parse_tags(value)
    assert held == "*" or all('"' not in tag.opaque for tag in held)


@given(st.lists(st.tuples(codings | st.sampled_from(["*", "x-gzip"]), weights)), st.lists(codings, unique=True))
def test_refused_coding_is_never_chosen(members: list[tuple[str, str]], available: list[str]) -> None:
    chosen = choose_coding(", ".join(name + weight for name, weight in members), available)

    refused = {
        "gzip" if name == "x-gzip" else name
        for name, weight in members
        if weight.startswith(";q=0") and weight != ";q=0.5"
    }
    assert chosen not in refused
    assert chosen is None or chosen in available
    if "*" in refused:
        assert chosen is None or any(name in (chosen, f"x-{chosen}") for name, _ in members)


@given(wire, st.lists(st.sampled_from(["text/html", "application/json", "text/xml; charset=utf-8"]), unique=True))
def test_chosen_coding_is_always_an_offered_one(accept: str, offers: list[str]) -> None:
    assert choose_media_type(accept, offers) in (*offers, None)
    assert choose_coding(accept, offers) in (*offers, None)


@given(st.lists(directives, max_size=6), st.sampled_from([", ", ",", "; ", " "]))
def test_other_directives_never_hide_a_restriction(several: list[str], separator: str) -> None:
    control = CacheControl.from_fields(Fields([("Cache-Control", separator.join(several))]))

    # Two quotation marks hide the text between them, as the grammar says.
    if 'x="' not in several:
        assert control.no_store == ("no-store" in several)
        assert control.private == ("private" in several)
        assert (control.max_age == 0) == ("max-age=x" in several)


@given(wire)
def test_any_cache_control_can_be_parsed(value: str) -> None:
    fields = Fields([("Cache-Control", value), ("CDN-Cache-Control", value)])
    control = CacheControl.from_fields(fields)

    assert control.max_age is None or 0 <= control.max_age <= 2**31
    assert (parse_targeted(fields, "cdn-cache-control") is None) == (not parse_dictionary(value))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_range_selects_within_the_content_or_nothing(first: int, last: int, length: int) -> None:
    for value in (f"bytes={first}-{last}", f"bytes={first}-", f"bytes=-{last}"):
        match select(value, length):
            case (first_byte, last_byte):
                assert 0 <= first_byte <= last_byte < length
            case other:
                assert other is None or isinstance(other, Unsatisfiable)
