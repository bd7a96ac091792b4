"""Cache-Control as a value (RFC 9111, section 5.2), and targeted fields such as CDN-Cache-Control (RFC 9213).

Commas, semicolons and spaces separate directives. An invalid duration counts as 0, because RFC 9111, section 4.2.1,
recommends to treat such a response as stale. If a directive is repeated, the more restrictive value counts. A field
longer than PARSED_MAX counts as `no-store, no-transform` in a response, and as absent in a request.
"""

import math
import re
from collections.abc import Iterable

from msgspec import Struct

from feedproxy.clock import Seconds
from feedproxy.http.field_values import PARSED_MAX, field_parser, is_token, unquote
from feedproxy.http.message import Fields
from feedproxy.http.structured_fields import Token, parse_dictionary

DELTA_SECONDS_MAX: Seconds = 2.0**31
"""Upper limit of a duration, in seconds: 2^31 (RFC 9111, section 1.2.2). A greater duration counts as the limit."""

_DIRECTIVE = re.compile(r"""([^\s,;="]+)(?:=("(?:[^"\\]|\\.)*+"|[^\s,;]*+))?""", re.DOTALL)
_DIGITS = re.compile(r"[0-9]+")
_TARGETED = re.compile(r"(?:.+-cache|surrogate|edge)-control|x-accel-expires", re.IGNORECASE)
"""Pattern of the names of targeted fields (RFC 9213), and of older fields with the same effect: Surrogate-Control,
Edge-Control (Akamai) and X-Accel-Expires (nginx)."""

# Each directive has an attribute of CacheControl with the same name.
_FLAGS = frozenset(
    {"no-store", "public", "must-revalidate", "proxy-revalidate", "must-understand", "no-transform", "only-if-cached"}
)
_DURATIONS = frozenset({"max-age", "s-maxage", "stale-while-revalidate", "stale-if-error", "min-fresh", "max-stale"})
_QUALIFIED = frozenset({"no-cache", "private"})


class CacheControl(Struct, frozen=True):
    """The directives of a message's Cache-Control.

    Durations are in seconds, at most 2**31, and None if absent. A max-stale without an argument is math.inf. `no_cache`
    and `private` are True if the directive occurs without an argument. `no_cache_fields` and `private_fields` are the
    field names in the arguments of these directives, in lower case.
    """

    no_store: bool = False
    no_cache: bool = False
    no_cache_fields: frozenset[str] = frozenset()
    private: bool = False
    private_fields: frozenset[str] = frozenset()
    public: bool = False
    must_revalidate: bool = False
    proxy_revalidate: bool = False
    must_understand: bool = False
    no_transform: bool = False
    only_if_cached: bool = False
    max_age: Seconds | None = None
    s_maxage: Seconds | None = None
    stale_while_revalidate: Seconds | None = None
    stale_if_error: Seconds | None = None
    min_fresh: Seconds | None = None
    max_stale: Seconds | None = None

    @classmethod
    def from_fields(cls, fields: Fields) -> "CacheControl":
        """Return the directives in all lines of Cache-Control together."""
        combined = fields.combined("cache-control")
        return ABSENT if combined is None else _parse(combined)

    @classmethod
    def from_request(cls, fields: Fields) -> "CacheControl":
        """Return the directives of a request. If Cache-Control is absent, `Pragma: no-cache` counts as no-cache (RFC
        9111, section 5.4)."""
        combined = fields.combined("cache-control")
        if combined is not None:
            return _parse(combined) if len(combined) <= PARSED_MAX else ABSENT
        pragma = fields.combined("pragma")
        return _PRAGMA if pragma is not None and _parse(pragma).no_cache else ABSENT


def without_targeted(fields: Fields) -> Fields:
    """Return `fields` without targeted fields, which take precedence over Cache-Control in certain caches (CDNs)."""
    return fields.without(*(name for name, _ in fields if _TARGETED.fullmatch(name)))


def without_directives(fields: Fields, *names: str, field: str = "cache-control") -> str:
    """Return the text of Cache-Control, or of another `field`, without the directives `names` (lower case)."""
    combined = fields.combined(field) or ""
    return ", ".join(match[0] for match in _DIRECTIVE.finditer(combined) if match[1].lower() not in names)


ABSENT = CacheControl()
_PRAGMA = CacheControl(no_cache=True)
_UNPARSED = CacheControl(no_store=True, no_transform=True)


def parse_targeted(fields: Fields, name: str) -> CacheControl | None:
    """Return the directives of the targeted field `name`, such as CDN-Cache-Control.

    Return None if the field is absent, empty or malformed (RFC 9213, section 2.1). An invalid duration counts as 0.
    """
    combined = fields.combined(name)
    return None if combined is None else _parse_targeted(combined)


@field_parser(too_long=_UNPARSED)
def _parse(value: str) -> CacheControl:
    return _read((match[1], match[2]) for match in _DIRECTIVE.finditer(value))


@field_parser(too_long=_UNPARSED)
def _parse_targeted(value: str) -> CacheControl | None:
    members = parse_dictionary(value)
    if not members:
        return None
    directives: list[tuple[str, str | None]] = []
    for name, argument in members.items():
        match argument:
            case False:
                pass
            case True:
                directives.append((name, None))
            case Token():
                directives.append((name, argument))
            case str() if name in _QUALIFIED:
                directives.append((name, argument))
            case int() if argument >= 0:
                directives.append((name, str(argument)))
            case _:
                directives.append((name, ""))
    return _read(directives)


def _read(directives: Iterable[tuple[str, str | None]]) -> CacheControl:
    flags: dict[str, bool] = {}
    durations: dict[str, Seconds] = {}
    fields_by_directive: dict[str, frozenset[str]] = {}
    for name, argument in directives:
        directive = name.lower()
        attribute = directive.replace("-", "_")
        if directive in _FLAGS:
            flags[attribute] = True  # with or without an argument
        elif directive in _DURATIONS:
            seconds = _seconds(argument)
            if directive == "max-stale" and argument is None:
                seconds = math.inf
            stricter = max if directive == "min-fresh" else min
            durations[attribute] = stricter(seconds, durations.get(attribute, seconds))
        elif directive in _QUALIFIED:
            if fields := _field_names(argument):
                qualified = f"{attribute}_fields"
                fields_by_directive[qualified] = fields_by_directive.get(qualified, frozenset()) | fields
            else:
                flags[attribute] = True
    return CacheControl(**flags, **durations, **fields_by_directive)  # type: ignore[arg-type] # by name


def _seconds(argument: str | None) -> Seconds:
    """Return the seconds in a directive's argument, quoted or not (RFC 9111, section 5.2), or 0 if there are none."""
    digits = unquote(argument or "")
    return delta_seconds(digits) if _DIGITS.fullmatch(digits) else 0.0


def delta_seconds(digits: str) -> Seconds:
    # int() refuses to parse thousands of digits; float() does not.
    return min(float(digits), DELTA_SECONDS_MAX)


def _field_names(argument: str | None) -> frozenset[str]:
    """Return the field names in a directive's argument, or an empty set if it is absent or a name is invalid."""
    names = [name.strip().lower() for name in unquote(argument or "").split(",") if name.strip()]
    return frozenset(names) if all(map(is_token, names)) else frozenset()
