"""Content codings of stored feeds, made on demand and once for each version.

A new version gets the codings that clients requested for the previous one. Every other coding is made when a client
first prefers it. The client waits for the coding, about a millisecond, only if no stored coding is acceptable
(docs/decisions/content-codings-on-request.md).
"""

import asyncio
import functools
from collections.abc import Callable

from msgspec.structs import replace

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.etag import own_tag
from feedproxy.http.message import Request
from feedproxy.lru_map import LRU
from feedproxy.proxy.representations.derived_values import make_value
from feedproxy.refresh.ingest.coding_policy import compression_level, encode_if_smaller, preferred_coding
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.request.context import ProxyResponse
from feedproxy.settings import Settings
from feedproxy.single_flight import SingleFlight
from feedproxy.store.interface import Store

INCOMPRESSIBLE_MAX = 10_000
"""Maximum number of remembered contents that a coding would not make smaller."""

type _Key = tuple[str, str, str]


class CodingVariants:
    """Maker of requested content codings, which are stored with the response."""

    def __init__(self, store: Store, helper_pool: HelperPool) -> None:
        self._store = store
        self._helper_pool = helper_pool
        self.in_progress: SingleFlight[_Key, bytes | None] = SingleFlight()
        self._incompressible: LRU[_Key, bool] = LRU(entries_max=INCOMPRESSIBLE_MAX)

    async def apply(self, answer: ProxyResponse, request: Request, settings: Settings) -> ProxyResponse:
        """Return the response in the content coding that the client prefers, or unchanged if its content must not be
        compressed or does not become smaller.

        A response that already has another coding is returned unchanged, too. If it is a hit, the preferred coding is
        made in the background.
        """
        stored, response = answer.stored, answer.response
        if stored is None or response.status != 200 or not _is_codable(stored):
            return answer
        accept_encoding = request.fields.combined("accept-encoding")
        name = preferred_coding(accept_encoding, settings)
        if name is None or name in stored.content.bodies or (key := _key(stored, name)) in self._incompressible:
            return answer
        if "content-encoding" in response.fields:
            if answer.status.hit:
                self._start_coding(key, stored.content, settings)  # repeated requests justify the better coding
            return answer
        body = await asyncio.shield(self._start_coding(key, stored.content, settings))
        if body is None:
            return answer
        assert stored.content.tag is not None
        fields = response.fields.with_field("Content-Encoding", name)
        fields = fields.with_field("ETag", own_tag(stored.content.tag, name, body).text)
        fields = fields.with_field("Content-Length", str(len(body)))
        return replace(answer, response=replace(response, fields=fields, body=body))

    def _start_coding(self, key: _Key, content: Content, settings: Settings) -> asyncio.Task[bytes | None]:
        name = key[2]
        work = functools.partial(encode_if_smaller, content.bodies["identity"], name, compression_level(name, settings))
        return self.in_progress.join_or_start(key, lambda: self._make_coding(key, work))[0]

    async def _make_coding(self, key: _Key, work: Callable[[], bytes | None]) -> bytes | None:
        body, is_final = await make_value(self._helper_pool, work, key[2], key[0])
        if body is not None:
            await self._store_coding(key, body)
        elif is_final:
            self._incompressible.put(key, True)
        return body

    async def _store_coding(self, key: _Key, body: bytes) -> None:
        """Add `body` to each stored variant that still has the same content. `key` contains the target, the base of the
        content's entity tags, and the coding of `body`."""
        target, tag, name = key
        coordination = self._store.coordination
        epoch = coordination.invalidation_epoch(target)
        if not await coordination.acquire_lease(target, local=True):
            return  # another process is about to replace the resource
        try:
            await self._store.load(target)
            resource = self._store.get_latest(target)
            if resource is None:
                return
            variants = tuple(
                _with_coding(variant, name, body) if variant.content.tag == tag and _is_codable(variant) else variant
                for variant in resource.variants
            )
            if variants != resource.variants:
                await self._store.put(
                    replace(resource, variants=variants), lambda: coordination.invalidation_epoch(target) == epoch
                )
        finally:
            coordination.release_lease(target, local=True)


def _is_codable(stored: StoredResponse) -> bool:
    content = stored.content
    return content.feed and content.tag is not None and "identity" in content.bodies and not stored.no_transform


def _key(stored: StoredResponse, name: str) -> _Key:
    return stored.target, stored.content.tag or "", name


def _with_coding(stored: StoredResponse, name: str, body: bytes) -> StoredResponse:
    if name in stored.content.bodies:
        return stored
    return replace(stored, content=replace(stored.content, bodies=Bodies({**stored.content.bodies, name: body})))
