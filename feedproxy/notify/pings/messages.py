"""A ping as a value: weblogUpdates.ping, weblogUpdates.extendedPing, and their HTTP form (RSS Feed State, Pinging)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.http.redaction import has_secret

NAME_MAX = 1024
"""weblogs.com took so many characters, and 255 for an address, which is too few for today's."""
URL_MAX = 2048
TAGS_MAX = 1024


class InvalidCall(FeedproxyError):
    """The call is not of the method's form: a fault, not a refusal."""

    status_hint = 400
    detail = "bad-target"
    fault_code = -32602
    """What implementations of XML-RPC have agreed on for wrong parameters."""


class InvalidPing(FeedproxyError):
    """The call is well-formed, and what it says cannot be a ping: `flerror` is 1, and this is the message."""

    status_hint = 400
    detail = "bad-target"


@dataclass(frozen=True, slots=True)
class Ping:
    """Who says that what has changed. Addresses are normalised; `page` and `feed` may be empty."""

    name: str
    url: str
    """The site's home page; in a simple ping it may be the feed."""
    page: str = ""
    feed: str = ""
    tags: tuple[str, ...] = ()

    def addresses(self) -> list[str]:
        """What was named, the most exact first."""
        return [each for each in dict.fromkeys((self.feed, self.url, self.page)) if each]

    def has_public_address(self) -> bool:
        """Whether its address may be written down: not where it is a secret."""
        return not has_secret(self.url)


def simple(parameters: Sequence[Any]) -> Ping:
    """weblogUpdates.ping: "two parameters, the name and url of the website or blog that has changed".

    The definition of 2001 has two more: the page to check, and a category. Raises BadCall, BadPing.
    """
    name, url, *rest = _texts("weblogUpdates.ping", parameters, 2, 4)
    ping = ping_of(name, url)
    if rest:
        ping = replace(ping, page=_address(rest[0], optional=True), tags=_tags("".join(rest[1:])))
    return ping


def extended(parameters: Sequence[Any]) -> Ping:
    """weblogUpdates.extendedPing: name, home page, changed page, feed, and optionally tags with `|` between them.

    Raises BadCall, BadPing.
    """
    name, url, page, feed, *tags = _texts("weblogUpdates.extendedPing", parameters, 4, 5)
    ping = ping_of(name, url)
    return replace(
        ping, page=_address(page, optional=True), feed=_address(feed, optional=True), tags=_tags("".join(tags))
    )


def ping_of(name: str, url: str) -> Ping:
    """A ping from its two texts. Raises BadPing."""
    name = " ".join(name.split())
    if len(name) > NAME_MAX:
        raise InvalidPing(f"the name is longer than {NAME_MAX} characters")
    return Ping(name, _address(url))


def _texts(method: str, parameters: Sequence[Any], least: int, most: int) -> list[str]:
    if not least <= len(parameters) <= most:
        raise InvalidCall(f"{method} takes {least} to {most} parameters, not {len(parameters)}")
    if not all(isinstance(each, str) for each in parameters):
        raise InvalidCall(f"the parameters of {method} are strings")
    return [each.strip() for each in parameters]


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
        raise InvalidPing(f"{text[:200]} is no address of a site: {error}") from error


def _tags(text: str) -> tuple[str, ...]:
    return tuple(each for each in (tag.strip() for tag in text[:TAGS_MAX].split("|")) if each and each != "none")
