"""Dictionary compression (`dcz`, RFC 9842): a feed is compressed with the version that the client has.

The client gets another coding if the dictionary is unknown or `dcz` is not smaller. A helper process makes each `dcz`
body once, for all clients with the same version. See docs/explanation/dictionaries.md.
"""

import functools
from collections.abc import Sequence

from msgspec.structs import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.http import content_negotiation
from feedproxy.http.coding import compression_dictionary
from feedproxy.http.coding.compression_dictionary import DCZ, parse_available_dictionary, use_as_dictionary
from feedproxy.http.etag import own_tag
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.memory_max_shares import MemoryLimits
from feedproxy.proxy.representations.derived_values import DerivedValues
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.policy.dictionary_privacy import is_shared, permits_dictionaries
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from feedproxy.request.upstream_and_public_urls import public_url_for
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.store.versions_for_dictionaries import PreviousContents


class Dictionaries:
    """Maker of `dcz` bodies with a bounded cache."""

    def __init__(self, helper_pool: HelperPool, limits: MemoryLimits) -> None:
        self.bodies: DerivedValues[bytes] = DerivedValues(helper_pool, limits.dictionaries, DCZ)
        """`dcz` bodies by target, tag base of the new content, and hash of the old content."""

    async def encode(
        self,
        response: ProxyResponse,
        request: Request,
        resource: Resource | None,
        client: ClientContext,
        settings: Settings,
    ) -> ProxyResponse:
        """Return a 200 response as `dcz` if the client accepts it and names a stored dictionary, if `dcz` is smaller,
        and if `is_offered` and `may_encode` permit it. Otherwise, and for a request with Range, return the response
        unchanged."""
        coded, stored = response.response, response.stored
        if coded.status != 200 or "available-dictionary" not in request.fields or "range" in request.fields:
            return response
        digest = parse_available_dictionary(request.fields.combined("available-dictionary") or "")
        if digest is None or not _accepts(request, coded) or not may_encode(request.fields, coded.fields):
            return response
        if stored is None or resource is None or not is_offered(stored, resource, client, settings):
            return response
        body = await self._body(stored, resource, digest, settings)
        if body is None or len(body) >= len(coded.body):
            return response
        assert stored.content.tag is not None
        fields = coded.fields.with_field("Content-Encoding", DCZ)
        fields = fields.with_field("ETag", own_tag(stored.content.tag, DCZ, body).text)
        fields = fields.with_field("Content-Length", str(len(body)))
        # "If the response is cacheable, it MUST include a "Vary" header field" -- section 6.2
        fields = content_negotiation.vary_on(fields, "Accept-Encoding", "Available-Dictionary")
        return replace(response, response=Response(coded.status, fields, body))

    async def _body(
        self, stored: StoredResponse, resource: Resource, digest: bytes, settings: Settings
    ) -> bytes | None:
        content, stem = stored.content.bodies["identity"], stored.content.tag or ""
        key = (stored.target, stem, digest)
        # A tag base is the beginning of the same hash (refresh/ingest/ingest.py).
        is_current = digest.hex().startswith(stem)
        if not is_current and key not in self.bodies and digest not in resource.previous:
            return None
        current = [variant.content.bodies["identity"] for variant in resource.variants if is_shared(variant, settings)]
        work = functools.partial(_encode, content, digest, resource.previous, current)
        return await self.bodies.get(key, work)


def with_offer(
    response: ProxyResponse, resource: Resource | None, client: ClientContext, settings: Settings
) -> ProxyResponse:
    """Return the response with Use-As-Dictionary if this client may use it as a dictionary. The origin's own
    Use-As-Dictionary is removed from feeds, because the proxy can have edited the content."""
    stored, fields = response.stored, response.response.fields
    if stored is None or not stored.content.feed:
        return response
    if "use-as-dictionary" in fields and stored.content.tag is not None:
        fields = fields.without("use-as-dictionary")
    is_whole = response.response.status in (200, 304)
    if is_whole and resource is not None and is_offered(stored, resource, client, settings):
        pattern = compression_dictionary.exact_pattern(_path(stored.target, client, settings))
        if pattern is not None:
            fields = fields.with_field("Use-As-Dictionary", use_as_dictionary(pattern))
            fields = content_negotiation.vary_on(fields, "Accept-Encoding", "Available-Dictionary")
    if fields is response.response.fields:
        return response
    return replace(response, response=response.response.with_fields(fields))


def is_offered(stored: StoredResponse, resource: Resource, client: ClientContext, settings: Settings) -> bool:
    """Return True if the response is stored and shared, and this client may use it as a dictionary."""
    if client.user or not permits_dictionaries(_url(stored.target, client, settings), settings):
        return False
    return is_shared(stored, settings) and any(
        variant.content.tag == stored.content.tag for variant in resource.variants
    )


def may_encode(request: Fields, response: Fields) -> bool:
    """Return True if a dictionary may be used for this request (RFC 9842, section 9.3.3, "Server Responsibility"). The
    size of a `dcz` response could tell a web page about content of another origin that the page must not read."""
    if request.get("sec-fetch-site") in (None, "same-origin"):
        return True
    mode = request.get("sec-fetch-mode")
    if mode in (None, "navigate", "same-origin"):
        return True
    allowed, origin = response.get("access-control-allow-origin"), request.get("origin")
    return mode == "cors" and allowed is not None and origin is not None and allowed in ("*", origin)


def _url(target: str, client: ClientContext, settings: Settings) -> str:
    if client.entrance is Entrance.GATEWAY:
        return client.base + gateway_path(target)
    return public_url_for(target, client, upstream=settings.upstream)


def _path(target: str, client: ClientContext, settings: Settings) -> str:
    url = _url(target, client, settings)
    return "/" + url.partition("://")[2].partition("/")[2]


def _accepts(request: Request, coded: Response) -> bool:
    """Return True if Accept-Encoding gives `dcz` at least the weight of the response's present coding."""
    accepted = request.fields.combined("accept-encoding")
    if accepted is None or DCZ not in content_negotiation.weights_in(accepted):
        return False
    present = coded.fields.get("content-encoding") or "identity"
    return content_negotiation.choose_coding(accepted, (DCZ, present)) == DCZ


def _encode(content: bytes, digest: bytes, previous: PreviousContents, current: Sequence[bytes]) -> bytes | None:
    """Return the content as `dcz`, compressed with the stored version that has the hash `digest`, or None if there is
    none. `previous` contains the earlier versions, and `current` the contents from which they can be decoded."""
    if compression_dictionary.dictionary_hash(content) == digest:
        dictionary: bytes | None = content
    else:
        dictionary = previous.content(digest, current)
    return None if dictionary is None else compression_dictionary.encode(content, dictionary)
