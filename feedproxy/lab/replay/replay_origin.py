"""A replay answers: the version that is live at a virtual instant, by HTTP's rules, with hints and faults laid over it.

Nothing is ever fetched: what is not known is 504. The same requests at the same instants get the same bytes.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import urlsplit

from feedproxy.clock import Instant
from feedproxy.errors import BadTarget, NotFound
from feedproxy.http import uri
from feedproxy.http.conditional import NotModified, PreconditionFailed, evaluate
from feedproxy.http.content_coding import encode
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.etag import parse_tag
from feedproxy.http.message import Fields, Request
from feedproxy.http.negotiation import choose_coding
from feedproxy.lab.replay.faults.base import FaultContext, PlannedFault
from feedproxy.lab.replay.forced_hints import Change
from feedproxy.lab.replay.replay_response import Form, ReplayRequest, ReplayResponse, Representation, original_target
from feedproxy.lab.replay.timeline import ReplayWorld, Version

_TAGS = re.compile(r'\*|\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*)*')
"""RFC 9110, section 13.1.2, to the letter: a lab is no place to be lenient."""

GZIP_MIN = 256
"""Bytes below which compressing is not worth its head; what nginx and others have as their default is 20 to 256."""


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """A request line and its fields, as they came: `target` in whichever form it had."""

    method: str
    target: str
    fields: Fields


class ReplayOrigin:
    """An origin of the past. `plain` tells readers plain addresses, also those who ask in the gateway's form."""

    def __init__(
        self,
        world: ReplayWorld,
        *,
        changes: Sequence[Change] = (),
        faults: Sequence[PlannedFault] = (),
        plain: bool = False,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """`names` are the recorded addresses of feeds that are known by their path at any host."""
        self.world = world
        self._changes = tuple(changes)
        self._faults = tuple(faults)
        self._plain = plain
        self._names = names or {}
        self._moves = any(each.fault.moves for each in faults)
        self._counts: Counter[str] = Counter()

    def asked(self, incoming: IncomingRequest, at: Instant) -> ReplayRequest:
        """What a request asks for. Counts it. Raises BadTarget and NotFound for what is no address."""
        form, target, base = _target(incoming)
        request = Request(incoming.method, target, incoming.fields)
        known, hops = original_target(target) if self._moves else (target, 0)
        self._counts[known] += self.world.find(known) is not None
        base = "" if self._plain else base
        return ReplayRequest(request, form, at, self._counts[known], known, hops, base)

    def answer(self, asked: ReplayRequest) -> ReplayResponse:
        """What is sent for a request."""
        if asked.request.method not in ("GET", "HEAD"):
            allow = Fields([("Date", format_http_date(asked.at)), ("Allow", "GET, HEAD")])
            return ReplayResponse(405, allow, reason="Method Not Allowed")
        timeline = self.world.find(asked.target)
        if timeline is None:
            return _unknown(asked, "is not in the recording")
        version = timeline.at(asked.at)
        if version is None:
            return _unknown(asked, f"begins at {_iso(timeline.versions[0].since)}")
        return self._faulty(version, asked)

    def _led_inside(self, shown: Representation, asked: ReplayRequest) -> Representation:
        """A recorded redirect, so that whoever follows it asks the replay again, and not the world outside.

        Who asks by Host, or a proxy, has arranged for that himself, and is told what was said then.
        """
        location = shown.fields.get("location")
        home = self._names.get(urlsplit(asked.target).path) if asked.form is Form.ORIGIN else None
        if location is None or self._plain or (home is None and asked.form is not Form.GATEWAY):
            return shown
        base = asked.base or f"http://{asked.request.fields.get('host') or ''}/"
        try:
            return shown.with_field("Location", base + uri.resolve(home or asked.target, location))
        except BadTarget:
            return shown

    def _faulty(self, version: Version, asked: ReplayRequest) -> ReplayResponse:
        at_work = [(each, moment) for each in self._faults if (moment := each.moment(asked)) is not None]
        shown = self._led_inside(Representation.of(version), asked)
        if version.status == 200:
            for change in self._changes:
                shown = change(shown)
            for planned, moment in at_work:
                shown = planned.fault.show(shown, asked, moment)
        reply = respond_without_faults(shown, asked, version)
        for planned, moment in at_work:
            reply = self._laid_over(reply, planned, asked, moment, version)
        return reply

    def _laid_over(
        self, reply: ReplayResponse, planned: PlannedFault, asked: ReplayRequest, moment: FaultContext, version: Version
    ) -> ReplayResponse:
        """The reply with one fault; its name is noted where it made a difference."""
        after = planned.fault.answer(reply, asked, moment)
        was = Representation.of(version)
        touched = after != reply or (version.status == 200 and planned.fault.show(was, asked, moment) != was)
        faults = (*reply.faults, planned.fault.name) if touched else reply.faults
        return replace(after, faults=faults)


def respond_without_faults(shown: Representation, asked: ReplayRequest, version: Version) -> ReplayResponse:
    """What an origin without faults answers with what it shows (RFC 9110, sections 12, 13 and 15)."""
    now = asked.at
    lines = [("Date", format_http_date(now))]
    if shown.modified:
        lines.append(("Last-Modified", shown.modified))
    if version.expires_in is not None:
        lines.append(("Expires", format_http_date(max(0.0, now + version.expires_in))))
    fields = Fields([*lines, *shown.fields])
    if shown.compresses:
        vary = fields.combined("vary")
        if vary is None or "accept-encoding" not in vary.lower():
            fields = fields.with_field("Vary", f"{vary}, Accept-Encoding" if vary else "Accept-Encoding")
    coding = _coding(shown, asked)
    if tag := _tag_for(shown, version, coding):
        fields = fields.with_field("ETag", tag)
    if shown.status == 200:
        match _evaluate_conditions(shown, asked):
            case NotModified():
                # RFC 9110, 15.4.5: no other fields than those that guide a cache.
                kept = ("date", "etag", "last-modified", "expires", "cache-control", "vary", "content-location")
                fields = Fields((name, value) for name, value in fields if name.lower() in kept)
                return ReplayResponse(304, fields, reason="Not Modified")
            case PreconditionFailed():
                return ReplayResponse(412, Fields([("Date", format_http_date(now))]), reason="Precondition Failed")
            case _:
                pass
    body = shown.content
    if shown.raw:
        fields = fields.with_field("Content-Encoding", ", ".join(shown.raw))
    elif coding:
        fields, body = fields.with_field("Content-Encoding", coding), _gzip(body)
    return ReplayResponse(shown.status, fields, body, shown.reason)


def _evaluate_conditions(shown: Representation, asked: ReplayRequest) -> object:
    fields, tag = asked.request.fields, parse_tag(shown.tag) if shown.tag else None
    held = fields.combined("if-none-match")
    if held is not None and held.strip() == shown.tag:
        return NotModified("if-none-match")  # whatever it looks like: it came from here
    if held is not None and not _TAGS.fullmatch(held):
        # "A recipient MUST ignore If-Modified-Since if the request contains an If-None-Match" -- section 13.1.3
        fields = fields.without("if-none-match", "if-modified-since")
    return evaluate(
        fields,
        asked.request.method,
        tags=[tag] if tag is not None else [],
        last_modified=parse_http_date(shown.modified, asked.at),
        now=asked.at,
    )


def _coding(shown: Representation, asked: ReplayRequest) -> str:
    if not shown.compresses or shown.raw or len(shown.content) < GZIP_MIN:
        return ""
    accepted = asked.request.fields.combined("accept-encoding")
    return "gzip" if accepted is not None and choose_coding(accepted, ("gzip", "identity")) == "gzip" else ""


def _tag_for(shown: Representation, version: Version, coding: str) -> str:
    """The tag as it was; a strong one is weak for the coding that it was not said of (section 8.8.3.3)."""
    strong = shown.tag.startswith('"')
    return f"W/{shown.tag}" if strong and shown.compresses and bool(coding) != bool(version.coded) else shown.tag


@lru_cache(maxsize=32)
def _gzip(body: bytes) -> bytes:
    return encode(body, "gzip", 6)


def _target(incoming: IncomingRequest) -> tuple[Form, str, str]:
    """The form of a request's target, the target, and what stands before targets in that form."""
    if not incoming.target.startswith("/"):
        return Form.ABSOLUTE, uri.normalise(incoming.target), ""
    host = incoming.fields.get("host") or ""
    try:
        return Form.GATEWAY, uri.gateway_target(incoming.target), f"http://{host}/"
    except NotFound:
        if not host:
            raise BadTarget("without Host nobody knows which address is meant") from None
        return Form.ORIGIN, uri.normalise(f"http://{host}{incoming.target}"), ""


def _unknown(asked: ReplayRequest, words: str) -> ReplayResponse:
    # Nothing is looked up elsewhere: whoever plays a week wants to notice that something is missing.
    text = f"{asked.target} {words}; a replay fetches nothing.\n"
    fields = Fields(
        [("Date", format_http_date(asked.at)), ("Content-Type", "text/plain"), ("Cache-Control", "no-store")]
    )
    return ReplayResponse(504, fields, text.encode("latin-1", "replace"), "Gateway Timeout")


def _iso(instant: Instant) -> str:
    return datetime.fromtimestamp(int(instant), UTC).isoformat().replace("+00:00", "Z")
