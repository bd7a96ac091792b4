"""A reference model of RFC 9111: it decides which responses of the origin may answer a request.

It is written from the RFC's text and shares no code with the cache that it checks. It is slow and simple: it forgets
nothing and searches everything. Section numbers without a document are those of RFC 9111.

The model says what a cache *may* do. A cache need not store a response, and need not reuse it. The RFC does not define
heuristic lifetimes (section 4.2.2), so the test passes them to the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from enum import Enum

from msgspec import structs

from feedproxy.http.message import Fields, Request

HEURISTICALLY_CACHEABLE = frozenset({200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501})
"""RFC 9110, section 15.1."""


class Use(Enum):
    """The conditions under which a stored response may be used without contacting the origin."""

    FREELY = "it may answer"
    CUT_OFF = "it may answer when the origin cannot be reached, or fails"
    NEVER = "it must not answer"


@dataclass(frozen=True)
class Verdict:
    """The model's decision about one response and one request."""

    use: Use
    why: str


@dataclass(frozen=True)
class Exchange:
    """A response of the origin, and the request as it reached the origin. Times are instants."""

    number: int
    request: Request
    status: int
    fields: Fields
    body: bytes
    asked: float
    received: float
    doubted: bool = False
    """True if a later HEAD has shown other validators (4.3.5)."""
    invalid: bool = False
    """True if an unsafe request for the target has succeeded later (4.4)."""
    optional: bool = False
    """A 304 to a request that another response answers has updated this one (4.3.4). The cache may omit the update."""
    targeted: bool = False
    """True if CDN-Cache-Control applies to the cache that sent the request (RFC 9213)."""

    @property
    def date(self) -> float:
        """Date, or the instant of arrival if Date is absent (RFC 9110, section 6.6.1)."""
        said = instant(self.fields.get("date"))
        return self.received if said is None else said

    def age(self, now: float) -> float:
        """Current age (section 4.2.3). Date has whole seconds, so the second that it names counts as one instant."""
        apparent_age = max(0.0, math.floor(self.received) - self.date)
        corrected_age_value = age_said(self.fields) + (self.received - self.asked)
        return max(apparent_age, corrected_age_value) + (now - self.received)

    @property
    def said(self) -> dict[str, str]:
        """Cache directives that apply to the response (section 5.2)."""
        return self._for_this_cache() or directives(self.fields)

    @property
    def withheld_names(self) -> set[str]:
        """Names of fields that `private` (5.2.2.7) and `no-cache` (5.2.2.4) exclude from reuse."""
        said = self.said
        return {said[name].lower() for name in ("private", "no-cache") if said.get(name)}

    def has_expires(self) -> bool:
        """Return True if Expires counts. It does not count if a targeted field is present (RFC 9213, section 2.2)."""
        return "expires" in self.fields and not self._for_this_cache()

    def _for_this_cache(self) -> dict[str, str]:
        """Return the directives of the targeted field.

        An invalid or empty Dictionary is ignored (RFC 9213, section 2.1).
        """
        value = self.fields.combined("cdn-cache-control") if self.targeted else None
        found: dict[str, str] = {}
        for member in (value or "").split(","):
            if not re.fullmatch(r"[ \t]*[a-z-]+(=([0-9]+|\"[^\"]*\"))?[ \t]*", member):
                return {}
            name, _, argument = member.strip().partition("=")
            found[name] = argument.strip('"')  # the last of two members with one name counts (RFC 9651, section 4.2.2)
        return found


type Heuristic = Callable[[Exchange], float]
"""The lifetime where the origin states none (4.2.2), in seconds."""


@dataclass
class Model:
    """All responses of the origin, and the later events that changed their state."""

    heuristic: Heuristic
    history: list[Exchange] = field(default_factory=list)
    stored: set[int] = field(default_factory=set)
    """Numbers of exchanges that the cache reports as stored. They replace older ones (4)."""

    def hear(self, exchange: Exchange) -> None:
        """Record a response of the origin to a request of the cache."""
        if exchange.status == 304:
            # Copies of one response that no longer differ become one.
            self.history += dict.fromkeys(freshened(old, exchange) for old in self._confirmed_by(exchange))
            return
        if exchange.request.method == "HEAD" and exchange.status == 200:
            self._learn_from_head(exchange)
        self.history.append(exchange)

    def changed(self, target: str) -> None:
        """Record a successful unsafe request: earlier responses must be validated before reuse (section 4.4)."""
        self.history = [replace(old, invalid=old.invalid or old.request.target == target) for old in self.history]

    def kept(self, exchange: Exchange, *, stored: bool) -> None:
        """Record that the cache reports this response as stored or not.

        A response that was not stored may have removed others.
        """
        if stored:
            self.stored -= {old.number for old in self.history if could_answer(old, exchange.request)}
            self.stored.add(exchange.number)
        elif exchange.status < 500:
            self.stored -= {old.number for old in self.history if old.request.target == exchange.request.target}

    def judged(self, request: Request, now: float) -> Iterator[tuple[Exchange, Verdict]]:
        """Yield every recorded response with the verdict on its reuse for this request."""
        for old in self.history:
            yield old, self.judge(old, request, now)

    def judge(self, old: Exchange, request: Request, now: float) -> Verdict:
        """Return the verdict of section 4.

        "When presented with a request, a cache MUST NOT reuse a stored response unless …".
        """
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
        """Return the freshness lifetime in seconds (section 4.2.1). It is 0 for a response that a HEAD contradicts."""
        if old.doubted:
            return 0
        said = old.said
        for name in ("s-maxage", "max-age"):
            if name in said:
                return whole(said[name], 0)
        if old.has_expires():
            until = instant(old.fields.get("expires"))
            # 5.3: an invalid date means "already expired", as any date in the past does.
            return 0 if until is None else max(0.0, until - old.date)
        return self.heuristic(old) if old.status in HEURISTICALLY_CACHEABLE or "public" in said else 0

    def _superseded(self, old: Exchange, request: Request) -> bool:
        return any(
            newer.number > old.number
            and newer.number in self.stored
            and not newer.optional
            and newer.request.method == old.request.method
            and newer.request.target == old.request.target
            # Section 4: "When more than one suitable response is stored, a cache MUST use the most recent one (as
            # determined by the Date header field)". A response to the same fields replaces the older one.
            and (newer.date > old.date or (newer.date == old.date and not is_apart(old, newer.request)))
            # 4.1: "… the cache SHOULD choose the most recent stored response with a valid Vary field value."
            and ("vary" in newer.fields or "vary" not in old.fields)
            and selects(newer, request)
            and not is_apart(newer, request)
            # An error for clients without credentials says nothing to a client with credentials.
            and (newer.status < 400 or "authorization" not in request.fields or "authorization" in newer.request.fields)
            # Only a response to the same credentials replaces the one that is stored for them.
            and old.request.fields.get("authorization") in (None, newer.request.fields.get("authorization"))
            for newer in self.history
        )

    def _confirmed_by(self, update: Exchange) -> list[Exchange]:
        """Return the responses that a 304 updates (section 4.3.4).

        A weak validator applies only to selectable responses.
        """
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
        """Update responses with the validators of a HEAD response, and doubt those with others (section 4.3.5)."""
        updated: dict[Exchange, None] = {}
        for index, old in enumerate(self.history):
            if (
                old.request.target == head.request.target
                and old.request.method == "GET"
                and old.status == 200
                # "each of its stored GET responses that could have been chosen for that request"
                and selects(old, head.request)
            ):
                if all(head.fields.get(name) in (None, old.fields.get(name)) for name in ("etag", "last-modified")):
                    updated[freshened(old, head)] = None
                elif could_answer(old, head.request) and not is_apart(head, old.request):
                    self.history[index] = replace(old, doubted=True)
        self.history += updated


def why_not_stored(old: Exchange) -> str | None:
    """Return the reason why a shared cache must not store this response (sections 3 and 3.5), or None."""
    said, asked = old.said, directives(old.request.fields)
    # A cache understands every status that the origin uses (5.2.2.3).
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
    """Return True if the request matches the fields that Vary names (section 4.1)."""
    named = members(old.fields.combined("vary"))
    return "*" not in named and all(
        members(old.request.fields.combined(name)) == members(request.fields.combined(name)) for name in named
    )


def could_answer(old: Exchange, request: Request) -> bool:
    """Return True if the request selects the response, or would, were it stored and fresh."""
    return old.request.target == request.target and selects(old, request) and not is_apart(old, request)


def is_apart(old: Exchange, request: Request) -> bool:
    """Return True if the request had fields of its client that Vary does not name, so that others may ignore the
    response.

    Section 2: a cache key "is composed from, at a minimum, the request method and target URI". A cache may add such
    fields. A response stored with other fields is then not "suitable" in the sense of section 4, and does not replace
    older responses.
    """
    named = set(members((old.fields.combined("vary") or "").lower())) - {"authorization"}
    names = {"accept-language", "x-colour", "authorization"} - named
    mine, theirs = ({name: each.fields.combined(name) for name in names} for each in (old.request, request))
    return any(value is not None for value in mine.values()) and mine != theirs


def in_time(old: Exchange, request: Request, now: float, lifetime: float) -> Verdict:
    """Return the verdict on freshness (sections 4.2, 4.2.4 and 5.2.1).

    The response is fresh enough, may be served stale, or neither.
    """
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
    """Return the response with the fields of the update (section 3.2) and the age of the update (section 5.1)."""
    replaced = {name.lower() for name, _ in update.fields} | {"age", "date"}
    kept = [line for line in old.fields if line[0].lower() not in replaced]
    lines = [line for line in update.fields if line[0].lower() != "content-length"]
    # Responses to requests with credentials or no-store are for one client (3.5, 5.2.1.5).
    asked = old.request.fields
    if (credentials := update.request.fields.get("authorization")) is not None:
        asked = asked.with_field("Authorization", credentials)
    if "no-store" in directives(update.request.fields):
        asked = asked.with_added("Cache-Control", "no-store")
    return replace(
        old,
        number=update.number,
        request=structs.replace(old.request, fields=asked),
        fields=Fields([*kept, *lines]),
        asked=update.asked,
        received=update.received,
        doubted=False,
        invalid=False,
        optional=not could_answer(old, update.request),
    )


def directives(fields: Fields) -> dict[str, str]:
    """Return the directives of Cache-Control (section 5.2), or of Pragma if it is absent (section 5.4).

    The first of equal names counts.
    """
    found: dict[str, str] = {}
    for member in members(fields.combined("cache-control")):
        name, _, value = member.partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"'))
    if "cache-control" not in fields and "no-cache" in members(fields.combined("pragma")):
        found["no-cache"] = ""
    return found


def age_said(fields: Fields) -> int:
    """Return the value of Age in seconds (section 5.1): the first number of a list, and 0 if it is invalid."""
    found = re.fullmatch(r"\s*([0-9]+)\s*(;[^,]*)?(,.*)?", fields.get("age") or "")
    return int(found[1]) if found else 0


def members(value: str | None) -> tuple[str, ...]:
    """Return the members of a list. The values of this model contain no quoted commas."""
    return tuple(each.strip() for each in (value or "").split(",") if each.strip())


def whole(value: str | None, otherwise: float) -> float:
    """Return delta-seconds (section 1.2.2): `otherwise` if absent, 0 if invalid."""
    if value is None:
        return otherwise
    return int(value) if value.isdecimal() else 0


def instant(value: str | None) -> float | None:
    """Return an HTTP-date as an instant, or None if it is invalid."""
    try:
        return parsedate_to_datetime(value).timestamp() if value else None
    except ValueError:
        return None
