"""The WebSub hub at `/-/hub`: it verifies subscription requests, and sends feeds to subscribers.

A subscription request causes one GET of the callback, as a delivery in the queue. An existing subscription stays
unchanged until the callback has answered the challenge. Deliveries contain the content that the store has when they are
sent.
"""

import json
import re
from functools import partial
from http import HTTPStatus

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Seconds
from feedproxy.errors import BadTarget, FeedproxyError, Forbidden, NotFound
from feedproxy.http.coding import bounded_decompression
from feedproxy.http.message import Fields, Response
from feedproxy.notify.callback_loop import is_callback_to_self
from feedproxy.notify.client_rate_limit import RateLimiter, TooManyRequests
from feedproxy.notify.endpoint_responses import plain_text
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
from feedproxy.notify.subscriptions_to_moved_or_private_feeds import SubscriberMaintenance
from feedproxy.notify.topics import current_topic, find_feeds, is_no_longer_public, may_notify, named_address
from feedproxy.notify.websub import signatures_and_tokens, websub_messages
from feedproxy.notify.websub.websub_messages import NAME, InvalidRequest, Mode, PublishRequest, SubscriptionRequest
from feedproxy.proxy.public_feeds import is_restricted, may_be_listed
from feedproxy.refresh.resource_after_refresh import default_copy
from feedproxy.request.endpoint_registry import HUB_PATH, Call
from feedproxy.request.upstream_and_public_urls import endpoint_address, is_upstream_target, to_public
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.upstream.upstream_errors import FetchTimeout, Unreachable

VERIFICATION_TRIES = 3
"""The hub makes at most this many attempts to send a verification or a denial to an unreachable callback. The first
response is final."""

DENY = "deny"
"""The kind of delivery that tells a subscriber of the end of its subscription."""

NO_FEED = "there is no public feed at that URL"

LEASE_MIN: Seconds = 60
"""The hub grants no lease of fewer than this many seconds. The minimum limits the frequency of renewals."""

_URI_REFERENCE = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]+")
"""Pattern of a text that can stand in the field Link without changes (RFC 3986, section 2)."""


class Hub:
    """The hub: it answers requests, and makes and interprets deliveries."""

    remove_on_failure = False

    def __init__(self, service: NotificationService) -> None:
        self._service = service
        self._rate_limiter = RateLimiter()
        SubscriberMaintenance(service, NAME, _final_message)

    # -- requests

    async def answer(self, call: Call) -> Response:
        """Answer `POST /-/hub`. Errors are described "in the response body as plain text" (WebSub)."""
        try:
            return await self._answer(call)
        except TooManyRequests as error:
            return plain_text(429, str(error), ("Retry-After", "60"))
        except InvalidRequest as error:
            return plain_text(error.status_hint, str(error))
        except FeedproxyError as error:
            status = error.status_hint if error.status_hint in (429, 503) else 503
            return plain_text(status, "please try again later", ("Retry-After", "300"))

    async def _answer(self, call: Call) -> Response:
        request = websub_messages.read_request(call.request.fields.get("content-type"), call.content)
        if isinstance(request, PublishRequest):
            await self._accept_publish(request, call.client.address, call.client.base)
            return Response(HTTPStatus.NO_CONTENT)
        service, settings = self._service, self._service.settings()
        if settings.websub_hub == "off" or not service.can_receive_calls:
            raise InvalidRequest("this hub accepts no subscriptions", 403)
        self._rate_limiter.check(call.client.address, service.clock.now(), settings.source_limit, "requests")
        if is_callback_to_self(request.callback, settings, call.client.base):
            raise InvalidRequest("hub.callback leads back to this hub")
        if request.mode is Mode.SUBSCRIBE:
            try:
                service.delivery_worker.check(request.callback)
            except (Forbidden, BadTarget) as error:
                raise InvalidRequest(f"hub.callback cannot be called: {error}", 403) from error
        named_target, target = self._targets(request, call.client.base)
        subscription = await service.subscriptions.find_current_or_moved(NAME, target, request.callback)
        if request.mode is Mode.UNSUBSCRIBE and subscription is None:
            raise InvalidRequest("no such subscription", 404)
        if subscription is None:
            await service.subscriptions.check_capacity(
                NAME, [target], request.callback, settings.subscriptions_per_site
            )
        data = {
            "mode": request.mode,
            "topic": request.topic,
            "target": named_target,
            "lease": granted_lease(request.lease, settings.websub_lease),
            "secret": request.secret,
            "nonce": signatures_and_tokens.token(),
        }
        await service.enqueue(DeliveryRequest(NAME, "verify", target, request.callback, data=json.dumps(data)))
        return plain_text(202, "the request will be verified")

    async def _accept_publish(self, request: PublishRequest, source: str, base: str) -> None:
        """Accept a publish request as a ping: fetch those of its topics that are stored, and ignore the others."""
        refresh_requests, feeds = self._service.refresh_requests, list[str]()
        for topic in request.topics:
            try:
                feeds += await find_feeds(self._service, named_address(self._service, topic, base))
            except BadTarget as error:
                raise InvalidRequest(f"invalid hub.url: {error}") from error
        await refresh_requests.accept_ping(list(dict.fromkeys(feeds)), source)

    def _targets(self, request: SubscriptionRequest, base: str) -> tuple[str, str]:
        """Return the target that a request's topic names, and the target to which this feed has moved. They are equal
        if the feed has not moved.

        Raises InvalidRequest if the topic is not a URL, or if the hub does not serve the feed.
        """
        try:
            named_target = self._service.proxy.admin.to_upstream_url(named_address(self._service, request.topic, base))
            target = current_topic(self._service, named_target)
        except BadTarget as error:
            raise InvalidRequest(f"invalid hub.topic: {error}") from error
        if request.mode is Mode.UNSUBSCRIBE:
            return named_target, target
        settings = self._service.settings_for(target)
        is_own = is_upstream_target(target, settings)
        if not is_own and settings.websub_hub != "known":
            raise InvalidRequest("this hub serves only the feeds of its own publisher", 403)
        # A feed of the upstream that is not stored yet is fetched before the verification.
        is_unstored_listed = (
            is_own and self._service.proxy.store.get(target) is None and may_be_listed(target, settings)
        )
        if not may_notify(self._service, target) and not (is_unstored_listed and not settings.readers):
            raise InvalidRequest(NO_FEED, 404)
        return named_target, target

    # -- messages

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """Return the message of a delivery: a verification, a denial, or the feed.

        A feed that is no longer public gives a denial. Return None if the subscription has ended, if the stored feed
        has no content that can be sent, or if `public_url` is not set. Raises NotFound if the topic is not stored and
        could not be fetched as a feed.
        """
        request = delivery.request
        if request.what == DENY:
            return Message("GET", _denial(request.callback, request.data))
        if request.what == "verify":
            data = json.loads(request.data)
            if data["mode"] == Mode.SUBSCRIBE and not await self._check_public(request.topic):
                return Message("GET", _denial(request.callback, data["topic"]))
            lease_parameters = {"lease_seconds": data["lease"]} if data["mode"] == Mode.SUBSCRIBE else {}
            query = {
                "mode": data["mode"],
                "topic": data["topic"],
                "challenge": _challenge(delivery),
                **lease_parameters,
            }
            return Message("GET", websub_messages.with_parameters(request.callback, **query))
        if subscription is None:
            return None
        if await self._check_public(request.topic):
            return await self._content(request, subscription)
        if not is_no_longer_public(self._service, request.topic):
            raise NotFound("the topic is not stored, and could not be fetched as a feed")
        return Message("GET", _denial(request.callback, subscription.data.get("topic", request.topic)))

    async def _content(self, request: DeliveryRequest, subscription: Subscription) -> Message | None:
        """Return the message with the current feed. It "MUST contain the full contents of the topic URL" (WebSub).
        Return None if this content is not available, or if `public_url` is not set."""
        if not self._service.can_receive_calls:
            return None  # a delivery "MUST" name the hub (section 7), which has no URL without `public_url`
        settings = self._service.settings_for(request.topic)
        resource = self._service.proxy.store.get(request.topic)
        stored = _copy_to_send(resource) if resource is not None else None
        body = await self._decoded_body(stored, settings.decoded_max) if stored is not None else None
        if stored is None or body is None:
            return None
        self_link = _self_link(subscription, request.topic, settings)
        lines = [("Link", websub_messages.link_field(endpoint_address(settings, HUB_PATH), self_link))]
        if media_type := stored.content.media_type or stored.fields.get("content-type"):
            lines.append(("Content-Type", media_type))
        if subscription.secret:
            signed = signatures_and_tokens.signature(subscription.secret, body, settings.websub_signature)
            lines.append(("X-Hub-Signature", signed))
        return Message("POST", request.callback, Fields(lines), body)

    async def _decoded_body(self, stored: StoredResponse, limit: int) -> bytes | None:
        """Return the decoded content, or None if decoding fails or the content exceeds `limit` bytes."""
        label, body = stored.content.main_body
        if label == "identity":
            return body
        try:
            return await self._service.proxy.helper_pool.submit(
                partial(bounded_decompression.decode, body, label, limit=limit)
            )
        except FeedproxyError:
            return None

    async def _check_public(self, target: str) -> bool:
        """Return whether a topic is a public feed (WebSub, section 5.2). A topic that is not stored is fetched first.
        Such a topic belongs to the upstream, or was stored when the hub accepted the request."""
        admin = self._service.proxy.admin
        await self._service.proxy.store.load(target)
        if not admin.is_feed(target) and not is_no_longer_public(self._service, target):
            await admin.refresh(target)
        return may_notify(self._service, target)

    # -- responses

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        """Return the verdict on a callback's response."""
        if delivery.request.what == DENY:
            is_retried = isinstance(answer, Unreachable | FetchTimeout) and delivery.tries + 1 < VERIFICATION_TRIES
            return Retry(str(answer)) if is_retried else Delivered("denied")
        topic, is_verification = delivery.request.topic, delivery.request.what == "verify"
        is_denied = is_no_longer_public(self._service, topic) or (
            is_verification and not self._service.proxy.admin.is_feed(topic)
        )
        if is_denied and not _is_unsubscription(delivery):
            return Refused(f"denied: {NO_FEED}", remove=True)
        if isinstance(answer, Forbidden | BadTarget):
            return Refused(f"the callback may not be called: {answer}")
        if is_verification:
            return await self._interpret_verification(delivery, answer)
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if 200 <= answer.status < 300:
            return Delivered(f"status {answer.status}")
        if answer.status == HTTPStatus.GONE:
            return Refused("status 410: the subscriber has ended the subscription", remove=True)
        # "The hub MUST consider all other subscriber response codes as failures"
        return Retry(f"status {answer.status}")

    async def _interpret_verification(self, delivery: Delivery, answer: Answer) -> Verdict:
        request, service = delivery.request, self._service
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer)) if delivery.tries + 1 < VERIFICATION_TRIES else Refused(str(answer))
        if not 200 <= answer.status < 300:
            return Refused(f"status {answer.status} from the callback")
        if answer.body != _challenge(delivery).encode():
            return Refused("the callback did not repeat the challenge")
        data, now = json.loads(request.data), service.clock.now()
        if data["mode"] == Mode.UNSUBSCRIBE:
            subscription = await service.subscriptions.find_current_or_moved(NAME, request.topic, request.callback)
            if subscription is not None:
                await service.subscriptions.remove(subscription.id)
            return Delivered("unsubscribed")
        lease: Seconds = data["lease"]
        new = Subscription(
            Role.SUBSCRIBER,
            NAME,
            request.topic,
            request.callback,
            now + lease,
            State.ACTIVE,
            since=now,
            secret=data["secret"],
            data={"topic": data["topic"], "target": data.get("target", "")},
        )
        try:
            await service.subscriptions.put_all([new], service.settings().subscriptions_per_site)
        except SubscriptionsFull as error:  # other verifications were in progress at the same time
            return Refused(str(error))
        return Delivered("subscribed")


def _copy_to_send(resource: Resource) -> StoredResponse | None:
    """Return the variant of the stored feed that suits a request without fields, or else the newest variant. Return
    None if no feed is stored, or if the copy is not for all clients: it was fetched with credentials, or the origin
    restricts access to the feed (401 or 451)."""
    stored = default_copy(resource) or resource.feed_variant
    if stored is None or stored.authorized or is_restricted(resource):
        return None
    return stored


def _final_message(subscription: Subscription) -> DeliveryRequest:
    """Return the denial that ends a subscription. A hub may deny "at any point (even if it was previously accepted)"
    (WebSub, section 5.2)."""
    topic = subscription.topic
    return DeliveryRequest(NAME, DENY, topic, subscription.callback, data=subscription.data.get("topic", topic))


def _self_link(subscription: Subscription, target: str, settings: Settings) -> str:
    """Return the address for `rel=self` in a delivery: the topic as the subscriber wrote it.

    The subscriber recognises its subscription by this topic. If the feed has moved to another `target`, or the field
    Link cannot contain the topic unchanged, return the public address of `target`.
    """
    topic = subscription.data.get("topic", "")
    is_current = subscription.data.get("target") == target and _URI_REFERENCE.fullmatch(topic)
    return topic if is_current else to_public(target, settings)


def _challenge(delivery: Delivery) -> str:
    return signatures_and_tokens.challenge(json.loads(delivery.request.data)["nonce"], delivery.tries)


def _denial(callback: str, topic: str) -> str:
    return websub_messages.with_parameters(callback, mode=Mode.DENIED, topic=topic, reason=NO_FEED)


def _is_unsubscription(delivery: Delivery) -> bool:
    """Return whether a delivery verifies an unsubscription. Subscribers may unsubscribe from private feeds, too."""
    request = delivery.request
    return request.what == "verify" and json.loads(request.data)["mode"] == Mode.UNSUBSCRIBE


def granted_lease(requested: int | None, longest: int) -> int:
    """Return the lease to grant in seconds: `requested`, but at least LEASE_MIN and at most `longest`.

    A request without a lease (None) gets `longest`. "Hubs MUST enforce lease expirations, and MUST NOT issue perpetual
    lease durations."
    """
    return int(max(LEASE_MIN, min(longest if requested is None else requested, longest)))
