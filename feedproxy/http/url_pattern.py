"""Patterns over target URIs, as rules write them.

`*` stands for any run of characters: in the host only for those of the host, behind it for all, slashes
included. It is the only sign with a meaning: `?` begins a query, as in any URI. Three forms:

    https://example.com/blog/*   one scheme and port
    example.com/blog/*           any scheme; any port, unless one is named
    *.example.com                without a slash: everything there, but not example.com itself

A pattern is compared with normalised target URIs, and brought to their normal form itself (http/uri.py):
upper case in a host, percent-encoding and international names need no thought.

Where a rule protects, a pattern means more (`protects`): what lax servers answer with the same feed.

Purges and refreshes compare whole addresses, as they are written (`anywhere`).
"""

import re
from dataclasses import dataclass, field

from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.uri_interpretations import as_php, fully_decoded

_SCHEME = re.compile(r"([A-Za-z*][A-Za-z0-9+.*-]*)://(.*)", re.DOTALL)
_ANY_SCHEME = frozenset({"*", "http*"})
_ANYWHERE = "http://host.invalid"


@dataclass(frozen=True, slots=True)
class TargetPattern:
    """A pattern, ready to be compared. Raises BadTarget for one that no target URI can ever match."""

    text: str
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _wide: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _host: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_regex", re.compile(_expression(self.text), re.DOTALL))
        object.__setattr__(self, "_wide", re.compile(_wide_expression(self.text), re.DOTALL | re.IGNORECASE))
        scheme, authority, _ = _split(self.text)
        host = _aliases(_host("http" if scheme == "*" else scheme, authority))
        object.__setattr__(self, "_host", re.compile(host, re.IGNORECASE))

    def matches(self, target: str) -> bool:
        """Does it match this normalised target URI?"""
        return self._regex.fullmatch(target) is not None

    def protects(self, reading: str) -> bool:
        """Does it match this reading of a target (uri_interpretations.py), as a server may that is lax?

        The scheme does not count, nor whether the port is 80 or 443; nor the case of the path, a slash at its end, a
        query where the pattern has none, or the order of its parameters. The names and addresses of loopback are one
        host.
        """
        return self._wide.fullmatch(reading) is not None

    def is_of_host(self, host: str) -> bool:
        """May it match something at this host, as a normalised target writes it, at whatever port?"""
        return self._host.fullmatch(host) is not None


def _split(text: str) -> tuple[str, str, str | None]:
    """Scheme (`*` for any), authority, and what follows the slash; None where there is none."""
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("*", text)
    authority, slash, path = rest.partition("/")
    return "*" if scheme in _ANY_SCHEME else scheme, authority, path if slash else None


_LOOPBACK = (
    r"(?:(?:[^/:]*\.)?localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\]|\[::ffff:127(?:\.\d+){3}\]|\[::ffff:0\.0\.0\.0\])"
)


def _aliases(host: str) -> str:
    """Return the expression for a host without its port, with other names that certainly lead to the same machine."""
    bare = re.sub(r":\d+$", "", host)
    if re.fullmatch(_LOOPBACK, bare.replace("\\", "")):
        return _LOOPBACK
    plain = bare.replace("\\", "").removeprefix("[::ffff:").removesuffix("]")
    if re.fullmatch(r"\d+(?:\.\d+){3}", plain):
        return rf"(?:{re.escape(plain)}|\[::ffff:{re.escape(plain)}\])"
    return bare


def _wide_expression(text: str) -> str:
    scheme, authority, path = _split(text)
    expression = _host(scheme if scheme != "*" else "http", authority)
    port = re.search(r":(\d+)$", expression)
    if port is not None and port[1] not in ("80", "443"):
        where = rf":{port[1]}"
    elif scheme == "*" and port is None:
        where = r"(?::\d+)?"
    else:
        where = r"(?::(?:80|443))?"
    return "https?://" + _aliases(expression) + where + _wide_path(path)


def _wide_path(path: str | None) -> str:
    if path is None:
        return "/.*"
    normal = uri.normalise(f"{_ANYWHERE}/{path}").removeprefix(_ANYWHERE)
    forms = []
    decoded = fully_decoded(normal)
    path_alone, mark, query = decoded.partition("?")
    for each in dict.fromkeys((normal, decoded, path_alone + mark + as_php(query))):
        before, mark, query = each.partition("?")
        if mark:
            forms.append(_globbed(before.rstrip("/"), ".*") + r"/*\?" + _wide_query(query) + ".*")
        elif before.endswith("/*"):
            # What is below a folder, and the folder.
            forms.append(_globbed(before.rstrip("*").rstrip("/"), ".*") + r"(?:/.*|\?.*)?")
        else:
            forms.append(_globbed(before.rstrip("/"), ".*") + r"/*(?:\?.*)?")
    return "(?:" + "|".join(forms) + ")"


def _wide_query(query: str) -> str:
    """Return each parameter of the pattern, in any order and among others. An asterisk at its end stays within it."""
    return "".join(map(_parameter, filter(None, re.split("[&;]", query))))


def _parameter(text: str) -> str:
    ends_in_asterisk = text.endswith("*") and "*" not in text.rstrip("*")
    expression = _globbed(text, "[^&;]*" if ends_in_asterisk else ".*")
    before = "" if text.startswith("*") else "(?:.*[&;])?"
    return rf"(?={before}{expression}(?:[&;].*)?\Z)"


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
    """Return what an operator's glob over whole addresses matches: `*` stands for anything, nothing else is special."""
    return re.compile(_globbed(glob, ".*"), re.DOTALL)


def _globbed(text: str, anything: str) -> str:
    return anything.join(re.escape(part) for part in re.split(r"\*+", text))
