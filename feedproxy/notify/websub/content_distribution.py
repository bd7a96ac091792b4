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
from feedproxy.notify.notification_service import Notices
from feedproxy.notify.protocol import DAY
from feedproxy.notify.refresh_requests import Sources
from feedproxy.notify.subscriptions import State, Subscription
from feedproxy.notify.websub import messages
from feedproxy.notify.websub.messages import Mode
from feedproxy.notify.websub.subscriber import Subscriber, covers_topic
from feedproxy.request.endpoints import Call

STRANGERS_MAX = 2 * 1024 * 1024
"""Bytes that are read of what comes to an address that we gave to nobody, before it is refused."""

LEASE_MAX: Seconds = 90 * DAY
"""A hub that promises more is renewed after that all the same."""

LEASE_MIN: Seconds = 60
"""A hub that grants less is asked again after nearly that: it does not set how often we call it."""

EARLY: Seconds = DAY
"""A lease is renewed a tenth before its end, and not more than a day."""


class Pushes:
    """The endpoint."""

    def __init__(self, notices: Notices, subscriber: Subscriber, key: Callable[[], bytes]) -> None:
        self._notices = notices
        self._key = key
        self._subscriber = subscriber
        self._sources = Sources()

    def content_max(self, path: str) -> int:
        """The bytes of a push: what a fetch may have on the wire (`buffer_max`), at an address that we gave."""
        return (
            self._notices.settings().buffer_max
            if messages.is_sealed(self._key(), path.rpartition(".")[2])
            else STRANGERS_MAX
        )

    async def answer(self, call: Call) -> Response:
        """GET verifies or denies, POST delivers."""
        try:
            known, token = await self._known(call.path)
            if call.request.method == "POST":
                return await self._pushed(call, known, token)
            return await self._verified(call, known, token)
        except FeedproxyError:
            return messages.plain(503, "please try again later", ("Retry-After", "300"))

    async def _known(self, path: str) -> tuple[Subscription | None, str]:
        number, _, token = path.rpartition("/")[2].partition(".")
        if not (number.isascii() and number.isdigit() and len(number) < 16 and token):
            return None, ""
        known = await self._notices.subscriptions.get(int(number))
        if known is None or known.protocol != messages.NAME:
            return None, ""
        keys = (known.data.get("key", ""), known.data.get("next", ""))
        return (known, token) if any(_same(token, each) for each in keys) else (None, "")

    # -- GET

    async def _verified(self, call: Call, known: Subscription | None, token: str) -> Response:
        """ "The subscriber MUST confirm that the hub.topic corresponds to a pending subscription" """
        try:
            given = {name: values[0] for name, values in parse_qs(call.query, max_num_fields=100).items()}
        except ValueError:
            given = {}
        mode, topic = given.get("hub.mode"), given.get("hub.topic", "")
        if known is None or not _same_address(topic, known.data.get("topic", "")):
            return messages.plain(404, "this was not asked for")
        if mode == Mode.DENIED:
            await self._subscriber.give_up(known, f"the hub denies: {given.get('hub.reason', '')}", at_once=True)
            return messages.plain(200)
        challenge = given.get("hub.challenge", "")
        if not challenge or mode != known.data.get("wanted"):
            return messages.plain(404, "this was not asked for")
        if mode == Mode.UNSUBSCRIBE:
            await self._notices.subscriptions.remove(known.id)
        elif mode == Mode.SUBSCRIBE:
            await self._leased(known, token, given.get("hub.lease_seconds", ""))
        return messages.plain(200, challenge)

    async def _leased(self, known: Subscription, token: str, seconds: str) -> None:
        now = self._notices.clock.now()
        lease = float(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 16 else DAY
        lease = max(LEASE_MIN, min(lease, LEASE_MAX))
        data = {**known.data, "key": token}
        data = {name: value for name, value in data.items() if name not in ("next", "failed", "hops")}
        await self._notices.subscriptions.put(
            replace(
                known,
                state=State.ACTIVE,
                data=data,
                expires=now + lease,
                renew_at=now + lease - min(lease / 10, EARLY),
            )
        )
        await self._notices.service.admin.extend_push_lease(known.topic, now + lease)
        self._notices.wake()

    # -- POST

    async def _pushed(self, call: Call, known: Subscription | None, token: str) -> Response:
        """Acknowledged with 2xx, which "SHOULD only indicate receipt of the message"."""
        if known is None or known.data.get("wanted") == Mode.UNSUBSCRIBE:
            return messages.plain(410, "there is no such subscription")
        if not _same(token, known.data.get("key", "")):
            return messages.plain(404, "this subscription has not been verified")
        now, notices = self._notices.clock.now(), self._notices
        if not self._sources.let(str(known.id), now, notices.settings().source_limit):
            return messages.plain(429, "not so often, please", ("Retry-After", "60"))
        accepted = messages.plain(202, "thank you")
        if known.state is State.PAUSED:
            return accepted
        if known.secret and not messages.is_signed(
            call.request.fields.get("x-hub-signature"), known.secret, call.content
        ):
            # "If the signature does not match, subscribers MUST locally ignore the message as invalid."
            await notices.subscriptions.heard(known.id, now, "a push without a valid signature was ignored", good=False)
            return accepted
        await notices.service.admin.record_push(known.topic, known.expires)
        reason = await self._taken(call, known)
        if reason:
            await notices.bell.promise([known.topic])
        words = f"told; fetched, for {reason}" if reason else "told, with the content"
        await notices.subscriptions.heard(known.id, now, words, good=True)
        return accepted

    async def _taken(self, call: Call, known: Subscription) -> str:
        """Why the content that came is not used; empty where it is."""
        secure = known.data.get("over", "").startswith("https:") or known.topic.startswith("http:")
        if not known.secret or not secure:
            return "what came may have been changed on its way"
        if not covers_topic(self._notices, known.topic, known.data.get("topic", known.topic)):
            return "what it is the content of is for other readers"
        fields = call.request.fields
        try:
            limit = content_coding.reasonable(len(call.content), self._notices.settings().decoded_max)
            work = partial(content_coding.decode, call.content, fields.get("content-encoding"), limit=limit)
            body = await self._notices.service.workshop.do(work)
        except FeedproxyError as error:
            return f"what came cannot be read ({error})"
        return await self._notices.service.admin.apply_push(known.topic, body, fields.get("content-type"))


def _same(one: str, other: str) -> bool:
    return bool(other) and hmac.compare_digest(one.encode(), other.encode())


def _same_address(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return uri.normalise(one) == uri.normalise(other)
    except BadTarget:
        return False
