"""Authentication schemes, and the field WWW-Authenticate: a list of challenges.  RFC 9110, section 11"""

import re

from feedproxy.http.field_values import PARSED_MAX, TOKEN, quote, split_list, unquote

_CONNECTION_SCHEMES = frozenset({"ntlm", "negotiate", "kerberos", "credssp"})
"""Schemes that authenticate a connection, and thereby all later requests on the connection (RFC 4559, section 6)."""

_UNUSABLE_AT_GATEWAY = _CONNECTION_SCHEMES | {"digest"}
"""Schemes with which no client can authenticate through the gateway.

A response to Digest depends on the realm and the target, which differ at the gateway. Browsers may answer the other
schemes with the user's intranet account, and the gateway would send this answer to any site.
"""

_PARAMETER = re.compile(rf"({TOKEN.pattern})[ \t]*=[ \t]*(?!=|$)(.*)", re.DOTALL)
_SCHEME = re.compile(rf"({TOKEN.pattern})(?:[ \t]+(.*))?", re.DOTALL)
_VALUE = re.compile(rf'{TOKEN.pattern}|"(?:[^"\\]|\\.)*+"', re.DOTALL)
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def authenticates_connection(credentials: str) -> bool:
    """Return True if this value of Authorization authenticates the connection.

    The connection must then not be shared: the origin would take a later request of another client as a request of the
    first client.
    """
    scheme = _SCHEME.match(credentials)
    return scheme is not None and scheme[1].lower() in _CONNECTION_SCHEMES


def gateway_challenges(value: str, owner: str) -> str:
    """Return the challenges that the gateway passes on, with `owner` before each realm.

    For a browser, all origins at the gateway are one web origin. `owner` is the origin of the challenges. With `owner`
    in the realm, a browser does not send one origin's credentials to another origin.

    If the realm of Basic is missing, `owner` becomes the realm. If a challenge has several realms, the first counts.
    `domain` is dropped, because it extends the realm to other paths (RFC 7616, section 3.3). Malformed parameters are
    dropped. A value longer than PARSED_MAX counts as a value without challenges.
    """
    if len(value) > PARSED_MAX:
        return ""
    challenges: list[tuple[str, list[str]]] = []
    for member in split_list(value):
        if _PARAMETER.fullmatch(member) is None and (match := _SCHEME.fullmatch(member)):
            challenges.append((match[1], [match[2]] if match[2] else []))
        elif challenges:
            challenges[-1][1].append(member)
    return ", ".join(
        _format_challenge(scheme, parameters, owner)
        for scheme, parameters in challenges
        if scheme.lower() not in _UNUSABLE_AT_GATEWAY
    )


def _format_challenge(scheme: str, parameters: list[str], owner: str) -> str:
    realms, others = [], []
    for parameter in parameters:
        if match := _PARAMETER.fullmatch(parameter):
            name, text = match[1], match[2]
            if name.lower() == "realm":
                realms.append(unquote(text))
            elif name.lower() != "domain" and _VALUE.fullmatch(text):
                others.append(f"{name}={text}")
        elif parameter is parameters[0] and _TOKEN68.fullmatch(parameter) and scheme.lower() != "basic":
            return f"{scheme} {parameter}"
    if realms or scheme.lower() == "basic":
        others = [f"realm={quote(' '.join([owner, *realms[:1]]))}", *others]
    return f"{scheme} {', '.join(others)}" if others else scheme
