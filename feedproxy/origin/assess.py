"""How fresh is a stored response, everything considered: HTTP, the feed's hints, its history (DESIGN, section 6)."""

from feedproxy.cache import freshness
from feedproxy.cache.freshness import Allowance, Freshness
from feedproxy.cache.stored import StoredResponse
from feedproxy.clock import Instant
from feedproxy.feed import schedule
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


def assess(resource: Resource, stored: StoredResponse, settings: Settings, now: Instant) -> Freshness:
    """One function for all who ask: the cache, the status page, the log. Its `words` are the reason."""
    channel = resource.channel if stored.content.feed else None
    learned = None
    if channel is not None:
        learned = schedule.learned_lifetime(
            resource.changes, now, minimum=settings.lifetime_min, maximum=settings.lifetime_max
        )

    def hint(_: StoredResponse, base: Instant, expires: Instant | None, at: Instant) -> Allowance | None:
        if channel is None or settings.feed_hints == "off":
            return None
        if settings.feed_hints == "heuristic" and expires is not None:
            return None  # HTTP has spoken
        hold = schedule.hold(
            channel.schedule,
            base=base,
            expires=expires,
            now=at,
            hint_max=settings.hint_max,
            skip_max=settings.skip_max,
        )
        return Allowance(hold.until, hold.detail, hold.words) if hold is not None else None

    return freshness.assess(
        stored,
        now,
        hint=hint,
        learned=learned,
        # Where nobody says anything a feed is worth a guess; of other things HTTP alone decides.
        default=settings.default_lifetime if channel is not None else 0,
        minimum=settings.lifetime_min if channel is not None else 0,
        maximum=settings.lifetime_max,
        targeted=bool(settings.upstream),
    )
