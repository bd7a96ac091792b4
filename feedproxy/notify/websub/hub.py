"""A WebSub hub at `/-/hub`: whoever subscribes, and proves that he did, is sent our feeds whenever they change.

Nothing is kept of a request but an order in the queue, until its callback has answered the challenge: so whatever a
stranger asks for costs one GET of the address he named, and the subscription that was there before stays as it was.
Content lies in the store alone: a delivery that waits is a row that names the feed, and what is sent is what the feed
is then.
"""

import json
from functools import partial
from http import HTTPStatus

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Seconds
from feedproxy.errors import BadTarget, FeedproxyError, FetchTimeout, Forbidden, Unreachable
from feedproxy.http import content_coding
from feedproxy.http.message import Fields, Response
from feedproxy.notify.callback_policy import is_callback_to_self
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings.sinks import own_user_agent
from feedproxy.notify.protocol import Delivered, Delivery, DeliveryRequest, Message, Refused, Retry, Verdict
from feedproxy.notify.refresh_requests import RateLimiter, TooManyRequests
from feedproxy.notify.subscriber_maintenance import SubscriberMaintenance
from feedproxy.notify.subscriptions import Role, State, Subscription
from feedproxy.notify.topics import current_topic, may_notify, named_address
from feedproxy.notify.websub import messages
from feedproxy.notify.websub.messages import NAME, InvalidRequest, Mode, PublishRequest, SubscriptionRequest
from feedproxy.proxy.visibility import may_be_listed
from feedproxy.refresh.ingest.link_injection import HUB, endpoint_address
from feedproxy.request.endpoints import Call
from feedproxy.request.url_mapping import is_upstream_target, to_public

VERIFICATION_TRIES = 3
"""Of a callback that cannot be reached. One that answers has answered."""

DENY = "deny"
"""The order to tell somebody who was subscribed that he is no longer."""

NO_FEED = "there is no public feed at that address"


class Hub:
    """The endpoint, and what a delivery of ours is."""

    def __init__(self, service: NotificationService) -> None:
        self._service = service
        self._rate_limiter = RateLimiter()
        SubscriberMaintenance(service, NAME, _final_message)

    # -- what is asked of us

    async def answer(self, call: Call) -> Response:
        """`POST /-/hub`. What is wrong is told "in the response body as plain text"."""
        try:
            return await self._answer(call)
        except TooManyRequests as error:
            return messages.plain_text(429, str(error), ("Retry-After", "60"))
        except InvalidRequest as error:
            return messages.plain_text(error.status_hint, str(error))
        except FeedproxyError as error:
            status = error.status_hint if error.status_hint in (429, 503) else 503
            return messages.plain_text(status, "please try again later", ("Retry-After", "300"))

    async def _answer(self, call: Call) -> Response:
        asked = messages.read_request(call.request.fields.get("content-type"), call.content)
        if isinstance(asked, PublishRequest):
            await self._accept_publish(asked, call.client.address, call.client.base)
            return Response(HTTPStatus.NO_CONTENT)
        service = self._service
        settings, now = service.settings(), service.clock.now()
        if settings.websub_hub == "off" or not service.can_receive_calls:
            raise InvalidRequest("this hub takes no subscriptions", 403)
        if not self._rate_limiter.allow(call.client.address, now, settings.source_limit):
            raise TooManyRequests("too many requests come from your address; please try again in a minute")
        if is_callback_to_self(asked.callback, settings, call.client.base):
            raise InvalidRequest("hub.callback leads back to this hub")
        if asked.mode is Mode.SUBSCRIBE:
            try:
                service.delivery_worker.check(asked.callback)
            except (Forbidden, BadTarget) as error:
                raise InvalidRequest(f"hub.callback cannot be called: {error}", 403) from error
        target = self._target(asked, call.client.base)
        known = await service.subscriptions.find_current_or_moved(Role.SUBSCRIBER, NAME, target, asked.callback)
        if asked.mode is Mode.UNSUBSCRIBE and known is None:
            raise InvalidRequest("there is no such subscription", 404)
        if known is None:
            await service.subscriptions.check_capacity(asked.callback, settings.subscriptions_per_site)
        data = {
            "mode": asked.mode,
            "topic": asked.topic,
            "lease": messages.granted_lease(asked.lease, settings.websub_lease),
            "secret": asked.secret,
            "nonce": messages.token(),
        }
        await service.enqueue(DeliveryRequest(NAME, "verify", target, asked.callback, data=json.dumps(data)))
        return messages.plain_text(202, "the request will be verified")

    async def _accept_publish(self, said: PublishRequest, source: str, base: str) -> None:
        """A publisher's notice is a ping: what is known is fetched, and nothing else."""
        bell, found = self._service.refresh_requests, list[str]()
        for each in said.topics:
            try:
                found += await bell.find_feeds(named_address(self._service, each, base))
            except BadTarget as error:
                raise InvalidRequest(f"hub.url is no address: {error}") from error
        await bell.accept_ping(list(dict.fromkeys(found)), source)

    def _target(self, asked: SubscriptionRequest, base: str) -> str:
        """The feed of ours that a topic names. Raises Wrong."""
        try:
            target = self._service.proxy.admin.to_upstream_url(named_address(self._service, asked.topic, base))
            target = current_topic(self._service, target)
        except BadTarget as error:
            raise InvalidRequest(f"hub.topic is no address: {error}") from error
        if asked.mode is Mode.UNSUBSCRIBE:
            return target
        settings = self._service.settings_for(target)
        own = is_upstream_target(target, settings)
        if not own and settings.websub_hub != "known":
            raise InvalidRequest("this hub tells of its own publisher's feeds alone", 403)
        # What is our own, and has not been asked for yet, is looked at before the verification.
        may_come = own and self._service.proxy.store.get(target) is None and may_be_listed(target, settings)
        if not may_notify(self._service, target) and not (may_come and not settings.readers):
            raise InvalidRequest(NO_FEED, 404)
        return target

    # -- what we send

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """A verification, a denial, or the feed."""
        order = delivery.request
        agent = ("User-Agent", own_user_agent(self._service.settings()))
        if order.what == DENY:
            return Message("GET", _denial(order.callback, order.data), Fields([agent]))
        if order.what == "verify":
            data = json.loads(order.data)
            if data["mode"] == Mode.SUBSCRIBE and not await self._check_public(order.topic):
                return Message("GET", _denial(order.callback, data["topic"]), Fields([agent]))
            more = {"lease_seconds": data["lease"]} if data["mode"] == Mode.SUBSCRIBE else {}
            asked = {"mode": data["mode"], "topic": data["topic"], "challenge": _challenge(delivery), **more}
            return Message("GET", messages.with_parameters(order.callback, **asked), Fields([agent]))
        if subscription is None:
            return None
        if not may_notify(self._service, order.topic):
            topic = subscription.data.get("topic", order.topic)
            return Message("GET", _denial(order.callback, topic), Fields([agent]))
        return await self._content(order, subscription, agent)

    async def _content(
        self, order: DeliveryRequest, subscription: Subscription, agent: tuple[str, str]
    ) -> Message | None:
        """The feed, as it is now: "MUST contain the full contents of the topic URL"."""
        if not self._service.can_receive_calls:
            return None  # a delivery "MUST" name the hub (section 7), and it has no address any more
        settings = self._service.settings_for(order.topic)
        resource = self._service.proxy.store.get(order.topic)
        feeds = (each for each in reversed(resource.variants) if each.content.feed) if resource is not None else ()
        stored = next((each for each in feeds if not each.authorized), None)
        body = await self._decoded_body(stored, settings.decoded_max) if stored is not None else None
        if stored is None or body is None:
            return None
        lines = [
            agent,
            ("Link", messages.link_field(endpoint_address(settings, HUB), to_public(order.topic, settings))),
        ]
        if media_type := stored.content.media_type or stored.fields.get("content-type"):
            lines.append(("Content-Type", media_type))
        if subscription.secret:
            signed = messages.signature(subscription.secret, body, settings.websub_signature)
            lines.append(("X-Hub-Signature", signed))
        return Message("POST", order.callback, Fields(lines), body)

    async def _decoded_body(self, stored: StoredResponse, limit: int) -> bytes | None:
        """The content without its coding; None where it cannot be read."""
        bodies = stored.content.bodies
        if "identity" in bodies:
            return bodies["identity"]
        label, body = next(iter(bodies.items()), ("identity", b""))
        try:
            return await self._service.proxy.helper_pool.submit(
                partial(content_coding.decode, body, label, limit=limit)
            )
        except FeedproxyError:
            return None

    async def _check_public(self, target: str) -> bool:
        """Validation (section 5.2): our own feeds may not have been asked for yet."""
        settings = self._service.settings_for(target)
        if self._service.proxy.store.get(target) is None and is_upstream_target(target, settings):
            await self._service.proxy.admin.refresh(target)
        return may_notify(self._service, target)

    # -- what was answered

    async def interpret(
        self, delivery: Delivery, subscription: Subscription | None, answer: Response | FeedproxyError
    ) -> Verdict:
        """What a callback's answer means."""
        if delivery.request.what == DENY:
            again = isinstance(answer, Unreachable | FetchTimeout) and delivery.tries + 1 < VERIFICATION_TRIES
            return Retry(str(answer)) if again else Delivered("denied")
        if not may_notify(self._service, delivery.request.topic) and not _is_unsubscription(delivery):
            return Refused(f"denied: {NO_FEED}", remove=True)
        if isinstance(answer, Forbidden | BadTarget):
            return Refused(f"its address may not be called: {answer}")
        if delivery.request.what == "verify":
            return await self._interpret_verification(delivery, answer)
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if 200 <= answer.status < 300:
            return Delivered(f"it answered {answer.status}")
        if answer.status == HTTPStatus.GONE:
            return Refused("it answered 410: the subscription is gone", remove=True)
        # "The hub MUST consider all other subscriber response codes as failures"
        return Retry(f"it answered {answer.status}")

    async def _interpret_verification(self, delivery: Delivery, answer: Response | FeedproxyError) -> Verdict:
        order, service = delivery.request, self._service
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer)) if delivery.tries + 1 < VERIFICATION_TRIES else Refused(str(answer))
        if not 200 <= answer.status < 300:
            return Refused(f"the callback answered {answer.status}")
        if answer.body != _challenge(delivery).encode():
            return Refused("the callback did not repeat the challenge")
        data, now = json.loads(order.data), service.clock.now()
        if data["mode"] == Mode.UNSUBSCRIBE:
            known = await service.subscriptions.find_current_or_moved(
                Role.SUBSCRIBER, NAME, order.topic, order.callback
            )
            if known is not None:
                await service.subscriptions.remove(known.id)
            return Delivered("unsubscribed")
        lease: Seconds = data["lease"]
        new = Subscription(
            Role.SUBSCRIBER,
            NAME,
            order.topic,
            order.callback,
            now + lease,
            State.ACTIVE,
            since=now,
            secret=data["secret"],
            data={"topic": data["topic"]},
        )
        await service.subscriptions.put(new)
        return Delivered("subscribed")


def _final_message(known: Subscription) -> DeliveryRequest:
    """A hub may deny "at any point (even if it was previously accepted)", and has to tell (section 5.2)."""
    return DeliveryRequest(NAME, DENY, known.topic, known.callback, data=known.data.get("topic", known.topic))


def _challenge(delivery: Delivery) -> str:
    return messages.challenge(json.loads(delivery.request.data)["nonce"], delivery.tries)


def _denial(callback: str, topic: str) -> str:
    return messages.with_parameters(callback, mode=Mode.DENIED, topic=topic, reason=NO_FEED)


def _is_unsubscription(delivery: Delivery) -> bool:
    """Who leaves may do so, whatever has become of the feed."""
    order = delivery.request
    return order.what == "verify" and json.loads(order.data)["mode"] == Mode.UNSUBSCRIBE
