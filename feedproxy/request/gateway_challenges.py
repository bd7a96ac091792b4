"""Challenges (WWW-Authenticate) that clients of the gateway can answer, and the response if there are none (RFC 9110,
section 11)."""

import re

from feedproxy.cache.cache_status import CacheStatus, Detail, append
from feedproxy.http import uri
from feedproxy.http.credential_fields import CONNECTION_SCHEMES
from feedproxy.http.field_values import PARSED_MAX, TOKEN, quote, split_list, unquote
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.problem_details import problem_response

_UNUSABLE_AT_GATEWAY = CONNECTION_SCHEMES | {"digest"}
"""Schemes with which no client can authenticate through the gateway.

The answer to a Digest challenge depends on the realm and the target, which differ at the gateway. Browsers can answer
challenges of the other schemes with the user's intranet account, and the gateway would send this answer to each site
that asks.
"""

_PARAMETER = re.compile(rf"({TOKEN.pattern})[ \t]*=[ \t]*(?!=|$)(.*)", re.DOTALL)
_SCHEME = re.compile(rf"({TOKEN.pattern})(?:[ \t]+(.*))?", re.DOTALL)
_VALUE = re.compile(rf'{TOKEN.pattern}|"(?:[^"\\]|\\.)*+"', re.DOTALL)
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def with_gateway_challenges(fields: Fields, origin: str) -> Fields:
    """Return the fields with only those challenges that a browser can answer through the gateway.

    Each realm begins with the target's origin, because for a browser, all sites behind the gateway share one set of
    realms (RFC 9110, section 11.5). Otherwise a site could name the realm of another site, and get the password for
    that site.
    """
    if "www-authenticate" not in fields:
        return fields
    lines = []
    for name, value in fields:
        if name.lower() != "www-authenticate":
            lines.append((name, value))
        elif challenges := gateway_challenges(value, origin):
            lines.append((name, challenges))
    return Fields(lines)


def has_only_unusable_challenges(status: int, fields: Fields, client: ClientContext, target: str) -> bool:
    """Return True if a client of the gateway gets a 401 with challenges, and can answer none of them."""
    if client.entrance is not Entrance.GATEWAY or status != 401 or "www-authenticate" not in fields:
        return False
    return "www-authenticate" not in with_gateway_challenges(fields, uri.origin_of(target))


def unusable_challenge_response(request: Request, status: CacheStatus) -> Response:
    """Return an error response in place of a 401 with challenges that no client can answer through the gateway. A 401
    must have a challenge that clients can answer (RFC 9110, section 15.5.2)."""
    reason = (
        f"{uri.origin_of(request.target)} accepts only Digest, NTLM or Negotiate authentication, which cannot work "
        "through the gateway: use feedproxy as explicit proxy for this feed"
    )
    response = problem_response(403, Detail.AUTHENTICATION, reason, request=request)
    return response.with_fields(append(response.fields, status))


def gateway_challenges(value: str, owner: str) -> str:
    """Return the challenges that the gateway passes on, with `owner` (their origin) before each realm, so that a
    browser does not send one origin's credentials to another.

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
