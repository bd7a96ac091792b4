"""Who tells whom: subscriptions, deliveries, strangers' pings, for the operator to see, to pause and to remove.

Secrets of subscriptions are in no view, and addresses go through `shown` as everywhere.
"""

from aiohttp import web

from feedproxy.admin import form
from feedproxy.admin.feed_pages import AppView, FeedPages, Notice, as_json, wants_json
from feedproxy.errors import FeedproxyError
from feedproxy.notify.pings import messages
from feedproxy.notify.pings.sinks import PingSinks, site_ping_request
from feedproxy.notify.subscriptions import State, Subscription
from feedproxy.telemetry.redacted import View, public_name, redact_target, redact_text
from feedproxy.web.templates import iso, plain_text

SHOWN_MAX = 1000
RECENT = 50

_STATES = {
    "pause": (State.ACTIVE, State.PAUSED, "The subscription is paused."),
    "resume": (State.PAUSED, State.ACTIVE, "It is told of changes again."),
}


class NotificationsPage:
    """The handlers of `/notifications`."""

    def __init__(self, app: AppView, answers: FeedPages) -> None:
        self._app = app
        self._pages = answers

    async def show(self, request: web.Request) -> web.Response:
        """Subscriptions (`?after=ID` goes on), what fails, what changed lately, and which unknown sites pinged."""
        view = await self._view(_number(request.query.get("after", "0")))
        if wants_json(request):
            return as_json(view)
        return self._pages.page(request, "notifications.html", told=view)

    async def act(self, request: web.Request) -> web.Response:
        """Pause, resume or remove a subscription: `id`, and `deed`."""
        self._pages.service()
        given = await form.read_parameters(request)
        number, deed = _number(given.get("id", "")), given.get("deed", "")
        subscriptions = self._app.notifications.subscriptions
        if deed == "remove":
            done, words = await subscriptions.remove(number), "The subscription is forgotten."
        elif deed in _STATES:
            before, after, words = _STATES[deed]
            found = await subscriptions.get(number)
            # Nothing that was never verified becomes active here.
            done = found is not None and found.state is before and await subscriptions.set_state(number, after)
        else:
            raise form.InvalidForm("deed is pause, resume or remove.")
        view = {"ok": done, "id": number, "deed": deed}
        return self._outcome(
            request, view, Notice(done, words if done else "There is no such subscription to do that to.")
        )

    async def ping(self, request: web.Request) -> web.Response:
        """Tell the configured sinks that a site changed: `url`, `name`, `feed`."""
        self._pages.service()
        given, notifications = await form.read_parameters(request), self._app.notifications
        try:
            said = messages.extended([given.get("name", ""), given.get("url", ""), "", given.get("feed", "")])
        except FeedproxyError as error:
            raise form.InvalidForm(f"{error}.") from error
        sinks = notifications.protocols.get(PingSinks.name)
        orders = (
            [site_ping_request(each, said) for each in notifications.settings().ping_sinks] if sinks is not None else []
        )
        if not orders:
            raise form.InvalidForm("No ping sinks are configured here (ping_sinks).")
        await notifications.enqueue(*orders)
        names = [redact_target(each.callback) for each in orders]
        words = f"{len(names)} ping sink{'s' if len(names) > 1 else ''} will be told."
        return self._outcome(request, {"ok": True, "sinks": names}, Notice(True, words))

    def _outcome(self, request: web.Request, view: View, notice: Notice) -> web.Response:
        if wants_json(request):
            return as_json(view)
        return self._pages.back("/notifications", notice)

    async def _view(self, after: int) -> View:
        self._pages.service()
        notifications, now = self._app.notifications, self._app.clock.now()
        held = await notifications.subscriptions.all(after=after, limit=SHOWN_MAX)
        counts = await notifications.subscriptions.count()
        sent = notifications.delivery_worker.counts
        return {
            "subscriptions": [self._subscription(each) for each in held],
            "more": held[-1].id if len(held) == SHOWN_MAX else None,
            "count": sum(counts.values()),
            "counts": [
                {"role": role, "protocol": protocol, "state": state, "count": count}
                for (role, protocol, state), count in sorted(counts.items())
            ],
            "deliveries": {
                "waiting": await notifications.queue.count_waiting(),
                "under_way": notifications.delivery_worker.running_count,
                "delivered": sent.delivered,
                "retried": sent.retried,
                "refused": sent.refused,
            },
            "failing": [
                {
                    "protocol": each.request.protocol,
                    "what": each.request.what,
                    **public_name(each.request.topic, notifications.settings()),
                    "callback": redact_target(each.request.callback),
                    "tries": each.tries,
                    "since": iso(each.since),
                    "next_try": iso(due),
                    "words": redact_text(words),
                }
                for each, due, words in await notifications.queue.failing(RECENT)
            ],
            "changes": [
                {
                    "at": iso(each.at),
                    "name": plain_text(each.name),
                    **public_name(each.target, notifications.settings()),
                }
                for each in await notifications.changes.between(now - 3 * 3600, now + 1, RECENT)
            ],
            "strangers": [
                {
                    "url": redact_target(each.url),
                    "name": plain_text(each.name, 100),
                    "first": iso(each.first),
                    "last": iso(each.last),
                    "count": each.count,
                }
                for each in await notifications.refresh_requests.unknown_sites(RECENT)
            ],
            "reachable": notifications.can_receive_calls,
        }

    def _subscription(self, each: Subscription) -> View:
        def at(instant: float | None) -> str | None:
            return iso(instant) if instant is not None else None

        return {
            "id": each.id,
            "role": str(each.role),
            "protocol": each.protocol,
            **public_name(each.topic, self._app.settings),
            "callback": redact_target(each.callback),
            "state": str(each.state),
            "since": iso(each.since),
            "expires": iso(each.expires),
            "renews": at(each.renew_at),
            "signed": bool(each.secret),
            "last_try": at(each.last_try),
            "last_success": at(each.last_success),
            "failures": each.failures,
            "words": redact_text(each.note),
        }


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise form.InvalidForm("id is a number.")
    return int(text)
