"""A feedproxy in an office and one at a publisher: updates are transferred as differences (RFC 9842)."""

import os
from collections.abc import Callable

import pytest

from tests.live.line import Line
from tests.live.origin import Origin, a_feed
from tests.live.product import Feedproxy, ask

OLD = [f"{number} {os.urandom(40).hex()}" for number in range(200)]


@pytest.mark.parametrize(("option", "is_small"), [("secure", True), ("off", False)])
def test_update_between_two_feedproxies_is_sent_as_a_difference(
    start: Callable[..., Feedproxy], origin: Origin, option: str, is_small: bool
) -> None:
    with Line() as line:
        publisher = start("--upstream", origin.url(""), public_url=line.base, reload_interval=0)
        line.destination = publisher.base
        office = start(compression_dictionaries=option, reload_interval=0)
        target = f"{line.base}/feed.xml"
        sizes = []
        for news in range(4):
            origin.publish("/feed.xml", a_feed(*map(str, range(news)), *OLD), Cache_Control="max-age=600")
            current = ask(f"{line.base}/feed.xml", fields={"Cache_Control": "no-cache"})
            before = line.received

            seen = office.get(target, Cache_Control="no-cache")

            sizes.append(line.received - before)
            assert seen.status == 200
            assert "fwd" in seen.cache
            assert seen.body == current.body
            assert seen.body.count(b"<item>") == news + len(OLD)
            assert office.get(target).cache.endswith("hit") or "hit" in office.get(target).cache
        assert (max(sizes[1:]) < 2000) is is_small, sizes
        assert sizes[0] > 8000
