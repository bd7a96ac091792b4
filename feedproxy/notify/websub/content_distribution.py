"""What hubs send to `/-/push/websub/ID.TOKEN`: verifications, denials, and feeds.

Nobody can guess the address, and what comes to it is believed only as far as that goes: content is used where it is
signed with our secret, by a hub to which that went by https (or for a feed that is itself read by http), and where
the body guard takes it for the whole feed (refresh/policy/push.py). From everything else follows one fetch, as from a
ping.
"""

import hmac
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs

from feedproxy.clock import Seconds
from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import content_coding, uri
from feedproxy.http.message import Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.protocol import DAY
from feedproxy.notify.refresh_requests import RateLimiter
from feedproxy.notify.subscriptions import State, Subscription
from feedproxy.notify.websub import messages
from feedproxy.notify.websub.messages import Mode
from feedproxy.notify.websub.subscriber import Subscriber, covers_topic
from feedproxy.request.endpoints import Call

UNKNOWN_CONTENT_MAX = 2 * 1024 * 1024
"""Bytes that are read of what comes to an address that we gave to nobody, before it is refused."""

LEASE_MAX: Seconds = 90 * DAY
"""A hub that promises more is renewed after that all the same."""

LEASE_MIN: Seconds = 60
"""A hub that grants less is asked again after nearly that: it does not set how often we call it."""

RENEWAL_MARGIN_MAX: Seconds = DAY
"""A lease is renewed a tenth before its end, and not more than a day."""


class DistributionReceiver:
    """The endpoint."""

    def __init__(self, service: NotificationService, subscriber: Subscriber, key: Callable[[], bytes]) -> None:
        self._service = service
        self._key = key
        self._subscriber = subscriber
        self._rate_limiter = RateLimiter()

    def content_max(self, path: str) -> int:
        """The bytes of a push: what a fetch may have on the wire (`buffer_max`), at an address that we gave."""
        return (
            self._service.settings().buffer_max
            if messages.is_sealed(self._key(), path.rpartition(".")[2])
            else UNKNOWN_CONTENT_MAX
        )

    async def answer(self, call: Call) -> Response:
        """GET verifies or denies, POST delivers."""
        try:
            known, token = await self._find(call.path)
            if call.request.method == "POST":
                return await self._receive(call, known, token)
            return await self._answer_verification(call, known, token)
        except FeedproxyError:
            return messages.plain_text(503, "please try again later", ("Retry-After", "300"))

    async def _find(self, path: str) -> tuple[Subscription | None, str]:
        number, _, token = path.rpartition("/")[2].partition(".")
        if not (number.isascii() and number.isdigit() and len(number) < 16 and token):
            return None, ""
        known = await self._service.subscriptions.get(int(number))
        if known is None or known.protocol != messages.NAME:
            return None, ""
        keys = (known.data.get("key", ""), known.data.get("next", ""))
        return (known, token) if any(_is_equal_token(token, each) for each in keys) else (None, "")

    # -- GET

    async def _answer_verification(self, call: Call, known: Subscription | None, token: str) -> Response:
        """ "The subscriber MUST confirm that the hub.topic corresponds to a pending subscription" """
        try:
            given = {name: values[0] for name, values in parse_qs(call.query, max_num_fields=100).items()}
        except ValueError:
            given = {}
        mode, topic = given.get("hub.mode"), given.get("hub.topic", "")
        if known is None or not _is_same_url(topic, known.data.get("topic", "")):
            return messages.plain_text(404, "this was not asked for")
        if mode == Mode.DENIED:
            await self._subscriber.mark_failed(known, f"the hub denies: {given.get('hub.reason', '')}", at_once=True)
            return messages.plain_text(200)
        challenge = given.get("hub.challenge", "")
        if not challenge or mode != known.data.get("wanted"):
            return messages.plain_text(404, "this was not asked for")
        if mode == Mode.UNSUBSCRIBE:
            await self._service.subscriptions.remove(known.id)
        elif mode == Mode.SUBSCRIBE:
            await self._start_lease(known, token, given.get("hub.lease_seconds", ""))
        return messages.plain_text(200, challenge)

    async def _start_lease(self, known: Subscription, token: str, seconds: str) -> None:
        now = self._service.clock.now()
        lease = float(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 16 else DAY
        lease = max(LEASE_MIN, min(lease, LEASE_MAX))
        data = {**known.data, "key": token}
        data = {name: value for name, value in data.items() if name not in ("next", "failed", "hops")}
        await self._service.subscriptions.put(
            replace(
                known,
                state=State.ACTIVE,
                data=data,
                expires=now + lease,
                renew_at=now + lease - min(lease / 10, RENEWAL_MARGIN_MAX),
            )
        )
        await self._service.proxy.admin.extend_push_lease(known.topic, now + lease)
        self._service.wake()

    # -- POST

    async def _receive(self, call: Call, known: Subscription | None, token: str) -> Response:
        """Acknowledged with 2xx, which "SHOULD only indicate receipt of the message"."""
        if known is None or known.data.get("wanted") == Mode.UNSUBSCRIBE:
            return messages.plain_text(410, "there is no such subscription")
        if not _is_equal_token(token, known.data.get("key", "")):
            return messages.plain_text(404, "this subscription has not been verified")
        now, service = self._service.clock.now(), self._service
        if not self._rate_limiter.allow(str(known.id), now, service.settings().source_limit):
            return messages.plain_text(429, "not so often, please", ("Retry-After", "60"))
        accepted = messages.plain_text(202, "thank you")
        if known.state is State.PAUSED:
            return accepted
        if known.secret and not messages.is_signed(
            call.request.fields.get("x-hub-signature"), known.secret, call.content
        ):
            # "If the signature does not match, subscribers MUST locally ignore the message as invalid."
            await service.subscriptions.record_notification(
                known.id, now, "a push without a valid signature was ignored", success=False
            )
            return accepted
        await service.proxy.admin.record_push(known.topic, known.expires)
        reason = await self._apply_content(call, known)
        if reason:
            await service.refresh_requests.enqueue([known.topic])
        words = f"told; fetched, for {reason}" if reason else "told, with the content"
        await service.subscriptions.record_notification(known.id, now, words, success=True)
        return accepted

    async def _apply_content(self, call: Call, known: Subscription) -> str:
        """Why the content that came is not used; empty where it is."""
        secure = known.data.get("over", "").startswith("https:") or known.topic.startswith("http:")
        if not known.secret or not secure:
            return "what came may have been changed on its way"
        if not covers_topic(self._service, known.topic, known.data.get("topic", known.topic)):
            return "what it is the content of is for other readers"
        fields = call.request.fields
        try:
            limit = content_coding.reasonable(len(call.content), self._service.settings().decoded_max)
            work = partial(content_coding.decode, call.content, fields.get("content-encoding"), limit=limit)
            body = await self._service.proxy.helper_pool.submit(work)
        except FeedproxyError as error:
            return f"what came cannot be read ({error})"
        return await self._service.proxy.admin.apply_push(known.topic, body, fields.get("content-type"))


def _is_equal_token(one: str, other: str) -> bool:
    return bool(other) and hmac.compare_digest(one.encode(), other.encode())


def _is_same_url(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return uri.normalise(one) == uri.normalise(other)
    except BadTarget:
        return False
