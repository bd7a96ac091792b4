"""An answer made ready: the bytes of its head, of which only what tells the time is written anew.

Age, the ttl in Cache-Status, and Cache-Control where it is ours are all that changes in the head of an answer that may
be given again (proxy/cached_hit.py). The rest is kept as it is between them, and the body is the very object that the
store holds. A recipe that does not come to the same head as the answer it was made from is none: whatever was not
thought of here is made anew each time, and right.
"""

import struct
from collections.abc import Iterable

from mitmproxy.net.http import status_codes

from feedproxy.clock import Instant
from feedproxy.http.message import Fields, Response
from feedproxy.proxy.cached_hit import HitState, ReusableHit
from feedproxy.request.entrance import ClientContext
from feedproxy.store.resource import Resource

TEMPLATE_OVERHEAD = 1024
"""Bytes of a recipe beside its head: objects, key, the readers of this moment."""

LOG_LINES_MAX = 1024
"""Readers whose lines are kept at once; more of them in one moment have theirs written twice."""

NO_CLIENT = ("", b"")

_METHODS = {"GET": "GET", "HEAD": "HEAD"}
"""One object for each."""

_AGE, _CACHE_STATUS, _CACHE_CONTROL = range(3)

type _Slot = tuple[int, int, int]
"""What changes there, where it begins, and how long it is."""

_SLOT_FORMAT = struct.Struct(">BHB")
"""A place as it is kept: a fifth of what a tuple takes, and there is a recipe for every feed."""


class HitCounter:
    """Answers that were alike to the metrics, and are not counted yet."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0


class ResponseTemplate:
    """How to answer one kind of request.

    `head` is right from `since` until `until`, as long as nothing has changed since `token`. `line` is what the log
    says meanwhile of `reader` (address and User-Agent), who came first; `lines` of those who came after him. `shown`
    and `upstream` are the target as the log shows it.
    """

    __slots__ = (
        "_slots",
        "body",
        "closes",
        "conditions",
        "first_client",
        "generation",
        "head",
        "hit_counter",
        "hit_state",
        "log_line",
        "log_lines",
        "method",
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
        "visit",
    )

    def __init__(
        self,
        hit: ReusableHit,
        visit: ClientContext,
        method: str,
        response: Response,
        hit_state: HitState,
        now: Instant,
        *,
        closes: bool,
    ) -> None:
        """Raises ValueError where `response` is not what comes of it at that moment."""
        self.target = hit.resource.target
        self.conditions = hit.conditions
        self.schedule = hit.resource.channel.schedule if hit.resource.channel is not None else None
        """The channel's; None for what is no feed."""
        self.variant_index = [slot is hit.stored for slot in hit.resource.variants].index(True)
        self.resource_version: object = None
        """The version of the resource in the store (store/interface.py), which may pack the resource itself."""
        self.visit = visit
        self.method = _METHODS.get(method, method)
        self.status = response.status
        self.body = b"" if method == "HEAD" or response.status == 304 else response.body
        self.closes = closes
        self.rules: object = None
        """The rules by which its target may have what it gives (store/permitted_store.py)."""
        self.hit_counter = HitCounter()
        self.request_lines: tuple[bytes, ...] = ()
        """The fields' lines of the request it was made for, where readers are judged."""
        self.first_client = NO_CLIENT
        self.log_line = ""
        self.log_lines: dict[tuple[str, bytes], str] | None = None
        self.shown_target = self.upstream = ""
        self.generation = -1
        self.head = encode_head(response.status, _with_connection_field(response, closes=closes))
        self._slots = _pack(_find_slots(self.head, response, hit_state))
        before = self.head
        self.update_volatile_fields(hit_state, now)
        if self.head != before:
            raise ValueError("more changes in this answer than is known")

    def update_volatile_fields(self, hit_state: HitState, now: Instant) -> None:
        """Write what tells the time anew."""
        self.hit_state = hit_state
        self.valid_from, self.valid_until = now, hit_state.until
        self.first_client, self.log_line, self.log_lines = NO_CLIENT, "", None
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
        """What it was made of, from the resource that it was made of."""
        return ReusableHit(resource, resource.variants[self.variant_index], *self.conditions)

    def store_log_line(self, client: tuple[str, bytes], log_line: str) -> bool:
        """What the log says of this reader, until the next moment; whether he is not the first, but one more."""
        if self.first_client is NO_CLIENT:
            # Most feeds are not asked for twice in a second: his line is kept when he comes again.
            self.first_client, self.log_line = client, ""
            return False
        if self.first_client == client:
            self.log_line = log_line
            return False
        if self.log_lines is None or len(self.log_lines) >= LOG_LINES_MAX:
            self.log_lines = {}
        self.log_lines[client] = log_line
        return True

    def size(self) -> int:
        """Bytes held by this recipe alone, the same all its life; the body is the store's."""
        has_moved: int = sum([length for _, _, length in _SLOT_FORMAT.iter_unpack(self._slots)])
        return TEMPLATE_OVERHEAD + 2 * (len(self.head) - has_moved) + sum(map(len, self.request_lines))


def encode_head(status: int, fields: Fields, reason: str = "") -> bytes:
    """Status line and fields, as they go to the reader."""
    phrase = reason or status_codes.RESPONSES.get(status, "")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1")


def _with_connection_field(response: Response, *, closes: bool) -> Fields:
    return response.fields.with_added("Connection", "close") if closes else response.fields


def _slot_value(kind: int, hit_state: HitState) -> bytes:
    """What stands in this place at that moment."""
    if kind == _AGE:
        return b"%d" % hit_state.age
    return (hit_state.cache_status_value if kind == _CACHE_STATUS else hit_state.cache_control_value).encode("ascii")


def _find_slots(head: bytes, response: Response, hit_state: HitState) -> list[_Slot]:
    """What changes in the head, in its order."""
    at, slots = head.index(b"\r\n") + 2, list[tuple[int, int, int]]()
    for name, value in response.fields:
        kind = _slot_kind(name.lower(), hit_state)
        if kind is not None and value.encode("latin-1") == _slot_value(kind, hit_state):
            slots.append((kind, at + len(name) + 2, len(value)))
        at += len(name) + len(value) + 4
    found = {kind for kind, _, _ in slots}
    if _AGE not in found or _CACHE_STATUS not in found or response.reason:
        raise ValueError("it does not tell the time as others do")
    return slots


def _pack(slots: Iterable[_Slot]) -> bytes:
    """Raises ValueError where one is beyond all that heads of ours have."""
    try:
        return b"".join([_SLOT_FORMAT.pack(*slot) for slot in slots])
    except struct.error as error:
        raise ValueError(f"a place that cannot be kept: {error}") from error


def _shift(slots: Iterable[_Slot], hit_state: HitState) -> list[_Slot]:
    """The same places, where what stands in them has other lengths."""
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
