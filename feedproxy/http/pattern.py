"""Patterns over target URIs, as rules write them.

`*` stands for any run of characters: in the host only for those of the host, behind it for all, slashes
included. It is the only sign with a meaning: `?` begins a query, as in any URI. Three forms:

    https://example.com/blog/*   one scheme and port
    example.com/blog/*           any scheme; any port, unless one is named
    *.example.com                without a slash: everything there, but not example.com itself

A pattern is compared with normalised target URIs, and brought to their normal form itself (http/uri.py):
upper case in a host, percent-encoding and international names need no thought.

Purges and refreshes compare whole addresses, as they are written (`anywhere`).
"""

import re
from dataclasses import dataclass, field

from feedproxy.errors import BadTarget
from feedproxy.http import uri

_SCHEME = re.compile(r"([A-Za-z*][A-Za-z0-9+.*-]*)://(.*)", re.DOTALL)
_ANY_SCHEME = frozenset({"*", "http*"})
_ANYWHERE = "http://host.invalid"


@dataclass(frozen=True, slots=True)
class TargetPattern:
    """A pattern, ready to be compared. Raises BadTarget for one that no target URI can ever match."""

    text: str
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_regex", re.compile(_expression(self.text), re.DOTALL))

    def matches(self, target: str) -> bool:
        """Does it match this normalised target URI?"""
        return self._regex.fullmatch(target) is not None


def _expression(text: str) -> str:
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("*", text)
    if scheme not in _ANY_SCHEME and scheme not in {"http", "https"}:
        raise BadTarget(f"only http and https targets can match, not {scheme}")
    authority, slash, path = rest.partition("/")
    if not authority or "@" in authority or "?" in authority:
        raise BadTarget("a pattern names a host, no user, and a slash before its query")
    if scheme in _ANY_SCHEME:
        where = "https?://" + _host("http", authority) + r"(?::\d+)?"
    else:
        where = f"{scheme}://" + _host(scheme, authority)
    # Asterisks are ordinary characters of a path, so that its normal form keeps them.
    return where + (_globbed(uri.normalise(f"{_ANYWHERE}/{path}").removeprefix(_ANYWHERE), ".*") if slash else "/.*")


def _host(scheme: str, authority: str) -> str:
    if "*" in authority:
        if re.search(r"[\s#\\]", authority):
            raise BadTarget("a host holds no such characters")
        return _globbed(authority.lower(), "[^/]*")
    return re.escape(uri.normalise(f"{scheme}://{authority}/").split("/")[2])


def anywhere(glob: str) -> re.Pattern[str]:
    """What an operator's glob over whole addresses matches: `*` stands for anything, nothing else is special."""
    return re.compile(_globbed(glob, ".*"), re.DOTALL)


def _globbed(text: str, anything: str) -> str:
    return anything.join(re.escape(part) for part in re.split(r"\*+", text))
