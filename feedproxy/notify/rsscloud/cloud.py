"""The cloud: workstations register here for feeds, prove that they want to be called, and are told of changes.

Nothing is told before the proof. A callback at the caller's own address proves itself by taking a test notification:
"A workstation cannot make a registration call on behalf of another." A callback at a `domain` has to say more than
any web server would: to give back a challenge (http-post), or to answer true (XML-RPC, SOAP). Somebody waits for the
outcome of the proof, so it is asked for at once, within the caps of deliveries (Courier.ask); if the process dies
meanwhile, nothing was promised.
"""

import secrets
from collections.abc import Callable

from feedproxy.errors import FeedproxyError, Forbidden, StoreError
from feedproxy.http.message import Response
from feedproxy.notify import soap
from feedproxy.notify.callback_policy import leads_back
from feedproxy.notify.notification_service import Notices
from feedproxy.notify.pings import messages as ping_messages
from feedproxy.notify.pings.messages import BadCall, BadPing
from feedproxy.notify.pings.receiver import THANKS, Ear
from feedproxy.notify.pings.sinks import own_agent
from feedproxy.notify.protocol import Delivered, Delivery, Message, Refused, Retry, Verdict
from feedproxy.notify.refresh_requests import Sources, TooOften
from feedproxy.notify.rsscloud import messages
from feedproxy.notify.rsscloud.messages import LASTS, NAME, Refusal, Registration, Way, WrongCall
from feedproxy.notify.subscriber_maintenance import Followers
from feedproxy.notify.subscriptions import Role, State, Subscription
from feedproxy.notify.topics import may_be_told, watched
from feedproxy.request.endpoints import Call
from feedproxy.request.entrance import ClientContext

WELCOME = (
    "Thanks for the registration. You will be told when the feed changes. It expires after 25 hours: register anew "
    "every 24."
)
METHODS = ("pleaseNotify", "rssPleaseNotify")


class CloudHub:
    """The endpoints of the cloud, and what it tells."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._ear = Ear(notices)
        self._sources = Sources()
        Followers(notices, NAME)

    # -- registration

    async def by_rpc(self, parameters: tuple[object, ...], call: Call) -> bool:
        """`rssCloud.pleaseNotify`, `xmlStorageSystem.rssPleaseNotify`: "returns true if it was able to do the
        registration, false otherwise". Raises WrongCall."""
        return await self._registered(messages.from_parameters, parameters, call)

    async def by_form(self, call: Call) -> Response:
        """`/-/pleaseNotify`."""
        accept = call.request.fields.combined("accept") or ""
        try:
            await self.register(messages.from_form(call.content), call.client)
        except FeedproxyError as error:
            return messages.result("notifyResult", False, _words(error), accept)
        return messages.result("notifyResult", True, WELCOME, accept)

    async def by_soap(self, call: Call) -> Response:
        """`/-/soap`: registration, and ping."""
        try:
            asked = soap.read_call(call.content)
            if asked.method in METHODS:
                return soap.answer(asked, await self._registered(messages.from_soap, asked, call))
            if asked.method == "ping":
                return soap.answer(asked, await self.ping(tuple(value for _, value in asked.parameters), call))
            raise BadCall(f"there is no method {asked.method[:100]}")
        except BadCall as error:
            return soap.fault(str(error))

    async def register(self, said: Registration, visit: ClientContext) -> None:
        """Register who comes by this visit. Raises Refusal and what else FeedproxyErrors there are."""
        notices, now = self._notices, self._notices.clock.now()
        settings = notices.settings()
        if not self._sources.let(visit.address, now, settings.source_limit):
            raise TooOften("too many registrations come from your address; please try again in a minute")
        topics = {url: await watched(notices, url, settings.rsscloud_hub, visit.base) for url in said.urls}
        callback = said.callback(visit.address)
        if leads_back(callback, settings, visit.base):
            raise Refusal("the callback leads back here")
        await notices.subscriptions.check_room(callback, settings.subscriptions_per_site)
        await self._prove(said, callback, said.urls[0])
        now = notices.clock.now()
        for url, topic in topics.items():
            data = {"way": str(said.way), "procedure": said.procedure, "url": url}
            new = Subscription(
                *(Role.TELL, NAME, topic, callback), expires=now + LASTS, state=State.ACTIVE, since=now, data=data
            )
            await notices.subscriptions.put(new)

    async def _registered[T](self, read: Callable[[T], Registration], given: T, call: Call) -> bool:
        try:
            await self.register(read(given), call.client)
        except WrongCall:
            raise
        except FeedproxyError:
            return False
        return True

    async def _prove(self, said: Registration, callback: str, url: str) -> None:
        agent, courier = own_agent(self._notices.settings()), self._notices.courier
        if said.domain and said.way.is_form:
            token = secrets.token_urlsafe(24)
            answer = await courier.ask(messages.challenge(callback, url, token, agent))
            if not 200 <= answer.status < 300 or answer.body != token.encode():
                raise Refusal("the callback did not give the challenge back")
            return
        test = messages.notification(said.way, callback, said.procedure, url, agent)
        if words := messages.objection(said.way, await courier.ask(test), strictly=bool(said.domain)):
            raise Refusal(f"the call failed when the callback was tested: {words}")

    # -- pings

    async def ping(self, parameters: tuple[object, ...], call: Call) -> bool:
        """`rssCloud.ping`: "true whenever well-formed". Raises WrongCall."""
        if len(parameters) != 1 or not isinstance(parameters[0], str):
            raise WrongCall("a ping has one parameter, the address of the feed that changed")
        await self._heard(parameters[0], call.client)
        return True

    async def hello(self, parameters: tuple[object, ...], call: Call) -> bool:
        """`rssCloud.hello`: somebody is here."""
        return True

    async def ping_by_form(self, call: Call) -> Response:
        """`/-/ping`."""
        accept = call.request.fields.combined("accept") or ""
        url = next((value for name, value in messages.form(call.content) if name.lower() == "url"), "")
        words = await self._heard(url, call.client)
        return messages.result("result", not words, words or THANKS, accept)

    async def _heard(self, url: str, visit: ClientContext) -> str:
        """Act on a ping; why it was none, empty where it was."""
        try:
            await self._ear.hear(ping_messages.in_words("", url), visit)
        except (BadPing, TooOften) as error:
            return str(error)
        except FeedproxyError:
            return "the ping could not be written down; please try again later"
        return ""

    # -- what is told

    async def message(self, delivery: Delivery, subscription: Subscription) -> Message | None:
        """The notification, in the protocol that was asked for."""
        if not may_be_told(self._notices, delivery.order.topic):
            return None
        data = subscription.data
        agent = own_agent(self._notices.settings())
        return messages.notification(Way(data["way"]), subscription.callback, data["procedure"], data["url"], agent)

    async def judge(self, subscription: Subscription, answer: Response | FeedproxyError) -> Verdict:
        """What it came to: who fails is tried for a day, and then removed."""
        if isinstance(answer, Forbidden):
            return Refused(str(answer), remove=True)
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if answer.status == 410:
            return Refused("it answered 410", remove=True)
        words = messages.objection(Way(subscription.data["way"]), answer)
        return Retry(words) if words else Delivered(f"it answered {answer.status}")


def _words(error: FeedproxyError) -> str:
    return "the registration could not be written down" if isinstance(error, StoreError) else str(error)
