"""Following redirects: a bounded walk whose every step is an ordinary, checked fetch (RFC 9110, section 15.4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from feedproxy.cache.cache_status import Detail
from feedproxy.errors import FeedproxyError, Forbidden, Overload
from feedproxy.http import uri
from feedproxy.http.message import Request
from feedproxy.refresh.policy import relocation
from feedproxy.request.upstream_request import is_credential
from feedproxy.upstream.client import Fetched, Oversized

REDIRECTS = relocation.PERMANENT | relocation.TEMPORARY


class OriginClient(Protocol):
    """What is needed of the client."""

    async def fetch(self, request: Request, *, exempt: bool = False) -> Fetched | Oversized: ...


@dataclass(frozen=True, slots=True)
class RedirectChain:
    """From the first answer to the last. `broken` tells why a redirect was not followed to its end."""

    first: Fetched | Oversized
    last: Fetched | Oversized
    moved_to: str = ""
    """Where the permanent redirects at the trail's beginning lead."""
    hops: int = 0
    redirect_error: Detail | None = None
    from_partial: bool = False
    """The answer is put together from what was held and what came (RFC 9111, section 3.4)."""
    final_target: str = ""
    """The target that gave the last answer."""

    @property
    def size(self) -> int:
        """Bytes of content that came with the last answer; 0 for what was too large to be read."""
        return len(self.last.response.body) if isinstance(self.last, Fetched) else 0


async def follow_redirects(
    fetcher: OriginClient,
    request: Request,
    *,
    limit: int,
    skip_address_check: bool,
    may_serve_under: Callable[[str, str], bool] = lambda start, end: True,
    to_target: Callable[[str], str] = lambda address: address,
) -> RedirectChain:
    """Fetch, and follow what redirects, `limit` times at most.

    Only the first fetch may raise: when a later one fails, the trail ends there and `broken` says why. Overload is
    raised by each of them. Credentials,
    cookies among them, stay with the origin that they were meant for (RFC 9110, section 15.4). So does what is `exempt`
    from the address check: where a redirect leads is nobody's word but the origin's.

    `meant` gives the target that an address means (moves.chain). `may_lead` says whether content of the second target
    may be had under the first. Where it may not, the trail ends with Detail.ACCESS: readers are given the redirect, and
    say at the target itself who they are.
    """
    start = request.target
    first = last = await fetcher.fetch(request, exempt=skip_address_check)
    visited: list[str] = [request.target]
    hops: list[tuple[int, str]] = []

    def end_chain(broken: Detail | None = None) -> RedirectChain:
        return RedirectChain(
            first, last, relocation.permanent_location(hops) or "", len(hops), broken, final_target=visited[-1]
        )

    while isinstance(last, Fetched) and last.response.status in REDIRECTS:
        location = last.response.fields.get("location")
        if not location:
            return end_chain()
        match relocation.next_hop(visited, location, limit=limit, to_target=to_target):
            case relocation.StopFollowing(detail):
                return end_chain(detail)
            case relocation.FollowRedirect(location_target):
                pass
        if not may_serve_under(start, location_target):
            return end_chain(Detail.ACCESS)
        same_origin = uri.origin_of(location_target) == uri.origin_of(request.target)
        if same_origin:
            # RFC 9110, 10.2.2: the redirect "inherits the fragment", which is a credential's name here.
            location_target += request.target[len(uri.without_fragment(request.target)) :]
        fields = request.fields
        if not same_origin:
            fields = fields.without(*(name for name, _ in fields if is_credential(name)))
        request = Request(request.method, location_target, fields)
        skip_address_check = (
            skip_address_check and same_origin
        )  # once led away, nothing that follows is the operator's word
        try:
            following = await fetcher.fetch(request, exempt=skip_address_check)
        except Forbidden:
            return end_chain(Detail.FORBIDDEN_ADDRESS)
        except Overload:
            raise  # no failure of the origin's, and no end of its redirects
        except FeedproxyError as error:
            return end_chain(next((each for each in Detail if each == error.detail), Detail.FETCH_ERROR))
        hops.append((last.response.status, location_target))
        visited.append(location_target)
        last = following
    return end_chain()
