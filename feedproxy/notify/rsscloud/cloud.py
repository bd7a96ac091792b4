"""The rssCloud server: it registers aggregators for feeds, and notifies them of changes.

A callback at the caller's own address is verified by a test notification. A callback at another host (`domain`) must
repeat a challenge (http-post) or return true (XML-RPC, SOAP), which an arbitrary web server does not do.
"""

import logging
import secrets
from collections.abc import Callable

from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError, Forbidden, StoreError
from feedproxy.http.message import Response
from feedproxy.notify.callback_loop import is_callback_to_self
from feedproxy.notify.client_rate_limit import RateLimiter
from feedproxy.notify.notification_protocol import Answer, Delivered, Delivery, Message, Refused, Retry, Verdict
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings import ping_messages
from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.notify.pings.receiver import THANKS, PingReceiver
from feedproxy.notify.rpc import soap
from feedproxy.notify.rpc.xmlrpc import utf8_content
from feedproxy.notify.rsscloud import rsscloud_messages
from feedproxy.notify.rsscloud.rsscloud_messages import (
    NAME,
    MalformedCall,
    NotificationMethod,
    Registration,
    RegistrationRefused,
)
from feedproxy.notify.subscription_table import Role, State, Subscription
from feedproxy.notify.subscriptions_to_moved_or_private_feeds import SubscriberMaintenance
from feedproxy.notify.topics import is_no_longer_public, resolve_topic
from feedproxy.request.context import ClientContext
from feedproxy.request.endpoint_registry import Call

logger = logging.getLogger(__name__)

REGISTRATION_LIFETIME: Seconds = 25 * 3600
"""A registration expires after this many seconds: "By convention registrations expire after 25 hours" (rssCloud)."""

REGISTERED = "Thanks for the registration. It expires after 25 hours: register again every 24 hours."
METHODS = ("pleaseNotify", "rssPleaseNotify")


class RssCloudServer:
    """The rssCloud server: it answers registrations and pings, makes notifications, and interprets the
    responses to them."""

    remove_on_failure = True

    def __init__(self, service: NotificationService) -> None:
        self._service = service
        self._ping_receiver = PingReceiver(service)
        self._rate_limiter = RateLimiter()
        SubscriberMaintenance(service, NAME)

    # -- registration

    async def by_rpc(self, parameters: tuple[object, ...], call: Call) -> bool:
        """Answer a call of `rssCloud.pleaseNotify` or `xmlStorageSystem.rssPleaseNotify`. Raises MalformedCall if the
        parameters have the wrong number or types.

        "It returns true if it was able to do the registration, false otherwise."
        """
        return await self._try_register(rsscloud_messages.from_parameters, parameters, call)

    async def by_form(self, call: Call) -> Response:
        """Answer a registration by form at `/-/pleaseNotify`."""
        accept = call.request.fields.combined("accept") or ""
        try:
            await self.register(rsscloud_messages.from_form(call.content), call.client)
        except FeedproxyError as error:
            return rsscloud_messages.write_result("notifyResult", False, _error_message(error), accept)
        return rsscloud_messages.write_result("notifyResult", True, REGISTERED, accept)

    async def by_soap(self, call: Call) -> Response:
        """Answer a registration or a ping at `/-/soap`. An invalid call gets a fault."""
        try:
            soap_call = soap.read_call(utf8_content(call.content, call.request.fields))
            if soap_call.method in METHODS:
                return soap.write_response(
                    soap_call, await self._try_register(rsscloud_messages.from_soap, soap_call, call)
                )
            if soap_call.method == "ping":
                return soap.write_response(
                    soap_call, await self.ping(tuple(value for _, value in soap_call.parameters), call)
                )
            raise InvalidCall(f"unknown method {soap_call.method[:100]}")
        except InvalidCall as error:
            return soap.write_fault(str(error))

    async def register(self, registration: Registration, client: ClientContext) -> None:
        """Verify a client's callback and store its registration. Raises FeedproxyError if the registration is
        refused."""
        service, settings = self._service, self._service.settings()
        self._rate_limiter.check(client.address, service.clock.now(), settings.source_limit, "registrations")
        topics = {
            url: await resolve_topic(service, url, settings.rsscloud_hub, client.base) for url in registration.urls
        }
        callback = registration.callback(client.address)
        if is_callback_to_self(callback, settings, client.base):
            raise RegistrationRefused("the callback leads back to this proxy")
        await service.subscriptions.check_capacity(NAME, topics.values(), callback, settings.subscriptions_per_site)
        url = registration.urls[0]
        with service.delivery_worker.recording_failure(NAME, topics[url], callback):
            await self._verify(registration, callback, url)
        now = service.clock.now()
        new = [
            Subscription(
                *(Role.SUBSCRIBER, NAME, topic, callback),
                expires=now + REGISTRATION_LIFETIME,
                state=State.ACTIVE,
                since=now,
                data={"way": str(registration.method), "procedure": registration.procedure, "url": url},
            )
            for url, topic in topics.items()
        ]
        await service.subscriptions.put_all(new, settings.subscriptions_per_site)

    async def _try_register[T](self, read: Callable[[T], Registration], call_parameters: T, call: Call) -> bool:
        try:
            await self.register(read(call_parameters), call.client)
        except MalformedCall:
            raise
        except FeedproxyError as error:
            # XML-RPC and SOAP return a boolean without a message.
            logger.info("rsscloud: registration refused: %s", error)
            return False
        return True

    async def _verify(self, registration: Registration, callback: str, url: str) -> None:
        worker = self._service.delivery_worker
        if registration.domain and registration.method.is_form:
            token = secrets.token_urlsafe(24)
            answer = await worker.request_now(rsscloud_messages.challenge(callback, url, token))
            if not 200 <= answer.status < 300 or answer.body != token.encode():
                raise RegistrationRefused("the callback did not repeat the challenge")
            return
        test = rsscloud_messages.notification(registration.method, callback, registration.procedure, url)
        if reason := rsscloud_messages.failure_reason(
            registration.method, await worker.request_now(test), strictly=bool(registration.domain)
        ):
            raise RegistrationRefused(f"the test notification failed: {reason}")

    # -- pings

    async def ping(self, parameters: tuple[object, ...], call: Call) -> bool:
        """Answer a call of `rssCloud.ping`. Return True for each call with valid parameters. Raises MalformedCall if
        the parameters have the wrong number or types."""
        if len(parameters) != 1 or not isinstance(parameters[0], str):
            raise MalformedCall("invalid ping: expected one parameter, the URL of the changed feed")
        await self._accept_ping(parameters[0], call.client)
        return True

    async def hello(self, parameters: tuple[object, ...], call: Call) -> bool:
        return True

    async def ping_by_form(self, call: Call) -> Response:
        accept = call.request.fields.combined("accept") or ""
        url = next((value for name, value in rsscloud_messages.parse_form(call.content) if name.lower() == "url"), "")
        reason = await self._accept_ping(url, call.client)
        return rsscloud_messages.write_result("result", not reason, reason or THANKS, accept)

    async def _accept_ping(self, url: str, client: ClientContext) -> str:
        return await self._ping_receiver.accept_or_refuse(lambda: ping_messages.ping_of("", url), client)

    # -- notifications

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        """Return the notification of a change in the registration's protocol. Return None if the feed is no longer
        public, or if the registration has ended."""
        if subscription is None or is_no_longer_public(self._service, delivery.request.topic):
            return None
        data = subscription.data
        return rsscloud_messages.notification(
            NotificationMethod(data["way"]), subscription.callback, data["procedure"], data["url"]
        )

    async def interpret(self, delivery: Delivery, subscription: Subscription | None, answer: Answer) -> Verdict:
        """Return the verdict on a response. Failures are retried for a day, and then the subscription is removed. A 410
        ends the subscription at once, and so does a callback at an address or port that is not permitted."""
        if isinstance(answer, Forbidden):
            return Refused(str(answer), remove=True)
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if answer.status == 410:
            return Refused("status 410", remove=True)
        assert subscription is not None
        reason = rsscloud_messages.failure_reason(NotificationMethod(subscription.data["way"]), answer)
        return Retry(reason) if reason else Delivered(f"status {answer.status}")


def _error_message(error: FeedproxyError) -> str:
    return "the registration could not be recorded" if isinstance(error, StoreError) else str(error)
