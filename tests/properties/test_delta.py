"""Properties of deltas of any two feed versions: new entries are included, and nothing but entries is removed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedproxy.feed.channel import Channel
from feedproxy.feed.delta.delta_document import make_delta
from feedproxy.feed.delta.entry_identities import IdentifiedEntry, find_entries, find_items, pack, unpack
from feedproxy.feed.encoding_detection import to_utf8
from feedproxy.feed.parse.channel_parser import read

ENCODINGS = [
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-32",
    "iso-8859-1",
    "windows-1251",
    "shift_jis",
    "iso-2022-jp",
    "gb18030",
]
LABELS = {"utf-8-sig": "utf-8"}
RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"'
GAPS = ["", "\n", "\r\n\t ", "<!-- <item/> -->", "\n <generator>g</generator> ", "<ttl>5</ttl>"]

type Version = list[tuple[str, str, str]]
"""Name, text, and what stands in front, of each entry."""

words = st.sampled_from(["a", "é日本語", "Лента ~\\", "a<b> &amp; ]]>", "中文㎡", "<item/>", ""])
versions = st.lists(st.tuples(st.sampled_from("1234567"), words, st.sampled_from(GAPS)), max_size=7)


def held(text: str, codec: str) -> str:
    """Return the text as XML, with character references for characters that the encoding lacks."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(
        char if char.isascii() or char.encode(codec, "ignore").decode(codec) == char else f"&#{ord(char)};"
        for char in escaped
    )


def written(kind: str, codec: str, version: Version) -> bytes:
    if kind == "json":
        feed = {"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [], "x": {"items": [1]}}
        items = ",".join(
            "\n " * len(gap) + json.dumps({"id": name, "content_text": text}, ensure_ascii=len(name) > 1)
            for name, text, gap in version
        )
        return json.dumps(feed).replace("[]", f"[{items} ]").encode("utf-16" if codec == "utf-16" else "utf-8")
    inside = []
    for name, text, gap in version:
        said = held(text, codec)
        inside.append(
            gap
            + {
                "rss": f"<item><guid>{name}</guid><title>{said}</title></item>",
                "rdf": f"<item rdf:about='{name}'><title>{said}</title></item >",
                "atom": f"<a:entry><a:id>{name}</a:id><a:title>{said}</a:title></a:entry>".replace(
                    "a:title></", "a:title\n></"
                ),
            }[kind]
        )
    items, title = "".join(inside), held("é日本語", codec)
    members = "".join(f"\n<rdf:li resource='{name}'/>" for name, _, _ in version)
    members = f"<rdf:Seq>{members}</rdf:Seq>"
    body = {
        "rss": f"<rss><channel><title>{title}</title>{items}</channel></rss>",
        "rdf": f"<rdf:RDF {RDF}><channel><title>{title}</title><items>{members}</items></channel>{items}</rdf:RDF>",
        "atom": f"<a:feed xmlns:a='http://www.w3.org/2005/Atom'><a:title>{title}</a:title>{items}</a:feed>",
    }[kind]
    return f"<?xml version='1.0' encoding='{LABELS.get(codec, codec)}'?>\r\n{body}".encode(codec)


def seen(body: bytes) -> tuple[Channel, tuple[IdentifiedEntry, ...]]:
    channel = read(body, None)
    assert channel is not None
    found = find_entries(body, channel)
    assert found is not None
    return channel, found


def utf8_and_entries(body: bytes) -> tuple[bytes, list[bytes]]:
    """Return the document in UTF-8, and the bytes of each of its entries."""
    channel = read(body, None)
    assert channel is not None
    found = find_items(body, channel, None)
    assert found is not None
    utf8 = found[0].utf8
    return utf8, [utf8[item.start : item.end] for item in found[1].items]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(["rss", "rdf", "atom", "json"]), st.sampled_from(ENCODINGS), versions, versions)
def test_reader_that_merges_a_delta_has_the_current_entries(
    kind: str, codec: str, before: Version, now: Version
) -> None:
    old_body, body = written(kind, codec, before), written(kind, codec, now)
    _, old = seen(old_body)
    channel, current = seen(body)
    base = unpack(pack(old))

    result = make_delta(body, channel, base)

    assert result is not None
    new = [entry for entry in current if entry not in base]
    after, sent = seen(result.body)
    assert after.well_formed
    assert result.entries == len(sent) == after.items
    written_now = utf8_and_entries(body)[1]
    assert utf8_and_entries(result.body)[1] == [
        text for entry, text in zip(current, written_now, strict=True) if entry in new
    ]
    assert [entry.digest for entry in sent] == [entry.digest for entry in new]
    assert (after.kind, after.version, after.title, after.link) == (
        channel.kind,
        channel.version,
        channel.title,
        channel.link,
    )


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["rss", "atom"]), st.sampled_from(ENCODINGS), versions, st.sets(st.integers(0, 6)))
def test_delta_omits_nothing_but_entries(kind: str, codec: str, now: Version, known: set[int]) -> None:
    body = written(kind, codec, now)
    channel, current = seen(body)

    result = make_delta(body, channel, [entry for number, entry in enumerate(current) if number in known])

    assert result is not None
    assert without_space(result.body) == without_space(body)


def without_space(body: bytes) -> str:
    """Return the document without its entries and white space."""
    utf8, entries = utf8_and_entries(body)
    for entry in entries:
        utf8 = utf8.replace(entry, b"", 1)
    return "".join(utf8.decode().split())


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["rss", "rdf", "atom", "json"]), st.sampled_from(ENCODINGS), versions)
def test_delta_of_a_version_against_itself_has_no_entries(kind: str, codec: str, version: Version) -> None:
    body = written(kind, codec, version)
    channel, current = seen(body)

    result = make_delta(body, channel, current)

    assert result is not None
    assert result.entries == 0
    assert b"rdf:li" not in to_utf8(result.body).data
    assert len({entry.identity for entry in current}) == len(current)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.none() | st.text(max_size=8))
def test_no_input_bytes_raise_an_error(junk: bytes, charset: str | None) -> None:
    for body in (
        junk,
        b"<rss><channel><item/>" + junk,
        b"<rss><channel><item>" + junk + b"</item></channel></rss>",
        b'{"version":"jsonfeed.org/version/1","items":[' + junk + b"]}",
    ):
        channel = read(body, None)
        if channel is not None:
            find_entries(body, channel, charset=charset)
            make_delta(body, channel, (), charset=charset)


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deep_nesting_raises_no_error(depth: int) -> None:
    body = b'{"version":"jsonfeed.org/version/1","items":[{"id":1,"x":' + b"[" * depth + b"]" * depth + b"}]}"

    channel = read(body, None)

    assert channel is None or make_delta(body, channel, ()) is not None
