"""All promises of the supplement, in the order of docs/reference/conformance-feeds.md."""

from collections.abc import Mapping

from tests.spec.supplement import codings, counts, deltas, endings, hints, words
from tests.spec.supplement.promise import Promise

CHAPTERS: Mapping[str, tuple[Promise, ...]] = {
    "Hints: how long a copy is held": hints.PROMISES,
    "Tags and content codings": codings.PROMISES,
    "Deltas": deltas.PROMISES,
    "Moves and endings": endings.PROMISES,
    "Subscribers": counts.PROMISES,
    "Cache-Status": words.PROMISES,
}
PROMISES = tuple(promise for chapter in CHAPTERS.values() for promise in chapter)
