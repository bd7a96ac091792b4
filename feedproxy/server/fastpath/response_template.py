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

OVERHEAD = 1024
"""Bytes of a recipe beside its head: objects, key, the readers of this moment."""

LINES_MAX = 1024
"""Readers whose lines are kept at once; more of them in one moment have theirs written twice."""

NOBODY = ("", b"")

_METHODS = {"GET": "GET", "HEAD": "HEAD"}
"""One object for each."""

_AGE, _STATUS, _LIFETIME = range(3)

type _Place = tuple[int, int, int]
"""What changes there, where it begins, and how long it is."""

_PLACE = struct.Struct(">BHB")
"""A place as it is kept: a fifth of what a tuple takes, and there is a recipe for every feed."""


class Tally:
    """Answers that were alike to the metrics, and are not counted yet."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0


class Recipe:
    """How to answer one kind of request.

    `head` is right from `since` until `until`, as long as nothing has changed since `token`. `line` is what the log
    says meanwhile of `reader` (address and User-Agent), who came first; `lines` of those who came after him. `shown`
    and `upstream` are the target as the log shows it.
    """

    __slots__ = (
        "_places",
        "asked",
        "body",
        "closes",
        "conditions",
        "head",
        "line",
        "lines",
        "method",
        "moment",
        "reader",
        "rules",
        "schedule",
        "shown",
        "since",
        "stamp",
        "status",
        "tally",
        "target",
        "token",
        "until",
        "upstream",
        "variant",
        "visit",
    )

    def __init__(
        self,
        given: ReusableHit,
        visit: ClientContext,
        method: str,
        response: Response,
        moment: HitState,
        now: Instant,
        *,
        closes: bool,
    ) -> None:
        """Raises ValueError where `response` is not what comes of it at that moment."""
        self.target = given.resource.target
        self.conditions = given.conditions
        self.schedule = given.resource.channel.schedule if given.resource.channel is not None else None
        """The channel's; None for what is no feed."""
        self.variant = [each is given.stored for each in given.resource.variants].index(True)
        self.stamp: object = None
        """The version of the resource in the store (store/interface.py), which may pack the resource itself."""
        self.visit = visit
        self.method = _METHODS.get(method, method)
        self.status = response.status
        self.body = b"" if method == "HEAD" or response.status == 304 else response.body
        self.closes = closes
        self.rules: object = None
        """The rules by which its target may have what it gives (store/permitted_store.py)."""
        self.tally = Tally()
        self.asked: tuple[bytes, ...] = ()
        """The fields' lines of the request it was made for, where readers are judged."""
        self.reader = NOBODY
        self.line = ""
        self.lines: dict[tuple[str, bytes], str] | None = None
        self.shown = self.upstream = ""
        self.token = -1
        self.head = head_of(response.status, _framed(response, closes=closes))
        self._places = _packed(_places(self.head, response, moment))
        before = self.head
        self.renew(moment, now)
        if self.head != before:
            raise ValueError("more changes in this answer than is known")

    def renew(self, moment: HitState, now: Instant) -> None:
        """Write what tells the time anew."""
        self.moment = moment
        self.since, self.until = now, moment.until
        self.reader, self.line, self.lines = NOBODY, "", None
        parts: list[bytes] = []
        head, end, moves = self.head, 0, False
        for slot, at, length in _PLACE.iter_unpack(self._places):
            value = _value(slot, moment)
            parts += head[end:at], value
            end = at + length
            if len(value) != length:
                moves = True
        parts.append(head[end:])
        self.head = b"".join(parts)
        if moves:
            self._places = _packed(_moved(_PLACE.iter_unpack(self._places), moment))

    def given(self, resource: Resource) -> ReusableHit:
        """What it was made of, from the resource that it was made of."""
        return ReusableHit(resource, resource.variants[self.variant], *self.conditions)

    def keep_line(self, asker: tuple[str, bytes], line: str) -> bool:
        """What the log says of this reader, until the next moment; whether he is not the first, but one more."""
        if self.reader is NOBODY:
            # Most feeds are not asked for twice in a second: his line is kept when he comes again.
            self.reader, self.line = asker, ""
            return False
        if self.reader == asker:
            self.line = line
            return False
        if self.lines is None or len(self.lines) >= LINES_MAX:
            self.lines = {}
        self.lines[asker] = line
        return True

    def weight(self) -> int:
        """Bytes held by this recipe alone, the same all its life; the body is the store's."""
        moves: int = sum([length for _, _, length in _PLACE.iter_unpack(self._places)])
        return OVERHEAD + 2 * (len(self.head) - moves) + sum(map(len, self.asked))


def head_of(status: int, fields: Fields, reason: str = "") -> bytes:
    """Status line and fields, as they go to the reader."""
    said = reason or status_codes.RESPONSES.get(status, "")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    return f"HTTP/1.1 {status} {said}\r\n{lines}\r\n".encode("latin-1")


def _framed(response: Response, *, closes: bool) -> Fields:
    return response.fields.with_added("Connection", "close") if closes else response.fields


def _value(slot: int, moment: HitState) -> bytes:
    """What stands in this place at that moment."""
    if slot == _AGE:
        return b"%d" % moment.age
    return (moment.cache_status_value if slot == _STATUS else moment.cache_control_value).encode("ascii")


def _places(head: bytes, response: Response, moment: HitState) -> list[_Place]:
    """What changes in the head, in its order."""
    at, places = head.index(b"\r\n") + 2, list[tuple[int, int, int]]()
    for name, value in response.fields:
        slot = _slot_of(name.lower(), moment)
        if slot is not None and value.encode("latin-1") == _value(slot, moment):
            places.append((slot, at + len(name) + 2, len(value)))
        at += len(name) + len(value) + 4
    found = {slot for slot, _, _ in places}
    if _AGE not in found or _STATUS not in found or response.reason:
        raise ValueError("it does not tell the time as others do")
    return places


def _packed(places: Iterable[_Place]) -> bytes:
    """Raises ValueError where one is beyond all that heads of ours have."""
    try:
        return b"".join([_PLACE.pack(*each) for each in places])
    except struct.error as error:
        raise ValueError(f"a place that cannot be kept: {error}") from error


def _moved(places: Iterable[_Place], moment: HitState) -> list[_Place]:
    """The same places, where what stands in them has other lengths."""
    moved, grown = [], 0
    for slot, at, length in places:
        now_long = len(_value(slot, moment))
        moved.append((slot, at + grown, now_long))
        grown += now_long - length
    return moved


def _slot_of(name: str, moment: HitState) -> int | None:
    if name == "age":
        return _AGE
    if name == "cache-status":
        return _STATUS
    if name == "cache-control" and moment.overrides_cache_control:
        return _LIFETIME
    if name == "cdn-cache-control" and moment.emits_cdn_cache_control:
        return _LIFETIME
    return None
