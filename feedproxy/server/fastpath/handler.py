"""Request handler of the fast path.

A request with the field lines of earlier requests is looked up without parsing (template_cache.py), all others are
parsed (request_head.py). Without a template for the response (response_template.py), the handler calls `Service.answer`
(proxy/service.py). All requests except a simple GET or HEAD for a target are handed off to mitmproxy.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Protocol

from feedproxy.app import App
from feedproxy.cache.cache_status import CacheStatus
from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError, Overload
from feedproxy.http.message import Request, Response
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.proxy.repeated_hit import HitState, recompute_hit, reusable_hit
from feedproxy.request.context import ClientContext, Entrance, PassThrough, ProxyResponse
from feedproxy.request.loops_and_max_forwards import is_loop
from feedproxy.scoring.live_scores import FIELDS_LENGTH_MAX
from feedproxy.scoring.reader_names import secret_hash
from feedproxy.server.access_record import CLIENT_GONE, AccessRecord
from feedproxy.server.fastpath.access_log import AccessLogger
from feedproxy.server.fastpath.client_connection import ClientConnection
from feedproxy.server.fastpath.loop_preemption import PREEMPT_AFTER
from feedproxy.server.fastpath.request_head import KEYED_FIELDS, RequestHead, parse_head, without_unique_lines
from feedproxy.server.fastpath.response_template import ResponseTemplate, SharedProperties, log_names, prepare_head
from feedproxy.server.fastpath.template_cache import (
    CACHEABLE_HEAD_MAX,
    FastPathCache,
    RequestKey,
    digest_lines,
)
from feedproxy.server.mitm.request_routing import IncomingRequest, RoutedRequest, client_context, route
from feedproxy.server.response_head import encode_head, finish_response, refusal_response
from feedproxy.store.packing.interning import Interner
from feedproxy.upstream import local_resource_exhaustion
from feedproxy.upstream.own_urls import may_be_own

logger = logging.getLogger(__name__)

NO_CACHED_LINE = "\0"
"""Value in place of a log line if the template has no log line for the client. An empty line means that the log is off.
"""


class ConnectionOwner(Protocol):
    """The methods of the listener (listener.py) that the handler calls."""

    def close_connection(self, connection: ClientConnection) -> None:
        """Close the connection at once."""
        ...

    def lingering_close(self, connection: ClientConnection) -> None:
        """Close the connection after the client has had time to receive the last response."""
        ...

    def hand_off(self, connection: ClientConnection, data: bytes) -> None:
        """Hand the connection and the bytes that were read to mitmproxy."""
        ...

    def update_interest(self, connection: ClientConnection) -> None:
        """Register the connection for its next event: input, room for output, or a disconnect while the task runs."""
        ...


class FastPathHandler:
    """Handler of the requests on fast-path connections. Before each batch of events, the caller calls
    `start_iteration`, and after it `access_logger.schedule_flush`."""

    def __init__(self, app: App, connections: ConnectionOwner) -> None:
        self.app = app
        self.access_logger = AccessLogger(app)
        self.now: Instant = 0.0
        self._iteration_start = 0.0
        self._generation = self._clock_steps = 0
        self._connections = connections
        self._intern = Interner().intern
        self._lines = self.access_logger.batch.lines
        self._recent = self.access_logger.recent_hits
        self._clock = app.clock.now
        self._store = app.service.store
        self._coordination = app.service.store.coordination
        self._head_max = app.settings.header_max

    def start_iteration(self) -> None:
        """Read the clock, and update the generation: a number that changes with the settings and the store. A template
        that was checked in an earlier generation is checked again before its next use."""
        now = self._clock()
        if now < self.now:
            self._clock_steps += 1  # the clock was set back: earlier hit states are invalid
        self.now = now
        self._iteration_start = time.monotonic()
        generation = self._coordination.generation + self.app.settings_generation + self._clock_steps
        if generation != self._generation:  # keep the same int object, to which thousands of templates refer
            self._generation = generation

    def handle_bytes(self, connection: ClientConnection, data: bytes) -> None:
        """Answer all complete requests in `data`, and keep the remaining bytes as unparsed input."""
        cache: FastPathCache = connection.cache
        line_end = data.find(b"\r\n")
        field_lines = data[line_end:]
        section = cache.sections.get(field_lines)
        if section is None and len(data) <= CACHEABLE_HEAD_MAX:
            section = cache.sections.get(without_unique_lines(field_lines))
        if section is not None:
            key: RequestKey = data[:line_end] + section[0]
            template = cache.templates.get(key)
            if template is None:
                key = data
                template = cache.templates.get(key)
            if template is not None:
                if (template.generation == self._generation and self.now <= template.valid_until) or self._is_current(
                    template
                ):
                    connection.unparsed = b""
                    self._send_cached(connection, template, section[1])
                    return
                cache.remove(key)
        while data:
            if data[0] not in b"GH":
                self._connections.hand_off(connection, data)
                return
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                # mitmproxy accepts a bare line feed as the end of a line as well.
                if len(data) > self._head_max or b"\n\n" in data or b"\n\r\n" in data:
                    self._connections.hand_off(connection, data)
                    return
                break
            if end > self._head_max:
                self._connections.hand_off(connection, data)
                return
            block, data = (data, b"") if end == len(data) else (data[:end], data[end:])
            try:
                takes_next = self._handle_request(connection, block, data)
            except Exception:  # a defect concerns this connection only: the other events of the batch are handled
                logger.exception(
                    "fast path: %s not answered and its connection closed, by a defect of feedproxy; please report the"
                    " traceback",
                    _request_line(block),
                )
                self._connections.close_connection(connection)
                return
            if not takes_next:
                return
        connection.unparsed = data

    def _handle_request(self, connection: ClientConnection, block: bytes, remaining: bytes) -> bool:
        """Answer one request. Return False if the connection cannot take another request now."""
        connection.unparsed = remaining
        head = parse_head(block, trusted_peer=not connection.address)
        if head is None:
            self._connections.hand_off(connection, block + remaining)
            return False
        cache: FastPathCache = connection.cache
        if head.keyed_lines is None or len(block) > CACHEABLE_HEAD_MAX:
            return self._call_service(connection, head, block)
        request_line, digest = head.lines[0], digest_lines(head.keyed_lines)
        key: RequestKey = request_line + digest
        template = cache.templates.get(key)
        if template is None:
            key = block
            template = cache.templates.get(key)
            if template is None:
                return self._call_service(connection, head, block)
        if not (
            (template.generation == self._generation and self.now <= template.valid_until) or self._is_current(template)
        ):
            cache.remove(key)
            return self._call_service(connection, head, block)
        if not remaining:
            usual_lines = without_unique_lines(block[len(request_line) :])
            if cache.should_admit_section(usual_lines):
                cache.put_section(usual_lines, (digest, self._intern(head.user_agent)))
        return self._send_cached(connection, template, head.user_agent)

    def _is_current(self, template: ResponseTemplate) -> bool:
        """Update the time-dependent fields of a template. Return False if the template is no longer valid."""
        if template.generation != self._generation:
            target = template.target
            shared = template.shared
            if shared.rules is not self.app.rules or self.app.settings_for(target) is not shared.conditions[0]:
                return False  # under changed rules the client may have no access
            if self._store.version(target, used=True) is not template.resource_version:
                return False
            template.generation = self._generation
            if template.hit_state.computed_at <= self.now <= template.valid_until:
                return True
        hit_state: HitState | None = template.hit_state
        if not template.hit_state.advance(self.now):
            # Otherwise `get` would wait for the disk. The service reads the resource without blocking other hits.
            is_in_memory = self._store.version(template.target) is not None
            resource = self._store.get(template.target) if is_in_memory else None
            hit_state = recompute_hit(template.reusable_hit(resource), self.now) if resource is not None else None
        if hit_state is None:
            return False
        template.update_volatile_fields(hit_state)
        return True

    def _send_cached(self, connection: ClientConnection, template: ResponseTemplate, user_agent: bytes) -> bool:
        """Send the response of a template. Return True if the connection can take another request."""
        client = (connection.address or template.shared.client.address, user_agent)
        if template.first_client == client:
            line = template.log_line
        elif template.log_lines is None or (line := template.log_lines.get(client, NO_CACHED_LINE)) is NO_CACHED_LINE:
            line = self.access_logger.make_line(template, client, self.now)
        self._lines.append(line)
        self._recent.append((self.now, template, template.hit_fields.cache_status, user_agent))
        counter = template.shared.hit_counter
        counter.count += 1
        counter.size += len(template.body)
        if template.shared.closes:
            connection.closes = True
        try:
            if connection.write(template.head, template.body):
                if not connection.closes:
                    return True
                self._connections.lingering_close(connection)
                return False
        except OSError:
            self._connections.close_connection(connection)
            return False
        self._connections.update_interest(connection)
        return False

    def run_housekeeping(self, tables: Iterable[FastPathCache]) -> None:
        """Flush the counters, and remove invalid templates, expired log lines and unused files."""
        self.access_logger.flush_counters()
        self.access_logger.drop_expired_lines(self._clock())
        for cache in tables:
            cache.body_files.close_unused()
            cache.evict_stale(lambda template: self._store.version(template.target) is template.resource_version)

    # -- calls to the service

    def _call_service(self, connection: ClientConnection, head: RequestHead, block: bytes) -> bool:
        """Let the service answer. Return True if the response is sent and the connection can take another request."""
        routed = self._route(connection, head)
        if routed is None:
            self._connections.hand_off(connection, block + connection.unparsed)
            return False
        loop = asyncio.get_running_loop()
        # Start eagerly, except in an iteration that has already taken PREEMPT_AFTER seconds: other clients may then
        # wait for cached hits.
        eager = time.monotonic() - self._iteration_start < PREEMPT_AFTER
        task = asyncio.Task(self._respond_or_close(connection, head, block, *routed), loop=loop, eager_start=eager)
        if task.done():
            return connection.fd >= 0 and not connection.unsent and not connection.lingering
        # Counted outside the coroutine, because a task that is cancelled before its first step runs none of it.
        self.app.fastpath_requests += 1
        task.add_done_callback(self._on_task_done)
        connection.task = task
        self._connections.update_interest(connection)
        return False

    def _on_task_done(self, _: asyncio.Task[None]) -> None:
        self.app.fastpath_requests -= 1

    def _route(self, connection: ClientConnection, head: RequestHead) -> tuple[Request, ClientContext] | None:
        """Return the request that the service gets, and its client. Return None if mitmproxy has to handle the
        request."""
        settings = self.app.settings
        absolute = head.split_absolute_form()
        if absolute is not None and settings.upstream:
            return None
        entrance = Entrance.REVERSE if settings.upstream else Entrance.PROXY if absolute else Entrance.GATEWAY
        authority, path = absolute or ("", head.target)
        url = head.target if absolute else ""
        if absolute is not None and may_be_own(url, settings, self.app.listeners):
            return None  # the flow handler checks whether the address is this proxy's
        incoming = IncomingRequest(
            head.method, path, head.fields, connection.peer, ("", 0), url, authority, tls=connection.secure
        )
        try:
            client = client_context(incoming, settings, entrance)
            routed = route(incoming, client, settings, None)
        except FeedproxyError:
            return None  # the flow handler will refuse the flow for the same reason
        if not isinstance(routed, RoutedRequest) or is_loop(routed.request.fields, self.app.service.pseudonym):
            return None
        if self.app.settings_for(routed.request.target).readers:
            return None  # the flow handler authenticates clients
        return routed.request, client

    async def _respond_or_close(
        self, connection: ClientConnection, head: RequestHead, block: bytes, request: Request, client: ClientContext
    ) -> None:
        try:
            await self._respond(connection, head, block, request, client)
        except Exception:
            logger.exception(
                "fast path: response to %s not sent and its connection closed, by a defect of feedproxy; please report"
                " the traceback",
                _request_line(block),
            )
            connection.task = None
            self._connections.close_connection(connection)

    async def _respond(
        self, connection: ClientConnection, head: RequestHead, block: bytes, request: Request, client: ClientContext
    ) -> None:
        began, app = time.perf_counter(), self.app
        try:
            answer = await app.service.answer(request, client)
        except asyncio.CancelledError:
            seconds = time.perf_counter() - began
            self.access_logger.log(AccessRecord(request, client, 0, 0, CacheStatus(), CLIENT_GONE, seconds))
            self.access_logger.schedule_flush()
            raise
        except MemoryError:
            local_resource_exhaustion.shortage_log.warn("no memory is left to answer a request")
            answer = refusal_response(request.method, request.fields, Overload("no memory is left for this request"))
        except Exception:
            logger.exception(
                "fast path: %s answered 500, by a defect of feedproxy; please report the traceback",
                _request_line(block),
            )
            error = FeedproxyError("internal error; see feedproxy's log")
            answer = refusal_response(request.method, request.fields, error)
        was_pending, connection.task = connection.task is not None, None
        if connection.fd < 0:
            seconds = time.perf_counter() - began
            self.access_logger.log(AccessRecord(request, client, 0, 0, answer.status, CLIENT_GONE, seconds))
            self.access_logger.schedule_flush()
            return
        if isinstance(answer, PassThrough):
            self._connections.hand_off(connection, block + connection.unparsed)
            return
        response = finish_response(answer.response, request.method, client, app.clock.now())
        size, seconds = len(response.body), time.perf_counter() - began
        self.access_logger.log(
            AccessRecord(request, client, response.status, size, answer.status, answer.reason, seconds, response.fields)
        )
        self._store_template(connection, head, block, request, client, answer, response)
        interim = () if client.entrance is Entrance.GATEWAY else answer.interim
        interim_heads = [encode_head(early.status, early.fields, early.reason) for early in interim]
        closes = head.closes or app.draining
        fields = response.fields.with_added("Connection", "close") if closes else response.fields
        encoded_head = encode_head(response.status, fields, response.reason)
        self._send(connection, b"".join(interim_heads) + encoded_head, response.body, closes=closes)
        if was_pending and connection.fd >= 0:
            if not connection.unsent and connection.unparsed:
                self.start_iteration()
                self.handle_bytes(connection, connection.unparsed)
            if connection.fd >= 0:
                self._connections.update_interest(connection)
        if was_pending:
            self.access_logger.schedule_flush()  # after this task, no batch of events would flush it

    def _send(self, connection: ClientConnection, head: bytes, body: bytes, *, closes: bool) -> None:
        connection.closes = connection.closes or closes
        try:
            if not connection.write(head, body):
                self._connections.update_interest(connection)
            elif connection.closes:
                self._connections.lingering_close(connection)
        except OSError:
            self._connections.close_connection(connection)

    def _store_template(
        self,
        connection: ClientConnection,
        head: RequestHead,
        block: bytes,
        request: Request,
        client: ClientContext,
        answer: ProxyResponse,
        response: Response,
    ) -> None:
        cache: FastPathCache = connection.cache
        if head.keyed_lines is None or len(block) > CACHEABLE_HEAD_MAX or not answer.status.hit:
            return
        request_line = head.lines[0]
        key = request_line + digest_lines(head.keyed_lines)
        if not cache.should_admit(key):
            return
        request, now = self.app.service.resolve_target(request), self._clock()
        settings, resource = self.app.settings_for(request.target), self._store.get(request.target)
        hit = reusable_hit(answer, request, client, resource, settings, now)
        hit_state, version = recompute_hit(hit, now) if hit is not None else None, self._store.version(request.target)
        if hit is None or hit_state is None or version is None:
            return
        try:
            head_form, own_values = prepare_head(response, hit_state, closes=head.closes)
        except ValueError:
            return
        channel, names = hit.resource.channel, self.app.names_in_log(hit.resource.target)
        shared = SharedProperties(
            # Settings are compared by identity.
            self._intern(hit.conditions, (id(hit.conditions[0]), *hit.conditions[1:])),
            self._intern(client),
            self._intern(channel.schedule) if channel is not None else None,
            self._intern(request.method),
            self._intern(response.status),
            head.closes,
            [variant is hit.stored for variant in hit.resource.variants].index(True),
            hit.vary_names <= KEYED_FIELDS,
            self.app.rules,
            self.access_logger.counter_for(client.entrance, hit.detail, response.status),
            self._intern(secret_hash(hit.resource.target)),
            head_form,
            log_names(hit.resource.target, *names),
        )
        template = ResponseTemplate(
            hit.resource.target,
            self._intern(shared, tuple(map(id, shared))),  # their parts are interned
            own_values,
            response.body,
            hit_state,
        )
        template.generation, template.resource_version = self._generation, version
        # Oversized requests are neither scored (scoring/live_scores.py) nor interned.
        if self.app.settings.score_readers and sum(map(len, head.lines)) <= FIELDS_LENGTH_MAX:
            template.request_lines = self._intern(tuple(map(self._intern, head.lines[1:])))
        if shared.is_keyed:
            cache.put(key, template)
        elif cache.should_admit_section(block[len(request_line) :]):
            cache.put(block, template)


def _request_line(block: bytes) -> str:
    """Return method and target of a request for the log, without secrets."""
    method, _, target = block.partition(b"\r\n")[0].decode("iso-8859-1").partition(" ")
    return f"{method} {redact_target(target.partition(' ')[0])}"
