"""Deltas: byte-exact golden pairs, content that a delta must keep, and feeds without a delta."""

import lzma
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest

from feedproxy.feed.delta.delta_document import Delta, make_delta
from feedproxy.feed.delta.entry_identities import find_entries, pack, unpack
from feedproxy.feed.parse.channel_parser import read

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "delta"
BASES = sorted(GOLDEN.glob("*.base.*"))
HISTORY = 20
"""Number of version pairs that are tested from each history, evenly spread."""

RSS = "<rss xmlns:x='{}'><channel><title>t</title>{}</channel></rss>"
RDF = """\
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="c"><title>t</title><items><rdf:{0}>{1}</rdf:{0}></items></channel>{2}</rdf:RDF>"""


def base_of(body: bytes) -> frozenset[tuple[str, str]]:
    """Return the identities and digests of a version's entries, as the store keeps them."""
    channel = read(body, None)
    assert channel is not None
    found = find_entries(body, channel)
    assert found is not None
    return unpack(pack(found))


def made(body: str | bytes, base: str | bytes = "", number: int | None = None) -> Delta | None:
    """Return the delta of `body` for a client that has `base`, or that has the entries of `body` from `number` on."""
    now = body.encode() if isinstance(body, str) else body
    channel = read(now, None)
    assert channel is not None
    if number is not None:
        found = find_entries(now, channel)
        assert found is not None
        return make_delta(now, channel, {(entry.identity, entry.digest) for entry in found[number:]})
    return make_delta(now, channel, base_of(base.encode() if isinstance(base, str) else base))


def rdf(*names: str, container: str = "Seq", member: str = '<rdf:li rdf:resource="{}"/>') -> str:
    items = "".join(f'<item rdf:about="{name}"><title>{name}</title></item>' for name in names)
    return RDF.format(container, "".join(member.format(name) for name in names), items)


def test_golden_pairs_exist() -> None:
    assert len(BASES) >= 10


@pytest.mark.parametrize("base", BASES, ids=lambda path: path.name.partition(".")[0])
def test_delta_equals_its_golden_file(base: Path) -> None:
    name, _, extension = base.name.partition(".base.")
    now, after = GOLDEN / f"{name}.{extension}", GOLDEN / f"{name}.delta.{extension}"

    result = made(now.read_bytes(), base.read_bytes())

    assert result is not None
    assert result.body == after.read_bytes()
    again = read(result.body, None)
    assert again is not None
    assert again.well_formed
    assert again.items == result.entries


@pytest.mark.parametrize("base", BASES, ids=lambda path: path.name.partition(".")[0])
def test_delta_from_an_empty_base_is_the_full_document(base: Path) -> None:
    whole = base.read_bytes()
    channel = read(whole, None)
    assert channel is not None

    assert make_delta(whole, channel, ()) == Delta(whole, channel.items)


@pytest.mark.parametrize(
    "member", ['<rdf:li rdf:resource="{}"/>', '<rdf:li resource="{}"></rdf:li >', '<rdf:_1 rdf:resource="{}"/>']
)
@pytest.mark.parametrize("container", ["Seq", "Bag"])
def test_delta_removes_rss_10_members_with_their_items(container: str, member: str) -> None:
    result = made(rdf("a", "b", "c", container=container, member=member), number=1)

    assert result == Delta(rdf("a", container=container, member=member).encode(), 1)


def test_delta_keeps_members_of_kept_items() -> None:
    twice = rdf("a", "a", "b")

    result = made(twice, number=1)

    assert result is not None
    assert result.body.count(b"rdf:li") == 2


def test_delta_ignores_item_markup_in_comments_and_cdata() -> None:
    decoys = "<!-- <item>x</item> --><description><![CDATA[ <item>x</item> ]]></description>"
    body = RSS.format("u", f"{decoys}<item><guid>1</guid></item>{decoys}")

    assert made(body, body) == Delta(RSS.format("u", decoys * 2).encode(), 0)


def test_delta_removes_nested_entries_with_their_entry() -> None:
    inner = "<item><title>a</title><item><title>b</title></item></item>"

    assert made(RSS.format("u", f"{inner}<item/>"), RSS.format("u", inner)) == Delta(
        RSS.format("u", "<item/>").encode(), 1
    )


@pytest.mark.parametrize(("old", "left"), [("12", "3"), ("23", "1"), ("13", "2"), ("2", "1, 3"), ("123", "")])
def test_delta_of_json_keeps_commas_valid(old: str, left: str) -> None:
    form = '{{"version": "https://jsonfeed.org/version/1", "items": [ {} ], "title": "t"}}'
    items = {number: f'{{"id": {number}}}' for number in "123"}

    result = made(form.format(" , ".join(items.values())), form.format(",".join(items[number] for number in old)))

    assert result is not None
    written = form.format(" , ".join(items[number] for number in left.split(", ") if number))
    assert result.body.replace(b" ", b"") == written.replace(" ", "").encode()


@pytest.mark.parametrize(
    "element",
    ["http://purl.org/syndication/history/1.0 complete", "http://www.microsoft.com/schemas/rss/core/2005 treatAs"],
)
def test_delta_is_absent_for_a_complete_feed(element: str) -> None:
    namespace, local = element.split()
    body = RSS.format(namespace, f"<x:{local}/><item/>")

    assert made(body, body) is None


def test_delta_is_absent_for_a_signed_feed() -> None:
    body = RSS.format("http://www.w3.org/2000/09/xmldsig#", "<x:Signature/><item/>")

    assert made(body, body) is None


def test_delta_is_absent_for_an_ill_formed_feed() -> None:
    assert made(RSS.format("u", "<title>a & b</title><item/>"), RSS.format("u", "<item/>")) is None


# -- real feeds


def test_delta_removes_any_entry_of_corpus_feeds(corpus: Path) -> None:
    looked_at = 0
    for path in sorted((corpus / "feeds").iterdir())[::3]:
        body = path.read_bytes()
        channel = read(body, None)
        found = find_entries(body, channel) if channel else None
        if channel is None or found is None:
            continue
        looked_at += 1
        pairs = [(entry.identity, entry.digest) for entry in found]
        for base in (pairs, pairs[1:], pairs[::2]):
            result = make_delta(body, channel, base)
            if result is None:
                continue
            again = read(result.body, None)
            assert again is not None, path.name
            assert again.well_formed, path.name
            assert again.items == result.entries == len(pairs) - len(base), path.name
            assert (again.title, again.link, again.schedule, again.self_links) == (
                channel.title,
                channel.link,
                channel.schedule,
                channel.self_links,
            ), path.name
    assert looked_at > 100


def test_delta_of_successive_corpus_versions_is_smaller(corpus: Path) -> None:
    full = short = smaller = steps = 0
    for path in sorted((corpus / "history").glob("*.tar.xz")):
        for before, now in successive(path):
            channel, old = read(now, None), read(before, None)
            if channel is None or old is None:
                continue
            base, current = find_entries(before, old), find_entries(now, channel)
            if base is None or current is None:
                continue
            result = make_delta(now, channel, unpack(pack(base)))
            assert result is not None, path.name
            digests = {entry.digest for entry in base}
            again = read(result.body, None)
            assert again is not None
            sent = find_entries(result.body, again)
            assert sent is not None
            assert {entry.digest for entry in sent} <= {entry.digest for entry in current}
            assert {entry.digest for entry in current} - digests <= {entry.digest for entry in sent}
            steps, full, short = steps + 1, full + len(now), short + len(result.body)
            smaller += len(result.body) < len(now)

    assert steps > 100
    assert smaller > steps / 2
    assert short < full / 2


def successive(path: Path) -> list[tuple[bytes, bytes]]:
    """Return pairs of successive, different versions, evenly spread over a history."""
    with lzma.open(path) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
        versions = [file.read() for member in archive if (file := archive.extractfile(member))]
    pairs = [(before, now) for before, now in pairwise(versions) if before != now]
    return pairs[:: -(-len(pairs) // HISTORY) or 1]
