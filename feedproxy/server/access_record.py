"""The record of one response to one client, for metrics, scores, recent activity and the log.

The fast path makes no record for a repeated hit: it counts and logs such hits itself (fastpath/access_log.py).
"""

from msgspec import Struct

from feedproxy.app import App
from feedproxy.cache.cache_status import CacheStatus, Detail
from feedproxy.clock import Seconds
from feedproxy.http.message import NO_FIELDS, Fields, Request
from feedproxy.http.user_agent import LENGTH_MAX
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.upstream_and_public_urls import public_url_for, to_public
from feedproxy.scoring.live_scores import is_small_enough
from feedproxy.scoring.scored_request import Poll, cached_content
from feedproxy.telemetry.access_log_format import AccessLine
from feedproxy.telemetry.recent_activity import RequestActivity

CLIENT_GONE = "the client disconnected before the response"
"""The reason in the log if the client disconnected before the response. The status in the log is then 0."""


class AccessRecord(Struct, frozen=True):
    """The record of a response to a client.

    * `status` is 0 if no response was sent.
    * `size` is the number of content bytes sent.
    * `has_target` is false if the target of the request is unknown, as for local pages and for some refused requests.

    The target of a CONNECT is `host:port`.
    """

    request: Request
    client: ClientContext
    status: int
    size: int
    cache: CacheStatus
    reason: str
    seconds: Seconds
    fields: Fields = NO_FIELDS
    """Fields of the response."""
    has_target: bool = True
    connect_result: str = ""
    """Result of a CONNECT: `tunnel`, `intercept` or `refused`. Empty for other methods."""
    version: str = "HTTP/1.1"
    connection: str = ""
    """Identifier of the connection, or empty."""

    @property
    def entrance(self) -> str:
        """Return the name of the entrance in log and metrics. For a CONNECT, the name is `connect`."""
        return "connect" if self.connect_result else str(self.client.entrance)


def record_access(app: App, record: AccessRecord) -> str:
    """Record a response in metrics, scores and recent activity. Return its log line, or "" if `log_format` is `off`."""
    request, entrance, cache = record.request, record.entrance, record.cache
    if record.connect_result:
        detail = cache.detail or ""
        app.metrics.count_connect(record.connect_result, record.status, detail, record.size, record.seconds)
    else:
        app.metrics.count_response(entrance, record.status, cache, record.size, record.seconds)
    if record.has_target and record.status and request.method in ("GET", "HEAD"):
        _score_response(app, record)
    now, agent = app.clock.now(), request.fields.get("user-agent") or ""
    public = to_public(request.target, app.settings) if record.has_target else request.target
    cache_status = cache.text()
    app.recent_activity.record_request(
        RequestActivity(
            now, entrance, request.method, public, record.status, record.size, cache_status, agent[:LENGTH_MAX]
        )
    )
    if app.settings.log_format == "off":
        return ""
    target, upstream = app.names_in_log(request.target, request.fields) if record.has_target else (request.target, "")
    line = AccessLine(
        at=now,
        reader=app.service.audience.log_name(record.client, agent),
        entrance=entrance,
        method=request.method,
        target=target,
        status=record.status,
        size=record.size,
        cache=cache_status,
        seconds=record.seconds,
        agent=agent,
        upstream=upstream,
        reason=record.reason,
    )
    return line.format(app.settings.log_format)


def record_unreadable(app: App, entrance: Entrance | None, status: int, page: bytes) -> None:
    """Count the complete response `page` to a request with an unreadable head.

    With `entrance` None (unknown), the request counts for reverse mode in a proxy with an upstream, otherwise for the
    gateway.
    """
    entrance = entrance or (Entrance.REVERSE if app.settings.upstream else Entrance.GATEWAY)
    size = len(page.partition(b"\r\n\r\n")[2])
    app.metrics.count_response(entrance, status, CacheStatus(detail=Detail.BAD_REQUEST), size, 0.0)


def _score_response(app: App, record: AccessRecord) -> None:
    scores, request, client = app.live_scores, record.request, record.client
    resource = app.service.store.get(request.target) if scores.size else None
    if resource is None or resource.channel is None or not is_small_enough(request.fields):
        return
    schedule, now = resource.channel.schedule, app.clock.now()

    def make_poll(number: int) -> Poll:
        public = public_url_for(request.target, client, upstream=app.settings.upstream)
        return Poll(
            number,
            now,
            request.target,
            request.fields,
            record.status,
            record.fields,
            cached_content(schedule, record.status),
            request.method,
            record.version,
            record.connection,
            record.size,
            entrance=client.entrance,
            public=public if public != request.target else "",
        )

    scores.record(client.address, request.fields.get("user-agent") or "", request.target, now, make_poll)
