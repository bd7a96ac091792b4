"""Reader scores for responses: from flows, from the fast path, and from templates (scoring/live_scores.py).

Cached hits are scored as often as the log distinguishes them: once per client and state.
"""

from functools import lru_cache

from mitmproxy import http

from feedproxy.admin.reader_scores import poll_of
from feedproxy.app import App
from feedproxy.clock import Instant
from feedproxy.feed.channel import Schedule
from feedproxy.http.message import Fields, Request
from feedproxy.request.entrance import ClientContext, public_url_for
from feedproxy.scoring.scored_request import Poll
from feedproxy.server.fastpath.response_template import ResponseTemplate
from feedproxy.server.mitm.flow_handler import FlowState
from feedproxy.server.mitm.request_routing import fields_of

FIELDS_MAX, VALUES_LENGTH_MAX = 64, 4096
"""Field lines of a request, and characters of their values, that are scored. The score state holds a reader's last
request; feed readers send a tenth of this."""


def score_flow(app: App, flow: http.HTTPFlow, case: FlowState, size: int) -> None:
    """Score a response that mitmproxy sent."""
    panel = app.live_scores
    if not panel.size or case.routed_request is None or flow.request.method not in ("GET", "HEAD"):
        return
    target, response, now = case.routed_request.request.target, flow.response or case.error_page, app.clock.now()
    request_fields = fields_of(flow.request)
    schedule = _schedule(app, target)
    if schedule is None or _is_oversized(request_fields):
        return
    panel.record(
        case.client.address,
        request_fields.get("user-agent") or "",
        target,
        now,
        lambda number: poll_of(
            number,
            now,
            target,
            request_fields,
            response.status_code if response is not None else 0,
            fields_of(response) if response is not None else Fields(),
            schedule,
            size,
            method=flow.request.method,
            version=flow.request.http_version,
            connection=flow.client_conn.id,
            entrance=case.client.entrance,
            public=public_url_for(target, case.client, upstream=app.settings.upstream),
        ),
    )


def score_response(
    app: App, request: Request, client: ClientContext, status: int, response_fields: Fields, size: int
) -> None:
    """Score a response that the fast path sent."""
    panel = app.live_scores
    if not panel.size or (schedule := _schedule(app, request.target)) is None:
        return
    now, target, request_fields = app.clock.now(), request.target, request.fields
    if _is_oversized(request_fields):
        return
    panel.record(
        client.address,
        request_fields.get("user-agent") or "",
        target,
        now,
        lambda number: poll_of(
            number,
            now,
            target,
            request_fields,
            status,
            response_fields,
            schedule,
            size,
            method=request.method,
            entrance=client.entrance,
            public=public_url_for(target, client, upstream=app.settings.upstream),
        ),
    )


def score_template(app: App, template: ResponseTemplate, address: str, agent: str, now: Instant) -> None:
    """Score a response from a template: the request's fields are those of the template, except the User-Agent."""
    panel, target = app.live_scores, template.target
    if not panel.size or (schedule := template.schedule) is None:
        return

    def poll(number: int) -> Poll:
        request_fields, response_fields = (
            _fields(template.request_lines),
            _fields(tuple(template.head.split(b"\r\n")[1:])),
        )
        fields = request_fields.with_field("User-Agent", agent) if agent else request_fields.without("user-agent")
        return poll_of(
            number,
            now,
            target,
            fields,
            template.status,
            response_fields,
            schedule,
            len(template.body),
            method=template.method,
        )

    panel.record(address, agent, target, now, poll)


def _is_oversized(request_fields: Fields) -> bool:
    return len(request_fields) > FIELDS_MAX or sum([len(value) for _, value in request_fields]) > VALUES_LENGTH_MAX


def _schedule(app: App, target: str) -> Schedule | None:
    """Return the schedule of the feed at `target`; None if it is not a feed."""
    separator = app.service.store.get(target)
    return separator.channel.schedule if separator is not None and separator.channel is not None else None


@lru_cache(maxsize=256)
def _fields(lines: tuple[bytes, ...]) -> Fields:
    """Return the fields in these lines of a head."""
    split_lines = (line.decode("latin-1").partition(":") for line in lines)
    return Fields((name, value.strip()) for name, separator, value in split_lines if separator)
