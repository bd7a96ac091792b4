"""RFC 9211, the Cache-Status HTTP response header field: a test per promise."""

import pytest

from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd, append
from feedproxy.http.message import Fields


def test_member_is_appended_after_those_of_caches_nearer_to_the_origin() -> None:
    """Section 2: the last member is the cache closest to the user."""
    fields = Fields([("Cache-Status", "OriginCache; hit; ttl=1100")])

    fields = append(fields, CacheStatus(hit=True, ttl=545))

    assert fields.combined("cache-status") == "OriginCache; hit; ttl=1100, feedproxy; hit; ttl=545"


def test_members_of_earlier_caches_are_preserved_even_if_malformed() -> None:
    """Section 2: caches SHOULD preserve the existing field value, to allow debugging of the entire chain."""
    fields = append(Fields([("cache-status", "MISS from squid:3128;;")]), CacheStatus(fwd=Fwd.URI_MISS))

    assert fields.get_all("cache-status") == ["MISS from squid:3128;;", "feedproxy; fwd=uri-miss"]


def test_parameter_hit_is_written_without_a_value() -> None:
    """Section 2.1, and RFC 8941, section 3.1.2: a true parameter omits its value."""
    assert CacheStatus(hit=True).text() == "feedproxy; hit"


def test_hit_and_fwd_are_exclusive() -> None:
    """Section 2.1."""
    with pytest.raises(ValueError, match="not both"):
        CacheStatus(hit=True, fwd=Fwd.STALE)


@pytest.mark.parametrize("token", ["bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"])
def test_fwd_accepts_every_registered_value(token: str) -> None:
    """Section 2.2: the defined values of fwd."""
    assert CacheStatus(fwd=Fwd(token)).text() == f"feedproxy; fwd={token}"


def test_fwd_status_is_an_integer() -> None:
    """Section 2.3."""
    assert CacheStatus(fwd=Fwd.STALE, fwd_status=304).text() == "feedproxy; fwd=stale; fwd-status=304"


def test_ttl_of_a_stale_response_is_negative() -> None:
    """Section 2.4: a negative integer indicates that the response was stale when it was sent."""
    assert CacheStatus(hit=True, ttl=-300, detail=Detail.TTL_HINT).text() == (
        "feedproxy; hit; ttl=-300; detail=ttl-hint"
    )


def test_stored_and_collapsed_require_fwd() -> None:
    """Sections 2.5 and 2.6: they are meaningful together with fwd."""
    status = CacheStatus(fwd=Fwd.URI_MISS, stored=True, collapsed=True, ttl=3600)

    assert status.text() == "feedproxy; fwd=uri-miss; stored; collapsed; ttl=3600"
    with pytest.raises(ValueError, match="need fwd"):
        CacheStatus(hit=True, stored=True)
    with pytest.raises(ValueError, match="need fwd"):
        CacheStatus(hit=True, collapsed=True)


def test_cache_status_of_a_rejection_by_the_proxy_has_only_detail() -> None:
    """Section 2: hit and fwd are both optional; section 2.8: detail is implementation-specific."""
    assert CacheStatus(detail=Detail.LOOP).text() == "feedproxy; detail=loop"
