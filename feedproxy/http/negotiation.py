"""Which coding, and which media type, does the reader want? (RFC 9110, section 12.)

Two promises hold whatever a field looks like: nothing is chosen that the reader refused (`q=0`), and a member
that cannot be read is passed over instead of spoiling the rest.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from feedproxy.http.field_values import parse_parameters, split_list
from feedproxy.http.memoize import memoised
from feedproxy.http.message import Fields

_LONGEST = 512
_QVALUE = re.compile(r"(?:0?\.[0-9]+|[01](?:\.[0-9]*)?)")
_ALIASES = {"x-gzip": "gzip", "x-compress": "compress"}
"""RFC 9110, section 8.4.1: names to be taken as equivalent."""
_UNLISTED = 0.0001
"""What identity weighs where it is not mentioned: acceptable, but less than anything that is asked for."""


def choose_coding(accept_encoding: str | None, available: Sequence[str]) -> str | None:
    """Return the coding to answer in: of those available the acceptable one of the greatest weight (section 12.5.3).

    `available` are the codings at hand, identity named among them if it is, in our order of preference,
    which decides among equal weights. Without the field only identity will do: a reader who does not say that
    it decodes mostly does not. None where nothing at hand is acceptable; then "the origin server SHOULD send
    a response without any content coding".
    """
    codings = tuple(available)
    if accept_encoding is None:
        return "identity" if "identity" in codings else None
    if len(accept_encoding) > _LONGEST:
        return _choose_coding.__wrapped__(accept_encoding, codings)
    return _choose_coding(accept_encoding, codings)


@lru_cache(maxsize=4096)
def _choose_coding(accept_encoding: str, available: tuple[str, ...]) -> str | None:
    weights = weights_in(accept_encoding)
    rest = weights.get("*")
    best, best_weight = None, 0.0
    for coding in available:
        weight = weights.get(_ALIASES.get(coding, coding), rest)
        if weight is None:
            weight = _UNLISTED if coding == "identity" else 0.0
        if weight > best_weight:
            best, best_weight = coding, weight
    return best


def weights_in(value: str) -> dict[str, float]:
    """Return the members of a list of codings, or of other tokens, and how much each is wanted (section 12.4.2)."""
    weights: dict[str, float] = {}
    for member in split_list(value):
        name, parameters = parse_parameters(member)
        weight = _weight(parameters)
        if weight is not None:
            coding = _ALIASES.get(name, name)
            # Said twice, the lesser weight counts: a refusal stays one.
            weights[coding] = min(weight, weights.get(coding, weight))
    return weights


def best_type(accept: str | None, offers: Sequence[str]) -> str | None:
    """Return the offered media type that Accept weighs most, the earliest of equals (section 12.5.1).

    The most specific range that covers an offer gives its weight. The first offer where there is no Accept
    (or one that names nothing); None where none of the offers is acceptable.
    """
    ranges = _ranges(accept) if accept is not None else ()
    if not ranges:
        return offers[0] if offers else None
    best, best_weight = None, 0.0
    for offer in offers:
        media_type, parameters = parse_parameters(offer)
        covering = [each for each in ranges if each.covers(media_type, parameters)]
        weight = max(covering, key=lambda each: each.specificity).weight if covering else 0.0
        if weight > best_weight:
            best, best_weight = offer, weight
    return best


class _Range:
    """A media range with its weight."""

    __slots__ = ("media_type", "parameters", "specificity", "weight")

    def __init__(self, media_type: str, parameters: dict[str, str], weight: float) -> None:
        self.media_type = "*/*" if media_type == "*" else media_type  # Java's URLConnection sends a bare star
        self.parameters = parameters
        self.weight = weight
        wildcard = 0 if self.media_type == "*/*" else 1 if self.media_type.endswith("/*") else 2
        # Of two equally specific ranges the lesser weight counts.
        self.specificity = (wildcard, len(parameters), -weight)

    def covers(self, media_type: str, parameters: dict[str, str]) -> bool:
        if self.media_type != "*/*":
            if self.media_type.endswith("/*"):
                if not media_type.startswith(self.media_type[:-1]):
                    return False
            elif media_type != self.media_type:
                return False
        return self.parameters.items() <= parameters.items()


@memoised()
def _ranges(accept: str) -> tuple[_Range, ...]:
    ranges = []
    for member in split_list(accept):
        media_type, parameters = parse_parameters(member)
        weight = _weight(parameters)
        if weight is not None:
            parameters.pop("q", None)
            ranges.append(_Range(media_type, parameters, weight))
    return tuple(ranges)


def _weight(parameters: dict[str, str]) -> float | None:
    """Return the weight, 1 where none is given (section 12.4.2); None for one that cannot be read."""
    text = parameters.get("q")
    if text is None:
        return 1.0
    return min(float(text), 1.0) if _QVALUE.fullmatch(text) else None


def vary_on(fields: Fields, *names: str) -> Fields:
    """Vary names these fields too: another request may get another response (section 12.5.5)."""
    said = split_list(fields.combined("vary") or "")
    known = {name.lower() for name in said}
    if "*" in known:
        return fields
    return fields.with_field("Vary", ", ".join([*said, *(name for name in names if name.lower() not in known)]))
