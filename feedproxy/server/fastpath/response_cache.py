"""The memo: recipes by the exact bytes of a request, and by what its answer depends on.

Most readers send the very same bytes each time; those are looked up as they come, unparsed. Others put a number or a
date of their own into every request; these are parsed (request_head.py) and looked up by their key. Only complete
requests that were read and understood are ever put in, so bytes that match were understood before.

All is bounded by bytes; what came first goes first, a few at a time, since giving up all at once would hold up every
reader. While there is room, every answer from the store is kept; once half of it is taken, and always for exact bytes,
only what comes for the second time: strangers who never ask the same twice drive nobody out.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from feedproxy.proxy.cached_hit import HitConditions
from feedproxy.server.fastpath.response_template import Recipe

type Key = tuple[bytes, ...]

ENTRY_OVERHEAD = 320
"""Bytes of an entry beside its key: the pair, its place in the table, the objects' heads."""

SEEN_MAX = 16_384
"""Numbers of what was seen once, per generation; the older of two is given up."""

STRANGERS = 1024
"""So many in a row were never seen before: then one in ONE_IN is looked at."""
ONE_IN = 8

SHARED_MAX = 8192
"""Lines, and what else is shared, that are known at once."""

SLICE = 32
"""Entries given up at one go."""

SWEPT = 1024
"""Entries looked at each second for whether they can still be used: all within a minute, as many as there may be by
default. Half a millisecond."""


class Once:
    """What has been seen before, by its hash: two generations of numbers.

    `spared`: where many in a row are strangers, only one in some is looked at. Noting each would cost more than it
    brings, and who comes again and again is found out all the same.
    """

    def __init__(self, *, spared: bool = False) -> None:
        self._spared = spared
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._strangers = 0

    def again(self, what: bytes | Key) -> bool:
        """Whether it was seen before; from now on it was."""
        self._strangers += 1
        if self._spared and self._strangers > STRANGERS and self._strangers % ONE_IN:
            return False
        number = hash(what)
        if number in self._young or number in self._old:
            self._strangers = 0
            return True
        self._young.add(number)
        if len(self._young) >= SEEN_MAX:
            self._old, self._young = self._young, set()
        return False


class Shared:
    """One object for all that are equal: most readers of a feed, and most feeds of a reader, bring the same lines."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def __call__[T](self, value: T) -> T:
        """The one that is known already, or this one."""
        if len(self._known) >= SHARED_MAX:
            self._known.clear()
        found: T = self._known.setdefault(value, value)
        return found

    def conditions(self, terms: HitConditions) -> HitConditions:
        """The same for what answers depend on; settings are the same where they are one object."""
        if len(self._known) >= SHARED_MAX:
            self._known.clear()
        found: HitConditions = self._known.setdefault((id(terms[0]), *terms[1:]), terms)
        return found


class Table:
    """Recipes for requests that come from peers believed alike, over connections of one kind.

    `size_max` bounds it and the one `beside` it together: mostly one of the two is used.
    """

    def __init__(self, size_max: int, beside: "Table | None" = None) -> None:
        self._max = size_max
        self._beside = beside
        if beside is not None:
            beside._beside = self
        self.size = 0
        self.exact: OrderedDict[bytes, tuple[Recipe, bytes]] = OrderedDict()
        """Recipe, and the line that names the User-Agent, by the bytes of a whole request."""
        self.by_key: OrderedDict[Key, Recipe] = OrderedDict()
        self._once, self._once_exact = Once(), Once(spared=True)

    def worth_keeping(self, key: Key) -> bool:
        """Whether a request with this key comes for the second time, or there is room to spare."""
        return self.size < self._max // 2 or self._once.again(key)

    def worth_keeping_exactly(self, data: bytes) -> bool:
        """Whether these very bytes come for the second time."""
        return self._once_exact.again(data)

    def keep(self, key: Key, recipe: Recipe) -> None:
        """Answer with this recipe whatever has this key."""
        if key not in self.by_key:
            self.size += _size_of(key)
        else:
            self.size -= self.by_key[key].weight()
        self.by_key[key] = recipe
        self.size += recipe.weight()
        self._make_room()

    def keep_exact(self, data: bytes, recipe: Recipe, agent: bytes) -> None:
        """Answer these very bytes with this recipe."""
        if data not in self.exact:
            self.size += len(data) + ENTRY_OVERHEAD
        self.exact[data] = (recipe, agent)
        self._make_room()

    def drop(self, key: Key) -> None:
        """This key is to be looked at anew."""
        recipe = self.by_key.pop(key, None)
        if recipe is not None:
            self.size -= recipe.weight() + _size_of(key)

    def drop_exact(self, data: bytes) -> None:
        """These bytes are to be looked at anew."""
        if self.exact.pop(data, None) is not None:
            self.size -= len(data) + ENTRY_OVERHEAD

    def sweep(self, is_current: Callable[[Recipe], bool]) -> None:
        """Give up what cannot be used any more, looking at a few: it would hold what the store has let go."""
        for _ in range(min(SWEPT, len(self.by_key))):
            key, recipe = next(iter(self.by_key.items()))
            self.by_key.move_to_end(key)
            if not is_current(recipe):
                self.drop(key)
        for _ in range(min(SWEPT, len(self.exact))):
            data, (recipe, _) = next(iter(self.exact.items()))
            self.exact.move_to_end(data)
            if not is_current(recipe):
                self.drop_exact(data)

    def _make_room(self) -> None:
        for _ in range(SLICE):
            beside = self._beside
            if self.size + (beside.size if beside is not None else 0) <= self._max:
                return
            (beside if beside is not None and beside.size > self.size else self)._evict()

    def _evict(self) -> None:
        if self.exact:
            data, _ = self.exact.popitem(last=False)
            self.size -= len(data) + ENTRY_OVERHEAD
        if self.by_key:
            key, recipe = self.by_key.popitem(last=False)
            self.size -= recipe.weight() + _size_of(key)


def _size_of(key: Key) -> int:
    return ENTRY_OVERHEAD + sum(map(len, key))
