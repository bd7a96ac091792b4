"""Each decision about reuse has a reason for the operator."""

import pytest

from feedproxy.cache.cache_status import Fwd
from feedproxy.cache.freshness import Allowance, assess, limit_freshness
from feedproxy.cache.reuse_decision import Decision, Forward, Reuse, ReuseAndRevalidate, decide
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields

NOW = 1_750_000_000.0


def words(control: str, after: float, *, invalid: bool = False, **request: object) -> str:
    fields = Fields([("Cache-Control", control), ("ETag", '"x"')])
    content = Content(Bodies({"identity": b""}))
    stored = StoredResponse("https://example.com/", 200, fields, content, NOW, NOW, invalid=invalid)
    asked = CacheControl(**request)  # type: ignore[arg-type]
    decision = decide(stored, asked, assess(stored, NOW + after), NOW + after)
    if isinstance(decision, Reuse | ReuseAndRevalidate):
        return decision.freshness.description
    return decision.reason


def test_decision_on_miss_names_whether_uri_is_stored() -> None:
    assert decide(None, CacheControl(), None, NOW) == Forward(Fwd.URI_MISS, "nothing is stored")
    assert decide(None, CacheControl(), None, NOW, known_uri=True) == Forward(
        Fwd.VARY_MISS, "the stored responses are for other request fields (Vary)"
    )


@pytest.mark.parametrize(
    ("said", "because"),
    [
        (words("max-age=600", 60), "fresh for another 9 min: max-age of 10 min, fetched 1 min ago"),
        (words("max-age=600", 660), "stale for 1 min: max-age of 10 min, fetched 11 min ago"),
        (words("max-age=600, no-cache", 60), "no-cache: every use is validated"),
        (words("private, max-age=600", 60), "must not be reused: private"),
        (words("max-age=600", 60, invalid=True), "invalidated"),
        (words("max-age=600", 60, no_cache=True), "the request has no-cache"),
        (words("max-age=600", 60, max_age=30), "older than the request's max-age"),
        (words("max-age=600", 60, min_fresh=600), "not fresh for as long as the request's min-fresh"),
        (words("no-cache", 60, only_if_cached=True), "only-if-cached, but no-cache: every use is validated"),
    ],
)  # fmt: skip
def test_decision_on_stored_response_has_a_reason(said: str, because: str) -> None:
    assert said == because


def test_held_response_is_used_until_a_limit_and_names_the_limit() -> None:
    content = Content(Bodies({"identity": b""}), feed=True)
    stored = StoredResponse("https://example.com/", 200, Fields([("Cache-Control", "max-age=60")]), content, NOW, NOW)

    def decide_after(seconds: float) -> Decision:
        now = NOW + seconds
        held = assess(stored, now, hint=lambda *_: Allowance(NOW + 3600, "ttl-hint", "the feed's ttl"))
        freshness = limit_freshness(held, Allowance(NOW + 600, "ill-formed", "it is not well-formed"))
        return decide(stored, CacheControl(), freshness, now)

    reuse = decide_after(599)
    assert isinstance(reuse, Reuse)
    assert reuse.detail == "ill-formed"
    assert isinstance(decide_after(600), Forward)
