"""The workstation: we register with the `cloud` of feeds that are read here, and are told of their changes.

"By convention registrations expire after 25 hours. Workstations should register every 24 hours for each subscription
to keep them current." And: "It will work for systems with non-fixed IP addresses if the workstation software
re-registers at startup."
"""

import xmlrpc.client
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.notify import soap
from feedproxy.notify import xmlrpc as rpc
from feedproxy.notify.notification_service import Notices
from feedproxy.notify.outbound_subscriptions import Hearing, Wish, own_address
from feedproxy.notify.pings.messages import BadCall
from feedproxy.notify.pings.sinks import own_agent
from feedproxy.notify.protocol import Delivery, Message, Retry, Verdict
from feedproxy.notify.responses import plain
from feedproxy.notify.rsscloud import messages
from feedproxy.notify.rsscloud.messages import LASTS, NAME, RENEWED, SOAP_NAMESPACE, Way
from feedproxy.notify.subscriptions import Subscription
from feedproxy.notify.topics import is_private
from feedproxy.request.endpoints import Call
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

PROCEDURE = "rssCloud.notify"
"""What the cloud calls here, where it calls a procedure; in SOAP its last part."""
CHALLENGE_MAX = 256


def cloud_of(resource: Resource) -> Wish | None:
    """The cloud that a feed names; None where it names none that could be called."""
    cloud = resource.channel.cloud if resource.channel is not None else None
    # "protocol is xml-rpc, soap or http-post (case-sensitive)"
    if cloud is None or cloud.protocol not in tuple(Way) or not cloud.domain.strip():
        return None
    port, path = cloud.port.strip(), cloud.path.strip()
    scheme = "https" if port == "443" or cloud.protocol == Way.HTTPS_POST else "http"
    try:
        callback = uri.normalise(f"{scheme}://{cloud.domain.strip()}:{port}{path if path[:1] == '/' else f'/{path}'}")
    except BadTarget:
        return None
    return Wish(callback, {"way": cloud.protocol, "procedure": cloud.register_procedure.strip()})


class Workstation:
    """The subscriptions to clouds."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.hearing = Hearing(notices, NAME, self.wish, renewed=RENEWED, lasts=LASTS)

    def wish(self, resource: Resource) -> Wish | None:
        """The cloud to register with: of a public feed, and not our own."""
        found = cloud_of(resource)
        if found is None:
            return None
        settings = self._notices.settings_for(resource.target)
        if not settings.push_subscribe or is_private(resource, settings):
            return None
        public = settings.public_url.rstrip("/") + settings.endpoint_prefix
        return None if found.callback.startswith(public) else found

    async def message(self, delivery: Delivery, subscription: Subscription) -> Message | None:
        """The registration, in the protocol of the cloud."""
        settings = self._notices.settings()
        if not settings.public_url:
            return None
        return registration(subscription, settings)

    async def judge(self, subscription: Subscription, answer: Response | FeedproxyError) -> Verdict:
        """ "The cloud returns true if it was able to do the registration, false otherwise"."""
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if answer.status == 429 or answer.status >= 500:
            return Retry(f"it answered {answer.status}")
        try:
            done, words = _answered(Way(subscription.data["way"]), answer)
        except BadCall as error:
            done, words = False, str(error)
        if not done:
            return await self.hearing.refused(subscription, words or f"it answered {answer.status} and false")
        return await self.hearing.agreed(subscription, words or "registered")

    async def endpoint(self, call: Call) -> Response:
        """`/-/push/rsscloud/…`: challenges, and notifications in whatever protocol."""
        subscription = await self.hearing.caller(call.path.rpartition("/")[2])
        if call.request.method == "GET":
            return self._challenged(call, subscription)
        if not call.content.lstrip().startswith(b"<"):
            given = dict(messages.form(call.content))
            done = await self._told(subscription, given.get("url", ""))
            return plain(200, "Thanks.") if done else plain(404, "Nobody asked for that here.")
        try:
            return await self._called(call.content, subscription)
        except BadCall as error:
            return rpc.returned(xmlrpc.client.Fault(messages.FAULT_CODE, str(error)))

    def _challenged(self, call: Call, subscription: Subscription | None) -> Response:
        given = dict(parse_qsl(call.query, keep_blank_values=True, max_num_fields=20))
        token = given.get("challenge", "")
        if subscription is None or not 0 < len(token) <= CHALLENGE_MAX or not _same(given.get("url", ""), subscription):
            return plain(404, "Nobody asked for that here.")
        return plain(200, token)

    async def _called(self, content: bytes, subscription: Subscription | None) -> Response:
        """By XML-RPC or SOAP: "one parameter, the url of the channel that changed … The workstation returns true"."""
        if soap.split(soap.document(content).tag)[1] == "Envelope":
            asked = soap.read_call(content)
            texts = [value for _, value in asked.parameters if isinstance(value, str)]
            return soap.answer(asked, await self._told(subscription, texts[0] if texts else ""))
        _, parameters = rpc.read_call(content)
        if len(parameters) != 1 or not isinstance(parameters[0], str):
            raise BadCall("a notification has one parameter, the address of the feed that changed")
        return rpc.returned(await self._told(subscription, parameters[0]))

    async def _told(self, subscription: Subscription | None, url: str) -> bool:
        if subscription is None or not _same(url, subscription):
            return False
        return await self.hearing.told(subscription)


def registration(subscription: Subscription, settings: Settings) -> Message:
    """What is sent to the cloud of a subscription."""
    split = urlsplit(own_address(settings, NAME, subscription))
    secure = split.scheme == "https"
    port = split.port or (443 if secure else 80)
    way, procedure = Way(subscription.data["way"]), subscription.data["procedure"]
    lines = [("User-Agent", own_agent(settings))]
    if way.is_form:
        lines += [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "text/xml, application/xml")]
        own_way = Way.HTTPS_POST if secure and port != 443 else Way.HTTP_POST
        given = {
            "notifyProcedure": "",
            "protocol": str(own_way),
            "port": str(port),
            "path": split.path,
            "domain": split.hostname or "",
            "url1": subscription.topic,
        }
        return Message("POST", subscription.callback, Fields(lines), urlencode(given).encode())
    lines.append(("Content-Type", "text/xml; charset=utf-8"))
    # The procedure of 2003 has five parameters, and calls back where it was called from; today's has a domain, too.
    domain = [split.hostname or ""] if procedure.startswith("rssCloud.") else []
    if way is Way.XML_RPC:
        called: tuple[Any, ...] = (PROCEDURE, port, split.path, str(way), [subscription.topic], *domain)
        body = xmlrpc.client.dumps(called, procedure or "rssCloud.pleaseNotify").encode()
        return Message("POST", subscription.callback, Fields(lines), body)
    parameters: list[tuple[str, soap.Value | int]] = [
        ("notifyProcedure", PROCEDURE.rpartition(".")[2]),
        ("port", port),
        ("path", split.path),
        ("protocol", str(way)),
        ("urlList", [subscription.topic]),
    ]
    parameters += [("domain", each) for each in domain]
    lines.append(("SOAPAction", f'"{urlsplit(subscription.callback).path}"'))
    body = soap.write_call(procedure.rpartition(".")[2] or "pleaseNotify", parameters, SOAP_NAMESPACE)
    return Message("POST", subscription.callback, Fields(lines), body)


def _answered(way: Way, answer: Response) -> tuple[bool, str]:
    """Whether the cloud did it, and its words. Raises BadCall."""
    if way.is_form:
        if not 200 <= answer.status < 300:
            return False, f"it answered {answer.status}"
        return messages.read_result(answer.body)
    value = rpc.read_answer(answer.body) if way is Way.XML_RPC else soap.read_answer(answer.body)
    return value is True or value in ("1", "true"), ""


def _same(url: str, subscription: Subscription) -> bool:
    """Whether this is the feed that we registered for."""
    try:
        return uri.normalise(url.strip()) == subscription.topic
    except BadTarget:
        return False
