"""Error documents: the responses to errors, and 503 for targets that must not be fetched."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from feedproxy.cache.cache_status import CacheStatus, Detail, append
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from feedproxy.request.feed_id import surrogate_key
from feedproxy.request.problem_details import problem_response
from feedproxy.request.upstream_and_public_urls import public_url_for
from feedproxy.request.upstream_request import with_via
from feedproxy.settings import Settings

type ExtraFields = tuple[tuple[str, str], ...]

NOT_FORWARDED = CacheStatus()


@dataclass(eq=False)
class ErrorResponses:
    """Builder of error documents."""

    clock: Clock
    via: str
    settings_for: Callable[[str], Settings]

    def error_response(
        self, request: Request, client: ClientContext, error: FeedproxyError, status: CacheStatus | None = None
    ) -> ProxyResponse:
        """Return the error document for an exception, with the status code that the exception suggests."""
        reason = message = str(error) or "feedproxy refused this request."
        if client.entrance is Entrance.REVERSE:
            # Error texts name hosts and addresses of the upstream, which reverse mode does not disclose.
            detail = Detail.of(error.detail)
            message = detail.sentence if detail is not None else "feedproxy refused this request."
        status = replace(status or CacheStatus(), detail=error.detail)
        answer = self.problem_response(request, client, error.status_hint, error.detail, message, status, error.fields)
        return replace(answer, reason=reason)

    def service_unavailable(
        self,
        request: Request,
        client: ClientContext,
        until: Instant,
        detail: Detail,
        reason: str,
        status: CacheStatus = NOT_FORWARDED,
    ) -> ProxyResponse:
        """Return a 503 response for a target that must not be fetched and has no usable copy. Retry-After ends at the
        instant `until`. `reason` is one sentence for the user."""
        seconds = max(1, round(until - self.clock.now()))
        extra = (("Retry-After", str(seconds)),)
        return self.problem_response(request, client, 503, detail, reason, replace(status, detail=detail), extra)

    def problem_response(
        self,
        request: Request,
        client: ClientContext,
        code: int,
        detail: str,
        reason: str,
        status: CacheStatus,
        extra: ExtraFields = (),
        lifetime: Seconds = 0,
    ) -> ProxyResponse:
        """Return an error document with its Cache-Status. Caches may store it for `lifetime` seconds, or not at all if
        this is 0. `code` is the status code. `detail`, `reason` and `extra` are those of
        problem_details.problem_response."""
        shown = public_url_for(request.target, client, upstream=self.settings_for(request.target).upstream)
        response = problem_response(code, detail, reason, request=replace(request, target=shown), extra=extra)
        fields = response.fields
        if lifetime:
            fields = self.with_lifetime(fields, request.target, client, lifetime)
        return ProxyResponse(response.with_fields(self.with_status_fields(fields, status)), status, reason)

    def with_lifetime(self, fields: Fields, target: str, client: ClientContext, lifetime: Seconds) -> Fields:
        """Return the fields with a max-age of `lifetime` seconds and, in reverse mode with `state_freshness`, with
        CDN-Cache-Control and Surrogate-Key for a CDN in front of feedproxy."""
        directive = f"max-age={int(lifetime)}"
        fields = fields.with_field("Cache-Control", directive)
        if client.entrance is Entrance.REVERSE and self.settings_for(target).state_freshness:
            fields = fields.with_field("CDN-Cache-Control", directive).with_field(
                "Surrogate-Key", surrogate_key(target)
            )
        return fields

    def with_status_fields(self, fields: Fields, status: CacheStatus) -> Fields:
        fields = fields.with_field("Date", format_http_date(self.clock.now()))
        return append(with_via(fields, self.via), status)
