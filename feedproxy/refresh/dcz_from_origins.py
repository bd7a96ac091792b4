"""Dictionary compression towards origins: the stored version of a feed shortens the next transfer.  RFC 9842

If an origin offers a response as a dictionary, the next request for the same URL names the dictionary. The origin may
then send its answer in the content coding `dcz`. `DictionaryClient` decodes the answer. See
docs/explanation/dictionaries.md.
"""

import asyncio
import base64
import logging
from functools import partial

from msgspec.structs import replace

from feedproxy.cache.freshness import prohibits_stale_use
from feedproxy.clock import Clock
from feedproxy.errors import FeedproxyError, Overload
from feedproxy.http.coding import bounded_decompression, compression_dictionary, content_coding
from feedproxy.http.coding.compression_dictionary import DCZ, parse_use_as_dictionary
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import Fields, Request
from feedproxy.http.structured_fields import string_text
from feedproxy.http.target_uri import dictionary_match_pattern
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.policy.dictionary_privacy import is_shared, permits_dictionaries
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.refresh.redirect_following import OriginClient
from feedproxy.refresh.refresh_job import RefreshJob
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.upstream.fetch_result import Fetched, Oversized

logger = logging.getLogger(__name__)

_OF_CODED_CONTENT = ("content-encoding", "content-digest", "repr-digest", "digest", "content-md5")
"""Fields that describe coded content. They are removed when the content is decoded."""

CONTENT_BYTES_MAX = 8 * 1024 * 1024
"""Stored content of more than this many bytes, in all codings together, is not offered as a dictionary."""

HASHED_ON_LOOP_MAX = 64 * 1024
"""The event loop itself hashes content of at most this many bytes. A thread hashes larger content."""


def with_dictionary(
    client: OriginClient, job: RefreshJob, store: Store, helper_pool: HelperPool, clock: Clock
) -> OriginClient:
    """Return a client that names the job's stored content as a dictionary in its request to the origin. If the request
    may name no dictionary, return `client`."""
    stored, request, settings = job.validate, job.request, job.settings
    if stored is None or not stored.content.is_dictionary or not is_shared(stored, settings):
        return client
    if request.method != "GET" or "range" in request.fields or len(job.key):
        return client
    if stored.content.size() > CONTENT_BYTES_MAX:
        return client
    if stored.final_target != "" or any(is_credential(name) for name, _ in request.fields):
        return client
    if not permits_dictionaries(stored.target, settings):
        return client
    offer = parse_use_as_dictionary(stored.fields.combined("use-as-dictionary") or "")
    if offer is None or not dictionary_match_pattern.covers(offer.match, stored.target, request.target):
        return client
    if (resource := store.get(request.target)) is None:
        return client
    # "the dictionary resource MUST be either fresh … or allowed to be served stale" -- section 2.2.1
    now = clock.now()
    freshness = assess(resource, stored, settings, now)
    if stored.invalid or not (freshness.is_fresh(now) or not prohibits_stale_use(freshness.control)):
        return client
    try:
        content = stored.content.bodies["identity"]
    except FeedproxyError:
        return client  # the stored body is damaged: this fetch replaces it
    return DictionaryClient(client, request.target, content, offer.id, helper_pool, settings)


class DictionaryClient:
    """Origin client that names a dictionary in requests for one target, and decodes the responses."""

    def __init__(
        self,
        client: OriginClient,
        target: str,
        dictionary: bytes,
        dictionary_id: str,
        helper_pool: HelperPool,
        settings: Settings,
    ) -> None:
        """Create a client for requests for `target`. `dictionary_id` is the identifier that the origin gave the
        dictionary, or ""."""
        self._client = client
        self._target = target
        self._dictionary = dictionary
        self._dictionary_id = dictionary_id
        self._helper_pool = helper_pool
        self._limit = settings.decoded_max

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        """Return the origin's response without the coding `dcz`, or Oversized if its content exceeds `buffer_max`.

        If a response in `dcz` is too large or cannot be decoded, it is fetched again without a dictionary. Raises
        Overload if this machine lacks a resource for decoding, and the errors of the wrapped client.
        """
        if request.target != self._target:
            return await self._client.fetch(request, skip_address_check=skip_address_check)
        dictionary_request = replace(request, fields=await self._name_dictionary(request.fields))
        fetched = await self._client.fetch(dictionary_request, skip_address_check=skip_address_check)
        fields = fetched.fields if isinstance(fetched, Oversized) else fetched.response.fields
        if DCZ not in content_coding.layers(fields.combined("content-encoding")):
            return fetched
        if isinstance(fetched, Fetched) and fetched.response.status == 304:
            return fetched
        size, reason = 0, "its coded content is above buffer_max"
        if isinstance(fetched, Fetched):
            size = len(fetched.response.body)
            try:
                return await self._decode(fetched)
            except Overload:
                raise  # this machine lacks a resource: another transfer would need more of it
            except FeedproxyError as error:
                reason = str(error)
            except Exception as error:
                # A defect of feedproxy: the feed is fetched without a dictionary instead.
                logger.exception("dictionary: decoding dcz of %s failed", self._target)
                reason = repr(error)
        logger.warning("dictionary: dcz of %s not used, fetching without it: %s", self._target, reason)
        plain = await self._client.fetch(request, skip_address_check=skip_address_check)
        if isinstance(plain, Oversized):
            return plain
        # Without this field, the next refresh names no dictionary. So an origin that sends broken dcz does not get two
        # requests at each refresh.
        response = plain.response.with_fields(plain.response.fields.without("use-as-dictionary"))
        return replace(plain, response=response, received_size=size + len(response.body))

    async def _name_dictionary(self, fields: Fields) -> Fields:
        """Return the request fields `fields`, with added fields that name the dictionary and accept `dcz`."""
        if len(self._dictionary) <= HASHED_ON_LOOP_MAX:
            found = compression_dictionary.dictionary_hash(self._dictionary)
        else:
            found = await asyncio.to_thread(compression_dictionary.dictionary_hash, self._dictionary)
        digest = base64.b64encode(found).decode()
        codings = fields.combined("accept-encoding")
        fields = fields.with_field("Accept-Encoding", f"{codings}, {DCZ}" if codings else DCZ)
        fields = fields.with_field("Available-Dictionary", f":{digest}:")
        # "then the client MUST echo the stored "id" in a "Dictionary-ID" request header field" -- section 2.3
        return fields.with_field("Dictionary-ID", string_text(self._dictionary_id)) if self._dictionary_id else fields

    async def _decode(self, fetched: Fetched) -> Fetched:
        """Return the response without its coding. Raises FeedproxyError if the content cannot be decoded."""
        response, dictionary = fetched.response, self._dictionary
        body = response.body
        if content_coding.layers(response.fields.combined("content-encoding")) != (DCZ,):
            raise FeedproxyError("the content has more than one coding")
        limit = bounded_decompression.decoding_limit(len(body) + len(dictionary), self._limit)
        content = await self._helper_pool.submit(partial(compression_dictionary.decode, body, dictionary, limit=limit))
        fields = response.fields.without(*_OF_CODED_CONTENT)
        return replace(fetched, response=replace(response, fields=fields, body=content), received_size=len(body))
