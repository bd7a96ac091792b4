"""An answer made ready: the bytes of its head, of which only what tells the time is written anew.

Age, the ttl in Cache-Status, and Cache-Control where it is ours are all that changes in the head of an answer that may
be given again (origin/repeat.py). The rest is kept as it is between them, and the body is the very object that the
store holds. A recipe that does not come to the same head as the answer it was made from is none: whatever was not
thought of here is made anew each time, and right.
"""

from mitmproxy.net.http import status_codes

from feedproxy.clock import Instant
from feedproxy.http.message import Fields, Response
from feedproxy.origin.entrance import Visit
from feedproxy.origin.repeat import Moment, Repeat

OVERHEAD = 1536
"""Bytes of a recipe beside its head: objects, key, the readers of this moment."""

LINES_MAX = 1024
"""Readers whose lines are kept at once; more of them in one moment have theirs written twice."""

_AGE, _STATUS, _LIFETIME = range(3)


class Tally:
    """Answers that were alike to the metrics, and are not counted yet."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0


class Recipe:
    """How to answer one kind of request.

    `head` is right from `since` until `until`, as long as nothing has changed since `token`; `lines` are what the log
    says of each reader meanwhile. `shown` and `upstream` are the target as the log shows it.
    """

    __slots__ = (
        "_between",
        "_slots",
        "asked",
        "body",
        "closes",
        "given",
        "head",
        "lines",
        "method",
        "moment",
        "shown",
        "since",
        "size",
        "status",
        "tally",
        "token",
        "until",
        "upstream",
        "visit",
    )

    def __init__(
        self,
        given: Repeat,
        visit: Visit,
        method: str,
        response: Response,
        moment: Moment,
        now: Instant,
        *,
        closes: bool,
    ) -> None:
        """Raises ValueError where `response` is not what comes of it at that moment."""
        self.given = given
        self.visit = visit
        self.method = method
        self.status = response.status
        self.body = b"" if method == "HEAD" or response.status == 304 else response.body
        self.size = len(self.body)
        self.closes = closes
        self.tally = Tally()
        self.asked: Fields | None = None
        """The fields of the request it was made for, where readers are judged."""
        self.lines: dict[tuple[str, bytes], str] = {}
        self.shown = self.upstream = ""
        self.token = -1
        self._between, self._slots = _divided(response, moment, closes=closes)
        self.renew(moment, now)
        if self.head != head_of(response.status, _framed(response, closes=closes)):
            raise ValueError("more changes in this answer than is known")

    def renew(self, moment: Moment, now: Instant) -> None:
        """Write what tells the time anew."""
        values = (str(moment.age), moment.status.text(), moment.lifetime)
        text = self._between[0]
        for slot, after in zip(self._slots, self._between[1:], strict=True):
            text += values[slot] + after
        self.head = text.encode("latin-1")
        self.moment = moment
        self.since, self.until = now, moment.until
        self.lines.clear()

    def weight(self) -> int:
        """Bytes held by this recipe alone; the body is the store's."""
        return OVERHEAD + 2 * len(self.head)


def head_of(status: int, fields: Fields, reason: str = "") -> bytes:
    """Status line and fields, as they go to the reader."""
    said = reason or status_codes.RESPONSES.get(status, "")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    return f"HTTP/1.1 {status} {said}\r\n{lines}\r\n".encode("latin-1")


def _framed(response: Response, *, closes: bool) -> Fields:
    return response.fields.with_added("Connection", "close") if closes else response.fields


def _divided(response: Response, moment: Moment, *, closes: bool) -> tuple[list[str], list[int]]:
    """The head's text between what changes, and what changes in each place."""
    said = {_AGE: str(moment.age), _STATUS: moment.status.text(), _LIFETIME: moment.lifetime}
    text, between, slots = "", list[str](), list[int]()
    for name, value in _framed(response, closes=closes):
        slot = _slot_of(name.lower(), moment)
        if slot is not None and value == said[slot]:
            between.append(f"{text}{name}: ")
            slots.append(slot)
            text = "\r\n"
        else:
            text += f"{name}: {value}\r\n"
    between.append(f"{text}\r\n")
    between[0] = f"HTTP/1.1 {response.status} {status_codes.RESPONSES.get(response.status, '')}\r\n{between[0]}"
    if _AGE not in slots or _STATUS not in slots or response.reason:
        raise ValueError("it does not tell the time as others do")
    return between, slots


def _slot_of(name: str, moment: Moment) -> int | None:
    if name == "age":
        return _AGE
    if name == "cache-status":
        return _STATUS
    if name == "cache-control" and moment.speaks:
        return _LIFETIME
    if name == "cdn-cache-control" and moment.states:
        return _LIFETIME
    return None
