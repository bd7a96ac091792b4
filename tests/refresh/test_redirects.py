"""Following redirects."""

import pytest

from feedproxy.cache.cache_status import Detail
from feedproxy.errors import FeedproxyError, Forbidden, Overload, TooLarge, UsageError
from feedproxy.http.message import Fields, Request, Response
from feedproxy.refresh import redirect_following as trail
from feedproxy.upstream.fetch_result import Fetched
from feedproxy.upstream.upstream_errors import Unreachable

START = "http://start.example/"


class Origins:
    """Origins that redirect permanently from address to address, or fail, and record each request."""

    def __init__(self, redirects: dict[str, str], failures: dict[str, FeedproxyError] | None = None) -> None:
        self.redirects = redirects
        self.failures = failures or {}
        self.asked: list[tuple[str, bool]] = []
        self.sent: list[list[str]] = []

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched:
        self.asked.append((request.target, skip_address_check))
        self.sent.append([name for name, _ in request.fields])
        if request.target in self.failures:
            raise self.failures[request.target]
        location = self.redirects.get(request.target)
        fields = Fields([("Location", location)]) if location else Fields([("No-Vary-Search", "params")])
        return Fetched(Response(301 if location else 200, fields), 0.0, 0.0)


async def follow(origins: Origins, *fields: tuple[str, str]) -> trail.RedirectChain:
    return await trail.follow_redirects(
        origins, Request("GET", START, Fields(fields)), limit=5, skip_address_check=False
    )


async def test_address_check_exempts_only_the_operators_own_origin() -> None:
    """A foreign host that redirects to itself could otherwise resolve to a private address the second time."""
    origins = Origins(
        {
            "http://upstream.example/": "/feed",
            "http://upstream.example/feed": "http://elsewhere.example/a",
            "http://elsewhere.example/a": "/b",
            "http://elsewhere.example/b": "http://upstream.example/back",
        }
    )

    await trail.follow_redirects(origins, Request("GET", "http://upstream.example/"), limit=5, skip_address_check=True)

    assert origins.asked == [
        ("http://upstream.example/", True),
        ("http://upstream.example/feed", True),
        ("http://elsewhere.example/a", False),
        ("http://elsewhere.example/b", False),
        ("http://upstream.example/back", False),
    ]


async def test_credentials_are_sent_to_the_first_origin_only() -> None:
    """RFC 9110, section 15.4."""
    origins = Origins({START: "/feed", "http://start.example/feed": "http://elsewhere.example/"})

    await follow(origins, ("Authorization", "Basic x"), ("X-Authorization", "x"), ("Accept", "*/*"))

    assert origins.sent == [["Authorization", "X-Authorization", "Accept"]] * 2 + [["Accept"]]


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (Forbidden("10.0.0.1"), Detail.FORBIDDEN_ADDRESS),
        (Unreachable("b.example"), Detail.UNREACHABLE),
        (TooLarge("b.example"), Detail.TOO_LARGE),
        (UsageError("an error without a detail of Cache-Status"), Detail.FETCH_ERROR),
    ],
)
async def test_chain_ends_before_the_fetch_that_fails_with_the_reason(error: FeedproxyError, detail: Detail) -> None:
    origins = Origins(
        {START: "http://a.example/", "http://a.example/": "http://b.example/"}, {"http://b.example/": error}
    )

    chain = await follow(origins)

    assert isinstance(chain.last, Fetched)
    assert (chain.last.response.status, chain.hops, chain.moved_to) == (301, 1, "http://a.example/")
    assert chain.redirect_error is detail


async def test_chain_raises_the_failure_of_this_machine() -> None:
    with pytest.raises(Overload):
        await follow(Origins({START: "/feed"}, {"http://start.example/feed": Overload("no descriptors")}))


async def test_no_vary_search_applies_to_the_final_url_only() -> None:
    redirected, direct = await follow(Origins({START: "/feed"})), await follow(Origins({}))

    assert isinstance(redirected.last, Fetched)
    assert isinstance(direct.last, Fetched)
    assert "no-vary-search" not in redirected.last.response.fields
    assert "no-vary-search" in direct.last.response.fields
