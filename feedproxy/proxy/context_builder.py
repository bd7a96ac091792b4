"""Construction of a request's context: stored resource, directives, and upstream request."""

from dataclasses import dataclass

from feedproxy.errors import LoopDetected
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Request
from feedproxy.lru_map import LRU
from feedproxy.proxy.resource_lookup import ResourceLookup
from feedproxy.refresh.reader_tracking import ReaderTracker
from feedproxy.request.context import ClientContext, Entrance, RequestContext
from feedproxy.request.loops_and_max_forwards import is_loop
from feedproxy.request.upstream_request import build_upstream_request, shared_names
from feedproxy.settings import Settings

UNSTORED_MAX = 4096
"""The Vary of unstored responses is remembered for at most this many targets. If the Vary of a target is forgotten, the
next request for the target is sent to the origin twice."""


@dataclass(eq=False)
class ContextBuilder:
    """Builder of request contexts, and counter of the clients that read feeds."""

    lookup: ResourceLookup
    readers: ReaderTracker

    def __post_init__(self) -> None:
        self._via = f"1.1 {self.readers.installation}"
        self._unstored_names: LRU[str, frozenset[str]] = LRU(entries_max=UNSTORED_MAX)
        """For each target, the field names in the Vary of earlier responses that were not stored."""

    def build(self, request: Request, client: ClientContext, settings: Settings) -> RequestContext:
        """Return the context of a GET or HEAD. Raises LoopDetected if the request has passed this proxy before."""
        if is_loop(request.fields, self.readers.installation):
            raise LoopDetected("request loop: Via already names this proxy")
        target = request.target
        resource = self.lookup.get(target)
        is_feed = resource is not None and resource.channel is not None
        is_new = resource is None or not resource.variants
        own_agent = is_feed or client.entrance is not Entrance.PROXY
        new_reader = None
        if is_feed or (own_agent and is_new and self.readers.counts.contains(target)):
            # The counts keep the text of the target. The stored resource's text is passed, so that it is in memory only
            # once.
            self.count_reader(target if resource is None else resource.target, request, client)
        elif own_agent and is_new and client.is_counted:
            # The User-Agent sent to the origin includes this reader at once. The reader is counted only when the target
            # turns out to be a feed: requests for invented addresses must not displace counts of feeds. A target
            # without a feed has no subscribers.
            new_reader = request.fields.get("user-agent") or ""
        upstream = build_upstream_request(
            request,
            client,
            resource,
            via=self._via,
            own_agent=(lambda: self.readers.upstream_user_agent(target, new_reader)) if own_agent else None,
            keep_range=request.method == "GET" and "range" in request.fields and is_new and not is_feed,
            shared_fields=shared_names(settings.shared_fields),
            unstored_names=self._unstored_names_of(target),
        )
        return RequestContext(request, client, settings, CacheControl.from_request(request.fields), upstream, resource)

    def _unstored_names_of(self, target: str) -> frozenset[str]:
        return self._unstored_names.get(target) or frozenset() if len(self._unstored_names) else frozenset()

    def remember_unstored_names(self, target: str, names: frozenset[str]) -> None:
        """Let further requests for the target forward the client's fields `names`, which a response that was not stored
        lists in Vary."""
        self._unstored_names.put(target, self._unstored_names_of(target) | names)

    def count_reader(self, target: str, request: Request, client: ClientContext) -> None:
        """Count the client as a reader of the target. A repeated call does not count the same client twice."""
        if client.is_counted:
            self.readers.record_read(target, client, request.fields.get("user-agent") or "")
