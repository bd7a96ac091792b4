"""Asking a feed's origin what a check wants to know: a dozen questions at most, one after the other, politely.

The feed itself comes first. Where that is no feed, or takes long, nothing more is asked. What a feed names (its page,
its self link, hub and cloud) is asked like every stranger's address: no private ones, unless the operator says so.
"""

import asyncio
import dataclasses
import functools
import ssl
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from feedproxy.check.observations import Exchange, FeedObservations, is_local, scheme_of
from feedproxy.clock import Clock, Seconds, SystemClock
from feedproxy.errors import BadTarget, FeedproxyError, FetchError, Forbidden, Overload, TooLarge
from feedproxy.feed.channel import Channel, Cloud
from feedproxy.feed.discovery import page_address, self_address
from feedproxy.feed.parse.parser import read
from feedproxy.http import content_coding, uri
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields, Request
from feedproxy.refresh.fetch_once import ACCEPT, user_agent
from feedproxy.refresh.policy import relocation
from feedproxy.refresh.redirects import REDIRECTS
from feedproxy.request.url_mapping import redirect_target
from feedproxy.settings import Settings, ports
from feedproxy.upstream import tls_probe
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.client import Fetched, Fetcher, FetchLimits
from feedproxy.upstream.parent_proxy import parent_of

REQUESTS_MAX = 12
"""Of one check. Each is one that a reader would make."""

PAUSE: Seconds = 0.5
"""Between two of them. The second whole answer is so asked for more than a second after the first: whatever is made
of the time in seconds then shows."""

PATIENCE: Seconds = 60
"""Most time of an origin for all requests of a check; then no more are sent."""

_LIMITS = FetchLimits(connect=10, first_byte=20, total=30)
_CODINGS = ("Accept-Encoding", "gzip, br, zstd")
_PLAIN = ("Accept-Encoding", "identity")
_HUBS_MAX = 1

type Tell = Callable[[str], None]
type Trust = Callable[[], ssl.SSLContext]


async def probe_feed(
    address: str,
    settings: Settings,
    *,
    clock: Clock | None = None,
    pause: Seconds = PAUSE,
    tell: Tell = lambda _: None,
    trust: Trust = ssl.create_default_context,
) -> FeedObservations:
    """Ask everything that a check wants to know of this feed; `tell` hears what is asked next.

    Raises BadTarget, and Forbidden, where the address itself may not be asked; whatever else goes wrong is seen.
    """
    target = uri.normalise(address)
    policy = AddressPolicy(settings.allow_private, settings.allow_networks, ports(settings, settings.allow_ports))
    limits = dataclasses.replace(
        _LIMITS,
        total=min(_LIMITS.total, settings.fetch_timeout),
        header_max=settings.header_max,
        buffer_max=settings.buffer_max,
    )
    proxy = functools.partial(parent_of, settings.upstream_proxy)
    async with Fetcher(policy, limits, clock=clock or SystemClock(), ssl_context=trust(), parent_of=proxy) as fetcher:
        return await _Probe(fetcher, policy, settings, clock or SystemClock(), pause, tell, trust).run(target)


class _Probe:
    """One check under way."""

    def __init__(
        self,
        fetcher: Fetcher,
        policy: AddressPolicy,
        settings: Settings,
        clock: Clock,
        pause: Seconds,
        tell: Tell,
        trust: Trust,
    ) -> None:
        self._fetcher = fetcher
        self._policy = policy
        self._settings = settings
        self._clock = clock
        self._pause = pause
        self._tell = tell
        self._trust = trust
        self._made = 0
        self._spent: Seconds = 0.0

    async def run(self, target: str) -> FeedObservations:
        self._tell("the feed")
        hops, broken = await self._walk(target, _CODINGS)
        seen = FeedObservations(target, tuple(hops), broken)
        last = seen.last
        if last.detail in (BadTarget.detail, Forbidden.detail) and len(hops) == 1:
            raise (Forbidden if last.detail == Forbidden.detail else BadTarget)(last.error)
        if last.status and scheme_of(last.target) == "https":
            seen = dataclasses.replace(seen, handshake=await self._handshake(last.target))
        content_type = last.fields.get("content-type")
        channel = read(last.content, content_type) if last.status == 200 and last.content else None
        if channel is None:
            return seen
        seen = await self._about_the_answer(seen)
        return await self._about_the_feed(seen, channel)

    async def _about_the_answer(self, seen: FeedObservations) -> FeedObservations:
        """The same address again, in other ways."""
        at, fields = seen.at, seen.last.fields
        tag, modified = fields.get("etag"), fields.get("last-modified")
        by_tag = by_date = None
        if tag:
            by_tag = await self._question("its ETag", "GET", at, _CODINGS, ("If-None-Match", tag))
        if modified and parse_http_date(modified, seen.last.at) is not None:
            by_date = await self._question("its date", "GET", at, _CODINGS, ("If-Modified-Since", modified))
        return dataclasses.replace(
            seen,
            by_tag=by_tag,
            by_date=by_date,
            plain=await self._question("the feed without compression", "GET", at, _PLAIN),
            again=await self._question("the feed once more", "GET", at, _CODINGS),
        )

    async def _about_the_feed(self, seen: FeedObservations, channel: Channel) -> FeedObservations:
        """Other addresses, that the feed names or that stand for it."""
        page, own = page_address(channel, seen.at), self_address(channel, seen.at)
        known = {uri.without_fragment(each) for each in (seen.address, seen.at)}
        found = await self._led("its page", page) if page and page not in known else None
        elsewhere = await self._led("its self link", own) if own and own not in known else None
        head = await self._question("HEAD", "HEAD", seen.at, _CODINGS)
        hubs = [await self._question("its hub", "GET", hub, _PLAIN) for hub in _hubs(channel, seen.at)]
        cloud = _address_of(channel.cloud)
        cloudy = await self._question("its cloud", "GET", cloud, _PLAIN) if cloud else None
        secure = None
        if scheme_of(seen.at) == "http" and not is_local(seen.at) and (twin := _by_https(seen.at)):
            secure = await self._question("https", "HEAD", twin, _CODINGS)
        return dataclasses.replace(
            seen,
            page=found,
            own=elsewhere,
            head=head,
            hubs=tuple(each for each in hubs if each is not None),
            cloud=cloudy,
            secure=secure,
        )

    async def _walk(self, target: str, codings: tuple[str, str]) -> tuple[list[Exchange], str]:
        """An address and where it redirects to, and why that could not be followed to its end."""
        hops = [await self._ask("GET", target, codings)]
        visited = [target]
        while hops[-1].status in REDIRECTS and (location := hops[-1].fields.get("location")):
            if self._is_enough():
                return hops, "it takes too many requests, or too long"
            meant = functools.partial(redirect_target, start=target, settings=self._settings)
            match relocation.next_hop(visited, location, limit=self._settings.redirects_max, to_target=meant):
                case relocation.StopFollowing(reason=words):
                    return hops, words
                case relocation.FollowRedirect(there):
                    visited.append(there)
                    await asyncio.sleep(self._pause)
                    hops.append(await self._ask("GET", there, codings))
        return hops, ""

    async def _led(self, words: str, target: str) -> Exchange | None:
        """Where an address leads to; None where nothing more is to be asked."""
        return await self._unless_enough(words, lambda: self._end_of(target))

    async def _end_of(self, target: str) -> Exchange:
        hops, broken = await self._walk(target, _CODINGS)
        return dataclasses.replace(hops[-1], error=broken) if broken else hops[-1]

    async def _question(self, words: str, method: str, target: str, *lines: tuple[str, str]) -> Exchange | None:
        """One more question; None where nothing more is to be asked, or this may not be."""
        return await self._unless_enough(words, lambda: self._ask(method, target, *lines))

    async def _unless_enough(self, words: str, ask: Callable[[], Awaitable[Exchange]]) -> Exchange | None:
        if self._is_enough():
            return None
        self._tell(words)
        await asyncio.sleep(self._pause)
        exchange = await ask()
        # Internal addresses are not checked; a link to one is no fault of the feed.
        return None if exchange.detail == Forbidden.detail else exchange

    def _is_enough(self) -> bool:
        return self._made >= REQUESTS_MAX or self._spent > PATIENCE

    async def _ask(self, method: str, target: str, *lines: tuple[str, str]) -> Exchange:
        said = (("User-Agent", user_agent(self._settings)), ("Accept", ACCEPT))
        request = Request(method, target, Fields((*said, *lines)))
        self._made += 1
        began = self._clock.now()
        try:
            answer = await self._fetcher.fetch(request)
        except FeedproxyError as error:
            return Exchange(request, error=str(error), detail=error.detail, at=self._clock.now())
        finally:
            self._spent += max(0.0, self._clock.now() - began)
        if not isinstance(answer, Fetched):
            words = f"more than {self._settings.buffer_max} bytes"
            return Exchange(request, answer.status, answer.fields, error=words, detail=TooLarge.detail, at=began)
        return self._seen(request, answer)

    def _seen(self, request: Request, answer: Fetched) -> Exchange:
        response = answer.response
        framing = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in answer.lines
            if name.lower() in (b"content-length", b"transfer-encoding")
        ]
        content: bytes | None = response.body
        try:
            limit = content_coding.reasonable(len(response.body), self._settings.decoded_max)
            if request.method != "HEAD":
                encoding = response.fields.combined("content-encoding")
                content = content_coding.decode(response.body, encoding, limit=limit)
        except FeedproxyError:
            content = None
        return Exchange(
            request,
            response.status,
            response.fields,
            Fields(framing),
            answer.doubt,
            response.body,
            content,
            minor=answer.minor,
            at=answer.response_time,
            seconds=max(0.0, answer.response_time - answer.request_time),
        )

    async def _handshake(self, target: str) -> tls_probe.ProbedCertificate | None:
        host, port = uri.host_port(target)
        try:
            return await tls_probe.probe_certificate(
                host,
                port,
                self._policy,
                timeout=_LIMITS.connect,
                context=self._trust,
                parent=parent_of(self._settings.upstream_proxy, target),
            )
        except (FetchError, Forbidden, BadTarget, Overload):
            return None  # it came by https a moment ago: this says nothing about the feed


def _hubs(channel: Channel, at: str) -> list[str]:
    found = []
    for each in channel.hubs[:_HUBS_MAX]:
        try:
            found.append(uri.resolve(at, each))
        except BadTarget:
            continue
    return found


def _address_of(cloud: Cloud | None) -> str:
    """Where a cloud listens; empty where that is not said in full."""
    if cloud is None or not (cloud.domain and cloud.port and cloud.path):
        return ""
    scheme = "https" if cloud.port.strip() == "443" else "http"
    try:
        return uri.normalise(f"{scheme}://{cloud.domain.strip()}:{cloud.port.strip()}/{cloud.path.strip().lstrip('/')}")
    except BadTarget:
        return ""


def _by_https(address: str) -> str:
    """The same by https; empty where it has a port of its own."""
    split = urlsplit(address)
    return "" if split.port else uri.normalise(split._replace(scheme="https").geturl())
