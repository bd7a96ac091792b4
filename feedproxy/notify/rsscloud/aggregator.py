"""The rssCloud aggregator: it registers at the `cloud` of feeds that feedproxy serves, and receives notifications.

The aggregator registers again at each start. The description of rssCloud says: "It will work for systems with non-fixed
IP addresses if the workstation software re-registers at startup."
"""

import xmlrpc.client
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec.structs import replace

from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.feed.channel_addresses import cloud_address
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.notify.endpoint_responses import plain_text
from feedproxy.notify.notification_protocol import Answer, Delivery, Message, Retry, Verdict
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.outbound_subscriptions import OutboundSubscriptions, SubscriptionTarget, callback_of
from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.notify.rpc import soap
from feedproxy.notify.rpc import xmlrpc as rpc
from feedproxy.notify.rsscloud import rsscloud_messages
from feedproxy.notify.rsscloud.cloud import REGISTRATION_LIFETIME
from feedproxy.notify.rsscloud.rsscloud_messages import (
    NAME,
    PROCEDURE_NAME,
    SOAP_NAMESPACE,
    NotificationMethod,
)
from feedproxy.notify.subscription_table import Subscription
from feedproxy.proxy.public_feeds import may_be_listed
from feedproxy.request.endpoint_registry import Call
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

PROCEDURE = "rssCloud.notify"
"""Name of the procedure that clouds call at feedproxy by XML-RPC. In SOAP calls, the name is the part after the dot."""
CHALLENGE_MAX = 256
"""Maximum number of characters in a cloud's challenge. A longer challenge is refused."""


def cloud_of(resource: Resource) -> SubscriptionTarget | None:
    """Return the cloud that a feed names, or None if the feed names no usable cloud. A cloud is usable if its protocol
    is known and its address is valid. For XML-RPC and SOAP, its procedure name must be valid or empty, too."""
    cloud = resource.channel.cloud if resource.channel is not None else None
    # "protocol is xml-rpc, soap or http-post (case-sensitive)"
    if cloud is None or cloud.protocol not in tuple(NotificationMethod):
        return None
    if not (callback := cloud_address(cloud)):
        return None
    procedure = cloud.register_procedure.strip()
    if procedure and not NotificationMethod(cloud.protocol).is_form and not PROCEDURE_NAME.fullmatch(procedure):
        return None
    return SubscriptionTarget(callback, {"way": cloud.protocol, "procedure": procedure})


RENEW_AFTER: Seconds = 24 * 3600
"""feedproxy renews a registration after this many seconds: "Workstations should register every 24 hours" (rssCloud)."""


class RssCloudAggregator:
    """The aggregator: it registers at clouds and answers their calls."""

    remove_on_failure = True

    def __init__(self, service: NotificationService) -> None:
        self._service = service
        self.subscriptions = OutboundSubscriptions(
            service, NAME, self.find_target, renew_after=RENEW_AFTER, lifetime=REGISTRATION_LIFETIME
        )
        self.renew = self.subscriptions.renew

    def find_target(self, resource: Resource) -> SubscriptionTarget | None:
        """Return the cloud to register at, or None if the feed names no valid cloud or feedproxy must not register.
        feedproxy must not register for a private feed, for a feed without `push_subscribe`, or at its own cloud."""
        cloud = cloud_of(resource)
        if cloud is None:
            return None
        settings = self._service.settings_for(resource.target)
        if not settings.push_subscribe or not may_be_listed(resource.target, settings, resource):
            return None
        public = settings.public_url.rstrip("/") + settings.endpoint_prefix
        return None if cloud.callback.startswith(public) else cloud

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        settings = self._service.settings()
        if subscription is None or not settings.public_url:
            return None
        return registration(subscription, settings)

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        """Return the verdict on a cloud's response, which is "true if it was able to do the registration, false
        otherwise"."""
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if answer.status == 429 or answer.status >= 500:
            return Retry(f"status {answer.status}")
        assert subscription is not None
        # The cloud may repeat the secret callback, and the reason is logged. It is redacted before it is cut.
        content = answer.body.replace(subscription.secret.encode(), b"redacted")
        try:
            succeeded, reason = _registration_result(
                NotificationMethod(subscription.data["way"]), replace(answer, body=content)
            )
        except InvalidCall as error:
            succeeded, reason = False, str(error)
        reason = reason.replace(subscription.secret, "redacted")
        if not succeeded:
            return await self.subscriptions.on_rejected(subscription, reason or f"status {answer.status}, result false")
        return await self.subscriptions.on_confirmed(subscription, reason or "registered")

    async def endpoint(self, call: Call) -> Response:
        """Answer a challenge or a notification at `/-/push/rsscloud/…`."""
        subscription = await self.subscriptions.find_by_callback(call.path.rpartition("/")[2])
        if call.request.method == "GET":
            return self._answer_challenge(call, subscription)
        if not call.content.lstrip().startswith(b"<"):
            form = dict(rsscloud_messages.parse_form(call.content))
            succeeded = await self._on_notification(subscription, form.get("url", ""))
            return plain_text(200, "Thanks.") if succeeded else plain_text(404, "There is no such subscription.")
        try:
            return await self._answer_call(rpc.utf8_content(call.content, call.request.fields), subscription)
        except InvalidCall as error:
            return rpc.write_response(xmlrpc.client.Fault(rsscloud_messages.FAULT_CODE, str(error)))

    def _answer_challenge(self, call: Call, subscription: Subscription | None) -> Response:
        form = dict(rsscloud_messages.parse_form(call.query.encode("latin-1", "replace")))
        token = form.get("challenge", "")
        if (
            subscription is None
            or not 0 < len(token) <= CHALLENGE_MAX
            or not uri.is_same(form.get("url", ""), subscription.topic)
        ):
            return plain_text(404, "There is no such subscription.")
        return plain_text(200, token)

    async def _answer_call(self, content: bytes, subscription: Subscription | None) -> Response:
        """Answer a notification by XML-RPC or SOAP. The notification has "one parameter, the url of the channel that
        changed"."""
        if soap.split_tag(soap.parse_document(content).tag)[1] == "Envelope":
            soap_call = soap.read_call(content)
            texts = [value for _, value in soap_call.parameters if isinstance(value, str)]
            return soap.write_response(soap_call, await self._on_notification(subscription, texts[0] if texts else ""))
        _, parameters = rpc.read_call(content)
        if len(parameters) != 1 or not isinstance(parameters[0], str):
            raise InvalidCall("invalid notification: expected one parameter, the URL of the changed feed")
        return rpc.write_response(await self._on_notification(subscription, parameters[0]))

    async def _on_notification(self, subscription: Subscription | None, url: str) -> bool:
        if subscription is None or not uri.is_same(url, subscription.topic):
            return False
        return await self.subscriptions.on_notification(subscription)


def registration(subscription: Subscription, settings: Settings) -> Message:
    """Return the registration request for a subscription."""
    callback = urlsplit(callback_of(settings, NAME, subscription))
    secure = callback.scheme == "https"
    port = callback.port or (443 if secure else 80)
    method, procedure = NotificationMethod(subscription.data["way"]), subscription.data["procedure"]
    if method.is_form:
        lines = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "text/xml, application/xml")]
        own_method = NotificationMethod.HTTPS_POST if secure and port != 443 else NotificationMethod.HTTP_POST
        form = {
            "notifyProcedure": "",
            "protocol": str(own_method),
            "port": str(port),
            "path": callback.path,
            "domain": callback.hostname or "",
            "url1": subscription.topic,
        }
        return Message("POST", subscription.callback, Fields(lines), urlencode(form).encode())
    lines = [("Content-Type", "text/xml; charset=utf-8")]
    # The procedure of 2003 has five parameters and notifies the caller's address. Later versions also have a domain.
    domain = [callback.hostname or ""] if procedure.startswith("rssCloud.") else []
    if method is NotificationMethod.XML_RPC:
        call_parameters: tuple[Any, ...] = (PROCEDURE, port, callback.path, str(method), [subscription.topic], *domain)
        body = xmlrpc.client.dumps(call_parameters, procedure or "rssCloud.pleaseNotify").encode()
        return Message("POST", subscription.callback, Fields(lines), body)
    parameters: list[tuple[str, soap.ParameterValue | int]] = [
        ("notifyProcedure", PROCEDURE.rpartition(".")[2]),
        ("port", port),
        ("path", callback.path),
        ("protocol", str(method)),
        ("urlList", [subscription.topic]),
    ]
    parameters += [("domain", name) for name in domain]
    lines.append(("SOAPAction", f'"{urlsplit(subscription.callback).path}"'))
    body = soap.write_call(procedure.rpartition(".")[2] or "pleaseNotify", parameters, SOAP_NAMESPACE)
    return Message("POST", subscription.callback, Fields(lines), body)


def _registration_result(method: NotificationMethod, answer: Response) -> tuple[bool, str]:
    if method.is_form:
        if not 200 <= answer.status < 300:
            return False, f"status {answer.status}"
        return rsscloud_messages.read_result(answer.body)
    content = rpc.utf8_content(answer.body, answer.fields)
    value = rpc.read_answer(content) if method is NotificationMethod.XML_RPC else soap.read_answer(content)
    return value is True or value in ("1", "true"), ""
