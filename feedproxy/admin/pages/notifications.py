"""The page of notifications, without secrets: subscriptions, deliveries, and pings of unknown sites."""

from aiohttp import web

from feedproxy.admin import request_parameters
from feedproxy.admin.html_or_json import as_json, wants_json
from feedproxy.admin.pages.feed_pages import ActionOutcome, FeedPages, Notice
from feedproxy.app import App
from feedproxy.durations_and_sizes import count_noun
from feedproxy.errors import FeedproxyError
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.notify.notification_protocol import DeliveryRequest
from feedproxy.notify.pings import ping_messages
from feedproxy.notify.pings.sinks import PingSinks, site_ping_request
from feedproxy.notify.subscription_table import Subscription
from feedproxy.request.upstream_and_public_urls import public_name
from feedproxy.telemetry.page_redaction import View, redact_text
from feedproxy.web.display_formats import iso, plain_text

SHOWN_MAX = 1000
"""Maximum number of subscriptions on a page."""
RECENT_MAX = 50
"""Maximum length of each list on the page: failing deliveries, changes, and unknown sites."""


class NotificationsPage:
    """The handlers of `/notifications`."""

    def __init__(self, app: App, pages: FeedPages) -> None:
        self._app = app
        self._pages = pages

    async def show(self, request: web.Request) -> web.Response:
        """Return the subscriptions, failing deliveries, recent changes and unknown sites. Only subscriptions with an id
        above the parameter `after` are shown."""
        view = await self._view(_number(request.query.get("after", "0")))
        if wants_json(request):
            return as_json(view)
        return self._pages.page(request, "notifications.html", notifications=view)

    async def act(self, request: web.Request) -> ActionOutcome:
        """Pause, resume or remove a subscription. The parameters are `id` and `action`.

        Raises InvalidForm if a parameter is invalid. `deed` is the former name of `action`. Requests may still use
        `deed`, and responses contain both names.
        """
        self._pages.service()
        parameters = await request_parameters.read_parameters(request)
        number = _number(parameters.get("id", ""))
        action = parameters.get("action") or parameters.get("deed", "")
        subscriptions = self._app.notifications.subscriptions
        if action == "remove":
            done, text = await subscriptions.remove(number), "The subscription is removed."
        elif action == "pause":
            done, text = await subscriptions.pause(number), "The subscription is paused."
        elif action == "resume":
            done, text = await subscriptions.resume(number), "The subscription is active again."
        else:
            raise request_parameters.InvalidForm(f"action: {action!r}: expected pause, resume or remove.")
        view = {"ok": done, "id": number, "action": action, "deed": action}
        notice = Notice(done, text if done else "There is no subscription with that id and state.")
        return ActionOutcome(view, notice, "/notifications")

    async def ping(self, request: web.Request) -> ActionOutcome:
        """Send a ping about a site to all sinks in `ping_sinks`. The parameters are `url`, `name` and `feed`. Raises
        InvalidForm if one is invalid, or if there is no sink."""
        self._pages.service()
        parameters, notifications = await request_parameters.read_parameters(request), self._app.notifications
        try:
            ping = ping_messages.parse_extended_ping(
                [parameters.get("name", ""), parameters.get("url", ""), "", parameters.get("feed", "")]
            )
        except FeedproxyError as error:
            raise request_parameters.InvalidForm(f"{error}.") from error
        sinks = notifications.settings().ping_sinks if PingSinks.name in notifications.senders else ()
        requests = [site_ping_request(sink, ping) for sink in sinks]
        if not requests:
            raise request_parameters.InvalidForm("No ping sinks are configured (ping_sinks).")
        await notifications.enqueue(*requests)
        names = [redact_target(request.callback) for request in requests]
        text = f"{count_noun(len(names), 'ping sink')} will be pinged."
        return ActionOutcome({"ok": True, "sinks": names}, Notice(True, text), "/notifications")

    async def _view(self, after: int) -> View:
        self._pages.service()
        notifications, now = self._app.notifications, self._app.clock.now()
        settings = notifications.settings()
        subscriptions = await notifications.subscriptions.all(after=after, limit=SHOWN_MAX)
        counts = await notifications.subscriptions.count()
        return {
            "subscriptions": [self._subscription_view(subscription) for subscription in subscriptions],
            "more": subscriptions[-1].id if len(subscriptions) == SHOWN_MAX else None,
            "count": sum(counts.values()),
            "counts": [
                {"role": role, "protocol": protocol, "state": state, "count": count}
                for (role, protocol, state), count in sorted(counts.items())
            ],
            "deliveries": {
                "waiting": await notifications.queue.count_waiting(),
                "under_way": notifications.delivery_worker.running_count,
                **notifications.delivery_worker.counts,
            },
            "failing": [
                {
                    **self._request_view(delivery.request),
                    "tries": delivery.tries,
                    "since": iso(delivery.since),
                    "next_try": iso(due),
                    "words": redact_text(reason),
                }
                for delivery, due, reason in await notifications.queue.failing_deliveries(RECENT_MAX)
            ],
            "failed_requests": [
                {
                    "at": iso(failed.at),
                    **self._request_view(failed.request),
                    "words": redact_text(failed.reason[:300]),
                }
                for failed in reversed(notifications.delivery_worker.failed_requests)
            ],
            "changes": [
                {"at": iso(change.at), "name": plain_text(change.name), **public_name(change.target, settings)}
                for change in await notifications.changes.between(now - 3 * 3600, now + 1, RECENT_MAX)
            ],
            "strangers": [
                {
                    "url": redact_target(site.url),
                    "name": plain_text(site.name, 100),
                    "first": iso(site.first),
                    "last": iso(site.last),
                    "count": site.count,
                }
                for site in await notifications.refresh_requests.unknown_sites(RECENT_MAX)
            ],
            "reachable": notifications.can_receive_calls,
        }

    def _request_view(self, request: DeliveryRequest) -> View:
        return {
            "protocol": request.protocol,
            "what": request.what,
            **public_name(request.topic, self._app.settings),
            "callback": redact_target(request.callback),
        }

    def _subscription_view(self, subscription: Subscription) -> View:
        def optional_iso(instant: float | None) -> str | None:
            return iso(instant) if instant is not None else None

        return {
            "id": subscription.id,
            "role": str(subscription.role),
            "protocol": subscription.protocol,
            **public_name(subscription.topic, self._app.settings),
            "callback": redact_target(subscription.callback),
            "state": str(subscription.state),
            "since": iso(subscription.since),
            "expires": iso(subscription.expires),
            "renews": optional_iso(subscription.renew_at),
            "signed": bool(subscription.secret),
            "last_try": optional_iso(subscription.last_try),
            "last_success": optional_iso(subscription.last_success),
            "failures": subscription.failures,
            "words": redact_text(subscription.note),
        }


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise request_parameters.InvalidForm(f"id: {text!r}: expected a number.")
    return int(text)
