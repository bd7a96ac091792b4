"""The subscriber's side of CNWS: where the operator names a publisher for a feed (`cnws_subscribe`), we subscribe.

"A server should normally only need to confirm (by re-subscribing) if there has been a service outage." And: "If any
publisher has not issued a notification for a given resource within 30 days the subscriber should try and re-confirm
the subscription." What is no longer of interest is answered with false.
"""

from feedproxy.clock import Seconds
from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.notify.cnws import messages
from feedproxy.notify.cnws.messages import NAME, Subscribe
from feedproxy.notify.notification_service import Notices
from feedproxy.notify.outbound_subscriptions import Hearing, Wish, own_address
from feedproxy.notify.pings.messages import BadCall
from feedproxy.notify.pings.sinks import own_agent
from feedproxy.notify.protocol import DAY, Delivery, Message, Retry, Verdict
from feedproxy.notify.responses import XML, reply
from feedproxy.notify.subscriptions import Subscription
from feedproxy.request.endpoints import Call
from feedproxy.store.resource import Resource
from feedproxy.upstream.callback_client import Named

SILENCE: Seconds = 30 * DAY
LASTS: Seconds = SILENCE + 2 * DAY
"""Time to confirm, and to try that for a day."""


class Subscriber:
    """The subscriptions that we have with publishers."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.hearing = Hearing(notices, NAME, self.wish, renewed=SILENCE, lasts=LASTS, by_pushes=True)

    def wish(self, resource: Resource) -> Wish | None:
        """The publisher that the operator named for this feed."""
        named = self._notices.settings_for(resource.target).cnws_subscribe
        try:
            return Wish(uri.normalise(named), {}) if named else None
        except BadTarget:
            return None

    async def message(self, delivery: Delivery, subscription: Subscription) -> Message | None:
        """Return the subscription request; the operator's configuration names the publisher (callback_client.py)."""
        settings = self._notices.settings()
        if not settings.public_url:
            return None
        fields = Fields([("User-Agent", own_agent(settings)), ("Content-Type", XML)])
        body = messages.write_subscribe(subscription.topic, own_address(settings, NAME, subscription))
        return Message("POST", subscription.callback, fields, body, named=Named.BY_CONFIGURATION)

    async def judge(self, subscription: Subscription, answer: Response | FeedproxyError) -> Verdict:
        """ "If the response is an error (HTTP, or FALSE) then the subscription is refused by the publisher"."""
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if not 200 <= answer.status < 300:
            return await self.hearing.refused(subscription, f"it answered {answer.status}")
        try:
            if not messages.read_result(answer.body):
                return await self.hearing.refused(subscription, "it refused")
        except BadCall as error:
            return await self.hearing.refused(subscription, str(error))
        return await self.hearing.agreed(subscription, "subscribed")

    async def endpoint(self, call: Call) -> Response:
        """`/-/push/cnws/…`: something has changed, says a publisher; true where we still want to know."""
        try:
            told = messages.read(call.content)
        except BadCall:
            return reply(400, XML, messages.write_result(False))
        subscription = await self.hearing.caller(call.path.rpartition("/")[2])
        wanted = False
        if subscription is not None and not isinstance(told, Subscribe):
            mine = any(_same(each.resource, subscription) for each in told)
            wanted = mine and await self.hearing.told(subscription)
        return reply(200, XML, messages.write_result(wanted))


def _same(resource: str, subscription: Subscription) -> bool:
    try:
        return uri.normalise(resource) == subscription.topic
    except BadTarget:
        return False
