"""From an answer that a reader got to the panel that judges readers (scoring/live_scores.py).

What is answered by heart is judged as far as the log tells it apart: once for each reader and moment.
"""

from functools import lru_cache

from mitmproxy import http

from feedproxy.admin.reader_scores import poll_of
from feedproxy.app import Runtime
from feedproxy.clock import Instant
from feedproxy.feed.channel import Schedule
from feedproxy.http.message import Fields, Request
from feedproxy.request.entrance import ClientContext, public_url_for
from feedproxy.scoring.scored_request import Poll
from feedproxy.server.fastpath.response_template import Recipe
from feedproxy.server.mitm.flow_handler import Case
from feedproxy.server.mitm.request_routing import fields_of

LINES_MAX, LENGTH_MAX = 64, 4096
"""Field lines of a request, and characters of their values, that are judged: what is remembered of a reader holds his
last request, and readers send a tenth of that."""


def judge(here: Runtime, flow: http.HTTPFlow, case: Case, size: int) -> None:
    """An answer that mitmproxy gave."""
    panel = here.panel
    if not panel.size or case.arrival is None or flow.request.method not in ("GET", "HEAD"):
        return
    target, response, now = case.arrival.request.target, flow.response or case.page, here.clock.now()
    asked = fields_of(flow.request)
    schedule = _schedule(here, target)
    if schedule is None or _says_too_much(asked):
        return
    panel.see(
        case.visit.address,
        asked.get("user-agent") or "",
        target,
        now,
        lambda number: poll_of(
            number,
            now,
            target,
            asked,
            response.status_code if response is not None else 0,
            fields_of(response) if response is not None else Fields(),
            schedule,
            size,
            method=flow.request.method,
            version=flow.request.http_version,
            connection=flow.client_conn.id,
            entrance=case.visit.entrance,
            public=public_url_for(target, case.visit, upstream=here.settings.upstream),
        ),
    )


def judge_answer(here: Runtime, request: Request, visit: ClientContext, status: int, answer: Fields, size: int) -> None:
    """An answer that the listener in front gave."""
    panel = here.panel
    if not panel.size or (schedule := _schedule(here, request.target)) is None:
        return
    now, target, asked = here.clock.now(), request.target, request.fields
    if _says_too_much(asked):
        return
    panel.see(
        visit.address,
        asked.get("user-agent") or "",
        target,
        now,
        lambda number: poll_of(
            number,
            now,
            target,
            asked,
            status,
            answer,
            schedule,
            size,
            method=request.method,
            entrance=visit.entrance,
            public=public_url_for(target, visit, upstream=here.settings.upstream),
        ),
    )


def judge_recipe(here: Runtime, recipe: Recipe, address: str, agent: str, now: Instant) -> None:
    """An answer by recipe: whoever gets it has asked with the same fields, but for the User-Agent."""
    panel, target = here.panel, recipe.target
    if not panel.size or (schedule := recipe.schedule) is None:
        return

    def poll(number: int) -> Poll:
        asked, answer = _fields(recipe.asked), _fields(tuple(recipe.head.split(b"\r\n")[1:]))
        own = asked.with_field("User-Agent", agent) if agent else asked.without("user-agent")
        return poll_of(
            number, now, target, own, recipe.status, answer, schedule, len(recipe.body), method=recipe.method
        )

    panel.see(address, agent, target, now, poll)


def _says_too_much(asked: Fields) -> bool:
    return len(asked) > LINES_MAX or sum([len(value) for _, value in asked]) > LENGTH_MAX


def _schedule(here: Runtime, target: str) -> Schedule | None:
    """What the feed says of its schedule; None for what is no feed."""
    found = here.service.store.get(target)
    return found.channel.schedule if found is not None and found.channel is not None else None


@lru_cache(maxsize=256)
def _fields(lines: tuple[bytes, ...]) -> Fields:
    """The fields in these lines of a head."""
    parted = (line.decode("latin-1").partition(":") for line in lines)
    return Fields((name, value.strip()) for name, found, value in parted if found)
