"""Pings as values: weblogUpdates.ping, weblogUpdates.extendedPing, and their HTTP form (RSS Feed State, Pinging)."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri

NAME_MAX = 1024
"""Maximum number of characters in a site's name, as at weblogs.com."""
URL_MAX = 2048
"""Maximum number of characters in a URL. weblogs.com allowed 255, which is too few today."""
TAGS_MAX = 1024
"""Maximum number of characters in a ping's tags. Further characters are ignored."""


class InvalidCall(FeedproxyError, status=400, detail="bad-target"):
    """Error for an invalid call, for example with wrong parameters. The answer is a fault."""

    fault_code = -32602
    """The XML-RPC fault code for invalid parameters (Specification for Fault Code Interoperability)."""


class InvalidPing(FeedproxyError, status=400, detail="bad-target"):
    """Error for a call with invalid values. The answer has `flerror` 1 and the text of the error."""


class Ping(Struct, frozen=True):
    """A report that a site has changed, with normalised URLs. `page` and `feed` can be empty."""

    name: str
    url: str
    """URL of the site's home page. In a simple ping, it can be the URL of a feed of the site."""
    page: str = ""
    feed: str = ""
    tags: tuple[str, ...] = ()

    def addresses(self) -> list[str]:
        """Return the URLs that the ping names: the feed, the site, and the changed page, in this order."""
        return [address for address in dict.fromkeys((self.feed, self.url, self.page)) if address]


def parse_simple_ping(parameters: Sequence[Any]) -> Ping:
    """Return the ping of a call of weblogUpdates.ping.

    The first two parameters are "the name and url of the website or blog that has changed" (RSS Feed State). Two
    further parameters, page and category, come from the definition of weblogUpdates.ping of 2001.

    Raises InvalidCall if the parameters have the wrong number or types, and InvalidPing if a value is invalid.
    """
    name, url, *page_and_tags = _texts("weblogUpdates.ping", parameters, 2, 4)
    ping = ping_of(name, url)
    if page_and_tags:
        ping = replace(ping, page=_address(page_and_tags[0], optional=True), tags=_tags("".join(page_and_tags[1:])))
    return ping


def parse_extended_ping(parameters: Sequence[Any]) -> Ping:
    """Return the ping of a call of weblogUpdates.extendedPing.

    The parameters are the name, the home page, the changed page, the feed, and tags separated by `|`.

    Raises InvalidCall if the parameters have the wrong number or types, and InvalidPing if a value is invalid.
    """
    name, url, page, feed, *tags = _texts("weblogUpdates.extendedPing", parameters, 4, 5)
    ping = ping_of(name, url)
    return replace(
        ping, page=_address(page, optional=True), feed=_address(feed, optional=True), tags=_tags("".join(tags))
    )


def ping_of(name: str, url: str) -> Ping:
    """Return the ping with a name and a URL. Raises InvalidPing if one of them is invalid."""
    name = " ".join(name.split())
    if len(name) > NAME_MAX:
        raise InvalidPing(f"the name is longer than {NAME_MAX} characters")
    return Ping(name, _address(url))


def _texts(method: str, parameters: Sequence[Any], minimum: int, maximum: int) -> list[str]:
    if not minimum <= len(parameters) <= maximum:
        raise InvalidCall(f"{method} takes {minimum} to {maximum} parameters, not {len(parameters)}")
    if not all(isinstance(parameter, str) for parameter in parameters):
        raise InvalidCall(f"the parameters of {method} are strings")
    return [parameter.strip() for parameter in parameters]


def _address(text: str, *, optional: bool = False) -> str:
    text = text.strip()
    if not text:
        if optional:
            return ""
        raise InvalidPing("the url is missing")
    if len(text) > URL_MAX:
        raise InvalidPing(f"a url is longer than {URL_MAX} characters")
    try:
        return uri.normalise(text)
    except BadTarget as error:
        raise InvalidPing(f"invalid url {text[:200]}: {error}") from error


def _tags(text: str) -> tuple[str, ...]:
    return tuple(tag for tag in (tag.strip() for tag in text[:TAGS_MAX].split("|")) if tag and tag != "none")
