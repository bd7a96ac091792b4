"""Query parameters that do not change a resource, by No-Vary-Search (draft-ietf-httpbis-no-vary-search) or by rules.

An invalid field counts as absent (draft, "Parse a URL search variance").
"""

from urllib.parse import quote, unquote_plus

from msgspec import Struct

from feedproxy.http.field_values import field_parser
from feedproxy.http.structured_fields import Token, parse_dictionary, string_text
from feedproxy.http.target_uri.dictionary_match_pattern import matches_glob
from feedproxy.http.target_uri.url_redaction import sounds_secret

QUERY_MAX = 4096
"""Maximum length of a compared query, in characters. A longer query is equivalent only to itself."""

PARAMETERS_MAX = 128
"""Maximum number of parameters of a compared query, and of names in a field. A field with more is ignored."""

COMMON_NAMES = (
    *("utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "utm_id"),
    *("fbclid", "gclid", "mc_cid", "mc_eid", "null"),
)
"""Names of common query parameters.

No-Vary-Search has no wildcards. For a pattern with a wildcard, feedproxy therefore lists the matching COMMON_NAMES.
"""

type _Pairs = list[tuple[str, str]]


class QueryVariance(Struct, frozen=True):
    """The parameters of a query that identify a resource, and whether their order matters."""

    names: frozenset[str] = frozenset()
    """Names of the ignored parameters or, if `all_but` is True, of the only parameters that are not ignored."""
    all_but: bool = False
    key_order: bool = True

    def are_equivalent(self, one: str, other: str) -> bool:
        """Return True if two normalised URLs are "equivalent modulo search variance" (draft, "Comparing")."""
        if one == other:
            return True
        (path, _, query), (other_path, _, other_query) = one.partition("?"), other.partition("?")
        if path != other_path or "#" in path or self == DEFAULT:
            return False
        if not (_is_comparable(query) and _is_comparable(other_query)):
            return False
        return self._significant(query) == self._significant(other_query)

    def _significant(self, query: str) -> _Pairs:
        pairs = [pair for pair in _pairs(query) if (pair[0] in self.names) is self.all_but]
        return pairs if self.key_order else sorted(pairs, key=lambda pair: pair[0])


DEFAULT = QueryVariance()
"""The variance without No-Vary-Search: no parameter is ignored, and the order of parameters matters."""


@field_parser(too_long=DEFAULT, entries=1024)
def parse_no_vary_search(value: str) -> QueryVariance:
    """Return the variance that No-Vary-Search states, or DEFAULT if the value is invalid or too long."""
    members = parse_dictionary(value)
    if members is None:
        return DEFAULT
    key_order, params, excepted = members.get("key-order", False), members.get("params", False), members.get("except")
    if not isinstance(key_order, bool):
        return DEFAULT
    if isinstance(params, bool):
        if excepted is None:
            return QueryVariance(all_but=params, key_order=not key_order)
        names = _names(excepted) if params else None
        return DEFAULT if names is None else QueryVariance(names, all_but=True, key_order=not key_order)
    names = _names(params)
    if names is None or excepted is not None:
        return DEFAULT
    return QueryVariance(names, key_order=not key_order)


def _names(value: object) -> frozenset[str] | None:
    """Return the parameter names in an inner list (draft, "Parse a key"), or None if it is invalid or too long."""
    if not isinstance(value, tuple) or len(value) > PARAMETERS_MAX:
        return None
    if not all(isinstance(name, str) and not isinstance(name, Token) for name in value):
        return None
    return frozenset(unquote_plus(name) for name in value)


def _is_comparable(query: str) -> bool:
    return len(query) <= QUERY_MAX and query.count("&") < PARAMETERS_MAX


def _pairs(query: str) -> _Pairs:
    """Return the names and values of a query, parsed as application/x-www-form-urlencoded (URL Standard)."""
    parts = (part.partition("=") for part in query.split("&") if part)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in parts]


def without_parameters(target: str, patterns: tuple[str, ...]) -> str:
    """Return a normalised target without the parameters that match the patterns. `*` in a pattern is a wildcard.

    Only a pattern without a wildcard removes a parameter with a name that suggests a secret.
    """
    path, mark, query = target.partition("?")
    if not mark or not patterns or "#" in query or len(query) > QUERY_MAX:
        return target
    parts = [part for part in query.split("&") if not _is_ignored(unquote_plus(part.partition("=")[0]), patterns)]
    if len(parts) == query.count("&") + 1:
        return target
    remaining = "&".join(parts)
    return f"{path}?{remaining}" if remaining else path


def no_vary_search(patterns: tuple[str, ...]) -> str:
    """Return the value of No-Vary-Search for the parameters that match `patterns`, or "" if there are none.

    A pattern with a wildcard stands for the matching COMMON_NAMES.
    """
    exact = [pattern for pattern in patterns if "*" not in pattern]
    names = dict.fromkeys([*exact, *(name for name in COMMON_NAMES if _is_ignored(name, patterns))])
    members = " ".join(string_text(quote(name, safe="")) for name in names)
    return f"params=({members})" if members else ""


def _is_ignored(name: str, patterns: tuple[str, ...]) -> bool:
    if name in patterns:
        return True
    globs = (pattern.split("*") for pattern in patterns if "*" in pattern)
    return any(matches_glob(parts, name) for parts in globs) and not sounds_secret(name)
