"""A reference model of RFC 9111: which of all that the origin ever said may answer this request now?

It is written from the RFC's text, shares no code with what it judges, and is slow and simple: it forgets nothing
and searches everything. What a cache *may* do is permitted here; a cache need not store, and need not reuse. Where
the RFC leaves it open when heuristics apply (4.2.2), the model is told what is wanted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from enum import Enum

from feedproxy.http.message import Fields, Request

HEURISTICALLY_CACHEABLE = frozenset({200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501})
"""RFC 9110, section 15.1."""


class Use(Enum):
    """What may be done with a response without asking the origin."""

    FREELY = "it may answer"
    CUT_OFF = "it may answer when the origin cannot be reached, or fails"
    NEVER = "it must not answer"


@dataclass(frozen=True)
class Verdict:
    """What the model says of one response and one request."""

    use: Use
    why: str


@dataclass(frozen=True)
class Exchange:
    """What the origin answered, and the request as it reached the origin; times are instants."""

    number: int
    request: Request
    status: int
    fields: Fields
    body: bytes
    asked: float
    received: float
    doubted: bool = False
    """A HEAD has shown other validators since (4.3.5)."""
    invalid: bool = False
    """An unsafe method has succeeded there since (4.4)."""
    targeted: bool = False
    """CDN-Cache-Control is for the cache that asked (RFC 9213)."""

    @property
    def date(self) -> float:
        """Date, or when it was received (RFC 9110, section 6.6.1)."""
        said = instant(self.fields.get("date"))
        return self.received if said is None else said

    def age(self, now: float) -> float:
        """4.2.3, in its names; Date has whole seconds, so the second it names counts as one instant."""
        apparent_age = max(0.0, math.floor(self.received) - self.date)
        corrected_age_value = age_said(self.fields) + (self.received - self.asked)
        return max(apparent_age, corrected_age_value) + (now - self.received)

    @property
    def said(self) -> dict[str, str]:
        """The directives that govern it (5.2)."""
        return self._for_this_cache() or directives(self.fields)

    @property
    def reason_not_to_store(self) -> set[str]:
        """The fields that are not for others: of private (5.2.2.7), and of no-cache (5.2.2.4)."""
        said = self.said
        return {said[name].lower() for name in ("private", "no-cache") if said.get(name)}

    def has_expires(self) -> bool:
        """Expires does not count beside a targeted field (RFC 9213, section 2.2)."""
        return "expires" in self.fields and not self._for_this_cache()

    def _for_this_cache(self) -> dict[str, str]:
        """A targeted field is a Dictionary, and passed over where it is none, or empty (RFC 9213, section 2.1)."""
        value = self.fields.combined("cdn-cache-control") if self.targeted else None
        found: dict[str, str] = {}
        for member in (value or "").split(","):
            if not re.fullmatch(r"[ \t]*[a-z-]+(=([0-9]+|\"[^\"]*\"))?[ \t]*", member):
                return {}
            name, _, argument = member.strip().partition("=")
            found[name] = argument.strip('"')  # of two with one name the last counts (RFC 9651, section 4.2.2)
        return found


type Heuristic = Callable[[Exchange], float]
"""The lifetime where the origin states none (4.2.2), in seconds."""


@dataclass
class Model:
    """Everything the origin has said, and what has happened to it."""

    heuristic: Heuristic
    history: list[Exchange] = field(default_factory=list)
    stored: set[int] = field(default_factory=set)
    """Numbers of exchanges that the cache says it has stored: they take the place of older ones (4)."""

    def hear(self, exchange: Exchange) -> None:
        """The origin has answered a request of the cache."""
        if exchange.status == 304:
            # Copies of one response that differ in nothing any more are one again.
            self.history += dict.fromkeys(freshened(old, exchange) for old in self._confirmed_by(exchange))
            return
        if exchange.request.method == "HEAD" and exchange.status == 200:
            self._learn_from_head(exchange)
        self.history.append(exchange)

    def changed(self, target: str) -> None:
        """An unsafe method succeeded there: nothing heard before may be used before it is validated (4.4)."""
        self.history = [replace(old, invalid=old.invalid or old.request.target == target) for old in self.history]

    def kept(self, exchange: Exchange, *, stored: bool) -> None:
        """Whether the cache says that it has stored this. If not, it may have let go what it was to replace."""
        if stored:
            self.stored.add(exchange.number)
        elif exchange.status < 500:
            self.stored -= {old.number for old in self.history if old.request.target == exchange.request.target}

    def judged(self, request: Request, now: float) -> Iterator[tuple[Exchange, Verdict]]:
        """Everything heard, and whether it may answer this request."""
        for old in self.history:
            yield old, self.judge(old, request, now)

    def judge(self, old: Exchange, request: Request, now: float) -> Verdict:
        """4: "When presented with a request, a cache MUST NOT reuse a stored response unless …"."""
        if old.request.target != request.target:
            return Verdict(Use.NEVER, "another target URI")
        if request.method != old.request.method and (request.method, old.request.method) != ("HEAD", "GET"):
            return Verdict(Use.NEVER, "another method")
        if (why := why_not_stored(old)) is not None:
            return Verdict(Use.NEVER, why)
        if old.invalid:
            return Verdict(Use.NEVER, "an unsafe method has made it invalid")
        if not selects(old, request):
            return Verdict(Use.NEVER, "the fields that Vary names differ")
        if self._superseded(old, request):
            return Verdict(Use.NEVER, "a more recent one is stored")
        return in_time(old, request, now, self.lifetime(old))

    def lifetime(self, old: Exchange) -> float:
        """4.2.1; what a HEAD has put in doubt is stale."""
        if old.doubted:
            return 0
        said = old.said
        for name in ("s-maxage", "max-age"):
            if name in said:
                return whole(said[name], 0)
        if old.has_expires():
            until = instant(old.fields.get("expires"))
            return 0 if until is None else until - old.date
        return self.heuristic(old) if old.status in HEURISTICALLY_CACHEABLE or "public" in said else 0

    def _superseded(self, old: Exchange, request: Request) -> bool:
        return any(
            newer.number > old.number
            and newer.number in self.stored
            and newer.request.method == old.request.method
            and newer.request.target == old.request.target
            and newer.date >= old.date
            # 4.1: "… the cache SHOULD choose the most recent stored response with a valid Vary field value."
            and ("vary" in newer.fields or "vary" not in old.fields)
            and selects(newer, request)
            and not is_apart(newer, request)
            for newer in self.history
        )

    def _confirmed_by(self, update: Exchange) -> list[Exchange]:
        """4.3.4: all that have its strong tag; a weak validator is of use only among what answers this request."""
        name = "etag" if "etag" in update.fields else "last-modified"
        strong = (update.fields.get("etag") or "W/").startswith('"')
        return [
            old
            for old in self.history
            if old.request.target == update.request.target
            and old.request.method == "GET"
            and old.fields.get(name) == update.fields.get(name)
            and why_not_stored(old) is None
            and (strong or selects(old, update.request))
            and not self._superseded(old, old.request)
        ]

    def _learn_from_head(self, head: Exchange) -> None:
        """4.3.5: a HEAD updates what has its validators, and puts in doubt what has others."""
        updated: dict[Exchange, None] = {}
        for index, old in enumerate(self.history):
            if (
                old.request.target == head.request.target
                and old.request.method == "GET"
                and old.status == 200
                and selects(old, head.request)
                and not is_apart(head, old.request)
            ):
                if all(head.fields.get(name) in (None, old.fields.get(name)) for name in ("etag", "last-modified")):
                    updated[freshened(old, head)] = None
                else:
                    self.history[index] = replace(old, doubted=True)
        self.history += updated


def why_not_stored(old: Exchange) -> str | None:
    """3 and 3.5: why a shared cache must not have kept this for others, or None."""
    said, asked = old.said, directives(old.request.fields)
    # Every status that the origin uses is one that a cache understands (5.2.2.3).
    if ("no-store" in said and "must-understand" not in said) or "no-store" in asked:
        return "no-store"
    if said.get("private") == "":
        return "private"
    if "authorization" in old.request.fields and not said.keys() & {"public", "must-revalidate", "s-maxage"}:
        return "it was given for credentials"
    if old.status in HEURISTICALLY_CACHEABLE or said.keys() & {"public", "max-age", "s-maxage"}:
        return None
    return None if old.has_expires() else "nothing permits to store it"


def selects(old: Exchange, request: Request) -> bool:
    """4.1."""
    named = members(old.fields.combined("vary"))
    return "*" not in named and all(
        members(old.request.fields.combined(name)) == members(request.fields.combined(name)) for name in named
    )


def is_apart(old: Exchange, request: Request) -> bool:
    """Whether this was asked with fields of one client that Vary does not name: it need not count for others.

    2: a cache key "is composed from, at a minimum, the request method and target URI". A cache may add such fields to
    it; then what was stored with other ones is not "suitable" in the sense of 4, and takes no place of what is older.
    """
    named = set(members(old.fields.combined("vary"))) - {"authorization"}
    names = {"accept-language", "x-colour", "authorization"} - named
    mine, theirs = ({name: each.fields.combined(name) for name in names} for each in (old.request, request))
    return any(value is not None for value in mine.values()) and mine != theirs


def in_time(old: Exchange, request: Request, now: float, lifetime: float) -> Verdict:
    """4.2, 4.2.4, 5.2.1: fresh enough for this reader, or permitted to be stale."""
    said, asked = old.said, directives(request.fields)
    age = math.floor(old.age(now))
    stale_for = age - lifetime
    fresh = stale_for < 0
    if said.get("no-cache") == "":
        return Verdict(Use.NEVER, "the origin said no-cache")
    if not fresh and said.keys() & {"must-revalidate", "proxy-revalidate", "s-maxage"}:
        return Verdict(Use.NEVER, f"stale for {stale_for} s, and the origin forbids to use it so")
    if "no-cache" in asked:
        return Verdict(Use.CUT_OFF, "the reader said no-cache")
    if age > whole(asked.get("max-age"), math.inf):
        return Verdict(Use.CUT_OFF, f"{age} s are too old for the reader")
    if "min-fresh" in asked and -stale_for < whole(asked["min-fresh"], math.inf):
        return Verdict(Use.CUT_OFF, "not fresh for long enough for the reader")
    if fresh:
        return Verdict(Use.FREELY, "fresh")
    if "max-stale" in asked and stale_for <= whole(asked["max-stale"] or None, math.inf):
        return Verdict(Use.FREELY, "max-stale")
    if stale_for <= whole(said.get("stale-while-revalidate"), -1) and "max-age" not in asked:
        return Verdict(Use.FREELY, "stale-while-revalidate")
    return Verdict(Use.CUT_OFF, f"stale for {stale_for} s")


def freshened(old: Exchange, update: Exchange) -> Exchange:
    """3.2: the fields of the update replace those of the same name; its age is that of the update (5.1)."""
    replaced = {name.lower() for name, _ in update.fields} | {"age", "date"}
    kept = [line for line in old.fields if line[0].lower() not in replaced]
    lines = [line for line in update.fields if line[0].lower() != "content-length"]
    # What was said to somebody with credentials, or with no-store, is for nobody else (3.5, 5.2.1.5).
    personal = [line for line in update.request.fields if line[0].lower() == "authorization"]
    personal += [("Cache-Control", "no-store")] if "no-store" in directives(update.request.fields) else []
    return replace(
        old,
        number=update.number,
        request=replace(old.request, fields=Fields([*old.request.fields, *personal])),
        fields=Fields([*kept, *lines]),
        asked=update.asked,
        received=update.received,
        doubted=False,
        invalid=False,
    )


def directives(fields: Fields) -> dict[str, str]:
    """Cache-Control (5.2): of two with the same name the first counts (4.2.1); Pragma where it is absent (5.4)."""
    found: dict[str, str] = {}
    for member in members(fields.combined("cache-control")):
        name, _, value = member.partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"'))
    if "cache-control" not in fields and "no-cache" in members(fields.combined("pragma")):
        found["no-cache"] = ""
    return found


def age_said(fields: Fields) -> int:
    """5.1: of a list the first, and what is no number is ignored; parameters make it no less old."""
    found = re.fullmatch(r"\s*([0-9]+)\s*(;[^,]*)?(,.*)?", fields.get("age") or "")
    return int(found[1]) if found else 0


def members(value: str | None) -> tuple[str, ...]:
    """A list's members; the values of this model hold no commas in quotes."""
    return tuple(each.strip() for each in (value or "").split(",") if each.strip())


def whole(value: str | None, otherwise: float) -> float:
    """delta-seconds (1.2.2); what is none counts as 0, what is absent as told."""
    if value is None:
        return otherwise
    return int(value) if value.isdecimal() else 0


def instant(value: str | None) -> float | None:
    """HTTP-date; None where it is none."""
    try:
        return parsedate_to_datetime(value).timestamp() if value else None
    except ValueError:
        return None
