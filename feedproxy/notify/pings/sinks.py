"""Ping sinks: servers that feedproxy pings for every change of a publisher's own feeds (RSS Feed State, Pinging).

A sink is a URL, which can have a prefix:

    https://sink.example/ping?name={name}&url={url}   HTTP GET; {feed} stands for the feed's URL
    https://sink.example/ping?name={0}&url={1}        HTTP GET, as in RSS Feed State; without {1}, {0} is the URL
    https://rpc.sink.example/RPC2                     XML-RPC, weblogUpdates.ping
    extended:https://rpc.sink.example/RPC2            XML-RPC, weblogUpdates.extendedPing
"""

import json
from collections.abc import Callable, Iterable
from enum import StrEnum
from urllib.parse import quote, urlsplit

from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.http.message import Fields
from feedproxy.http.target_uri.url_redaction import redact_setting
from feedproxy.notify.endpoint_responses import XML
from feedproxy.notify.notification_protocol import (
    Answer,
    Change,
    Delivered,
    Delivery,
    DeliveryRequest,
    Message,
    Refused,
    Retry,
    Verdict,
)
from feedproxy.notify.pings.ping_messages import InvalidCall, Ping
from feedproxy.notify.rpc.xmlrpc import read_answer, utf8_content, write_call
from feedproxy.notify.sink_address import SinkAddress, check_sink_url, split_prefix
from feedproxy.notify.subscription_table import Subscription
from feedproxy.request.upstream_and_public_urls import displayed_url, is_upstream_target
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.upstream.address_policy import AddressTrust


class SinkKind(StrEnum):
    """The form of a sink's pings: HTTP GET, weblogUpdates.ping, or weblogUpdates.extendedPing."""

    GET = "get"
    SIMPLE = "simple"
    EXTENDED = "extended"


type PingSink = SinkAddress[SinkKind]
"""The address of a ping sink: a URL, or for HTTP GET a template."""


def read_ping_sink(text: str) -> PingSink:
    prefix, url = split_prefix(text, SinkKind)
    kind = prefix or (SinkKind.GET if "{" in url else SinkKind.SIMPLE)
    is_template = kind is SinkKind.GET
    example = expand_template(url, "name", "http://site.invalid/", "http://site.invalid/feed") if is_template else url
    check_sink_url(text, example, "a URL such as https://rpc.example/RPC2")
    if is_template and example == url:
        raise UsageError(f"invalid ping sink {redact_setting(text)!r}: expected {{url}} in the template")
    return SinkAddress(kind, url)


def expand_template(template: str, name: str, url: str, feed: str) -> str:
    """Return the URL of a ping by HTTP GET: the template with percent-encoded values."""
    numbered = {"0": name, "1": url} if "{1}" in template else {"0": url}
    values = {"name": name, "url": url, "feed": feed or url, **numbered}
    for word, value in values.items():
        template = template.replace(f"{{{word}}}", quote(value, safe=""))
    return template


def ping_message(sink: PingSink, *, name: str, url: str, feed: str = "") -> Message:
    """Return the ping for a site, or for one of its feeds.

    The addresses of the sink's host name are checked, because the owner of the name can change them. The operator chose
    the sink, so its port may be any port, and its host may be any IP address or `localhost`.
    """
    trust = AddressTrust.CONFIGURED_NAME
    if sink.kind is SinkKind.GET:
        return Message("GET", expand_template(sink.url, name, url, feed), address_trust=trust)
    if sink.kind is SinkKind.EXTENDED:
        body = write_call("weblogUpdates.extendedPing", name, url, url, feed or url)
    else:
        body = write_call("weblogUpdates.ping", name, url)
    return Message("POST", sink.url, Fields([("Content-Type", XML)]), body, address_trust=trust)


def site_ping_request(sink: str, ping: Ping) -> DeliveryRequest:
    """Return the request to deliver `ping`, which the operator asked for, to the sink."""
    data = json.dumps({"name": ping.name or urlsplit(ping.url).netloc, "url": ping.url, "feed": ping.feed})
    return DeliveryRequest("ping", "ping", ping.feed or ping.url, sink, data=data)


def interpret_response(sink: PingSink, answer: Answer) -> Verdict:
    """Return the verdict on a sink's response. A ping is repeated after a server error, a 429 or a failed connection.
    Any other refusal is final."""
    if isinstance(answer, FeedproxyError):
        return Retry(str(answer))
    if answer.status == 429 or answer.status >= 500:
        return Retry(f"status {answer.status}")
    if not 200 <= answer.status < 300:
        return Refused(f"status {answer.status}")
    if sink.kind is SinkKind.GET:
        return Delivered(f"{answer.status}")
    try:
        result = read_answer(utf8_content(answer.body, answer.fields))
    except InvalidCall as error:
        return Refused(str(error))
    if not isinstance(result, dict):
        return Delivered("response without a struct")
    # Some servers send "flerror", some "flError": the case is ignored.
    struct = {str(key).lower(): value for key, value in result.items()}
    message = str(struct.get("message", ""))[:200]
    return Refused(f"refused: {message}") if struct.get("flerror") else Delivered(message)


class PingSinks:
    """The protocol `ping`: the configured sinks are pinged for changes of the upstream's feeds."""

    name = "ping"
    remove_on_failure = False

    def __init__(self, settings: Callable[[], Settings], resource: Callable[[str], Resource | None]) -> None:
        self._settings = settings
        self._resource = resource

    def extra_deliveries(self, change: Change) -> Iterable[DeliveryRequest]:
        """Return a ping to each sink for a feed of the upstream that public lists may name. Return no ping for any
        other feed, and none at all if `public_url` is not set."""
        settings = self._settings()
        if change.listed and settings.public_url and is_upstream_target(change.target, settings):
            for sink in settings.ping_sinks:
                yield DeliveryRequest(self.name, "ping", change.target, sink, change=change.number)

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """Return the ping with the feed's current title and site, or None if the operator has removed the sink. A ping
        that the operator requested (`site_ping_request`) has the title and site that the operator stated."""
        settings, request = self._settings(), delivery.request
        if request.callback not in settings.ping_sinks:
            return None  # the operator has removed the sink
        sink = read_ping_sink(request.callback)
        if request.data:
            return ping_message(sink, **json.loads(request.data))
        feed = displayed_url(request.topic, settings)
        resource = self._resource(request.topic)
        channel = resource.channel if resource is not None else None
        link = channel.link if channel is not None and channel.link.startswith(("http://", "https://")) else ""
        split = urlsplit(feed)
        name = " ".join(channel.title.split()) if channel is not None else ""
        home = displayed_url(link, settings) if link else f"{split.scheme}://{split.netloc}/"
        return ping_message(sink, name=name or split.netloc, url=home, feed=feed)

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        return interpret_response(read_ping_sink(delivery.request.callback), answer)
