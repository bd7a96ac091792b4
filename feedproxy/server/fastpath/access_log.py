"""Access log, metrics and reader counts of the fast path.

The log line of a hit is formatted once for each client and *hit state* (HitState in proxy/repeated_hit.py). A hit state
is valid until Age or Cache-Status of the hit changes: for at most a second. Counts are added to the metrics once a
second, and when the metrics are read.
"""

import logging
from collections import deque
from functools import lru_cache, partial
from typing import NamedTuple

from feedproxy.app import App
from feedproxy.clock import Instant
from feedproxy.http.message import Fields
from feedproxy.http.user_agent import LENGTH_MAX
from feedproxy.request.context import Entrance
from feedproxy.request.upstream_and_public_urls import to_public
from feedproxy.scoring.reader_names import ReaderName
from feedproxy.scoring.scored_request import Poll, cached_content
from feedproxy.server.access_record import AccessRecord, record_access
from feedproxy.server.fastpath.response_template import HitCounter, ResponseTemplate
from feedproxy.subscribers.poll_rhythms import REPEAT
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from feedproxy.telemetry.access_log_format import AccessLine, access_line_text, quote_agent
from feedproxy.telemetry.log_format import ACCESS_LOGGER
from feedproxy.telemetry.log_stream import LineBatch
from feedproxy.telemetry.recent_activity import REQUESTS_MAX, RequestActivity

logger = logging.getLogger(ACCESS_LOGGER)

CLIENTS_MAX = 8192
"""The identities of at most this many clients are cached."""

FLUSH_THRESHOLD = 512
"""The buffered log lines are written at once when their number reaches this value."""

CACHED_LINES_MAX = 32_768
"""All response templates together cache at most this many log lines. At the limit, the oldest are dropped."""

DROP_BATCH = 4096
"""At most this many expired log lines are dropped at a time, which takes at most a millisecond."""


class ClientIdentity(NamedTuple):
    """The names of a client in the log and in the subscriber counts.

    `quoted` is the User-Agent in quotation marks. `pseudonym` is the client's name in the subscriber counts, and
    `pseudonym_text` the same in hexadecimal.
    """

    user_agent: str
    quoted: str
    pseudonym: Pseudonym
    pseudonym_text: str
    key: tuple[str, bytes]
    """Address and User-Agent line of the client, under which templates cache the client's log line."""
    scored_name: ReaderName
    """The client's name in the live scores, for targets without a secret."""


class AccessLogger:
    """Logger of fast-path responses. It also counts responses and reads of feeds."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._live_scores = app.live_scores  # changed settings reach this object with the next template
        self.batch = LineBatch(logger)
        """The log lines, one for each response. The listener counts the written lines, in order to run garbage
        collections while clients are idle."""
        self.recent_hits: deque[tuple[Instant, ResponseTemplate, str, bytes]] = deque(maxlen=REQUESTS_MAX)
        """The last hits, until `flush_counters` adds them to the recent activity. Each has its time, its template, its
        Cache-Status and the User-Agent line."""
        self._counters: dict[tuple[Entrance, str | None, int], HitCounter] = {}
        self._clients: dict[tuple[str, bytes], ClientIdentity] = {}
        self._cached_lines: deque[tuple[Instant, ResponseTemplate]] = deque()
        """For each cached log line: the instant until which the line is valid, and the template that caches it."""
        self._since = self._until = 0.0
        app.metrics.add_flush_hook(self.flush_counters)

    def counter_for(self, entrance: Entrance, detail: str | None, status: int) -> HitCounter:
        """Return the counter for hits with these metric labels."""
        return self._counters.setdefault((entrance, detail, status), HitCounter())

    def make_line(self, template: ResponseTemplate, client_key: tuple[str, bytes], now: Instant) -> str:
        """Return the log line of a client's hit, and record the hit as a poll of the feed. `client_key` contains the
        address and the User-Agent line.

        A second hit of the client within REPEAT seconds is not recorded, because both hits count as one poll.
        """
        client = self._identify(client_key, now)
        if template.shared.schedule is not None:
            if template.reader != client.pseudonym or not 0 <= now - template.recorded_at < REPEAT:
                template.reader, template.recorded_at = client.pseudonym, now
                self._app.service.counts.record_read(template.target, client.pseudonym, client.user_agent, now)
            if template.request_lines:
                self._score(template, client, now)
        line = self._format_line(template, client, now)
        template.store_log_line(client.key, line)
        self._cached_lines.append((template.valid_until, template))
        if self._cached_lines[0][0] < now or len(self._cached_lines) > CACHED_LINES_MAX:
            self._drop_oldest_line(now)
        return line

    def _identify(self, client_key: tuple[str, bytes], now: Instant) -> ClientIdentity:
        if not self._since <= now < self._until or len(self._clients) >= CLIENTS_MAX:
            self._clients.clear()
            self._since, self._until = now, self._app.service.audience.identifier.same_until(now)
        client = self._clients.get(client_key)
        if client is None:
            address, user_agent_line = client_key
            user_agent = user_agent_line.partition(b":")[2].strip(b" \t").decode("latin-1")
            pseudonym = self._app.service.audience.identifier.pseudonym(address, user_agent, "", now)
            client = self._clients[client_key] = ClientIdentity(
                user_agent,
                quote_agent(user_agent),
                pseudonym,
                f"{pseudonym.current:015x}",
                client_key,
                self._live_scores.name_of(address, user_agent, ""),
            )
        return client

    def _format_line(self, template: ResponseTemplate, client: ClientIdentity, now: Instant) -> str:
        app = self._app
        form = app.settings.log_format
        if form == "off":
            return ""
        shared, public, fields = template.shared, template.public_name, template.hit_fields
        if form == "text":
            return access_line_text(
                client.pseudonym_text,
                shared.client.entrance,
                shared.method,
                public,
                shared.status,
                len(template.body),
                "0.0ms",
                fields.cache_status,
                client.quoted,
                fields.reason,
            )
        line = AccessLine(
            at=now,
            reader=client.pseudonym_text,
            entrance=shared.client.entrance,
            method=shared.method,
            target=public,
            status=shared.status,
            size=len(template.body),
            cache=fields.cache_status,
            seconds=0.0,
            agent=client.user_agent,
            reason=fields.reason,
            upstream=template.upstream_name,
        )
        return line.format(form, str)

    def log(self, record: AccessRecord) -> None:
        """Log and count a response that was not sent from a template."""
        self.batch.lines.append(record_access(self._app, record))

    def schedule_flush(self) -> None:
        """Write the log lines soon, or at once if FLUSH_THRESHOLD lines are buffered or the proxy shuts down."""
        if len(self.batch.lines) >= FLUSH_THRESHOLD or self._app.draining:
            self.batch.flush()
        else:
            self.batch.schedule_flush()

    def drop_expired_lines(self, now: Instant) -> None:
        """Drop cached log lines that are no longer valid, at most DROP_BATCH lines."""
        for _ in range(DROP_BATCH):
            if not self._cached_lines or self._cached_lines[0][0] >= now:
                return
            self._drop_oldest_line(now)

    def _drop_oldest_line(self, now: Instant) -> None:
        until, template = self._cached_lines.popleft()
        if template.valid_until != until:
            return  # the template has a new hit state and no line of this one
        if until < now:
            template.release()
        else:
            template.drop_log_lines()

    def flush_counters(self) -> None:
        """Add the counts to the metrics, and the last hits to the recent activity."""
        for now, template, cache_status, user_agent_line in self.recent_hits:
            user_agent = user_agent_line.partition(b":")[2].strip(b" \t").decode("latin-1")[:LENGTH_MAX]
            target = to_public(template.target, self._app.settings)
            shared, size = template.shared, len(template.body)
            self._app.recent_activity.record_request(
                RequestActivity(
                    now,
                    shared.client.entrance,
                    shared.method,
                    target,
                    shared.status,
                    size,
                    cache_status,
                    user_agent,
                )
            )
        self.recent_hits.clear()
        for (entrance, detail, status), counter in self._counters.items():
            if counter.count:
                count, size, counter.count, counter.size = counter.count, counter.size, 0, 0
                self._app.metrics.count_hits(entrance, status, detail or "", size, count)

    def _score(self, template: ResponseTemplate, client: ClientIdentity, now: Instant) -> None:
        """Add a hit to the live scores, with the request fields of the template and the client's User-Agent."""
        secret, name = template.shared.secret_hash, client.scored_name
        if secret:
            name = name._replace(reader=secret)
        if not self._live_scores.is_excluded(name, template.target, now):
            make_poll = partial(_make_poll, template, client.user_agent, now)
            self._live_scores.record_named(name, template.target, now, make_poll)


def _make_poll(template: ResponseTemplate, agent: str, now: Instant, number: int) -> Poll:
    shared, fields = template.shared, _fields(template.request_lines)
    return Poll(
        number,
        now,
        template.target,
        fields.with_field("User-Agent", agent) if agent else fields.without("user-agent"),
        shared.status,
        _fields(tuple(template.head.split(b"\r\n")[1:])),
        cached_content(shared.schedule, shared.status),
        shared.method,
        size=len(template.body),
    )


@lru_cache(maxsize=256)
def _fields(lines: tuple[bytes, ...]) -> Fields:
    split_lines = (line.decode("latin-1").partition(":") for line in lines)
    return Fields((name, value.strip()) for name, separator, value in split_lines if separator)
