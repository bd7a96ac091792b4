"""RFC 5861, HTTP Cache-Control extensions for stale content: a test per promise."""

import pytest

from feedproxy.cache import reuse_decision, serving_stale
from feedproxy.cache.freshness import assess
from feedproxy.cache.reuse_decision import Decision, Forward, Reuse, ReuseAndRevalidate, Validate
from feedproxy.cache.serving_stale import Occasion
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields

NOW = 1_750_000_000.0


def stored(control: str) -> StoredResponse:
    """Return a stored response with this Cache-Control that was received at NOW."""
    fields = Fields([("Cache-Control", control), ("ETag", '"x"')])
    return StoredResponse("https://example.com/", 200, fields, Content(Bodies({"identity": b"x"})), NOW, NOW)


def deciding(control: str, after: float, request: CacheControl | None = None) -> Decision:
    response = stored(control)
    return reuse_decision.decide(response, request or CacheControl(), assess(response, NOW + after), NOW + after)


def allowed(control: str, after: float, occasion: Occasion, request: CacheControl | None = None) -> bool:
    """Return True if the stale response may be served, although no option permits it."""
    response = stored(control)
    known = assess(response, NOW + after)
    return serving_stale.may_serve_stale(
        response, known, NOW + after, occasion=occasion, request=request or CacheControl(), limit=-1
    )


def test_stale_while_revalidate_allows_reuse_for_its_seconds() -> None:
    """Section 3: caches MAY serve it after it becomes stale, up to the indicated number of seconds."""
    control = "max-age=600, stale-while-revalidate=30"

    assert isinstance(deciding(control, 599), Reuse)
    assert isinstance(deciding(control, 630), ReuseAndRevalidate)
    assert isinstance(deciding(control, 631), Validate)


def test_stale_while_revalidate_absent_requires_validation() -> None:
    """Section 3."""
    assert isinstance(deciding("max-age=600", 600), Validate)


@pytest.mark.parametrize("request_", [CacheControl(max_age=0), CacheControl(no_cache=True), CacheControl(min_fresh=1)])
def test_stale_while_revalidate_is_overridden_by_a_request_for_a_fresh_response(request_: CacheControl) -> None:
    """RFC 9111, section 5.2.1.1: the client does not wish to receive a stale response."""
    assert isinstance(deciding("max-age=600, stale-while-revalidate=30", 601, request_), Validate)


@pytest.mark.parametrize("forbidding", ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=600"])
def test_stale_extensions_are_overridden_by_directives_that_forbid_stale_use(forbidding: str) -> None:
    """RFC 9111, sections 4.2.4 and 5.2.2.10."""
    control = f"max-age=600, stale-while-revalidate=30, stale-if-error=30, {forbidding}"

    assert isinstance(deciding(control, 601), Validate)
    assert not allowed(control, 601, Occasion.ERROR)


@pytest.mark.parametrize("occasion", [Occasion.ERROR, Occasion.DISCONNECTED])
def test_stale_if_error_allows_reuse_for_its_seconds(occasion: Occasion) -> None:
    """Section 4: a cached stale response MAY be used when an error is encountered."""
    control = "max-age=600, stale-if-error=1200"

    assert allowed(control, 1800, occasion)
    assert not allowed(control, 1801, occasion)


def test_stale_if_error_in_the_request_allows_reuse() -> None:
    """Section 4: stale-if-error is a request directive as well."""
    request = CacheControl(stale_if_error=60)

    assert allowed("max-age=600", 660, Occasion.ERROR, request)
    assert not allowed("max-age=600", 661, Occasion.ERROR, request)


def test_stale_if_error_does_not_apply_to_refusals() -> None:
    """Section 4: an error is what would result in 500, 502, 503 or 504."""
    assert not allowed("max-age=600, stale-if-error=1200", 601, Occasion.REFUSED)


def test_stale_if_error_absent_forbids_reuse_on_error() -> None:
    """Section 4: a stale copy requires permission by the origin, the reader or the operator."""
    assert not allowed("max-age=600", 600, Occasion.ERROR)
    assert isinstance(deciding("max-age=600, stale-if-error=1200", 601), Validate | Forward)
