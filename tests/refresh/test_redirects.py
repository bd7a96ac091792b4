"""Following redirects."""

from feedproxy.http.message import Fields, Request, Response
from feedproxy.refresh import redirect_following as trail
from feedproxy.upstream.fetch_result import Fetched


class Origins:
    """Origins that redirect from address to address and record each request."""

    def __init__(self, redirects: dict[str, str]) -> None:
        self.redirects = redirects
        self.asked: list[tuple[str, bool]] = []

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched:
        self.asked.append((request.target, skip_address_check))
        location = self.redirects.get(request.target)
        fields = Fields([("Location", location)]) if location else Fields()
        return Fetched(Response(302 if location else 200, fields), 0.0, 0.0)


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
