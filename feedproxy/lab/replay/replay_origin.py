"""Origin of a replay: it serves the versions that were current at the virtual instant, with hint overrides and faults.

It sends no requests, and answers an unknown target with 504. The same requests at the same instants get the same bytes.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from msgspec.structs import replace

from feedproxy.clock import Instant
from feedproxy.errors import BadTarget, NotFound
from feedproxy.http import uri
from feedproxy.http.coding.content_coding import encode
from feedproxy.http.content_negotiation import choose_coding
from feedproxy.http.date import format_http_date, format_rfc3339, parse_http_date
from feedproxy.http.etag import parse_tag
from feedproxy.http.message import Fields, Request
from feedproxy.http.preconditions import Outcome, evaluate
from feedproxy.http.target_uri.gateway_path import gateway_target
from feedproxy.lab.replay.faults.fault import Fault, FaultContext, PlannedFault
from feedproxy.lab.replay.hint_overrides import Change
from feedproxy.lab.replay.replay_response import Form, ReplayRequest, ReplayResponse, original_target
from feedproxy.lab.replay.timeline import ReplayWorld, Version

_TAGS = re.compile(r'\*|\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*)*')
"""Pattern of a valid If-None-Match (RFC 9110, section 13.1.2). It is strict, because the lab tests readers."""

GZIP_MIN = 256
"""Content of at least this many bytes is compressed. nginx has 20 by default, and Caddy 512."""


class ReplayOrigin:
    """An origin that serves recorded feeds. If `plain` is true, no response contains gateway addresses, even if the
    request is for a gateway address."""

    def __init__(
        self,
        world: ReplayWorld,
        *,
        changes: Sequence[Change] = (),
        faults: Sequence[PlannedFault] = (),
        plain: bool = False,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Create an origin for the timelines in `world`, with hint overrides (`changes`) and `faults`. `names` maps
        paths to recorded addresses. Each path is served at every host."""
        self.world = world
        self._changes = tuple(changes)
        self._faults = tuple(faults)
        self._plain = plain
        self._names = names or {}
        self._moves = any(planned.fault.moves for planned in faults)
        self._counts: Counter[str] = Counter()

    def to_replay_request(self, head: Request, at: Instant) -> ReplayRequest:
        """Return a received request with its target URI and its time `at`, and count it. `head.target` has any form of
        RFC 9112, section 3.2. Raises BadTarget or NotFound if the request names no target."""
        form, target, base = _parse_target(head)
        request = Request(head.method, target, head.fields)
        recorded_target, hops = original_target(target) if self._moves else (target, 0)
        self._counts[recorded_target] += self.world.find(recorded_target) is not None
        base = "" if self._plain else base
        return ReplayRequest(request, form, at, self._counts[recorded_target], recorded_target, hops, base)

    def answer(self, incoming: ReplayRequest) -> ReplayResponse:
        """Return the response to a request."""
        if incoming.request.method not in ("GET", "HEAD"):
            allow = Fields([("Date", format_http_date(incoming.at)), ("Allow", "GET, HEAD")])
            return ReplayResponse(405, allow, reason="Method Not Allowed")
        timeline = self.world.find(incoming.target)
        if timeline is None:
            return _not_recorded(incoming, "is not in the recording")
        version = timeline.at(incoming.at)
        if version is None:
            return _not_recorded(incoming, f"begins at {format_rfc3339(timeline.versions[0].since)}")
        return self._reply_with_faults(version, incoming)

    def _rewrite_location(self, representation: Version, incoming: ReplayRequest) -> Version:
        """Return the representation of a redirect, with a Location that leads to the replay. A client that uses the
        replay as a proxy or under the recorded host name gets the recorded Location."""
        location = representation.fields.get("location")
        home = self._names.get(urlsplit(incoming.target).path) if incoming.form is Form.ORIGIN else None
        if location is None or self._plain or (home is None and incoming.form is not Form.GATEWAY):
            return representation
        base = incoming.base or f"http://{incoming.request.fields.get('host') or ''}/"
        try:
            return representation.with_field("Location", base + uri.resolve(home or incoming.target, location))
        except BadTarget:
            return representation

    def _reply_with_faults(self, version: Version, incoming: ReplayRequest) -> ReplayResponse:
        active = [(planned, context) for planned in self._faults if (context := planned.context(incoming)) is not None]
        representation = self._rewrite_location(version, incoming)
        if version.status == 200:
            for change in self._changes:
                representation = change(representation)
            for planned, context in active:
                representation = planned.fault.change_representation(representation, context)
        reply = respond_without_faults(representation, incoming, version)
        for planned, context in active:
            reply = _apply_fault(reply, planned.fault, context, version)
        return reply


def _apply_fault(reply: ReplayResponse, fault: Fault, context: FaultContext, version: Version) -> ReplayResponse:
    """Apply one fault and return the response. The response's `faults` names the fault only if it changed something."""
    after = fault.change_response(reply, context)
    is_changed = after != reply or (version.status == 200 and fault.change_representation(version, context) != version)
    return replace(after, faults=(*reply.faults, fault.name)) if is_changed else after


def respond_without_faults(representation: Version, incoming: ReplayRequest, version: Version) -> ReplayResponse:
    """Return the response of an origin without faults (RFC 9110, sections 12, 13 and 15). `representation` is the
    recorded `version` with hint overrides and faults."""
    now = incoming.at
    lines = [("Date", format_http_date(now))]
    if representation.modified:
        lines.append(("Last-Modified", representation.modified))
    if version.expires_in is not None:
        lines.append(("Expires", format_http_date(max(0.0, now + version.expires_in))))
    fields = Fields([*lines, *representation.fields])
    if representation.is_compressed:
        vary = fields.combined("vary")
        if vary is None or "accept-encoding" not in vary.lower():
            fields = fields.with_field("Vary", f"{vary}, Accept-Encoding" if vary else "Accept-Encoding")
    coding = _choose_coding(representation, incoming)
    if tag := _entity_tag(representation, version, coding):
        fields = fields.with_field("ETag", tag)
    if representation.status == 200:
        match _evaluate_conditions(representation, incoming):
            case Outcome.NOT_MODIFIED:
                # RFC 9110, section 15.4.5: a 304 has only the fields that guide a cache.
                guiding = ("date", "etag", "last-modified", "expires", "cache-control", "vary", "content-location")
                fields = Fields((name, value) for name, value in fields if name.lower() in guiding)
                return ReplayResponse(304, fields, reason="Not Modified")
            case Outcome.PRECONDITION_FAILED:
                return ReplayResponse(412, Fields([("Date", format_http_date(now))]), reason="Precondition Failed")
            case _:
                pass
    body = representation.content
    if representation.raw and representation.coded:
        fields = fields.with_field("Content-Encoding", ", ".join(representation.coded))
    elif coding:
        fields, body = fields.with_field("Content-Encoding", coding), _gzip(body)
    return ReplayResponse(representation.status, fields, body, representation.reason)


def _evaluate_conditions(representation: Version, incoming: ReplayRequest) -> Outcome:
    fields, tag = incoming.request.fields, parse_tag(representation.tag) if representation.tag else None
    condition = fields.combined("if-none-match")
    if condition is not None and condition.strip() == representation.tag:
        return Outcome.NOT_MODIFIED  # the replay has sent this tag, even if it is invalid
    if condition is not None and not _TAGS.fullmatch(condition):
        # "A recipient MUST ignore If-Modified-Since if the request contains an If-None-Match" -- section 13.1.3
        fields = fields.without("if-none-match", "if-modified-since")
    return evaluate(
        fields,
        incoming.request.method,
        tags=[tag] if tag is not None else [],
        last_modified=parse_http_date(representation.modified, incoming.at),
        now=incoming.at,
    )


def _choose_coding(representation: Version, incoming: ReplayRequest) -> str:
    if not representation.is_compressed or len(representation.content) < GZIP_MIN:
        return ""
    accepted = incoming.request.fields.combined("accept-encoding")
    return "gzip" if accepted is not None and choose_coding(accepted, ("gzip", "identity")) == "gzip" else ""


def _entity_tag(representation: Version, version: Version, coding: str) -> str:
    """Return the recorded ETag. A strong ETag is made weak if the content is sent compressed and was recorded
    uncompressed, or the reverse (RFC 9110, section 8.8.3.3)."""
    strong = representation.tag.startswith('"')
    return (
        f"W/{representation.tag}"
        if strong and representation.is_compressed and bool(coding) != bool(version.coded)
        else representation.tag
    )


@lru_cache(maxsize=32)
def _gzip(body: bytes) -> bytes:
    return encode(body, "gzip", 6)


def _parse_target(head: Request) -> tuple[Form, str, str]:
    """Return the form of a request's target, the target URI, and the gateway's prefix (`http://HOST/`) or ""."""
    if not head.target.startswith("/"):
        return Form.ABSOLUTE, uri.normalise(head.target), ""
    host = head.fields.get("host") or ""
    try:
        return Form.GATEWAY, gateway_target(head.target), f"http://{host}/"
    except NotFound:
        if not host:
            raise BadTarget("missing Host field: an origin-form target requires one") from None
        return Form.ORIGIN, uri.normalise(f"http://{host}{head.target}"), ""


def _not_recorded(incoming: ReplayRequest, problem: str) -> ReplayResponse:
    # An error status tells users that the recording lacks the target. The replay never asks the origin.
    text = f"{incoming.target} {problem}; a replay sends no requests.\n"
    fields = Fields(
        [("Date", format_http_date(incoming.at)), ("Content-Type", "text/plain"), ("Cache-Control", "no-store")]
    )
    return ReplayResponse(504, fields, text.encode("latin-1", "replace"), "Gateway Timeout")
