"""A feed in another format: `/-/as/FORMAT/TARGET`, and by Accept on the feed itself where a rule allows it.

The feed is answered as ever (service.answer): the same access, count, freshness and Cache-Status. Only then is its
content exchanged for a rendering of it, which has tags, codings and conditions of its own.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Clock
from feedproxy.errors import BadTarget, FeedproxyError, Forbidden, NotOurs
from feedproxy.feed import subscription_address
from feedproxy.feed.convert.formats import FORMATS, Format
from feedproxy.http import conditional, content_coding, negotiation, uri
from feedproxy.http.conditional import NotModified, PreconditionFailed
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import own_tag
from feedproxy.http.field_values import parse_parameters
from feedproxy.http.message import Fields, Request, Response
from feedproxy.proxy.representations.conversion_cache import Headlines, Rendering, Renderings
from feedproxy.proxy.response_builder import DIGESTS, IN_A_304
from feedproxy.refresh.ingest.coding_policy import level_of
from feedproxy.request.context import Answer, PassThrough
from feedproxy.request.endpoints import Call
from feedproxy.request.entrance import Entrance, Visit
from feedproxy.request.problem import problem
from feedproxy.request.url_mapping import rebased
from feedproxy.settings import Settings

PATH = "as/"

CONDITIONS = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range", "a-im")
"""What a request says of the rendering that it holds; of the feed's own content it says nothing."""

_NOT_OF_A_RENDERING = (
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
)

_STORY = ("cache-status", "via", "age", "date")
"""What an answer says of how it came about."""

OFFERS = ("atom", "rss", "rdf", "json", "html")
"""What a feed may be negotiated into: what readers and browsers ask for by its media type."""

type Serve = Callable[[Request, Visit], Awaitable[Answer | PassThrough]]


class Formats:
    """Answers what is asked for in another format. `serve` answers for the feed itself."""

    def __init__(self, serve: Serve, renderings: Renderings, settings_for: Callable[[str], Settings], clock: Clock):
        self._serve = serve
        self._renderings = renderings
        self._settings_for = settings_for
        self._clock = clock

    @property
    def parsed(self) -> int:
        """Documents that were read to be rendered: fewer than renderings."""
        return self._renderings.parsed

    async def headlines(self, stored: StoredResponse) -> Headlines:
        """What a stored feed says in a few words. Raises NotAFeed, and FeedproxyError."""
        return await self._renderings.headlines(stored, self._settings_for(stored.target))

    def wanted(self, call: Call) -> tuple[Format, str]:
        """Format and target of a call for `/-/as/FORMAT/TARGET`. Raises NotOurs, BadTarget, Forbidden."""
        name, _, rest = call.path.removeprefix(PATH).partition("/")
        wanted = FORMATS.get(name)
        if wanted is None:
            raise NotOurs(f"behind as/ comes a format, one of {', '.join(FORMATS)}, and then the address of a feed")
        return wanted, self._target(rest + (f"?{call.query}" if call.query else ""), call.visit)

    async def endpoint(self, call: Call, wanted: Format, target: str, fields: Fields, *, user: str = "") -> Response:
        """Answer such a call. Whether the reader may have the target was asked before: `fields` are what is left of
        his, and `user` is who he proved to be."""
        call = replace(call, request=replace(call.request, fields=fields), visit=replace(call.visit, user=user))
        asked = Request("GET", target, call.request.fields.without(*CONDITIONS))
        answer = await self._serve(asked, call.visit)
        if isinstance(answer, PassThrough):
            words = "The feed is too large to be converted."
            return problem(502, Detail.TOO_LARGE, words, request=replace(asked, target=target))
        before = call.request.target.partition(f"{PATH}{wanted.name}/")[0] + f"{PATH}{wanted.name}/"
        if answer.stored is None or answer.response.status != 200:
            return answer.response.with_fields(_still_converted(answer.response.fields, call.visit, before))
        request = replace(call.request, target=target)
        try:
            at = f"{call.visit.base}{call.request.target}"
            return await self.instead_of(answer, answer.stored, request, wanted, at=at)
        except FeedproxyError as error:
            told = problem(error.status_hint, error.detail, str(error), request=request)
            story = (
                line for line in answer.response.fields if line[0].lower() in ("cache-status", "via", "age", "date")
            )
            return told.with_fields(Fields((*told.fields, *story)))

    async def instead_of(
        self, answer: Answer, stored: StoredResponse, request: Request, wanted: Format, *, at: str = ""
    ) -> Response:
        """The rendering, with the story of the answer that it stands for. Raises NotAFeed, and FeedproxyError.

        `at` is its address, where that is another than the feed's.
        """
        settings = self._settings_for(stored.target)
        name = negotiation.choose_coding(request.fields.combined("accept-encoding"), _codings(settings)) or "identity"
        rendering = await self._renderings.of(stored, wanted, name, settings, at=at)
        fields = _fields(answer.response.fields, wanted, rendering, name)
        match self._outcome(request, rendering, fields):
            case NotModified():
                return Response(304, Fields(line for line in fields if line[0].lower() in IN_A_304))
            case PreconditionFailed():
                return Response(
                    412, fields.without("content-type", "content-encoding").with_field("Content-Length", "0")
                )
        return Response(200, fields.with_field("Content-Length", str(len(rendering.body))), rendering.body)

    async def by_accept(self, request: Request, visit: Visit, media_type: str | None) -> Answer | PassThrough:
        """Answer for a feed in the format that Accept prefers; `media_type` is that of the feed, where it is known."""
        accept = request.fields.combined("accept")
        if media_type is not None and self.negotiated(accept, media_type) is None:
            return _varying(await self._serve(request, visit))
        answer = await self._serve(replace(request, method="GET", fields=request.fields.without(*CONDITIONS)), visit)
        if isinstance(answer, PassThrough) or answer.stored is None or answer.response.status != 200:
            return answer
        wanted = self.negotiated(accept, answer.response.fields.get("content-type") or "") if answer.feed else None
        if wanted is None:
            return _varying(answer)
        try:
            response = await self.instead_of(answer, answer.stored, request, wanted)
        except FeedproxyError:
            return _varying(answer)
        # What it was made of is not what was sent: nobody may take the one for the other.
        return _varying(replace(answer, response=response, stored=None))

    def negotiated(self, accept: str | None, media_type: str) -> Format | None:
        """What Accept prefers to the feed as it is; None where that is as good as any."""
        if accept is None:
            return None
        own = parse_parameters(media_type)[0]
        offers = {media_type: None} | {
            each.media_type: each for name in OFFERS if parse_parameters((each := FORMATS[name]).media_type)[0] != own
        }
        chosen = negotiation.best_type(accept, [_bare(offer) for offer in offers])
        return next((each for offer, each in offers.items() if _bare(offer) == chosen), None)

    def _outcome(self, request: Request, rendering: Rendering, fields: Fields) -> object:
        modified, date = fields.get("last-modified"), fields.get("date")
        return conditional.evaluate(
            request.fields,
            request.method,
            tags=tuple(own_tag(rendering.stem, each) for each in ("identity", *content_coding.CODINGS)),
            stem=rendering.stem,
            last_modified=parse_http_date(modified) if modified else None,
            date=parse_http_date(date) if date else None,
            now=self._clock.now(),
        )

    def _target(self, rest: str, visit: Visit) -> str:
        """The feed behind FORMAT/; in reverse mode only what this proxy stands in front of, by path or address."""
        if visit.entrance is not Entrance.REVERSE:
            return _gateway_target(rest, visit.base)
        upstream = self._settings_for("").upstream.rstrip("/")
        try:
            target = uri.gateway_target(f"/{rest}")
        except NotOurs:
            path = uri.normalise(f"http://upstream/{rest}").removeprefix("http://upstream")
            return uri.normalise(upstream + path)
        inside = rebased(target, visit.base, upstream) or target
        if inside != upstream and not inside.startswith(f"{uri.normalise(upstream + '/')}"):
            raise Forbidden("this proxy stands in front of one origin, and converts no other's feeds")
        return inside


def _gateway_target(rest: str, base: str) -> str:
    """The target behind FORMAT/, in the gateway's form or as people paste addresses. Raises NotOurs and BadTarget."""
    try:
        return uri.gateway_target(f"/{rest}")
    except NotOurs:
        with contextlib.suppress(BadTarget):
            return subscription_address.read(rest, base)
        raise


def _codings(settings: Settings) -> list[str]:
    return [*(name for name in content_coding.CODINGS if level_of(name, settings)), "identity"]


def _fields(fields: Fields, wanted: Format, rendering: Rendering, name: str) -> Fields:
    fields = fields.without(*_NOT_OF_A_RENDERING).with_field("Content-Type", wanted.media_type)
    fields = fields.with_field("X-Content-Type-Options", "nosniff")
    # Whatever a feed holds, on this web origin it runs nothing and reads nothing.
    policy = f"sandbox allow-popups allow-popups-to-escape-sandbox; {wanted.policy}" if wanted.policy else "sandbox"
    fields = fields.with_field("Content-Security-Policy", policy)
    if name != "identity":
        fields = fields.with_field("Content-Encoding", name)
    fields = negotiation.vary_on(fields, "Accept-Encoding")
    return fields.with_field("ETag", own_tag(rendering.stem, name).text)


def _still_converted(fields: Fields, visit: Visit, before: str) -> Fields:
    """A redirect leads to the same format of the feed it leads to."""
    location = fields.get("location")
    if location is None or not location.startswith(f"{visit.base}/"):
        return fields
    return fields.with_field("Location", f"{visit.base}{before}{location.removeprefix(f'{visit.base}/')}")


def _varying(answer: Answer | PassThrough) -> Answer | PassThrough:
    if isinstance(answer, PassThrough):
        return answer
    return replace(answer, response=answer.response.with_fields(negotiation.vary_on(answer.response.fields, "Accept")))


def _bare(media_type: str) -> str:
    return parse_parameters(media_type)[0]
