"""Who answers what has come on a connection: by heart, by recipe, by asking the service, or not at all.

The same bytes as before are answered from the memo, as they are. What is new is read (request_head.py) and looked up by
its key; what is not found there is asked of the service, in the very way that mitmproxy's flows ask it
(flow_handler.py). What is not plain, or is not a feed's business, goes to mitmproxy's ordinary handler, with all that
was read.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Protocol

from feedproxy.app import Runtime
from feedproxy.cache.cache_status import CacheStatus
from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError, Overload
from feedproxy.http.message import Response
from feedproxy.proxy.cached_hit import HitState, advance_hit, recompute_hit, reusable_hit
from feedproxy.request.context import PassThrough, ProxyResponse
from feedproxy.request.entrance import Entrance
from feedproxy.request.upstream_request import is_loop
from feedproxy.server.fastpath.access_log import GONE, Teller, Told
from feedproxy.server.fastpath.connection import Reader
from feedproxy.server.fastpath.live_scoring import LENGTH_MAX
from feedproxy.server.fastpath.loop_preemption import PATIENCE
from feedproxy.server.fastpath.request_head import KEPT, Head, read
from feedproxy.server.fastpath.response_cache import Shared, Table
from feedproxy.server.fastpath.response_template import Recipe, head_of
from feedproxy.server.mitm.flow_handler import finished, refused
from feedproxy.server.mitm.request_routing import Arrival, Came, arrive
from feedproxy.upstream import local_failure
from feedproxy.upstream.own_authority import may_be_own

logger = logging.getLogger(__name__)

UNTOLD = "\0"
"""No line of the log."""

LONGEST = 2048
"""Bytes of a head that is remembered: several times what readers send. Of longer ones a stranger may make any number,
each unlike the last; they are answered by the service, and nothing is kept of them."""


class Connections(Protocol):
    """What the waiter wants of who holds the connections."""

    def drop(self, reader: Reader) -> None:
        """End it."""
        ...

    def part(self, reader: Reader) -> None:
        """End it behind its last answer, so that this arrives."""
        ...

    def hand_over(self, reader: Reader, data: bytes) -> None:
        """Give it, and what was read, to mitmproxy."""
        ...

    def settle(self, reader: Reader) -> None:
        """Wait for what is next: the reader's next bytes, that he takes ours, or the answer."""
        ...


class Waiter:
    """Answers readers. `begin` is called before each turn, `teller.flush_soon` after it."""

    def __init__(self, runtime: Runtime, connections: Connections) -> None:
        self.runtime = runtime
        self.teller = Teller(runtime)
        self.now: Instant = 0.0
        self._began = 0.0
        self._token = self._steps = 0
        self._connections = connections
        self._shared = Shared()
        self._lines = self.teller.lines
        self._recent = self.teller.recent
        self._clock = runtime.clock.now
        self._store = runtime.service.store
        self._common = runtime.service.store.common
        self._head_max = runtime.settings.header_max

    def begin(self) -> None:
        """Look at the clock, and whether anything has changed."""
        now = self._clock()
        if now < self.now:
            self._steps += 1  # a clock that was set back: nothing that was right until then is right for that
        self.now = now
        self._began = time.monotonic()
        token = self._common.generation + self.runtime.changed + self._steps
        if token != self._token:  # else the same object: recipes hold it by the thousand
            self._token = token

    def serve(self, reader: Reader, data: bytes) -> None:
        """Answer what was read, as far as it is complete."""
        found = reader.table.exact.get(data)
        if found is not None:
            recipe, agent = found
            if (recipe.token == self._token and self.now <= recipe.until) or self._is_good(recipe):
                reader.held = b""
                self._give(reader, recipe, agent)
                return
            reader.table.drop_exact(data)
        while data:
            if data[0] not in b"GH":
                self._connections.hand_over(reader, data)
                return
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                # mitmproxy takes bare line feeds for the end of a line as well.
                if len(data) > self._head_max or b"\n\n" in data or b"\n\r\n" in data:
                    self._connections.hand_over(reader, data)
                    return
                break
            if end > self._head_max:
                self._connections.hand_over(reader, data)
                return
            block, data = (data, b"") if end == len(data) else (data[:end], data[end:])
            if not self._serve_one(reader, block, data):
                return
        reader.held = data

    def _serve_one(self, reader: Reader, block: bytes, rest: bytes) -> bool:
        """Answer one request; False where nothing more is to be done on this connection now."""
        reader.held = rest
        head = read(block, believed=not reader.address)
        if head is None:
            self._connections.hand_over(reader, block + rest)
            return False
        table: Table = reader.table
        recipe = table.by_key.get(head.key) if head.key is not None and len(block) <= LONGEST else None
        if recipe is None:
            return self._ask(reader, head, block)
        if not ((recipe.token == self._token and self.now <= recipe.until) or self._is_good(recipe)):
            assert head.key is not None
            table.drop(head.key)
            return self._ask(reader, head, block)
        if not rest and table.worth_keeping_exactly(block):
            table.keep_exact(block, recipe, self._shared(head.agent))
        return self._give(reader, recipe, head.agent)

    def _is_good(self, recipe: Recipe) -> bool:
        """Whether a recipe that may be too old is right; if it has to be, it is made so."""
        if recipe.token != self._token:
            target = recipe.target
            if recipe.rules is not self.runtime.rules or self.runtime.settings_for(target) is not recipe.conditions[0]:
                return False  # by other rules the target that it came from may be for others
            if self._store.stamp(target, used=True) is not recipe.stamp:
                return False
            recipe.token = self._token
            if self.now <= recipe.until and self.now >= recipe.since:
                return True
        moment: HitState | None = recipe.moment
        if not advance_hit(recipe.moment, self.now):
            resource = self._store.get(recipe.target)
            moment = recompute_hit(recipe.given(resource), self.now) if resource is not None else None
        if moment is None:
            return False
        recipe.renew(moment, self.now)
        return True

    def _give(self, reader: Reader, recipe: Recipe, agent: bytes) -> bool:
        """Answer with a recipe; whether more can be answered now."""
        address = reader.address or recipe.visit.address
        asker = (address, agent)
        if recipe.reader == asker:
            line = recipe.line or self.teller.line_again(recipe, address, agent, self.now)
        elif recipe.lines is None or (line := recipe.lines.get(asker, UNTOLD)) is UNTOLD:
            line = self.teller.line_of(recipe, address, agent, self.now)
        self._lines.append(line)
        self._recent.append((self.now, recipe, recipe.moment, agent))
        tally = recipe.tally
        tally.count += 1
        tally.size += len(recipe.body)
        if recipe.closes:
            reader.closes = True
        try:
            if reader.write(recipe.head, recipe.body):
                if not recipe.closes:
                    return True
                self._connections.part(reader)
                return False
        except OSError:
            self._connections.drop(reader)
            return False
        self._connections.settle(reader)
        return False

    def tidy(self, tables: Iterable[Table]) -> None:
        """Once a second: what was added up goes to the metrics, and what nobody can use any more goes."""
        self.teller.settle()
        for table in tables:
            table.sweep(lambda recipe: self._store.stamp(recipe.target) is recipe.stamp)

    # -- what the service is asked for

    def _ask(self, reader: Reader, head: Head, block: bytes) -> bool:
        """Ask the service; True where it has answered, and more can be."""
        found = self._arrival(reader, head)
        if found is None:
            self._connections.hand_over(reader, block + reader.held)
            return False
        loop = asyncio.get_running_loop()
        # At once, unless others wait already: there are readers among them whose answer is known by heart.
        eager = time.monotonic() - self._began < PATIENCE
        task = asyncio.Task(self._answer(reader, head, block, found), loop=loop, eager_start=eager)
        if task.done():
            return reader.fd >= 0 and not reader.left and not reader.parting
        # Counted here, not in the coroutine: a task that is cancelled before its first step runs nothing of it.
        self.runtime.fronted += 1
        task.add_done_callback(self._answered)
        reader.task = task
        self._connections.settle(reader)
        return False

    def _answered(self, _: asyncio.Task[None]) -> None:
        self.runtime.fronted -= 1

    def _arrival(self, reader: Reader, head: Head) -> Arrival | None:
        """Where it wants to go; None for what is not asked of the service, or wrong."""
        settings = self.runtime.settings
        absolute = head.absolute()
        if absolute is not None and settings.upstream:
            return None
        entrance = Entrance.REVERSE if settings.upstream else Entrance.PROXY if absolute else Entrance.GATEWAY
        authority, path = absolute or ("", head.target)
        url = head.target if absolute else ""
        if absolute is not None and may_be_own(url, settings, self.runtime.listeners):
            return None  # the desk knows whether it is
        came = Came(head.method, path, head.fields, reader.peer, ("", 0), url, authority, tls=reader.secure)
        try:
            found = arrive(came, entrance, settings, None)
        except FeedproxyError:
            return None  # mitmproxy's flow will be refused in the same way
        if not isinstance(found, Arrival) or is_loop(found.request.fields, self.runtime.service.pseudonym):
            return None
        if self.runtime.settings_for(found.request.target).readers:
            return None  # who has to say who he is says it to the desk
        return found

    async def _answer(self, reader: Reader, head: Head, block: bytes, found: Arrival) -> None:
        began = time.perf_counter()
        request, visit, here = found.request, found.visit, self.runtime
        try:
            answer = await here.service.answer(request, visit)
        except asyncio.CancelledError:
            self.teller.tell(Told(request, visit, 0, 0, CacheStatus(), GONE), time.perf_counter() - began)
            self.teller.flush_soon()
            raise
        except MemoryError:
            local_failure.complaints.say("no memory is left to answer a request")
            response, status = refused(request.method, request.fields, Overload("no memory is left for it"))
            answer = ProxyResponse(response, status, "no memory is left for it")
        except Exception:
            logger.exception("a request could not be answered")
            words = "feedproxy failed; its log says more"
            response, status = refused(request.method, request.fields, FeedproxyError(words))
            answer = ProxyResponse(response, status, words)
        was_waiting, reader.task = reader.task is not None, None
        if reader.fd < 0:
            self.teller.tell(Told(request, visit, 0, 0, answer.status, GONE), time.perf_counter() - began)
            self.teller.flush_soon()
            return
        if isinstance(answer, PassThrough):
            self._connections.hand_over(reader, block + reader.held)
            return
        response = finished(answer.response, visit, here.clock.now())
        closes = head.closes or here.draining
        body = _body(response, request.method)
        told = Told(request, visit, response.status, len(body), answer.status, answer.reason, response.fields)
        self.teller.tell(told, time.perf_counter() - began)
        self._remember(reader, head, block, found, answer, response)
        interim = b"" if visit.entrance is Entrance.GATEWAY else _interim(answer)
        self._send(reader, interim + _head(response, request.method, closes=closes), body, closes=closes)
        if was_waiting and reader.fd >= 0:
            if not reader.left and reader.held:
                self.begin()
                self.serve(reader, reader.held)
            if reader.fd >= 0:
                self._connections.settle(reader)
        if was_waiting:
            self.teller.flush_soon()  # no turn of the loop does it

    def _send(self, reader: Reader, head: bytes, body: bytes, *, closes: bool) -> None:
        reader.closes = reader.closes or closes
        try:
            if not reader.write(head, body):
                self._connections.settle(reader)
            elif closes:
                self._connections.part(reader)
        except OSError:
            self._connections.drop(reader)

    def _remember(
        self, reader: Reader, head: Head, block: bytes, found: Arrival, answer: ProxyResponse, response: Response
    ) -> None:
        """Keep the answer as a recipe, where it may be given again, and is worth it."""
        table: Table = reader.table
        if head.key is None or len(block) > LONGEST or not answer.status.hit or not table.worth_keeping(head.key):
            return
        request, now = found.request, self._clock()
        settings, resource = self.runtime.settings_for(request.target), self._store.get(request.target)
        given = reusable_hit(answer, request, found.visit, resource, settings, now)
        moment, stamp = recompute_hit(given, now) if given is not None else None, self._store.stamp(request.target)
        if given is None or moment is None or stamp is None:
            return
        try:
            recipe = Recipe(given, self._shared(found.visit), request.method, response, moment, now, closes=head.closes)
        except ValueError:
            return
        recipe.token, recipe.stamp = self._token, stamp
        recipe.conditions = self._shared.conditions(recipe.conditions)
        recipe.rules = self.runtime.rules
        recipe.schedule = self._shared(recipe.schedule)
        recipe.tally = self.teller.tally_of(recipe)
        # Who says at length what others say in brief is not judged (live_scoring.py), and what he says is shared with
        # nobody.
        if self.runtime.settings.score_readers and sum(map(len, head.lines)) <= LENGTH_MAX:
            recipe.asked = self._shared(tuple(map(self._shared, head.lines[1:])))
        if given.vary_names <= KEPT:
            table.keep(tuple(map(self._shared, head.key)), recipe)
        elif table.worth_keeping_exactly(block):
            table.keep_exact(block, recipe, self._shared(head.agent))


def _body(response: Response, method: str) -> bytes:
    """What goes out as content (RFC 9110, 6.4.1)."""
    return b"" if method == "HEAD" or response.status in (204, 304) else response.body


def _head(response: Response, method: str, *, closes: bool) -> bytes:
    fields = response.fields
    if response.status in (204, 304):
        fields = fields.without("content-length", "transfer-encoding")
    elif "content-length" not in fields and (method != "HEAD" or response.body):
        fields = fields.with_added("Content-Length", str(len(response.body)))
    if closes:
        fields = fields.with_added("Connection", "close")
    return head_of(response.status, fields, response.reason)


def _interim(answer: ProxyResponse) -> bytes:
    return b"".join(head_of(each.status, each.fields, each.reason) for each in answer.interim)
