"""The cloud: workstations register here for feeds, prove that they want to be called, and are told of changes.

Nothing is told before the proof. A callback at the caller's own address proves itself by taking a test notification:
"A workstation cannot make a registration call on behalf of another." A callback at a `domain` has to say more than
any web server would: to give back a challenge (http-post), or to answer true (XML-RPC, SOAP). Somebody waits for the
outcome of the proof, so it is asked for at once, within the caps of deliveries (Courier.ask); if the process dies
meanwhile, nothing was promised.
"""

import logging
import secrets
from collections.abc import Callable

from feedproxy.errors import FeedproxyError, Forbidden, StoreError
from feedproxy.http.message import Response
from feedproxy.notify import soap
from feedproxy.notify.callback_policy import is_callback_to_self
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings import messages as ping_messages
from feedproxy.notify.pings.messages import InvalidCall, InvalidPing
from feedproxy.notify.pings.receiver import THANKS, PingReceiver
from feedproxy.notify.pings.sinks import own_user_agent
from feedproxy.notify.protocol import Delivered, Delivery, Message, Refused, Retry, Verdict
from feedproxy.notify.refresh_requests import RateLimiter, TooManyRequests
from feedproxy.notify.rsscloud import messages
from feedproxy.notify.rsscloud.messages import (
    NAME,
    REGISTRATION_LIFETIME,
    MalformedCall,
    NotificationMethod,
    Registration,
    RegistrationRefused,
)
from feedproxy.notify.subscriber_maintenance import SubscriberMaintenance
from feedproxy.notify.subscriptions import Role, State, Subscription
from feedproxy.notify.topics import may_notify, resolve_topic
from feedproxy.request.endpoints import Call
from feedproxy.request.entrance import ClientContext

logger = logging.getLogger(__name__)

REGISTERED = (
    "Thanks for the registration. You will be told when the feed changes. It expires after 25 hours: register anew "
    "every 24."
)
METHODS = ("pleaseNotify", "rssPleaseNotify")


class RssCloudServer:
    """The endpoints of the cloud, and what it tells."""

    def __init__(self, service: NotificationService) -> None:
        self._service = service
        self._ping_receiver = PingReceiver(service)
        self._rate_limiter = RateLimiter()
        SubscriberMaintenance(service, NAME)

    # -- registration

    async def by_rpc(self, parameters: tuple[object, ...], call: Call) -> bool:
        """`rssCloud.pleaseNotify`, `xmlStorageSystem.rssPleaseNotify`: "returns true if it was able to do the
        registration, false otherwise". Raises WrongCall."""
        return await self._try_register(messages.from_parameters, parameters, call)

    async def by_form(self, call: Call) -> Response:
        """`/-/pleaseNotify`."""
        accept = call.request.fields.combined("accept") or ""
        try:
            await self.register(messages.from_form(call.content), call.client)
        except FeedproxyError as error:
            return messages.write_result("notifyResult", False, _error_message(error), accept)
        return messages.write_result("notifyResult", True, REGISTERED, accept)

    async def by_soap(self, call: Call) -> Response:
        """`/-/soap`: registration, and ping."""
        try:
            asked = soap.read_call(call.content)
            if asked.method in METHODS:
                return soap.write_response(asked, await self._try_register(messages.from_soap, asked, call))
            if asked.method == "ping":
                return soap.write_response(asked, await self.ping(tuple(value for _, value in asked.parameters), call))
            raise InvalidCall(f"there is no method {asked.method[:100]}")
        except InvalidCall as error:
            return soap.write_fault(str(error))

    async def register(self, said: Registration, visit: ClientContext) -> None:
        """Register who comes by this visit. Raises Refusal and what else FeedproxyErrors there are."""
        service, now = self._service, self._service.clock.now()
        settings = service.settings()
        if not self._rate_limiter.allow(visit.address, now, settings.source_limit):
            raise TooManyRequests("too many registrations come from your address; please try again in a minute")
        topics = {url: await resolve_topic(service, url, settings.rsscloud_hub, visit.base) for url in said.urls}
        callback = said.callback(visit.address)
        if is_callback_to_self(callback, settings, visit.base):
            raise RegistrationRefused("the callback leads back here")
        await service.subscriptions.check_capacity(callback, settings.subscriptions_per_site)
        try:
            await self._verify(said, callback, said.urls[0])
        except FeedproxyError as error:
            service.delivery_worker.record_failed_request(NAME, "verify", topics[said.urls[0]], callback, str(error))
            raise
        now = service.clock.now()
        for url, topic in topics.items():
            data = {"way": str(said.method), "procedure": said.procedure, "url": url}
            new = Subscription(
                *(Role.SUBSCRIBER, NAME, topic, callback),
                expires=now + REGISTRATION_LIFETIME,
                state=State.ACTIVE,
                since=now,
                data=data,
            )
            await service.subscriptions.put(new)

    async def _try_register[T](self, read: Callable[[T], Registration], given: T, call: Call) -> bool:
        try:
            await self.register(read(given), call.client)
        except MalformedCall:
            raise
        except FeedproxyError as error:
            # XML-RPC and SOAP have a boolean for it, and no words.
            logger.info("rsscloud: registration refused: %s", error)
            return False
        return True

    async def _verify(self, said: Registration, callback: str, url: str) -> None:
        agent, courier = own_user_agent(self._service.settings()), self._service.delivery_worker
        if said.domain and said.method.is_form:
            token = secrets.token_urlsafe(24)
            answer = await courier.request_now(messages.challenge(callback, url, token, agent))
            if not 200 <= answer.status < 300 or answer.body != token.encode():
                raise RegistrationRefused("the callback did not give the challenge back")
            return
        test = messages.notification(said.method, callback, said.procedure, url, agent)
        if words := messages.failure_reason(said.method, await courier.request_now(test), strictly=bool(said.domain)):
            raise RegistrationRefused(f"the call failed when the callback was tested: {words}")

    # -- pings

    async def ping(self, parameters: tuple[object, ...], call: Call) -> bool:
        """`rssCloud.ping`: "true whenever well-formed". Raises WrongCall."""
        if len(parameters) != 1 or not isinstance(parameters[0], str):
            raise MalformedCall("a ping has one parameter, the address of the feed that changed")
        await self._accept_ping(parameters[0], call.client)
        return True

    async def hello(self, parameters: tuple[object, ...], call: Call) -> bool:
        """`rssCloud.hello`: somebody is here."""
        return True

    async def ping_by_form(self, call: Call) -> Response:
        """`/-/ping`."""
        accept = call.request.fields.combined("accept") or ""
        url = next((value for name, value in messages.parse_form(call.content) if name.lower() == "url"), "")
        words = await self._accept_ping(url, call.client)
        return messages.write_result("result", not words, words or THANKS, accept)

    async def _accept_ping(self, url: str, visit: ClientContext) -> str:
        """Act on a ping; why it was none, empty where it was."""
        try:
            await self._ping_receiver.accept(ping_messages.ping_of("", url), visit)
        except (InvalidPing, TooManyRequests) as error:
            return str(error)
        except FeedproxyError:
            return "the ping could not be written down; please try again later"
        return ""

    # -- what is told

    async def message(self, delivery: Delivery, subscription: Subscription) -> Message | None:
        """The notification, in the protocol that was asked for."""
        if not may_notify(self._service, delivery.request.topic):
            return None
        data = subscription.data
        agent = own_user_agent(self._service.settings())
        return messages.notification(
            NotificationMethod(data["way"]), subscription.callback, data["procedure"], data["url"], agent
        )

    async def interpret(self, subscription: Subscription, answer: Response | FeedproxyError) -> Verdict:
        """What it came to: who fails is tried for a day, and then removed."""
        if isinstance(answer, Forbidden):
            return Refused(str(answer), remove=True)
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if answer.status == 410:
            return Refused("it answered 410", remove=True)
        words = messages.failure_reason(NotificationMethod(subscription.data["way"]), answer)
        return Retry(words) if words else Delivered(f"it answered {answer.status}")


def _error_message(error: FeedproxyError) -> str:
    return "the registration could not be written down" if isinstance(error, StoreError) else str(error)
