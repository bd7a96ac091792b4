"""The publisher's side of CNWS, "a publisher server which adds the subscriber to a list of interested parties".

The specification defines neither how subscribers are verified nor how subscriptions end
(docs/reference/notifications.md).
"""

import logging

from feedproxy.clock import DAY, Seconds
from feedproxy.errors import AccessDenied, BadTarget, FeedproxyError, Forbidden
from feedproxy.feed.convert.headlines import Headlines
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.notify.callback_loop import is_callback_to_self
from feedproxy.notify.client_rate_limit import RateLimiter
from feedproxy.notify.cnws import cnws_messages
from feedproxy.notify.cnws.cnws_messages import NAME, SubscriptionRequest
from feedproxy.notify.endpoint_responses import XML, generated_response
from feedproxy.notify.notification_protocol import Answer, Delivered, Delivery, Message, Refused, Retry, Verdict
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.notify.rpc.xmlrpc import utf8_content
from feedproxy.notify.subscription_table import Role, State, Subscription
from feedproxy.notify.subscriptions_to_moved_or_private_feeds import SubscriberMaintenance
from feedproxy.notify.topics import is_no_longer_public, resolve_topics
from feedproxy.request.context import ClientContext
from feedproxy.request.endpoint_registry import Call
from feedproxy.store.resource import Resource

SUBSCRIPTION_LIFETIME: Seconds = 40 * DAY
"""A subscription ends this many seconds after its last confirmation. A subscriber should confirm after 30 days."""


logger = logging.getLogger(__name__)


class Publisher:
    """The CNWS publisher: it accepts subscriptions, makes notifications, and interprets the responses of callbacks."""

    remove_on_failure = True

    def __init__(self, service: NotificationService) -> None:
        self._service = service
        self._rate_limiter = RateLimiter()
        SubscriberMaintenance(service, NAME)

    async def endpoint(self, call: Call) -> Response:
        """Answer a subscription request at `/-/cnws`. "If the response is an error (HTTP, or FALSE) then the
        subscription is refused" (CNWS)."""
        try:
            request = cnws_messages.read(utf8_content(call.content, call.request.fields))
        except InvalidCall as error:
            return generated_response(400, XML, cnws_messages.write_result(False, description=str(error)))
        if not isinstance(request, SubscriptionRequest):
            # Notifications are sent to the callback URLs of subscriptions, not to this endpoint.
            return generated_response(200, XML, cnws_messages.write_result(False))
        try:
            topic = await self.subscribe(request, call.client)
        except FeedproxyError as error:
            logger.info("cnws: subscription of %s to %s refused: %s", request.url, request.resource, error)
            return generated_response(200, XML, cnws_messages.write_result(False, description=str(error)))
        headlines = await self._headlines(self._service.proxy.store.get(topic)) or Headlines()
        return generated_response(200, XML, cnws_messages.write_result(True, headlines.title, headlines.summary))

    async def subscribe(self, request: SubscriptionRequest, client: ClientContext) -> str:
        """Verify a subscriber and store its subscription. Return the target of the first subscribed feed. Raises
        FeedproxyError if the subscription is refused."""
        service, settings = self._service, self._service.settings()
        self._rate_limiter.check(client.address, service.clock.now(), settings.source_limit, "subscriptions")
        callback = uri.normalise(request.url)
        if is_callback_to_self(callback, settings, client.base):
            raise AccessDenied("the notificationURL leads back to this proxy", 403)
        topics = await resolve_topics(service, request.resource, settings.cnws_publisher, client.base)
        if await service.subscriptions.check_capacity(NAME, topics, callback, settings.subscriptions_per_site):
            with service.delivery_worker.recording_failure(NAME, topics[0], callback):
                await self._verify(callback, topics[0], request.resource, client.address)
        now = service.clock.now()
        new = [
            Subscription(
                *(Role.SUBSCRIBER, NAME, topic, callback),
                expires=now + SUBSCRIPTION_LIFETIME,
                state=State.ACTIVE,
                since=now,
                data={"resource": request.resource},
            )
            for topic in topics
        ]
        await service.subscriptions.put_all(new, settings.subscriptions_per_site)
        return topics[0]

    async def _verify(self, callback: str, topic: str, resource: str, address: str) -> None:
        if await self._service.delivery_worker.resolves_to(callback, address):
            return
        answer = await self._service.delivery_worker.request_now(await self._change_message(callback, topic, resource))
        try:
            if not 200 <= answer.status < 300 or not cnws_messages.read_result(
                utf8_content(answer.body, answer.fields)
            ):
                raise AccessDenied("the subscriber refused the test notification", 403)
        except InvalidCall as error:
            raise AccessDenied(str(error), 403) from error

    # -- notifications

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """Return the notification of a change, with the title and text of the newest item. Return None if the feed is
        no longer public, or if the subscription has ended."""
        topic = delivery.request.topic
        if subscription is None or is_no_longer_public(self._service, topic):
            return None
        return await self._change_message(subscription.callback, topic, subscription.data.get("resource", topic))

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        """Return the verdict on a subscriber's response.

        "If the response is false then remove this server from the list. If a HTTP error occurs then the server is
        removed from the list. If the host can not be contacted then an ageing process begins" (CNWS).
        """
        if isinstance(answer, Forbidden | BadTarget):
            return Refused(str(answer), remove=True)
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if not 200 <= answer.status < 300:
            return Refused(f"status {answer.status}", remove=True)
        try:
            is_wanted = cnws_messages.read_result(utf8_content(answer.body, answer.fields))
        except InvalidCall:
            return Delivered(f"status {answer.status} without a result")
        if not is_wanted:
            return Refused("the subscriber is no longer interested", remove=True)
        assert subscription is not None
        now = self._service.clock.now()
        await self._service.subscriptions.extend(subscription.id, expires=now + SUBSCRIPTION_LIFETIME)
        return Delivered("confirmed")

    async def _change_message(self, callback: str, topic: str, resource: str) -> Message:
        await self._service.proxy.store.load(topic)
        feed = self._service.proxy.store.get(topic)
        headlines = await self._headlines(feed) or Headlines()
        at = feed.changes[-1] if feed is not None and feed.changes else self._service.clock.now()
        body = cnws_messages.write_change(resource, at, headlines.newest_title, headlines.newest_text)
        return Message("POST", callback, Fields([("Content-Type", XML)]), body)

    async def _headlines(self, resource: Resource | None) -> Headlines | None:
        stored = resource.feed_variant if resource is not None else None
        try:
            return await self._service.proxy.conversions.headlines(stored) if stored is not None else None
        except FeedproxyError:
            return None
