"""The subscriber's side of CNWS: subscriptions at publishers that the operator names (`cnws_subscribe`).

The specification requires confirmations: "If any publisher has not issued a notification for a given resource within 30
days the subscriber should try and re-confirm the subscription."
"""

from feedproxy.clock import DAY, Seconds
from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.notify.cnws import cnws_messages
from feedproxy.notify.cnws.cnws_messages import NAME, SubscriptionRequest
from feedproxy.notify.endpoint_responses import XML, generated_response
from feedproxy.notify.notification_protocol import Answer, Delivery, Message, Retry, Verdict
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.outbound_subscriptions import OutboundSubscriptions, SubscriptionTarget, callback_of
from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.notify.rpc.xmlrpc import utf8_content
from feedproxy.notify.subscription_table import Subscription
from feedproxy.request.endpoint_registry import Call
from feedproxy.store.resource import Resource
from feedproxy.upstream.address_policy import AddressTrust

CONFIRM_AFTER: Seconds = 30 * DAY
"""feedproxy confirms a subscription when this many seconds have passed since the last push."""
SUBSCRIPTION_LIFETIME: Seconds = CONFIRM_AFTER + 2 * DAY
"""A subscription ends this many seconds after its last confirmation. Two days remain for a late confirmation."""


class Subscriber:
    """The CNWS subscriber: it subscribes at publishers, and answers their notifications."""

    remove_on_failure = True

    def __init__(self, service: NotificationService) -> None:
        self._service = service
        self.subscriptions = OutboundSubscriptions(
            service,
            NAME,
            self.find_target,
            renew_after=CONFIRM_AFTER,
            lifetime=SUBSCRIPTION_LIFETIME,
            renewed_by_pushes=True,
        )
        self.renew = self.subscriptions.renew

    def find_target(self, resource: Resource) -> SubscriptionTarget | None:
        """Return the publisher that the operator named for the feed. Return None if the operator named none, or if the
        publisher's address is invalid."""
        publisher_url = self._service.settings_for(resource.target).cnws_subscribe
        try:
            return SubscriptionTarget(uri.normalise(publisher_url), {}) if publisher_url else None
        except BadTarget:
            return None

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        settings = self._service.settings()
        if subscription is None or not settings.public_url:
            return None
        fields = Fields([("Content-Type", XML)])
        body = cnws_messages.write_subscribe(subscription.topic, callback_of(settings, NAME, subscription))
        return Message("POST", subscription.callback, fields, body, address_trust=AddressTrust.CONFIGURED_NAME)

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        """Return the verdict on a publisher's response to a subscription request. "If the response is an error (HTTP,
        or FALSE) then the subscription is refused" (CNWS)."""
        assert subscription is not None
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if not 200 <= answer.status < 300:
            return await self.subscriptions.on_rejected(subscription, f"status {answer.status}")
        try:
            if not cnws_messages.read_result(utf8_content(answer.body, answer.fields)):
                return await self.subscriptions.on_rejected(subscription, "refused")
        except InvalidCall as error:
            return await self.subscriptions.on_rejected(subscription, str(error))
        return await self.subscriptions.on_confirmed(subscription, "subscribed")

    async def endpoint(self, call: Call) -> Response:
        """Answer a notification at `/-/push/cnws/…`. The answer is true if feedproxy has a subscription to the changed
        resource and still needs it. Otherwise the answer is false."""
        try:
            message = cnws_messages.read(utf8_content(call.content, call.request.fields))
        except InvalidCall:
            return generated_response(400, XML, cnws_messages.write_result(False))
        subscription = await self.subscriptions.find_by_callback(call.path.rpartition("/")[2])
        is_wanted = False
        if subscription is not None and not isinstance(message, SubscriptionRequest):
            is_subscribed = any(uri.is_same(resource, subscription.topic) for resource in message)
            is_wanted = is_subscribed and await self.subscriptions.on_notification(subscription)
        return generated_response(200, XML, cnws_messages.write_result(is_wanted))
