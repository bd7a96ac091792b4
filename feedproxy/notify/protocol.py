"""What a protocol has to say: what is sent for a delivery, and what the answer means."""

import typing
from collections.abc import Iterable
from dataclasses import dataclass, field

from feedproxy.clock import Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Response
from feedproxy.notify.subscriptions import Subscription
from feedproxy.upstream.callback_client import AddressTrust

DAY: Seconds = 86_400


@dataclass(frozen=True, slots=True)
class Change:
    """The content of a feed changed. `name` is the channel's title, `url` its site; `number` counts changes."""

    number: int
    target: str
    name: str
    url: str
    at: Instant
    listed: bool = True
    """Whether it may be named to everybody (proxy/visibility.py)."""


@dataclass(frozen=True, slots=True)
class DeliveryRequest:
    """Something to be sent: by which protocol, to whom, about which feed.

    There is one delivery for each (protocol, what, topic, callback): a second order for what is still waiting takes
    its place, so a queue is never longer than the list of those who subscribed.
    """

    protocol: str
    what: str
    topic: str
    callback: str
    subscription: int | None = None
    change: int = 0
    data: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An order under way: `tries` made so far, `since` the order was given (or the first failure's change came)."""

    id: int
    request: DeliveryRequest
    host: str
    tries: int
    since: Instant


@dataclass(frozen=True, slots=True)
class Message:
    """What goes out. `fields` hold the Content-Type; `named` says by whom the address was."""

    method: str
    url: str
    fields: Fields = field(default_factory=Fields)
    body: bytes = b""
    address_trust: AddressTrust = AddressTrust.UNTRUSTED


@dataclass(frozen=True, slots=True)
class Delivered:
    """It is done."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not now. It is tried again with growing pauses until the protocol's patience ends, and once more then."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Never. `remove` forgets the subscription as well."""

    reason: str
    remove: bool = False


type Verdict = Delivered | Retry | Refused


class Protocol(typing.Protocol):
    """A way of telling and hearing. Names are those of the texts: `ping`, `rsscloud`, `websub`, `cnws`."""

    @property
    def name(self) -> str: ...

    @property
    def retry_for(self) -> Seconds:
        """How long what fails is tried again; DAY at least."""
        ...

    @property
    def remove_on_failure(self) -> bool:
        """Whether the subscription goes when patience ends; else only the delivery does."""
        ...

    def extra_deliveries(self, change: Change) -> Iterable[DeliveryRequest]:
        """What is to be sent for a change beside what subscriptions ask for."""
        ...

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """What to send now; None where there is nothing to say any more, and the delivery is dropped."""
        ...

    async def interpret(
        self, delivery: Delivery, subscription: Subscription | None, answer: Response | FeedproxyError
    ) -> Verdict:
        """What the answer means. An error is no answer: address refused (Forbidden), no connection, too slow."""
        ...

    async def renew(self, subscription: Subscription) -> None:
        """`renew_at` of something we hear has come: queue the order that asks again, and set the next `renew_at`.

        Where it does not, it is asked again a quarter of an hour later.
        """
        ...
