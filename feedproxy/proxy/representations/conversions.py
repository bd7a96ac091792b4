"""Feeds in another format: at `/-/as/FORMAT/TARGET`, and by Accept with the option `negotiate`.

A conversion replaces the content of the selected response. The conversion has its own entity tags and codings, and the
request's conditions apply to it.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from feedproxy.cache.cache_status import Detail, append
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Clock
from feedproxy.errors import BadTarget, FeedproxyError, Forbidden, NotFound
from feedproxy.feed import pasted_address
from feedproxy.feed.convert.formats import FORMATS, Format
from feedproxy.feed.convert.headlines import Headlines
from feedproxy.http import content_negotiation, preconditions, uri
from feedproxy.http.coding import content_coding
from feedproxy.http.etag import own_tag
from feedproxy.http.field_values import parse_parameters
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.preconditions import Outcome
from feedproxy.http.target_uri.gateway_path import gateway_target
from feedproxy.proxy.representations.conversion_cache import Conversion, ConversionCache
from feedproxy.proxy.response_builder import DIGESTS, evaluate_conditions, precondition_failed, tag_for_304
from feedproxy.refresh.ingest.coding_policy import compression_level
from feedproxy.request.context import ClientContext, Entrance, PassThrough, ProxyResponse
from feedproxy.request.endpoint_registry import Call
from feedproxy.request.problem_details import problem_response
from feedproxy.request.upstream_and_public_urls import rebase
from feedproxy.settings import Settings

PATH = "as/"

REPRESENTATION_CONDITIONS = (
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "range",
    "a-im",
    "available-dictionary",
)
"""Request fields that apply to the converted document instead of the stored feed."""

_FIELDS_OF_THE_ORIGINAL = (
    *DIGESTS,
    "content-type",
    "content-encoding",
    "content-length",
    "content-location",
    "content-disposition",
    "content-range",
    "accept-ranges",
    "etag",
    "im",
    "delta-base",
    "use-as-dictionary",
)

_PROVENANCE_FIELDS = ("cache-status", "via", "age", "date")
"""Response fields that describe how the response was obtained. An error document keeps them."""

NEGOTIABLE_FORMATS = ("atom", "rss", "rdf", "json", "html")
"""Formats that Accept may select."""

type Serve = Callable[[Request, ClientContext], Awaitable[ProxyResponse | PassThrough]]


@dataclass(eq=False)
class Conversions:
    """Responder to requests for another format. The function `serve` returns the response in the original format."""

    serve: Serve
    conversions: ConversionCache
    settings_for: Callable[[str], Settings]
    clock: Clock

    async def headlines(self, stored: StoredResponse) -> Headlines:
        """Return the headlines of a stored feed. Raises NotAFeed if the document is no feed, and FeedproxyError if a
        limit is exceeded."""
        return await self.conversions.headlines(stored, self.settings_for(stored.target))

    def parse_call(self, call: Call) -> tuple[Format, str]:
        """Return the format and target in a call of `/-/as/FORMAT/TARGET`.

        Raises NotFound if the format is unknown or the target is missing, BadTarget if the target is invalid, and
        Forbidden if the target is outside the upstream of reverse mode.
        """
        name, _, rest = call.path.removeprefix(PATH).partition("/")
        output_format = FORMATS.get(name)
        if output_format is None:
            # The name is left out, because the message is logged, and a user may have put a secret in this place.
            raise NotFound(f"unknown format: expected as/FORMAT/TARGET with one of {', '.join(FORMATS)}")
        return output_format, self._target(rest + (f"?{call.query}" if call.query else ""), call.client)

    async def respond(
        self, call: Call, output_format: Format, target: str, fields: Fields, *, user: str = ""
    ) -> Response:
        """Return the response for an authorized call of `/-/as/FORMAT/TARGET`. `fields` are the request fields without
        credentials for this proxy. `user` is the authenticated user."""
        call = replace(call, request=replace(call.request, fields=fields), client=replace(call.client, user=user))
        feed_request = Request("GET", target, call.request.fields.without(*REPRESENTATION_CONDITIONS))
        answer = await self.serve(feed_request, call.client)
        if isinstance(answer, PassThrough):
            reason = "The feed is too large to be converted."
            return problem_response(502, Detail.TOO_LARGE, reason, request=replace(feed_request, target=target))
        before = call.request.target.partition(f"{PATH}{output_format.name}/")[0] + f"{PATH}{output_format.name}/"
        if answer.stored is None or answer.response.status != 200:
            return answer.response.with_fields(_with_converted_location(answer.response.fields, call.client, before))
        request = replace(call.request, target=target)
        try:
            at = _public_address(call, self.settings_for(target).endpoint_prefix)
            return await self.convert(answer, answer.stored, request, output_format, at=at)
        except FeedproxyError as error:
            problem = problem_response(error.status_hint, error.detail, str(error), request=request, extra=error.fields)
            provenance = [line for line in answer.response.fields if line[0].lower() in _PROVENANCE_FIELDS]
            own = ("Cache-Status", answer.status.text())
            provenance = [line for line in provenance if line != own]
            fields = Fields((*problem.fields, *provenance))
            return problem.with_fields(append(fields, replace(answer.status, detail=error.detail)))

    async def convert(
        self, answer: ProxyResponse, stored: StoredResponse, request: Request, output_format: Format, *, at: str = ""
    ) -> Response:
        """Return the conversion of a stored feed, with the fields of `answer` that describe how the feed was obtained.

        `at` is the address of the conversion, or "" if the conversion has the address of the feed. Raises NotAFeed if
        the document is no feed, and FeedproxyError if a limit is exceeded.
        """
        settings = self.settings_for(stored.target)
        name = (
            content_negotiation.choose_coding(request.fields.combined("accept-encoding"), _codings(settings))
            or "identity"
        )
        conversion = await self.conversions.get(stored, output_format, name, settings, at=at)
        fields = _conversion_fields(answer.response.fields, output_format, conversion, name)
        tags = tuple(own_tag(conversion.tag_base, coding) for coding in ("identity", *content_coding.CODINGS))
        match evaluate_conditions(request, fields, tags, conversion.tag_base, self.clock.now()):
            case Outcome.NOT_MODIFIED:
                offered = {coding: own_tag(conversion.tag_base, coding) for coding in _codings(settings)}
                fields = fields.with_field("ETag", tag_for_304(request, offered, offered[name]).text)
                return Response(304, fields.only(preconditions.FIELDS_IN_304))
            case Outcome.PRECONDITION_FAILED:
                return precondition_failed(fields)
        return Response(200, fields.with_field("Content-Length", str(len(conversion.body))), conversion.body)

    def negotiated_format(self, stored: StoredResponse, request: Request) -> Format | None:
        """Return the format into which Accept converts a stored response, or None if it is sent unconverted. Only a
        feed without no-transform is converted."""
        if stored.status != 200 or not stored.content.feed or stored.no_transform:
            return None
        media_type = stored.content.media_type or stored.fields.get("content-type") or ""
        return self.preferred_format(request.fields.combined("accept"), media_type)

    async def convert_negotiated(
        self, answer: ProxyResponse, stored: StoredResponse, request: Request, output_format: Format
    ) -> ProxyResponse | None:
        """Return the conversion of a stored feed to a negotiated format, or None if the feed cannot be converted.
        `answer` is the response in the original format."""
        try:
            converted = await self.convert(answer, stored, request, output_format)
        except FeedproxyError:
            return None
        # The stored response differs from the sent one. Later steps must not make a delta or a repetition from it.
        return replace(answer, response=converted, stored=None)

    def preferred_format(self, accept: str | None, media_type: str) -> Format | None:
        """Return the format that Accept prefers to the original format with this media type. Return None if Accept is
        None, or prefers the original format."""
        if accept is None:
            return None
        own = parse_parameters(media_type)[0]
        offers = {media_type: None} | {
            format_.media_type: format_
            for name in NEGOTIABLE_FORMATS
            if parse_parameters((format_ := FORMATS[name]).media_type)[0] != own
        }
        chosen = content_negotiation.choose_media_type(accept, [_without_parameters(offer) for offer in offers])
        return next((format_ for offer, format_ in offers.items() if _without_parameters(offer) == chosen), None)

    def _target(self, address: str, client: ClientContext) -> str:
        """Return the target that `address` names: the part of a path after `/-/as/FORMAT/`, with the query. In reverse
        mode, raises Forbidden if the target is outside the upstream."""
        if client.entrance is not Entrance.REVERSE:
            return _gateway_target(address, client.base, self.settings_for("").endpoint_prefix)
        upstream = self.settings_for("").upstream.rstrip("/")
        try:
            target = gateway_target(f"/{address}")
        except NotFound:
            path = uri.normalise(f"http://upstream/{address}").removeprefix("http://upstream")
            return uri.normalise(upstream + path)
        rebased = rebase(target, client.base, upstream) or target
        if rebased != upstream and not rebased.startswith(f"{uri.normalise(upstream + '/')}"):
            raise Forbidden("conversion refused: in reverse mode, only feeds of the upstream are converted")
        return rebased


def _gateway_target(address: str, base: str, prefix: str) -> str:
    """Return the target that `address` names, which a user can have pasted in another form than a gateway path. `base`
    is the gateway's URL, and `prefix` the path of the endpoints. Raises NotFound or BadTarget if there is no target."""
    try:
        return gateway_target(f"/{address}")
    except NotFound:
        with contextlib.suppress(BadTarget):
            return pasted_address.read(address, base, prefix)
        raise


def _codings(settings: Settings) -> list[str]:
    return [*(name for name in content_coding.CODINGS if compression_level(name, settings)), "identity"]


def _conversion_fields(fields: Fields, output_format: Format, conversion: Conversion, name: str) -> Fields:
    fields = fields.without(*_FIELDS_OF_THE_ORIGINAL).with_field("Content-Type", output_format.media_type)
    fields = fields.with_field("X-Content-Type-Options", "nosniff")
    # The policy prevents scripts of a feed from running and from reading data of the proxy's web origin.
    policy = (
        f"sandbox allow-popups allow-popups-to-escape-sandbox; {output_format.policy}"
        if output_format.policy
        else "sandbox"
    )
    fields = fields.with_field("Content-Security-Policy", policy)
    if name != "identity":
        fields = fields.with_field("Content-Encoding", name)
    fields = content_negotiation.vary_on(fields, "Accept-Encoding")
    return fields.with_field("ETag", own_tag(conversion.tag_base, name).text)


def _with_converted_location(fields: Fields, client: ClientContext, before: str) -> Fields:
    """Return the fields of a redirect with a Location to a conversion in the same format, or unchanged if Location is
    not below the proxy's address. `before` is the path of this conversion before its target, such as `/-/as/atom/`."""
    location = fields.get("location")
    if location is None or not location.startswith(f"{client.base}/"):
        return fields
    return fields.with_field("Location", f"{client.base}{before}{location.removeprefix(f'{client.base}/')}")


def with_vary_accept(response: ProxyResponse) -> ProxyResponse:
    """Return the response with `Vary: Accept`."""
    fields = content_negotiation.vary_on(response.response.fields, "Accept")
    return replace(response, response=response.response.with_fields(fields))


def _without_parameters(media_type: str) -> str:
    return parse_parameters(media_type)[0]


def _public_address(call: Call, prefix: str) -> str:
    """Return the address of a conversion without the token of a secret address (`/-/with/TOKEN/…`), because a self link
    would disclose the token to other readers."""
    base = call.client.base.partition(f"{prefix}with/")[0]
    return f"{base}{prefix}{call.path}" + (f"?{call.query}" if call.query else "")
