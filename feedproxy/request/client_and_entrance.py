"""The client of a request, and its entrance: gateway, explicit proxy or reverse mode."""

from dataclasses import dataclass
from enum import StrEnum


class Entrance(StrEnum):
    """The way in which a request reaches the proxy."""

    GATEWAY = "gateway"
    PROXY = "proxy"
    REVERSE = "reverse"


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The client of a request: its entrance, the proxy's address as the client wrote it, and the client's identity.

    `base` is the proxy's address without a trailing slash, such as `http://proxy.example:8080`. `address` is the
    client's IP address, which trusted proxies may state. `user` is an authenticated name, or empty. `is_counted` is
    False if the request does not come from a subscriber.
    """

    entrance: Entrance
    base: str
    address: str
    user: str = ""
    is_counted: bool = True
