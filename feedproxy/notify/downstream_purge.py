"""Purge sinks: caches in front of a publisher's proxy (a CDN, Varnish) that purge a feed when it changes.

A sink is a URL, which may have a prefix:

    http://varnish.example:6081/                  PURGE, with the feed's key in a Surrogate-Key field
    url:http://nginx.example/                     PURGE of the feed's public path there, for caches keyed by URL
    https://api.example/purge/{key}               POST; {key} stands for the feed's key

The key is that of the Surrogate-Key field of responses. It purges all representations of the feed together: codings
and conversions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from feedproxy.errors import BadTarget, FeedproxyError, UsageError
from feedproxy.http import uri
from feedproxy.http.field_values import is_token
from feedproxy.http.message import Fields, Response
from feedproxy.notify.pings.sinks import own_user_agent
from feedproxy.notify.protocol import DAY, Change, Delivered, Delivery, DeliveryRequest, Message, Retry, Verdict
from feedproxy.notify.subscriptions import Subscription
from feedproxy.request.upstream_request import surrogate_key
from feedproxy.request.url_mapping import is_upstream_target, to_public
from feedproxy.settings import Settings
from feedproxy.upstream.callback_client import AddressTrust


class PurgeMethod(StrEnum):
    """The form of a purge request."""

    KEY = "key"
    URL = "url"
    TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class PurgeSink:
    """Where to purge, and how. `url` is a template where `{key}` is in it."""

    method: PurgeMethod
    url: str


def read_purge_sink(text: str) -> PurgeSink:
    """A sink as it is written in an option. Raises UsageError."""
    said = text.strip()
    by_url = said.startswith("url:")
    url = said.removeprefix("url:")
    how = PurgeMethod.URL if by_url else PurgeMethod.TEMPLATE if "{key}" in url else PurgeMethod.KEY
    try:
        uri.normalise(url.replace("{key}", "feed-0"))
    except BadTarget as error:
        raise UsageError(f"a purge sink is an address such as http://127.0.0.1:6081/, not {text!r}: {error}") from error
    if by_url and urlsplit(url).path not in ("", "/"):
        raise UsageError(f"the purge sink {text!r} gets the feed's own path: it has none itself")
    return PurgeSink(how, url)


def read_purge_fields(lines: Iterable[str]) -> Fields:
    """Return the fields of `Name: value` lines for every purge. Raises UsageError, which does not repeat the value."""
    read: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not is_token(name) or not value.strip() or not value.isascii() or not value.isprintable():
            raise UsageError("invalid purge field: expected NAME: VALUE, such as Fastly-Key: SECRET")
        read.append((name, value.strip()))
    return Fields(read)


class DownstreamPurge:
    """The protocol `purge`: the configured caches purge feeds that change or move."""

    name = "purge"
    retry_for = DAY
    remove_on_failure = False

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def extra_deliveries(self, change: Change) -> Iterable[DeliveryRequest]:
        """Return a purge at every sink. Unlisted feeds are purged, too: the key discloses nothing of a feed."""
        return self.purge_requests(change.target, number=change.number)

    def purge_requests(self, target: str, *, number: int = 0) -> Iterable[DeliveryRequest]:
        """Return the purges of a target at every sink; none unless it is a feed of the upstream."""
        settings = self._settings()
        if is_upstream_target(target, settings):
            for each in settings.purge_sinks:
                yield DeliveryRequest(self.name, "purge", target, read_purge_sink(each).url, change=number, data=each)

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """Return the purge request. Sinks are the operator's own machines: their addresses are not checked."""
        settings, order = self._settings(), delivery.request
        if order.data not in settings.purge_sinks:
            return None  # the operator has removed the sink
        sink, key = read_purge_sink(order.data), surrogate_key(order.topic)
        fields = Fields([("User-Agent", own_user_agent(settings)), ("Surrogate-Key", key)])
        for name, value in read_purge_fields(settings.purge_fields):
            fields = fields.with_field(name, value)
        match sink.method:
            case PurgeMethod.TEMPLATE:
                return Message("POST", sink.url.replace("{key}", key), fields, address_trust=AddressTrust.OPERATOR_HOST)
            case PurgeMethod.URL:
                split = urlsplit(to_public(order.topic, settings))
                path = (split.path or "/") + (f"?{split.query}" if split.query else "")
                return Message(
                    "PURGE",
                    sink.url.rstrip("/") + path,
                    fields.with_field("Host", split.netloc),
                    address_trust=AddressTrust.OPERATOR_HOST,
                )
        return Message("PURGE", sink.url, fields, address_trust=AddressTrust.OPERATOR_HOST)

    async def interpret(
        self, delivery: Delivery, subscription: Subscription | None, answer: Response | FeedproxyError
    ) -> Verdict:
        """Return Delivered for 2xx, and for 404 and 410: the cache has no copy.

        Other responses are retried, refusals too: the cache keeps its old copy until the operator has corrected the
        access rule or the token.
        """
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if 200 <= answer.status < 300 or answer.status in (404, 410):
            return Delivered(f"{answer.status}")
        return Retry(f"status {answer.status}")

    async def renew(self, subscription: Subscription) -> None:
        """Do nothing: this protocol has no subscriptions."""
