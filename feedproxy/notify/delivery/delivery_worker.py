"""The delivery worker: it sends due deliveries, and records their outcomes.

Outcomes are recorded in batches. After a crash, some deliveries are sent twice, and none is lost.
"""

import asyncio
import contextlib
import logging
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator

from msgspec import Struct

from feedproxy.background_work import finish
from feedproxy.client_network import parse_address
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import FeedproxyError, StoreError
from feedproxy.http.message import Response
from feedproxy.http.retry_after_and_rate_limit import retry_after
from feedproxy.notify.delivery.delivery_queue import DeliveryOutcome, DeliveryQueue
from feedproxy.notify.delivery.delivery_retries import next_try
from feedproxy.notify.notification_protocol import (
    SUBSCRIBER_REQUESTS,
    Answer,
    Delivered,
    Delivery,
    DeliveryRequest,
    Message,
    Refused,
    Retry,
    Sender,
    Verdict,
)
from feedproxy.notify.subscription_table import State, Subscription, Subscriptions, callback_site
from feedproxy.upstream.callback_client import CallbackClient
from feedproxy.upstream.upstream_errors import FetchTimeout

logger = logging.getLogger(__name__)

MAX_CONCURRENT = 32
"""At most this many deliveries of all subscriptions together are in progress."""
MAX_PER_HOST = 2
"""One site (registrable domain) gets at most this many deliveries at a time, and as many immediate requests. A client
can name callbacks at another party's site. The limit protects that site."""
SLOW_CALL: Seconds = 5
"""A site counts as slow after a request to it has taken more than this many seconds."""
MAX_CONCURRENT_SLOW = 8
"""All slow sites together get at most this many requests at a time.

The limit applies separately to deliveries and to immediate requests (`request_now`). Without the limit, 16 sites that
do not respond would occupy all MAX_CONCURRENT places.
"""
MAX_CONCURRENT_SUBSCRIPTION_REQUESTS = 16
"""At most this many deliveries in progress are SUBSCRIPTION_REQUESTS. Clients name callbacks, and feeds name hubs,
without proof. Many sites that do not respond would otherwise delay all notifications."""
SLOW_HOSTS_MAX = 512
"""At most this many sites are remembered as slow. The oldest is removed first."""

MAX_CONCURRENT_REQUESTS = 32
"""Maximum number of immediate requests (`request_now`) in progress."""
REQUESTS_WAITING_MAX = 256
"""At most this many immediate requests (`request_now`) wait for a free place. Further requests are refused."""
REQUEST_TIMEOUT: Seconds = 10
"""An immediate request (`request_now`) fails if no answer arrives within this many seconds. A client waits for the
outcome of the request."""


FAILED_REQUESTS_MAX = 50
"""Maximum number of failed subscription requests in memory. The oldest is removed first."""
SUBSCRIPTION_REQUESTS = SUBSCRIBER_REQUESTS | {"verify"}
"""Kinds of deliveries (`DeliveryRequest.what`) that create or end a subscription. `failed_requests` records their
failures."""


class Overloaded(FeedproxyError, status=503, detail="busy"):
    """Error for an immediate request that would exceed the maximum number of waiting requests."""


class FailedRequest(Struct, frozen=True):
    """A subscription request, to or from feedproxy, that has failed and is not repeated."""

    at: Instant
    request: DeliveryRequest
    reason: str


class DeliveryWorker:
    """The worker that sends deliveries. The loop in notification_service.py calls `run_once`."""

    def __init__(
        self,
        queue: DeliveryQueue,
        subscriptions: Subscriptions,
        caller: CallbackClient,
        find_sender: Callable[[DeliveryRequest], Sender | None],
        clock: Clock,
        *,
        agent: Callable[[], str],
        wake: Callable[[], None],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._queue = queue
        self._subscriptions = subscriptions
        self._caller = caller
        self._find_sender = find_sender
        self._clock = clock
        self._agent = agent
        self._wake = wake
        self._jitter = jitter
        self._running: dict[int, tuple[Delivery, asyncio.Task[None]]] = {}
        self._outcomes: list[DeliveryOutcome] = []
        self._requests_by_host: Counter[str] = Counter()
        self._capacity = asyncio.Condition()
        self._waiting = 0
        self._slow_hosts: dict[str, None] = {}
        self.counts: Counter[str] = Counter(delivered=0, retried=0, refused=0)
        """Number of attempts since the process started, by outcome."""
        self.failed_requests: deque[FailedRequest] = deque(maxlen=FAILED_REQUESTS_MAX)

    @property
    def running_count(self) -> int:
        return len(self._running)

    async def request_now(self, message: Message) -> Response:
        """Send a challenge or test notification at once, and return the response. A client waits for the outcome.

        The limits per site apply. Raises Overloaded, FetchTimeout after REQUEST_TIMEOUT, and the errors of
        CallbackClient.
        """
        host = callback_site(message.url)
        await self._wait_for_capacity(host)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                return await self._call(host, message)
        except TimeoutError as error:
            raise FetchTimeout(f"no response within {REQUEST_TIMEOUT:g} s") from error
        finally:
            self._requests_by_host[host] -= 1
            self._requests_by_host += Counter()  # removes hosts with a count of zero
            async with self._capacity:
                self._capacity.notify_all()
            self._wake()

    def record_failure(self, request: DeliveryRequest, reason: str) -> None:
        """Record the failure of a subscription request for the operator's pages. Ignore other kinds of deliveries."""
        if request.what in SUBSCRIPTION_REQUESTS:
            self.failed_requests.append(FailedRequest(self._clock.now(), request, reason))

    @contextlib.contextmanager
    def recording_failure(self, protocol: str, topic: str, callback: str) -> Iterator[None]:
        """Record the failure if the verification of a callback fails within the block."""
        try:
            yield
        except FeedproxyError as error:
            self.record_failure(DeliveryRequest(protocol, "verify", topic, callback), str(error))
            raise

    def check(self, url: str) -> None:
        """Raise BadTarget if a callback URL is invalid, and Forbidden if it is not permitted."""
        self._caller.check(url)

    async def resolves_to(self, url: str, address: str) -> bool:
        """Return whether the host of `url` resolves to the client's own `address`. Raises Forbidden or BadTarget for a
        URL that may not be called, and Unreachable for an unknown host."""
        resolved, own = await self._caller.resolve(url), parse_address(address)
        return own is not None and own in map(parse_address, resolved)

    async def _wait_for_capacity(self, host: str) -> None:
        """Wait until an immediate request to a site may start, and count the request. Raises Overloaded if too many
        requests wait, or if the request could not start within REQUEST_TIMEOUT seconds."""
        if self._waiting >= REQUESTS_WAITING_MAX:
            raise Overloaded("too many subscriptions are being verified; please try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT), self._capacity:
                await self._capacity.wait_for(lambda: self._has_capacity(host))
                self._requests_by_host[host] += 1
        except TimeoutError as error:
            raise Overloaded(
                "too many subscriptions of this host are being verified; please try again later"
            ) from error
        finally:
            self._waiting -= 1

    def _has_capacity(self, host: str) -> bool:
        if host in self._slow_hosts and self._count_slow(self._requests_by_host) >= MAX_CONCURRENT_SLOW:
            return False
        return self._requests_by_host[host] < MAX_PER_HOST and self._requests_by_host.total() < MAX_CONCURRENT_REQUESTS

    def _count_slow(self, calls: Counter[str]) -> int:
        return sum(count for host, count in calls.items() if host in self._slow_hosts)

    async def _call(self, host: str, message: Message) -> Response:
        loop = asyncio.get_running_loop()
        started, fields = loop.time(), message.fields
        if "user-agent" not in fields:  # the option `purge_fields` may contain it
            fields = fields.with_added("User-Agent", self._agent())
        try:
            return await self._caller.call(
                message.method, message.url, fields, message.body, trust=message.address_trust
            )
        finally:
            self._slow_hosts.pop(host, None)
            if loop.time() - started > SLOW_CALL:
                self._slow_hosts[host] = None
                if len(self._slow_hosts) > SLOW_HOSTS_MAX:
                    del self._slow_hosts[next(iter(self._slow_hosts))]

    async def run_once(self) -> None:
        """Record outcomes, and start due deliveries within the limits. Raises StoreError if the database fails."""
        await self._record_outcomes()
        delivered = Counter(delivery.host for delivery, _ in self._running.values())
        hosts = self._requests_by_host + delivered
        slow = self._count_slow(delivered)
        requests = sum(delivery.request.what in SUBSCRIPTION_REQUESTS for delivery, _ in self._running.values())
        full = {host for host, count in hosts.items() if count >= MAX_PER_HOST}
        while (capacity := MAX_CONCURRENT - len(self._running)) > 0:
            if slow >= MAX_CONCURRENT_SLOW:
                full |= self._slow_hosts.keys()
            due = await self._queue.due(
                self._clock.now(),
                limit=capacity,
                exclude_ids=self._running.keys(),
                exclude_hosts=full,
                exclude_what=SUBSCRIPTION_REQUESTS if requests >= MAX_CONCURRENT_SUBSCRIPTION_REQUESTS else (),
            )
            started_count = 0
            for delivery in due:
                is_slow = delivery.host in self._slow_hosts
                if hosts[delivery.host] >= MAX_PER_HOST or (is_slow and slow >= MAX_CONCURRENT_SLOW):
                    full.add(delivery.host)
                    continue
                is_request = delivery.request.what in SUBSCRIPTION_REQUESTS
                if is_request and requests >= MAX_CONCURRENT_SUBSCRIPTION_REQUESTS:
                    continue
                slow += is_slow
                requests += is_request
                hosts[delivery.host] += 1
                started_count += 1
                self._running[delivery.id] = (delivery, asyncio.ensure_future(self._deliver(delivery)))
            if started_count == len(due):  # none was skipped: another query would find none to start
                return

    @property
    def has_outcomes(self) -> bool:
        """Return True if a delivery has ended, and its outcome is not recorded yet."""
        return bool(self._outcomes)

    async def close(self, timeout: Seconds) -> None:
        """Wait at most `timeout` seconds for the deliveries in progress, and then cancel the rest. Cancelled deliveries
        remain in the queue, and are sent again after the next start."""
        await finish([task for _, task in self._running.values()], timeout)
        with contextlib.suppress(StoreError):
            await self._record_outcomes()

    async def _record_outcomes(self) -> None:
        outcomes = list(self._outcomes)
        if not outcomes:
            return
        await self._queue.record_outcomes(outcomes)
        del self._outcomes[: len(outcomes)]
        for outcome in outcomes:
            self._running.pop(outcome.delivery.id, None)

    async def _deliver(self, delivery: Delivery) -> None:
        started, sender = self._clock.now(), self._find_sender(delivery.request)
        try:
            verdict = await self._attempt(delivery, sender)
        except StoreError:  # the outcome is unknown: the delivery stays due
            await self._clock.sleep(1)
            self._running.pop(delivery.id, None)
        else:
            self._outcomes.append(self._outcome(delivery, sender, verdict, started))
        self._wake()

    async def _attempt(self, delivery: Delivery, sender: Sender | None) -> Verdict:
        if sender is None:
            return Retry("the protocol is switched off")
        number = delivery.request.subscription
        subscription = await self._subscriptions.get(number) if number is not None else None
        if number is not None and subscription is None:
            return Refused("the subscription has ended")
        if subscription is not None and subscription.state is State.PAUSED:
            return Refused("paused by the operator")
        try:
            return await self._send(delivery, sender, subscription)
        except StoreError:
            raise
        except FeedproxyError as error:  # there is no message to send now
            return Retry(str(error))
        except Exception:
            logger.exception("notify: delivery by %s failed", delivery.request.protocol)
            return Retry("internal error; see feedproxy's log")

    async def _send(self, delivery: Delivery, sender: Sender, subscription: Subscription | None) -> Verdict:
        message = await sender.message(delivery, subscription)
        if message is None:
            return Refused("the notification is obsolete")
        answer: Answer
        try:
            answer = await self._call(delivery.host, message)
        except FeedproxyError as error:
            answer = error
        verdict = await sender.interpret(delivery, subscription, answer)
        if isinstance(verdict, Retry) and isinstance(answer, Response):
            # "Servers send the 'Retry-After' header field to indicate how long the user agent ought to wait before
            # making a follow-up request." -- RFC 9110, section 10.2.3
            return Retry(verdict.reason, retry_after(answer.fields, self._clock.now()))
        return verdict

    def _outcome(
        self, delivery: Delivery, sender: Sender | None, verdict: Verdict, started: Instant
    ) -> DeliveryOutcome:
        now, request, next_attempt = self._clock.now(), delivery.request, None
        match verdict:
            case Delivered():
                self.counts["delivered"] += 1
            case Retry(reason, not_before):
                self.counts["retried"] += 1
                next_attempt = next_try(
                    delivery.tries + 1, delivery.since, now, jitter=self._jitter(), not_before=not_before
                )
                if next_attempt is None:
                    verdict = Refused(reason, remove=sender is not None and sender.remove_on_failure)
                    self.record_failure(request, reason)
            case Refused(reason):
                self.counts["refused"] += 1
                logger.info(
                    "%s: %s refused, %s: %s", request.protocol, request.what or "delivery", request.callback, reason
                )
                self.record_failure(request, reason)
        return DeliveryOutcome(delivery, verdict, started, now, next_attempt)
