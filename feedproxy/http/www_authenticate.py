"""Authentication schemes, and the field WWW-Authenticate: a list of challenges.  RFC 9110, section 11"""

import re

from feedproxy.http.field_values import quote, split_list, unquote

WITH_REALM = ("basic", "digest")
"""Schemes with a realm. A browser sends the credentials for a realm to every address of the web origin that names this
realm."""

_CONNECTION_SCHEME = re.compile(r"(?:ntlm|negotiate|kerberos)(?:\s|\Z)", re.IGNORECASE)
"""Matches credentials with which an origin authenticates a connection, and thereby all later requests on it (RFC 4559,
section 6)."""

_PARAMETER = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*=[ \t]*(?!=|$)(.*)", re.DOTALL)
_SCHEME = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+)(?:[ \t]+(.*))?", re.DOTALL)


def authenticates_connection(credentials: str) -> bool:
    """Return True if this value of Authorization authenticates the connection. The origin would answer a later request
    of another client on this connection as a request of the first client."""
    return _CONNECTION_SCHEME.match(credentials) is not None


def with_realms_of(value: str, owner: str) -> str:
    """Return the challenges with `owner` before the realms of Basic and Digest. Other schemes remain unchanged.

    At the gateway, all origins share one address. With the origin as `owner`, a browser does not send the credentials
    for one origin to another.

    If the realm is missing, `owner` becomes the realm. If a challenge has several realms, the first counts. `domain` is
    dropped, because it would extend the realm to other paths (RFC 7616, section 3.3). Parameters before the first
    challenge are dropped, because they would become part of the challenge on the previous line.
    """
    challenges: list[tuple[str, list[str]]] = []
    for member in split_list(value):
        if _PARAMETER.fullmatch(member) is None and (match := _SCHEME.fullmatch(member)):
            challenges.append((match[1], [match[2]] if match[2] else []))
        elif challenges:
            challenges[-1][1].append(member)
    return ", ".join(_format_challenge(scheme, parameters, owner) for scheme, parameters in challenges)


def _format_challenge(scheme: str, parameters: list[str], owner: str) -> str:
    if scheme.lower() in WITH_REALM:
        realms, others = [], []
        for parameter in parameters:
            match = _PARAMETER.fullmatch(parameter)
            if match and match[1].lower() == "realm":
                realms.append(unquote(match[2]))
            elif match and match[1].lower() != "domain":  # its paths are the origin's, not the gateway's
                others.append(parameter)
        parameters = [f"realm={quote(' '.join([owner, *realms[:1]]))}", *others]
    return f"{scheme} {', '.join(parameters)}" if parameters else scheme
