"""Every answer is told of: to the log, the metrics, and the count of subscribers.

For an answer that is given again and again most of that is the same each time. What is one line per reader and moment
is written once and collected; the lines of a twentieth of a second are written together. Counts are added up, and
given to the metrics once a second, or when somebody looks.
"""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from feedproxy.app import Runtime
from feedproxy.cache.cache_status import CacheStatus
from feedproxy.clock import Instant, Seconds
from feedproxy.http.message import Fields, Request
from feedproxy.http.user_agent import LENGTH_MAX
from feedproxy.proxy.cached_hit import HitState
from feedproxy.request.entrance import ClientContext
from feedproxy.request.url_mapping import to_public
from feedproxy.server.fastpath.live_scoring import judge_answer, judge_recipe
from feedproxy.server.fastpath.response_template import Recipe, Tally
from feedproxy.subscribers.pseudonyms import Pseudonym
from feedproxy.telemetry.log_format import REQUESTS, Line, as_text, quoted, write_all
from feedproxy.telemetry.recent_activity import REQUESTS_MAX, Asked

logger = logging.getLogger(REQUESTS)

MOMENT: Seconds = 0.05
"""How long a line of the log may wait for others: a write for each would cost a fifth of what its answer does."""

GUESTS_MAX = 8192
"""Readers known at once."""

LINES_MOST = 512
"""Lines that are not let wait for more."""

KEPT_MAX = 32_768
"""Lines of second and further readers that all recipes together keep within a second: a stranger may ask for each feed
under ever new names."""


GONE = "the reader has gone meanwhile"
"""The reason, where there was nobody any more to be answered; the status is 0 then."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of one answer that was made for one reader; `size` is what was sent of its content."""

    request: Request
    visit: ClientContext
    status: int
    size: int
    cache: CacheStatus
    words: str
    fields: Fields = field(default_factory=Fields)
    """The answer's."""


class Guest(NamedTuple):
    """A reader, as the log and the count know him: User-Agent, plain and quoted, pseudonym, and that as text."""

    agent: str
    quoted: str
    pseudonym: Pseudonym
    name: str
    asker: tuple[str, bytes]
    """Address and line of the User-Agent, as recipes remember him."""


class Teller:
    """Tells of answers, one by one or many together."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.lines: list[str] = []
        """What the log has not been given yet."""
        self.recent: deque[tuple[Instant, Recipe, HitState, bytes]] = deque(maxlen=REQUESTS_MAX)
        """The last answers that were given by a recipe, which the journal has not been given yet."""
        self._tallies: dict[tuple[str, str | None, int], Tally] = {}
        self.told = 0
        """Answers that were told of, or more: it grows with each."""
        self._is_due = False
        self._guests: dict[tuple[str, bytes], Guest] = {}
        self._crowded: list[Recipe] = []
        """Recipes that keep lines of several readers, one mention for each line."""
        self._since = self._until = 0.0
        runtime.metrics.settle_first(self.settle)

    def tally_of(self, recipe: Recipe) -> Tally:
        """Where answers of this kind are added up."""
        key = (recipe.visit.entrance, recipe.moment.detail, recipe.status)
        return self._tallies.setdefault(key, Tally())

    def line_of(self, recipe: Recipe, address: str, agent: bytes, now: Instant) -> str:
        """The line for this reader, for the first time in this moment; he is counted."""
        guest = self._known(address, agent, now)
        if recipe.schedule is not None:
            here = self._runtime
            here.service.counts.seen(recipe.target, guest.pseudonym, guest.agent, now)
            if recipe.asked:
                judge_recipe(here, recipe, address, guest.agent, now)
        return self._kept(recipe, guest, now)

    def line_again(self, recipe: Recipe, address: str, agent: bytes, now: Instant) -> str:
        """The line for who comes a second time in this moment."""
        return self._kept(recipe, self._known(address, agent, now), now)

    def _kept(self, recipe: Recipe, guest: Guest, now: Instant) -> str:
        line = self._written(recipe, guest, now)
        if recipe.keep_line(guest.asker, line):
            self._crowded.append(recipe)
            if len(self._crowded) >= KEPT_MAX:
                self._forget_lines()
        return line

    def _known(self, address: str, agent: bytes, now: Instant) -> Guest:
        if not self._since <= now < self._until or len(self._guests) >= GUESTS_MAX:
            self._guests.clear()
            self._since, self._until = now, self._runtime.service.audience.known_until(now)
        guest = self._guests.get((address, agent))
        if guest is None:
            guest = self._guest(address, agent, now)
            self._guests[guest.asker] = guest
        return guest

    def _guest(self, address: str, agent: bytes, now: Instant) -> Guest:
        said = agent.partition(b":")[2].strip(b" \t").decode("latin-1")
        pseudonym = self._runtime.service.audience.known(address, said, now)
        return Guest(said, quoted(said), pseudonym, f"{pseudonym.current:015x}", (address, agent))

    def _written(self, recipe: Recipe, guest: Guest, now: Instant) -> str:
        here, target = self._runtime, recipe.target
        form = here.settings.log_format
        if form == "off":
            return ""
        if not recipe.shown:
            shown, recipe.upstream = here.names_in_log(target)
            recipe.shown = target if shown == target else shown
        moment, entrance = recipe.moment, recipe.visit.entrance
        if form == "text":
            return as_text(
                guest.name,
                entrance,
                recipe.method,
                recipe.shown,
                recipe.status,
                len(recipe.body),
                "0.0ms",
                moment.cache_status_value,
                guest.quoted,
                moment.reason,
            )
        line = Line(
            at=now,
            reader=guest.name,
            entrance=entrance,
            method=recipe.method,
            target=recipe.shown,
            status=recipe.status,
            size=len(recipe.body),
            cache=moment.cache_status_value,
            seconds=0.0,
            agent=guest.agent,
            words=moment.reason,
            upstream=recipe.upstream,
        )
        return line.written(form, str)

    def tell(self, told: Told, seconds: Seconds) -> None:
        """Tell of one answer, and how long it took."""
        here, request = self._runtime, told.request
        self.told += 1
        here.metrics.answered(told.visit.entrance, told.status, told.cache, told.size, seconds)
        if told.status:
            judge_answer(here, request, told.visit, told.status, told.fields, told.size)
        agent = request.fields.get("user-agent") or ""
        asked = Asked(
            here.clock.now(),
            told.visit.entrance,
            request.method,
            to_public(request.target, here.settings),
            told.status,
            told.size,
            told.cache.text(),
            agent[:LENGTH_MAX],
        )
        here.journal.asked(asked)
        if here.settings.log_format == "off":
            return
        target, upstream = here.names_in_log(request.target, request.fields)
        line = Line(
            at=asked.at,
            reader=here.service.audience.pseudonym_of(told.visit, agent),
            entrance=told.visit.entrance,
            method=request.method,
            target=target,
            status=told.status,
            size=told.size,
            cache=asked.cache,
            seconds=seconds,
            agent=agent,
            upstream=upstream,
            words=told.words,
        )
        self.lines.append(line.written(here.settings.log_format))

    def flush_soon(self) -> None:
        """Give the log what was collected, together with what comes in a moment."""
        if len(self.lines) >= LINES_MOST or self._runtime.draining:
            self.flush()
        elif self.lines and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(MOMENT, self.flush)

    def flush(self) -> None:
        """Give the log what was collected."""
        self._is_due = False
        lines, self.lines[:] = list(self.lines), ()
        self.told += len(lines)
        if said := [line for line in lines if line]:
            write_all(logger, said)

    def _forget_lines(self) -> None:
        for each in self._crowded:
            each.lines = None
        self._crowded.clear()

    def settle(self) -> None:
        """Give the metrics what was added up, and forget what was true for a second."""
        self._forget_lines()
        for now, recipe, moment, agent in self.recent:
            said = agent.partition(b":")[2].strip(b" \t").decode("latin-1")[:LENGTH_MAX]
            target = to_public(recipe.target, self._runtime.settings)
            visit, size = recipe.visit, len(recipe.body)
            self._runtime.journal.asked(
                Asked(now, visit.entrance, recipe.method, target, recipe.status, size, moment.cache_status_value, said)
            )
        self.recent.clear()
        for (entrance, detail, status), tally in self._tallies.items():
            if tally.count:
                count, size, tally.count, tally.size = tally.count, tally.size, 0, 0
                self._runtime.metrics.answered_again(entrance, status, detail or "", size, count)
