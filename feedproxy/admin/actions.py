"""Actions of the operator: refresh, purge, undo, add, pause, block and allow.

The parameter `url` is the public or upstream address of a target, or its address at this proxy. The pages use `id`, the
identifier of the target, because a URL can contain a secret. `pattern` matches several targets.
"""

import asyncio
from collections.abc import Mapping

from aiohttp import web

from feedproxy.admin import request_parameters
from feedproxy.admin.pages.feed_pages import ActionOutcome, FeedPages, Notice
from feedproxy.app import App
from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Seconds
from feedproxy.feed import pasted_address
from feedproxy.feed.opml import Subscription, SubscriptionList
from feedproxy.feed_rules import BLOCKED
from feedproxy.http import uri
from feedproxy.proxy.cache_admin import RefreshReport
from feedproxy.proxy.service import Service
from feedproxy.refresh.policy.paused_and_blocked import FeedDecision
from feedproxy.request.feed_id import feed_id
from feedproxy.request.upstream_and_public_urls import is_upstream_target, public_name, rebase
from feedproxy.telemetry.page_redaction import View, redact_text
from feedproxy.upstream.own_urls import is_own
from feedproxy.web.display_formats import iso

LISTED_MAX = 1000
"""A response names at most this many targets. Further targets are only counted."""

SHOWN_IN_CONFIRMATION = 20
"""The confirmation of a purge names at most this many feeds. Further feeds are only counted."""

MAX_CONCURRENT = 8
"""Maximum number of concurrent refreshes for a pattern."""

SITE_SLOTS_MAX: Seconds = 60
"""A refresh of many feeds waits for `site_interval` between the requests to one site. After this many seconds, the
remaining feeds of the site are reported as `later`."""

SENTENCES = {
    "updated": "The origin has sent a new version.",
    "unchanged": "The origin has sent the same again.",
    "confirmed": "The origin says that the copy is still good.",
    "paused": "Not fetched: resume the feed first.",
    "later": "The feed was fetched a short while ago; it will be fetched when its interval is over.",
    "failed": "The origin returned no usable response.",
    "not-stored": "The origin answered, but HTTP does not permit to store it.",
}


DECISIONS: Mapping[str, tuple[FeedDecision | None, str, str]] = {
    "pause": (FeedDecision.PAUSED, "Paused: the stored copy is served.", "It was paused."),
    "block": (FeedDecision.BLOCKED, "Blocked: readers get 403.", "It was blocked."),
    "allow": (None, "It is fetched and served again.", "It was neither paused nor blocked."),
}
"""Three values for each action: the decision that it sets, or None if it removes a decision; the outcome if the
decision about the target changes; and the outcome if the decision is the same as before."""


class AdminActions:
    """The handlers of POST requests."""

    def __init__(self, app: App, pages: FeedPages) -> None:
        self._app = app
        self._pages = pages

    async def refresh(self, request: web.Request) -> ActionOutcome:
        """Refresh one target, or all targets that match a pattern. Return the outcomes. A refresh can wait until
        `site_interval` permits a request to its site."""
        service = self._pages.service()
        target, pattern = await self._parse_target(request)
        if target:
            view = self._refresh_view(await service.admin.refresh(target))
            self._pages.feed_table.forget([target])
            text = f"{view['sentence']} ({view['words']})" if view["words"] else view["sentence"]
            return self._outcome(target, view, Notice(view["ok"], text))
        targets = await service.admin.matching_targets(pattern)
        views = await self._refresh_all(service, targets)
        self._pages.feed_table.forget(targets)
        count, total = sum(1 for view in views if view["ok"]), len(views)
        view = {"pattern": pattern, "matched": total, "ok": count == total, "refreshed": views[:LISTED_MAX]}
        return self._outcome("", view, Notice(count == total, f"{count} of {total} feeds refreshed."))

    async def purge(self, request: web.Request) -> ActionOutcome:
        """Delete the copy, history and moves of one target, or of all targets that match a pattern. Return the outcome,
        with the targets.

        Subscriber counts stay. Raises BadTarget for an invalid target, NotFound for an unknown id, and InvalidForm for
        other invalid parameters.
        """
        service = self._pages.service()
        target, pattern = await self._parse_target(request)
        purged = await service.admin.purge(target, pattern=pattern)
        self._pages.feed_table.forget(purged)
        names = [self._public_name(target)["target"] for target in purged[:LISTED_MAX]]
        view = {"ok": True, "purged": len(purged), "targets": names}
        sentences = {0: "No copy was stored.", 1: "Purged: the next reader gets a new copy."}
        notice = Notice(bool(purged), sentences.get(len(purged), f"{len(purged)} copies purged."))
        return self._outcome(target, view, notice)

    async def confirm(self, request: web.Request) -> web.Response:
        """Return a page that asks for confirmation of a purge. Raises the errors of `purge`."""
        service = self._pages.service()
        target, pattern = await self._parse_target(request)
        stored = [target] if target else await service.admin.matching_targets(pattern)
        rows = {row["id"]: row for row in (await self._pages.table()).rows}
        matching_rows = [rows[identifier] for target in stored if (identifier := feed_id(target)) in rows]
        matching_rows.sort(key=lambda row: (-row["subscribers"], row["title"].casefold()))
        return self._pages.page(
            request,
            "confirm.html",
            identifier=feed_id(target) if target else "",
            pattern=pattern,
            rows=matching_rows[:SHOWN_IN_CONFIRMATION],
            feeds=len(matching_rows),
            others=len(stored) - len(matching_rows),
            held=len(stored),
            subscribers=sum(row["subscribers"] for row in matching_rows),
        )

    async def undo(self, request: web.Request) -> ActionOutcome:
        """Delete the record that a feed has moved or has ended (Relocation). Return the outcome. Raises InvalidForm for
        a pattern, and the errors of `purge`."""
        target, pattern = await self._parse_target(request)
        if pattern:
            raise request_parameters.InvalidForm(
                "pattern: expected url or id: a move is undone for one feed at a time."
            )
        undone = await self._pages.service().admin.clear_relocation(target)
        self._pages.feed_table.forget([target])
        view = {"ok": undone, **self._public_name(target), "undone": undone}
        text = "The stored move or end is removed." if undone else "No move or end was stored."
        return self._outcome(target, view, Notice(undone, text))

    async def add(self, request: web.Request) -> ActionOutcome:
        """Add the feed at `url` to the imported list, and fetch it if it is not stored. Return the outcome. `url` can
        have each of the forms in which people copy addresses.

        Raises BadTarget if `url` is invalid, InvalidForm if the feed is blocked, and StoreError if the store fails.
        """
        parameters = await request_parameters.read_parameters(request)
        service, settings = self._pages.service(), self._app.settings
        own = "" if settings.upstream else settings.public_url.rstrip("/")
        target = await self._target_of(pasted_address.read(parameters.get("url", ""), own, settings.endpoint_prefix))
        if self._app.settings_for(target).readers == BLOCKED:
            raise request_parameters.InvalidForm("This feed is blocked: unblock it first.")
        outcome = await self._app.feed_list.import_list(SubscriptionList("", (Subscription(target),)))
        text, ok = "Added." if outcome.added else "It is on the list already.", True
        if service.store.get(target) is None:
            report = await service.admin.refresh(target)
            text += f" {SENTENCES.get(report.outcome, '')}"
            text += f" ({redact_text(report.reason)})" if report.reason else ""
            ok = service.admin.is_feed(target)
            text += "" if ok or report.outcome == "failed" else " It is no feed."
        else:
            text += " It is in the cache."
        self._pages.feed_table.forget([target])
        view = {"ok": ok, **self._public_name(target), "added": bool(outcome.added), "words": text}
        return self._outcome(target, view, Notice(ok, text))

    async def decide(self, request: web.Request, *, action: str) -> ActionOutcome:
        """Pause or block a target, or end its pause or block. `action` is a key of DECISIONS.

        feedproxy serves the copy of a paused target without fetching it. Clients get 403 for a blocked target, and its
        copy is purged. Raises TooManyDecisions at the limit of paused and blocked feeds, InvalidForm for a pattern, and
        the errors of `purge`.
        """
        decision, changed, unchanged = DECISIONS[action]
        service = self._pages.service()
        target, pattern = await self._parse_target(request)
        if pattern:
            raise request_parameters.InvalidForm("pattern: expected url or id. For many feeds write a rule (feeds:).")
        is_change = await self._app.parts.decisions.decide(target, decision)
        if decision is FeedDecision.BLOCKED:
            await service.admin.purge(target)
        service.schedule.scheduler.reschedule(target)
        self._pages.feed_table.forget([target])
        state = str(decision) if decision is not None else None
        view = {"ok": True, **self._public_name(target), "decision": state, "changed": is_change}
        return self._outcome(target, view, Notice(True, changed if is_change else unchanged))

    async def _refresh_all(self, service: Service, targets: list[str]) -> list[View]:
        """Refresh the targets, those of one site at intervals of `site_interval` for at most SITE_SLOTS_MAX seconds.
        Return the view of each outcome."""
        semaphore, clock = asyncio.Semaphore(MAX_CONCURRENT), self._app.clock
        end = clock.now() + SITE_SLOTS_MAX

        async def refresh(target: str) -> View:
            async with semaphore:
                while (deferred := service.admin.deferral(target)) is not None:
                    if deferred.detail != Detail.SITE_INTERVAL or deferred.until >= end:
                        break
                    await clock.sleep(max(0.01, deferred.until - clock.now()))
                return self._refresh_view(await service.admin.refresh(target))

        return await asyncio.gather(*(refresh(target) for target in targets))

    async def _parse_target(self, request: web.Request) -> tuple[str, str]:
        """Return the target and the pattern that a request names. One of them is "". `url` and `id` (the identifier of
        a stored feed) name a target, and `pattern` names many targets.

        Raises BadTarget for an invalid target, NotFound for an unknown id, and InvalidForm for other invalid
        parameters.
        """
        parameters = await request_parameters.read_parameters(request)
        url, identifier, pattern = (parameters.get(name, "").strip() for name in ("url", "id", "pattern"))
        if sum(map(bool, (url, identifier, pattern))) != 1:
            raise request_parameters.InvalidForm("Expected one of url, pattern and id.")
        if url:
            return await self._target_of(uri.normalise(url)), ""
        if identifier:
            return await self._pages.target(identifier), ""
        return "", pattern

    async def _target_of(self, address: str) -> str:
        """Return the target that a normalised address names. The address can be the target itself, its public address,
        or its address at this proxy. Raises BadTarget for an address at this proxy that names no target."""
        app, admin = self._app, self._pages.service().admin
        settings, target = app.settings, admin.to_upstream_url(address)
        if is_upstream_target(target, settings) or not await is_own(target, settings, app.parts.policy, app.listeners):
            return target
        if settings.upstream:
            target = uri.normalise(rebase(target, uri.origin_of(target), settings.upstream) or target)
        else:
            target = pasted_address.unwrap(target, settings.endpoint_prefix)
        return admin.to_upstream_url(target)

    def _outcome(self, target: str, view: View, notice: Notice) -> ActionOutcome:
        if target and self._pages.service().store.get(target) is not None:
            path = f"/feeds/{feed_id(target)}"
        else:
            path = "/feeds" if "decision" in view else "/"
        return ActionOutcome(view, notice, path, 202 if view.get("outcome") == "later" else 200)

    def _refresh_view(self, report: RefreshReport) -> View:
        return {
            "ok": report.outcome != "failed" and (report.outcome != "not-stored" or (report.status or 0) < 400),
            **self._public_name(report.target),
            "outcome": report.outcome,
            "sentence": SENTENCES.get(report.outcome, ""),
            "words": redact_text(report.reason),
            "status": report.status,
            "at": iso(report.at) if report.at is not None else None,
        }

    def _public_name(self, target: str) -> View:
        return public_name(target, self._app.settings)
