"""The public feed list: feeds that the operator imported, and feeds that readers requested in the last 30 days.

A requested feed becomes public after `list_readers_min` different readers have requested it, unless its URL contains a
secret. Visibility is checked each time the list is built (public_feeds.py), because a rule might have made a feed
private. Each machine of a fleet has its own imports.
"""

import asyncio
import json
import math
import struct
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.background_work import cancel
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.endpoints.imported_feeds import Imported, ImportedFeeds, fetch_missing
from feedproxy.feed import opml
from feedproxy.feed.channel_addresses import page_address
from feedproxy.feed.opml import Subscription, SubscriptionList
from feedproxy.http import uri
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.proxy.public_feeds import has_enough_readers, is_restricted, may_be_listed
from feedproxy.proxy.service import Service
from feedproxy.refresh.policy import moved_and_gone
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.permitted_store import IsTargetPermitted
from feedproxy.store.resource import Resource
from feedproxy.subscribers.reader_pseudonyms import PERIOD
from feedproxy.subscribers.readers_for_public_lists import Readers, merge_readers

LISTED_FOR = PERIOD
"""A requested feed stays in the list for this many seconds after the last request for it. Imported feeds stay."""

SMALL_LIST_MAX = 500
"""A list of at most this many feeds is rebuilt after each change, in some milliseconds."""

REUSE_COST_FACTOR = 10
"""A list of more than SMALL_LIST_MAX feeds is reused for this many times the duration of building it, so that building
takes at most a tenth of a CPU core. It is reused for at most REUSE_MAX seconds, and never after a change of rules."""
REUSE_MAX: Seconds = 60

RECENTLY_REQUESTED = "office-asked"
"""Name under which the store has the requested feeds."""


class ImportOutcome(Struct, frozen=True):
    """The result of an import: the new feeds, the number of feeds that were imported before, the number of skipped
    feeds, and the hosts for which TLS is decrypted from now on."""

    added: tuple[str, ...]
    known: int
    skipped_count: int
    hosts: tuple[str, ...]


class FeedList:
    """The feed list of one process. Only one event loop may use it."""

    def __init__(
        self,
        service: Service,
        imports: ImportedFeeds,
        clock: Clock,
        settings_for: Callable[[str], Settings],
        changed: Callable[[], int],
        *,
        is_target_permitted: IsTargetPermitted = lambda target: True,
    ) -> None:
        """Create the list. `changed` returns a different number after each change of options or rules."""
        self._service = service
        self.imports = imports
        self._store: Store = service.store
        self._clock = clock
        self._settings_for = settings_for
        self._settings_generation_of = changed
        self._is_target_permitted = is_target_permitted
        self._prefetching: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._listing: SubscriptionList = SubscriptionList()
        self._public_names: tuple[SubscriptionList, frozenset[str]] = self._listing, frozenset()
        self._list_state: object = None
        self._settings_generation = -1
        self._candidates = 0
        self._reuse_until = self._expires = -math.inf

    # -- imports

    @property
    def imported(self) -> Imported:
        """Return the imported feeds of all processes."""
        return self.imports.current

    async def import_list(
        self, listing: SubscriptionList, *, name: str = "", replace: bool = False, intercept: bool = False
    ) -> ImportOutcome:
        """Add a list to the imports, or replace all imports by the list, and return the outcome. Raises StoreError if
        the store fails.

        Feeds that are not stored are fetched. If `intercept` is true, TLS to the hosts of the list's https feeds is
        decrypted from then on. `replace` ends the decryption for hosts of earlier imports.
        """
        before, now = self.imports.reload(), self._clock.now()
        present = () if replace else before.feeds
        feeds = opml.merge(present, listing.feeds)
        added = [feed.address for feed in feeds if feed.address not in before.since]
        hosts = {uri.split_host_port(feed.address)[0] for feed in listing.feeds if feed.address.startswith("https:")}
        new_hosts = hosts - before.hosts if intercept else set()
        standing = frozenset() if replace else before.hosts
        await self.imports.save(
            Imported(
                name or before.title or listing.title,
                feeds,
                {feed.address: before.since.get(feed.address, now) for feed in feeds},
                standing | hosts if intercept else standing,
            )
        )
        self._list_state, self._reuse_until = None, -math.inf
        self._prefetch_imported()
        known = len({feed.address for feed in listing.feeds} & before.since.keys())
        return ImportOutcome(tuple(added), known, listing.skipped_count, tuple(sorted(new_hosts)))

    # -- requested feeds

    async def save_requested(self) -> None:
        """Save the recently requested feeds, merged with those of other processes. Raises StoreError if the store
        fails."""
        before = await self._store.read_state(RECENTLY_REQUESTED)
        now = await self._requested_recently()
        raw = await asyncio.to_thread(_encode_requested, now)
        if raw != before:
            await self._store.put_state(RECENTLY_REQUESTED, raw)

    # -- the list

    async def public(self) -> SubscriptionList:
        """Return the public list."""
        async with self._lock:
            await self.imports.reload_in_background()
            token = (
                self._store.coordination.generation,
                self.imports.stored_form,
                self._service.counts.distinct.changes,
            )
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
        """Return the addresses in the public list."""
        listing = await self.public()
        if listing is not self._public_names[0]:
            self._public_names = listing, frozenset(feed.address for feed in listing.feeds)
        return self._public_names[1]

    def public_hosts(self, listing: SubscriptionList) -> list[str]:
        """Return those hosts of the feeds in `listing`, the public list, for which an import permits the decryption of
        TLS."""
        return sorted(self.imported.hosts & {uri.split_host_port(feed.address)[0] for feed in listing.feeds})

    def resume(self) -> None:
        """Continue fetching imported feeds after a restart."""
        if self.imported.feeds:
            self._prefetch_imported()

    async def close(self) -> None:
        """Stop fetching imported feeds."""
        await cancel(self._prefetching)

    # -- internals

    async def _build_public_list(self) -> SubscriptionList:
        requested = await self._requested_recently()
        imported = self.imports.current
        by_address = {feed.address: feed for feed in imported.feeds}
        settings = self._settings_for("")
        known = (target for target, readers in requested.items() if has_enough_readers(readers, settings))
        others = sorted(set(known) - by_address.keys())
        self._candidates = len(by_address) + len(others)
        subscriptions: dict[str, Subscription] = {}
        async for feed in iterate_cooperatively([*imported.feeds, *(Subscription(target) for target in others)]):
            shown = self._public_entry(feed, is_imported=feed.address in by_address)
            if shown is not None:
                subscriptions.setdefault(shown.address, shown)
        return SubscriptionList(imported.title, tuple(subscriptions.values()))

    def _public_entry(self, entry: Subscription, *, is_imported: bool) -> Subscription | None:
        """Return an entry with its feed's title and current address. Return None if the feed is not public or has
        ended, or if its address is not permitted. A feed that was not imported is listed only while a stored copy
        proves that it is public."""
        if not is_imported and self._store.peek(entry.address) is None:
            return None
        for _ in range(2):
            target = entry.address
            settings = self._settings_for(target)
            resource = self._store.peek(target)
            if not may_be_listed(target, settings, resource) or (resource is not None and is_restricted(resource)):
                return None
            if not self._is_target_permitted(target):
                return None  # an import from a time in which the address was permitted
            sighting = resource.relocation if resource is not None else None
            match moved_and_gone.active_relocation(sighting, self._clock.now(), settings, target=target):
                case moved_and_gone.RespondGone():
                    return None
                case moved_and_gone.RespondMoved(location):
                    entry = replace(entry, address=location)
                case _:
                    return _with_channel_data(entry, resource)
        return None

    def _prefetch_imported(self) -> None:
        if self._prefetching is not None:
            self._prefetching.cancel()
        fetches = fetch_missing(self.imports, self._service, self._clock, self._settings_for)
        self._prefetching = asyncio.ensure_future(fetches)

    async def _requested_recently(self) -> dict[str, Readers]:
        """Return the feeds requested in the last 30 days, each with a few of its readers."""
        since = self._clock.now() - LISTED_FOR
        recent = [entry async for entry in iterate_cooperatively(self._service.counts.distinct.since(since))]
        stored = await self._store.read_state(RECENTLY_REQUESTED)
        return await asyncio.to_thread(_merge_requested, stored, recent, since)


def _with_channel_data(entry: Subscription, resource: Resource | None) -> Subscription:
    channel = resource.channel if resource is not None else None
    if channel is None:
        return entry
    page = page_address(channel, entry.address) or entry.page
    return replace(entry, title=entry.title or channel.title, page="" if has_secret(page) else page)


def _merge_requested(raw: bytes | None, recent: Sequence[tuple[str, Readers]], since: Instant) -> dict[str, Readers]:
    """Return the readers of each requested feed: the saved ones (`raw`) merged with the recent ones. Requests before
    the instant `since` do not count. An unreadable saved value counts as empty."""
    try:
        state = json.loads(raw) if raw else {}
        # Version 1 stored the instant of a feed's last request, and not the number of its readers.
        requested = state["asked"] if state.get("version") == 2 else {}
        saved = {str(target): {int(reader): int(at) for reader, at in readers} for target, readers in requested.items()}
        return merge_readers(saved, recent, since)
    except (ValueError, LookupError, TypeError, AttributeError, struct.error):
        return merge_readers({}, recent, since)  # an unreadable value is replaced


def _encode_requested(requested: Mapping[str, Readers]) -> bytes:
    return json.dumps(
        {"version": 2, "asked": {target: list(readers.items()) for target, readers in requested.items()}}
    ).encode()
