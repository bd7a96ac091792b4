"""Subscribing at the hubs of the feeds that are read here, and renewing, moving and ending that.

Who wants what: a feed that somebody reads and that names a hub is subscribed to at one of its hubs, the next one where
that fails. What nobody reads any more, or what names other hubs now, is unsubscribed from. All feeds are looked at now
and then (`SWEEP`), and each when its content changes: so nothing is forgotten over a restart, an outage, or a lease
that ran out meanwhile.

Each request to a hub has a callback of its own, that nobody can guess: `/-/push/websub/ID.TOKEN` ("changed when
subscriptions are renewed"). The token that was verified last counts, the one before is answered 410. Calls that come to
them are content_distribution.py's.
"""

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

from feedproxy.aio import yielding
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import BadTarget, FeedproxyError, Forbidden
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings.sinks import own_user_agent
from feedproxy.notify.protocol import DAY, Delivered, Delivery, DeliveryRequest, Message, Refused, Retry, Verdict
from feedproxy.notify.subscriptions import Role, State, Subscription, SubscriptionsFull
from feedproxy.notify.topics import is_no_longer_public, is_private
from feedproxy.notify.websub import messages
from feedproxy.notify.websub.discovery import DiscoveredHubs, discover, prefer_https
from feedproxy.notify.websub.messages import NAME, Mode
from feedproxy.refresh.events import RefreshEnded
from feedproxy.refresh.ingest.link_injection import endpoint_address
from feedproxy.request.url_mapping import is_upstream_target
from feedproxy.rules import may_serve_under
from feedproxy.store.resource import Resource

LEASE: Seconds = 10 * DAY
"""What is asked for: "10 days is a good default"."""
SWEEP_INTERVAL: Seconds = 600
SWEEP_BATCH = 1000
"""Feeds looked at in a turn: a hundred thousand take ten minutes, and no delivery waits for longer than some tenths."""
RECHECK_FOR: Seconds = 60
"""A feed that was just met is looked at for so long: its first reader counts only once it has been answered."""
PENDING_CHECKS_MAX = 10_000
VERIFICATION_TIMEOUT: Seconds = DAY
"""A hub has so long to verify; and after that one that refused is asked again."""
REDIRECTS_MAX = 3


class Subscriber:
    """Decides what to subscribe to, and speaks to hubs."""

    def __init__(self, service: NotificationService, key: Callable[[], bytes]) -> None:
        self._service = service
        self._key = key
        self._pending_checks: dict[str, Instant] = {}
        self._without_hub: set[str] = set()
        self._started = service.clock.now()
        self._last_sweep: Instant | None = None
        self._sweep_remaining: list[str] = []
        service.events.feed_seen.subscribe(self._on_feed)
        service.events.refresh_ended.subscribe(self._on_refresh_ended)
        service.events.tick.subscribe(self._on_tick)

    # -- what is wanted

    def _on_feed(self, resource: Resource) -> None:
        if (
            not self._service.can_receive_calls
            or len(self._pending_checks) + len(self._without_hub) >= PENDING_CHECKS_MAX
        ):
            return
        # Most feeds name no hub, and never did: of those nothing needs to be read again.
        if self._discover(resource.target, resource).hubs:
            self._pending_checks[resource.target] = self._service.clock.now()
        else:
            self._without_hub.add(resource.target)

    def _on_refresh_ended(self, event: RefreshEnded) -> None:
        """What is for everybody no longer is unsubscribed from at once: a hub is not told of what is private."""
        target = event.target
        if (
            self._service.can_receive_calls
            and is_no_longer_public(self._service, target)
            and len(self._pending_checks) < PENDING_CHECKS_MAX
        ):
            self._pending_checks[target] = self._service.clock.now()
            self._service.wake()

    async def _on_tick(self) -> None:
        service = self._service
        now = service.clock.now()
        if not service.can_receive_calls:
            return
        # After a start these are thousands, which are asked for together.
        unread, plain = [target for target in self._pending_checks if not self.is_read(target)], list(self._without_hub)
        held = await service.subscriptions.subscribed_topics(role=Role.PUBLISHER, protocol=NAME, among=unread + plain)
        self._without_hub.difference_update(plain)
        self._pending_checks.update((each, now) for each in plain if each in held)
        needless = set(unread) - held
        for target, since in list(self._pending_checks.items()):
            done = target not in needless and await self._check(target)
            if done or abs(now - since) >= RECHECK_FOR:
                self._pending_checks.pop(target, None)
        if service.database.acquire_delivery_lock() and (
            self._last_sweep is None or abs(now - self._last_sweep) >= SWEEP_INTERVAL
        ):
            self._last_sweep = now
            await self._sweep()
        await self._continue_sweep()

    async def _sweep(self) -> None:
        """Look at every subscription that we have, and from now on at every feed that is read, some in each turn."""
        after = 0
        while page := await self._service.subscriptions.all(role=Role.PUBLISHER, protocol=NAME, after=after):
            after = page[-1].id
            for each in page:
                await self._check(each.topic)
        self._sweep_remaining = self._service.proxy.counts.targets()

    async def _continue_sweep(self) -> None:
        batch = self._sweep_remaining[-SWEEP_BATCH:]
        del self._sweep_remaining[-SWEEP_BATCH:]
        async for target in yielding(batch):
            if self._discover(target, self._service.proxy.store.peek(target)).hubs:
                await self._check(target)

    async def _check(self, target: str) -> bool:
        """Do what one feed needs; False where nobody reads it, which may be since its first reader is still waiting."""
        held = await self._service.subscriptions.all(role=Role.PUBLISHER, protocol=NAME, topic=target)
        found = self._discover(target, self._service.proxy.store.peek(target))
        for each in held:
            if each.callback not in found.hubs and _is_wanted(each):
                await self._unsubscribe(each)
        if not found.hubs:
            return True
        if not self.is_read(target):
            # After a stop nobody has read anything for a while: that is no sign of anything.
            if self._service.clock.now() - self._started >= self._service.settings().subscriber_window:
                for each in held:
                    if _is_wanted(each):
                        await self._unsubscribe(each)
            return False
        failed = {each.callback for each in held if "failed" in each.data}
        if not any(_is_wanted(each) and each.callback in found.hubs and each.callback not in failed for each in held):
            for hub in found.hubs:
                if hub not in failed:
                    await self._subscribe(target, hub, found.topic)
                    break
        return True

    def _discover(self, target: str, resource: Resource | None) -> DiscoveredHubs:
        """The hubs to subscribe to this feed at; none where it is not to be."""
        settings = self._service.settings_for(target)
        nothing = DiscoveredHubs(target)
        if resource is None or resource.channel is None or not settings.push_subscribe:
            return nothing
        # A publisher's own front knows of changes before any hub does; and a hub is not told of what is private.
        if is_upstream_target(target, settings) or is_private(resource, settings):
            return nothing
        stored = next((each for each in reversed(resource.variants) if each.content.feed), None)
        if stored is None:
            return nothing
        found = discover(target, stored.fields, resource.channel)
        if not covers_topic(self._service, target, found.topic):
            return nothing
        own = endpoint_address(settings, "")
        return replace(found, hubs=tuple(each for each in found.hubs if not each.startswith(own)))

    def is_read(self, target: str) -> bool:
        """Whether somebody has read this feed within `subscriber_window`."""
        return self._service.proxy.counts.total(target, self._service.clock.now()) > 0

    # -- asking

    async def _subscribe(self, target: str, hub: str, topic: str) -> None:
        now = self._service.clock.now()
        data = {"topic": topic, "hub": hub, "key": "", "next": ""}
        new = Subscription(
            Role.PUBLISHER, NAME, target, hub, now + VERIFICATION_TIMEOUT, since=now, secret=messages.token(), data=data
        )
        try:
            await self._request_lease(await self._service.subscriptions.put(new))
        except SubscriptionsFull:
            self._pending_checks.pop(target, None)

    async def _request_lease(self, known: Subscription) -> None:
        """Order the request for a new subscription, or for another lease."""
        data = {name: value for name, value in known.data.items() if name not in ("failed", "hops")}
        data |= {"hub": known.callback, "next": messages.sealed_token(self._key()), "wanted": Mode.SUBSCRIBE}
        known = await self._service.subscriptions.put(replace(known, data=data))
        await self._service.enqueue(
            DeliveryRequest(NAME, "subscribe", known.topic, known.callback, known.id, data=str(data["next"]))
        )

    async def _unsubscribe(self, known: Subscription) -> None:
        """Order the end of a subscription. It stays here until the hub has asked whether it is meant, a day at most."""
        now, service = self._service.clock.now(), self._service
        await service.proxy.admin.end_push_lease(known.topic)
        if not known.data.get("key"):
            await service.subscriptions.remove(known.id)
            return
        data = {**known.data, "wanted": Mode.UNSUBSCRIBE}
        known = await service.subscriptions.put(
            replace(known, data=data, renew_at=None, expires=now + VERIFICATION_TIMEOUT)
        )
        await service.enqueue(DeliveryRequest(NAME, "unsubscribe", known.topic, known.callback, known.id))

    async def renew(self, known: Subscription) -> None:
        """Its lease will end: "the subscriber MUST re-request the subscription" where it is still wanted."""
        await self._check(known.topic)
        now = await self._service.subscriptions.get(known.id)
        if now is not None and _is_wanted(now) and self._service.can_receive_calls:
            await self._request_lease(now)

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """The request to a hub."""
        if subscription is None or not self._service.can_receive_calls:
            return None
        settings, data, mode = self._service.settings(), subscription.data, Mode(delivery.request.what)
        if data.get("wanted") != mode:
            return None
        key = data["next"] if mode is Mode.SUBSCRIBE else data["key"]
        asked: dict[str, str | int] = {
            "callback": endpoint_address(settings, f"push/{NAME}/{subscription.id}.{key}"),
            "mode": mode,
            "topic": data["topic"],
        }
        if mode is Mode.SUBSCRIBE:
            asked |= {"lease_seconds": int(LEASE), "secret": subscription.secret}
        fields = Fields([("User-Agent", own_user_agent(settings)), ("Content-Type", messages.FORM)])
        return Message("POST", prefer_https(data["hub"], delivery.tries), fields, messages.write_form(**asked))

    async def interpret(
        self, delivery: Delivery, subscription: Subscription | None, answer: Response | FeedproxyError
    ) -> Verdict:
        """What a hub's answer means. 202 is a promise: it will ask whether we meant it."""
        if subscription is None:
            return Refused("the subscription has ended")
        if isinstance(answer, Forbidden | BadTarget):
            return await self._fail(subscription, f"the hub may not be called: {answer}")
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if 200 <= answer.status < 300:
            # Added, not put: meanwhile the hub may have verified already.
            over = prefer_https(subscription.data["hub"], delivery.tries)
            await self._service.subscriptions.add_data(subscription.id, over=over)
            return Delivered("the hub has accepted the request")
        if answer.status in (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT):
            return await self._follow_redirect(subscription, answer)
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= 500:
            return Retry(f"the hub answered {answer.status}")
        words = " ".join(answer.body[:200].decode("utf-8", "replace").split())
        return await self._fail(subscription, f"the hub answered {answer.status}: {words}")

    async def _follow_redirect(self, known: Subscription, answer: Response) -> Verdict:
        """ "The subscriber is expected to retry the subscription or unsubscription at the new hub URL." """
        hops = int(known.data.get("hops", "0")) + 1
        try:
            there = uri.resolve(known.data["hub"], answer.fields.get("location") or "")
        except BadTarget:
            return await self._fail(known, "the hub redirects to no address")
        if hops > REDIRECTS_MAX:
            return await self._fail(known, "the hub redirects too often")
        await self._service.subscriptions.add_data(known.id, hub=there, hops=str(hops))
        return Retry("the hub names another hub")

    async def _fail(self, known: Subscription, words: str) -> Verdict:
        await self.mark_failed(known, words)
        return Refused(words)

    async def mark_failed(self, known: Subscription, words: str, *, at_once: bool = False) -> None:
        """This hub will not do, for a day. A lease that runs is kept to its end, unless it ends `at_once`."""
        now = self._service.clock.now()
        known = await self._service.subscriptions.get(known.id) or known
        keeps = known.state is State.ACTIVE and known.expires > now and not at_once
        if not keeps:
            await self._service.proxy.admin.end_push_lease(known.topic)
        data = {**known.data, "failed": words[:200], **({} if keeps else {"key": ""})}
        await self._service.subscriptions.put(
            replace(
                known,
                data=data,
                renew_at=None,
                expires=known.expires if keeps else now + VERIFICATION_TIMEOUT,
                state=known.state if keeps else State.PENDING,
            )
        )
        self._pending_checks[known.topic] = now  # another hub may do
        self._service.wake()


def covers_topic(service: NotificationService, target: str, topic: str) -> bool:
    """Whether what a hub pushes for this topic may be had under this target, by rules of ours."""
    try:
        return may_serve_under(service.settings_for(target), service.settings_for(uri.normalise(topic)))
    except BadTarget:
        return True  # no target of ours, so that no rule can protect it


def _is_wanted(known: Subscription) -> bool:
    return known.data.get("wanted") != Mode.UNSUBSCRIBE
