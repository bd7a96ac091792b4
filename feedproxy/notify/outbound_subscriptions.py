"""What we asked to be told of: kept up, confirmed, given up.  For protocols where the subscriber keeps the books.

A feed's document (a `cloud`) or the operator (a rule) says whom to ask. Asking is a delivery, `what="subscribe"`, so it
is tried again and survives a restart. Every subscription has an address of its own to be called at, with a secret in
it: who calls there was told it by us. After a restart, or when the machine was away for a while, all are confirmed.
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from feedproxy.clock import Seconds
from feedproxy.notify.notification_service import Notices
from feedproxy.notify.protocol import DAY, Delivered, Order, Refused, Verdict
from feedproxy.notify.subscriptions import Role, State, Subscription
from feedproxy.notify.topics import is_withdrawn
from feedproxy.refresh.ingest.link_injection import endpoint_address
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

PAGE = 500

ASKING: Seconds = 2 * DAY
"""Longer than anybody is asked in vain (duplex_protocol.py: patience)."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Whom to ask to be told of a feed's changes, and what else the asking needs."""

    callback: str
    data: Mapping[str, str]


class Hearing:
    """The subscriptions of one protocol. `wish` says whom to ask for a feed; None where nobody is to be asked.

    `renewed` and `lasts` are when a subscription is confirmed, and when it has ended where nobody confirms it;
    with `by_pushes` each push confirms it.
    """

    def __init__(
        self,
        notices: Notices,
        protocol: str,
        wish: Callable[[Resource], Wish | None],
        *,
        renewed: Seconds,
        lasts: Seconds,
        by_pushes: bool = False,
    ) -> None:
        self._notices = notices
        self._protocol = protocol
        self._wish = wish
        self._renewed = renewed
        self._lasts = lasts
        self._by_pushes = by_pushes
        notices.watchers.append(self.watch)
        notices.on_landed.append(self._landed)
        notices.on_start.append(self.confirm_all)

    def watch(self, resource: Resource) -> None:
        """A feed was stored, or is held at the start: it may name somebody to ask."""
        if self._notices.hears and (wish := self._wish(resource)) is not None:
            self._notices.soon(partial(self.want, resource.target, wish))

    def _landed(self, target: str) -> None:
        if is_withdrawn(self._notices, target):
            self._notices.soon(partial(self._withdrawn, target))

    async def _withdrawn(self, topic: str) -> None:
        """A feed is for everybody no longer: who is not to be asked for it any more is forgotten at once."""
        resource = self._notices.service.store.peek(topic)
        wish = self._wish(resource) if resource is not None else None
        for each in await self._notices.subscriptions.all(role=Role.HEAR, protocol=self._protocol, topic=topic):
            if wish is None:
                await self._notices.subscriptions.remove(each.id)
                await self._notices.service.admin.end_push_lease(topic)

    async def want(self, topic: str, wish: Wish) -> None:
        """Ask to be told, unless that is done already; who was asked before and is named no longer is forgotten."""
        subscriptions, now = self._notices.subscriptions, self._notices.clock.now()
        secret = secrets.token_hex(16)
        for each in await subscriptions.all(role=Role.HEAR, protocol=self._protocol, topic=topic):
            if each.callback != wish.callback:
                await subscriptions.remove(each.id)
            elif dict(each.data) == dict(wish.data):
                return
            else:
                secret = each.secret
        new = Subscription(
            *(Role.HEAR, self._protocol, topic, wish.callback),
            expires=now + max(self._lasts, ASKING),
            since=now,
            secret=secret,
            data=wish.data,
        )
        await self._ask(await subscriptions.put(new))

    async def confirm_all(self) -> None:
        """Ask again for all: "when the service comes back on-line it should confirm all subscriptions"."""
        last = 0
        while page := await self._notices.subscriptions.all(
            role=Role.HEAR, protocol=self._protocol, after=last, limit=PAGE
        ):
            for each in page:
                # What was told while we were away is lost: until the next push the feed is asked as ever.
                await self._notices.service.admin.end_push_lease(each.topic)
                await self.renew(each)
            last = page[-1].id

    async def renew(self, subscription: Subscription) -> None:
        """Ask again, unless it is not wanted any more."""
        resource = self._notices.service.store.peek(subscription.topic)
        wish = self._wish(resource) if resource is not None and self._notices.hears else None
        if subscription.state is State.PAUSED:
            return
        if wish is None:
            await self._notices.subscriptions.remove(subscription.id)
            await self._notices.service.admin.end_push_lease(subscription.topic)
        elif wish.callback != subscription.callback or dict(wish.data) != dict(subscription.data):
            await self.want(subscription.topic, wish)
        else:
            await self._ask(subscription)

    async def agreed(self, subscription: Subscription, words: str) -> Verdict:
        """The other side will tell us."""
        await self._lives(subscription)
        return Delivered(words)

    async def refused(self, subscription: Subscription, words: str) -> Verdict:
        """The other side will not tell us: it is asked again tomorrow."""
        now = self._notices.clock.now()
        await self._notices.subscriptions.prolong(
            subscription.id, expires=now + ASKING, renew_at=now + DAY, state=State.PENDING
        )
        await self._notices.service.admin.end_push_lease(subscription.topic)
        return Refused(words)

    async def caller(self, path: str) -> Subscription | None:
        """Whose address that is, by the end of its path; None for nobody's."""
        number, _, secret = path.partition("-")
        if not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        found = await self._notices.subscriptions.get(int(number))
        if found is None or found.role is not Role.HEAR or found.protocol != self._protocol:
            return None
        return found if hmac.compare_digest(found.secret.encode(), secret.encode("utf-8", "replace")) else None

    async def told(self, subscription: Subscription) -> bool:
        """The other side says that the feed has changed: it is fetched. False where that is not wanted any more.

        Nobody but who was given the address can say it, so how often one address rings does not matter.
        """
        resource = self._notices.service.store.peek(subscription.topic)
        if resource is None or self._wish(resource) is None:
            return False
        if subscription.state is not State.PAUSED:
            await self._notices.subscriptions.heard(
                subscription.id, self._notices.clock.now(), "it told of a change", good=True
            )
            if self._by_pushes:
                await self._lives(subscription)
            await self._notices.service.admin.record_push(subscription.topic, subscription.expires)
            await self._notices.bell.promise([subscription.topic])
        return True

    async def _lives(self, subscription: Subscription) -> None:
        now = self._notices.clock.now()
        await self._notices.subscriptions.prolong(
            subscription.id, expires=now + self._lasts, renew_at=now + self._renewed, state=State.ACTIVE
        )

    async def _ask(self, subscription: Subscription) -> None:
        # It has to stand as long as the asking may take, be it that its time is over: we slept, or nobody answers.
        least = self._notices.clock.now() + ASKING
        if subscription.expires < least:
            await self._notices.subscriptions.prolong(
                subscription.id, expires=least, renew_at=least if subscription.renew_at is not None else None
            )
        await self._notices.order(
            Order(self._protocol, "subscribe", subscription.topic, subscription.callback, subscription.id)
        )


def own_address(settings: Settings, protocol: str, subscription: Subscription) -> str:
    """Where this subscription's pushes come in; `public_url` has to be there."""
    return endpoint_address(settings, f"push/{protocol}/{subscription.id}-{subscription.secret}")
