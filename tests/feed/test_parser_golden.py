"""Golden pairs: `golden/feeds/NAME` is a feed, `golden/feeds/NAME.json` the channel that is read from it."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

from feedproxy.feed.channel import Channel
from feedproxy.feed.parse.channel_parser import read

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "feeds"
FEEDS = sorted(path for path in GOLDEN.iterdir() if path.with_name(path.name + ".json").is_file())


def written(channel: Channel) -> Any:
    """Return the channel in the form of the golden files: sets sorted, and without the digest."""
    shown = _plain(channel)
    assert shown.pop("content_digest")
    return shown


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(part) for name, part in structs.asdict(value).items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def test_golden_pairs_cover_every_format() -> None:
    assert {path.suffix for path in FEEDS} == {".rss", ".rdf", ".atom", ".json", ".cdf"}


@pytest.mark.parametrize("path", FEEDS, ids=lambda path: path.name)
def test_parser_output_equals_its_golden_file(path: Path) -> None:
    channel = read(path.read_bytes(), None)

    assert channel is not None
    assert written(channel) == json.loads(path.with_name(path.name + ".json").read_text("utf-8"))
