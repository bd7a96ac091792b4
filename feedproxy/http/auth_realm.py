"""Challenges for credentials (RFC 9110, section 11.6.1): a list of schemes, each followed by its parameters."""

import re

from feedproxy.http.field_values import quote, split_list, unquote

WITH_REALM = ("basic", "digest")
"""The schemes that ask people for a password, whose credentials are sent wherever their realm is named again."""

_PARAMETER = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*=[ \t]*(?!=|$)(.*)", re.DOTALL)
_SCHEME = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+)(?:[ \t]+(.*))?", re.DOTALL)


def with_realms_of(value: str, owner: str) -> str:
    """Return the challenges with the owner's name before the realms of Basic and Digest; other schemes unchanged.

    A realm that is missing is the owner's name, of several in one challenge the first counts. What belongs to no
    challenge is dropped: joined to the line before, it would be a part of that one's.
    """
    challenges: list[tuple[str, list[str]]] = []
    for member in split_list(value):
        if _PARAMETER.fullmatch(member) is None and (found := _SCHEME.fullmatch(member)):
            challenges.append((found[1], [found[2]] if found[2] else []))
        elif challenges:
            challenges[-1][1].append(member)
    return ", ".join(_written(scheme, parameters, owner) for scheme, parameters in challenges)


def _written(scheme: str, parameters: list[str], owner: str) -> str:
    if scheme.lower() in WITH_REALM:
        realms, others = [], []
        for each in parameters:
            found = _PARAMETER.fullmatch(each)
            if found and found[1].lower() == "realm":
                realms.append(unquote(found[2]))
            elif found:
                others.append(each)
        parameters = [f"realm={quote(' '.join([owner, *realms[:1]]))}", *others]
    return f"{scheme} {', '.join(parameters)}" if parameters else scheme
