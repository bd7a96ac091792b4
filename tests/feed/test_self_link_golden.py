"""Golden pairs: `golden/usm/NAME.xml` before, `golden/usm/NAME.MODE.xml` after, to the byte."""

from pathlib import Path

import pytest

from feedproxy.feed.edit.self_link import apply_self_link
from feedproxy.feed.parse.channel_parser import read

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "usm"
HREF = "https://example.com/feed?a=1&b=2"
PAIRS = sorted(path for path in GOLDEN.glob("*.xml") if path.stem.endswith((".add", ".correct", ".text")))


def test_golden_pairs_exist() -> None:
    assert len(PAIRS) > 15


@pytest.mark.parametrize("after", PAIRS, ids=lambda path: path.stem)
def test_self_link_edit_equals_its_golden_file(after: Path) -> None:
    name, _, mode = after.stem.rpartition(".")
    before = (GOLDEN / f"{name}.xml").read_bytes()
    channel = read(before, None)
    assert channel is not None

    edited = apply_self_link(
        before, channel, href=HREF, mode="add" if mode == "text" else mode, link_text=mode == "text"
    )

    assert edited == after.read_bytes()
