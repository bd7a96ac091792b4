"""Sources that users name in commands: addresses and files."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from feedproxy.errors import Forbidden, TooLarge, UsageError
from feedproxy.feed.feed_scheme import strip_feed_scheme
from feedproxy.http import uri
from feedproxy.settings import Settings

_FILES = r"xml|rss|atom|rdf|json|opml|html?|cdf|har|txt|gz"
_SCHEMELESS = re.compile(rf"(?!\.)(?:[A-Za-z0-9-]+\.)+(?!(?:{_FILES})$)[A-Za-z][A-Za-z0-9-]+(?::\d+)?(?:/|$)")
"""Pattern of the beginning of an address without a scheme: a host name with a dot, and possibly a port. It does not
match a file name alone, such as `feed.xml`."""

_HOST_AND_PORT = re.compile(r"[^/\s]+:\d+(?:/|$)")


def parse_source(source: str) -> str | None:
    """Return the http or https address in `source`, or None if `source` is a file.

    A prefix `feed:` is removed. A `source` without a scheme that begins with a host name with a dot
    (`example.com/feed.xml`) becomes an https address, unless a file of this name exists.
    """
    text = strip_feed_scheme(source)
    if text.lower().startswith(("http://", "https://")):
        return text
    if _SCHEMELESS.match(text) and not Path(text).exists():
        return f"https://{text}"
    return None


@contextmanager
def private_address_hint(source: str, settings: Settings) -> Iterator[None]:
    """Add a hint at `--allow-private` to the error Forbidden, if the address in `source` is private."""
    try:
        yield
    except Forbidden as error:
        address = parse_source(source)
        if settings.allow_private or address is None or not uri.is_local(uri.normalise(address)):
            raise
        raise Forbidden(f"{error} (--allow-private permits it)") from error


def from_file(source: str, limit: int) -> bytes:
    """Return the content of a file, named by its path or a `file:` address. Raises UsageError if the file cannot be
    read, and TooLarge if it has more than `limit` bytes."""
    if not source:
        raise UsageError("expected a file or a URL, not an empty text")
    split = urlsplit(source)
    path = unquote(split.path) if split.scheme.lower() == "file" else source
    try:
        with Path(path).open("rb") as file:
            body = file.read(limit + 1)
    except (OSError, ValueError) as error:
        hint = "; a URL begins with http:// or https://" if _HOST_AND_PORT.match(source) else ""
        raise UsageError(f"{source}: {getattr(error, 'strerror', None) or error}{hint}") from error
    if len(body) > limit:
        raise TooLarge(f"{source} is larger than {limit} bytes")
    return body
