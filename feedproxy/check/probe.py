"""The requests of a check: at most REQUESTS_MAX, one after another, with pauses.

If the first response is not a feed, the check sends no further request. The address policy applies to addresses in the
feed, such as page, self link, hub and cloud.
"""

import asyncio
import dataclasses
import functools
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec.structs

from feedproxy.check.observations import FeedObservations, ProbeExchange, scheme_of
from feedproxy.clock import Clock, Seconds, SystemClock
from feedproxy.errors import BadTarget, FeedproxyError, Forbidden, Overload, TooLarge
from feedproxy.feed.channel import Channel
from feedproxy.feed.channel_addresses import cloud_address, page_address, self_address
from feedproxy.feed.feed_scheme import resolve_address
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http import uri
from feedproxy.http.coding import bounded_decompression
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields, Request
from feedproxy.refresh.redirect_following import REDIRECTS, FollowRedirect, StopFollowing, next_hop
from feedproxy.refresh.standalone_fetch import ACCEPT
from feedproxy.request.upstream_and_public_urls import redirect_target
from feedproxy.request.upstream_request import own_user_agent
from feedproxy.settings import Settings
from feedproxy.upstream import tls_probe
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.fetch_result import Fetched
from feedproxy.upstream.origin_certificate_verification import upstream_context
from feedproxy.upstream.origin_client import Fetcher, FetchLimits
from feedproxy.upstream.parent_proxy import parent_of
from feedproxy.upstream.upstream_errors import FetchError

REQUESTS_MAX = 12
"""Maximum number of requests in a check."""

PAUSE: Seconds = 0.5
"""Seconds between two requests.

The feed is requested again at least a second later, so that content and validators that depend on the time differ.
"""

TIME_MAX: Seconds = 60
"""Maximum total time of the responses of a check, in seconds. After this time, no further request is sent."""

_LIMITS = FetchLimits(connect=10, first_byte=20, total=30)
_CODINGS = ("Accept-Encoding", "gzip, br, zstd")
_PLAIN = ("Accept-Encoding", "identity")

type ReportProgress = Callable[[str], None]
type Trust = Callable[[], ssl.SSLContext]


async def probe_feed(
    address: str,
    settings: Settings,
    *,
    pause: Seconds = PAUSE,
    report_progress: ReportProgress = lambda _: None,
    trust: Trust | None = None,
) -> FeedObservations:
    """Send the requests of a check and return all exchanges.

    Before each request, `report_progress` is called with a description. `pause` is the time between two requests in
    seconds. `trust` makes a TLS context. If `trust` is None, the system's authorities are trusted. Raises BadTarget or
    Forbidden if `address` must not be requested. Other failures are part of the result.
    """
    target = uri.normalise(address)
    policy = AddressPolicy(settings.allow_private, settings.allow_networks, settings.allow_ports)
    limits = msgspec.structs.replace(
        _LIMITS,
        total=min(_LIMITS.total, settings.fetch_timeout),
        header_max=settings.header_max,
        buffer_max=settings.buffer_max,
    )
    proxy = functools.partial(parent_of, settings.upstream_proxy)
    clock = SystemClock()
    context = trust() if trust else upstream_context(None, insecure=False)
    trust = trust or ssl.create_default_context
    async with Fetcher(policy, limits, clock=clock, ssl_context=context, parent_of=proxy) as fetcher:
        probe = _Probe(fetcher, policy, settings, clock, pause, report_progress, trust)
        return msgspec.structs.replace(await probe.run(target), requests=probe.request_count)


@dataclasses.dataclass(slots=True)
class _Probe:
    """The requests of one check, their number and their total time in seconds."""

    fetcher: Fetcher
    policy: AddressPolicy
    settings: Settings
    clock: Clock
    pause: Seconds
    report_progress: ReportProgress
    trust: Trust
    request_count: int = 0
    origin_time: Seconds = 0.0

    async def run(self, target: str) -> FeedObservations:
        self.report_progress("the feed")
        hops, redirect_error = await self._follow_redirects(await self._fetch("GET", target, _CODINGS))
        observations = FeedObservations(target, tuple(hops), redirect_error)
        last = observations.last
        if last.detail in (BadTarget.detail, Forbidden.detail) and len(hops) == 1:
            raise (Forbidden if last.detail == Forbidden.detail else BadTarget)(last.error)
        if last.status and scheme_of(last.target) == "https":
            observations = msgspec.structs.replace(observations, handshake=await self._probe_certificate(last.target))
        content_type = last.fields.get("content-type")
        channel = read(last.content, content_type) if last.status == 200 and last.content else None
        if channel is None:
            return observations
        observations = await self._probe_variants(observations)
        return await self._probe_links(observations, channel)

    async def _probe_variants(self, observations: FeedObservations) -> FeedObservations:
        """Add requests for the feed with conditions, without compression, and repeated. Return the observations."""
        at, fields = observations.target, observations.last.fields
        tag, modified = fields.get("etag"), fields.get("last-modified")
        by_tag = by_date = None
        if tag:
            by_tag = await self._request("its ETag", "GET", at, _CODINGS, ("If-None-Match", tag))
        if modified and parse_http_date(modified, observations.last.at) is not None:
            by_date = await self._request("its date", "GET", at, _CODINGS, ("If-Modified-Since", modified))
        return msgspec.structs.replace(
            observations,
            by_tag=by_tag,
            by_date=by_date,
            plain=await self._request("the feed without compression", "GET", at, _PLAIN),
            repeat=await self._request("the feed a second time", "GET", at, _CODINGS),
        )

    async def _probe_links(self, observations: FeedObservations, channel: Channel) -> FeedObservations:
        """Return the observations with further requests, which this method sends.

        These are requests to the page, self link, hub and cloud of the channel, and two HEAD requests for the feed: one
        to its target, and one by https (`_https_target`). A request that was not sent is None.
        """
        page, self_link = page_address(channel, observations.target), self_address(channel, observations.target)
        hub = resolve_address(observations.target, channel.hubs[0]) if channel.hubs else ""
        # An incomplete cloud is a finding already.
        cloud = cloud_address(channel.cloud) if channel.cloud and channel.cloud.port and channel.cloud.path else ""
        known = {"", uri.without_fragment(observations.address), uri.without_fragment(observations.target)}
        return msgspec.structs.replace(
            observations,
            page=await self._follow("its page", page) if page not in known else None,
            self_link=await self._follow("its self link", self_link) if self_link not in known else None,
            head=await self._request("HEAD", "HEAD", observations.target, _CODINGS),
            hub=await self._request("its hub", "GET", hub, _PLAIN),
            cloud=await self._request("its cloud", "GET", cloud, _PLAIN),
            by_https=await self._request("https", "HEAD", _https_target(observations.target), _CODINGS),
        )

    async def _follow_redirects(self, first: ProbeExchange) -> tuple[list[ProbeExchange], str]:
        """Follow the redirects that begin with the exchange `first`. Return all exchanges, and the reason why the last
        redirect was not followed, or ""."""
        hops, chain = [first], [first.target]
        while hops[-1].status in REDIRECTS and (location := hops[-1].fields.get("location")):
            if self._is_exhausted():
                return hops, "the check has reached its limit of requests or time"
            to_target = functools.partial(redirect_target, start=first.target, settings=self.settings)
            match next_hop(chain, location, limit=self.settings.redirects_max, to_target=to_target):
                case StopFollowing(reason=reason):
                    return hops, reason
                case FollowRedirect(next_target):
                    chain.append(next_target)
                    await asyncio.sleep(self.pause)
                    hops.append(await self._fetch("GET", next_target, _CODINGS))
        return hops, ""

    async def _follow(self, description: str, target: str) -> ProbeExchange | None:
        """Send a GET, follow redirects, and return the last exchange. Return None if `_request` returns None, or if the
        last address is forbidden."""
        if (first := await self._request(description, "GET", target, _CODINGS)) is None:
            return None
        hops, redirect_error = await self._follow_redirects(first)
        last = msgspec.structs.replace(hops[-1], error=redirect_error) if redirect_error else hops[-1]
        return None if last.detail == Forbidden.detail else last

    async def _request(
        self, description: str, method: str, target: str, *lines: tuple[str, str]
    ) -> ProbeExchange | None:
        """Send a request and return the exchange, or None if `target` is empty, if REQUESTS_MAX or TIME_MAX is reached,
        or if the address is forbidden. `description` is for `report_progress`."""
        if not target or self._is_exhausted():
            return None
        self.report_progress(description)
        await asyncio.sleep(self.pause)
        exchange = await self._fetch(method, target, *lines)
        # Addresses in internal networks are not checked. A link to an internal address is not a fault of the feed.
        return None if exchange.detail == Forbidden.detail else exchange

    def _is_exhausted(self) -> bool:
        return self.request_count >= REQUESTS_MAX or self.origin_time > TIME_MAX

    async def _fetch(self, method: str, target: str, *lines: tuple[str, str]) -> ProbeExchange:
        fields = (("User-Agent", own_user_agent(self.settings)), ("Accept", ACCEPT))
        request = Request(method, target, Fields((*fields, *lines)))
        self.request_count += 1
        started_at = self.clock.now()
        try:
            answer = await self.fetcher.fetch(request)
        except FeedproxyError as error:
            if error.detail == Forbidden.detail:
                self.request_count -= 1  # it was not sent
            return ProbeExchange(target, error=str(error), detail=error.detail, at=self.clock.now())
        finally:
            self.origin_time += max(0.0, self.clock.now() - started_at)
        if not isinstance(answer, Fetched):
            error_text = f"more than {self.settings.buffer_max} bytes"
            return ProbeExchange(
                target, answer.status, answer.fields, error=error_text, detail=TooLarge.detail, at=started_at
            )
        return self._to_exchange(request, answer)

    def _to_exchange(self, request: Request, answer: Fetched) -> ProbeExchange:
        response = answer.response
        content: bytes | None = response.body
        detail = ""
        try:
            limit = bounded_decompression.decoding_limit(len(response.body), self.settings.decoded_max)
            if request.method != "HEAD":
                encoding = response.fields.combined("content-encoding")
                content = bounded_decompression.decode(response.body, encoding, limit=limit)
        except FeedproxyError as error:
            content, detail = None, error.detail
        return ProbeExchange(
            request.target,
            response.status,
            response.fields,
            any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in answer.lines),
            answer.framing_anomaly,
            response.body,
            content,
            detail=detail,
            minor=answer.minor,
            at=answer.response_time,
            seconds=max(0.0, answer.response_time - answer.request_time),
        )

    async def _probe_certificate(self, target: str) -> tls_probe.ProbedCertificate | None:
        host, port = uri.split_host_port(target)
        try:
            return await tls_probe.probe_certificate(
                host,
                port,
                self.policy,
                timeout=_LIMITS.connect,
                context=self.trust,
                parent=parent_of(self.settings.upstream_proxy, target),
            )
        except (FetchError, Forbidden, BadTarget, Overload):
            return None  # the feed was received by https before, so this failure reveals nothing about the feed


def _https_target(address: str) -> str:
    """Return an http address with https in place of http. Return "" for any other address, for an address with a port,
    and for a host on this machine or in a local network."""
    parts = urlsplit(address)
    if parts.scheme.lower() != "http" or parts.port or uri.is_local(address):
        return ""
    return uri.normalise(parts._replace(scheme="https").geturl())
