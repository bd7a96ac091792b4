"""Patterns of target URIs, for the rules of the configuration.

`*` matches any text, but in the host no slash. There are three forms:

    https://example.com/blog/*   matches one scheme and one port
    example.com/blog/*           matches any scheme, and any port unless the pattern names a port
    *.example.com                has no slash, and matches all paths of hosts below example.com

Patterns are normalised like target URIs (http/uri.py), so the case of hosts, percent-encoding, and the form of
international names do not matter. Commands to purge or refresh feeds use another kind of pattern (`compile_glob`).
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.target_uri.path_confusion import as_php, fully_decoded

_SCHEME = re.compile(r"([A-Za-z*][A-Za-z0-9+.*-]*)://(.*)", re.DOTALL)
_ANY_SCHEME = frozenset({"*", "http*"})
_ANYWHERE = "http://host.invalid"


@dataclass(frozen=True)
class TargetPattern:
    """A pattern, compiled at the first use. The constructor raises BadTarget if no target URI can match it."""

    text: str

    def __post_init__(self) -> None:
        _expression(self.text)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy in another process, without the compiled expressions."""
        return {"text": self.text}

    def compile(self, *, protects: bool) -> None:
        """Compile the expression for `matches` now. If the argument `protects` is True, also compile those for the
        methods `protects` and `is_of_host`."""
        _ = self._regex
        if protects:
            _ = self._wide, self._host

    @cached_property
    def host(self) -> str | None:
        """Return the host of all targets that the pattern matches, or None if it contains an asterisk."""
        scheme, authority, _ = _split(self.text)
        if "*" in authority:
            return None
        return uri.host_of(uri.normalise(f"{'http' if scheme == '*' else scheme}://{authority}/"))

    @cached_property
    def only_host(self) -> str | None:
        """Return the one host for which `is_of_host` is True, or None if there can be several."""
        return self.host if self.host is not None and not _HAS_ALIASES.fullmatch(self.host) else None

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(_expression(self.text), re.DOTALL)

    @cached_property
    def _wide(self) -> re.Pattern[str]:
        return re.compile(_wide_expression(self.text), re.DOTALL | re.IGNORECASE)

    @cached_property
    def _host(self) -> re.Pattern[str]:
        scheme, authority, _ = _split(self.text)
        expression = _host_expression("http" if scheme == "*" else scheme, authority)
        return re.compile(_aliases(expression), re.IGNORECASE)

    def matches(self, target: str) -> bool:
        """Return True if the pattern matches this normalised target URI."""
        return self._regex.fullmatch(target) is not None

    def protects(self, interpretation: str) -> bool:
        """Return True if the pattern protects a target that a server interprets in this way (path_confusion.py).

        Like lax servers, the comparison ignores the scheme, port 80 or 443, the case of the path, a trailing slash, and
        the order of parameters. A pattern without a query matches any query. All names of loopback count as one host.
        """
        return self._wide.fullmatch(interpretation) is not None

    def is_of_host(self, host: str) -> bool:
        """Return True if the pattern can match a target at this host, at any port."""
        return self._host.fullmatch(host) is not None


def _split(text: str) -> tuple[str, str, str | None]:
    """Return the scheme, the authority, and the text after the first slash of a pattern.

    A missing scheme is `*`. The text is None if the pattern has no slash.
    """
    match = _SCHEME.fullmatch(text)
    scheme, remainder = (match[1].lower(), match[2]) if match else ("*", text)
    authority, slash, path = remainder.partition("/")
    return "*" if scheme in _ANY_SCHEME else scheme, authority, path if slash else None


_LOOPBACK = (
    r"(?:(?:[^/:]*\.)?localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\]|\[::ffff:127(?:\.\d+){3}\]|\[::ffff:0\.0\.0\.0\])"
)
_HAS_ALIASES = re.compile(_LOOPBACK + r"|(?:\[::ffff:)?\d+(?:\.\d+){3}\]?")
"""Pattern of the hosts for which `_aliases` returns more than one name."""


def _aliases(host: str) -> str:
    """Return a regular expression for a host and all other names of the same machine, without a port.

    `host` is a regular expression, too. All names and addresses of the loopback interface are names of one machine. So
    are an IPv4 address and the same address in the form of IPv6.
    """
    bare = re.sub(r":\d+$", "", host)
    if re.fullmatch(_LOOPBACK, bare.replace("\\", "")):
        return _LOOPBACK
    plain = bare.replace("\\", "").removeprefix("[::ffff:").removesuffix("]")
    if re.fullmatch(r"\d+(?:\.\d+){3}", plain):
        return rf"(?:{re.escape(plain)}|\[::ffff:{re.escape(plain)}\])"
    return bare


def _wide_expression(text: str) -> str:
    scheme, authority, path = _split(text)
    expression = _host_expression(scheme if scheme != "*" else "http", authority)
    port = re.search(r":(\d+)$", expression)
    if port is not None and port[1] not in ("80", "443"):
        port_expression = rf":{port[1]}"
    elif scheme == "*" and port is None:
        port_expression = r"(?::\d+)?"
    else:
        port_expression = r"(?::(?:80|443))?"
    return "https?://" + _aliases(expression) + port_expression + _wide_path(path)


def _wide_path(path: str | None) -> str:
    if path is None:
        return "/.*"
    normal, forms = _normal_path(path), []
    decoded = fully_decoded(normal)
    path_alone, mark, query = decoded.partition("?")
    for form in dict.fromkeys((normal, decoded, path_alone + mark + as_php(query))):
        before, mark, query = form.partition("?")
        if mark:
            # An asterisk at the end of a parameter matches only text within the parameter.
            parameters = "".join(map(_parameter, filter(None, re.split("[&;]", query))))
            forms.append(_glob_expression(before.rstrip("/"), ".*") + r"/*\?" + parameters + ".*")
        elif before.endswith("/*"):
            # The folder, and all paths below it.
            forms.append(_glob_expression(before.rstrip("*").rstrip("/"), ".*") + r"(?:/.*|\?.*)?")
        else:
            forms.append(_glob_expression(before.rstrip("/"), ".*") + r"/*(?:\?.*)?")
    return "(?:" + "|".join(forms) + ")"


def _parameter(text: str) -> str:
    ends_in_asterisk = text.endswith("*") and "*" not in text.rstrip("*")
    first, asterisk, others = text.partition("*")
    start = "(?:.*?[&;])??" + re.escape(first) if first else ""
    rest = _glob_expression(asterisk + others, "[^&;]*" if ends_in_asterisk else ".*")
    return rf"(?={f'(?>{start})' if asterisk else start}{rest}(?:[&;].*)?\Z)"


def _expression(text: str) -> str:
    scheme, authority, path = _split(text)
    if scheme not in {"*", "http", "https"}:
        raise BadTarget(f"invalid pattern: expected the scheme http or https, not {scheme}")
    if not authority or "@" in authority or "?" in authority:
        raise BadTarget("invalid pattern: expected a host without a user name, and a slash before a query")
    if scheme == "*":
        origin_expression = "https?://" + _host_expression("http", authority) + r"(?::\d+)?"
    else:
        origin_expression = f"{scheme}://" + _host_expression(scheme, authority)
    return origin_expression + ("/.*" if path is None else _glob_expression(_normal_path(path), ".*"))


def _normal_path(path: str) -> str:
    # Asterisks are ordinary characters of a path, so normalisation keeps them.
    return uri.normalise(f"{_ANYWHERE}/{path}").removeprefix(_ANYWHERE)


def _host_expression(scheme: str, authority: str) -> str:
    if "*" in authority:
        if re.search(r"[\s#\\]", authority):
            raise BadTarget(f"invalid host {authority!r} in a pattern")
        return _glob_expression(authority.lower(), "[^/]*")
    return re.escape(uri.normalise(f"{scheme}://{authority}/").split("/")[2])


def compile_glob(glob: str) -> re.Pattern[str]:
    """Return the regular expression of an operator's glob, in which `*` stands for any text."""
    return re.compile(_glob_expression(glob, ".*"), re.DOTALL)


def _glob_expression(text: str, anything: str) -> str:
    """Return the regular expression of a glob. `anything` is the regular expression for an asterisk.

    A part between two asterisks matches only at its first position in the remaining text. Other positions would match
    no further texts, and the time would grow with a power of the text's length.
    """
    first, *others = map(re.escape, re.split(r"\*+", text))
    inner = "".join(f"(?>{anything}?{part})" for part in others[:-1])
    return first + inner + "".join(anything + last for last in others[-1:])
