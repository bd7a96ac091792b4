"""The WebSub subscriber. For each feed that clients read, it tries the feed's hubs in turn until a hub accepts.

Each request has its own secret callback URL, `/-/push/websub/ID.TOKEN`, as WebSub, section 5.1, recommends. Only the
last verified token is valid. Hubs sign pushes with a secret that feedproxy sends to the hubs. A request over https
contains `https_secret`. A request over http contains another secret (`Subscription.secret`), because third parties on
the network can read the request.
"""

import dataclasses
from collections.abc import Callable
from http import HTTPStatus

from msgspec.structs import replace

from feedproxy.clock import DAY, Instant, Seconds
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.errors import BadTarget, FeedproxyError, Forbidden
from feedproxy.feed_rules import may_serve_under
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.notify.notification_protocol import (
    Answer,
    Delivered,
    Delivery,
    DeliveryRequest,
    Message,
    Refused,
    Retry,
    Verdict,
)
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.subscription_table import Role, State, Subscription, SubscriptionsFull
from feedproxy.notify.websub import signatures_and_tokens, websub_messages
from feedproxy.notify.websub.hub_discovery import DiscoveredHubs, discover
from feedproxy.notify.websub.websub_messages import NAME, Mode
from feedproxy.proxy.public_feeds import may_be_listed
from feedproxy.request.upstream_and_public_urls import endpoint_address, is_upstream_target
from feedproxy.store.resource import Resource

LEASE: Seconds = 10 * DAY
"""Lease that feedproxy requests, in seconds: "10 days is a good default" (WebSub)."""
LEASE_MAX: Seconds = 90 * DAY
"""A hub's lease of more than this many seconds counts as LEASE_MAX."""
LEASE_MIN: Seconds = 60
"""A hub's lease of fewer than this many seconds counts as LEASE_MIN. The minimum limits the frequency of renewals."""
RENEWAL_MARGIN_MAX: Seconds = DAY
"""feedproxy renews a lease at most this many seconds before its end. A lease below ten days is renewed when a tenth is
left."""
SWEEP_INTERVAL: Seconds = 600
"""Seconds between two passes over all feeds. A pass subscribes to the feeds with a hub and readers, and unsubscribes
from the others."""
SWEEP_BATCH = 1000
"""An iteration of the service's loop checks this many feeds. The check takes some tenths of a second."""
RECHECK_FOR: Seconds = 60
"""A new feed is checked repeatedly for this many seconds, because its first reader is counted only after the
response."""
PENDING_CHECKS_MAX = 10_000
"""At most this many feeds wait for their check. Further feeds wait for the next check of all feeds."""
VERIFICATION_TIMEOUT: Seconds = DAY
"""A hub must verify a request within this many seconds. A hub that refused is tried again after the same time."""
REDIRECTS_MAX = 3
"""feedproxy follows at most this many redirects of one request to a hub."""


class Subscriber:
    """The subscriber: it decides which feeds to subscribe to, and sends the requests to hubs."""

    remove_on_failure = False

    def __init__(self, service: NotificationService, key: Callable[[], bytes]) -> None:
        self._service = service
        self._key = key
        self._pending_checks: dict[str, Instant] = {}
        self._without_hub: set[str] = set()
        self._started = service.clock.monotonic()
        self._last_sweep: Instant | None = None
        self._sweep_remaining: list[str] = []
        service.events.feed_seen.subscribe(self._on_feed)
        service.events.feed_private.subscribe(self._check_soon)  # hubs must not know of private feeds
        service.events.subscription_expired.subscribe(self._on_expired)
        service.events.tick.subscribe(self._on_tick)

    # -- which feeds

    def _on_feed(self, resource: Resource) -> None:
        if (
            not self._service.can_receive_calls
            or len(self._pending_checks) + len(self._without_hub) >= PENDING_CHECKS_MAX
        ):
            return
        # Most feeds name no hub: they are only compared with the existing subscriptions, all in one query.
        if self._discover(resource.target, resource).hubs:
            self._pending_checks[resource.target] = self._service.clock.now()
        else:
            self._without_hub.add(resource.target)

    def _on_expired(self, subscription: Subscription) -> None:
        """Check the feed of a lease that has ended without renewal."""
        if subscription.role is Role.PUBLISHER and subscription.protocol == NAME:
            self._check_soon(subscription.topic)

    def _check_soon(self, target: str) -> None:
        """Check a feed in the next iteration of the service's loop, without waiting for the next sweep."""
        if self._service.can_receive_calls and len(self._pending_checks) < PENDING_CHECKS_MAX:
            self._pending_checks[target] = self._service.clock.now()
            self._service.wake()

    async def _on_tick(self) -> None:
        service = self._service
        now = service.clock.now()
        if not service.can_receive_calls:
            return
        # After a start thousands of feeds wait for their check. One query reads the subscriptions of all.
        unread, plain = [target for target in self._pending_checks if not self.is_read(target)], list(self._without_hub)
        subscribed = await service.subscriptions.subscribed_topics(
            role=Role.PUBLISHER, protocol=NAME, among=unread + plain
        )
        self._without_hub.difference_update(plain)
        self._pending_checks.update((target, now) for target in plain if target in subscribed)
        unread_subscribed = set(unread) - subscribed
        for target, since in list(self._pending_checks.items()):
            done = target not in unread_subscribed and await self._check(target)
            if done or abs(now - since) >= RECHECK_FOR:
                self._pending_checks.pop(target, None)
        if service.database.acquire_delivery_lock() and (
            self._last_sweep is None or abs(now - self._last_sweep) >= SWEEP_INTERVAL
        ):
            self._last_sweep = now
            await self._sweep()
        await self._continue_sweep()

    async def _sweep(self) -> None:
        after = 0
        while page := await self._service.subscriptions.all(role=Role.PUBLISHER, protocol=NAME, after=after):
            after = page[-1].id
            for subscription in page:
                await self._check(subscription.topic)
        self._sweep_remaining = self._service.proxy.counts.targets()

    async def _continue_sweep(self) -> None:
        batch = self._sweep_remaining[-SWEEP_BATCH:]
        del self._sweep_remaining[-SWEEP_BATCH:]
        async for target in iterate_cooperatively(batch):
            await self._service.proxy.store.load(target)
            if self._discover(target, self._service.proxy.store.peek(target)).hubs:
                await self._check(target)

    async def _check(self, target: str) -> bool:
        """Subscribe or unsubscribe, as required. Return False if the feed names a hub but has no readers yet, else
        True."""
        # A lease that has ended during an outage is no subscription, but its row is removed only after this check.
        now, rows = self._service.clock.now(), self._service.subscriptions
        subscriptions = [
            subscription
            for subscription in await rows.all(role=Role.PUBLISHER, protocol=NAME, topic=target)
            if subscription.expires > now
        ]
        await self._service.proxy.store.load(target)
        discovered = self._discover(target, self._service.proxy.store.peek(target))
        wanted = [subscription for subscription in subscriptions if _is_wanted(subscription)]
        current = [subscription for subscription in wanted if subscription.callback in discovered.hubs]
        for subscription in wanted:
            if subscription.callback not in discovered.hubs:
                await self._unsubscribe(subscription)
        if not discovered.hubs:
            return True
        if not self.is_read(target):
            # After a start, the counts are complete only when a whole window has passed.
            if self._service.clock.monotonic() - self._started >= self._service.settings().subscriber_window:
                for subscription in current:
                    await self._unsubscribe(subscription)
            return False
        for subscription in current:
            await self._request_changed(subscription, discovered.topic)
        failed = {subscription.callback for subscription in subscriptions if "failed" in subscription.data}
        if all(subscription.callback in failed for subscription in current):
            for hub in discovered.hubs:
                if hub not in failed:
                    await self._subscribe(target, hub, discovered.topic)
                    break
        return True

    def _discover(self, target: str, resource: Resource | None) -> DiscoveredHubs:
        """Return the hubs at which to subscribe to a feed: none if feedproxy must not subscribe to the feed."""
        settings = self._service.settings_for(target)
        no_hubs = DiscoveredHubs(target)
        if resource is None or resource.channel is None or not settings.push_subscribe:
            return no_hubs
        # A publisher's own proxy knows of changes earlier than a hub. A hub must not know of private feeds.
        if is_upstream_target(target, settings) or not may_be_listed(target, settings, resource):
            return no_hubs
        stored = resource.feed_variant
        if stored is None:
            return no_hubs
        discovered = discover(target, stored.fields, resource.channel)
        if not covers_topic(self._service, target, discovered.topic):
            return no_hubs
        own = endpoint_address(settings, "")
        return replace(discovered, hubs=tuple(hub for hub in discovered.hubs if not hub.startswith(own)))

    def is_read(self, target: str) -> bool:
        """Return whether a feed has had readers in the last `subscriber_window` seconds."""
        return self._service.proxy.counts.total(target, self._service.clock.now()) > 0

    # -- requests

    async def _subscribe(self, target: str, hub: str, topic: str) -> None:
        now = self._service.clock.now()
        data = {"topic": topic, "hub": hub, "key": "", "next": ""}
        new = Subscription(
            Role.PUBLISHER,
            NAME,
            target,
            hub,
            now + VERIFICATION_TIMEOUT,
            since=now,
            secret=signatures_and_tokens.token(),
            data=data,
        )
        try:
            await self._request_lease(await self._service.subscriptions.put(new))
        except SubscriptionsFull:
            self._pending_checks.pop(target, None)

    async def _request_changed(self, subscription: Subscription, topic: str) -> None:
        """Request a subscription again if `public_url` has changed, or if the topic that the feed names (`topic`) has
        changed. A feed can name another topic at each fetch. A changed topic therefore counts only a day after the last
        request."""
        data, public_url = subscription.data, self._service.settings().public_url
        is_recent = abs(self._service.clock.now() - float(data.get("requested", "0"))) < DAY
        if data.get("public_url", public_url) != public_url or (data["topic"] != topic and not is_recent):
            await self._request_lease(dataclasses.replace(subscription, data={**data, "topic": topic}))

    async def _request_lease(self, subscription: Subscription) -> None:
        data = {name: value for name, value in subscription.data.items() if name not in ("failed", "hops")}
        data |= {
            "hub": subscription.callback,
            "next": signatures_and_tokens.sealed_token(self._key()),
            "wanted": Mode.SUBSCRIBE,
            "public_url": self._service.settings().public_url,
            "requested": str(self._service.clock.now()),
            "https_secret": data.get("https_secret") or signatures_and_tokens.token(),
        }
        subscription = await self._service.subscriptions.put(dataclasses.replace(subscription, data=data))
        await self._service.enqueue(
            DeliveryRequest(
                NAME, "subscribe", subscription.topic, subscription.callback, subscription.id, data=str(data["next"])
            )
        )

    async def _unsubscribe(self, subscription: Subscription) -> None:
        """Enqueue an unsubscription. The subscription stays until the hub has verified the request, but for at most a
        day. A subscription that its hub has not verified is removed at once."""
        now, service = self._service.clock.now(), self._service
        await service.proxy.admin.end_push_lease(subscription.topic)
        if not subscription.data.get("key"):
            await service.subscriptions.remove(subscription.id)
            return
        data = {**subscription.data, "wanted": Mode.UNSUBSCRIBE}
        subscription = await service.subscriptions.put(
            dataclasses.replace(subscription, data=data, renew_at=None, expires=now + VERIFICATION_TIMEOUT)
        )
        await service.enqueue(
            DeliveryRequest(NAME, "unsubscribe", subscription.topic, subscription.callback, subscription.id)
        )

    async def start_lease(self, subscription: Subscription, token: str, seconds: str) -> None:
        """Start the lease after a hub has verified the subscription, and plan its renewal.

        `token` is that of the verified callback URL, and `seconds` the value of hub.lease_seconds. The lease is at
        least LEASE_MIN and at most LEASE_MAX seconds long, and a day if `seconds` is not a number.
        """
        now = self._service.clock.now()
        lease = float(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 16 else DAY
        lease = max(LEASE_MIN, min(lease, LEASE_MAX))
        data = {**subscription.data, "key": token}
        data = {name: value for name, value in data.items() if name not in ("next", "failed", "hops")}
        await self._service.subscriptions.put(
            dataclasses.replace(
                subscription,
                state=State.ACTIVE,
                data=data,
                expires=now + lease,
                renew_at=now + lease - min(lease / 10, RENEWAL_MARGIN_MAX),
            )
        )
        await self._service.proxy.admin.extend_push_lease(subscription.topic, now + lease)
        self._service.wake()

    async def renew(self, subscription: Subscription) -> None:
        """Renew a lease that is about to end: "the subscriber MUST re-request the subscription" (WebSub)."""
        await self._check(subscription.topic)
        current = await self._service.subscriptions.get(subscription.id)
        if current is not None and _is_wanted(current) and self._service.can_receive_calls:
            await self._request_lease(current)

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """Return the request that subscribes or unsubscribes at a hub, or None if the request must not be sent any
        more."""
        if subscription is None or not self._service.can_receive_calls:
            return None
        settings, data, mode = self._service.settings(), subscription.data, Mode(delivery.request.what)
        if data.get("wanted") != mode or (mode is Mode.SUBSCRIBE and "failed" in data):
            return None
        # A hub may verify a request, and then not answer it: the repeated request has the same, verified callback.
        key = (mode is Mode.SUBSCRIBE and data.get("next")) or data["key"]
        parameters: dict[str, str | int] = {
            "callback": endpoint_address(settings, f"push/{NAME}/{subscription.id}.{key}"),
            "mode": mode,
            "topic": data["topic"],
        }
        hub, secret = prefer_https(data["hub"], delivery.tries), subscription.secret
        if hub.startswith("https:"):
            secret = data.get("https_secret", secret)
        if mode is Mode.SUBSCRIBE:
            parameters |= {"lease_seconds": int(LEASE), "secret": secret}
        fields = Fields([("Content-Type", websub_messages.FORM)])
        return Message("POST", hub, fields, websub_messages.write_form(**parameters))

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        """Return the verdict on a hub's response. A 202 means that the hub will verify the request."""
        if subscription is None:
            return Refused("the subscription has ended")
        hub = subscription.data["hub"]
        is_final = prefer_https(hub, delivery.tries) == hub  # otherwise the hub's own URL is tried next
        if isinstance(answer, Forbidden | BadTarget) and is_final:
            return await self._fail(subscription, f"the hub may not be called: {answer}")
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if 200 <= answer.status < 300:
            return Delivered("the hub has accepted the request")
        if answer.status in (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT):
            return await self._follow_redirect(subscription, answer)
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= 500 or not is_final:
            return Retry(f"status {answer.status} from the hub")
        text = answer.body.decode("utf-8", "replace")
        secrets = (subscription.secret, *(subscription.data.get(name, "") for name in ("https_secret", "key", "next")))
        for secret in filter(None, secrets):
            text = text.replace(secret, "redacted")  # a hub may repeat the request, and the reason is logged
        reason = " ".join(text[:200].split())
        return await self._fail(subscription, f"status {answer.status} from the hub: {reason}")

    async def _follow_redirect(self, subscription: Subscription, answer: Response) -> Verdict:
        """Record the hub's new URL, and return Retry, so that the request is repeated at this URL. Return Refused if
        the redirect cannot be followed.

        "The subscriber is expected to retry the subscription or unsubscription at the new hub URL" (WebSub).
        """
        hops = int(subscription.data.get("hops", "0")) + 1
        try:
            new_hub = uri.resolve(subscription.data["hub"], answer.fields.get("location") or "")
        except BadTarget:
            return await self._fail(subscription, "the hub redirects to an invalid URL")
        if hops > REDIRECTS_MAX:
            return await self._fail(subscription, "the hub redirects too often")
        await self._service.subscriptions.add_data(subscription.id, hub=new_hub, hops=str(hops))
        return Retry("the hub names another hub")

    async def _fail(self, subscription: Subscription, reason: str) -> Verdict:
        await self.mark_failed(subscription, reason)
        return Refused(reason)

    async def mark_failed(self, subscription: Subscription, reason: str, *, at_once: bool = False) -> None:
        """Mark a hub as failed, and send it no request for a day. A running lease stays valid, unless `at_once` is
        set."""
        now = self._service.clock.now()
        subscription = await self._service.subscriptions.get(subscription.id) or subscription
        keeps = subscription.state is State.ACTIVE and subscription.expires > now and not at_once
        if not keeps:
            await self._service.proxy.admin.end_push_lease(subscription.topic)
        data = {**subscription.data, "failed": reason[:200], **({} if keeps else {"key": ""})}
        await self._service.subscriptions.put(
            dataclasses.replace(
                subscription,
                data=data,
                renew_at=None,
                expires=subscription.expires if keeps else now + VERIFICATION_TIMEOUT,
                state=subscription.state if keeps else State.PENDING,
            )
        )
        self._pending_checks[subscription.topic] = now  # another hub may accept the subscription
        self._service.wake()


def covers_topic(service: NotificationService, target: str, topic: str) -> bool:
    """Return whether the rules permit feedproxy to serve the content of `topic`, which a hub sends, under `target`."""
    try:
        return may_serve_under(service.settings_for(target), service.settings_for(uri.normalise(topic)))
    except BadTarget:
        return True  # rules apply to valid targets only


def _is_wanted(subscription: Subscription) -> bool:
    return subscription.data.get("wanted") != Mode.UNSUBSCRIBE


def prefer_https(hub: str, tries: int) -> str:
    """Return the URL for a request to a hub after `tries` failed requests. The first request to a domain name without a
    port uses https, "even if the URL is advertised as HTTP". All other requests use the URL unchanged."""
    if tries or not hub.startswith("http://"):
        return hub
    host, port = uri.split_host_port(hub)
    return f"https://{hub.removeprefix('http://')}" if port == 80 and "." in host and host[-1].isalpha() else hub
