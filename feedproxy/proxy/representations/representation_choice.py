"""The choice of the representation that a client gets: content coding, delta, `dcz`, or conversion.

Conditions and ranges are applied first, because only full responses get codings and deltas. The rules of the entrance
(request/response_fields_by_entrance.py) are applied before a conversion: they would replace the Content-Security-Policy
of the converted document.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from msgspec.structs import replace

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Clock
from feedproxy.http.message import Request
from feedproxy.proxy.cors import with_cors
from feedproxy.proxy.representations.coding_variants import CodingVariants
from feedproxy.proxy.representations.conversions import REPRESENTATION_CONDITIONS, Conversions, with_vary_accept
from feedproxy.proxy.representations.dcz_to_clients import Dictionaries, with_offer
from feedproxy.proxy.representations.delta_responses import Deltas
from feedproxy.proxy.response_builder import build_response
from feedproxy.proxy.response_selection import SelectedResponse
from feedproxy.request.context import ClientContext, ProxyResponse
from feedproxy.request.gateway_challenges import has_only_unusable_challenges, unusable_challenge_response
from feedproxy.request.response_fields_by_entrance import (
    apply_entrance_rules,
    make_private,
)
from feedproxy.settings import Settings


class Representation(Enum):
    """The format of a response: that of the origin, or the one that Accept prefers."""

    ORIGINAL = auto()
    ORIGINAL_BY_ACCEPT = auto()  # Accept was considered, so that the response needs `Vary: Accept`
    NEGOTIATED = auto()  # known only when the media type of the selected response is known


@dataclass(eq=False)
class Renderer:
    """Builder of the representation of a selected response."""

    codings: CodingVariants
    deltas: Deltas
    dictionaries: Dictionaries
    conversions: Conversions
    clock: Clock
    via: str

    def choose(
        self, request: Request, settings: Settings, stored_media_type: Callable[[], str | None]
    ) -> Representation:
        """Return the representation that a request asks for (option `negotiate`). `stored_media_type` returns the media
        type of the stored feed, or None if no feed is stored."""
        if not settings.negotiate:
            return Representation.ORIGINAL
        media_type, accept = stored_media_type(), request.fields.combined("accept")
        if accept is None or (media_type is not None and self.conversions.preferred_format(accept, media_type) is None):
            return Representation.ORIGINAL_BY_ACCEPT
        return Representation.NEGOTIATED

    async def render(
        self,
        selected: SelectedResponse | ProxyResponse,
        representation: Representation,
        request: Request,
        client: ClientContext,
        settings: Settings,
    ) -> ProxyResponse:
        """Return the response `selected` in the representation that `choose` returned. `request` is the request as the
        client sent it. Its conditions (If-None-Match) apply to the representation."""
        if (
            representation is Representation.NEGOTIATED
            and isinstance(selected, SelectedResponse)
            and (converted := await self._converted(selected, request, client, settings)) is not None
        ):
            return with_vary_accept(converted)
        response = selected if isinstance(selected, ProxyResponse) else await self._original(selected)
        if has_only_unusable_challenges(response.response.status, response.response.fields, client, request.target):
            status = replace(response.status, detail=Detail.AUTHENTICATION)
            refusal = unusable_challenge_response(request, status)
            return ProxyResponse(refusal, status, Detail.AUTHENTICATION.sentence)
        response = _for_entrance(response, request.target, client, settings)
        if isinstance(selected, SelectedResponse):
            response = with_offer(response, selected.resource, client, settings)
        return response if representation is Representation.ORIGINAL else with_vary_accept(response)

    async def _converted(
        self, selected: SelectedResponse, request: Request, client: ClientContext, settings: Settings
    ) -> ProxyResponse | None:
        """Return the conversion that Accept prefers, or None if the client gets the original format. The request's
        conditions apply to the conversion."""
        output_format = self.conversions.negotiated_format(selected.stored, request)
        if output_format is None:
            return None
        context = selected.context
        unconditional = replace(context.request, fields=context.request.fields.without(*REPRESENTATION_CONDITIONS))
        original = await self._original(replace(selected, context=replace(context, request=unconditional)))
        original = _for_entrance(original, request.target, client, settings)
        return await self.conversions.convert_negotiated(original, selected.stored, request, output_format)

    async def _original(self, selected: SelectedResponse) -> ProxyResponse:
        context = selected.context
        response = build_response(selected, via=self.via, now=self.clock.now())
        response = await self.codings.apply(response, context.request, context.settings)
        response = with_cors(response, context.client, context.settings)
        encoded = await self.dictionaries.encode(
            response, context.request, selected.resource, context.client, context.settings
        )
        if "a-im" not in context.request.fields:
            return encoded
        shortened = await self.deltas.apply(
            response.response, selected.stored, context.request, selected.resource, context.settings
        )
        is_encoded_smaller = encoded is not response and len(encoded.response.body) <= len(shortened.body)
        if shortened is response.response or is_encoded_smaller:
            return encoded
        return replace(response, response=shortened)


def _for_entrance(response: ProxyResponse, target: str, client: ClientContext, settings: Settings) -> ProxyResponse:
    before = response.response.fields
    fields = apply_entrance_rules(
        before, client, target=target, upstream=settings.upstream, content_target=response.final_target
    )
    if settings.readers or client.user:
        fields = make_private(fields)
    return response if fields is before else replace(response, response=response.response.with_fields(fields))
