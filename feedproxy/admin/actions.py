"""What the operator can do: ask an origin now, forget copies, undo a remembered move or end.

Each answers when it is done: with JSON, or, to a form of our own pages, by leading back to the page that tells
the outcome. A target comes as `url` (the public one or the upstream's), as `id` (so that no page has to name an
address with a secret in it), or, where several are meant, as `pattern`.
"""

import asyncio

from aiohttp import web

from feedproxy.admin import form
from feedproxy.admin.feed_pages import OUTCOME, AppView, FeedPages, Notice, as_json, wants_json
from feedproxy.admin.feed_table import FeedTableCache
from feedproxy.aio import yielding
from feedproxy.clock import Seconds
from feedproxy.feed import subscription_address
from feedproxy.feed.opml import Subscription, SubscriptionList
from feedproxy.http import uri
from feedproxy.proxy.cache_admin import RefreshReport
from feedproxy.proxy.service import Service
from feedproxy.refresh.paused_and_blocked import FeedDecision
from feedproxy.request.upstream_request import feed_id
from feedproxy.rules import BLOCKED
from feedproxy.telemetry.redacted import View, public_name, redact_text
from feedproxy.upstream.own_authority import is_own
from feedproxy.web.templates import iso

LISTED_MAX = 1000
"""Targets named in an answer; the rest is counted."""

SHOWN_IN_CONFIRMATION = 20
"""Feeds that the question before a purge names; the rest is counted."""

MAX_CONCURRENT = 8
"""Origins asked at the same time when a pattern names many feeds."""

SITE_SLOTS_MAX: Seconds = 60
"""Seconds for which a refresh of many feeds waits for their site's turns; what comes later is answered as `later`."""

SENTENCES = {
    "updated": "The origin has sent a new version.",
    "unchanged": "The origin has sent the same again.",
    "confirmed": "The origin says that the copy is still good.",
    "paused": "Nothing was asked: resume the feed first.",
    "later": "It is not the feed's turn yet; it will be asked then.",
    "failed": "The origin gave nothing usable.",
    "not-stored": "The origin answered, but HTTP does not let us keep it.",
}


class AdminActions:
    """The handlers that change something."""

    def __init__(self, app: AppView, clerk: FeedTableCache, answers: FeedPages) -> None:
        self._app = app
        self._feed_table = clerk
        self._pages = answers

    async def refresh(self, request: web.Request) -> web.Response:
        """Ask the origin of this target, or of all feeds that match, now or as soon as may be."""
        service = self._pages.service()
        target, pattern = await self._parse_target(request)
        if target:
            done = self._refresh_notice(await service.admin.refresh(target))
            self._feed_table.forget([target])
            words = f"{done['sentence']} ({done['words']})" if done["words"] else done["sentence"]
            return self._outcome(request, target, done, Notice(done["ok"], words))
        matches = service.admin.target_matcher(pattern)
        targets = [each async for each in yielding(service.store.targets()) if matches(each)]
        told = await self._refresh_all(service, targets)
        self._feed_table.forget(targets)
        good = sum(1 for each in told if each["ok"])
        view = {"pattern": pattern, "matched": len(told), "ok": good == len(told), "refreshed": told[:LISTED_MAX]}
        return self._outcome(request, "", view, Notice(good == len(told), f"{good} of {len(told)} feeds asked for."))

    async def purge(self, request: web.Request) -> web.Response:
        """Forget this target, or all that match: copy, history and moves. Subscribers are still counted."""
        service = self._pages.service()
        target, pattern = await self._parse_target(request)
        gone = await service.admin.purge(target, pattern=pattern)
        self._feed_table.forget(gone)
        names = [self._public_name(each)["target"] for each in gone[:LISTED_MAX]]
        view = {"ok": True, "purged": len(gone), "targets": names}
        words = {0: "Nothing of that was held.", 1: "Forgotten: the next reader gets a new copy."}
        notice = Notice(bool(gone), words.get(len(gone), f"{len(gone)} copies forgotten."))
        return self._outcome(request, target, view, notice)

    async def confirm(self, request: web.Request) -> web.Response:
        """Show what a purge would forget, and ask. Nothing is changed by it; raises as `purge` does."""
        service = self._pages.service()
        target, pattern = await self._parse_target(request)
        matches = service.admin.target_matcher(pattern)
        held = [target] if target else [each async for each in yielding(service.store.targets()) if matches(each)]
        rows = {row["id"]: row for row in (await self._pages.roll()).rows}
        found = [rows[identifier] for each in held if (identifier := feed_id(each)) in rows]
        found.sort(key=lambda row: (-row["subscribers"], row["title"].casefold()))
        return self._pages.page(
            request,
            "confirm.html",
            identifier=feed_id(target) if target else "",
            pattern=pattern,
            rows=found[:SHOWN_IN_CONFIRMATION],
            feeds=len(found),
            others=len(held) - len(found),
            held=len(held),
            subscribers=sum(row["subscribers"] for row in found),
        )

    async def undo(self, request: web.Request) -> web.Response:
        """Forget a remembered move or end of this target."""
        target, pattern = await self._parse_target(request)
        if pattern:
            raise form.InvalidForm("A move is undone for one feed at a time: url, not pattern.")
        undone = await self._pages.service().admin.clear_relocation(target)
        self._feed_table.forget([target])
        view = {"ok": undone, **self._public_name(target), "undone": undone}
        words = "The remembered move or end is forgotten." if undone else "No move or end was remembered."
        return self._outcome(request, target, view, Notice(undone, words))

    async def add(self, request: web.Request) -> web.Response:
        """Put a feed on the imported list and fetch it: `url`, as people paste it. Raises BadTarget, StoreError."""
        given = await form.read_parameters(request)
        settings = self._app.settings
        service = self._pages.service()
        target = service.admin.to_upstream_url(
            subscription_address.read(given.get("url", ""), settings.public_url.rstrip("/"))
        )
        if await is_own(target, settings, self._app.policy, self._app.listeners):
            target = subscription_address.unwrap(target, settings.endpoint_prefix)
        if self._app.settings_for(target).readers == BLOCKED:
            raise form.InvalidForm("This feed is blocked: unblock it first.")
        outcome = await self._app.feed_list.import_list(SubscriptionList("", (Subscription(target),)))
        known = "Added" if outcome.added else "It is on the list already"
        if service.store.get(target) is None:
            done = await service.admin.refresh(target)
            words = f"{known}. {SENTENCES.get(done.outcome, '')}" + (
                f" ({redact_text(done.words)})" if done.words else ""
            )
            ok = service.admin.is_feed(target)
            words += "" if ok or done.outcome == "failed" else " It is no feed."
        else:
            words, ok = f"{known}. It is in the cache.", True
        self._feed_table.forget([target])
        view = {"ok": ok, **self._public_name(target), "added": bool(outcome.added), "words": words}
        return self._outcome(request, target, view, Notice(ok, words))

    async def pause(self, request: web.Request) -> web.Response:
        """Ask for this target no more; its copy is served. Raises as `purge` does, and TooMany."""
        return await self._set_decision(
            request, FeedDecision.PAUSED, "Paused: the stored copy is served.", "It was paused."
        )

    async def block(self, request: web.Request) -> web.Response:
        """Refuse this target to all readers, and forget its copy. Raises as `purge` does, and TooMany."""
        return await self._set_decision(request, FeedDecision.BLOCKED, "Blocked: readers get 403.", "It was blocked.")

    async def allow(self, request: web.Request) -> web.Response:
        """Take back a pause or a block. Raises as `purge` does."""
        return await self._set_decision(
            request, None, "It is served and asked for again.", "It was neither paused nor blocked."
        )

    async def _set_decision(
        self, request: web.Request, decision: FeedDecision | None, changed: str, unchanged: str
    ) -> web.Response:
        service = self._pages.service()
        target, pattern = await self._parse_target(request)
        if pattern:
            raise form.InvalidForm("One feed at a time: url, not pattern. For many, write a rule (feeds:).")
        is_change = await self._app.decisions.decide(target, decision)
        if decision is FeedDecision.BLOCKED:
            await service.admin.purge(target)
        service.admin.agenda.note(target)
        self._feed_table.forget([target])
        state = str(decision) if decision is not None else None
        view = {"ok": True, **self._public_name(target), "decision": state, "changed": is_change}
        return self._outcome(request, target, view, Notice(True, changed if is_change else unchanged))

    async def _refresh_all(self, service: Service, targets: list[str]) -> list[View]:
        """Refresh them, those of one site one after the other in its turns (`site_interval`) for a minute at most."""
        gate, clock = asyncio.Semaphore(MAX_CONCURRENT), self._app.clock
        end = clock.now() + SITE_SLOTS_MAX

        async def one(target: str) -> View:
            async with gate:
                while (turn := service.admin.site_turn(target)) is not None and turn < end:
                    await clock.sleep(max(0.01, turn - clock.now()))
                return self._refresh_notice(await service.admin.refresh(target))

        return await asyncio.gather(*(one(target) for target in targets))

    async def _parse_target(self, request: web.Request) -> tuple[str, str]:
        """Target and pattern, one of them empty. Raises BadTarget, NotFound, WrongRequest."""
        given = await form.read_parameters(request)
        url, identifier, pattern = (given.get(name, "").strip() for name in ("url", "id", "pattern"))
        if sum(map(bool, (url, identifier, pattern))) != 1:
            raise form.InvalidForm("One of url, pattern and id is needed.")
        if url:
            return self._pages.service().admin.to_upstream_url(uri.normalise(url)), ""
        if identifier:
            return await self._pages.target(identifier), ""
        return "", pattern

    def _outcome(self, request: web.Request, target: str, view: View, notice: Notice) -> web.Response:
        OUTCOME.set(notice.words)
        if wants_json(request):
            return as_json(view, 202 if view.get("outcome") == "later" else 200)
        held = bool(target) and self._pages.service().store.get(target) is not None
        elsewhere = "/feeds" if "decision" in view else "/"
        return self._pages.back(f"/feeds/{feed_id(target)}" if held else elsewhere, notice)

    def _refresh_notice(self, done: RefreshReport) -> View:
        return {
            "ok": done.outcome != "failed",
            **self._public_name(done.target),
            "outcome": done.outcome,
            "sentence": SENTENCES.get(done.outcome, ""),
            "words": redact_text(done.words),
            "status": done.status,
            "at": iso(done.at) if done.at is not None else None,
        }

    def _public_name(self, target: str) -> View:
        return public_name(target, self._app.settings)
