"""Response templates: prepared responses in which only the time-dependent fields are rewritten.

Three fields of a reusable hit depend on time: Age, the ttl in Cache-Status, and Cache-Control if the proxy writes it
(proxy/repeated_hit.py). The template keeps all other bytes of the head. Its body is the object in the store. A response
with other time-dependent parts gets no template.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache

from feedproxy.clock import Instant
from feedproxy.http.message import Fields, Response
from feedproxy.proxy.repeated_hit import HitState, ReusableHit
from feedproxy.request.context import ClientContext
from feedproxy.server.response_head import encode_head
from feedproxy.store.resource import Resource
from feedproxy.subscribers.pseudonyms import Pseudonym

TEMPLATE_OVERHEAD = 1024
"""Bytes that a template takes in addition to its head: objects, key, and the log lines of the current state."""

LOG_LINES_MAX = 1024
"""Maximum number of clients with cached log lines in a template. At the limit, the template drops all cached lines."""

NO_CLIENT = ("", b"")

_METHODS = {"GET": "GET", "HEAD": "HEAD"}
"""The one string object for each method, to which all templates refer."""

_AGE, _CACHE_STATUS, _CACHE_CONTROL = range(3)

type _Slot = tuple[int, int, int]
"""Kind, offset and length of a time-dependent part of the head."""

_SLOT_FORMAT = struct.Struct(">BHB")
"""Binary form of a slot. It takes a fifth of the memory of a tuple, and every requested feed has slots."""


class HitCounter:
    """Counter of hits with equal metric labels, and of their bytes, since the counts were last added to the metrics."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0


class ResponseTemplate:
    """A prepared response to requests with equal keys (request_head.py) or with equal bytes.

    `head` is valid between the instants `valid_from` and `valid_until`. If the generation of the handler
    (`FastPathHandler.start_iteration`) is no longer `generation`, the template must be checked again before its next
    use. `log_line` is the access-log line for `first_client` (address and User-Agent line). `log_lines` contains the
    lines for further clients. `shown_target` and `upstream` are the target in the form of the log.
    """

    __slots__ = (
        "_slots",
        "body",
        "client",
        "closes",
        "conditions",
        "first_client",
        "generation",
        "head",
        "hit_counter",
        "hit_state",
        "is_keyed",
        "log_line",
        "log_lines",
        "method",
        "reader",
        "recorded_at",
        "request_lines",
        "resource_version",
        "rules",
        "schedule",
        "shown_target",
        "status",
        "target",
        "upstream",
        "valid_from",
        "valid_until",
        "variant_index",
    )

    def __init__(
        self,
        hit: ReusableHit,
        client: ClientContext,
        method: str,
        response: Response,
        hit_state: HitState,
        now: Instant,
        *,
        closes: bool,
    ) -> None:
        """Prepare the template. Raises ValueError if `response` is not the response of `hit` in `hit_state`."""
        self.target = hit.resource.target
        self.conditions = hit.conditions
        self.schedule = hit.resource.channel.schedule if hit.resource.channel is not None else None
        """The channel's schedule, or None if the target is not a feed."""
        self.variant_index = [slot is hit.stored for slot in hit.resource.variants].index(True)
        self.resource_version: object = None
        """Version of the stored resource (store/interface.py), to detect changes. The template does not refer to the
        resource."""
        self.client = client
        self.method = _METHODS.get(method, method)
        self.status = response.status
        self.body = b"" if method == "HEAD" or response.status == 304 else response.body
        self.closes = closes
        self.rules: object = None
        """Rules under which the target may be served (store/permitted_store.py)."""
        self.hit_counter = HitCounter()
        self.request_lines: tuple[bytes, ...] = ()
        """Field lines of the request for which the template was made. They are set only if readers are scored."""
        self.reader: Pseudonym | None = None
        """The reader of the last hit that was recorded in the subscriber counts, and the instant (access_log.py)."""
        self.recorded_at: Instant = 0.0
        self.first_client = NO_CLIENT
        self.log_line = ""
        self.log_lines: dict[tuple[str, bytes], str] | None = None
        self.shown_target = self.upstream = ""
        self.generation = -1
        self.is_keyed = False
        """True if all requests with equal keys (request_head.py) get this response."""
        self.head = encode_head(response.status, _with_connection_field(response, closes=closes))
        self._slots = _pack(_find_slots(self.head, response, hit_state))
        before = self.head
        self.update_volatile_fields(hit_state, now)
        if self.head != before:
            raise ValueError("the response has other time-dependent fields than the template")

    def update_volatile_fields(self, hit_state: HitState, now: Instant) -> None:
        """Rewrite the time-dependent fields of the head for a new hit state."""
        self.hit_state = hit_state
        self.valid_from, self.valid_until = now, hit_state.until
        self.drop_log_lines()
        parts: list[bytes] = []
        head, end, has_moved = self.head, 0, False
        for kind, at, length in _SLOT_FORMAT.iter_unpack(self._slots):
            value = _slot_value(kind, hit_state)
            parts += head[end:at], value
            end = at + length
            if len(value) != length:
                has_moved = True
        parts.append(head[end:])
        self.head = b"".join(parts)
        if has_moved:
            self._slots = _pack(_shift(_SLOT_FORMAT.iter_unpack(self._slots), hit_state))

    def reusable_hit(self, resource: Resource) -> ReusableHit:
        """Return the hit from which this template was made.

        The caller passes the stored `resource`, because the template itself has no reference to it.
        """
        return ReusableHit(resource, resource.variants[self.variant_index], *self.conditions)

    def store_log_line(self, client: tuple[str, bytes], log_line: str) -> None:
        """Cache the log line of a client for the current hit state."""
        if self.first_client is NO_CLIENT:
            self.first_client, self.log_line = client, log_line
            return
        if self.log_lines is None or len(self.log_lines) >= LOG_LINES_MAX:
            self.log_lines = {}
        self.log_lines[client] = log_line

    def drop_log_lines(self) -> None:
        """Drop the cached log lines of all clients."""
        self.first_client, self.log_line, self.log_lines = NO_CLIENT, "", None

    def size(self) -> int:
        """Return the memory of this template in bytes, without the body, which belongs to the store. The size never
        changes."""
        volatile_length: int = sum([length for _, _, length in _SLOT_FORMAT.iter_unpack(self._slots)])
        return TEMPLATE_OVERHEAD + 2 * (len(self.head) - volatile_length) + sum(map(len, self.request_lines))


def _with_connection_field(response: Response, *, closes: bool) -> Fields:
    return response.fields.with_added("Connection", "close") if closes else response.fields


def _slot_value(kind: int, hit_state: HitState) -> bytes:
    """Return the bytes of the field value that a slot of this kind has in `hit_state`."""
    if kind == _AGE:
        return b"%d" % hit_state.age
    return (hit_state.cache_status_value if kind == _CACHE_STATUS else hit_state.cache_control_value).encode("ascii")


def _find_slots(head: bytes, response: Response, hit_state: HitState) -> list[_Slot]:
    """Return the slots of a head in their order. Raises ValueError if Age or Cache-Status is missing."""
    at, slots = head.index(b"\r\n") + 2, list[tuple[int, int, int]]()
    for name, value in response.fields:
        kind = _slot_kind(name.lower(), hit_state)
        if kind is not None and value.encode("latin-1") == _slot_value(kind, hit_state):
            slots.append((kind, at + len(name) + 2, len(value)))
        at += len(name) + len(value) + 4
    kinds = {kind for kind, _, _ in slots}
    if _AGE not in kinds or _CACHE_STATUS not in kinds or response.reason:
        raise ValueError("invalid response head: expected Age and Cache-Status of this proxy")
    return slots


def _pack(slots: Iterable[_Slot]) -> bytes:
    """Return the slots in their binary form. Raises ValueError if an offset or length is too large."""
    try:
        return _shared(b"".join([_SLOT_FORMAT.pack(*slot) for slot in slots]))
    except struct.error as error:
        raise ValueError(f"slot out of range: {error}") from error


@lru_cache(maxsize=1024)
def _shared(slots: bytes) -> bytes:
    """Return one shared object for equal slots. Most feeds have the same slots."""
    return slots


def _shift(slots: Iterable[_Slot], hit_state: HitState) -> list[_Slot]:
    """Return the slots with the offsets and lengths that they have when the head states the values of `hit_state`."""
    shifted, shift = [], 0
    for kind, at, length in slots:
        new_length = len(_slot_value(kind, hit_state))
        shifted.append((kind, at + shift, new_length))
        shift += new_length - length
    return shifted


def _slot_kind(name: str, hit_state: HitState) -> int | None:
    if name == "age":
        return _AGE
    if name == "cache-status":
        return _CACHE_STATUS
    if name == "cache-control" and hit_state.overrides_cache_control:
        return _CACHE_CONTROL
    if name == "cdn-cache-control" and hit_state.emits_cdn_cache_control:
        return _CACHE_CONTROL
    return None
