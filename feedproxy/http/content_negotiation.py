"""Content negotiation: choice of content coding and media type, and the field Vary. RFC 9110, section 12

A coding or type with `q=0` is never chosen. Invalid members of a field are ignored. A field with weights, such as
Accept, counts as empty if it is longer than PARSED_MAX.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from feedproxy.http.field_values import PARSED_MAX, field_parser, parse_parameters, split_list
from feedproxy.http.message import Fields

VARY_NAMES_MAX = 64
"""A Vary with more than this many names counts as `*`, because each lookup compares all of the fields."""
_QVALUE = re.compile(r"(?:0?\.[0-9]+|[01](?:\.[0-9]*)?)")
_ALIASES = {"x-gzip": "gzip", "x-compress": "compress"}
"""Old names of codings, with their present names (RFC 9110, section 8.4.1)."""
_UNLISTED = 0.0001
"""Weight of `identity` if Accept-Encoding does not list it: below 0.001, the least positive weight in RFC 9110."""


def choose_coding(accept_encoding: str | None, available: Sequence[str]) -> str | None:
    """Return the available coding with the greatest weight, or None if none is acceptable (RFC 9110, section 12.5.3).

    Of codings with the same weight, the first is chosen. If Accept-Encoding is absent (None), only `identity` is
    acceptable: most clients without the field cannot decode any coding.
    """
    if accept_encoding is None:
        return "identity" if "identity" in available else None
    weights = weights_in(accept_encoding)
    other_weight = weights.get("*")
    best, best_weight = None, 0.0
    for coding in available:
        weight = weights.get(_ALIASES.get(coding, coding), other_weight)
        if weight is None:
            weight = _UNLISTED if coding == "identity" else 0.0
        if weight > best_weight:
            best, best_weight = coding, weight
    return best


@field_parser(too_long=dict[str, float]())
def weights_in(value: str) -> Mapping[str, float]:
    """Return the weights in a list such as Accept-Encoding, by token in lower case (RFC 9110, section 12.4.2)."""
    weights: dict[str, float] = {}
    for member in split_list(value):
        name, parameters = parse_parameters(member)
        weight = _weight(parameters)
        if weight is not None:
            coding = _ALIASES.get(name, name)
            # If a coding is repeated, the lesser weight counts, so that q=0 prevails.
            weights[coding] = min(weight, weights.get(coding, weight))
    return weights


def choose_media_type(accept: str | None, offers: Sequence[str]) -> str | None:
    """Return the offered media type with the greatest weight in Accept, or None if none is acceptable.

    The most specific range for an offer determines its weight (RFC 9110, section 12.5.1). The first of several offers
    with the same weight is chosen. If Accept is absent or has no valid range, the first offer is chosen.
    """
    ranges = _ranges(accept) if accept is not None else ()
    if not ranges:
        return offers[0] if offers else None
    best, best_weight = None, 0.0
    for offer in offers:
        media_type, parameters = parse_parameters(offer)
        covering = [media_range for media_range in ranges if media_range.covers(media_type, parameters)]
        weight = max(covering, key=lambda media_range: media_range.specificity).weight if covering else 0.0
        if weight > best_weight:
            best, best_weight = offer, weight
    return best


class _Range(Struct, frozen=True):
    """A media range of Accept, with its weight."""

    media_type: str
    parameters: dict[str, str]
    weight: float

    @property
    def specificity(self) -> tuple[int, int, float]:
        # Of two equally specific ranges, the lesser weight counts.
        return -self.media_type.count("*"), len(self.parameters), -self.weight

    def covers(self, media_type: str, parameters: dict[str, str]) -> bool:
        main_type = media_type.partition("/")[0]
        return self.media_type in ("*/*", f"{main_type}/*", media_type) and (
            self.parameters.items() <= parameters.items()
        )


@field_parser(too_long=())
def _ranges(accept: str) -> tuple[_Range, ...]:
    ranges = []
    for member in split_list(accept):
        media_type, parameters = parse_parameters(member)
        weight = _weight(parameters)
        if weight is not None:
            parameters.pop("q", None)
            # Java's URLConnection sends a bare asterisk.
            ranges.append(_Range("*/*" if media_type == "*" else media_type, parameters, weight))
    return tuple(ranges)


def _weight(parameters: dict[str, str]) -> float | None:
    """Return the weight in the parameters (RFC 9110, section 12.4.2), 1 if it is absent, or None if it is invalid."""
    text = parameters.get("q")
    if text is None:
        return 1.0
    return min(float(text), 1.0) if _QVALUE.fullmatch(text) else None


def vary_names(fields: Fields) -> tuple[str, ...]:
    """Return the names in Vary, in lower case and without repetition (RFC 9110, section 12.5.5), or `("*",)` if a name
    is `*`, if there are more than VARY_NAMES_MAX, or if the field exceeds PARSED_MAX."""
    value = fields.combined("vary")
    return () if value is None else _vary_members(value)


@field_parser(too_long=("*",))
def _vary_members(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.lower() for name in split_list(value)))
    return ("*",) if "*" in names or len(names) > VARY_NAMES_MAX else names


def vary_on(fields: Fields, *names: str) -> Fields:
    """Return the fields with these names added to Vary (RFC 9110, section 12.5.5)."""
    vary = fields.combined("vary") or ""
    if len(vary) > PARSED_MAX:
        return fields.with_field("Vary", "*")  # as vary_names reads it: a cache in front must not miss the added names
    present = split_list(vary)
    lowered = {name.lower() for name in present}
    if "*" in lowered:
        return fields
    return fields.with_field("Vary", ", ".join([*present, *(name for name in names if name.lower() not in lowered)]))
