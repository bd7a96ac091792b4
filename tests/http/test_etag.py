"""Entity tags: lenient parsing, comparison, and tags of coded content (RFC 9110, section 8.8.3)."""

import pytest

from feedproxy.http.etag import EntityTag, own_tag, parse_tag, parse_tags, strong_match, tag_base, weak_match


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ('"abc"', EntityTag("abc")),
        ('W/"abc"', EntityTag("abc", weak=True)),
        ('w/"abc"', EntityTag("abc", weak=True)),
        (' "abc"\t', EntityTag("abc")),
        ("abc", EntityTag("abc")),
        ("'abc'", EntityTag("abc")),
        ("W/abc", EntityTag("abc", weak=True)),
        ('"abc', EntityTag("abc")),
        ('abc"', EntityTag("abc")),
        ("-1", EntityTag("-1")),
        ('""', EntityTag("")),
        ('W/""', EntityTag("", weak=True)),
        (r'"a\"', EntityTag("a\\")),
        ('"a,b"', EntityTag("a,b")),
        ("", None),
        ('"', None),
        ("W/", None),
        ('"a", "b"', None),
        ('"a"b"', None),
    ],
)
def test_tag_parser_accepts_valid_and_common_invalid_forms(value: str, tag: EntityTag | None) -> None:
    assert parse_tag(value) == tag


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        ('"a", W/"b",w/"c"', (EntityTag("a"), EntityTag("b", weak=True), EntityTag("c", weak=True))),
        ('"a,b" , "c"', (EntityTag("a,b"), EntityTag("c"))),
        (r'"a\", "b"', (EntityTag("a\\"), EntityTag("b"))),
        ("a, 'b'", (EntityTag("a"), EntityTag("b"))),
        ('"a" "b"', (EntityTag("a"), EntityTag("b"))),
        (',, "a",', (EntityTag("a"),)),
        ("", ()),
        ('"*"', (EntityTag("*"),)),
    ],
)
def test_tag_list_parser_reads_every_tag(value: str, tags: tuple[EntityTag, ...]) -> None:
    assert parse_tags(value) == tags


def test_tag_list_is_wildcard_only_if_star_is_the_whole_value() -> None:
    assert parse_tags(" * ") == "*"
    assert parse_tags('*, "a"') == (EntityTag("a"),)


def test_tag_strong_comparison_requires_two_strong_tags_and_weak_does_not() -> None:
    strong, weak = EntityTag("1"), EntityTag("1", weak=True)

    assert strong_match(strong, EntityTag("1"))
    assert not strong_match(strong, weak)
    assert not strong_match(weak, weak)
    assert weak_match(strong, weak)
    assert weak_match(weak, weak)
    assert not weak_match(weak, EntityTag("2", weak=True))


def test_tag_differs_for_each_coding() -> None:
    assert [own_tag("s", coding).text for coding in ("identity", "gzip", "br", "zstd")] == [
        '"s"',
        '"s-gzip"',
        '"s-br"',
        '"s-zstd"',
    ]


def test_tag_differs_for_other_coded_bytes_and_tag_base_is_equal() -> None:
    one, other = (own_tag("s", "gzip", coded) for coded in (b"small", b"smaller"))

    assert not strong_match(one, other)
    assert tag_base(one) == tag_base(other) == "s"
    assert tag_base(EntityTag(one.opaque + ";gzip--gzip", weak=True)) == "s"


@pytest.mark.parametrize("coding", ["identity", "gzip", "br", "zstd"])
@pytest.mark.parametrize("decoration", ["", "-gzip", ";gzip", "--gzip", "-br", ";br", "-gzip-gzip", "-gzip;br--gzip"])
def test_tag_base_survives_appended_codings(coding: str, decoration: str) -> None:
    assert tag_base(EntityTag(own_tag("5f-3a", coding).opaque + decoration, weak=True)) == "5f-3a"


def test_tag_base_of_a_lone_suffix_is_the_suffix() -> None:
    assert tag_base(EntityTag("-gzip")) == "-gzip"
    assert tag_base(EntityTag("")) == ""
