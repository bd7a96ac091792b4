"""Construction of a response from a stored one: content coding, conditions, range, and provenance fields."""

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from feedproxy.cache.cache_status import append
from feedproxy.cache.freshness import Allowance, Freshness, Source, explicit_lifetime
from feedproxy.cache.partial_content import OF_ONE_MESSAGE
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, Seconds
from feedproxy.http import content_negotiation, preconditions, ranges
from feedproxy.http.cache_control import CacheControl, without_directives, without_targeted
from feedproxy.http.coding import content_coding
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.etag import EntityTag, own_tag, parse_tag, parse_tags
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.preconditions import Outcome
from feedproxy.proxy.representations.decoded_bodies import DECODED_BODIES
from feedproxy.proxy.response_selection import SelectedResponse
from feedproxy.refresh.resource_after_refresh import earlier_versions_interval
from feedproxy.request.context import Entrance, ProxyResponse
from feedproxy.request.feed_id import surrogate_key
from feedproxy.request.upstream_request import with_via

DIGESTS = ("content-digest", "repr-digest", "digest", "want-content-digest", "content-md5")
"""Fields with digests of the origin's bytes, removed from changed content (RFC 9530, section 3)."""


class SelectedRepresentation(Struct, frozen=True):
    """The body, fields and entity tag that are selected for a request."""

    body: bytes
    fields: Fields
    tag: EntityTag | None


def build_response(selected: SelectedResponse, *, via: str, now: Instant) -> ProxyResponse:
    """Return the response to a request, made from the selected stored response. `via` is this proxy's member of Via."""
    stored, response = selected.stored, _build(selected, via, now)
    if len(selected.unshared_fields):
        shared = response.fields
        unshared = (line for line in selected.unshared_fields if line[0] not in shared)
        response = response.with_fields(Fields((*shared, *unshared)))
    return ProxyResponse(
        response,
        selected.status,
        selected.reason,
        stored=stored,
        final_target=stored.final_target or "",
        interim=selected.interim,
    )


def _build(selected: SelectedResponse, via: str, now: Instant) -> Response:
    stored, freshness, request = selected.stored, selected.freshness, selected.context.request
    representation = _select_representation(stored, request, selected.context.settings.decoded_max)
    fields = _with_freshness_fields(representation.fields, selected)
    if "date" not in fields:
        # RFC 9110, section 6.6.1: a recipient with a clock adds a missing Date when it forwards a response.
        fields = fields.with_added("Date", format_http_date(stored.response_time))
    fields = fields.with_field("Age", str(int(freshness.age)))
    fields = append(with_via(fields, via), selected.status)
    if stored.status in (200, 206):
        match _evaluate_conditions(selected, representation, now):
            case Outcome.NOT_MODIFIED:
                fields = _with_tag_of_client(fields.only(preconditions.FIELDS_IN_304), stored, request, representation)
                return Response(304, fields)
            case Outcome.PRECONDITION_FAILED:
                return precondition_failed(fields)
            case _:
                pass
        if stored.status == 200 and (ranged := _range_response(request, representation, fields)):
            return ranged
    if not stored.content.bodies:
        return Response(stored.status, fields)  # a response to HEAD: its Content-Length, if any, is the origin's
    return _full_response(stored.status, fields, representation.body)


def precondition_failed(fields: Fields) -> Response:
    """Return the 412 in place of a representation with these fields."""
    return Response(412, _fields_of_refusal(fields))


def _fields_of_refusal(fields: Fields) -> Fields:
    """Return the fields of a 412 or 416 in place of a representation with these fields. With a lifetime, a cache in
    front of feedproxy could send this response to clients without conditions (RFC 9111, section 3)."""
    about_content = ("content-type", "content-encoding", *DIGESTS, *OF_ONE_MESSAGE)
    fields = without_targeted(fields).without("expires", *about_content)
    return fields.with_field("Cache-Control", "no-store").with_field("Content-Length", "0")


def _full_response(status: int, fields: Fields, body: bytes) -> Response:
    if status in (204, 304) or status < 200:
        return Response(status, fields.without("content-length"))
    if status == 205:
        # "Since the 205 status code implies that no additional content will be provided, a server MUST NOT generate
        # content in a 205 response." -- RFC 9110, section 15.3.6. A client may not read it.
        return Response(status, fields.with_field("Content-Length", "0"))
    return Response(status, fields.with_field("Content-Length", str(len(body))), body)


def _select_representation(stored: StoredResponse, request: Request, decoded_max: int) -> SelectedRepresentation:
    content, fields = stored.content, stored.fields
    accept_encoding = request.fields.combined("accept-encoding")
    if content.media_type is not None:
        fields = fields.with_field("Content-Type", content.media_type)
    if content.feed:
        fields = _with_last_modified(fields, content.last_modified)
    if content.tag is not None:
        available = [name for name in (*content_coding.CODINGS, "identity") if name in content.bodies]
        chosen = content_negotiation.choose_coding(accept_encoding, available)
        if chosen is None:
            # No available coding is acceptable: send identity, or else the origin's coding. RFC 9110, section
            # 12.5.3, prefers a possibly unacceptable response to none.
            chosen, _ = content.main_body
        fields = _with_content_coding(fields.without(*DIGESTS), chosen)
        own = own_tag(content.tag, chosen, content.bodies[chosen])
        return SelectedRepresentation(
            content.bodies[chosen],
            content_negotiation.vary_on(fields.with_field("ETag", own.text), "Accept-Encoding"),
            own,
        )
    label, body = content.main_body
    fields = _with_content_coding(fields, label)
    tag = parse_tag(fields.get("etag") or "") if len(fields.get_all("etag")) == 1 else None
    if label == "identity" or content_negotiation.choose_coding(accept_encoding, [label.lower()]) is not None:
        return SelectedRepresentation(body, fields, tag)
    if stored.no_transform:
        return SelectedRepresentation(body, fields, tag)
    plain = DECODED_BODIES.get(body, label, limit=decoded_max)
    if plain is None:
        # The stored coding is sent, because the client may be able to decode it after all.
        return SelectedRepresentation(body, fields, tag)
    # The origin's tag identifies the coded bytes. For the decoded bytes it is valid as a weak tag only.
    fields = content_negotiation.vary_on(fields.without("content-encoding", *DIGESTS), "Accept-Encoding")
    if tag is not None:
        tag = EntityTag(tag.opaque, weak=True)
        fields = fields.with_field("ETag", tag.text)
    return SelectedRepresentation(plain, fields, tag)


def _with_content_coding(fields: Fields, label: str) -> Fields:
    return fields.without("content-encoding") if label == "identity" else fields.with_field("Content-Encoding", label)


def _with_last_modified(fields: Fields, instant: Instant | None) -> Fields:
    if instant is None:
        return fields.without("last-modified")
    return fields.with_field("Last-Modified", format_http_date(instant))


def _with_freshness_fields(fields: Fields, selected: SelectedResponse) -> Fields:
    """Return the fields with max-age for the time in which the response may still be used.

    max-age is set if the lifetime comes from the feed's schedule. In reverse mode with `state_freshness`:

    * max-age is also set if the schedule permits a longer use than the origin.
    * Feeds also get CDN-Cache-Control and Surrogate-Key, for a CDN in front of feedproxy.

    A response that forbids reuse, or that has a cookie for this client, gets neither max-age nor CDN-Cache-Control.
    """
    context, freshness = selected.context, selected.freshness
    states_freshness = context.settings.state_freshness and context.client.entrance is Entrance.REVERSE
    lifetime, expires, allowance, age = freshness.lifetime, freshness.expires, freshness.allowance, freshness.age
    total = max_age_directive(lifetime, expires, allowance, age)
    # A response that forbids caching or reuse gets no lifetime. Neither does a response with a cookie for this client:
    # the lifetime would permit a cache in front to store the cookie for all clients.
    has_own_cookie = "set-cookie" in selected.unshared_fields and context.client.entrance is not Entrance.GATEWAY
    withheld = has_own_cookie or _forbids_reuse(fields)
    if not withheld and sets_max_age(selected.stored, freshness, states_freshness=states_freshness):
        other_fields = without_directives(fields, "max-age", "s-maxage")
        fields = fields.without("expires").with_field("Cache-Control", total)
        fields = fields.with_added("Cache-Control", other_fields) if other_fields else fields
    if states_freshness and selected.stored.content.feed:
        # RFC 9213: a CDN in front follows the schedule of the feed, independently of browsers.
        remaining = remaining_lifetime(lifetime, expires, allowance, age)
        if "cdn-cache-control" not in fields and remaining > 0 and not withheld:
            fields = fields.with_added("CDN-Cache-Control", total)
        keys = [*fields.get_all("surrogate-key"), surrogate_key(selected.stored.target)]
        fields = fields.with_field("Surrogate-Key", " ".join(keys))
    return fields


def sets_max_age(stored: StoredResponse, freshness: Freshness, *, states_freshness: bool) -> bool:
    """Return True if the lifetime by the feed's schedule replaces the origin's max-age. `states_freshness` is true in
    reverse mode with the option `state_freshness`."""
    if freshness.source is Source.HINT:
        # A targeted field without a lifetime hides that of Cache-Control from this proxy, not from clients (RFC 9213).
        return explicit_lifetime(stored.fields, stored.response_time) is None
    return states_freshness and freshness.allowance is not None


def _forbids_reuse(fields: Fields) -> bool:
    directives = CacheControl.from_fields(fields)
    return directives.private or directives.no_store or directives.no_cache


def max_age_directive(lifetime: Seconds, expires: Instant, allowance: Allowance | None, age: Seconds) -> str:
    """Return the max-age directive of this proxy for a response with an age of `age` seconds. The other arguments are
    attributes of Freshness."""
    # max-age counts from the origin's response: the remaining lifetime is max-age minus Age.
    return f"max-age={int(age) + remaining_lifetime(lifetime, expires, allowance, age)}"


def remaining_lifetime(lifetime: Seconds, expires: Instant, allowance: Allowance | None, age: Seconds) -> int:
    """Return the whole seconds, at least 0, for which a response with an age of `age` seconds may still be used. The
    other arguments are attributes of Freshness."""
    now = expires - (lifetime - age)
    until = expires if allowance is None else max(expires, allowance.until)
    return max(0, int(until - now))


def _evaluate_conditions(selected: SelectedResponse, representation: SelectedRepresentation, now: Instant) -> Outcome:
    request, stored = selected.context.request, selected.stored
    if not preconditions.has_preconditions(request.fields):
        return Outcome.PROCEED
    tags = tuple(_current_tags(stored, representation, all_codings="if-match" in request.fields))
    is_dated = "if-modified-since" in request.fields
    earlier_versions = earlier_versions_interval(selected.resource, stored.content) if is_dated else None
    # A client that has the content in another coding has no part of the selected representation. After a 304, a browser
    # would take the part from its copy, although it cannot decode a part of that.
    base = None if "range" in request.fields else stored.content.tag
    return evaluate_conditions(request, representation.fields, tags, base, now, earlier_versions=earlier_versions)


def evaluate_conditions(
    request: Request,
    fields: Fields,
    tags: Collection[EntityTag],
    own_base: str | None,
    now: Instant,
    *,
    earlier_versions: tuple[Instant, Instant] | None = None,
) -> Outcome:
    """Return the outcome of a request's conditions for a representation with these fields. The other arguments are
    those of `preconditions.evaluate`."""
    return preconditions.evaluate(
        request.fields,
        request.method,
        tags=tags,
        own_base=own_base,
        last_modified=parse_http_date(fields.get("last-modified") or ""),
        date=parse_http_date(fields.get("date") or ""),
        now=now,
        earlier_versions=earlier_versions,
    )


def _current_tags(
    stored: StoredResponse, representation: SelectedRepresentation, *, all_codings: bool
) -> Iterator[EntityTag]:
    """Yield the entity tags of the selected representation: the proxy's own and, as a weak tag, the origin's.

    If `all_codings` is true, the proxy's tags of all other codings are included, for strong comparison.
    """
    if representation.tag is not None:
        yield representation.tag
    if stored.content.tag is not None:
        if all_codings:
            for name, body in stored.content.bodies.items():
                yield own_tag(stored.content.tag, name, body)
        origin_tags = stored.fields.get_all("etag")
        if len(origin_tags) == 1 and (tag := parse_tag(origin_tags[0])) is not None:
            # A client that got its copy from the origin itself has the same feed. Its tag therefore matches weakly.
            yield EntityTag(tag.opaque, weak=True)


def _with_tag_of_client(
    fields: Fields, stored: StoredResponse, request: Request, representation: SelectedRepresentation
) -> Fields:
    base = stored.content.tag
    if base is None or representation.tag is None or "if-none-match" not in request.fields:
        return fields
    tags = {coding: own_tag(base, coding, body) for coding, body in stored.content.bodies.items()}
    return fields.with_field("ETag", tag_for_304(request, tags, representation.tag).text)


def tag_for_304(request: Request, tags: Mapping[str, EntityTag], selected: EntityTag) -> EntityTag:
    """Return the tag of a 304: a tag that the client sent, if it is `selected` or belongs to a coding that the request
    accepts, otherwise `selected`. `tags` are the tags of the content by coding.

    A 304 has the ETag "that would have been sent in a 200 (OK) response to the same request" (RFC 9110, section
    15.4.5), and a 200 might use any accepted coding. The tag shows the client which of its responses the 304 updates
    (RFC 9111, section 4.3.4).
    """
    condition_tags = parse_tags(request.fields.combined("if-none-match") or "")
    opaque = {tag.opaque for tag in condition_tags} if condition_tags != "*" else set()
    if selected.opaque in opaque:
        return selected
    accept_encoding = request.fields.combined("accept-encoding")
    for coding, tag in tags.items():
        if tag.opaque in opaque and content_negotiation.choose_coding(accept_encoding, (coding,)) == coding:
            return tag
    return selected


def _range_response(request: Request, representation: SelectedRepresentation, fields: Fields) -> Response | None:
    value = request.fields.get("range")
    if value is None or request.method != "GET":
        return None
    modified = parse_http_date(representation.fields.get("last-modified") or "")
    date = parse_http_date(fields.get("date") or "")
    if not ranges.if_range_holds(request.fields, representation.tag, modified, date):
        return None
    length = len(representation.body)
    match ranges.select(value, length):
        case (int(first), int(last)):
            part = representation.body[first : last + 1]
            fields = fields.without(*OF_ONE_MESSAGE).with_field("Content-Range", f"bytes {first}-{last}/{length}")
            return Response(206, fields.with_field("Content-Length", str(len(part))), part)
        case ranges.Unsatisfiable() as unsatisfiable:
            fields = _fields_of_refusal(fields.without("etag", "last-modified"))
            return Response(416, fields.with_field("Content-Range", unsatisfiable.content_range))
        case _:
            return None
