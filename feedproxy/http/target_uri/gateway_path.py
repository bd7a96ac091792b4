"""Gateway addresses: the target URI that follows the first slash of a gateway's path."""

import re

from feedproxy.errors import NotFound
from feedproxy.http.uri import normalise

_GATEWAY = re.compile(r"/(https?):(?://?(.*))?", re.IGNORECASE | re.DOTALL)


def gateway_target(path: str) -> str:
    """Return the normalised target in a gateway path with its query.

    Some clients replace `//` by `/`, so one slash after the target's scheme is enough. Raises NotFound if the target
    does not begin with http or https, and BadTarget if it is invalid.
    """
    match = _GATEWAY.fullmatch(path)
    if match is None:
        raise NotFound("not a gateway path: expected the whole address of a feed, with https://, after the first slash")
    return normalise(f"{match[1]}://{match[2] or ''}")


def lacks_path(path: str) -> bool:
    """Return True if a gateway path ends with the target's host, as in `/https://example.com`.

    A browser would send the password for this path to all paths below `/https://`, thus to other hosts (RFC 7617, 2.2).
    """
    match = _GATEWAY.fullmatch(path.partition("?")[0])
    return match is not None and bool(match[2]) and "/" not in match[2]


def gateway_path(target: str) -> str:
    """Return the gateway path of a target with its query."""
    return "/" + target
