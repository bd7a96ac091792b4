"""Purge sinks: caches in front of feedproxy, such as a CDN or Varnish. They must purge a feed when the feed changes.

    http://varnish.example:6081/                  PURGE, with the feed's key in a Surrogate-Key field
    url:http://nginx.example/                     PURGE of the feed's public path, for caches keyed by URL
    https://api.example/purge/{key}               POST; {key} stands for the feed's key

One purge by key removes all codings and conversions of a feed.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from urllib.parse import urlsplit

from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.http.field_values import is_token
from feedproxy.http.message import Fields
from feedproxy.http.target_uri.url_redaction import redact_setting
from feedproxy.notify.notification_protocol import (
    Answer,
    Change,
    Delivered,
    Delivery,
    DeliveryRequest,
    Message,
    Retry,
    Verdict,
)
from feedproxy.notify.sink_address import SinkAddress, check_sink_url, split_prefix
from feedproxy.notify.subscription_table import Subscription
from feedproxy.request.feed_id import surrogate_key
from feedproxy.request.upstream_and_public_urls import is_upstream_target, to_public
from feedproxy.settings import Settings
from feedproxy.upstream.address_policy import AddressTrust


class PurgeMethod(StrEnum):
    """The way in which a purge request names the feed: by its key in a field, by its public path, or by its key in the
    URL."""

    KEY = "key"
    URL = "url"
    TEMPLATE = "template"


type PurgeSink = SinkAddress[PurgeMethod]
"""The address of a purge sink: a URL, or a template that contains `{key}`."""


def read_purge_sink(text: str) -> PurgeSink:
    """Return the sink that one value of the option `purge_sinks` names. Raises UsageError if the value is invalid."""
    prefix, url = split_prefix(text, (PurgeMethod.URL,))
    check_sink_url(text, url.replace("{key}", "feed-0"), "a URL such as http://127.0.0.1:6081/")
    if prefix is not None and urlsplit(url).path not in ("", "/"):
        raise UsageError(f"invalid purge sink {redact_setting(text)!r}: expected a URL without a path")
    return SinkAddress(prefix or (PurgeMethod.TEMPLATE if "{key}" in url else PurgeMethod.KEY), url)


def read_purge_fields(lines: Iterable[str]) -> Fields:
    """Return the fields in the lines `NAME: VALUE` of the option `purge_fields`. Raises UsageError if a line is
    invalid. The error's message does not contain the line, because the value can be a secret."""
    fields: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not is_token(name) or not value.strip() or not value.isascii() or not value.isprintable():
            raise UsageError("invalid purge field: expected NAME: VALUE, such as Fastly-Key: SECRET")
        fields.append((name, value.strip()))
    return Fields(fields)


class DownstreamPurge:
    """The protocol `purge`: the configured caches purge each feed that changes or moves."""

    name = "purge"
    remove_on_failure = False

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def extra_deliveries(self, change: Change) -> Iterable[DeliveryRequest]:
        """Return a purge at each sink. Private feeds are purged, too: the caches can have copies, and the key discloses
        nothing about the feed."""
        return self.purge_requests(change.target, number=change.number)

    def purge_requests(self, target: str, *, number: int = 0) -> Iterable[DeliveryRequest]:
        """Return the purge of a target at each purge sink. Return no purge if the target does not belong to the
        upstream. `number` is the id of the change in the change log, or 0 if the purge has another reason."""
        settings = self._settings()
        if is_upstream_target(target, settings):
            for sink in settings.purge_sinks:
                yield DeliveryRequest(self.name, "purge", target, read_purge_sink(sink).url, change=number, data=sink)

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """Return the purge request, or None if the operator has removed the sink. The operator has configured the
        address, so it is not checked."""
        settings, request = self._settings(), delivery.request
        if request.data not in settings.purge_sinks:
            return None  # the operator has removed the sink
        sink, key = read_purge_sink(request.data), surrogate_key(request.topic)
        fields = Fields([("Surrogate-Key", key)])
        for name, value in read_purge_fields(settings.purge_fields):
            fields = fields.with_field(name, value)
        match sink.kind:
            case PurgeMethod.TEMPLATE:
                return Message("POST", sink.url.replace("{key}", key), fields, address_trust=AddressTrust.OPERATOR_HOST)
            case PurgeMethod.URL:
                public_url = urlsplit(to_public(request.topic, settings))
                path = (public_url.path or "/") + (f"?{public_url.query}" if public_url.query else "")
                return Message(
                    "PURGE",
                    sink.url.rstrip("/") + path,
                    fields.with_field("Host", public_url.netloc),
                    address_trust=AddressTrust.OPERATOR_HOST,
                )
        return Message("PURGE", sink.url, fields, address_trust=AddressTrust.OPERATOR_HOST)

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        """Return Delivered for 2xx, and for 404 and 410, by which a cache says that it has no copy. Every other
        response leads to a retry, even a refusal (401, 403): the operator can correct the cache's access rule."""
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if 200 <= answer.status < 300 or answer.status in (404, 410):
            return Delivered(f"{answer.status}")
        return Retry(f"status {answer.status}")
