"""Subscriptions of feedproxy at other servers, for protocols without leases.

A subscription request is a durable delivery with `what="subscribe"`. Each subscription has a secret callback URL, which
only its server knows. After a restart or an outage, feedproxy requests all subscriptions again.
"""

import contextlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from feedproxy.clock import DAY, Seconds
from feedproxy.notify.notification_protocol import Delivered, DeliveryRequest, Refused, Verdict
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.subscription_table import Role, State, Subscription, SubscriptionsFull
from feedproxy.request.upstream_and_public_urls import endpoint_address
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

PAGE_SIZE = 500
"""One query reads at most this many subscriptions."""

REQUEST_LIFETIME: Seconds = 2 * DAY
"""A subscription request waits at most this many seconds for the server's answer."""


class SubscriptionTarget(Struct, frozen=True):
    """A server that can notify feedproxy of a feed's changes, with the values for a subscription request."""

    callback: str
    data: Mapping[str, str]


class OutboundSubscriptions:
    """The subscriptions of one protocol at other servers.

    `find_target` returns the server at which to subscribe to a feed, or None if there is none. A subscription is
    renewed after `renew_after` seconds and expires after `lifetime` seconds. If `renewed_by_pushes` is True, each push
    extends the subscription.
    """

    def __init__(
        self,
        service: NotificationService,
        protocol: str,
        find_target: Callable[[Resource], SubscriptionTarget | None],
        *,
        renew_after: Seconds,
        lifetime: Seconds,
        renewed_by_pushes: bool = False,
    ) -> None:
        self._service = service
        self._protocol = protocol
        self._find_target = find_target
        self._renew_after = renew_after
        self._lifetime = lifetime
        self._renewed_by_pushes = renewed_by_pushes
        service.events.feed_seen.subscribe(self.on_feed)
        service.events.feed_private.subscribe(self._on_feed_private)
        service.events.delivery_started.subscribe(self.confirm_all)

    def on_feed(self, resource: Resource) -> None:
        """Subscribe to a stored feed if a server offers notifications of the feed's changes (`find_target`)."""
        if self._service.can_receive_calls and (server := self._find_target(resource)) is not None:
            self._service.defer(partial(self.subscribe, resource.target, server))

    def _on_feed_private(self, target: str) -> None:
        self._service.defer(partial(self._end_private, target))

    async def _end_private(self, topic: str) -> None:
        if await self._target_of(topic) is None:
            for subscription in await self._service.subscriptions.all(
                role=Role.PUBLISHER, protocol=self._protocol, topic=topic
            ):
                await self._remove(subscription)

    async def _target_of(self, topic: str) -> SubscriptionTarget | None:
        """Return the server that offers notifications of a stored feed now, or None if there is none."""
        await self._service.proxy.store.load(topic)
        resource = self._service.proxy.store.peek(topic)
        return self._find_target(resource) if resource is not None else None

    async def _remove(self, subscription: Subscription) -> None:
        await self._service.subscriptions.remove(subscription.id)
        await self._service.proxy.admin.end_push_lease(subscription.topic)

    async def subscribe(self, topic: str, server: SubscriptionTarget) -> None:
        """Subscribe to a topic at `server`, unless an equal subscription exists. Remove the topic's subscriptions at
        other servers. If the table has no room, create no subscription."""
        subscriptions, now = self._service.subscriptions, self._service.clock.now()
        secret = secrets.token_hex(16)
        for subscription in await subscriptions.all(role=Role.PUBLISHER, protocol=self._protocol, topic=topic):
            if subscription.callback != server.callback:
                await subscriptions.remove(subscription.id)
            elif dict(subscription.data) == dict(server.data):
                return
            else:
                secret = subscription.secret
        new = Subscription(
            *(Role.PUBLISHER, self._protocol, topic, server.callback),
            expires=now + max(self._lifetime, REQUEST_LIFETIME),
            since=now,
            secret=secret,
            data=server.data,
        )
        with contextlib.suppress(SubscriptionsFull):
            await self._request(await subscriptions.put(new))

    async def confirm_all(self) -> None:
        """Request all subscriptions again: "when the service comes back on-line it should confirm all subscriptions"
        (CNWS)."""
        last = 0
        while page := await self._service.subscriptions.all(
            role=Role.PUBLISHER, protocol=self._protocol, after=last, limit=PAGE_SIZE
        ):
            for subscription in page:
                # Pushes during the outage are lost: until the next push, the feed is polled as usual.
                await self._service.proxy.admin.end_push_lease(subscription.topic)
                await self.renew(subscription)
            last = page[-1].id

    async def renew(self, subscription: Subscription) -> None:
        """Request the subscription again, at the server that now offers notifications of the feed. Remove the
        subscription if no server does. A paused subscription stays unchanged."""
        if subscription.state is State.PAUSED:
            return
        server = await self._target_of(subscription.topic) if self._service.can_receive_calls else None
        if server is None:
            await self._remove(subscription)
        elif server.callback != subscription.callback or dict(server.data) != dict(subscription.data):
            await self.subscribe(subscription.topic, server)
        else:
            await self._request(subscription)

    async def on_confirmed(self, subscription: Subscription, reason: str) -> Verdict:
        await self._extend(subscription)
        return Delivered(reason)

    async def on_rejected(self, subscription: Subscription, reason: str) -> Verdict:
        now = self._service.clock.now()
        await self._service.subscriptions.extend(
            subscription.id, expires=now + REQUEST_LIFETIME, renew_at=now + DAY, state=State.PENDING
        )
        await self._service.proxy.admin.end_push_lease(subscription.topic)
        return Refused(reason)

    async def find_by_callback(self, path: str) -> Subscription | None:
        """Return the subscription with a callback URL that ends with `path`, or None if there is none. `path` is the id
        and the secret of the subscription, joined by a hyphen."""
        number, _, secret = path.partition("-")
        if not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        subscription = await self._service.subscriptions.get(int(number))
        if (
            subscription is None
            or subscription.role is not Role.PUBLISHER
            or subscription.protocol != self._protocol
            or not hmac.compare_digest(subscription.secret.encode(), secret.encode("utf-8", "replace"))
        ):
            return None
        return subscription

    async def on_notification(self, subscription: Subscription) -> bool:
        """Enqueue a refresh of the topic, unless the subscription is paused, and return True. If the feed is no longer
        stored, or if no server offers notifications of the feed now, do nothing and return False.

        Only the notifying server (hub, cloud or CNWS publisher) knows the callback URL. No other program can cause
        refreshes, so no rate limit is needed.
        """
        if await self._target_of(subscription.topic) is None:
            return False
        if subscription.state is not State.PAUSED:
            await self._service.subscriptions.record_notification(
                subscription.id, self._service.clock.now(), "change reported", success=True
            )
            if self._renewed_by_pushes:
                await self._extend(subscription)
            await self._service.proxy.admin.record_push(subscription.topic, subscription.expires)
            is_test = subscription.state is State.PENDING
            await self._service.refresh_requests.enqueue([subscription.topic], is_test=is_test)
        return True

    async def _extend(self, subscription: Subscription) -> None:
        now = self._service.clock.now()
        await self._service.subscriptions.extend(
            subscription.id, expires=now + self._lifetime, renew_at=now + self._renew_after, state=State.ACTIVE
        )

    async def _request(self, subscription: Subscription) -> None:
        # The subscription must last longer than the retries of its request, even if it has expired during an outage.
        expires = self._service.clock.now() + REQUEST_LIFETIME
        if subscription.expires < expires:
            await self._service.subscriptions.extend(
                subscription.id, expires=expires, renew_at=expires if subscription.renew_at is not None else None
            )
        await self._service.enqueue(
            DeliveryRequest(self._protocol, "subscribe", subscription.topic, subscription.callback, subscription.id)
        )


def callback_of(settings: Settings, protocol: str, subscription: Subscription) -> str:
    """Return the callback URL of a subscription. Requires the option `public_url`."""
    return endpoint_address(settings, f"push/{protocol}/{subscription.id}-{subscription.secret}")
