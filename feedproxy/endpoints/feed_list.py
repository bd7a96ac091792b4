"""The office's list: what its operator has imported, and what its readers have asked for lately.

Both are state in the store, so every worker and every machine on one store has the same list. What was asked for is
noted with a few pseudonyms of readers (subscribers/distinct_readers.py), now and then: `list_readers_min` different
ones make a feed public. An address with a secret in it is not noted at all, and what is listed is asked anew each time
whether it may be (visibility.py): a rule may have made it private since.

Importing is the operator's word: feeds are fetched in the background, one at a time for each site, in its turn; and
for the schedule the import counts as a reader who has asked once. Only an explicit word adds hosts to those whose TLS
is decrypted: "Using a feed never adds a host".
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from feedproxy.aio import yielding
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.feed import opml
from feedproxy.feed.discovery import page_address
from feedproxy.feed.opml import Subscription, SubscriptionList
from feedproxy.http import uri
from feedproxy.http.redaction import has_secret
from feedproxy.proxy.service import Service
from feedproxy.proxy.visibility import may_be_listed
from feedproxy.refresh.policy import relocation
from feedproxy.request.url_mapping import is_upstream_target
from feedproxy.rules import BLOCKED
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import Resource
from feedproxy.subscribers.distinct_readers import Readers, count_distinct, merge_readers
from feedproxy.subscribers.pseudonyms import PERIOD

logger = logging.getLogger(__name__)

LISTED_FOR = PERIOD
"""Seconds for which a feed stands in the list after readers asked for it (DESIGN, section 4)."""

SMALL_LIST_MAX = 500
"""Feeds up to which the list is made anew at every change: some milliseconds."""

REUSE_COST_FACTOR = 10
"""Times its own cost for which a longer list is used again, so that asking for it takes a tenth of one core at most; a
minute at most, since a month ends for some feed at any time. A change of rules is never waited for."""
REUSE_MAX: Seconds = 60

STATE_CHECK_INTERVAL: Seconds = 1.0
"""What another process has imported is seen after that."""

CONCURRENT_SITES_MAX = 4
"""Sites asked at a time for feeds that were imported."""

IMPORTED, RECENTLY_REQUESTED = "office-list", "office-asked"
"""Names of the states."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What is kept of all imports: a name, the feeds, when each was imported, and hosts whose TLS is decrypted."""

    title: str = ""
    feeds: tuple[Subscription, ...] = ()
    since: Mapping[str, Instant] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import came to: feeds that are new in the list, those it had, those left out, hosts added."""

    added: tuple[str, ...]
    known: int
    skipped_count: int
    hosts: tuple[str, ...]


class ImportedFeeds:
    """The imports of all processes on one store; as `Demand` each import counts as one reader."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._raw: bytes | None = None
        self._imported = Imported()
        self._checked_at = -math.inf

    @property
    def current(self) -> Imported:
        """The imports, at most STATE_CHECK_INTERVAL old."""
        if time.monotonic() - self._checked_at >= STATE_CHECK_INTERVAL:
            self.reload()
        return self._imported

    @property
    def version(self) -> bytes | None:
        """The stored form of the imports, which differs after each change."""
        return self._raw

    def count_since(self, target: str, since: Instant) -> int:
        """Return 1 if this feed was imported since then, else 0."""
        imported = self.current.since.get(target)
        return int(imported is not None and imported >= since)

    def reload(self) -> Imported:
        """Read the imports from the store."""
        self._checked_at = time.monotonic()
        raw = self._store.get_state(IMPORTED)
        if raw != self._raw:
            self._raw, self._imported = raw, _decode_imported(raw)
        return self._imported

    async def save(self, imported: Imported) -> None:
        """Write the imports to the store. Raises StoreError."""
        raw = _encode_imported(imported)
        await self._store.put_state(IMPORTED, raw)
        self._raw, self._imported = raw, imported


class FeedList:
    """The list of one installation. Used within one event loop."""

    def __init__(
        self,
        service: Service,
        imports: ImportedFeeds,
        clock: Clock,
        settings_for: Callable[[str], Settings],
        changed: Callable[[], int],
    ) -> None:
        """`changed` gives another number after every change of options or rules."""
        self._service = service
        self.imports = imports
        self._store: Store = service.store
        self._clock = clock
        self._settings_for = settings_for
        self._settings_generation_of = changed
        self._prefetching: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._listing: SubscriptionList = SubscriptionList()
        self._public_names: tuple[SubscriptionList, frozenset[str]] = self._listing, frozenset()
        self._list_state: object = None
        self._settings_generation = -1
        self._candidates = 0
        self._reuse_until = self._expires = -math.inf

    # -- what was imported

    @property
    def imported(self) -> Imported:
        """What was imported, here or by another process a moment ago."""
        return self.imports.current

    async def import_list(
        self, listing: SubscriptionList, *, name: str = "", replace: bool = False, intercept: bool = False
    ) -> ImportOutcome:
        """Import a list: add it to what is there, or put it in its place; fetch what is not held.

        `intercept` adds the hosts of its https feeds to those whose TLS is decrypted. Raises StoreError.
        """
        before, now = self.imports.reload(), self._clock.now()
        kept = () if replace else before.feeds
        feeds = opml.merge(kept, listing.feeds)
        added = [each.address for each in feeds if each.address not in before.since]
        hosts = {uri.host_port(each.address)[0] for each in listing.feeds if each.address.startswith("https:")}
        new_hosts = hosts - before.hosts if intercept else set()
        standing = frozenset() if replace else before.hosts
        await self._save(
            Imported(
                name or before.title or listing.title,
                feeds,
                {each.address: before.since.get(each.address, now) for each in feeds},
                standing | hosts if intercept else standing,
            )
        )
        self._prefetch_imported()
        known = len({each.address for each in listing.feeds} & before.since.keys())
        return ImportOutcome(tuple(added), known, listing.skipped_count, tuple(sorted(new_hosts)))

    # -- what was asked for

    async def save_requested(self) -> None:
        """Write down what was asked for lately, beside what other processes have written. Raises StoreError."""
        before = self._store.get_state(RECENTLY_REQUESTED)
        now = await self._requested_recently()
        raw = await asyncio.to_thread(_encode_requested, now)
        if raw != before:
            await self._store.put_state(RECENTLY_REQUESTED, raw)

    # -- the list

    async def public(self) -> SubscriptionList:
        """The public list: every feed imported or asked for in the last 30 days that may be named to everybody."""
        async with self._lock:
            self.imports.reload()
            token = (self._store.common.generation, self.imports.version, self._service.counts.distinct.changes)
            now, decided = time.monotonic(), self._settings_generation_of()
            if decided != self._settings_generation or (
                now >= self._reuse_until and (token != self._list_state or now >= self._expires)
            ):
                self._listing = await self._build_public_list()
                self._list_state, self._settings_generation, cost = token, decided, time.monotonic() - now
                pause = cost + min(REUSE_MAX, REUSE_COST_FACTOR * cost) if self._candidates > SMALL_LIST_MAX else 0.0
                self._reuse_until, self._expires = now + pause, now + REUSE_MAX
            return self._listing

    async def public_addresses(self) -> frozenset[str]:
        """The addresses that the public list names."""
        listing = await self.public()
        if listing is not self._public_names[0]:
            self._public_names = listing, frozenset(each.address for each in listing.feeds)
        return self._public_names[1]

    def public_hosts(self, listing: SubscriptionList) -> list[str]:
        """The hosts added by imports that a feed of the public list is at."""
        return sorted(self.imported.hosts & {uri.host_port(each.address)[0] for each in listing.feeds})

    def resume(self) -> None:
        """Go on fetching what was imported and is not held: the process may have ended meanwhile."""
        if self.imported.feeds:
            self._prefetch_imported()

    async def close(self) -> None:
        """Fetch nothing more."""
        if self._prefetching is not None:
            self._prefetching.cancel()
            await asyncio.gather(self._prefetching, return_exceptions=True)

    # -- inside

    async def _build_public_list(self) -> SubscriptionList:
        asked = await self._requested_recently()
        imported = self.imports.current
        by_address = {each.address: each for each in imported.feeds}
        enough = max(1, self._settings_for("").list_readers_min)
        known = (target for target, readers in asked.items() if count_distinct(readers) >= enough)
        others = sorted(set(known) - by_address.keys())
        self._candidates = len(by_address) + len(others)
        found: dict[str, Subscription] = {}
        async for each in yielding([*imported.feeds, *(Subscription(target) for target in others)]):
            shown = self._public_entry(each, is_imported=each.address in by_address)
            if shown is not None:
                found.setdefault(shown.address, shown)
        return SubscriptionList(imported.title, tuple(found.values()))

    def _public_entry(self, entry: Subscription, *, is_imported: bool) -> Subscription | None:
        """An entry as the list has it: with what its feed says of itself, under its address of now. None where it may
        not be listed, or has ended. What was not imported is listed as long as it is held: only the stored copy tells
        that everybody may read it."""
        if not is_imported and self._store.peek(entry.address) is None:
            return None
        for _ in range(2):
            target = entry.address
            settings = self._settings_for(target)
            resource = self._store.peek(target)
            if not may_be_listed(target, settings, resource):
                return None
            sighting = resource.sighting if resource is not None else None
            match relocation.active_relocation(sighting, self._clock.now(), settings, target=target):
                case relocation.RespondGone():
                    return None
                case relocation.RespondMoved(location):
                    entry = replace(entry, address=location)
                case _:
                    return _with_channel_data(entry, resource)
        return None

    async def _requested_recently(self) -> dict[str, Readers]:
        """What was asked for in the last 30 days, and by which readers, a few of each."""
        since = self._clock.now() - LISTED_FOR
        lately = [each async for each in yielding(self._service.counts.distinct.since(since))]
        return await asyncio.to_thread(_merge_requested, self._store.get_state(RECENTLY_REQUESTED), lately, since)

    async def _save(self, imported: Imported) -> None:
        await self.imports.save(imported)
        self._list_state = None
        self._reuse_until = -math.inf

    def _prefetch_imported(self) -> None:
        if self._prefetching is not None:
            self._prefetching.cancel()
        self._prefetching = asyncio.ensure_future(self._fetch_all())

    async def _fetch_all(self) -> None:
        sites: dict[str, list[str]] = {}
        async for each in yielding(self.imported.feeds):
            if self._store.peek(each.address) is None and self._is_reachable(each.address):
                sites.setdefault(uri.site_of(each.address), []).append(each.address)
        gate = asyncio.Semaphore(CONCURRENT_SITES_MAX)

        async def one(targets: Iterable[str]) -> None:
            async with gate:
                for target in targets:
                    await self._fetch(target)

        await asyncio.gather(*(one(targets) for targets in sites.values()))

    async def _fetch(self, target: str) -> None:
        try:
            while self._store.peek(target) is None:
                turn = self._service.admin.next_allowed_fetch(target)
                if turn is None:
                    await self._service.admin.refresh(target)
                    return
                await self._clock.sleep(max(0.01, turn - self._clock.now()))
        except Exception:
            logger.exception("a feed of the list could not be fetched")

    def _is_reachable(self, target: str) -> bool:
        """In reverse mode only what we stand in front of is ever fetched, and nothing that is blocked."""
        settings = self._settings_for(target)
        return settings.readers != BLOCKED and (not settings.upstream or is_upstream_target(target, settings))


def _with_channel_data(entry: Subscription, resource: Resource | None) -> Subscription:
    channel = resource.channel if resource is not None else None
    if channel is None:
        return entry
    page = page_address(channel, entry.address) or entry.page
    return replace(entry, title=entry.title or channel.title, page="" if has_secret(page) else page)


def _merge_requested(raw: bytes | None, lately: Iterable[tuple[str, Readers]], since: Instant) -> dict[str, Readers]:
    """What was noted as asked for, and what was lately."""
    try:
        told = json.loads(raw) if raw else {}
        # Version 1 knew when a feed was asked for, and not by how many.
        asked = told["asked"] if told.get("version") == 2 else {}
        noted = {str(target): {int(each): int(at) for each, at in readers} for target, readers in asked.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        noted = {}  # it is written anew
    return merge_readers(noted, lately, since)


def _encode_requested(asked: Mapping[str, Readers]) -> bytes:
    return json.dumps({"version": 2, "asked": {target: list(each.items()) for target, each in asked.items()}}).encode()


def _encode_imported(imported: Imported) -> bytes:
    feeds = [
        [each.address, each.title, each.page, list(each.folder), imported.since[each.address]]
        for each in imported.feeds
    ]
    told = {"version": 1, "title": imported.title, "feeds": feeds, "hosts": sorted(imported.hosts)}
    return json.dumps(told).encode()


def _decode_imported(raw: bytes | None) -> Imported:
    """What was written; nothing where that makes no sense."""
    try:
        told: Any = json.loads(raw) if raw else {}
        feeds = [
            (Subscription(str(address), str(title), str(page), tuple(map(str, folder))), float(since))
            for address, title, page, folder, since in told.get("feeds", ())
        ]
        since = {feed.address: at for feed, at in feeds}
        hosts = frozenset(map(str, told.get("hosts", ())))
        return Imported(str(told.get("title", "")), tuple(feed for feed, _ in feeds), since, hosts)
    except (ValueError, TypeError, AttributeError) as error:
        logger.warning("the list in the store cannot be read: %s", error)
        return Imported()
