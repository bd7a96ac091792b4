"""Responses for feeds that are recorded as moved or ended: 301, 410, or an XML redirect document."""

from msgspec.structs import replace

from feedproxy.cache.cache_status import CacheStatus, Detail
from feedproxy.clock import Instant
from feedproxy.feed import xml_redirect
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.lru_map import LRU
from feedproxy.proxy.error_responses import ErrorResponses
from feedproxy.refresh.policy import moved_and_gone
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.request.context import ProxyResponse, RequestContext
from feedproxy.request.upstream_and_public_urls import public_url_for, rewrite_location
from feedproxy.store.interface import Store
from feedproxy.store.resource import Failures, RelocationKind, Resource

DEAD_TARGETS_MAX = 1024
"""Maximum number of remembered targets at which no feed was found. The oldest is removed first."""


class RelocationResponses:
    """Builder of the responses for moved and ended feeds.

    The builder remembers new addresses at which no feed was found. A move to such an address is *in doubt*: it is
    announced only if no stored response can be sent.
    """

    def __init__(self, store: Store, errors: ErrorResponses) -> None:
        self._store = store
        self._errors = errors
        self._dead_targets: LRU[str, Resource] = LRU(entries_max=DEAD_TARGETS_MAX)

    def announce(
        self,
        context: RequestContext,
        resource: Resource | None,
        now: Instant,
        status: CacheStatus | None,
        *,
        allow_doubt: bool = False,
    ) -> ProxyResponse | None:
        """Return the response that announces a feed's move or end, or None in these cases:

        * The feed is served: it has neither moved nor ended, or this is unconfirmed.
        * The move is in doubt, and `allow_doubt` is false. The argument is true if no stored response can be sent.
        * The origin must be asked first, and `status` is None: no request was sent to the origin yet.
        """
        if not allow_doubt and self.is_in_doubt(context, resource):
            return None
        sighting = resource.relocation if resource is not None else None
        # Without a request to the origin, Cache-Status has neither hit nor fwd, because RFC 9211, section 2, has no
        # parameter for it.
        reported = status or CacheStatus()
        match moved_and_gone.active_relocation(sighting, now, context.settings, target=context.request.target):
            case moved_and_gone.RespondMoved(location, recheck) if status or not recheck:
                return self._relocation_response(context, location, replace(reported, detail=Detail.MOVED))
            case moved_and_gone.RespondGone(recheck) if status or not recheck:
                is_believed = not recheck
                return self._gone_response(context, replace(reported, detail=Detail.GONE), believed=is_believed)
        return None

    def is_in_doubt(self, context: RequestContext, resource: Resource | None) -> bool:
        """Return True if the feed has a confirmed move that is in doubt (refresh/policy/moved_and_gone.py)."""
        sighting = resource.relocation if resource is not None else None
        if sighting is None or sighting.kind is not RelocationKind.MOVED:
            return False
        destination = self._store.get(sighting.location) or self._dead_targets.get(sighting.location)
        return moved_and_gone.is_in_doubt(sighting, destination, context.settings)

    def record_result(self, result: RefreshResult) -> None:
        """Record whether moves to the refreshed target are in doubt. They are if the target has no feed, and responded
        with one of DOUBTFUL_STATUSES."""
        resource, response = result.resource, result.response
        if resource.channel is None and response is not None and response.status in moved_and_gone.DOUBTFUL_STATUSES:
            failures = Failures(1, detail=Detail.REFUSED)
            self._dead_targets.put(resource.target, Resource(resource.target, failures=failures))
        elif len(self._dead_targets):
            self._dead_targets.drop(resource.target)

    def _relocation_response(self, context: RequestContext, location: str, status: CacheStatus) -> ProxyResponse:
        """Return the response that announces a move to `location`: an XML redirect document if the move comes from a
        rule (`moved_to`) and `announce_as` is `xml`, otherwise a 301."""
        settings = context.settings
        location = uri.without_fragment(location)  # a fragment names a credential of the operator
        if settings.moved_to and settings.announce_as == "xml":
            shown = rewrite_location(
                location, context.client, target=context.request.target, upstream=settings.upstream
            )
            response = self._xml_redirect(
                context, xml_redirect.make_document(shown), status, f"the feed has moved to {location}"
            )
            return replace(response, final_target=location)
        shown = public_url_for(location, context.client, upstream=settings.upstream)
        reason, extra = f"The feed has moved to {shown}.", (("Location", location),)
        lifetime = settings.relocation_spacing
        return self._errors.problem_response(
            context.request, context.client, 301, Detail.MOVED, reason, status, extra, lifetime
        )

    def _gone_response(self, context: RequestContext, status: CacheStatus, *, believed: bool) -> ProxyResponse:
        """Return the response that announces the end of a feed: an XML document if the end comes from a rule (`gone`)
        and `announce_as` is `xml`, otherwise a 410.

        `believed` is true if the end is confirmed, and the origin is not asked again. Only then may caches store the
        410.
        """
        settings = context.settings
        if settings.gone and settings.announce_as == "xml":
            return self._xml_redirect(context, xml_redirect.make_document(None), status, "the feed has ended")
        reason = "This feed has ended; please unsubscribe."
        lifetime = settings.relocation_spacing if believed else 0
        return self._errors.problem_response(
            context.request, context.client, 410, Detail.GONE, reason, status, (), lifetime
        )

    def _xml_redirect(self, context: RequestContext, body: bytes, status: CacheStatus, reason: str) -> ProxyResponse:
        lines = [
            ("Content-Type", "application/xml"),
            ("Content-Length", str(len(body))),
        ]
        fields = self._errors.with_lifetime(
            Fields(lines), context.request.target, context.client, context.settings.relocation_spacing
        )
        return ProxyResponse(Response(200, self._errors.with_status_fields(fields, status), body), status, reason)
