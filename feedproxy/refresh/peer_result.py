"""What another process's update brought, told from what it left in the store.

Several workers share one store, and one of them fetches (store/coordination.py). Whoever has waited for it finds its
outcome there, and answers as those who waited in the same process do. Where nothing of it is stored, for it may not
be, there is nothing to be shared, and he asks for himself.
"""

from feedproxy.cache import vary
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.feed.content_digest import stem_of
from feedproxy.http.message import Fields
from feedproxy.refresh.policy import content_guard, relocation
from feedproxy.refresh.policy.content_guard import Keep
from feedproxy.refresh.result import Landed
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


def landed(
    before: Resource | None,
    held: Resource | None,
    fields: Fields,
    now: Instant,
    settings: Settings,
    *,
    own_agent: bool,
) -> Landed | None:
    """What has landed between `before` and `held`, for a request with these fields; None for nothing of use to it."""
    if held is None or (before is not None and held.fetched <= before.fetched):
        return None
    old = before or Resource(held.target)
    if held.failures.count > old.failures.count:
        return _failed(held, settings)
    if held.sighting != old.sighting and relocation.standing(held.sighting, now, settings, target=held.target):
        return Landed(held, elsewhere=True)
    selected = vary.choose(held.variants, fields, own_agent=own_agent)
    if selected is None or selected.invalid:
        return None
    known = vary.choose(old.variants, fields, own_agent=own_agent)
    if known is not None and known.response_time >= selected.response_time:
        return None
    return Landed(held, selected, stored=True, changed=_has_changed(old, held, known, selected), elsewhere=True)


def _has_changed(old: Resource, held: Resource, known: StoredResponse | None, selected: StoredResponse) -> bool:
    was, now = (each.channel.content_digest if each.channel else None for each in (old, held))
    if was is None or now is None or (stem_of(was) is None) == (stem_of(now) is None):
        return was != now
    # Where one of the two goes by its bytes yet: what says the same was kept as it was.
    return known is None or known.content.tag != selected.content.tag


def _failed(held: Resource, settings: Settings) -> Landed | None:
    """The update failed, and the copy stands in as long as it would have for the one who asked."""
    detail = next((each for each in Detail if each == held.failures.detail), None)
    if not held.variants or detail is None:
        return None
    until = content_guard.last_good(held) + content_guard.patience_after(held.failures, settings)
    kept = Keep(detail, until, detail.sentence)
    return Landed(held, kept=kept, detail=detail, words=detail.sentence, elsewhere=True)
