"""Field lines of a message (feedproxy/http/message.py): copies with other lines."""

from feedproxy.http.message import Fields

STORED = Fields([("ETag", '"a"'), ("Vary", "Accept"), ("vary", "Cookie"), ("Date", "then")])


def test_joined_fields_have_the_lines_of_both() -> None:
    joined = Fields([("Accept", "*/*")]).joined(Fields([("accept", "text/html"), ("Via", "1.1 a")]))

    assert list(joined) == [("Accept", "*/*"), ("accept", "text/html"), ("Via", "1.1 a")]
    assert joined.get_all("ACCEPT") == ["*/*", "text/html"]
    assert joined.get("via") == "1.1 a"


def test_updated_fields_have_all_lines_of_a_name_from_the_update() -> None:
    updated = STORED.updated(Fields([("DATE", "now"), ("Vary", "Origin"), ("Expires", "0")]))

    assert list(updated) == [("ETag", '"a"'), ("DATE", "now"), ("Vary", "Origin"), ("Expires", "0")]
    assert updated.combined("vary") == "Origin"


def test_update_of_fields_without_lines_changes_nothing() -> None:
    assert STORED.updated(Fields()) == STORED


def test_fields_only_keeps_the_lines_with_the_given_names() -> None:
    assert list(STORED.only({"vary", "age"})) == [("Vary", "Accept"), ("vary", "Cookie")]
    assert len(STORED.only({"age"})) == 0


def test_has_any_finds_a_field_by_one_of_several_names() -> None:
    assert STORED.has_any({"age", "etag"})
    assert not STORED.has_any({"age", "expires"})
    assert not Fields().has_any({"age"})
