"""Callback URLs of feedproxy's subscriptions, `/-/push/websub/ID.TOKEN`: verifications, denials, and pushed feeds.

Pushed content replaces the copy if it is the whole feed (refresh/policy/pushed_content.py) and signed with a secret.
The secret must have gone to the hub by https, unless the feed itself is fetched by http. Any other push causes one
fetch, as a ping does.
"""

import hmac
from collections.abc import Callable
from functools import partial
from urllib.parse import parse_qs

from feedproxy.errors import FeedproxyError
from feedproxy.http import uri
from feedproxy.http.coding import bounded_decompression
from feedproxy.http.message import Response
from feedproxy.notify.client_rate_limit import RateLimiter
from feedproxy.notify.endpoint_responses import plain_text
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.subscription_table import State, Subscription
from feedproxy.notify.websub import signatures_and_tokens, websub_messages
from feedproxy.notify.websub.subscriber import Subscriber, covers_topic
from feedproxy.notify.websub.websub_messages import Mode
from feedproxy.request.endpoint_registry import CONTENT_MAX, Call


class SubscriberCallback:
    """Endpoint for the requests that hubs send to feedproxy's callback URLs."""

    def __init__(self, service: NotificationService, subscriber: Subscriber, key: Callable[[], bytes]) -> None:
        self._service = service
        self._key = key
        self._subscriber = subscriber
        self._rate_limiter = RateLimiter()

    def content_max(self, path: str) -> int:
        """Return the maximum permitted size of a push, in bytes.

        The maximum is `buffer_max`, or CONTENT_MAX for an unknown callback URL. Therefore only a client that knows a
        callback URL of feedproxy can use up the memory budget for large content.
        """
        return (
            self._service.settings().buffer_max
            if signatures_and_tokens.is_sealed(self._key(), path.rpartition(".")[2])
            else CONTENT_MAX
        )

    async def answer(self, call: Call) -> Response:
        """Answer a verification or denial (GET), or a content distribution (POST)."""
        try:
            subscription, token = await self._find(call.path)
            if call.request.method == "POST":
                return await self._receive(call, subscription, token)
            return await self._answer_verification(call, subscription, token)
        except FeedproxyError:
            return plain_text(503, "please try again later", ("Retry-After", "300"))

    async def _find(self, path: str) -> tuple[Subscription | None, str]:
        number, _, token = path.rpartition("/")[2].partition(".")
        if not (number.isascii() and number.isdigit() and len(number) < 16 and token):
            return None, ""
        subscription = await self._service.subscriptions.get(int(number))
        if subscription is None or subscription.protocol != websub_messages.NAME:
            return None, ""
        keys = (subscription.data.get("key", ""), subscription.data.get("next", ""))
        return (subscription, token) if any(_is_equal_token(token, key) for key in keys) else (None, "")

    # -- GET

    async def _answer_verification(self, call: Call, subscription: Subscription | None, token: str) -> Response:
        try:
            parameters = {name: values[0] for name, values in parse_qs(call.query, max_num_fields=100).items()}
        except ValueError:
            parameters = {}
        mode, topic = parameters.get("hub.mode"), parameters.get("hub.topic", "")
        if subscription is None or not uri.is_same(topic, subscription.data.get("topic", "")):
            return plain_text(404, "there is no such request")
        if mode == Mode.DENIED:
            reason = f"the hub denies: {parameters.get('hub.reason', '')}"
            await self._subscriber.mark_failed(subscription, reason, at_once=True)
            await self._service.subscriptions.record_notification(
                subscription.id, self._service.clock.now(), reason, success=False
            )
            return plain_text(200)
        challenge = parameters.get("hub.challenge", "")
        if not challenge or mode != subscription.data.get("wanted"):
            return plain_text(404, "there is no such request")
        if mode == Mode.UNSUBSCRIBE:
            await self._service.subscriptions.remove(subscription.id)
        elif mode == Mode.SUBSCRIBE:
            await self._subscriber.start_lease(subscription, token, parameters.get("hub.lease_seconds", ""))
        return plain_text(200, challenge)

    # -- POST

    async def _receive(self, call: Call, subscription: Subscription | None, token: str) -> Response:
        """Answer a push. A 2xx "SHOULD only indicate receipt of the message" (WebSub)."""
        if subscription is None or subscription.data.get("wanted") == Mode.UNSUBSCRIBE:
            return plain_text(410, "there is no such subscription")
        if not _is_equal_token(token, subscription.data.get("key", "")):
            return plain_text(404, "this subscription has not been verified")
        now, service = self._service.clock.now(), self._service
        if not self._rate_limiter.allow(str(subscription.id), now, service.settings().source_limit):
            return plain_text(429, "too many pushes; try again in a minute", ("Retry-After", "60"))
        accepted = plain_text(202, "received")
        if subscription.state is State.PAUSED:
            return accepted
        signature, over_https = call.request.fields.get("x-hub-signature"), subscription.data.get("https_secret", "")
        is_authentic = signatures_and_tokens.is_signed(signature, over_https, call.content)
        if not is_authentic and not signatures_and_tokens.is_signed(signature, subscription.secret, call.content):
            # "If the signature does not match, subscribers MUST locally ignore the message as invalid."
            await service.subscriptions.record_notification(
                subscription.id, now, "a push without a valid signature was ignored", success=False
            )
            return accepted
        await service.proxy.admin.record_push(subscription.topic, subscription.expires)
        # The secret that a hub got over http protects a feed only as well as its own http address does.
        is_authentic = is_authentic or subscription.topic.startswith("http:")
        reason = await self._apply_content(call, subscription) if is_authentic else "the content is not authenticated"
        if reason:
            await service.refresh_requests.enqueue([subscription.topic])
        note = f"pushed; fetched: {reason}" if reason else "pushed, with the content"
        await service.subscriptions.record_notification(subscription.id, now, note, success=True)
        return accepted

    async def _apply_content(self, call: Call, subscription: Subscription) -> str:
        """Apply pushed content. Return the reason why it is not used, or "" if it is used."""
        if not covers_topic(self._service, subscription.topic, subscription.data.get("topic", subscription.topic)):
            return "the rules permit other readers for the topic than for the feed"
        fields = call.request.fields
        try:
            limit = bounded_decompression.decoding_limit(len(call.content), self._service.settings().decoded_max)
            work = partial(bounded_decompression.decode, call.content, fields.get("content-encoding"), limit=limit)
            body = await self._service.proxy.helper_pool.submit(work)
        except FeedproxyError as error:
            return f"the content is invalid ({error})"
        return await self._service.proxy.admin.apply_push(subscription.topic, body, fields.get("content-type"))


def _is_equal_token(token: str, other: str) -> bool:
    return bool(other) and hmac.compare_digest(token.encode(), other.encode())
