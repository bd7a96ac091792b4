"""Gateway addresses: the target URI that follows the first slash of a gateway's path."""

import re

from feedproxy.errors import NotFound
from feedproxy.http.uri import normalise

_GATEWAY = re.compile(r"/(https?):(?://?(.*))?", re.IGNORECASE | re.DOTALL)


def gateway_target(path: str) -> str:
    """Return the normalised target in a gateway path, which follows the first slash.

    Clients may have folded `//` into `/`. `path` is the path of the request line, including the query. Raises NotFound
    if the target does not begin with http or https, and BadTarget if it is invalid.
    """
    match = _GATEWAY.fullmatch(path)
    if match is None:
        raise NotFound("not a gateway path: expected the whole address of a feed, with https://, after the first slash")
    return normalise(f"{match[1]}://{match[2] or ''}")


def gateway_path(target: str) -> str:
    """Return the path of a target at the gateway, including the query: the inverse of gateway_target."""
    return "/" + target
