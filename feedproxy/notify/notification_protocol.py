"""The interface of a notification protocol, and the values that a protocol exchanges with the delivery worker."""

import typing
from collections.abc import Iterable

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import NO_FIELDS, Fields, Response
from feedproxy.notify.subscription_table import Subscription
from feedproxy.upstream.address_policy import AddressTrust

SUBSCRIBER_REQUESTS = frozenset({"subscribe", "unsubscribe"})
"""Kinds of deliveries (`DeliveryRequest.what`) that feedproxy sends as a subscriber at another server."""


class Change(Struct, frozen=True):
    """A change of a feed's content. `number` is its id in the change log, `name` the title of the channel, and `url`
    the home page of the channel."""

    number: int
    target: str
    name: str
    url: str
    at: Instant
    listed: bool = True
    """True if public lists may name the feed (proxy/public_feeds.py)."""


class DeliveryRequest(Struct, frozen=True):
    protocol: str
    what: str
    topic: str
    callback: str
    subscription: int | None = None
    change: int = 0
    data: str = ""


class Delivery(Struct, frozen=True):
    """A queued delivery. `tries` counts the failed attempts since the instant `since`. If the feed changes again before
    the delivery is made, only `request` is replaced."""

    id: int
    request: DeliveryRequest
    host: str
    tries: int
    since: Instant


class Message(Struct, frozen=True):
    """An HTTP request to send, without User-Agent. `address_trust` tells whether a client or the operator named its
    URL."""

    method: str
    url: str
    fields: Fields = NO_FIELDS
    body: bytes = b""
    address_trust: AddressTrust = AddressTrust.UNTRUSTED


class Delivered(Struct, frozen=True):
    """Verdict: the delivery is complete."""

    reason: str = ""


class Retry(Struct, frozen=True):
    """Verdict: the attempt failed, and is repeated with growing delays for a day (delivery/delivery_retries.py).

    `not_before` is the earliest instant of the next attempt, or None if the response states none. The delivery worker
    sets this attribute.
    """

    reason: str
    not_before: Instant | None = None


class Refused(Struct, frozen=True):
    reason: str
    remove: bool = False


type Verdict = Delivered | Retry | Refused

type Answer = Response | FeedproxyError
"""The response to a message, or the error without a response (refused address, no connection, timeout)."""


class Sender(typing.Protocol):
    """The sender of a protocol's deliveries: it makes messages and interprets responses."""

    @property
    def remove_on_failure(self) -> bool:
        """Return whether the subscription is removed when the last attempt of a delivery has failed."""
        ...

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """Return the message to send now, or None to drop the delivery. Raises FeedproxyError if the message can be
        made only later."""
        ...

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        """Return the verdict on the answer to a message."""
        ...


class SinkSender(Sender, typing.Protocol):
    """The sender of messages to receivers that the operator configured, and that have no subscription."""

    @property
    def name(self) -> str:
        """Return the name of the protocol."""
        ...

    def extra_deliveries(self, change: Change) -> Iterable[DeliveryRequest]:
        """Return the deliveries for a change."""
        ...


class SubscriberSender(Sender, typing.Protocol):
    """The sender of feedproxy's own subscription requests at other servers."""

    async def renew(self, subscription: Subscription) -> None:
        """Enqueue the request that renews a subscription at another server, and set its next `renew_at`.

        If this method sets no new `renew_at`, the service calls this method again after RENEWAL_RETRY_DELAY seconds
        (subscription_table.py).
        """
        ...
